// Tests of calls with invalid options, objects that are created while their parent closes, and ports that end: nothing is left allocated.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { createEngine } from '../../js/node.js';
import { connectEngine, createWorkerEngine, fromBytes } from '../../js/index.js';
import { checkOptions } from '../../js/shared/options.js';
import { LocalModel } from '../../js/engine/model/model.js';
import { Threads } from '../../js/wasm/threads.js';
import { inTime } from '../waiting.mjs';
import { tinyModel } from './fixture.mjs';
import { setTimeouts } from './timeouts.mjs';

test('options are checked by kind and range', () => {
  const signal = { throwIfAborted() {} };
  const wrong = {
    generate: {
      maxTokens: [1.5, -1, NaN, '5', true],
      deadline: [true, '5', -1, NaN, null, new Date(NaN)],
      temperature: [Infinity, NaN, '1', -0.1],
      topP: [1.1, NaN],
      repeatPenalty: [-1, 1e39, 1e308],
      presencePenalty: [Infinity, -Infinity, NaN],
      maxTokensPerSecond: [0, -1, '5', true],
      signal: [signal, {}, null],
    },
    load: { memoryBudget: ['5', true, 0, NaN], contextTokens: [1.5, Infinity], sessions: [0, 64] },
    fromUrl: { timeout: ['5', true, NaN, -1], retryDelay: [Infinity, '1'], retries: [1.5, Infinity] },
  };
  for (const [what, options] of Object.entries(wrong))
    for (const [name, values] of Object.entries(options))
      for (const value of values)
        assert.throws(
          () => checkOptions(/** @type {any} */ (what), { [name]: value }),
          { code: 'ARGUMENT', details: { param: name } },
          `${what} ${name}: ${value}`,
        );
  checkOptions('generate', {
    maxTokens: Infinity,
    deadline: new Date(),
    maxTokensPerSecond: Infinity,
    signal: new AbortController().signal,
  });
});

test('a failed call whose result is not awaited is reported, in each engine and in a chat', async (t) => {
  const { error } = console;
  t.after(() => (console.error = error));
  /** @type {any[]} */
  const reports = [];
  console.error = (one) => reports.push(one.code);
  for (const create of [createEngine, createWorkerEngine]) {
    const engine = await create({ threads: 1 });
    const model = await engine.load(fromBytes(await tinyModel()));
    const chat = await model.createChat();
    const wrong = /** @type {any} */ ({ maxTokens: -1 });
    const read = [model.generate('x', wrong), chat.send('x', wrong)];
    model.generate('x', wrong);
    model.generate([{ role: 'user', content: 'x' }], wrong);
    chat.send('x', wrong);
    for (const one of read) await assert.rejects(one.result, { code: 'ARGUMENT' });
    await new Promise((resolve) => setTimeout(resolve)); // timers run in order
    assert.deepEqual(reports.splice(0), ['ARGUMENT', 'ARGUMENT', 'ARGUMENT']);
    await engine.close();
  }
});

test('a program that has opened ports of its engine can exit', () => {
  const module = (/** @type {string} */ name) => JSON.stringify(new URL(`../../js/${name}`, import.meta.url).href);
  for (const close of ['', 'await engine.close();']) {
    const program = `import { createEngine } from ${module('node.js')};
      const engine = await createEngine({ threads: 1 });
      await engine.openPort(); await engine.openPort(); ${close} console.log('end');`;
    const { status, stdout, signal } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      encoding: 'utf8',
      timeout: 60_000,
    });
    assert.deepEqual([signal, status, stdout.trim()], [null, 0, 'end']);
  }
});

test('a port closes with its engine: calls over it fail and do not hang', async () => {
  const engine = await createEngine({ threads: 1 });
  const far = await connectEngine(await engine.openPort());
  const model = await far.load(fromBytes(await tinyModel()));
  const died = new Promise((resolve) => far.events.addEventListener('died', resolve));
  await engine.close();
  await inTime('the event "died"', died);
  await assert.rejects(model.tokenize('x'), { code: 'NO_WORKER' });
  await far.close();
});

test('a failed load releases its memory, and the engine does not list its model', async (t) => {
  const engine = await createEngine({ threads: 2 });
  t.after(() => engine.close());
  const bytes = await tinyModel();
  const { attach } = Threads.prototype;
  const { findChatFormat } = LocalModel.prototype;
  t.after(() => {
    Threads.prototype.attach = attach;
    LocalModel.prototype.findChatFormat = findChatFormat;
  });
  /** @type {import('../../js/wasm/wasm.js').Wasm[]} */
  const failed = [];
  Threads.prototype.attach = async (wasm) => {
    failed.push(wasm);
    throw new Error('no threads');
  };
  await assert.rejects(engine.load(fromBytes(bytes)), { message: 'no threads' });
  Threads.prototype.attach = function (wasm, ...given) {
    failed.push(wasm);
    return attach.call(this, wasm, ...given);
  };
  LocalModel.prototype.findChatFormat = async () => {
    throw new Error('no chat');
  };
  await assert.rejects(engine.load(fromBytes(bytes)), { message: 'no chat' });
  assert.deepEqual(
    failed.map(({ alive }) => alive),
    [false, false],
  );
  LocalModel.prototype.findChatFormat = findChatFormat;
  const model = /** @type {any} */ (await engine.load(fromBytes(bytes)));
  assert.equal(model.siblings.size, 1);
});

test('an unread reply does not block other replies', async (t) => {
  setTimeouts(t, { sessionWait: 0, sessionLook: 1 });
  const engine = await createEngine({ threads: 1 });
  t.after(() => engine.close());
  const model = await engine.load(fromBytes(await tinyModel()));
  const parts = model.generate('x', { maxTokens: 50 })[Symbol.asyncIterator]();
  await parts.next();
  await assert.rejects(inTime('the refusal', model.generate('y').result), { code: 'NO_SESSION' });
  await parts.return?.();
  assert.equal((await model.generate('y', { maxTokens: 2 }).result).tokens.length, 2);
});

test('a session that is created over a port while its model closes is closed', async () => {
  const engine = await createEngine({ threads: 1 });
  const far = await connectEngine(await engine.openPort());
  const bytes = await tinyModel();
  for (let round = 0; round < 5; round++) {
    const model = await far.load(fromBytes(bytes));
    const result = model.createSession().then(
      (session) => session.stats(),
      (error) => Promise.reject(error),
    );
    const closed = model.close();
    await assert.rejects(result, { code: 'CLOSED' });
    await closed;
    await model.close(); // once more is nothing
  }
  await far.close();
  await engine.close();
});

test('the error for an unknown option names the method that was called', async () => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await tinyModel()));
  const [session, chat] = [await model.createSession(), await model.createChat()];
  const wrong = /** @type {any} */ ({ frob: 1 });
  const messages = [{ role: /** @type {const} */ ('user'), content: 'Hi' }];
  /** @type {[string, () => Promise<unknown>][]} */
  const calls = [
    ['generate', () => session.generate('a', wrong).result],
    ['generate', () => model.generate(messages, wrong).result],
    ['generate or send', () => chat.send('Hi', wrong).result],
    ['choose', () => session.choose('a', ['b', 'c'], wrong)],
    ['runTools', () => model.chat.completions.runTools({ messages, tools: [] }, wrong)],
    ['embeddings.create', () => model.embeddings.create({ input: 'a' }, wrong)],
  ];
  for (const [name, call] of calls)
    await assert.rejects(call(), { code: 'ARGUMENT', message: `${name}: unknown option "frob"` });
  await engine.close();
});

for (const [name, create] of Object.entries({ createEngine, createWorkerEngine }))
  test(`calls of closed objects of ${name} fail with CLOSED`, async () => {
    const engine = await create({ threads: 1 });
    const bytes = await tinyModel();
    const model = await engine.load(fromBytes(bytes));
    const chat = await model.createChat();
    await chat.close();
    for (const call of [() => chat.send('Hi').result, () => chat.stats(), () => chat.trace()])
      await assert.rejects(call(), { code: 'CLOSED', message: 'the chat was closed' });
    const session = await model.createSession();
    await session.close();
    await assert.rejects(session.tokens(), { code: 'CLOSED', message: 'the session was closed' });
    await model.close();
    const messages = [{ role: /** @type {const} */ ('user'), content: 'Hi' }];
    await engine.close();
    const calls = {
      'session.generate': () => session.generate('a').result,
      'session.fork': () => session.fork(),
      'session.tokens': () => session.tokens(),
      'session.save': () => session.save(),
      'model.generate': () => model.generate('a').result,
      'model.choose': () => model.choose('a', ['a', 'b']),
      'model.classify': () => model.classify(['a']),
      'model.tokenize': () => model.tokenize('a'),
      'model.countTokens': () => model.countTokens(messages),
      'model.createSession': () => model.createSession(),
      'model.memory': () => model.memory(),
      'model.pauseDownload': () => model.pauseDownload(),
      'model.resumeDownload': () => model.resumeDownload(),
      'model.score': () => model.score('abc'),
      'model.trace': () => model.trace({ on: true }),
      'chat.completions.create': () => model.chat.completions.create({ messages }),
      'engine.load': () => engine.load(fromBytes(bytes)),
      'engine.plan': () => engine.plan(fromBytes(bytes)),
      'engine.pause': () => engine.pause(),
      'engine.resume': () => engine.resume(),
      'engine.setPace': () => engine.setPace('slow'),
    };
    for (const [call, run] of Object.entries(calls)) await assert.rejects(run(), { code: 'CLOSED' }, call);
  });
