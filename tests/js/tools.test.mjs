// Tests of tool calls in each notation, with the tiny model, whose random output the grammar restricts to calls, and a real one.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createEngine, fromFile } from '../../js/node.js';
import { createWorkerEngine, fromBytes } from '../../js/index.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { tinyModel } from './fixture.mjs';
import { validator } from './validator.mjs';

const city = {
  type: 'object',
  properties: { city: { enum: ['Rome', 'Oslo'] }, days: { $ref: '#/$defs/days' } },
  required: ['city', 'days'],
  additionalProperties: false,
  $defs: { days: { type: 'integer', minimum: 1, maximum: 7 } },
};
const TOOLS = [
  {
    type: /** @type {const} */ ('function'),
    function: { name: 'weather', description: 'The weather', parameters: city },
  },
  { type: /** @type {const} */ ('function'), function: { name: 'time' } },
];
const messages = [{ role: 'user', content: 'Hi' }];
const turns = "{% for m in messages %}{{ '<|' + m.role + '|>' }}{{ m.content }}{% for c in m.tool_calls or [] %}";
const ends =
  "{% endfor %}{{ '<|end|>' }}{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
/** Templates that write calls in the ways there are; '': one that knows of no tools. */
const TEMPLATES = {
  none: '',
  hermes: `${turns}<tool_call>\n{{ c.function | tojson }}\n</tool_call>${ends}`,
  mistral: `${turns}[TOOL_CALLS][{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}, "id": "{{ c.id }}"}]${ends}`,
  llama: `${turns}{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}${ends}`,
};

for (const [name, create] of /** @type {const} */ ([
  ['in this thread', createEngine],
  ['in a worker', createWorkerEngine],
])) {
  describe(`tools ${name}`, () => {
    /** @type {import('../../js/shared/types.js').Engine} */
    let engine;
    /** @type {Record<string, import('../../js/shared/types.js').Model>} */
    const models = {};
    before(async () => {
      engine = await create();
      for (const [style, template] of Object.entries(TEMPLATES))
        models[style] = await engine.load(
          fromBytes(await tinyModel({ config: { context: 2048 }, ...(template && { template, chat: null }) })),
        );
    });
    after(() => engine.close());

    const valid = validator(city);
    /** @param {import('../../js/shared/types.js').ToolCall} call */
    function check(call) {
      assert.match(call.id, /^[A-Za-z0-9]{9}$/);
      assert.equal(call.type, 'function');
      const given = JSON.parse(call.function.arguments);
      if (call.function.name === 'weather') assert.ok(valid(given), call.function.arguments);
      else assert.equal(call.function.name, 'time');
    }

    for (const style of ['none', 'hermes']) {
      test(`${style}: content in parts is joined in any message; parts that are no text are refused by name`, async () => {
        const parts = (/** @type {string[]} */ ...texts) => texts.map((text) => ({ type: 'text', text }));
        const call = { id: 'abcdefghi', type: 'function', function: { name: 'time', arguments: '{}' } };
        const talk = (/** @type {(text: string) => any} */ content) => [
          { role: 'system', content: content('Be brief') },
          { role: 'user', content: content('What time is it?') },
          { role: 'assistant', content: content('Let me see.'), tool_calls: [call] },
          { role: 'tool', tool_call_id: call.id, content: content('12:30') },
        ];
        const ask = (/** @type {any} */ messages) =>
          models[style].chat.completions.create({
            messages,
            tools: TOOLS,
            tool_choice: 'none',
            max_tokens: 1,
            seed: 1,
          });
        const [whole, cut] = [
          await ask(talk((text) => text)),
          await ask(talk((text) => parts(text.slice(0, 3), text.slice(3)))),
        ];
        assert.equal(cut.usage?.prompt_tokens, whole.usage?.prompt_tokens);
        assert.deepEqual(cut.choices[0].message, whole.choices[0].message);
        for (const role of ['system', 'user', 'tool'])
          for (const part of [{ type: 'image_url', image_url: { url: 'x' } }, { type: 'input_audio' }, {}, 5, null])
            await assert.rejects(
              ask([{ role, content: [...parts('a'), part] }]),
              (/** @type {any} */ error) =>
                error.code === 'ARGUMENT' &&
                /^messages\[0\]: content\[1\]: expected { type: 'text'/.test(error.message),
            );
        await assert.rejects(ask([{ role: 'user', content: { text: 'a' } }]), { code: 'ARGUMENT' });
      });
    }

    for (const style of Object.keys(TEMPLATES)) {
      test(`${style}: a required call has arguments that match the schema`, async () => {
        const request = { messages, tools: TOOLS, temperature: 1, seed: 3, max_tokens: 120 };
        const {
          choices: [{ message, finish_reason }],
          usage,
        } = await models[style].chat.completions.create({
          ...request,
          tool_choice: { type: 'function', function: { name: 'weather' } },
        });
        assert.equal(finish_reason, 'tool_calls');
        assert.equal(message.content, null);
        assert.equal(message.tool_calls?.length, 1);
        assert.equal(message.tool_calls?.[0].function.name, 'weather');
        message.tool_calls?.forEach(check);
        assert.ok(usage.completion_tokens > 0);
        const any = await models[style].chat.completions.create({ ...request, tool_choice: 'required' });
        any.choices[0].message.tool_calls?.forEach(check);
        // The conversation goes on with what the tool said.
        const answer = { role: 'tool', tool_call_id: message.tool_calls?.[0].id ?? '', content: '21 degrees' };
        const next = await models[style].chat.completions.create({
          messages: [...messages, message, answer],
          tools: TOOLS,
          tool_choice: 'none',
          max_tokens: 5,
        });
        assert.equal(next.choices[0].message.tool_calls, undefined);
      });
    }

    test('allowed_tools restricts calls to some of the tools', async () => {
      const tools = ['f', 'g'].map((name) => ({ type: /** @type {const} */ ('function'), function: { name } }));
      const allowed_tools = { mode: /** @type {const} */ ('required'), tools: [tools[1]] };
      const tool_choice = { type: /** @type {const} */ ('allowed_tools'), allowed_tools };
      const { choices } = await models.hermes.chat.completions.create({ messages, tools, tool_choice, max_tokens: 90 });
      assert.equal(choices[0].message.tool_calls?.[0].function.name, 'g');
      const unknown = { ...tool_choice, allowed_tools: { mode: allowed_tools.mode, tools: [TOOLS[0]] } };
      await assert.rejects(models.hermes.chat.completions.create({ messages, tools, tool_choice: unknown }), {
        code: 'ARGUMENT',
        message: /expected names of `tools`/,
      });
    });

    test('invalid requests for tools are refused by name', async () => {
      const refused = (/** @type {any} */ more, param) =>
        assert.rejects(
          models.hermes.chat.completions.create({ messages, ...more }),
          (/** @type {any} */ e) => e.code === 'ARGUMENT' && e.details.param === param,
        );
      await refused({ tool_choice: 'required' }, 'tool_choice');
      await refused({ tools: TOOLS, tool_choice: { type: 'function', function: { name: 'tides' } } }, 'tool_choice');
      await refused({ tools: [{ type: 'retrieval' }] }, 'tools[0].type');
      await refused(
        {
          messages: [
            ...messages,
            {
              role: 'assistant',
              content: null,
              tool_calls: [{ id: 'x', type: 'function', function: { name: 'time', arguments: '{' } }],
            },
          ],
          tools: TOOLS,
        },
        'messages',
      );
      const strange = {
        type: /** @type {const} */ ('function'),
        function: { name: 'x', parameters: { type: 'object', properties: { a: { $dynamicRef: '#x' } } } },
      };
      await assert.rejects(
        models.hermes.chat.completions.create({ messages, tools: [strange], tool_choice: 'required' }),
        { code: 'GRAMMAR', message: /dynamicRef/ },
      );
    });

    test('a reply continues from its prefix', async () => {
      const model = models.none;
      const whole = await model.generate(messages, { temperature: 0, maxTokens: 3, prefix: 'the you' }).result;
      const tokens = await model.countTokens(messages);
      assert.equal(whole.usage.promptTokens, tokens + (await model.tokenize('the you', { addSpecial: false })).length);
    });
  });
}

const real = realModel('smollm2');
test('SmolLM2 calls a tool with the city of the question', { skip: real ? false : NO_REAL_MODEL }, async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const model = await engine.load(fromFile(/** @type {string} */ (real)), { contextTokens: 1024 });
  const {
    choices: [{ message }],
  } = await model.chat.completions.create({
    messages: [{ role: 'user', content: 'What is the weather in Oslo for the next 3 days?' }],
    tools: TOOLS,
    tool_choice: 'required',
    temperature: 0,
    max_tokens: 60,
  });
  assert.deepEqual(
    message.tool_calls?.map(({ function: { name } }) => name),
    ['weather'],
  );
  assert.equal(JSON.parse(message.tool_calls?.[0].function.arguments ?? '').city, 'Oslo');
  await engine.close();
});
