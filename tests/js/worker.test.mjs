// Tests of features of the worker engine: the flow-control window, aborts across threads, failing workers.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Worker } from 'node:worker_threads';
import { createEngine } from '../../js/node.js';
import { LocalModel } from '../../js/engine/model/model.js';
import { connectEngine, createWorkerEngine, fromBytes } from '../../js/index.js';
import { WINDOW } from '../../js/shared/protocol.js';
import { inTime, until } from '../waiting.mjs';
import { BIG, createCountingEngine, prompt } from './counting-engine.mjs';
import { tinyModel } from './fixture.mjs';
import { setTimeouts } from './timeouts.mjs';

/** Layers, and what comes before and behind them. */
const SLICES_PER_TOKEN = BIG.layers + 2;
const sliced = (tokens) => Math.ceil(tokens / 8) * BIG.layers;

test('an abort in the prompt is followed by at most one more step', async (t) => {
  const { session, read, gate } = await createCountingEngine(t);
  for (let round = 0; round < 5; round++) {
    const start = read().workUnits;
    const controller = new AbortController();
    gate.closeAfter(20 + round);
    const run = session.generate([...prompt, round].reverse(), { temperature: 0, signal: controller.signal });
    const ended = assert.rejects(run.result, { name: 'AbortError' });
    await until('the work units before the abort', gate.reached);
    controller.abort();
    const before = read();
    assert.equal(before.workUnits - start, 20 + round);
    gate.open();
    await ended;
    const after = read();
    assert.ok(after.workUnits - before.workUnits <= 1, `${after.workUnits - before.workUnits} more work units`);
    assert.equal(after.samples, before.samples);
    assert.equal((await run.result)?.finishReason, 'abort');
  }
});

test('an abort between tokens is followed by at most one more token and one more step', async (t) => {
  const { session, read, gate } = await createCountingEngine(t);
  for (let round = 0; round < 5; round++) {
    const controller = new AbortController();
    gate.closeAfter(SLICES_PER_TOKEN * (4 + round) + round); // amid a token behind those that are read, and not more ahead than it may be
    const run = session.generate([1, 2, 3], { temperature: 1, seed: round, signal: controller.signal });
    let before = read();
    let n = 0;
    await assert.rejects(
      async () => {
        for await (const part of run) {
          if (part.token < 0 || ++n !== 3 + round) continue;
          await until('the work units before the abort', gate.reached);
          controller.abort();
          before = read();
          gate.open();
        }
      },
      { name: 'AbortError' },
    );
    const after = read();
    assert.equal(n, 3 + round, 'no part after the abort');
    assert.ok(after.workUnits - before.workUnits <= 1, `${after.workUnits - before.workUnits} more work units`);
    assert.ok(after.samples - before.samples <= 1, `${after.samples - before.samples} more tokens`);
  }
});

test('without shared memory an abort is sent by message and takes effect within the prompt', async (t) => {
  const { session, read, gate } = await createCountingEngine(t);
  const shared = globalThis.SharedArrayBuffer;
  t.after(() => (globalThis.SharedArrayBuffer = shared));
  delete (/** @type {any} */ (globalThis).SharedArrayBuffer);
  const controller = new AbortController();
  gate.closeAfter(20);
  const ended = assert.rejects(session.generate(prompt, { signal: controller.signal }).result, { name: 'AbortError' });
  await until('the work units before the abort', gate.reached);
  controller.abort();
  gate.open();
  await ended;
  assert.ok(
    read().workUnits < sliced(prompt.length),
    `${read().workUnits} work units: the prompt was computed to its end`,
  );
});

test('a slow reader slows down the worker, which computes at most the flow-control window in advance', async (t) => {
  const { session, read, roundTrips } = await createCountingEngine(t);
  const run = session.generate([1, 2, 3], { temperature: 1, seed: 1, maxTokens: 60 })[Symbol.asyncIterator]();
  for (let taken = 1; taken <= 30; taken++) {
    await run.next();
    if (taken % 10) continue;
    await until('the worker to compute ahead', () => read().samples > taken);
    for (let before = NaN; before !== (before = read().workUnits);) await roundTrips();
    const { samples } = read();
    assert.ok(samples - taken <= WINDOW, `${samples} tokens computed, ${taken} read`);
  }
  await run.return?.();
});

test('every call fails with an error if the worker cannot start or has ended', async () => {
  const broken = new Worker('throw new Error("no such engine")', { eval: true });
  await assert.rejects(
    createWorkerEngine({ worker: broken }),
    (/** @type {any} */ e) => e.code === 'NO_WORKER' && /no such engine/.test(e.message),
  );
  const worker = new Worker(new URL('../../js/worker.js', import.meta.url));
  const engine = await createWorkerEngine({ build: 'relaxed', threads: 1, worker });
  const model = await engine.load(fromBytes(await tinyModel()));
  const session = await model.createSession();
  const run = session.generate([1, 2, 3], { maxTokens: 200 })[Symbol.asyncIterator]();
  await run.next();
  await worker.terminate();
  await assert.rejects(
    async () => {
      for (;;) if ((await run.next()).done) break;
    },
    { code: 'NO_WORKER' },
  );
  await assert.rejects(model.tokenize('x'), { code: 'NO_WORKER' });
  await engine.close();
});

for (const fail of ['loop', 'close', 'terminate']) {
  test(`a worker that fails (${fail}) during calls ends all of them and later calls`, async (t) => {
    const worker = new Worker(new URL('./threads/failing-worker.mjs', import.meta.url));
    const engine = await createWorkerEngine({ worker, threads: 1 });
    t.after(() => engine.close());
    const model = await engine.load(fromBytes(await tinyModel()), { sessions: 2 });
    const session = await model.createSession();
    const parts = session.generate([1, 2, 3], { maxTokens: 200 })[Symbol.asyncIterator]();
    if (fail !== 'loop') await parts.next();
    const died = new Promise((resolve) => engine.events.addEventListener('died', resolve));
    if (fail === 'terminate') void worker.terminate();
    else worker.postMessage({ fail });
    if (fail === 'loop') setTimeouts(t, { abort: 1, workerPing: 50 }); // nothing is asked before it loops
    const controllers = [new AbortController(), new AbortController()];
    /** @type {Promise<unknown>[]} */
    const calls = [
      model.tokenize('x'),
      model.embed(['x'], { signal: controllers[0].signal }),
      model.generate('x', { signal: controllers[1].signal }).result,
    ];
    if (fail === 'loop') {
      for (const controller of controllers) controller.abort();
      for (const call of calls.splice(1))
        await assert.rejects(inTime('the end of a call that was aborted', call), { name: 'AbortError' });
    }
    await inTime('the event "died"', died);
    for (const call of calls) await assert.rejects(call, { code: 'NO_WORKER' });
    await assert.rejects(
      async () => {
        for (;;) if ((await parts.next()).done) break;
      },
      { code: 'NO_WORKER' },
    );
    await assert.rejects(model.createSession(), { code: 'NO_WORKER' });
  });
}

test('the worker refuses a page of another version', async () => {
  const worker = new Worker(new URL('../../js/worker.js', import.meta.url));
  worker.postMessage({ id: 1, target: 0, method: 'open', args: [{ protocol: 0, options: {} }] });
  const reply = await new Promise((resolve) => worker.once('message', resolve));
  assert.equal(reply.error.code, 'NO_WORKER');
  await worker.terminate();
});

test('aborts while the engine starts and after that', async () => {
  for (const create of [createEngine, createWorkerEngine])
    await assert.rejects(create({ threads: 1, signal: AbortSignal.abort() }), { name: 'AbortError' });
  const controller = new AbortController();
  const engine = await createWorkerEngine({ signal: controller.signal });
  controller.abort(); // too late to matter
  assert.ok(engine.info.worker);
  await engine.close();
});

test('an abort ends the wait for a worker that does not respond', async () => {
  const worker = new Worker('setInterval(() => {}, 1000)', { eval: true });
  const controller = new AbortController();
  const ended = assert.rejects(createWorkerEngine({ worker, signal: controller.signal }), { message: 'enough' });
  controller.abort(new Error('enough'));
  await inTime('the end of createWorkerEngine', ended);
});

test('a call that cannot be posted causes no later failure', async () => {
  const engine = await createWorkerEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await tinyModel()));
  const session = await model.createSession();
  const late = [];
  const listener = (reason) => late.push(reason);
  process.on('unhandledRejection', listener);
  const uncloneable = /** @type {any} */ ({ stop: [() => {}] });
  await assert.rejects(session.generate([1], uncloneable).result, { code: 'ARGUMENT' });
  await engine.close();
  await new Promise((resolve) => setImmediate(resolve));
  process.off('unhandledRejection', listener);
  assert.deepEqual(late, []);
});

/** Objects that the garbage collector is asked for. */
function watched() {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc');
  /** @type {WeakRef<object>[]} */
  const refs = [];
  const isGone = () => {
    gc();
    return refs.every((ref) => !ref.deref());
  };
  return { watch: (object) => refs.push(new WeakRef(object)), gone: isGone };
}

test('closing a model or a port releases everything that belongs to it', async (t) => {
  const engine = await createEngine({ threads: 1 });
  t.after(() => engine.close());
  const { watch, gone: isGone } = watched();
  const { createSession } = Object.getOwnPropertyDescriptors(LocalModel.prototype);
  assert.equal(createSession, undefined, 'it is a field: watched through what the engine makes');
  const { load } = engine;
  engine.load = async (...args) => {
    const model = await load(...args);
    watch(model);
    const create = model.createSession;
    model.createSession = async (...options) => {
      const session = await create(...options);
      watch(session);
      return session;
    };
    return model;
  };
  const bytes = await tinyModel();
  const far = await connectEngine(await engine.openPort());
  t.after(() => far.close());
  const model = await far.load(fromBytes(bytes), { sessions: 3 });
  const sessions = [await model.createSession(), await model.createSession()];
  await model.close();
  await until('the sessions of a closed model to be collected', isGone);
  await assert.rejects(sessions[0].stats(), { code: 'CLOSED' });

  const second = await far.load(fromBytes(bytes));
  await second.createSession();
  await far.close();
  await until('what a closed port had made to be collected', isGone);
  await assert.rejects(second.tokenize('x'), { code: 'CLOSED' });
  await (await engine.load(fromBytes(bytes))).close(); // the engine itself goes on
});

test('a port serves another thread; its engine owns only objects that it created', async (t) => {
  const engine = await createWorkerEngine({ threads: 1 });
  t.after(() => engine.close());
  const local = await engine.load(fromBytes(await tinyModel()));
  const other = new Worker(new URL('./port-worker.mjs', import.meta.url));
  const port = await engine.openPort();
  const answer = new Promise((resolve) => other.once('message', resolve));
  other.postMessage(port, [/** @type {any} */ (port)]);
  const theirs = await inTime('the reply that the other thread got', answer);
  const own = await local.chat.completions.create({
    messages: [{ role: 'user', content: 'Hello' }],
    temperature: 0,
    max_tokens: 8,
  });
  assert.deepEqual(theirs, own.choices);
  await other.terminate();
});

test('a message of a chat is one call to the worker', async (t) => {
  const engine = await createWorkerEngine({ threads: 1 });
  t.after(() => engine.close());
  const model = await engine.load(fromBytes(await tinyModel({ config: { context: 4096 } })), { contextTokens: 2048 });
  const calls = [];
  const { postMessage } = Worker.prototype;
  t.after(() => (Worker.prototype.postMessage = postMessage));
  Worker.prototype.postMessage = function (message, ...rest) {
    if (message.method) calls.push(message.method);
    return postMessage.call(this, message, ...rest);
  };
  const chat = await model.createChat({ system: 'Be kind' });
  for (let turn = 0; turn < 20; turn++) await chat.send(`Message ${turn}`, { temperature: 0, maxTokens: 3 }).result;
  assert.deepEqual(calls, ['countTokens', ...Array(20).fill('generate')]);
});

test('in Node a document of a test environment is not taken for a page; a page of Electron is one', async () => {
  const file = join(mkdtempSync(join(tmpdir(), 'bq4-dom-')), 'tiny.bq4');
  writeFileSync(file, await tinyModel());
  const address = (/** @type {string} */ path) => JSON.stringify(new URL(path, import.meta.url).href);
  const run = (/** @type {string} */ first) => {
    const script = `${first}
      Object.assign(globalThis, { window: globalThis, document: { baseURI: 'http://localhost:3000/' } });
      const { createEngine, fromFile } = await import(${address('../../js/node.js')});
      const { createWorkerEngine } = await import(${address('../../js/index.js')});
      for (const create of [createEngine, createWorkerEngine]) {
        const engine = await create({ threads: 1 });
        const model = await engine.load(fromFile(${JSON.stringify(file)}));
        console.log((await model.generate('a', { maxTokens: 2, temperature: 0 }).result).tokens.length);
        await engine.close();
      }`;
    return spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  };
  const { stdout, stderr } = run('');
  assert.equal(stdout, '2\n2\n', stderr);
  const page = run("process.type = 'renderer';");
  assert.match(page.stderr, /NO_ENGINE/);
  rmSync(dirname(file), { recursive: true });
});
