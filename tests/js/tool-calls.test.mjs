// Tests of answers with several parts: reasoning, an answer in a format, and tool calls in the notation of the model's template. The
// sampler generates given texts as far as the grammar allows.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createEngine, fromBytes, fromFile } from '../../js/node.js';
import { FLAG, KIND, NONE, TOKEN } from '../../js/text/tokenizers/section.js';
import { ARGUMENTS, callForm, COUNT, ID, NAME } from '../../js/text/templates/call-form.js';
import { EOS } from '../../js/text/templates/template-texts.js';
import { compile } from '../../js/text/templates/jinja.js';
import { tinyModel } from './fixture.mjs';
import { modelWith, scriptReply } from './scripted.mjs';

const report = "{% if tools %}{{ '<|system|>' + (tools | tojson) + '<|end|>' }}{% endif %}";
/** A template with calls in this notation. @param {string} calls @param {string} [prompt] */
const turns = (calls, prompt = '<|assistant|>') =>
  `${report}{% for m in messages %}{{ '<|' + m.role + '|>' + (m.content or '') }}${calls}{{ '<|end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '${prompt}' }}{% endif %}`;
/** Marks around each call, around all calls, and between two calls. @param {string} call */
const each = (call, { before: first = '', after: last = '', between = '' } = {}) =>
  `{% if m.tool_calls %}${first}{% for c in m.tool_calls %}{% if not loop.first %}${between}{% endif %}{% set f = c.function %}${call}{% endfor %}${last}{% endif %}`;
const args = '(f.arguments | tojson)';
const hermes = each(`{{ '<tool_call>\\n{"name": "' + f.name + '", "arguments": ' + ${args} + '}\\n</tool_call>' }}`, {
  between: "{{ '\\n' }}",
});
/** A value as formatted by Python. */
const printed = '(v if v is string else (v | tojson if v is mapping else v | string))';

const TEMPLATES = {
  none: "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
  hermes: turns(hermes),
  thinks: turns(hermes, '<|assistant|><think>\\n'),
  'may think': `${turns(hermes)}{# <think> #}`,
  mistral: turns(
    each(`{{ '{"name": "' + f.name + '", "arguments": ' + ${args} + ', "id": "' + c.id + '"}' }}`, {
      before: '[TOOL_CALLS][',
      after: ']',
      between: ', ',
    }),
  ),
  marked: turns(each(`{{ '[TOOL_CALLS]' + f.name + '[ARGS]' + ${args} }}`)),
  llama: turns(each(`{{ '{"name": "' + f.name + '", "parameters": ' + ${args} + '}' }}`)),
  fields: turns(
    each(
      `{{ '<tool_call>\\n<function=' + f.name + '>\\n' }}{% for k, v in f.arguments | items %}{{ '<parameter=' + k + '>\\n' + ${printed} + '\\n</parameter>\\n' }}{% endfor %}{{ '</function>\\n</tool_call>' }}`,
      { between: "{{ '\\n' }}" },
    ),
  ),
  pairs: turns(
    each(
      `{{ '<tool_call>' + f.name + '\\n' }}{% for k, v in f.arguments | items %}{{ '<arg_key>' + k + '</arg_key>\\n<arg_value>' + ${printed} + '</arg_value>\\n' }}{% endfor %}{{ '</tool_call>' }}`,
    ),
  ),
  texts: turns(each(`{{ '<function=' + f.name + '>' + f.arguments + '</function>' }}`)),
  numbered: turns(
    each(
      `{{ '{"call": "' + (loop.index0 | string) + '", "tool": "' + f.name + '", "parameters": ' + ${args} + '}' }}`,
      {
        before: '<|START|>[',
        after: ']<|STOP|>',
        between: ', ',
      },
    ),
  ),
};

const parameters = {
  type: 'object',
  properties: { city: { type: 'string' }, days: { $ref: '#/$defs/days' }, warm: { type: 'boolean' } },
  required: ['city'],
  additionalProperties: false,
  $defs: { days: { type: 'integer', minimum: 1, maximum: 7 } },
};
/** The name of one tool begins with the name of the other. @type {any[]} */
const TOOLS = [
  { type: 'function', function: { name: 'weather', parameters } },
  { type: 'function', function: { name: 'weather_now' } },
];
const messages = [{ role: 'user', content: 'Hi' }];
const number = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'], additionalProperties: false };
const format = { response_format: { type: 'json_schema', json_schema: { name: 'number', schema: number } } };
const OSLO = '{"city": "Oslo"}';
const ONE = `<tool_call>\n{"name": "weather", "arguments": ${OSLO}}\n</tool_call>`;
const must = { tool_choice: 'required' };

/**
 * Texts of a model and their results: the content, the calls, the reasoning.
 * @type {[template: keyof typeof TEMPLATES, text: string, request: object, content: string | null, calls: [string, object][], reasoning?: string][]}
 */
const REPLIES = [
  ['hermes', 'Well, no.', {}, 'Well, no.', []],
  ['hermes', `Well ${ONE}`, {}, 'Well ', [['weather', { city: 'Oslo' }]]],
  ['hermes', `${ONE}\n${ONE}`, {}, null, Array(2).fill(['weather', { city: 'Oslo' }])],
  ['hermes', `${ONE}\n${ONE}`, { parallel_tool_calls: false }, null, [['weather', { city: 'Oslo' }]]],
  ['hermes', '<tool_call>{"name":"weather_now","arguments":{}}</tool_call>', {}, null, [['weather_now', {}]]],
  ['hermes', `{"name": "weather", "arguments": ${OSLO}}`, {}, null, [['weather', { city: 'Oslo' }]]],
  [
    'hermes',
    '```json\n{\n  "name": "weather",\n  "arguments": {"city": "Oslo"}\n}\n```',
    {},
    null,
    [['weather', { city: 'Oslo' }]],
  ],
  ['hermes', '{"name": "Bob", "arguments": {}}', {}, '{"name": "Bob", "arguments": {}}', []],
  ['hermes', '{"name": "weather"}', {}, '{"name": "weather"}', []],
  ['hermes', 'if a <tool', {}, 'if a <tool', []],
  ['hermes', ONE, format, null, [['weather', { city: 'Oslo' }]]],
  ['hermes', '{"a": 7}', format, '{"a": 7}', []],
  ['hermes', ONE, must, null, [['weather', { city: 'Oslo' }]]],
  ['hermes', 'Stop here. STOP', { stop: 'STOP' }, 'Stop here. ', []],
  ['hermes', ONE, { stop: 'Oslo' }, null, [['weather', { city: 'Oslo' }]]],
  ['none', `x ${ONE}`, {}, 'x ', [['weather', { city: 'Oslo' }]]],
  ['thinks', 'Hm.\n</think>\n\n{"a": 5}', { ...format, tools: undefined }, '{"a": 5}', [], 'Hm.\n'],
  ['thinks', `Hm.</think>\n\n${ONE}`, must, null, [['weather', { city: 'Oslo' }]], 'Hm.'],
  ['thinks', `Hm.</think>\n\n${ONE}`, {}, null, [['weather', { city: 'Oslo' }]], 'Hm.'],
  ['thinks', 'Hm.</think>Hello', {}, 'Hello', [], 'Hm.'],
  ['thinks', `Hm.</think>${ONE}`, format, null, [['weather', { city: 'Oslo' }]], 'Hm.'],
  ['thinks', 'Hm.</think>\n\n{"a": 7}', format, '{"a": 7}', [], 'Hm.'],
  ['may think', '<think>\nHm.</think>{"a": 7}', { ...format, tools: undefined }, '{"a": 7}', [], 'Hm.'],
  ['may think', '{"a": 7}', { ...format, tools: undefined }, '{"a": 7}', []],
  ['may think', `<think>Hm.</think>${ONE}`, must, null, [['weather', { city: 'Oslo' }]], 'Hm.'],
  ['may think', ONE, must, null, [['weather', { city: 'Oslo' }]]],
  [
    'mistral',
    `[TOOL_CALLS][{"name": "weather", "arguments": ${OSLO}, "id": "abcdefghi"}, {"name": "weather_now", "arguments": {}, "id": "abcdefghj"}]`,
    {},
    null,
    [
      ['weather', { city: 'Oslo' }],
      ['weather_now', {}],
    ],
  ],
  [
    'marked',
    `[TOOL_CALLS]weather[ARGS]${OSLO}[TOOL_CALLS]weather_now[ARGS]{}`,
    {},
    null,
    [
      ['weather', { city: 'Oslo' }],
      ['weather_now', {}],
    ],
  ],
  ['marked', '[TOOL_CALLS]weather_now[ARGS]{}', must, null, [['weather_now', {}]]],
  ['marked', `[TOOL_CALLS]weather[ARGS]${OSLO}`, format, null, [['weather', { city: 'Oslo' }]]],
  ['llama', `{"name": "weather", "parameters": ${OSLO}}`, {}, null, [['weather', { city: 'Oslo' }]]],
  ['llama', `{"name": "weather", "parameters": ${OSLO}}`, format, null, [['weather', { city: 'Oslo' }]]],
  ['llama', '{"a": 12}', {}, '{"a": 12}', []],
  ['llama', '{"a": 12}', format, '{"a": 12}', []],
  [
    'fields',
    'Hm.\n<tool_call>\n<function=weather>\n<parameter=city>\nOslo "<x>"\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=warm>\nTrue\n</parameter>\n</function>\n</tool_call>',
    {},
    'Hm.\n',
    [['weather', { city: 'Oslo "<x>"', days: 3, warm: true }]],
  ],
  [
    'fields',
    '<tool_call>\n<function=weather>\n<parameter=city>\n7\n</parameter>\n</function>\n</tool_call>',
    must,
    null,
    [['weather', { city: '7' }]],
  ],
  [
    'pairs',
    '<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>',
    must,
    null,
    [['weather', { city: 'Oslo' }]],
  ],
  [
    'texts',
    `<function=weather>${OSLO}</function><function=weather_now>{}</function>`,
    {},
    null,
    [
      ['weather', { city: 'Oslo' }],
      ['weather_now', {}],
    ],
  ],
  [
    'numbered',
    `<|START|>[{"call": "0", "tool": "weather", "parameters": ${OSLO}}, {"call": "1", "tool": "weather_now", "parameters": {}}]<|STOP|>`,
    {},
    null,
    [
      ['weather', { city: 'Oslo' }],
      ['weather_now', {}],
    ],
  ],
];

for (const marks of [true, false])
  describe(`answers of several parts, with marks that are ${marks ? 'tokens' : 'spelled'}`, () => {
    /** @type {import('../../js/shared/types.js').Engine} */
    let engine;
    /** @type {Record<string, import('../../js/shared/types.js').Model>} */
    const models = {};
    before(async () => {
      engine = await createEngine({ threads: 1 });
      for (const [name, template] of Object.entries(TEMPLATES))
        models[name] = await engine.load(fromBytes(await modelWith(template, { marks })));
    });
    after(() => engine.close());

    for (const [name, text, more, content, calls, reasoning] of REPLIES)
      test(`${name}: ${JSON.stringify(text)} ${JSON.stringify(more)}`, async (t) => {
        // In this case, reasoning and calls begin with the same token.
        if (!marks && more === must && text.startsWith('<think>')) return;
        const { refused, spelled } = scriptReply(t, text, { marks });
        const request = /** @type {any} */ ({ messages, tools: TOOLS, temperature: 0, max_tokens: 400, ...more });
        const whole = /** @type {any} */ (await models[name].chat.completions.create(request));
        const [{ message, finish_reason }] = whole.choices;
        const read = (/** @type {any[]} */ all = []) =>
          all.map(({ function: { name: called, arguments: given } }) => [called, JSON.parse(given)]);
        assert.deepEqual(refused, []);
        assert.deepEqual(spelled, [], 'marks that are tokens are written as tokens');
        assert.deepEqual(read(message.tool_calls), calls);
        assert.deepEqual([message.content, message.reasoning_content], [content, reasoning]);
        assert.equal(finish_reason, calls.length ? 'tool_calls' : 'stop');
        if (name === 'mistral') assert.equal(message.tool_calls?.[0].id, 'abcdefghi');
      });

    test('a stream has the same text and calls', async (t) => {
      scriptReply(t, `Well <tool ${ONE}\n${ONE}`, { marks });
      const deltas = [];
      const request = { messages, tools: TOOLS, max_tokens: 400, stream: /** @type {const} */ (true) };
      for await (const { choices } of await models.hermes.chat.completions.create(request)) deltas.push(choices[0]);
      assert.equal(deltas.map(({ delta }) => delta.content ?? '').join(''), 'Well <tool ');
      const calls = deltas.flatMap(({ delta }) => delta.tool_calls ?? []);
      assert.deepEqual(
        calls.map(({ index, function: { name, arguments: given } }) => [index, name, given]),
        [0, 1].map((index) => [index, 'weather', '{"city":"Oslo"}']),
      );
      assert.equal(deltas.at(-1)?.finish_reason, 'tool_calls');
    });

    test('reasoning that does not end leaves room for the parts after it', async (t) => {
      const body = { messages, temperature: 0, max_tokens: 90, stream: /** @type {const} */ (false) };
      const thinks = (/** @type {object} */ more) => models.thinks.chat.completions.create({ ...body, ...more });
      scriptReply(t, 'So. '.repeat(500), { marks });
      const held = (await thinks(format)).choices[0];
      assert.deepEqual([typeof JSON.parse(held.message.content ?? '').a, held.finish_reason], ['number', 'stop']);
      assert.match(held.message.reasoning_content ?? '', /^(So\. ){5}/);
      const [{ message, finish_reason }] = (await thinks({ tools: TOOLS, tool_choice: 'required' })).choices;
      assert.equal(finish_reason, 'tool_calls');
      assert.equal(message.tool_calls?.length, 1);
    });

    test('a context that fills up during calls keeps the complete calls', async (t) => {
      scriptReply(t, `${ONE}\n`.repeat(100), { marks });
      const { chat } = models.hermes;
      const [{ message, finish_reason }] = (await chat.completions.create({ messages, tools: TOOLS })).choices;
      assert.ok((message.tool_calls?.length ?? 0) > 10);
      for (const { function: called } of message.tool_calls ?? [])
        assert.equal(typeof JSON.parse(called.arguments), 'object');
      assert.equal(finish_reason, 'length');
    });
  });

for (const name of /** @type {const} */ (['hermes', 'mistral', 'fields', 'texts', 'none']))
  test(`${name}: a chat keeps calls, continues after them, and can be restored from its messages`, async (t) => {
    const engine = await createEngine({ threads: 1 });
    const model = await engine.load(fromBytes(await modelWith(TEMPLATES[name])));
    const [text] = REPLIES.filter(([of, , , , calls]) => of === name && calls.length === 1).map(([, all]) => all);
    const call = text ?? `[TOOL_CALLS][{"name": "weather", "arguments": ${OSLO}, "id": "abcdefghi"}]`;
    const request = { toolChoice: /** @type {const} */ ('auto'), maxTokens: 400 };
    const chat = await model.createChat({ tools: TOOLS });
    scriptReply(t, name === 'texts' ? `<function=weather>${OSLO}</function>` : call);
    const { toolCalls: [found] = [], text: messageText } = await chat.send('Hi', request).result;
    t.mock.restoreAll();
    const { id, ...called } = found;
    const message = { role: 'assistant', content: messageText };
    assert.deepEqual(chat.messages.at(-1), {
      ...message,
      tool_calls: [{ type: 'function', ...(id && { id }), function: called }],
    });
    const answer = { role: 'tool', content: 'cold', ...(id && { tool_call_id: id }) };
    // The prompt has the call as written by the template, whether the next answer can have calls or not.
    const asked = [...messages, chat.messages.at(-1), answer];
    const { usage } = await chat.send(answer, { ...request, maxTokens: 1 }).result;
    const wanted = await model.generate(/** @type {any} */ (asked), { tools: TOOLS, ...request, maxTokens: 0 }).result;
    assert.equal(usage.promptTokens, wanted.usage.promptTokens);
    const free = await model.createChat({ messages: /** @type {any} */ (chat.messages) });
    const { origin } = await free.send('And now?', { maxTokens: 1, receipt: true }).result;
    const prompt = await model.detokenize(origin?.prompt ?? []);
    assert.ok(!prompt.includes('\\"'), prompt);
    assert.match(prompt, /weather[^]*Oslo[^]*cold[^]*And now\?/);
    await engine.close();
  });

test('a call that the model begins without being required is not ended because of the limit: an incomplete call is no call', async (t) => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await modelWith(TEMPLATES.hermes)));
  const full = `<tool_call>\n{"name": "weather_now", "arguments": {}}\n</tool_call>`;
  const bare = '{"name": "weather_now", "arguments": {}}';
  const expectedCall = { name: 'weather_now', arguments: '{}' };
  // One of them has no required argument, and its name begins with the other's name.
  const tools = ['weather', 'weather_now'].map((name) => ({
    type: /** @type {const} */ ('function'),
    function: { name },
  }));
  for (const text of [full, `Well ${full}`, `${full}\n${full}`, bare])
    for (let maxTokens = 1; maxTokens < 130; maxTokens += 3) {
      scriptReply(t, text);
      const options = { tools, toolChoice: /** @type {const} */ ('auto'), temperature: 0, maxTokens };
      const { toolCalls = [], finishReason, tokens } = await model.generate(messages, options).result;
      assert.deepEqual(toolCalls, Array(toolCalls.length).fill(expectedCall), `${text} in ${maxTokens}`);
      const isWhole = toolCalls.length === text.split('"name"').length - 1;
      if (!isWhole) assert.equal(finishReason, 'length', `${text} in ${maxTokens}`);
      assert.ok(tokens.length <= maxTokens);
      t.mock.restoreAll();
      scriptReply(t, text);
      const request = { messages, tools, temperature: 0, max_tokens: maxTokens };
      const [{ message, finish_reason }] = (await model.chat.completions.create(request)).choices;
      assert.equal(message.tool_calls?.length ?? 0, toolCalls.length);
      assert.equal(finish_reason, finishReason === 'stop' && toolCalls.length ? 'tool_calls' : finishReason);
      t.mock.restoreAll();
    }
  await engine.close();
});

const never = { allOf: [{ type: 'string' }, { type: 'integer' }] };
/** Parameters that no value satisfies, and the path of the fault. @type {[schema: object, place: string, message: RegExp][]} */
const unsatisfiable = [
  [never, '', /no text can satisfy/],
  [{ enum: [] }, '', /no text can satisfy/],
  [{ properties: { a: { enum: [] } }, required: ['a'] }, '/properties/a', /no text can satisfy/],
  [{ properties: { a: never, b: { enum: [] } }, required: ['a'] }, '/properties/a', /no text can satisfy/],
  [{ properties: { b: { enum: [] } }, minProperties: 2, maxProperties: 1 }, '', /no text can satisfy/],
  [
    {
      properties: { a: { type: 'array', items: { $ref: '#/$defs/x' }, minItems: 1 } },
      required: ['a'],
      $defs: { x: never },
    },
    '/properties/a/items',
    /no text can satisfy/,
  ],
];

test('a tool whose parameters no value satisfies is accepted if no call can reach it; an optional one is accepted, too', async (t) => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await modelWith(TEMPLATES.hermes)));
  const toolOf = (/** @type {string} */ name, /** @type {object} */ schema) => ({
    type: /** @type {const} */ ('function'),
    function: { name, parameters: schema },
  });
  const tools = [toolOf('fine', parameters), toolOf('bad', never)];
  for (const toolChoice of /** @type {const} */ (['none', undefined, { name: 'fine' }])) {
    scriptReply(t, 'Hello');
    const { tokens } = await model.generate(messages, { tools, toolChoice, maxTokens: 60 }).result;
    assert.ok(tokens.length > 0);
    t.mock.restoreAll();
  }
  for (const toolChoice of /** @type {const} */ (['auto', 'required'])) {
    scriptReply(t, 'Hello');
    const optional = [toolOf('fine', parameters), toolOf('odd', { properties: { a: never } })];
    const { tokens } = await model.generate(messages, { tools: optional, toolChoice, maxTokens: 60 }).result;
    assert.ok(tokens.length > 0);
    t.mock.restoreAll();
  }
  await engine.close();
});

test('of several tools that cannot be called, the error names one with its own reason', async (t) => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await modelWith(TEMPLATES.hermes)));
  const tools = [never, { properties: { a: { enum: 5 } } }].map((schema, i) => ({
    type: /** @type {const} */ ('function'),
    function: { name: `bad${i}`, parameters: schema },
  }));
  scriptReply(t, 'Hello');
  await assert.rejects(model.generate(messages, { tools, toolChoice: 'auto', maxTokens: 4 }).result, {
    code: 'GRAMMAR',
    message: /^the parameters of the tool "bad1", at \/properties\/a: .*enum/,
  });
  t.mock.restoreAll();
  await engine.close();
});

test('a tool whose parameters cannot be a grammar is refused by the call, with its name and the path', async (t) => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await modelWith(TEMPLATES.hermes)));
  /** @type {[schema: object, place: string, message: RegExp][]} */
  const wrong = [
    [{ properties: { a: { type: 'strin' } } }, '/properties/a', /expected the name of a type/],
    [{ properties: { a: { items: { pattern: '(' } } } }, '/properties/a/items', /regular expression/],
    [{ properties: { a: { pattern: '(?<=a)b' } } }, '/properties/a', /regular expression/],
    [
      { properties: { 'b/c': { $ref: '#/$defs/x' } }, $defs: { x: { minLength: 'y' } } },
      '/properties/b~1c',
      /minLength/,
    ],
    [{ properties: { a: { $ref: 'https://h.org/x.json' } } }, '/properties/a', /other documents/],
    [{ required: 5 }, '', /required/],
    [{ type: 'string' }, '', /expected the type "object", found "string"/],
    [{ type: ['array', 'null'] }, '', /expected the type "object"/],
    [{ properties: { a: { anyOf: [{ type: 'string' }, { const: 2 ** 60 }] } } }, '/properties/a/anyOf/1', /const/],
    [{ additionalProperties: { multipleOf: 0 } }, '/additionalProperties', /multipleOf/],
    [{ properties: { a: { enum: 5 } } }, '/properties/a', /enum/],
    ...unsatisfiable,
  ];
  const fine = { type: /** @type {const} */ ('function'), function: { name: 'fine', parameters } };
  for (const [schema, place, message] of wrong)
    for (const toolChoice of /** @type {const} */ (['auto', 'required', { name: 'bad' }])) {
      const { found } = scriptReply(t, 'Hello');
      const bad = { type: /** @type {const} */ ('function'), function: { name: 'bad', parameters: schema } };
      let parts = 0;
      const run = model.generate(messages, { tools: [fine, bad], toolChoice, maxTokens: 4 });
      await assert.rejects(
        (async () => {
          for await (const _ of run) parts++;
        })(),
        (/** @type {any} */ error) => {
          assert.equal(error.code, 'GRAMMAR', error.stack);
          assert.ok(
            error.message.startsWith(`the parameters of the tool "bad"${place && `, at ${place}`}: `),
            error.message,
          );
          assert.match(error.message, message);
          assert.deepEqual([error.details.param, error.details.tool], ['tools', 'bad']);
          return true;
        },
        JSON.stringify(schema),
      );
      assert.equal(parts, 0);
      assert.equal(found.size, 0);
      t.mock.restoreAll();
    }
  await engine.close();
});

test('arguments are an object for any parameters', async (t) => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await modelWith(TEMPLATES.hermes)));
  const properties = { city: { const: 'Oslo' } };
  for (const parameters of [
    { type: ['string', 'object', 'null'], properties, required: ['city'] },
    { type: 'object', nullable: true, properties, required: ['city'] },
    { anyOf: [{ type: 'null' }, { properties, required: ['city'] }] },
  ]) {
    scriptReply(t, `<tool_call>\n{"name": "f", "arguments": null}\n</tool_call>`);
    const tools = [{ type: /** @type {const} */ ('function'), function: { name: 'f', parameters } }];
    const { toolCalls } = await model.generate(messages, { tools, toolChoice: 'required', maxTokens: 99 }).result;
    assert.equal(JSON.parse(toolCalls?.[0].arguments ?? 'null').city, 'Oslo', JSON.stringify(parameters));
    t.mock.restoreAll();
  }
  await engine.close();
});

test('ignored keywords of parameters are named in an answer and in the last chunk of a stream', async (t) => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await modelWith(TEMPLATES.hermes)));
  const city = { type: 'string', format: 'town' };
  const strange = { type: 'object', properties: { city }, required: ['city'], minimun: 1 };
  const tools = [{ type: /** @type {const} */ ('function'), function: { name: 'weather', parameters: strange } }];
  const request = { messages, tools, max_tokens: 400 };
  for (const more of /** @type {any[]} */ ([{}, must, { response_format: { type: 'json_schema', schema: strange } }])) {
    scriptReply(t, ONE);
    const {
      bq4: { warnings },
    } = /** @type {any} */ (await model.chat.completions.create({ ...request, ...more }));
    assert.equal(warnings.length, 2);
    assert.match(warnings.join(), /minimun[^]*town|town[^]*minimun/);
    t.mock.restoreAll();
    scriptReply(t, ONE);
    const chunks = [];
    for await (const chunk of await model.chat.completions.create({ ...request, ...more, stream: true }))
      chunks.push(chunk);
    assert.deepEqual(chunks.pop().bq4.warnings, warnings);
    assert.ok(chunks.every((chunk) => !('bq4' in chunk)));
    t.mock.restoreAll();
  }
  await engine.close();
});

test('a tool is called by its exact name; a name that the notation cannot express is refused', async (t) => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await modelWith(TEMPLATES.hermes)));
  const ask = (/** @type {string} */ name) => {
    const tools = [{ type: /** @type {const} */ ('function'), function: { name } }];
    return model.chat.completions.create({ messages, tools, max_tokens: 400, tool_choice: 'required' });
  };
  for (const name of ['a$$b', "$&$'", 'files/read.v2', 'größe']) {
    const { refused } = scriptReply(t, ONE.replace('weather', () => name).replace(OSLO, '{}'));
    const [{ message }] = (await ask(name)).choices;
    assert.equal(message.tool_calls?.[0].function.name, name);
    assert.deepEqual(refused, []);
    t.mock.restoreAll();
  }
  for (const name of ['a"b', 'a\\b', 'a<b', 'a\n', '\u{f0005}'])
    await assert.rejects(ask(name), { code: 'ARGUMENT', message: /the name of a tool/ });
  await engine.close();
});

test('a template whose calls cannot be parsed, or are lost, is refused by name', async (t) => {
  const engine = await createEngine({ threads: 1 });
  const ask = async (/** @type {string} */ template) => {
    const model = await engine.load(fromBytes(await modelWith(template)));
    return model.chat.completions.create({ messages, tools: TOOLS, max_tokens: 400 });
  };
  for (const [calls, sample] of /** @type {const} */ ([
    [each("{{ 'call ' + f.name + ' with ' + (f.arguments | length | string) }}"), 'call weather with 16'],
    [each('{{ c.id + f.arguments.values() | join }}'), 'has no attribute values'],
    ['{{ functions + 1 if m.tool_calls }}', "'functions' is undefined"],
    // Functionary 3.2: a reply begins with its recipient, and the prompt with the mark before it.
    [each("{{ '>>>' + f.name + '\\n' + f.arguments }}"), '>>>weather'],
    ['', '<|end|>'],
  ]))
    await assert.rejects(
      ask(turns(calls, sample.startsWith('>>>') ? '<|assistant|>>>>' : undefined)),
      (/** @type {any} */ error) => {
        assert.equal(error.code, 'UNSUPPORTED');
        assert.match(error.message, /^the model's chat template writes tool calls in an unknown form: "/);
        assert.ok(error.message.includes(sample), error.message);
        return true;
      },
    );
  scriptReply(t, ONE);
  const tells = turns("{# <tool_call>\\n{'name': … } #}").replace('{#', '{# <tool_call>\\n{"name": …}');
  assert.equal((await ask(tells)).choices[0].message.tool_calls?.length, 1, 'the template tells of them in this form');
  await engine.close();
});

/** Arguments in an unknown notation, similar to Gemma 4: marks around strings, names without marks, nested values. */
const ownNotation = `{% macro noted(v) %}{% if v is string %}{{ '^' + v + '^' }}{% elif v is mapping %}{{ '{' }}{% for k, x in v | dictsort %}{{ ',' if not loop.first }}{{ k }}:{{ noted(x) }}{% endfor %}{{ '}' }}{% else %}{{ v | tojson }}{% endif %}{% endmacro %}`;

test('arguments in a template’s own notation are not parsed as JSON even if the template prints strings unchanged', async () => {
  const call = each(
    `{{ '<|tool_call>call:' + f.name }}{% if f.arguments is mapping %}{{ noted(f.arguments) }}{% else %}{{ '{' + f.arguments + '}' }}{% endif %}<tool_call|>`,
  );
  const render = compile(ownNotation + turns(call));
  assert.equal(
    callForm((context) => render(context), ['<|end|>']),
    null,
  );
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await modelWith(ownNotation + turns(call))));
  await assert.rejects(model.chat.completions.create({ messages, tools: TOOLS, max_tokens: 40 }), {
    code: 'UNSUPPORTED',
    message: /writes tool calls in an unknown form/,
  });
  await engine.close();
});

test('Gemma 4’s thought channel is reasoning; an empty channel before the answer is no reasoning', async (t) => {
  const channel = "{% if not enable_thinking %}{{ '<|channel>thought\\n<channel|>' }}{% endif %}";
  const template = `${turns('')}{% if add_generation_prompt %}${channel}{% endif %}`;
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await modelWith(template)));
  const ask = async (/** @type {boolean} */ thinks) => {
    const request = { messages, max_tokens: 60, chat_template_kwargs: { enable_thinking: thinks } };
    const completion = /** @type {any} */ (await model.chat.completions.create(/** @type {any} */ (request)));
    return completion.choices[0].message;
  };
  scriptReply(t, '<|channel>thought\nWell.\n<channel|>Yes.');
  const thought = await ask(true);
  assert.deepEqual([thought.reasoning_content?.trim(), thought.content], ['Well.', 'Yes.']);
  t.mock.restoreAll();
  scriptReply(t, 'Yes.');
  const plain = await ask(false);
  assert.deepEqual([plain.reasoning_content ?? '', plain.content], ['', 'Yes.']);
  await engine.close();
});

test('constraints that calls with names and values cannot satisfy are refused by name', async () => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await modelWith(TEMPLATES.fields)));
  const strange = { name: 'f', parameters: { type: 'object', properties: {}, minProperties: 1 } };
  const tools = /** @type {any} */ ([{ type: 'function', function: strange }]);
  await assert.rejects(model.chat.completions.create({ messages, tools, tool_choice: 'required' }), {
    code: 'GRAMMAR',
    message: /minProperties/,
  });
  await engine.close();
});

test('a chat format without a system message cannot describe tools: the error names it', async () => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromFile(fileURLToPath(new URL('../../models/chat.bq4', import.meta.url))));
  const tools = /** @type {any} */ ([{ type: 'function', function: { name: 'f' } }]);
  await assert.rejects(model.generate(messages, { tools, toolChoice: 'required' }).result, {
    code: 'UNSUPPORTED',
    message: /no system message, which would describe the tools/,
  });
  await engine.close();
});

test('calls with names and values: required names without a schema, strings that look like numbers', async (t) => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await modelWith(TEMPLATES.fields)));
  const ask = (/** @type {any} */ given) => {
    const tools = /** @type {any} */ ([{ type: 'function', function: { name: 'f', parameters: given } }]);
    return model.chat.completions.create({ messages, tools, tool_choice: 'required', max_tokens: 200 });
  };
  const call = (/** @type {[string, string][]} */ ...values) =>
    `<tool_call>\n<function=f>\n${values.map(([k, v]) => `<parameter=${k}>\n${v}\n</parameter>\n`).join('')}</function>\n</tool_call>`;
  for (const [given, text, expected] of /** @type {[object, string, object][]} */ ([
    [{ properties: { a: { type: 'string' } }, required: ['a', 'z'] }, call(['a', 'x'], ['z', '7']), { a: 'x', z: 7 }],
    [{ required: ['z'], additionalProperties: { type: 'integer' } }, call(['z', '7']), { z: 7 }],
    [{ required: ['constructor'] }, call(['constructor', 'True']), { constructor: true }],
    [{ properties: { a: { enum: ['1', true, 2] } }, required: ['a'] }, call(['a', '1']), { a: '1' }],
    [{ properties: { a: { enum: ['1', true, 2] } }, required: ['a'] }, call(['a', '2']), { a: 2 }],
    [{ properties: { a: { enum: ['x', 1] } }, required: ['a'] }, call(['a', '1']), { a: 1 }],
  ])) {
    const { refused } = scriptReply(t, text);
    const [{ message }] = (await ask({ type: 'object', ...given })).choices;
    assert.deepEqual(JSON.parse(message.tool_calls?.[0].function.arguments ?? 'null'), expected);
    assert.deepEqual(refused, []);
    t.mock.restoreAll();
  }
  for (const [given, message] of /** @type {[object, RegExp][]} */ ([
    [{ type: 'array' }, /expected the type "object", found "array"/],
    [{ properties: { 'a>\nb': {} } }, /contains a separator/],
    [{ required: ['z'], additionalProperties: false }, /no text can satisfy/],
  ]))
    await assert.rejects(ask(given), { code: 'GRAMMAR', message });
  for (const given of [null, [], 'x', 5])
    await assert.rejects(
      model.generate(messages, {
        tools: [{ type: 'function', function: { name: 'f', parameters: given } }],
        toolChoice: 'auto',
      }).result,
      { code: 'ARGUMENT', message: /a tool: expected/ },
    );
  await engine.close();
});

test('a vocabulary with a space in front of texts adds none to the marks that end reasoning and calls', async () => {
  const engine = await createEngine({ threads: 1 });
  const bytesOf = (/** @type {string} */ text) => new TextEncoder().encode(text);
  const tokens = {
    kind: KIND.spm,
    flags: FLAG.addSpace | FLAG.byteFallback,
    ...{ bos: 1, eos: 2, unk: 0, pad: NONE, eog: [2], merges: [] },
    tokens: [
      ...['<unk>', '<s>', '</s>'].map((text, i) => ({
        bytes: bytesOf(text),
        score: 0,
        kind: i ? TOKEN.control : TOKEN.unknown,
      })),
      ...Array.from({ length: 256 }, (_, byte) => ({ bytes: Uint8Array.of(byte), score: 0, kind: TOKEN.byte })),
      ...[...' </think>[]{}:",'].map((text) => ({ bytes: bytesOf(text), score: -1, kind: TOKEN.normal })),
    ],
  };
  const config = { context: 2048, vocab: tokens.tokens.length };
  const load = async (/** @type {string} */ prompt) => {
    const calls = each(`{{ '{"name": "' + f.name + '", "arguments": ' + ${args} + '}' }}`, {
      before: '[',
      after: ']',
      between: ', ',
    });
    const template = `${report}{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}${calls}</s>{% endfor %}{% if add_generation_prompt %}${prompt}{% endif %}`;
    return engine.load(fromBytes(await tinyModel({ tokens, config, template, chat: null })));
  };
  const schema = { type: 'object', properties: { a: { enum: [3] } }, required: ['a'], additionalProperties: false };
  const thinks = await load('[assistant]<think>');
  const held = { maxTokens: 60, seed: 1, responseFormat: /** @type {const} */ ({ type: 'json_schema', schema }) };
  const { tokens: ids, text } = await thinks.generate(messages, held).result;
  assert.equal(text, '{"a": 3}');
  assert.match(await thinks.detokenize(ids), /[^ ]<\/think>\n*\{"a": 3\}$/);
  const plain = await load('[assistant]');
  const tools = [{ type: 'function', function: { name: 'f', parameters: schema } }];
  for (let seed = 1; seed <= 3; seed++) {
    const { tokens: all } = await plain.generate(messages, { ...held, tools, toolChoice: 'auto', seed, maxTokens: 300 })
      .result;
    const written = await plain.detokenize(all);
    assert.ok(!written.includes(' ]'), written);
  }
  await engine.close();
});

test('arguments in a conversation that are not JSON, or nested thousands of levels deep, are refused', async () => {
  const engine = await createEngine({ threads: 1 });
  let deep = {};
  for (let i = 0; i < 5000; i++) deep = { deep };
  for (const name of /** @type {const} */ (['none', 'hermes', 'texts'])) {
    const model = await engine.load(fromBytes(await modelWith(TEMPLATES[name])));
    for (const given of ['['.repeat(5000) + ']'.repeat(5000), deep, '{']) {
      const call = { type: /** @type {const} */ ('function'), id: 'a', function: { name: 'f', arguments: given } };
      const asked = /** @type {any} */ ([...messages, { role: 'assistant', content: '', tool_calls: [call] }]);
      const refusal = { code: 'ARGUMENT', message: /the arguments of a call are n/ };
      for (const toolChoice of /** @type {const} */ ([undefined, 'none', 'auto']))
        await assert.rejects(model.generate(asked, { toolChoice, maxTokens: 1 }).result, refusal);
      if (typeof given !== 'string') continue;
      await assert.rejects(model.chat.completions.create({ messages: asked, max_tokens: 1 }), refusal);
    }
  }
  await engine.close();
});

test('missing fields of a tool are empty for a template that reads them; a tool without parameters has no arguments', async () => {
  const engine = await createEngine({ threads: 1 });
  const template = `{% for t in tools or [] %}{% set f = t.function %}{{ '[' + f.name + ': ' + f.description + ' (' + f.parameters.type }}{% for name, p in f.parameters.properties | items %}{{ ' ' + name + ':' + p.description }}{% endfor %}{{ ')]' }}{% endfor %}${turns(hermes)}`;
  const model = await engine.load(fromBytes(await modelWith(template)));
  const a = { type: 'string', maxLength: 1 };
  for (const [given, promptPart] of /** @type {const} */ ([
    [{}, '[f:  (object)]'],
    [{ description: undefined, parameters: undefined }, '[f:  (object)]'],
    [{ description: null }, '[f:  (object)]'],
    [{ description: 'd' }, '[f: d (object)]'],
    [{ description: 'd', parameters: {} }, '[f: d (object)]'],
    [{ parameters: { type: 'object', properties: { a } } }, '[f:  (object a:)]'],
    [{ parameters: { type: 'object', properties: { a: { ...a, description: 'x' } } } }, '[f:  (object a:x)]'],
  ])) {
    const tools = [{ type: /** @type {const} */ ('function'), function: { name: 'f', ...given } }];
    const options = { tools, toolChoice: /** @type {const} */ ('required'), maxTokens: 200, seed: 1, receipt: true };
    const { origin, toolCalls } = await model.generate(messages, options).result;
    assert.ok((await model.detokenize(origin?.prompt ?? [])).includes(promptPart), promptPart);
    if (!Object(given).parameters) assert.deepEqual(toolCalls, [{ name: 'f', arguments: '{}' }]);
  }
  // The error is the template's error for the original tools.
  const strict = await engine.load(
    fromBytes(await modelWith(`{% for t in tools or [] %}{{ t.function.strict.no }}{% endfor %}${turns(hermes)}`)),
  );
  const tools = [{ type: /** @type {const} */ ('function'), function: { name: 'f' } }];
  await assert.rejects(strict.generate(messages, { tools, toolChoice: 'auto', maxTokens: 1 }).result, {
    code: 'TEMPLATE',
    message: /no attribute strict/,
  });
  await engine.close();
});

test('a name with an unpaired surrogate is refused, since no call could contain it', async () => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await modelWith(TEMPLATES.hermes)));
  const tools = [{ type: /** @type {const} */ ('function'), function: { name: 'a\ud83d' } }];
  for (const toolChoice of /** @type {const} */ (['required', 'auto']))
    await assert.rejects(model.generate(messages, { tools, toolChoice, maxTokens: 90 }).result, {
      code: 'ARGUMENT',
      message: /^the name of a tool: .* halves of surrogate pairs/,
    });
  await engine.close();
});

test('references in parameters belong to each tool: by pointer, $anchor and $id', async () => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await tinyModel({ config: { context: 2048 } })));
  const days = { enum: [3] };
  const one = (/** @type {object} */ ref, /** @type {object} */ defs) => ({
    type: 'object',
    properties: { days: ref },
    required: ['days'],
    ...defs,
  });
  for (const given of [
    one({ $ref: '#/$defs/days' }, { $defs: { days } }),
    one({ $ref: '#days' }, { $defs: { x: { $anchor: 'days', ...days } } }),
    one({ $ref: 'days' }, { $id: 'https://example.com/a', $defs: { x: { $id: 'days', ...days } } }),
    one({ $ref: 'https://example.com/days' }, { $defs: { x: { $id: 'https://example.com/days', ...days } } }),
  ]) {
    const tools = /** @type {any} */ ([
      { type: 'function', function: { name: 'f', parameters: given } },
      {
        type: 'function',
        function: { name: 'g', parameters: one({ $ref: '#/$defs/days' }, { $defs: { days: { enum: [3] } } }) },
      },
    ]);
    const [{ message }] = (
      await model.chat.completions.create({ messages, tools, tool_choice: 'required', max_tokens: 200 })
    ).choices;
    assert.equal(message.tool_calls?.[0].function.arguments, '{"days":3}');
  }
  await engine.close();
});

const PUBLISHED = fileURLToPath(new URL('../../../shared/data/templates', import.meta.url));
/**
 * Published templates: the first call, the text between calls, and the text after the last.
 * @type {Record<string, [string, string | null, string] | null>}
 */
const FORMS = {
  'Qwen-Qwen2.5-7B-Instruct': [
    '<tool_call>\n{"name": "N", "arguments": A}\n</tool_call>',
    '\n<tool_call>\n{"name": "N", "arguments": A}\n</tool_call>',
    '',
  ],
  'NousResearch-Hermes-3-Llama-3.1-8B-tool_use': [
    '<tool_call>\n{"name": "N", "arguments": A}\n</tool_call>',
    '\n<tool_call>\n{"name": "N", "arguments": A}\n</tool_call>',
    '',
  ],
  'meta-llama-Llama-3.1-8B-Instruct': ['{"name": "N", "parameters": A}', null, ''],
  'meta-llama-Llama-3.2-3B-Instruct': ['{"name": "N", "parameters": A}', null, ''],
  'mistralai-Mistral-Nemo-Instruct-2407': [
    '[TOOL_CALLS][{"name": "N", "arguments": A, "id": "I"}',
    ', {"name": "N", "arguments": A, "id": "I"}',
    ']',
  ],
  'meetkai-functionary-medium-v3.1': ['<function=N>A</function>', '<function=N>A</function>', ''],
  'CohereForAI-c4ai-command-r7b-12-2024-tool_use': [
    '<|START_ACTION|>[\n    {"tool_call_id": "C", "tool_name": "N", "parameters": A}',
    ',\n    {"tool_call_id": "C", "tool_name": "N", "parameters": A}',
    '\n]<|END_ACTION|>',
  ],
  // After all messages, it repeats the notation of calls.
  'CohereForAI-c4ai-command-r-plus-tool_use': [
    '\nAction:\n```json\n[\n    {\n        "tool_name": "N",\n        "parameters": A\n    }',
    ',\n    {\n        "tool_name": "N",\n        "parameters": A\n    }',
    '\n]```\n',
  ],
  // An answer begins with the name of the recipient, and the prompt with the mark before it.
  'meetkai-functionary-medium-v3.2': null,
  // It does not read tools, but a text.
  'fireworks-ai-llama-3-firefunction-v2': null,
  'llama-cpp-deepseek-r1': [
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>N\n```json\nA\n```<｜tool▁call▁end｜>',
    '\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>N\n```json\nA\n```<｜tool▁call▁end｜>',
    '<｜tool▁calls▁end｜>',
  ],
  'google-gemma-2-2b-it': null,
  'microsoft-Phi-3.5-mini-instruct': null,
};
/** @returns {string[]} */
function published() {
  try {
    return readdirSync(PUBLISHED);
  } catch {
    return [];
  }
}
test('notations of published templates', { skip: !published().length && 'shared/data/templates is not here' }, () => {
  for (const [name, wanted] of Object.entries(FORMS)) {
    const render = compile(readFileSync(join(PUBLISHED, `${name}.jinja`), 'utf8'));
    const form = callForm(
      (context) => render({ documents: null, bos_token: '', eos_token: EOS, ...context }),
      [EOS, '<|END_OF_TURN_TOKEN|>', '<|eom_id|>'],
    );
    const letters = (/** @type {string | null} */ text) =>
      text?.replaceAll(NAME, 'N').replaceAll(ARGUMENTS, 'A').replaceAll(ID, 'I').replaceAll(COUNT, 'C') ?? null;
    assert.deepEqual(form && [letters(form.first), letters(form.next), form.after], wanted, name);
  }
});
