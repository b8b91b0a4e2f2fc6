// Tests of conversations with calls, in every form of template: integers beyond the precision of doubles, results without calls, deeply
// nested arguments.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createEngine, fromBytes } from '../../js/node.js';
import { exactJson, parseExact, roundedInteger } from '../../js/shared/exact-json.js';
import { ENDS, marksOf, TEMPLATES as OWN_NOTATIONS } from './call-templates.mjs';
import { modelWith, scriptReply } from './scripted.mjs';

/** Each call of a message, behind its content. @param {string} call */
const turns = (call) =>
  `{{ tools | tojson if tools }}{% for m in messages %}{{ '<|' + m.role + '|>' + (m.content or '') }}{% for c in m.tool_calls or [] %}{% set f = c.function %}${call}{% endfor %}{{ '<|end|>' }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`;
const args = '(f.arguments | tojson)';
/** @type {Record<string, string>} */
const TEMPLATES = {
  'no tools':
    "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
  hermes: turns(`{{ '<tool_call>\\n{"name": "' + f.name + '", "arguments": ' + ${args} + '}\\n</tool_call>' }}`),
  mistral: turns(
    `{{ '[TOOL_CALLS]' if loop.first else ', ' }}{{ '[{"name": "' + f.name + '", "arguments": ' + ${args} + ', "id": "' + c.id + '"}]' }}`,
  ),
  texts: turns(`{{ '<function=' + f.name + '>' + f.arguments + '</function>' }}`),
  fields: turns(
    `{{ '<tool_call>\\n<function=' + f.name + '>\\n' }}{% for k, v in f.arguments | items %}{{ '<parameter=' + k + '>\\n' + (v if v is string else (v | tojson if v is mapping else v | string)) + '\\n</parameter>\\n' }}{% endfor %}{{ '</function>\\n</tool_call>' }}`,
  ),
  // Granite 3: the template writes no calls, and passes over results of the role `tool`.
  granite: `{{ '<|start_of_role|>available_tools<|end_of_role|>' + (tools | tojson) + '<|end_of_text|>' if tools }}{% for m in messages %}{% if m.role in ['system', 'user', 'assistant', 'tool_response'] %}{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + m.content + '<|end_of_text|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|start_of_role|>assistant<|end_of_role|>{% endif %}`,
  // Command R+: behind all messages stands how calls are written.
  'told at the end': `{{ tools | tojson if tools }}{% for m in messages %}{{ '<|' + m.role + '|>' + (m.content or '') }}{% if m.tool_calls %}{{ 'Action:\n[\n' }}{% for c in m.tool_calls %}{% set f = c.function %}{{ '    {"tool_name": "' + f.name + '", "parameters": ' + ${args} + '}' + ('' if loop.last else ',\n') }}{% endfor %}{{ '\n]' }}{% endif %}{{ '<|end|>' }}{% endfor %}<|system|>Write Action: and a list of calls.<|end|>{% if add_generation_prompt %}<|assistant|>{% endif %}`,
  ...OWN_NOTATIONS,
};
const GRANITE_MARKS = ['<|start_of_role|>', '<|end_of_role|>', '<|end_of_text|>', '<|tool_call|>'];
const USER = { role: 'user', content: 'Hi' };
const LARGE = '9007199254740993';
const parameters = {
  type: 'object',
  properties: { city: { type: 'string' }, n: { type: 'integer', minimum: 1, maximum: 2 ** 60 } },
  required: ['n'],
  additionalProperties: false,
};
/** @type {any[]} */
const TOOLS = [{ type: 'function', function: { name: 'weather', parameters } }];

/** @type {import('../../js/shared/types.js').Engine} */
let engine;
before(async () => {
  engine = await createEngine({ threads: 1 });
});
after(() => engine.close());

/** @param {string} name */
const marks = (name) =>
  name === 'granite' ? GRANITE_MARKS : Object.hasOwn(OWN_NOTATIONS, name) ? marksOf(name) : true;
/** @param {string} name @param {(model: import('../../js/shared/types.js').Model) => Promise<void>} work */
async function withModel(name, work) {
  const ends = Object.hasOwn(OWN_NOTATIONS, name) ? ENDS : [];
  const model = await engine.load(
    fromBytes(await modelWith(TEMPLATES[name], { marks: marks(name), shown: true, ends })),
  );
  await work(model);
  await model.close();
}
/** The text of the prompt. @param {import('../../js/shared/types.js').Model} model @param {any[]} list @param {object} [options] */
async function promptOf(model, list, options) {
  const { origin } = await model.generate(list, { maxTokens: 1, receipt: true, ...options }).result;
  return model.detokenize(origin?.prompt ?? []);
}
/** @param {any} given @param {string} [id] */
const call = (given, id = 'a') => ({ id, type: 'function', function: { name: 'weather', arguments: given } });
/** @param {any[]} calls */
const callsOf = (...calls) => ({ role: 'assistant', content: '', tool_calls: calls });
/** @param {string} [id] */
const result = (id) => ({ role: 'tool', ...(id !== undefined && { tool_call_id: id }), content: 'a cold day' });

test('JSON with integers beyond the precision of doubles is read and written unchanged', () => {
  for (const text of [
    `{"a":${LARGE},"b":[-${LARGE},{"c":"${LARGE}"}],"d":1.5}`,
    `"\\"${LARGE}"`,
    LARGE,
    `{"${LARGE}":1}`,
    `["\u{f0009}${LARGE}",${LARGE}]`,
    '{"a":9007199254740991,"b":1e21,"c":-0.5}'.replace('1e21', '1e+21'),
  ])
    assert.equal(exactJson(parseExact(text)), text);
  assert.deepEqual(parseExact('[9007199254740991, 9007199254740992]'), [9007199254740991, 9007199254740992n]);
  assert.equal(roundedInteger(`{"${LARGE}": 1e30, "a": 9007199254740991}`), '');
  for (const wrong of ['{', '01', `[${LARGE}`, `${LARGE}x`]) assert.throws(() => parseExact(wrong), SyntaxError);
});

for (const name of Object.keys(TEMPLATES))
  test(`${name}: integers of arguments that are a text go to the template as they are`, () =>
    withModel(name, async (model) => {
      for (const options of [{}, { tools: TOOLS, toolChoice: 'auto' }]) {
        const prompt = await promptOf(model, [USER, callsOf(call(`{"n": ${LARGE}, "city": "x"}`))], options);
        assert.ok(prompt.includes(LARGE), prompt);
      }
      for (const n of [Number(LARGE), -(2 ** 60), 5n])
        await assert.rejects(promptOf(model, [USER, callsOf(call({ n }))]), {
          code: 'ARGUMENT',
          message: /^the arguments of a call contain a (number|bigint), -?\d+; expected .* up to 2\^53/,
          hint: /as a string of JSON/,
        });
      const list = [USER, callsOf(call({ n: 1e21, m: Number.MAX_SAFE_INTEGER }))];
      assert.match(await promptOf(model, list), /9007199254740991/);
    }));

for (const [name, text] of Object.entries({
  hermes: `<tool_call>\n{"name": "weather", "arguments": {"city": "x", "n": ${LARGE}}}\n</tool_call>`,
  texts: `<function=weather>{"city": "x", "n": ${LARGE}}</function>`,
  fields: `<tool_call>\n<function=weather>\n<parameter=city>\nx\n</parameter>\n<parameter=n>\n${LARGE}\n</parameter>\n</function>\n</tool_call>`,
  granite: `<|tool_call|>[{"name": "weather", "arguments": {"city": "x", "n": ${LARGE}}}]`,
  'told at the end': `Action:\n[\n    {"tool_name": "weather", "parameters": {"city": "x", "n": ${LARGE}}}\n]`,
  lfm2: `<|tool_call_start|>[weather(city="x", n=${LARGE})]<|tool_call_end|>`,
  'gemma4, results joined': `<|tool_call>call:weather{city:<|"|>x<|"|>,n:${LARGE}}<tool_call|>`,
  olmo3: `<function_calls>weather(city="x", n=${LARGE})</function_calls>`,
  'pythonic, as JSON': `[weather(city="x", n=${LARGE})]`,
  'pythonic, without quotes': `[weather(city='x', n=${LARGE})]`,
  internlm2: `<|action_start|><|plugin|>\n{"name": "weather", "parameters": {"city": "x", "n": ${LARGE}}}<|action_end|>`,
}))
  test(`${name}: integers of a call that the model writes are those of its arguments`, async (t) => {
    await withModel(name, async (model) => {
      scriptReply(t, text, { marks: marks(name) });
      const options = { tools: TOOLS, toolChoice: /** @type {const} */ ('required'), maxTokens: 400 };
      const { toolCalls } = await model.generate([USER], options).result;
      assert.deepEqual(
        toolCalls?.map((one) => one.arguments),
        [`{"city":"x","n":${LARGE}}`],
      );
      t.mock.restoreAll();
      scriptReply(t, text, { marks: marks(name) });
      // Where a page's function would get another number, it is not called.
      const functions = [{ ...TOOLS[0], function: { ...TOOLS[0].function, function: () => assert.fail('called') } }];
      const run = {
        messages: [USER],
        tools: functions,
        max_tokens: 400,
        tool_choice: 'required',
        bq4: { maxSteps: 1 },
      };
      const { messages } = await model.chat.completions.runTools(/** @type {any} */ (run));
      assert.match(String(messages.at(-1)?.content), new RegExp(`^Error: the integer ${LARGE} is beyond 2\\^53`));
    });
  });

test('several calls in a form without or within a template are parsed, and their end is detected', async (t) => {
  const calls = [1, 2, 3].map((n) => ({ name: 'weather', arguments: `{"n":${n}}` }));
  for (const [name, written] of Object.entries({
    'told at the end': `Action:\n[\n${[1, 2, 3].map((n) => `    {"tool_name": "weather", "parameters": {"n": ${n}}}`).join(',\n')}\n]`,
    granite: `<|tool_call|>[${[1, 2, 3].map((n) => `{"name": "weather", "arguments": {"n": ${n}}}`).join(', ')}]`,
  }))
    await withModel(name, async (model) => {
      scriptReply(t, written, { marks: marks(name) });
      const options = { tools: TOOLS, toolChoice: /** @type {const} */ ('auto'), maxTokens: 400 };
      const { toolCalls, text, finishReason } = await model.generate([USER], options).result;
      assert.deepEqual([toolCalls, text, finishReason], [calls, '', 'stop'], name);
      t.mock.restoreAll();
    });
});

test('limits of integers that may have been rounded hold for the output; listed integers are refused', async (t) => {
  const limits = { type: 'integer', minimum: Number(LARGE), maximum: Number('9223372036854775807') };
  await withModel('hermes', async (model) => {
    const texts = /** @type {const} */ ([
      ['9007199254740993', false],
      ['9007199254740994', true],
      ['9223372036854775807', false],
      ['9223372036854773760', true],
    ]);
    for (const [text, isAllowed] of texts) {
      const { refused } = scriptReply(t, text);
      const { text: written, warnings } = await model.generate('x', {
        responseFormat: { type: 'json_schema', schema: limits },
        maxTokens: 40,
      }).result;
      assert.equal(refused.length === 0 && written === text, isAllowed, `${text}: ${written}`);
      assert.deepEqual(
        warnings?.map((one) => one.replace(/ is .*/, '')).sort(),
        ['"maximum"', '"minimum"'],
        String(warnings),
      );
      t.mock.restoreAll();
    }
  });
  await withModel('hermes', async (model) => {
    for (const schema of [{ const: Number(LARGE) }, { enum: [1, [{ a: -Number(LARGE) }]] }])
      await assert.rejects(model.generate('x', { responseFormat: { type: 'json_schema', schema } }).result, {
        code: 'GRAMMAR',
        message: /^(const|enum) has the integer -?9007199254740992: beyond 2\^53/,
      });
  });
});

/** Calls without ids, which templates that write ids can't have. */
const nameless = { ...call('{}'), id: undefined };
const NAMELESS = [
  [USER, callsOf(nameless), result()],
  [USER, callsOf(nameless, nameless), result(), result(), callsOf(nameless), result()],
  [USER, callsOf(call('{}', '0')), result('0'), callsOf(nameless), result(), callsOf(call('{}', '0')), result('0')],
];

/** Messages whose results are wrong, by what is said of them. @type {[RegExp, any[]][]} */
const WRONG = [
  [/^messages\[1\]: the tool result does not follow a message with calls/, [USER, result()]],
  [/^messages\[1\]: .* tool_call_id "a" does not follow a message with calls/, [USER, result('a')]],
  [/^messages\[0\]: .* does not follow a message with calls/, [result('a'), USER]],
  [/^messages\[2\]: .* "b" has no call; the calls before it are \["a"\]/, [USER, callsOf(call('{}')), result('b')]],
  [/^messages\[2\]: .* "" has no call/, [USER, callsOf(call('{}')), result('')]],
  [/^messages\[3\]: .* "a" does not follow a message with calls/, [USER, callsOf(call('{}')), USER, result('a')]],
  [/^messages\[3\]: .* is the second result of its call/, [USER, callsOf(call('{}')), result('a'), result('a')]],
  [
    /^messages\[3\]: .* has no call; the number of calls before it is 1/,
    [USER, callsOf(call('{}')), result(), result()],
  ],
  [/^messages\[1\]: two calls have the id "a"/, [USER, callsOf(call('{}'), call('{}')), result('a')]],
  [
    /^messages\[4\]: .* "a" has no call/,
    [USER, callsOf(call('{}')), result('a'), callsOf(call('{}', 'b')), result('a')],
  ],
  [
    /^messages\[3\]: .* is the second result of its call/,
    [USER, callsOf(call('{}'), call('{}', 'b')), result('b'), result()],
  ],
];

for (const name of Object.keys(TEMPLATES))
  test(`${name}: results without a call are refused, by their message and id; calls without results are not`, () =>
    withModel(name, async (model) => {
      for (const [message, list] of WRONG) {
        for (const options of [{}, { toolChoice: 'none' }, { tools: TOOLS, toolChoice: 'auto' }])
          await assert.rejects(promptOf(model, list, options), { code: 'ARGUMENT', message }, String(message));
        await assert.rejects(model.countTokens(list), { code: 'ARGUMENT', message });
      }
      for (const list of [
        [USER, callsOf(call('{}'))],
        [USER, callsOf(call('{}'), call('{}', 'b')), result('b')],
        [USER, callsOf(call('{}'), call('{}', 'b')), result('b'), result('a'), USER],
        [USER, callsOf(call('{}')), result(), callsOf(call('{}')), result('a')],
        ...(name === 'mistral' ? [] : NAMELESS),
      ]) {
        const prompt = await promptOf(model, list);
        const results = list.filter(({ role }) => role === 'tool').length;
        assert.equal(prompt.split('a cold day').length - 1, results, prompt);
      }
    }));

test('arguments nested deeper than a template can write are refused with their message and depth', async () => {
  const nested = (/** @type {number} */ levels) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;
  for (const name of Object.keys(TEMPLATES))
    await withModel(name, async (model) => {
      for (const levels of [20, 90, 150, 199]) {
        const list = [USER, callsOf(call(nested(levels)))];
        const prompt = await promptOf(model, list).catch((error) => {
          assert.equal(error.code, 'ARGUMENT', `${name}: ${error.message}`);
          assert.match(
            error.message,
            new RegExp(`^messages\\[1\\]: the arguments of a call of "weather" are nested ${levels} levels`),
          );
          assert.match(error.hint, /as a string of JSON/);
          return null;
        });
        const isRecursive = name.startsWith('gemma4');
        assert.equal(prompt === null, isRecursive && levels > 100, `${name}: ${levels}`);
      }
    });
});
