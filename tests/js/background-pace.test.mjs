// Tests of pause, resume, pace, deadline and maxTokensPerSecond. They count computed work units and measure no time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { createEngine } from '../../js/node.js';
import { createWorkerEngine, fromBytes } from '../../js/index.js';
import { throttleInBackground } from '../../js/remote/client/background.js';
import { inTime, until } from '../waiting.mjs';
import { BIG, createCountingEngine, prompt } from './counting-engine.mjs';
import { tinyModel } from './fixture.mjs';

test('a paused engine computes nothing, within a prompt and between tokens, and continues at the same position', async (t) => {
  const { engine, session, read, roundTrips } = await createCountingEngine(t);
  const { tokens: ids } = await session.generate(prompt, { temperature: 0, maxTokens: 20 }).result;
  await session.append([7]);
  for (const amid of ['the prompt', 'the reply']) {
    const before = read();
    const run = session.generate([...prompt.slice(0, -1), prompt.at(-1) ?? 0], { temperature: 0, maxTokens: 20 });
    await session.truncate(1);
    const iterator = run[Symbol.asyncIterator]();
    const first = iterator.next();
    if (amid === 'the reply') await first;
    else await until('a work unit', () => read().workUnits > before.workUnits);
    await engine.pause();
    await engine.setPace('full'); // what a page shown again asks for is not the caller's resume
    const paused = read();
    await roundTrips();
    assert.deepEqual(read(), paused, `nothing is computed amid ${amid}`);
    if (amid === 'the prompt') assert.equal(paused.samples, before.samples);
    await engine.resume();
    await first;
    for (;;) if ((await iterator.next()).done) break;
    assert.deepEqual((await run.result)?.tokens, ids);
  }
});

test('a paused generation can be aborted and closed', async (t) => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  t.after(() => engine.close());
  const model = await engine.load(fromBytes(await tinyModel()), { sessions: 2 });
  await engine.pause();
  const controller = new AbortController();
  const session = await model.createSession();
  const aborted = session.generate([1, 2, 3], { signal: controller.signal }).result;
  const other = await model.createSession();
  const closed = other.generate([1, 2, 3]).result;
  await new Promise((resolve) => setImmediate(resolve)); // both have begun, and wait
  controller.abort();
  await assert.rejects(inTime('the abort', aborted), { name: 'AbortError' });
  await other.close();
  await assert.rejects(inTime('the close', closed), { code: 'CLOSED' });
  await engine.resume();
  assert.equal((await session.generate([1, 2, 3], { maxTokens: 3 }).result).tokens.length, 3);
});

test('a deadline returns the text so far and reports it, also during a pause', async (t) => {
  for (const create of [createEngine, createWorkerEngine]) {
    const engine = await create();
    t.after(() => engine.close());
    const model = await engine.load(fromBytes(await tinyModel({ config: { context: 4096 } })));
    const options = {
      temperature: 0,
      maxTokens: Infinity,
      logitBias: [0, 3].map((id) => ({ token: id, bias: -Infinity })),
    };
    for (const past of [0, new Date(0)]) {
      const {
        tokens: ids,
        text,
        finishReason: reason,
      } = await model.generate([1, 2, 3], { ...options, deadline: past }).result;
      assert.deepEqual([ids, text, reason], [[], '', 'deadline']);
    }
    const run = model.generate([1, 2, 3], { ...options, deadline: new Date(Date.now() + 150) });
    /** @type {number[]} */
    const seen = [];
    for await (const { token: id } of run) seen.push(id);
    assert.equal((await run.result)?.finishReason, 'deadline');
    assert.deepEqual((await run.result)?.tokens, seen);
    const all = await model.generate([1, 2, 3], { ...options, maxTokens: seen.length }).result;
    assert.deepEqual(all.tokens, seen, 'the same bits as far as it came');
    await engine.pause();
    assert.equal((await inTime('it', model.generate([1, 2], { deadline: 20 }).result)).finishReason, 'deadline');
    await engine.resume();
    for (const [name, value] of [
      ['deadline', -1],
      ['deadline', new Date(NaN)],
      ['maxTokensPerSecond', 0],
    ])
      await assert.rejects(
        model.generate([1], { [String(name)]: value }).result,
        (/** @type {any} */ e) => e.code === 'ARGUMENT' && e.details.param === name,
      );
  }
});

test('maxTokensPerSecond yields no token before its time', async (t) => {
  const { session, read, roundTrips } = await createCountingEngine(t);
  const { tokens: ids } = await session.generate([1, 2, 3], { temperature: 0, maxTokens: 5 }).result;
  const capped = await session.generate([1, 2, 3], { temperature: 0, maxTokens: 5, maxTokensPerSecond: 500 }).result;
  assert.deepEqual(capped.tokens, ids);
  const controller = new AbortController();
  const before = read();
  const run = session.generate([1, 2, 3], { maxTokensPerSecond: 1e-3, signal: controller.signal });
  const iterator = run[Symbol.asyncIterator]();
  await iterator.next();
  const second = iterator.next();
  await roundTrips();
  assert.equal(read().samples - before.samples, 1);
  controller.abort();
  await assert.rejects(second, { name: 'AbortError' });
});

test('a deadline also ends the wait for the next token', async (t) => {
  const { session } = await createCountingEngine(t);
  const run = session.generate([1, 2, 3], { maxTokensPerSecond: 1e-3, deadline: 50 }).result;
  const { finishReason, tokens } = await inTime('the end of a reply whose next token is far away', run);
  assert.equal(finishReason, 'deadline');
  assert.ok(tokens.length <= 1);
});

test('the slow pace computes the same bits with one thread', async (t) => {
  const engine = await createWorkerEngine({ threads: 2 });
  t.after(() => engine.close());
  const model = await engine.load(fromBytes(await tinyModel({ config: BIG, type: 'bq4' })));
  const run = async () => (await model.generate(prompt.slice(0, 300), { temperature: 0, maxTokens: 10 }).result).tokens;
  const all = await run();
  await engine.setPace('slow');
  assert.deepEqual(await run(), all);
  await engine.setPace('full');
  assert.deepEqual(await run(), all);
  await assert.rejects(engine.setPace(/** @type {any} */ ('fast')), { code: 'ARGUMENT' });
});

test('a hidden page and a CPU under pressure change the pace', async (t) => {
  const names = ['document', 'PressureObserver'];
  const was = names.map((name) => Object.getOwnPropertyDescriptor(globalThis, name));
  t.after(() =>
    names.forEach((name, i) =>
      was[i] ? Object.defineProperty(globalThis, name, was[i]) : Reflect.deleteProperty(globalThis, name),
    ),
  );
  const document = Object.assign(new EventTarget(), { hidden: false });
  /** @type {(records: { state: string }[]) => void} */
  let press = () => {};
  class PressureObserver {
    /** @param {typeof press} callback */
    constructor(callback) {
      press = callback;
    }
    observe() {
      return Promise.reject(new Error('not allowed'));
    }
    disconnect() {
      press = () => {};
    }
  }
  Object.assign(globalThis, { document, PressureObserver });
  /** @type {string[]} */
  const paces = [];
  const end = throttleInBackground(
    /** @type {any} */ ({ setPace: async (/** @type {string} */ pace) => paces.push(pace) }),
    {
      background: 'pause',
      pressure: 'slow',
    },
  );
  const show = (/** @type {boolean} */ hidden) => {
    document.hidden = hidden;
    document.dispatchEvent(new Event('visibilitychange'));
  };
  show(true);
  press([{ state: 'nominal' }, { state: 'critical' }]);
  show(false);
  press([{ state: 'fair' }]);
  end();
  show(true);
  press([{ state: 'critical' }]);
  assert.deepEqual(paces, ['pause', 'slow', 'full']);
});

test('events of an engine arrive over every port', async (t) => {
  const engine = await createWorkerEngine({ build: 'relaxed', threads: 1 });
  t.after(() => engine.close());
  /** @type {string[]} */
  const reports = [];
  for (const type of ['paused', 'resumed', 'pace', 'memory'])
    engine.events.addEventListener(type, (/** @type {any} */ { detail }) =>
      reports.push(`${type} ${detail.pace ?? detail.error?.code ?? ''}`.trim()),
    );
  await engine.pause();
  await engine.pause();
  await engine.setPace('slow');
  await engine.resume();
  await assert.rejects(engine.load(fromBytes(await tinyModel()), { memoryBudget: 1000 }), { code: 'NOMEM' });
  assert.deepEqual(reports, ['paused', 'pace slow', 'resumed', 'memory NOMEM']);
});

test('an engine whose worker is killed reports it once; a closed engine reports nothing', async () => {
  const worker = new Worker(new URL('../../js/worker.js', import.meta.url));
  const engine = await createWorkerEngine({ build: 'relaxed', threads: 1, worker });
  /** @type {any[]} */
  const reports = [];
  engine.events.addEventListener('died', (/** @type {any} */ { detail }) => reports.push(detail.error.code));
  await worker.terminate();
  await until('the news', () => reports.length);
  await assert.rejects(engine.plan(fromBytes(await tinyModel())), { code: 'NO_WORKER' });
  assert.deepEqual(reports, ['NO_WORKER']);
  await engine.close();
  const other = await createWorkerEngine({ build: 'relaxed', threads: 1 });
  other.events.addEventListener('died', () => reports.push('again'));
  await other.close();
  assert.equal(reports.length, 1);
});
