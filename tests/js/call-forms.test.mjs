// Tests of calls in the forms of OLMo 3, Llama 3.2 and 4 (lists in Python) and InternLM2. They are parsed from complete replies and from
// streams, with marks that are tokens or texts, and written to the next prompt in a form that the model can generate.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createEngine, fromBytes } from '../../js/node.js';
import { ENDS, marksOf, TEMPLATES } from './call-templates.mjs';
import { modelWith, scriptReply } from './scripted.mjs';

const USER = { role: 'user', content: 'Hi' };
const parameters = {
  type: 'object',
  properties: { city: { type: 'string' }, days: { type: 'integer' }, warm: { type: ['boolean', 'null'] } },
  required: ['city'],
  additionalProperties: false,
};
/** One tool's name begins with the other's. @type {any[]} */
const TOOLS = [
  { type: 'function', function: { name: 'weather', parameters } },
  { type: 'function', function: { name: 'weather_now', parameters: { type: 'object', properties: {} } } },
];
const must = { tool_choice: 'required' };
const OSLO = ['weather', { city: 'Oslo' }];
const NOW = ['weather_now', {}];
const INTERN = (/** @type {string} */ name, /** @type {string} */ given) =>
  `<|action_start|><|plugin|>\n{"name": "${name}", "parameters": ${given}}<|action_end|>`;

/**
 * Text that a model writes, and the expected content and calls.
 * @type {[template: string, text: string, request: object, content: string | null, calls: any[]][]}
 */
const REPLIES = [
  ['olmo3', 'Well, no.', {}, 'Well, no.', []],
  ['olmo3', '<function_calls>weather(city="Oslo")</function_calls>', {}, null, [OSLO]],
  ['olmo3', 'I look.\n<function_calls>weather(city="Oslo")</function_calls>', {}, 'I look.\n', [OSLO]],
  [
    'olmo3',
    '<function_calls>weather(city="O\\"sl\\"o", days=3, warm=null)\nweather_now()</function_calls>',
    {},
    null,
    [['weather', { city: 'O"sl"o', days: 3, warm: null }], NOW],
  ],
  [
    'olmo3',
    "<function_calls>weather(city='Oslo', warm=True)</function_calls>",
    must,
    null,
    [['weather', { city: 'Oslo', warm: true }]],
  ],
  ['olmo3', '<function_calls>weather_now()</function_calls>', { parallel_tool_calls: false }, null, [NOW]],
  ['olmo3', 'a <function', {}, 'a <function', []],
  ['pythonic, as JSON', '[weather(city="Oslo")]', {}, null, [OSLO]],
  ['pythonic, as JSON', '\n[weather(city="Oslo")]', {}, null, [OSLO]],
  ['pythonic, as JSON', ' [ weather(city="Oslo"), weather_now()]', {}, null, [OSLO, NOW]],
  ['pythonic, as JSON', '[weather(city="Oslo"), weather_now()]', { parallel_tool_calls: false }, null, [OSLO]],
  [
    'pythonic, without quotes',
    "[weather_now(), weather(city='Oslo', days=-2)]",
    {},
    null,
    [NOW, ['weather', { city: 'Oslo', days: -2 }]],
  ],
  ['pythonic, without quotes', '[weather(city="Oslo")]', must, null, [OSLO]],
  ['pythonic, in quotes without escapes', '[weather(city="O\'s")]', {}, null, [['weather', { city: "O's" }]]],
  ['pythonic, as JSON', '[{"name": "weather", "arguments": {"city": "Oslo"}}]', {}, null, [OSLO]],
  ['pythonic, as JSON', '{"name": "weather", "parameters": {"city": "Oslo"}}', {}, null, [OSLO]],
  ['pythonic, as JSON', '[1, 2] and [weather(x)]', {}, '[1, 2] and [weather(x)]', []],
  ['pythonic, as JSON', '[weath', {}, '[weath', []],
  ['pythonic, as JSON', '[weather_later()]', {}, '[weather_later()]', []],
  ['internlm2', `Sure.${INTERN('weather', '{"city": "Oslo"}')}`, {}, 'Sure.', [OSLO]],
  ['internlm2', INTERN('weather', '{"city": "Oslo"}') + INTERN('weather_now', '{}'), {}, null, [OSLO, NOW]],
  ['internlm2', INTERN('weather_now', '{}'), must, null, [NOW]],
  ['internlm2, as it is given', `Sure.${INTERN('weather', '{"city": "Oslo"}')}`, {}, 'Sure.', [OSLO]],
];

for (const areTokens of [true, false])
  describe(`forms of calls, with marks that are ${areTokens ? 'tokens' : 'spelled'}`, () => {
    /** @type {import('../../js/shared/types.js').Engine} */
    let engine;
    /** @type {Record<string, import('../../js/shared/types.js').Model>} */
    const models = {};
    const marks = (/** @type {string} */ name) => (areTokens ? marksOf(name) : false);
    before(async () => {
      engine = await createEngine({ threads: 1 });
      for (const name of new Set(REPLIES.map(([template]) => template)))
        models[name] = await engine.load(
          fromBytes(
            await modelWith(TEMPLATES[/** @type {keyof typeof TEMPLATES} */ (name)], {
              marks: marks(name),
              ends: ENDS,
            }),
          ),
        );
    });
    after(() => engine.close());

    for (const [name, text, more, content, calls] of REPLIES)
      test(`${name}: ${JSON.stringify(text)} ${JSON.stringify(more)}`, async (t) => {
        const request = /** @type {any} */ ({
          messages: [USER],
          tools: TOOLS,
          temperature: 0,
          max_tokens: 400,
          ...more,
        });
        const { create } = models[name].chat.completions;
        const read = (/** @type {any[]} */ all) =>
          all.map(({ function: { name: called, arguments: given } }) => [called, JSON.parse(given)]);
        const { refused, spelled } = scriptReply(t, text, { marks: marks(name) });
        const [{ message, finish_reason }] = /** @type {any} */ (await create(request)).choices;
        assert.deepEqual([refused, spelled], [[], []]);
        assert.deepEqual(read(message.tool_calls ?? []), calls);
        assert.equal(message.content, content);
        assert.equal(finish_reason, calls.length ? 'tool_calls' : 'stop');
        t.mock.restoreAll();
        scriptReply(t, text, { marks: marks(name) });
        const deltas = [];
        for await (const { choices } of /** @type {any} */ (await create({ ...request, stream: true })))
          deltas.push(choices[0]);
        assert.equal(deltas.map(({ delta }) => delta.content ?? '').join(''), content ?? '');
        assert.deepEqual(read(deltas.flatMap(({ delta }) => delta.tool_calls ?? [])), calls);
        assert.equal(deltas.at(-1).finish_reason, finish_reason);
        t.mock.restoreAll();
        if (!calls.length) return;
        // The next turn: what the prompt has of the calls is what the model wrote, up to spaces and quotes.
        const results = message.tool_calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'a cold day' }));
        const { origin } = await models[name].generate(
          /** @type {any} */ ([
            USER,
            { role: 'assistant', content: message.content ?? '', tool_calls: message.tool_calls },
            ...results,
          ]),
          { tools: TOOLS, toolChoice: 'auto', maxTokens: 1, receipt: true },
        ).result;
        const prompt = await models[name].detokenize(origin?.prompt ?? []);
        assert.equal(prompt.split('a cold day').length - 1, calls.length, prompt);
        if (name.startsWith('pythonic') || name === 'olmo3')
          for (const [called, given] of calls) {
            const args = Object.entries(given).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
            assert.ok(
              prompt
                .replaceAll('True', 'true')
                .replaceAll('None', 'null')
                .includes(`${called}(${args.join(', ')})`),
              prompt,
            );
          }
        else
          for (const [called, given] of calls)
            assert.ok(
              prompt.replaceAll(' ', '').includes(`{"name":"${called}","parameters":${JSON.stringify(given)}}`),
              prompt,
            );
      });
  });
