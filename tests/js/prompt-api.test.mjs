// Tests of `bq4/prompt-api` by the text of the Prompt API (webmachinelearning.github.io/prompt-api) and of its shared parts, the writing
// assistance APIs. Each test names its algorithm.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { polyfill, promptApi } from '../../js/api/adapters/prompt-api.js';
import { connect } from '../../js/connect.js';
import { createWorkerEngine, fromFile } from '../../js/index.js';
import { connectToScript } from './scripted-server.mjs';

const FILE = fileURLToPath(new URL('../../models/chat.bq4', import.meta.url));
const fixed = { samplingMode: 'most-predictable' };
/** @type {import('../../js/index.js').Engine} */
let engine;
/** @type {import('../../js/index.js').Model} */
let model;
/** @type {any} */
let LanguageModel;
before(async () => {
  engine = await createWorkerEngine({ threads: 1 });
  model = await engine.load(fromFile(FILE), { contextTokens: 256 });
  LanguageModel = promptApi(model);
});
after(() => engine.close());

/** @param {object} [options] */
const create = (options) => LanguageModel.create({ ...fixed, ...options });
/** @param {Promise<any>} promise @param {string} name */
const rejects = (promise, name) => assert.rejects(promise, { name });
/** Answers of the model. @param {import('../../js/index.js').MessageLike[]} messages @param {object} [options] */
const replyTo = async (messages, options) =>
  (await model.generate(messages, { temperature: 0, topK: 1, ...options }).result).text;
const user = (/** @type {string} */ content) => ({ role: 'user', content });
/** A short answer. */
const SHORT = { responseConstraint: /yes|no/ };
/** @param {number} count @param {string} [word] */
const words = (count, word = 'word') => `${word} `.repeat(count).trim();

describe('availability', () => {
  test('language model non-options availability: downloadable, downloading, available; a failed download may be tried again', async () => {
    let fail = true;
    /** @type {(value?: any) => void} */
    let go = () => {};
    const Own = promptApi(async () => {
      await new Promise((resolve) => (go = resolve));
      if (fail) throw new Error('gone');
      return model;
    });
    assert.equal(await Own.availability(), 'downloadable');
    const first = Own.create();
    await Promise.resolve();
    assert.equal(await Own.availability(), 'downloading');
    go();
    await assert.rejects(first, /gone/);
    assert.equal(await Own.availability(), 'downloadable');
    fail = false;
    const [second, third] = [Own.create(), Own.create()];
    await new Promise((resolve) => setImmediate(resolve));
    go();
    await Promise.all([second, third]);
    assert.equal(await Own.availability(), 'available');
    assert.equal(await promptApi(async () => model, { cached: () => true }).availability(), 'available');
  });

  test('language model options availability: text input and output; languages by their first subtag; others are unavailable', async () => {
    const text = { type: 'text', languages: ['en', 'de-CH'] };
    assert.equal(await LanguageModel.availability({ expectedInputs: [text], expectedOutputs: [text] }), 'available');
    for (const type of ['image', 'audio', 'tool-response'])
      assert.equal(await LanguageModel.availability({ expectedInputs: [{ type }] }), 'unavailable', type);
    const Own = promptApi(model, { languages: ['en'] });
    assert.equal(await Own.availability({ expectedInputs: [{ type: 'text', languages: ['en-GB'] }] }), 'available');
    assert.equal(await Own.availability({ expectedOutputs: [text] }), 'unavailable');
  });

  test('validate and canonicalize language model options: RangeError for an invalid language tag, TypeError for an invalid type', async () => {
    await rejects(
      LanguageModel.availability({ expectedInputs: [{ type: 'text', languages: ['no tag!'] }] }),
      'RangeError',
    );
    await rejects(LanguageModel.availability({ expectedInputs: [{ type: 'smell' }] }), 'TypeError');
    await rejects(LanguageModel.availability({ expectedInputs: 'text' }), 'TypeError');
  });
});

describe('create', () => {
  test('an instance of the class, whose constructor is not public', async () => {
    const session = await create();
    assert.ok(session instanceof LanguageModel && session instanceof EventTarget);
    assert.equal(String(session), '[object LanguageModel]');
    assert.throws(() => new LanguageModel(), TypeError);
  });

  test('downloadprogress: 0, fractions in parts of 65,536, 1; ondownloadprogress; total 1', async () => {
    /** @type {any[]} */
    const events = [];
    /** @type {number[]} */
    const handled = [];
    const Own = promptApi(async ({ onProgress }) => {
      for (const loaded of [10, 20, 100]) {
        await new Promise((resolve) => setTimeout(resolve, 60));
        onProgress(/** @type {any} */ ({ phase: 'download', loaded, total: 100 }));
      }
      return model;
    });
    await Own.create({
      monitor(/** @type {any} */ monitor) {
        monitor.addEventListener('downloadprogress', (/** @type {any} */ event) => events.push(event));
        monitor.ondownloadprogress = (/** @type {any} */ event) => handled.push(event.loaded);
      },
    });
    const loaded = events.map((event) => event.loaded);
    assert.deepEqual([loaded[0], loaded.at(-1)], [0, 1]);
    assert.deepEqual(
      loaded,
      [...new Set(loaded)].sort((a, b) => a - b),
    );
    assert.ok(loaded.length > 2 && loaded.every((part) => Number.isInteger(part * 65_536)), `${loaded}`);
    assert.ok(events.every(({ total, lengthComputable }) => total === 1 && lengthComputable === true));
    assert.deepEqual(handled, loaded);
    /** @type {number[]} */
    const there = [];
    await create({
      monitor: (/** @type {any} */ m) =>
        m.addEventListener('downloadprogress', (/** @type {any} */ e) => there.push(e.loaded)),
    });
    assert.deepEqual(there, [0, 1], 'of a model that is there');
  });

  test('exceptions of monitor, and an abort, reject the promise', async () => {
    const boom = new Error('boom');
    await assert.rejects(create({ monitor: () => { throw boom; } }), boom); // prettier-ignore
    await rejects(create({ signal: AbortSignal.abort() }), 'AbortError');
    const controller = new AbortController();
    const Own = promptApi(() => new Promise(() => {}));
    const late = Own.create({ signal: controller.signal });
    controller.abort(boom);
    await assert.rejects(late, boom);
  });

  test("after creation the signal's abort destroys the session, with its reason", async () => {
    const controller = new AbortController();
    const session = await create({ signal: controller.signal });
    const boom = new Error('boom');
    controller.abort(boom);
    await assert.rejects(session.prompt('Hello'), boom);
  });

  test('NotSupportedError for unavailable options; QuotaExceededError, with numbers, for initial prompts that are too long', async () => {
    await rejects(create({ expectedInputs: [{ type: 'image' }] }), 'NotSupportedError');
    await assert.rejects(create({ initialPrompts: [user(words(400))] }), (/** @type {any} */ error) => {
      assert.equal(error.name, 'QuotaExceededError');
      assert.equal(error.quota, 256);
      return error.requested > 400;
    });
  });

  test('NetworkError if the model cannot be fetched', async () => {
    const Own = promptApi(() => engine.load(fromFile('nowhere.bq4')));
    await rejects(Own.create(), 'NetworkError');
  });

  test('initialPrompts: examples come before every prompt', async () => {
    const initialPrompts = [user('Hi'), { role: 'assistant', content: 'Hello.' }];
    const session = await create({ initialPrompts });
    assert.ok(session.contextUsage > 0);
    assert.equal(
      await session.prompt('Who?', SHORT),
      await replyTo([...initialPrompts, user('Who?')], { responseFormat: { type: 'regex', pattern: /yes|no/ } }),
    );
  });

  test('samplingMode, or topK and temperature; both are a TypeError; attributes and params()', async () => {
    const plain = await LanguageModel.create();
    assert.deepEqual([plain.samplingMode, plain.topK, plain.temperature], ['balanced', 40, 0.7]);
    const { maxTopK, maxTemperature, defaultTopK, defaultTemperature } = await LanguageModel.params();
    assert.deepEqual([defaultTopK, defaultTemperature], [plain.topK, plain.temperature]);
    const raw = await LanguageModel.create({ topK: 3.7, temperature: Infinity });
    assert.deepEqual([raw.topK, raw.temperature], [3, maxTemperature]);
    assert.equal((await LanguageModel.create({ topK: Infinity })).topK, maxTopK);
    assert.equal((await create()).temperature, 0);
    await rejects(create({ topK: 3 }), 'TypeError');
    await rejects(LanguageModel.create({ samplingMode: 'wild' }), 'TypeError');
    for (const wrong of [{ topK: 0 }, { topK: NaN }, { temperature: -1 }])
      await rejects(LanguageModel.create(wrong), 'RangeError');
  });
});

describe('validate and canonicalize a prompt', () => {
  test('a string, a message, parts: the same; text parts are joined without a space', async () => {
    const messages = [];
    for (const input of [
      'Hello there',
      [user('Hello there')],
      [
        {
          role: 'user',
          content: [
            { type: 'text', value: 'Hello' },
            { type: 'text', value: ' there' },
          ],
        },
      ],
    ])
      messages.push(await (await create()).prompt(input, SHORT));
    assert.deepEqual(messages, Array(3).fill(messages[0]));
    assert.equal(await (await create()).measureContextUsage([]), await (await create()).measureContextUsage(''));
  });

  /** @type {[string, any, string][]} */
  const wrong = [
    ['no role', [{ role: 'judge', content: 'x' }], 'TypeError'],
    ['no content', [{ role: 'user' }], 'TypeError'],
    ['a text that is no string', [{ role: 'user', content: [{ type: 'text', value: 5 }] }], 'TypeError'],
    ['no type', [{ role: 'user', content: [{ type: 'x', value: 'x' }] }], 'TypeError'],
    ['an image', [{ role: 'user', content: [{ type: 'image', value: 'x' }] }], 'NotSupportedError'],
    ['audio', [{ role: 'user', content: [{ type: 'audio', value: 'x' }] }], 'NotSupportedError'],
    [
      'an image of the assistant',
      [{ role: 'assistant', content: [{ type: 'image', value: 'x' }] }],
      'NotSupportedError',
    ],
    ['a prefix of the user', [{ role: 'user', content: 'x', prefix: true }], 'SyntaxError'],
    ['a prefix amid', [{ role: 'assistant', content: 'x', prefix: true }, user('x')], 'SyntaxError'],
    ['a system message behind another', [user('x'), { role: 'system', content: 'x' }], 'TypeError'],
  ];
  for (const [what, input, name] of wrong)
    test(`${what}: ${name}`, async () => {
      const session = await create();
      await rejects(session.prompt(input), name);
      await rejects(session.append(input), name);
      await rejects(session.promptStreaming(input).getReader().read(), name);
      await rejects(create({ initialPrompts: input }), name);
      assert.equal(session.contextUsage, 0);
    });

  test('a system message is the first one of an empty session, and invalid in others', async () => {
    const session = await create();
    await session.append([{ role: 'system', content: 'Be brief.' }]);
    await rejects(session.append([{ role: 'system', content: 'Be long.' }]), 'TypeError');
  });

  test('prefix: the answer continues from it', async () => {
    const session = await create();
    const text = await session.prompt([user('Hello!'), { role: 'assistant', content: 'My name is', prefix: true }]);
    assert.equal(text, await replyTo([user('Hello!')], { prefix: 'My name is' }));
  });
});

describe('prompt and promptStreaming', () => {
  test('a conversation continues; chunks are deltas, and their concatenation is the result of prompt', async () => {
    const [whole, streamed] = [await create(), await create()];
    for (const message of ['Hello!', 'Who are you?']) {
      const text = await whole.prompt(message);
      const chunks = [];
      for await (const chunk of streamed.promptStreaming(message)) chunks.push(chunk);
      assert.equal(chunks.join(''), text);
      assert.ok(chunks.length > 1 && chunks.every((chunk) => typeof chunk === 'string' && chunk));
    }
    assert.equal(whole.contextUsage, streamed.contextUsage);
  });

  test('append, then prompt: two consecutive messages of the user', async () => {
    const session = await create();
    assert.equal(await session.append('Hello!'), undefined);
    assert.equal(await session.prompt('Who?'), await replyTo([user('Hello!\nWho?')]));
  });

  test('prompts are queued: each has the answer to the one before in its context', async () => {
    const session = await create();
    const [first, second] = await Promise.all([session.prompt('Hello!', SHORT), session.prompt('Who?', SHORT)]);
    const responseFormat = { type: /** @type {const} */ ('regex'), pattern: /yes|no/ };
    assert.equal(
      second,
      await replyTo([user('Hello!'), { role: 'assistant', content: first }, user('Who?')], { responseFormat }),
    );
  });

  test('an abort rejects with its reason, and the exchange is discarded', async () => {
    const session = await create();
    const usage = session.contextUsage;
    const boom = new Error('boom');
    await assert.rejects(session.prompt('Hello!', { signal: AbortSignal.abort(boom) }), boom);
    assert.throws(() => session.promptStreaming('Hello!', { signal: AbortSignal.abort(boom) }), boom);
    const controller = new AbortController();
    const reader = session.promptStreaming('Hello!', { signal: controller.signal }).getReader();
    await reader.read();
    controller.abort();
    await rejects(
      (async () => {
        while (!(await reader.read()).done);
      })(),
      'AbortError',
    );
    const queued = new AbortController();
    const [first, second] = [session.prompt('Hello!', SHORT), session.prompt('Who?', { signal: queued.signal })];
    queued.abort();
    await rejects(second, 'AbortError');
    await first;
    const other = await create();
    await other.prompt('Hello!', SHORT);
    assert.equal(usage, 0);
    assert.equal(session.contextUsage, other.contextUsage);
  });

  test('a canceled stream stops, without an error', async () => {
    const session = await create();
    const stream = session.promptStreaming('Tell me a story.');
    const reader = stream.getReader();
    await reader.read();
    await reader.cancel();
    assert.equal(session.contextUsage, 0);
    assert.equal(typeof (await session.prompt('Hello!', SHORT)), 'string');
  });

  test('a prompt that has ended leaves no listener on the signal', async () => {
    const { signal } = new AbortController();
    let count = 0;
    const { addEventListener } = signal;
    signal.addEventListener = (/** @type {any} */ name, /** @type {any} */ listener, /** @type {any} */ options) => {
      count++;
      options.signal.addEventListener('abort', () => count--);
      addEventListener.call(signal, name, listener, options);
    };
    const session = await create();
    await session.prompt('Hello!', { ...SHORT, signal });
    await session.measureContextUsage('Hello!', { signal });
    assert.equal(count, 0);
  });
});

describe('responseConstraint', () => {
  test('responseConstraint accepts a schema and a regular expression', async () => {
    const session = await create();
    const schema = { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] };
    assert.equal(typeof JSON.parse(await session.prompt('Is it?', { responseConstraint: schema })).ok, 'boolean');
    assert.match(
      await session.prompt('Is it?', { responseConstraint: /^[a-c]{4}$/, omitResponseConstraintInput: true }),
      /^[a-c]{4}$/,
    );
  });

  test('TypeError for other values, and for omitResponseConstraintInput without a constraint; SyntaxError if no answer can match', async () => {
    const session = await create();
    for (const responseConstraint of ['text', 5, [], true])
      await rejects(session.prompt('x', { responseConstraint }), 'TypeError');
    await rejects(session.prompt('x', { omitResponseConstraintInput: true }), 'TypeError');
    await rejects(session.measureContextUsage('x', { omitResponseConstraintInput: true }), 'TypeError');
    await rejects(session.prompt('x', { responseConstraint: { $ref: 'https://elsewhere.example/' } }), 'SyntaxError');
    await rejects(session.prompt('x', { responseConstraint: /(?=x)y/ }), 'SyntaxError');
    await rejects(session.prompt('x', { responseConstraint: /a{2000}/ }), 'SyntaxError');
    assert.equal(session.contextUsage, 0, 'what failed never was');
  });
});

describe('usage and overflow', () => {
  test('measureContextUsage is the number of tokens of a prompt; contextUsage grows by it and the answer; older names have the same values', async () => {
    const session = await create({ initialPrompts: [{ role: 'system', content: 'Be brief.' }] });
    const before = session.contextUsage;
    const needed = await session.measureContextUsage('Hello there!');
    assert.ok(needed > 2);
    assert.equal(session.contextUsage, before, 'measuring changes nothing');
    assert.equal(await session.measureInputUsage('Hello there!'), needed);
    await session.append('Hello there!');
    assert.equal(session.contextUsage, before + needed);
    assert.deepEqual([session.inputUsage, session.inputQuota], [session.contextUsage, session.contextWindow]);
    assert.equal(session.contextWindow, model.info.contextTokens);
    await rejects(session.measureContextUsage('x', { signal: AbortSignal.abort() }), 'AbortError');
  });

  test('overflow: the oldest exchanges are removed, initial prompts stay, contextoverflow and quotaoverflow are fired once', async () => {
    const initialPrompts = [user('Hi'), { role: 'assistant', content: 'Hello.' }];
    const session = await create({ initialPrompts });
    /** @type {string[]} */
    const events = [];
    session.oncontextoverflow = (/** @type {Event} */ event) => events.push(event.type);
    session.onquotaoverflow = (/** @type {Event} */ event) => events.push(event.type);
    session.addEventListener('contextoverflow', () => events.push('listener'));
    assert.equal(typeof session.oncontextoverflow, 'function');
    const long = words(90);
    await session.prompt(words(60), SHORT);
    const one = session.contextUsage;
    const second = await session.prompt(long, SHORT);
    assert.deepEqual(events, []);
    const third = await session.prompt(words(110), SHORT);
    assert.deepEqual(events.sort(), ['contextoverflow', 'listener', 'quotaoverflow']);
    assert.ok(session.contextUsage < 256 && session.contextUsage > one);
    const responseFormat = { type: /** @type {const} */ ('regex'), pattern: /yes|no/ };
    const kept = [...initialPrompts, user(long), { role: 'assistant', content: second }, user(words(110))];
    assert.equal(third, await replyTo(kept, { responseFormat }));
    assert.equal(session.contextUsage, await model.countTokens([...kept, { role: 'assistant', content: third }]));
  });

  test('QuotaExceededError if that is not enough, and nothing is removed', async () => {
    const session = await create();
    await session.prompt('Hello!', SHORT);
    const usage = session.contextUsage;
    let events = 0;
    session.oncontextoverflow = () => events++;
    await assert.rejects(
      session.prompt(words(400)),
      (/** @type {any} */ error) => error.name === 'QuotaExceededError' && error.requested > error.quota,
    );
    await rejects(session.append(words(400)), 'QuotaExceededError');
    assert.deepEqual([session.contextUsage, events], [usage, 0]);
  });
});

describe('clone and destroy', () => {
  test('a clone continues separately, with the same messages and settings', async () => {
    const session = await create({ initialPrompts: [user('Hi'), { role: 'assistant', content: 'Hello.' }] });
    await session.prompt('Hello!', SHORT);
    const clone = await session.clone();
    assert.ok(clone instanceof LanguageModel);
    for (const name of ['contextUsage', 'contextWindow', 'topK', 'temperature', 'samplingMode'])
      assert.equal(clone[name], session[name], name);
    assert.equal(await clone.prompt('Who?', SHORT), await session.prompt('Who?', SHORT));
    const { contextUsage } = session;
    await clone.append('More.');
    assert.equal(session.contextUsage, contextUsage);
    session.destroy();
    assert.equal(typeof (await clone.prompt('Who?', SHORT)), 'string');
    await rejects(clone.clone({ signal: AbortSignal.abort() }), 'AbortError');
  });

  test('destroy: running and later calls reject with an AbortError; the model stays loaded', async () => {
    const session = await create();
    const under = session.prompt('Tell me a story.');
    const reader = session.promptStreaming('Hello!').getReader();
    session.destroy();
    await rejects(under, 'AbortError');
    await rejects(reader.read(), 'AbortError');
    for (const call of ['prompt', 'append', 'measureContextUsage', 'clone'])
      await rejects(session[call]('x'), 'AbortError');
    assert.throws(() => session.promptStreaming('x'), { name: 'AbortError' });
    assert.equal(typeof (await (await create()).prompt('Hello!', SHORT)), 'string');
  });
});

describe('tools', () => {
  const inputSchema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
  const weather = (/** @type {any} */ execute) => ({
    name: 'weather',
    description: 'the weather',
    inputSchema,
    execute,
  });

  test('the calls of a round run at once, the model receives their results, and its next text is the answer', async () => {
    const call = (/** @type {number} */ index, /** @type {string} */ city) => ({
      tool_calls: [
        {
          index,
          id: `c${index}`,
          type: 'function',
          function: { name: 'weather', arguments: JSON.stringify({ city }) },
        },
      ],
    });
    const { model: remote, requests } = await connectToScript([
      [call(0, 'Oslo'), call(1, 'Rome')],
      [{ content: 'Rome is' }, { content: ' warmer.' }],
    ]);
    const speaks = /** @type {any} */ ({
      ...remote,
      info: { context: 99 },
      countTokens: async () => 7,
      tokenize: async () => [],
    });
    /** @type {any[]} */
    const asked = [];
    const session = await promptApi(speaks).create({
      expectedInputs: [{ type: 'tool-response' }],
      expectedOutputs: [{ type: 'tool-call' }],
      tools: [
        weather(async (/** @type {any} */ input) => (asked.push(input.city), input.city === 'Rome' ? '20' : '3')),
      ],
    });
    assert.equal(await session.prompt('Where is it warmer?'), 'Rome is warmer.');
    assert.deepEqual(asked, ['Oslo', 'Rome']);
    assert.deepEqual(requests[0].tools[0].function.parameters, inputSchema);
    assert.deepEqual(
      requests[1].messages
        .slice(-2)
        .map((/** @type {any} */ { role, tool_call_id, content }) => [role, tool_call_id, content]),
      [
        ['tool', 'c0', '3'],
        ['tool', 'c1', '20'],
      ],
    );
  });

  /**
   * Prompts a session whose model calls tools once. Returns the contents of the results.
   * @param {((input: any) => unknown)[]} executes  of the calls @param {{ name?: string, arguments?: string }} [fields]
   */
  async function runCalls(executes, fields) {
    const calls = executes.map((_, index) => ({
      tool_calls: [
        { index, id: `c${index}`, type: 'function', function: { name: `t${index}`, arguments: '{}', ...fields } },
      ],
    }));
    const { model: remote, requests } = await connectToScript([calls, [{ content: 'Well.' }]]);
    const info = { contextTokens: 99 };
    const speaks = /** @type {any} */ ({ ...remote, info, countTokens: async () => 7, tokenize: async () => [] });
    const tools = executes.map((execute, i) => ({ ...weather(execute), name: `t${i}` }));
    assert.equal(await (await promptApi(speaks).create({ tools })).prompt('Where is it warmer?'), 'Well.');
    return requests[1].messages.slice(-executes.length).map((/** @type {any} */ message) => message.content);
  }

  test('results are strings or become JSON', async () => {
    /** @type {[unknown, string][]} */
    const results = [
      ['7 °C', '7 °C'],
      ['{"a":', '{"a":'],
      [{ degrees: 7, unit: 'C' }, '{"degrees":7,"unit":"C"}'],
      [[1, { a: null }], '[1,{"a":null}]'],
      [7, '7'],
      [12345678901234567890n, '12345678901234567890'],
      [true, 'true'],
      [null, 'null'],
      [undefined, ''],
      [new Map([['Oslo', 7]]), '{"Oslo":7}'],
      [new Set(['a']), '["a"]'],
      [new Date(0), '"1970-01-01T00:00:00.000Z"'],
      [Promise.resolve({ late: 1 }), '{"late":1}'],
    ];
    assert.deepEqual(
      await runCalls(
        results.map(
          ([result]) =>
            () =>
              result,
        ),
      ),
      results.map(([, content]) => content),
    );
  });

  test('results that are not JSON reject the prompt; the error names the tool and what it returned', async () => {
    const circle = /** @type {any} */ ({});
    circle.self = circle;
    for (const [result, found] of /** @type {[unknown, string][]} */ ([
      [circle, 'an object that contains itself'],
      [new Response('x'), 'an object of the class Response'],
      [{ answer: new Headers() }, 'an object of the class Headers'],
      [new ArrayBuffer(4), 'an object of the class ArrayBuffer'],
      [[Promise.resolve(1)], 'an object of the class Promise'],
      [() => 7, 'a function'],
      [Symbol('x'), 'a symbol'],
    ])) {
      await assert.rejects(
        runCalls([() => result]),
        (/** @type {any} */ error) =>
          error instanceof DOMException &&
          error.message.startsWith(`the tool "t0" failed: expected a result that JSON can represent, found ${found}`),
        found,
      );
    }
  });

  test('TypeError for invalid tools; an exception of a tool rejects the prompt', async () => {
    for (const tool of [{}, weather(5), { ...weather(() => ''), inputSchema: 'x' }])
      await rejects(create({ tools: [tool] }), 'TypeError');
    const error = new RangeError('no such city');
    const throwError = () => {
      throw error;
    };
    for (const execute of [throwError, () => Promise.reject(error), () => error])
      await assert.rejects(runCalls([execute]), error);
    // The rejection of the first call must not be unhandled.
    await assert.rejects(runCalls([() => Promise.reject(error), throwError]), error);
  });

  test('the model receives an error for an unknown tool; arguments that are not JSON reject the prompt', async () => {
    assert.deepEqual(await runCalls([() => assert.fail('the tool has another name')], { name: 'frob' }), [
      'Error: unknown tool "frob", expected one of t0',
    ]);
    await assert.rejects(runCalls([() => 7], { arguments: '{"city"' }), {
      name: 'UnknownError',
      message: 'expected JSON as the arguments of the call of "t0", found "{\\"city\\""',
    });
  });
});

test('polyfill: only without a native class', () => {
  const page = /** @type {any} */ (globalThis);
  assert.equal(page.LanguageModel, undefined);
  try {
    const output = polyfill(model);
    assert.equal(page.LanguageModel, output);
    assert.equal(polyfill(model), output);
  } finally {
    delete page.LanguageModel;
  }
});

test('polyfill: with a native class without a model, ours by an option', () => {
  const own = class {};
  const page = /** @type {any} */ (globalThis);
  const before = Object.getOwnPropertyDescriptor(page, 'LanguageModel');
  Object.defineProperty(page, 'LanguageModel', { get: () => own, configurable: true });
  try {
    assert.equal(
      polyfill(() => assert.fail('nothing is loaded')),
      own,
    );
    const ours = polyfill(() => assert.fail('nothing is loaded'), { replace: true });
    assert.notEqual(ours, own);
    assert.equal(page.LanguageModel, ours);
  } finally {
    if (before) Object.defineProperty(page, 'LanguageModel', before);
    else delete page.LanguageModel;
  }
});

test("a page's settings of its model are checked by name", () => {
  for (const make of [promptApi, polyfill]) {
    for (const wrong of /** @type {any[]} */ ([null, undefined, {}, 'x', Promise.resolve(model)]))
      assert.throws(() => make(wrong, make === polyfill ? { replace: true } : {}), {
        name: 'TypeError',
        message: /^expected a loaded model \(await load\(\)\)/,
      });
    for (const [about, message] of /** @type {[any, RegExp][]} */ ([
      [{ language: ['en'] }, /^unknown option "language", expected one of cached, languages/],
      [{ languages: 'en' }, /^expected a list of strings as the option "languages"/],
      [{ cached: true }, /^expected a function as the option "cached"/],
      [null, /^the options must be an object/],
    ]))
      assert.throws(() => make(model, about), { name: 'TypeError', message });
  }
  assert.throws(() => promptApi(model, /** @type {any} */ ({ replace: true })), {
    message: /unknown option "replace"/,
  });
  assert.equal(/** @type {any} */ (globalThis).LanguageModel, undefined);
});

test('a model of connect(), and functions that load no model, are refused by name; a function may return the model itself', async () => {
  const remote = connect('http://127.0.0.1:9/v1');
  assert.throws(() => promptApi(/** @type {any} */ (remote)), {
    name: 'TypeError',
    message: /^expected a loaded model/,
  });
  for (const load of /** @type {any[]} */ ([() => {}, () => remote, async () => engine])) {
    const Own = promptApi(load);
    const error = { name: 'TypeError', message: /^expected a function that returns a model of load\(\), found / };
    await assert.rejects(Own.create(), error);
    assert.equal(await Own.availability(), 'downloadable', 'the next session tries again');
  }
  /** @type {any} */
  const Own = promptApi(/** @type {any} */ (() => model));
  assert.equal(await (await Own.create(fixed)).prompt('Hello!'), await replyTo([user('Hello!')]));
});
