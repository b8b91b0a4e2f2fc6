// Tests of one engine for all tabs, in Node: each tab is an engine of `bq4/shared` in this thread, or a thread that can be frozen and
// killed.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { connectEngine, createWorkerEngine, fromFile } from '../../js/index.js';
import { createSharedEngine } from '../../js/remote/tabs/index.js';
import { faultServer } from '../server/faults.mjs';
import { inTime, until } from '../waiting.mjs';
import { BIG, prompt } from './counting-engine.mjs';
import { setTimeouts } from './timeouts.mjs';
import { tinyModel } from './fixture.mjs';
import { interruptLeader } from './interrupt-leader.mjs';

const bytes = await tinyModel({ config: BIG, type: 'bq4' });
const LOAD = { prefillBatch: 8 };
const short = prompt.slice(0, 40);

/** Creates the environment of a test: tabs with a channel, a server with a model, a cache. @param {import('node:test').TestContext} t */
async function place(t) {
  const server = await faultServer(bytes);
  const path = mkdtempSync(join(tmpdir(), 'bq4-shared-'));
  /** @type {Worker[]} */
  const workers = [];
  /** @type {import('../../js/index.js').SharedEngine[]} */
  const engines = [];
  t.after(async () => {
    for (const engine of engines) await engine.close();
    await server.close();
    rmSync(path, { recursive: true, force: true });
  });
  const worker = () => {
    const output = new Worker(new URL('../../js/worker.js', import.meta.url));
    workers.push(output);
    return output;
  };
  return {
    server,
    /** Started engines, one for each leader. */
    workers,
    /** @param {import('../../js/index.js').SharedOptions} [options] */
    async tab(options) {
      const engine = await createSharedEngine({ name: t.name, threads: 1, cache: path, worker, ...options });
      engines.push(engine);
      return engine;
    },
    /** Starts a tab in a thread. @param {import('../../js/index.js').SharedOptions} [options] */
    async thread(options) {
      const freezeWord = new Int32Array(new SharedArrayBuffer(4));
      const workerData = { name: t.name, threads: 1, cache: path, url: server.url, load: LOAD, freezeWord, ...options };
      const thread = new Worker(new URL('./shared-tab.mjs', import.meta.url), { workerData });
      t.after(() => thread.terminate());
      /** Waits for a message of the tab. @type {any[]} */
      const messages = [];
      thread.on('message', (message) => messages.push(message));
      const events = (/** @type {string} */ what) =>
        until(`the thread to report ${what}`, () => messages.find((one) => what in one || one.act === what));
      await events('ready');
      return {
        said: messages,
        heard: events,
        /** @param {string} act @param {number[]} [given] */
        async ask(act, given) {
          thread.postMessage({ act, prompt: given });
          const answer = await events(act);
          messages.splice(messages.indexOf(answer), 1);
          return answer.value;
        },
        async freeze() {
          thread.postMessage({ act: 'freeze' });
          await events('frozen');
        },
        thaw() {
          Atomics.store(freezeWord, 0, 1);
          Atomics.notify(freezeWord, 0);
        },
        kill: () => thread.terminate(),
      };
    },
    /** @param {import('../../js/index.js').SharedEngine} engine @param {import('../../js/index.js').LoadOptions} [options] */
    load: (engine, options) => engine.load(server.url, { ...LOAD, ...options }),
  };
}

/** Node releases the locks of a terminated thread only after another request for a lock. */
const awake = () => navigator.locks.request('any', async () => true);

/** Results of an unshared engine. @param {number} maxTokens */
async function alone(maxTokens) {
  const engine = await createWorkerEngine({ threads: 1 });
  try {
    const model = await engine.load(bytes, LOAD);
    return await model.generate(prompt, { temperature: 0.9, seed: 7, maxTokens }).result;
  } finally {
    await engine.close();
  }
}

test('two tabs share one engine and one load', async (t) => {
  const here = await place(t);
  // Without a cache, each load would send requests.
  const [one, two, three] = [await here.tab({ cache: false }), await here.tab(), await here.tab()];
  assert.deepEqual([one.info.leads, two.info.leads, two.info.shared], [true, false, true]);
  assert.equal(two.info.build, one.info.build);
  const models = await Promise.all([here.load(one), here.load(two)]);
  const sent = here.server.requests.length;
  const third = await here.load(three);
  assert.equal(here.server.requests.length, sent, 'who comes later asks for nothing');
  const wanted = await alone(20);
  for (const model of [...models, third]) {
    const result = await model.generate(prompt, { temperature: 0.9, seed: 7, maxTokens: 20 }).result;
    assert.deepEqual([result.tokens, result.text], [wanted.tokens, wanted.text]);
  }
  assert.equal(here.workers.length, 1);
});

test('tabs with different prompt caches as Blobs have separate loads; with one address they share a load', async (t) => {
  const here = await place(t);
  const [one, two] = [await here.tab(), await here.tab()];
  const maker = await here.load(one);
  const systemPrompts = ['Here is much to be said before.', 'Little.'].map((content) => [{ role: 'system', content }]);
  const caches = [];
  for (const messages of systemPrompts) caches.push(new Blob([new Uint8Array(await maker.savePromptCache(messages))]));
  await maker.close();
  const models = await Promise.all([one, two].map((tab, i) => here.load(tab, { promptCache: caches[i] })));
  const counts = models.map(({ info }) => info.promptCache?.tokens);
  assert.deepEqual(
    models.map(({ info }) => info.promptCache?.problem),
    ['', ''],
  );
  assert.ok(Number(counts[0]) > Number(counts[1]) + 10, String(counts));
  for (const model of models) await model.close();
  const requests = () => here.server.requests.filter((/** @type {any} */ { url }) => url.endsWith('.prompt')).length;
  await Promise.all([one, two].map((tab) => here.load(tab, { promptCache: `${here.server.url}.prompt` })));
  assert.equal(requests(), 1);
});

test('parts arrive in another tab as it reads them; leaving the loop or an abort ends the generation', async (t) => {
  const here = await place(t);
  await here.tab();
  const model = await here.load(await here.tab());
  const session = await model.createSession();
  const run = session.generate(prompt, { temperature: 0, maxTokens: 50 });
  let parts = 0;
  for await (const _ of run) if (++parts === 5) break;
  assert.equal((await run.result)?.tokens.length, 5);
  const controller = new AbortController();
  const other = session.generate(prompt, { temperature: 0, maxTokens: 50, signal: controller.signal });
  await assert.rejects(
    async () => {
      for await (const _ of other) controller.abort();
    },
    { name: 'AbortError' },
  );
  assert.equal((await other.result)?.tokens.length, 1);
  assert.deepEqual((await session.tokens()).slice(0, prompt.length), prompt);
  await assert.rejects(model.generate([1, 2, 3], { maxTokens: 2 }).result, { code: 'NO_SESSION' });
});

test('the leader closes during an answer: another tab leads, the answer continues with the same tokens, nothing is fetched again', async (t) => {
  const here = await place(t);
  const [one, two] = [await here.tab(), await here.tab()];
  await here.load(one);
  const model = await here.load(two);
  const wanted = await alone(40);
  here.server.forget();
  const run = model.generate(prompt, { temperature: 0.9, seed: 7, maxTokens: 40 });
  /** @type {number[]} */
  const ids = [];
  let restarts = 0;
  two.events.addEventListener('restarted', () => restarts++);
  for await (const { token: id } of run) if (ids.push(id) === 10) await one.close();
  assert.deepEqual(ids, wanted.tokens);
  assert.deepEqual([(await run.result)?.text, (await run.result)?.finishReason], [wanted.text, wanted.finishReason]);
  assert.deepEqual([two.info.leads, restarts, here.workers.length], [true, 1, 2]);
  assert.deepEqual(here.server.requests, [], 'the cache has it all');
});

test('a draft model is known by its name, also to the next leader', async (t) => {
  const here = await place(t);
  const [one, two] = [await here.tab(), await here.tab()];
  await here.load(one);
  const [model, small] = [await here.load(two), await here.load(two, { contextTokens: 200 })];
  const options = { temperature: 0, maxTokens: 30, speculate: { model: small } };
  const guessed = await model.generate(short, options).result;
  assert.ok(guessed.usage.acceptedTokens > 5, JSON.stringify(guessed.timings));
  assert.deepEqual(guessed.tokens, (await model.generate(short, { ...options, speculate: false }).result).tokens);
  await one.close();
  const again = await model.generate(short, options).result;
  assert.deepEqual(
    [again.tokens, again.usage.acceptedTokens, two.info.leads],
    [guessed.tokens, guessed.usage.acceptedTokens, true],
  );
  await small.close();
  await assert.rejects(model.generate(short, options).result, { code: 'CLOSED' });
});

test('the leader is killed: a chat continues with its messages, a session with its tokens, and forks of it', async (t) => {
  const here = await place(t);
  const leader = await here.thread();
  const engine = await here.tab();
  const model = await here.load(engine, { sessions: 2, forks: 1 });
  const own = await createWorkerEngine({ threads: 1 });
  t.after(() => own.close());
  const wanted = await own.load(bytes, { ...LOAD, sessions: 2, forks: 1 });
  const options = { temperature: 0, maxTokens: 8 };

  const [chat, plain] = await Promise.all([model.createChat(), wanted.createChat()]);
  await chat.send('one', options).result;
  await plain.send('one', options).result;
  const [session, known] = await Promise.all([model.createSession(), wanted.createSession()]);
  for (const one of [session, known]) {
    await one.append(short);
    await one.continue(options).result;
  }
  const [fork, knownFork] = [await session.fork(), await known.fork()];
  for (const one of [session, known]) await one.append([7, 8, 9]);
  const messages = chat.messages;

  let restarts = 0;
  engine.events.addEventListener('restarted', () => restarts++);
  await leader.kill();
  await until('another leader', async () => (await awake()) && restarts);
  assert.deepEqual(chat.messages, messages);
  assert.deepEqual((await chat.send('two', options).result).tokens, (await plain.send('two', options).result).tokens);
  assert.deepEqual(chat.messages, plain.messages);
  assert.deepEqual(await session.tokens(), await known.tokens());
  assert.deepEqual((await session.truncate(30)).tokens, 30);
  await known.truncate(30);
  for (const [one, other] of [
    [session, known],
    [fork, knownFork],
  ]) {
    assert.deepEqual((await one.continue(options).result).tokens, (await other.continue(options).result).tokens);
    assert.deepEqual(await one.tokens(), await other.tokens());
  }
  assert.equal(engine.info.leads, true);
});

test('sessions of a tab are freed when it dies, also during an answer', async (t) => {
  const here = await place(t);
  const model = await here.load(await here.tab());
  for (const act of ['session', 'begin']) {
    const other = await here.thread();
    await other.ask(act, short);
    if (act === 'session') await assert.rejects(model.createSession(), { code: 'NO_SESSION' });
    await other.kill();
    const session = await until(
      'the session to be freed',
      async () => (await awake()) && model.createSession().catch(() => null),
    );
    assert.equal((await session.append(short)).tokens, short.length);
    await session.close();
  }
});

test('a frozen leader loses the engine to a waiting tab, and follows it when it continues', async (t) => {
  const here = await place(t);
  const leader = await here.thread({ leaderTimeout: 400 });
  const engine = await here.tab({ leaderTimeout: 400 });
  const model = await here.load(engine);
  const wanted = (await alone(20)).tokens;
  const run = model.generate(prompt, { temperature: 0.9, seed: 7, maxTokens: 20 });
  /** @type {number[]} */
  const ids = [];
  for await (const { token: id } of run) if (ids.push(id) === 3) await leader.freeze();
  assert.deepEqual(ids, wanted);
  assert.equal(engine.info.leads, true);
  leader.thaw();
  assert.equal((await leader.heard('restarted')).restarted, false);
  const plain = await model.generate(short, { temperature: 0, maxTokens: 20 }).result;
  assert.deepEqual(await leader.ask('reply', short), plain.tokens);
  assert.equal(await leader.ask('leads'), false);
  await engine.close();
  await until('the tab to lead again', async () => (await awake()) && leader.ask('leads'));
});

test('a tab that opens while the leader is frozen waits for the timeout, and becomes leader', async (t) => {
  const here = await place(t);
  const leader = await here.thread();
  await leader.freeze();
  const engine = await inTime('an engine', here.tab({ leaderTimeout: 300 }));
  assert.equal(engine.info.leads, true);
  const wanted = await (await here.load(engine)).generate(short, { temperature: 0, maxTokens: 20 }).result;
  leader.thaw();
  assert.deepEqual(await leader.ask('reply', short), wanted.tokens);
});

test('a leader of a higher term during an answer: the lower one resigns, and the answer continues with the same tokens', async (t) => {
  const here = await place(t);
  const engine = await here.tab();
  const model = await here.load(engine);
  const wanted = (await alone(20)).tokens;
  /** @type {number[]} */
  const ids = [];
  for await (const { token: id } of model.generate(prompt, { temperature: 0.9, seed: 7, maxTokens: 20 }))
    if (ids.push(id) === 3) await interruptLeader(t.name);
  assert.deepEqual(ids, wanted);
  assert.equal(here.workers.length, 2, 'it has begun anew');
});

test('a tab that waits for a lower term joins the higher one, and can become its leader', async (t) => {
  const here = await place(t);
  const [one, two] = [await here.tab(), await here.tab()];
  const models = [await here.load(one), await here.load(two)];
  const before = await models[1].generate(short, { temperature: 0, maxTokens: 5 }).result;
  await interruptLeader(t.name);
  for (const model of models)
    assert.deepEqual((await model.generate(short, { temperature: 0, maxTokens: 5 }).result).tokens, before.tokens);
  assert.deepEqual([one.info.leads, two.info.leads].sort(), [false, true], 'one leads');
  const [leader, [model, other]] = one.info.leads ? [one, [models[1], two]] : [two, [models[0], one]];
  await leader.close();
  assert.deepEqual((await model.generate(short, { temperature: 0, maxTokens: 5 }).result).tokens, before.tokens);
  assert.equal(other.info.leads, true);
});

test('the worker of the leader dies: the engine restarts', async (t) => {
  const here = await place(t);
  const [one, two] = [await here.tab(), await here.tab()];
  const models = [await here.load(one), await here.load(two)];
  const run = models[1].generate(prompt, { temperature: 2, topK: 0, maxTokens: 20 });
  /** @type {number[]} */
  const ids = [];
  for await (const { token: id } of run) if (ids.push(id) === 3) await here.workers[0].terminate();
  const { seed } = /** @type {import('../../js/index.js').Result} */ (await run.result);
  const again = await models[0].generate(prompt, { temperature: 2, topK: 0, maxTokens: 20, seed }).result;
  assert.deepEqual(again.tokens, ids, 'the seed that nobody gave is one');
});

test('an answer with a deadline cannot continue: RESTARTED, with the received text; a chat is unchanged', async (t) => {
  const here = await place(t);
  const one = await here.tab();
  const model = await here.load(await here.tab());
  const chat = await model.createChat();
  let text = '';
  await assert.rejects(
    async () => {
      for await (const part of chat.send('hello', { temperature: 0, maxTokens: 150, deadline: 3600e3 })) {
        text += part.text;
        if (text.length > 3) await one.close();
      }
    },
    (/** @type {any} */ error) => {
      assert.equal(error.code, 'RESTARTED');
      assert.ok(error.details.text.startsWith(text) && error.details.tokens.length, 'it has what had come');
      assert.equal(error.details.unsent, 'hello');
      return true;
    },
  );
  assert.deepEqual(chat.messages, []);
  assert.equal((await chat.send('hello', { maxTokens: 3 }).result).tokens.length, 3);
});

test('an answer that is aborted while its leader is frozen keeps the received text', async (t) => {
  const here = await place(t);
  const leader = await here.thread();
  const engine = await here.tab({ leaderTimeout: 400 });
  const chat = await (await here.load(engine)).createChat();
  const controller = new AbortController();
  const { signal } = controller;
  let text = '';
  await assert.rejects(
    async () => {
      for await (const part of chat.send('hello', { temperature: 0, maxTokens: 150, deadline: 3600e3, signal })) {
        text += part.text;
        if (text.length < 4) continue;
        await leader.freeze();
        controller.abort();
      }
    },
    { name: 'AbortError' },
  );
  leader.thaw();
  assert.deepEqual(chat.messages, [
    { role: 'user', content: 'hello' },
    { role: 'assistant', content: text },
  ]);
  assert.equal((await chat.send('more', { temperature: 0, maxTokens: 1 }).result).tokens.length, 1);
});

test('a tab that cannot create an engine reports it, and another tab leads', async (t) => {
  const here = await place(t);
  const broken = () => {
    throw new Error('no worker today');
  };
  await assert.rejects(here.tab({ worker: broken }), /no worker today/);
  const leaderTimeout = 1e6; // no tab is considered frozen
  const one = await here.tab({ leaderTimeout });
  const two = await here.tab({ leaderTimeout, worker: broken });
  const three = await here.tab({ leaderTimeout });
  const models = [await here.load(two), await here.load(three)];
  await one.close();
  const wanted = (await alone(5)).tokens;
  const given = { temperature: 0.9, seed: 7, maxTokens: 5 };
  assert.deepEqual((await models[1].generate(prompt, given).result).tokens, wanted);
  assert.equal(three.info.leads, true);
  assert.deepEqual((await models[0].generate(prompt, given).result).tokens, wanted);
  await three.close();
  await assert.rejects(models[0].generate(prompt, given).result, /no worker today/);
  await here.tab();
  assert.deepEqual((await models[0].generate(prompt, given).result).tokens, wanted);
});

test('a model whose paged file can no longer be read is loaded again by the next load, also if another tab keeps it', async (t) => {
  const here = await place(t);
  const [one, two] = [await here.tab({ cache: false }), await here.tab({ cache: false })];
  const file = join(mkdtempSync(join(tmpdir(), 'bq4-shared-')), 'model.bq4');
  t.after(() => rmSync(dirname(file), { recursive: true }));
  writeFileSync(file, bytes);
  const sizes = /** @type {const} */ ({ ...LOAD, contextTokens: 64, kv: 'i8' });
  const { heapBytes, weightBytes } = await one.plan(fromFile(file), sizes);
  const options = { ...sizes, memoryBudget: heapBytes - Math.floor(weightBytes * 0.4) };
  const [kept, other] = await Promise.all([one, two].map((tab) => tab.load(fromFile(file), options)));
  const reply = (/** @type {import('../../js/index.js').Model} */ model) =>
    model.generate(short, { maxTokens: 3, temperature: 0 }).result;
  const { tokens } = await reply(kept);
  truncateSync(file, bytes.length / 2);
  await assert.rejects(reply(other), { code: 'READ' });
  await other.close();
  writeFileSync(file, bytes);
  assert.deepEqual((await reply(await two.load(fromFile(file), options))).tokens, tokens);
});

test('pauses and paces of all tabs count, until the tab closes', async (t) => {
  const here = await place(t);
  const one = await here.tab();
  const model = await here.load(one);
  const other = await here.tab();
  await Promise.all([one.pause(), other.pause(), other.setPace('slow')]);
  let resumed = 0;
  one.events.addEventListener('resumed', () => resumed++);
  await one.resume();
  const reply = model.generate(short, { temperature: 0, maxTokens: 2 }).result;
  await model.tokenize('the worker listens');
  assert.equal(resumed, 0, 'the other one holds it up');
  await other.close();
  assert.equal((await inTime('the reply', reply)).tokens.length, 2);
});

test('megabytes of bytes are sent from one tab to another and back', async (t) => {
  const here = await place(t);
  await here.tab();
  const engine = await here.tab();
  const large = new Uint8Array(bytes.length + (16 << 20));
  large.set(bytes);
  const model = await engine.load(large.subarray(0, bytes.length), { ...LOAD, kv: 'f32', sessions: 2 });
  const [one, two] = [await model.createSession(), await model.createSession()];
  await one.append(prompt);
  const saved = await one.save();
  assert.ok(saved.length > 1e6);
  await two.restore(saved);
  assert.deepEqual(await two.tokens(), prompt);
  await assert.rejects(engine.load(large), { name: 'BqError' });
});

test('closing ends running operations of the tab, and does not affect the others', async (t) => {
  const here = await place(t);
  const [one, two] = [await here.tab(), await here.tab()];
  const models = [await here.load(one), await here.load(two)];
  const run = models[1].generate(prompt, { temperature: 0, maxTokens: 100 });
  await assert.rejects(
    async () => {
      for await (const _ of run) await two.close();
    },
    { code: 'CLOSED' },
  );
  await assert.rejects(two.plan(bytes), { code: 'CLOSED' });
  await assert.rejects(models[1].tokenize('x'), { code: 'CLOSED' });
  await two.close();
  assert.equal((await models[0].generate(short, { temperature: 0, maxTokens: 2 }).result).tokens.length, 2);
  await models[0].close();
  await assert.rejects(models[0].tokenize('x'), { code: 'CLOSED' });
});

test('a load that one tab aborts continues for the other, and ends when all tabs have aborted it', async (t) => {
  const here = await place(t);
  const [one, two] = [await here.tab({ cache: false }), await here.tab({ cache: false })];
  let release = () => {};
  here.server.faults = [{ hold: 400_000, until: new Promise((resolve) => (release = () => resolve(undefined))) }];
  const controller = new AbortController();
  let progress = 0;
  const first = here.load(one, { signal: controller.signal, onProgress: () => progress++ });
  await until('progress', () => progress > 0);
  const second = here.load(two);
  await two.plan(bytes);
  controller.abort();
  await assert.rejects(inTime('the abort', first), { name: 'AbortError' });
  release();
  assert.equal((await (await second).generate(short, { temperature: 0, maxTokens: 2 }).result).tokens.length, 2);
});

test('without Web Locks each tab has its own engine, and reports the reason', async (t) => {
  const descriptor = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  Object.defineProperty(globalThis, 'navigator', { configurable: true, value: {} });
  t.after(() => Object.defineProperty(globalThis, 'navigator', /** @type {any} */ (descriptor)));
  const engine = await createSharedEngine({ threads: 1, name: t.name });
  t.after(() => engine.close());
  assert.equal(engine.info.shared, false);
  assert.match(engine.info.sharedReason, /Web Locks are not available/);
  assert.equal((await (await engine.load(bytes)).generate(short, { maxTokens: 1 }).result).tokens.length, 1);
});

test('where the browser refuses Web Locks each tab has its own engine, and reports the reason', async (t) => {
  const descriptor = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  const refuse = () => Promise.reject(new DOMException('denied in this context', 'SecurityError'));
  const value = { locks: { request: refuse, query: refuse } };
  Object.defineProperty(globalThis, 'navigator', { configurable: true, value });
  t.after(() => Object.defineProperty(globalThis, 'navigator', /** @type {any} */ (descriptor)));
  const engine = await createSharedEngine({ threads: 1, name: t.name });
  t.after(() => engine.close());
  assert.equal(engine.info.shared, false);
  assert.match(engine.info.sharedReason, /refuses access: .*denied in this context/);
});

test('a shared engine can be passed on through a port', async (t) => {
  const here = await place(t);
  await here.tab();
  const passed = await connectEngine(await (await here.tab()).openPort());
  t.after(() => passed.close());
  const model = await here.load(/** @type {any} */ (passed));
  assert.equal((await model.generate(short, { temperature: 0, maxTokens: 2 }).result).tokens.length, 2);
});

test('adapters and prompt caches are available at another leader, too', async (t) => {
  const here = await place(t);
  const golden = new URL('../golden/', import.meta.url);
  const path = (/** @type {string} */ name) => fileURLToPath(new URL(name, golden));
  const one = await here.tab();
  const two = await here.tab();
  const options = { sessions: 3, adapterBytes: 2e5 };
  const model = await two.load(fromFile(path('gguf/llama-gqa.gguf')), options);
  const adapter = await model.loadAdapter(fromFile(path('adapters/llama-gqa/adapter_model.safetensors')));
  const session = await model.createSession({ adapter });
  const switched = await model.createSession();
  await switched.generate([1, 2, 3], { adapter, maxTokens: 1 }).result;
  const reportOf = async () => {
    const given = { maxTokens: 12, temperature: 0 };
    const plain = await model.generate([1, 2, 3, 4], given).result;
    const changed = await model.generate([1, 2, 3, 4], { ...given, adapter }).result;
    const own = await session.generate([1, 2, 3, 4], given).result;
    const after = await switched.generate([1, 2, 3, 4], given).result;
    return [plain.tokens, changed.tokens, own.tokens, after.tokens];
  };
  const before = await reportOf();
  assert.notDeepEqual(before[0], before[1]);
  assert.deepEqual([before[2], before[3]], [before[1], before[1]]);
  const talks = await here.load(two);
  const messages = [{ role: 'system', content: 'There is much to be said here before anything is asked.' }];
  await talks.loadPromptCache(await talks.savePromptCache(messages));
  await one.close();
  assert.deepEqual(await reportOf(), before);
  const { usage } = await talks.generate([...messages, { role: 'user', content: 'And?' }], { maxTokens: 1 }).result;
  assert.ok(usage.cachedTokens > 30, String(usage.cachedTokens));
  await adapter.close();
  await assert.rejects(model.generate([1], { adapter }).result, { code: 'CLOSED' });
});

test('an answer during which three leaders end is RESTARTED', async (t) => {
  const here = await place(t);
  const leaders = [await here.tab(), await here.tab(), await here.tab()];
  const model = await here.load(await here.tab());
  let parts = 0;
  await assert.rejects(
    async () => {
      for await (const _ of model.generate(prompt, { temperature: 0, maxTokens: 100 }))
        if (++parts % 10 === 3) await leaders.shift()?.close();
    },
    (/** @type {any} */ error) => {
      assert.equal(error.code, 'RESTARTED');
      assert.deepEqual([error.details.tokens.length, leaders.length], [parts, 0]);
      return true;
    },
  );
  assert.equal((await model.generate(short, { temperature: 0, maxTokens: 2 }).result).tokens.length, 2);
});

test('the leader ends during a streaming load: another one completes the model that is in use', async (t) => {
  const here = await place(t);
  const [one, two] = [await here.tab(), await here.tab()];
  let release = () => {};
  here.server.faults = [{ hold: 600_000, until: new Promise((resolve) => (release = () => resolve(undefined))) }];
  const model = await here.load(two, { streaming: true });
  const reply = model.generate(prompt, { temperature: 0.9, seed: 7, maxTokens: 5 }).result;
  await model.tokenize('it is there');
  await one.close();
  await until('the other tab to request', () => here.workers.length === 2);
  release();
  await inTime('the load', model.loaded);
  assert.deepEqual((await reply).tokens, (await alone(5)).tokens);
  await model.close();
});

test('an answer that is no longer read does not delay a change of the leader', async (t) => {
  setTimeouts(t, { sessionWait: 1, sessionLook: 1 });
  const here = await place(t);
  const models = [await here.load(await here.tab({ leaderTimeout: 300 })), await here.load(await here.tab())];
  const left = models[1].generate(prompt, { temperature: 0, maxTokens: 100 })[Symbol.asyncIterator]();
  await left.next();
  await assert.rejects(inTime('the refusal', models[0].generate(short).result), { code: 'NO_SESSION' });
  await left.return();
  assert.equal((await models[0].generate(short, { temperature: 0, maxTokens: 2 }).result).tokens.length, 2);
});

test('every tab lists the files of the cache', async (t) => {
  const here = await place(t);
  const [one, two] = [await here.tab(), await here.tab()];
  await here.load(one);
  const list = await two.store?.list();
  assert.deepEqual(
    list?.map(({ url, complete }) => [url, complete]),
    [[here.server.url, true]],
  );
  await two.store?.clear();
  assert.deepEqual(await one.store?.list(), []);
});

test('answers of several tabs wait for their turn if there is one session', async (t) => {
  const here = await place(t);
  const models = [];
  for (let i = 0; i < 3; i++) models.push(await here.load(await here.tab()));
  const all = await Promise.all(
    models.map((model, i) => model.generate(prompt.slice(i), { temperature: 0, maxTokens: 10 }).result),
  );
  const one = await Promise.all(
    models.map((model, i) => model.generate(prompt.slice(i), { temperature: 0, maxTokens: 10 }).result),
  );
  assert.deepEqual(
    all.map(({ tokens: ids }) => ids),
    one.map(({ tokens: ids }) => ids),
  );
  const controller = new AbortController();
  const run = models[0].generate(prompt, { temperature: 0, maxTokens: 100 });
  for await (const _ of run) {
    const waiting = models[1].generate(short, { maxTokens: 3, signal: controller.signal }).result;
    await models[1].tokenize('there');
    controller.abort();
    await assert.rejects(inTime('the abort', waiting), { name: 'AbortError' });
    break;
  }
});

test('operations that cannot be shared are refused by name', async () => {
  const store = { open: async () => ({}) };
  for (const [name, value] of Object.entries({ background: 'pause', pressure: 'slow', worker: {}, cache: store }))
    await assert.rejects(createSharedEngine(/** @type {any} */ ({ [name]: value })), (/** @type {any} */ error) => {
      assert.deepEqual([error.code, error.details.param], ['ARGUMENT', name]);
      assert.match(error.message, new RegExp(`^${name} can't be shared`));
      return true;
    });
  await assert.rejects(createSharedEngine(/** @type {any} */ ({ nmae: 'x' })), /did you mean "name"/);
  await assert.rejects(createSharedEngine({ leaderTimeout: 0 }), { code: 'ARGUMENT' });
});
