// Calls of LFM2 and Gemma 4 through their templates: generated calls are parsed, required calls are in the model's notation, and calls and
// results appear in the prompt as the template writes them. The templates are short and have the syntax of published ones.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { serveModels } from '../../js/api/server/index.js';
import { createEngine, fromBytes } from '../../js/node.js';
import { ARGUMENTS, callForm, NAME } from '../../js/text/templates/call-form.js';
import { compile } from '../../js/text/templates/jinja.js';
import { EOS } from '../../js/text/templates/template-texts.js';
import { ENDS, marksOf, TEMPLATES } from './call-templates.mjs';
import { modelWith, scriptReply } from './scripted.mjs';

const FORMS = {
  lfm2: null,
  'lfm2.5': ['<|tool_call_start|>[N(A)', ', N(A)', ']<|tool_call_end|>', 'python', false, null],
  'lfm2.5, calls first': ['<|tool_call_start|>[N(A)', ', N(A)', ']<|tool_call_end|>', 'python', false, null],
  'lfm2, in JSON': [
    '<|tool_call_start|>[{"name": "N", "arguments": A}',
    ', {"name": "N", "arguments": A}',
    ']<|tool_call_end|>',
    null,
    false,
    null,
  ],
  'gemma4, results apart': [
    '<|tool_call>call:NA<tool_call|>',
    '<|tool_call>call:NA<tool_call|>',
    '<|tool_response>',
    'gemma',
    false,
    'model',
  ],
  'gemma4, results joined': [
    '<|tool_call>call:NA<tool_call|>',
    '<|tool_call>call:NA<tool_call|>',
    '',
    'gemma',
    true,
    'model',
  ],
  olmo3: ['<function_calls>N(A)', '\nN(A)', '</function_calls>', 'python', false, null],
  'pythonic, as JSON': ['[N(A)', ', N(A)', ']', 'python', false, null],
  'pythonic, in quotes without escapes': ['[N(A)', ', N(A)', ']', 'python', false, null],
  'pythonic, without quotes': ['[N(A)', ', N(A)', ']', 'python', false, null],
  internlm2: Array(2)
    .fill('<|action_start|><|plugin|>\n{"name": "N", "parameters": A}<|action_end|>')
    .concat('', null, false, null),
  'internlm2, as it is given': Array(2)
    .fill('<|action_start|><|plugin|>\n{"name": "N", "parameters": A}<|action_end|>')
    .concat('', null, false, null),
};

test('the notation of calls is detected in the output of a template', () => {
  const letters = (/** @type {string | null} */ text) => text?.replaceAll(NAME, 'N').replaceAll(ARGUMENTS, 'A') ?? null;
  for (const [name, template] of Object.entries(TEMPLATES)) {
    const render = compile(template);
    const form = callForm(
      (context) => render({ eos_token: EOS, ...context }),
      ['<|im_end|>', '<turn|>', '<|eot|>', EOS],
    );
    assert.deepEqual(
      form && [letters(form.first), letters(form.next), form.after, form.notation, form.joinsResults, form.contentRole],
      FORMS[/** @type {keyof typeof FORMS} */ (name)],
      name,
    );
  }
});

const parameters = {
  type: 'object',
  properties: {
    city: { type: 'string' },
    days: { type: 'integer', minimum: 1, maximum: 7 },
    options: {
      type: 'object',
      properties: { units: { enum: ['C', 'F', null] }, tags: { type: 'array', items: { type: 'string' } } },
      additionalProperties: false,
    },
    warm: { type: 'boolean' },
  },
  required: ['city'],
  additionalProperties: false,
};
/** The name of one tool begins with the name of the other. @type {any[]} */
const TOOLS = [
  { type: 'function', function: { name: 'weather', description: 'Tells the weather', parameters } },
  { type: 'function', function: { name: 'weather_now' } },
];
const messages = [{ role: 'user', content: 'Hi' }];
const must = { tool_choice: 'required' };
const named = { tool_choice: { type: 'function', function: { name: 'weather' } } };

/** Characters that a string may have to escape. */
const IN_STRING = '<|tool_call_end|>)] <tool_call|>}{,: é𝄞';
const HARD = `a "b" 'c' \\d\\n\n\t${IN_STRING}`;
const HARD_PYTHON = `"a \\"b\\" 'c' \\\\d\\\\n\\n\\t${IN_STRING}"`;

const thinks = { chat_template_kwargs: { enable_thinking: true } };
const thinksBeforeCall = { ...must, ...thinks };

/**
 * Texts of a model and their results: the content, the calls, the reasoning.
 * @type {[names: string[], text: string, request: object, content: string | null, calls: [string, object][], reasoning?: string][]}
 */
const REPLIES = [
  [['lfm2', 'lfm2.5', 'gemma4, results apart'], 'Well, no.', {}, 'Well, no.', []],
  [
    ['lfm2', 'lfm2.5', 'lfm2.5, calls first'],
    'Let me see.<|tool_call_start|>[weather(city="Oslo", days=3), weather_now()]<|tool_call_end|>',
    {},
    'Let me see.',
    [
      ['weather', { city: 'Oslo', days: 3 }],
      ['weather_now', {}],
    ],
  ],
  [
    ['lfm2', 'lfm2.5'],
    "<|tool_call_start|>[weather(city='Oslo', options={'units': None, \"tags\": ['a', \"b'\"]}, warm=True)]<|tool_call_end|>",
    {},
    null,
    [['weather', { city: 'Oslo', options: { units: null, tags: ['a', "b'"] }, warm: true }]],
  ],
  [
    ['lfm2', 'lfm2.5'],
    '<|tool_call_start|>[weather(city="Oslo", options={"units": null}, warm=false)]<|tool_call_end|>',
    {},
    null,
    [['weather', { city: 'Oslo', options: { units: null }, warm: false }]],
  ],
  [['lfm2', 'lfm2.5'], `<|tool_call_start|>[weather(city=${HARD_PYTHON})`, must, null, [['weather', { city: HARD }]]],
  [
    ['lfm2', 'lfm2.5'],
    "<|tool_call_start|>[weather(city='it\\'s \\x41\\u00e9\\a', days=7)",
    named,
    null,
    [['weather', { city: "it's Aé\x07", days: 7 }]],
  ],
  [['lfm2', 'lfm2.5'], '<|tool_call_start|>[weather_now()', must, null, [['weather_now', {}]]],
  [
    ['lfm2', 'lfm2.5', 'lfm2, in JSON'],
    'Hm.<|tool_call_start|>[{"name": "weather", "arguments": {"city": "Oslo"}}, {"name": "weather_now", "arguments": {}}]<|tool_call_end|>',
    {},
    'Hm.',
    [
      ['weather', { city: 'Oslo' }],
      ['weather_now', {}],
    ],
  ],
  [
    ['gemma4, results apart', 'gemma4, results joined'],
    'Let me see.<|tool_call>call:weather{city:<|"|>Oslo<|"|>,days:3}<tool_call|><|tool_call>call:weather_now{}<tool_call|>',
    {},
    'Let me see.',
    [
      ['weather', { city: 'Oslo', days: 3 }],
      ['weather_now', {}],
    ],
  ],
  [
    ['gemma4, results apart', 'gemma4, results joined'],
    '<|tool_call>call:weather{city:<|"|>Oslo<|"|>,options:{tags:[<|"|>a<|"|>,<|"|><|"|>],units:null},warm:true}<tool_call|>',
    {},
    null,
    [['weather', { city: 'Oslo', options: { tags: ['a', ''], units: null }, warm: true }]],
  ],
  [
    ['gemma4, results apart', 'gemma4, results joined'],
    `<|tool_call>call:weather{city:<|"|>${HARD}<|"|>}<tool_call|>`,
    must,
    null,
    [['weather', { city: HARD }]],
  ],
  [
    ['gemma4, results apart'],
    '<|tool_call>call:weather{city:<|"|>Oslo<|"|>,options:{units:None}}<tool_call|>',
    named,
    null,
    [['weather', { city: 'Oslo', options: { units: null } }]],
  ],
  [
    ['gemma4, results apart', 'gemma4, results joined'],
    '<|channel>thought\nHm.\n<channel|><|tool_call>call:weather{city:<|"|>Oslo<|"|>}<tool_call|>',
    thinks,
    null,
    [['weather', { city: 'Oslo' }]],
    'Hm.\n',
  ],
  [
    ['gemma4, results apart', 'gemma4, results joined'],
    '<|channel>thought\nHm.\n<channel|><|tool_call>call:weather_now{}<tool_call|>',
    thinksBeforeCall,
    null,
    [['weather_now', {}]],
    'Hm.\n',
  ],
  [['gemma4, results joined'], '<|channel>thought\nHm.\n<channel|>Well, no.', thinks, 'Well, no.', [], 'Hm.\n'],
];

/** Vocabularies in which marks are special tokens, added tokens (as in GGUF files of Gemma 4), or no tokens. */
for (const kind of /** @type {const} */ (['special', 'added', 'spelled']))
  describe(`answers with calls, marks are ${kind}`, () => {
    /** @type {import('../../js/shared/types.js').Engine} */
    let engine;
    /** @type {Record<string, import('../../js/shared/types.js').Model>} */
    const models = {};
    /** @param {string} name */
    const marks = (name) => (kind === 'spelled' ? false : marksOf(name));
    before(async () => {
      engine = await createEngine({ threads: 1 });
      for (const [name, template] of Object.entries(TEMPLATES))
        models[name] = await engine.load(
          fromBytes(await modelWith(template, { marks: marks(name), shown: kind === 'added', ends: ENDS })),
        );
    });
    after(() => engine.close());

    for (const [names, text, more, content, calls, reasoning] of REPLIES)
      for (const name of names)
        test(`${name}: ${JSON.stringify(text)} ${JSON.stringify(more)}`, async (t) => {
          // A template without calls is recognized by a token.
          if (kind === 'spelled' && name === 'lfm2') return;
          // In this case, reasoning and calls begin with the same token.
          if (kind === 'spelled' && more === thinksBeforeCall) return;
          // Another call and the mark of results also begin with it, which ends the calls.
          if (kind === 'spelled' && name === 'gemma4, results apart' && calls.length) return;
          const { refused, spelled, found } = scriptReply(t, text, { marks: marks(name) });
          const request = /** @type {any} */ ({ messages, tools: TOOLS, temperature: 0, max_tokens: 400, ...more });
          const [{ message, finish_reason }] = /** @type {any} */ (await models[name].chat.completions.create(request))
            .choices;
          const read = (message.tool_calls ?? []).map((/** @type {any} */ { function: f }) => [
            f.name,
            JSON.parse(f.arguments),
          ]);
          assert.deepEqual(refused, []);
          // Inside a string, a mark is no token.
          const inString = text.includes(IN_STRING) ? marksOf(name).filter((mark) => IN_STRING.includes(mark)) : [];
          if (kind === 'special') {
            assert.deepEqual(spelled, inString);
            for (const mark of marksOf(name))
              assert.equal(found.get(mark) ?? 0, text.replace(IN_STRING, '').split(mark).length - 1, mark);
          }
          assert.deepEqual(read, calls);
          assert.deepEqual([message.content, message.reasoning_content], [content, reasoning]);
          assert.equal(finish_reason, calls.length ? 'tool_calls' : 'stop');
        });

    test('the thought channel is reasoning without tools, too', async (t) => {
      const name = 'gemma4, results joined';
      for (const [text, reasoning] of /** @type {const} */ ([
        ['<|channel>thought\nHm.\n<channel|>Yes.<channel|>', 'Hm.\n'],
        ['Yes.<channel|>', undefined],
      ])) {
        scriptReply(t, text, { marks: marks(name) });
        const request = /** @type {any} */ ({ messages, temperature: 0, max_tokens: 60, ...thinks });
        const [{ message }] = /** @type {any} */ (await models[name].chat.completions.create(request)).choices;
        assert.equal(message.reasoning_content, reasoning);
        assert.equal(message.content, kind === 'special' ? 'Yes.' : 'Yes.<channel|>');
        t.mock.restoreAll();
      }
    });

    test('a stream has the same text and calls', async (t) => {
      for (const [name, text] of /** @type {const} */ ([
        ['lfm2.5', 'Well <tool <|tool_call_start|>[weather(city="Oslo"), weather(city=\'Oslo\')]<|tool_call_end|>'],
        [
          'gemma4, results joined',
          'Well <tool <|tool_call>call:weather{city:<|"|>Oslo<|"|>}<tool_call|><|tool_call>call:weather{city:<|"|>Oslo<|"|>}<tool_call|>',
        ],
      ])) {
        scriptReply(t, text, { marks: marks(name) });
        const deltas = [];
        const request = { messages, tools: TOOLS, max_tokens: 400, stream: /** @type {const} */ (true) };
        for await (const { choices } of await models[name].chat.completions.create(request)) deltas.push(choices[0]);
        assert.equal(deltas.map(({ delta }) => delta.content ?? '').join(''), 'Well <tool ');
        const calls = deltas.flatMap(({ delta }) => delta.tool_calls ?? []);
        assert.deepEqual(
          calls.map(({ index, function: f }) => [index, f.name, f.arguments]),
          [0, 1].map((index) => [index, 'weather', '{"city":"Oslo"}']),
        );
        assert.equal(deltas.at(-1)?.finish_reason, 'tool_calls');
        t.mock.restoreAll();
      }
    });

    test('a call that the limit truncates is no call; a required call ends before the limit', async (t) => {
      for (const [name, text] of /** @type {const} */ ([
        ['lfm2.5', `<|tool_call_start|>[weather(city="${'Oslo '.repeat(100)}")]<|tool_call_end|>`],
        ['gemma4, results joined', `<|tool_call>call:weather{city:<|"|>${'Oslo '.repeat(100)}<|"|>}<tool_call|>`],
      ])) {
        const ask = async (/** @type {object} */ more) => {
          scriptReply(t, text, { marks: marks(name) });
          const request = /** @type {any} */ ({ messages, tools: TOOLS, max_tokens: 120, temperature: 0, ...more });
          const { choices } = /** @type {any} */ (await models[name].chat.completions.create(request));
          t.mock.restoreAll();
          return choices[0];
        };
        const [cut, whole] = [await ask({}), await ask(must)];
        assert.equal(cut.message.tool_calls?.length ?? 0, cut.finish_reason === 'length' ? 0 : 1);
        assert.match(JSON.parse(whole.message.tool_calls[0].function.arguments).city, /^(Oslo ?)+/);
        assert.equal(whole.finish_reason, 'tool_calls');
      }
    });
  });

const oslo = { city: 'Os"lo', options: { tags: ['<|im_end|>'], units: null } };
/** @param {{ ids?: boolean }} [options] */
const conversation = ({ ids = true } = {}) => [
  ...messages,
  {
    role: 'assistant',
    content: 'Let me see.',
    tool_calls: [
      { ...(ids && { id: 'a' }), type: 'function', function: { name: 'weather', arguments: JSON.stringify(oslo) } },
      { ...(ids && { id: 'b' }), type: 'function', function: { name: 'weather_now', arguments: '{}' } },
    ],
  },
  { role: 'tool', ...(ids && { tool_call_id: 'a' }), content: '{"sky": "<turn|>", "days": [1, null]}' },
  { role: 'tool', ...(ids && { tool_call_id: 'b' }), content: 'cold' },
];
const later = [
  { role: 'assistant', content: 'It is cold.' },
  { role: 'user', content: 'Thanks' },
];

/** The text after the question in a prompt with results. @type {Record<string, string>} */
const PROMPTS = {
  lfm2: `<|im_start|>assistant
Let me see.<|tool_call_start|>[weather(city="Os\\"lo", options={"tags": ["<|im_end|>"], "units": None}), weather_now()]<|tool_call_end|><|im_end|>
<|im_start|>tool
<|tool_response_start|>{"sky": "<turn|>", "days": [1, null]}<|tool_response_end|><|im_end|>
<|im_start|>tool
<|tool_response_start|>cold<|tool_response_end|><|im_end|>
`,
  'lfm2.5': `<|im_start|>assistant
Let me see.<|tool_call_start|>[weather(city='Os"lo', options={"tags": ["<|im_end|>"], "units": null}), weather_now()]<|tool_call_end|><|im_end|>
<|im_start|>tool
{"sky": "<turn|>", "days": [1, null]}<|im_end|>
<|im_start|>tool
cold<|im_end|>
`,
  'gemma4, results apart': `<|turn>model
Let me see.<turn|>
<|turn>model
<|tool_call>call:weather{city:<|"|>Os"lo<|"|>,options:{tags:[<|"|><|im_end|><|"|>],units:None}}<tool_call|><|tool_call>call:weather_now{}<tool_call|><|tool_response>response:weather{value:<|"|>{"sky": "<turn|>", "days": [1, null]}<|"|>}<tool_response|><|tool_response>response:weather_now{value:<|"|>cold<|"|>}<tool_response|>`,
  'gemma4, results joined': `<|turn>model
Let me see.<turn|>
<|turn>model
<|tool_call>call:weather{city:<|"|>Os"lo<|"|>,options:{tags:[<|"|><|im_end|><|"|>],units:None}}<tool_call|><|tool_call>call:weather_now{}<tool_call|><|tool_response>response:weather{days:[1,None],sky:<|"|><turn|><|"|>}<tool_response|><|tool_response>response:weather_now{value:<|"|>cold<|"|>}<tool_response|>`,
};
/** The text at the end of a prompt: without an answer, and after an answer of the model. @param {string} name */
const promptEndings = (name) =>
  name.startsWith('lfm2')
    ? ['<|im_start|>assistant\n', 'It is cold.<|im_end|>\n<|im_start|>user\nThanks<|im_end|>\n<|im_start|>assistant\n']
    : [
        '<|channel>thought\n<channel|>',
        'It is cold.<turn|>\n<|turn>user\nThanks<turn|>\n<|turn>model\n<|channel>thought\n<channel|>',
      ];

test('calls and results appear as the template writes them, with ids and without; only special tokens of the template are tokens', async () => {
  const engine = await createEngine({ threads: 1 });
  for (const [name, wanted] of Object.entries(PROMPTS)) {
    const marks = [...marksOf(name), ...(name.startsWith('gemma') ? ['<|im_end|>'] : ['<turn|>'])];
    const [shown, special] = [
      await engine.load(
        fromBytes(await modelWith(TEMPLATES[/** @type {keyof typeof TEMPLATES} */ (name)], { marks, shown: true })),
      ),
      await engine.load(fromBytes(await modelWith(TEMPLATES[/** @type {keyof typeof TEMPLATES} */ (name)], { marks }))),
    ];
    const promptOf = async (/** @type {typeof shown} */ model, /** @type {any[]} */ list) => {
      const options = { tools: TOOLS, toolChoice: /** @type {const} */ ('auto'), maxTokens: 1, receipt: true };
      const { origin } = await model.generate(list, options).result;
      return origin?.prompt ?? [];
    };
    for (const ids of [true, false]) {
      const list = conversation({ ids });
      const [atOnce, afterwards] = promptEndings(name);
      const text = async (/** @type {any[]} */ all) => shown.detokenize(await promptOf(shown, all));
      assert.ok((await text(list)).endsWith(wanted + atOnce), `${name}:\n${await text(list)}`);
      const answer = name.startsWith('lfm2') ? `<|im_start|>assistant\n${afterwards}` : afterwards;
      const joined = name === 'gemma4, results apart' ? null : wanted + answer;
      if (joined)
        assert.ok((await text([...list, ...later])).endsWith(joined), `${name}:\n${await text([...list, ...later])}`);
    }
    // Text of a message that looks like a mark is no token: it is shown, and marks are not.
    const bare = await special.detokenize(await promptOf(special, conversation()));
    assert.equal(bare.split('<|im_end|>').length, 2, bare);
    assert.equal(bare.split('<turn|>').length, 2, bare);
    assert.ok(!/<\|tool_call|<\|"\|>|<\|im_start/.test(bare), bare);
    await shown.close();
    await special.close();
  }
  await engine.close();
});

test('a chat continues after its calls', async (t) => {
  const engine = await createEngine({ threads: 1 });
  for (const [name, text] of /** @type {const} */ ([
    ['lfm2', '<|tool_call_start|>[weather(city="Oslo")]<|tool_call_end|>'],
    ['gemma4, results joined', '<|tool_call>call:weather{city:<|"|>Oslo<|"|>}<tool_call|>'],
  ])) {
    const model = await engine.load(fromBytes(await modelWith(TEMPLATES[name], { marks: marksOf(name), ends: ENDS })));
    const chat = await model.createChat({ tools: TOOLS });
    const options = { toolChoice: /** @type {const} */ ('auto'), maxTokens: 400 };
    scriptReply(t, text, { marks: marksOf(name) });
    const { toolCalls } = await chat.send('Hi', options).result;
    assert.deepEqual(toolCalls, [{ name: 'weather', arguments: '{"city":"Oslo"}' }]);
    t.mock.restoreAll();
    scriptReply(t, 'It is cold.', { marks: marksOf(name) });
    const { text: answer } = await chat.send(/** @type {any} */ ({ role: 'tool', content: 'cold' }), options).result;
    assert.equal(answer, 'It is cold.');
    t.mock.restoreAll();
    // The template receives calls and results also without tools.
    const free = await model.createChat({ messages: /** @type {any} */ (chat.messages) });
    const { origin } = await free.send('And now?', { maxTokens: 1, receipt: true }).result;
    assert.match(await model.detokenize(origin?.prompt ?? []), /weather[^]*Oslo[^]*cold[^]*It is cold.[^]*And now\?/);
    await model.close();
  }
  await engine.close();
});

test('values that a notation cannot express are refused by name', async () => {
  const engine = await createEngine({ threads: 1 });
  for (const [name, badName] of /** @type {const} */ ([
    ['lfm2', 'a=b'],
    ['gemma4, results joined', 'a:b'],
  ])) {
    const model = await engine.load(fromBytes(await modelWith(TEMPLATES[name], { marks: marksOf(name) })));
    const ask = (/** @type {any} */ given) => {
      const tools = /** @type {any} */ ([{ type: 'function', function: { name: 'f', parameters: given } }]);
      return model.chat.completions.create({ messages, tools, tool_choice: 'required', max_tokens: 100 });
    };
    const of = (/** @type {any} */ schema) => ({ type: 'object', properties: { a: schema }, required: ['a'] });
    for (const [given, message] of /** @type {[any, RegExp][]} */ ([
      [{ type: 'object', properties: { [badName]: {} } }, new RegExp(`the name "${badName}" can't be written`)],
      [{ type: 'object', required: [badName] }, new RegExp(`the name "${badName}" can't be written`)],
      [
        of({ type: 'array', items: { type: 'string' }, uniqueItems: true, minItems: 2 }),
        /uniqueItems .* not supported/,
      ],
      [of({ type: 'object', minProperties: 3 }), /minProperties .* not supported/],
      [{ type: 'array' }, /expected the type "object", found "array"/],
    ]))
      await assert.rejects(ask(given), { code: 'GRAMMAR', message }, JSON.stringify(given));
    if (name === 'gemma4, results joined')
      await assert.rejects(ask(of({ enum: ['a <|"|> b'] })), {
        code: 'GRAMMAR',
        message: /the text "a <.*" can't be written/,
      });
    // One of several spellings is enough; recursive schemas are written recursively.
    const tree = { type: 'object', properties: { deeper: { $ref: '#' } }, additionalProperties: false };
    const { choices } = /** @type {any} */ (await ask(tree));
    assert.equal(typeof JSON.parse(choices[0].message.tool_calls[0].function.arguments), 'object');
    await model.close();
  }
  const model = await engine.load(fromBytes(await modelWith(TEMPLATES.lfm2, { marks: marksOf('lfm2') })));
  const call = { type: 'function', id: 'a', function: { name: 'f', arguments: '{"a=b": 1}' } };
  const asked = /** @type {any} */ ([...messages, { role: 'assistant', content: '', tool_calls: [call] }]);
  await assert.rejects(model.generate(asked, { maxTokens: 1 }).result, {
    code: 'ARGUMENT',
    message: /the arguments of a call: the name "a=b" can't be written/,
  });
  await engine.close();
});

test('invalid calls of a conversation are refused by name; members without a value are omitted, ids without one are ignored', async () => {
  const engine = await createEngine({ threads: 1 });
  for (const name of /** @type {const} */ ([
    'lfm2',
    'lfm2, in JSON',
    'gemma4, results joined',
    'gemma4, results apart',
  ])) {
    const model = await engine.load(
      fromBytes(await modelWith(TEMPLATES[name], { marks: marksOf(name), shown: true, ends: ENDS })),
    );
    const promptOf = async (/** @type {any} */ called) => {
      const reply = { role: 'assistant', content: '', tool_calls: [{ type: 'function', function: called }] };
      const options = { tools: TOOLS, toolChoice: /** @type {const} */ ('auto'), maxTokens: 1, receipt: true };
      const { origin } = await model.generate(/** @type {any} */ ([...messages, reply]), options).result;
      return model.detokenize(origin?.prompt ?? []);
    };
    const ofArguments = (/** @type {any} */ given) => promptOf({ name: 'weather', arguments: given });
    for (const [given, found] of /** @type {[any, RegExp][]} */ ([
      ...['[1]', '5', 'true', '"x"', [1], 5].map((one) => [one, /are .*; expected an object$/]),
      ['{"a": 1e999}', /contain a number, Infinity; expected/],
      [{ a: [NaN] }, /contain a number, NaN; expected/],
      [{ a: 1n }, /contain a bigint, 1; expected/],
      [{ a: () => 1 }, /contain a function, .*; expected/],
    ]))
      await assert.rejects(ofArguments(given), {
        code: 'ARGUMENT',
        message: new RegExp(`^the arguments of a call ${found.source}`),
        details: { param: 'messages' },
      });
    for (const called of [undefined, {}, { name: '' }, { name: 5, arguments: '{}' }])
      await assert.rejects(promptOf(called), {
        code: 'ARGUMENT',
        message: /^a call: expected the name of a function, found/,
        details: { param: 'messages' },
      });
    const bare = conversation({ ids: false });
    const nameless = bare.map(({ tool_calls, ...message }) => ({
      ...message,
      ...(tool_calls && { tool_calls: tool_calls.map((call) => ({ ...call, id: null })) }),
    }));
    const options = { tools: TOOLS, toolChoice: /** @type {const} */ ('auto'), maxTokens: 1, receipt: true };
    const prompts = [];
    for (const list of [bare, nameless]) {
      const { origin } = await model.generate(/** @type {any} */ (list), options).result;
      prompts.push(await model.detokenize(origin?.prompt ?? []));
    }
    assert.equal(prompts[1], prompts[0]);
    const none = await ofArguments('{}');
    for (const same of ['', 'null', null, undefined, {}, { a: undefined }]) assert.equal(await ofArguments(same), none);
    const date = '1970-01-01T00:00:00.000Z';
    assert.equal(await ofArguments({ a: new Date(0), b: undefined }), await ofArguments({ a: date }));
    await model.close();
  }
  await engine.close();
});

test('a result that its template would change is written as text', async () => {
  const engine = await createEngine({ threads: 1 });
  const name = 'gemma4, results joined';
  const model = await engine.load(
    fromBytes(await modelWith(TEMPLATES[name], { marks: marksOf(name), shown: true, ends: ENDS })),
  );
  const nested = (/** @type {number} */ levels) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;
  for (const [content, isObject] of /** @type {[string, boolean][]} */ ([
    ['{"a": 9007199254740991, "b": 0.1234567890123456789, "c": "1234567890123456789"}', true],
    ['{"a": 1234567890123456789}', false],
    ['{"a": [-1e999]}', false],
    [nested(30), true],
    [nested(150), false],
    [nested(300), false],
  ])) {
    const call = { id: 'a', type: 'function', function: { name: 'weather', arguments: '{}' } };
    const list = [
      ...messages,
      { role: 'assistant', content: '', tool_calls: [call] },
      { role: 'tool', tool_call_id: 'a', content },
    ];
    const options = { maxTokens: 1, receipt: true };
    const { origin } = await model.generate(/** @type {any} */ (list), options).result;
    const prompt = await model.detokenize(origin?.prompt ?? []);
    assert.equal(prompt.includes(`response:weather{value:<|"|>${content}<|"|>}`), !isObject, content);
  }
  await engine.close();
});

test('a server is asked for calls and receives their results', async (t) => {
  const engine = await createEngine({ threads: 1 });
  for (const [name, text] of /** @type {const} */ ([
    ['lfm2', "Let me see.<|tool_call_start|>[weather(city='Oslo'), weather_now()]<|tool_call_end|>"],
    [
      'gemma4, results apart',
      'Let me see.<|tool_call>call:weather{city:<|"|>Oslo<|"|>}<tool_call|><|tool_call>call:weather_now{}<tool_call|>',
    ],
  ])) {
    const marks = marksOf(name);
    const model = await engine.load(fromBytes(await modelWith(TEMPLATES[name], { marks, ends: ENDS })));
    const site = await serveModels([{ id: 'calls', model }], { port: 0 });
    const ask = async (/** @type {string} */ reply, /** @type {any} */ body) => {
      scriptReply(t, reply, { marks });
      const response = await fetch(new URL('chat/completions', site.url.endsWith('/') ? site.url : `${site.url}/`), {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'calls', tools: TOOLS, max_tokens: 300, temperature: 0, ...body }),
      });
      const answer = await response.text();
      t.mock.restoreAll();
      assert.equal(response.status, 200, answer);
      return answer;
    };
    const [{ message, finish_reason }] = JSON.parse(await ask(text, { messages })).choices;
    const read = (/** @type {any[]} */ calls) => calls.map(({ function: f }) => [f.name, f.arguments]);
    const wanted = [
      ['weather', '{"city":"Oslo"}'],
      ['weather_now', '{}'],
    ];
    assert.deepEqual([message.content, read(message.tool_calls), finish_reason], ['Let me see.', wanted, 'tool_calls']);
    const chunks = (await ask(text, { messages, stream: true }))
      .split('\n')
      .flatMap((line) => (line.startsWith('data: {') ? JSON.parse(line.slice(6)).choices : []));
    assert.deepEqual(read(chunks.flatMap(({ delta }) => delta.tool_calls ?? [])), wanted);
    const results = message.tool_calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'cold' }));
    const [last] = JSON.parse(await ask('It is cold.', { messages: [...messages, message, ...results] })).choices;
    assert.deepEqual([last.message.content, last.finish_reason], ['It is cold.', 'stop']);
    await site.close();
    await model.close();
  }
  await engine.close();
});
