// Tests of loading: chunks of any size, closing of the source, aborts within a step.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEngine, fromBytes } from '../../js/node.js';
import { Loading } from '../../js/storage/load/loading.js';
import { planModel } from '../../js/engine/plan/plan.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { compile, Wasm } from '../../js/wasm/wasm.js';
import { tinyModel } from './fixture.mjs';

const compiled = await compile();
const bytes = await tinyModel({ type: 'bq4' });

/** A source that counts its closings and gives pieces of the sizes that `size` says. */
function counting(size = () => 65536, limit = bytes.length) {
  const source = {
    ...openBytes(bytes),
    closed: 0,
    streams: 0,
    async *stream(offset, end) {
      source.streams++;
      for (let at = offset; at < Math.min(end, limit);) {
        const to = Math.min(at + size(), end, limit);
        yield bytes.subarray(at, to);
        at = to;
      }
    },
    close: async () => void source.closed++,
  };
  return source;
}

/** @param {any} source @param {object} [options] */
async function start(source, options = {}) {
  const planned = await planModel(compiled, { kind: 'bytes', bytes }, openBytes(bytes), {});
  const wasm = await Wasm.create(compiled, planned.regionBytes);
  // As if only the header had been read for the plan.
  return { wasm, loading: new Loading(wasm, source, { ...planned, head: bytes.subarray(0, 64) }, options) };
}

/** A hash of all memory that the loader has filled is too much to ask; the logits depend on all of it. */
async function logits({ wasm, loading }) {
  const model = await loading.model;
  await loading.done;
  return wasm.scope((take) => {
    const options = take(20);
    wasm.write('bqw_session_options', options, {});
    const session = wasm.out('bqw_session_create', model, options);
    const tokens = take(40);
    wasm.u32(tokens, 10).set([1, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
    wasm.out('bqw_session_sync', session, tokens, 10);
    while (wasm.check('bqw_session_run', session, 0) !== 0);
    return wasm.f32(wasm.out('bqw_session_logits', session), 271).join();
  });
}

test('chunks of any size give the same model, from one stream for the header and one for the data', async () => {
  const expected = await logits(await start(counting()));
  let i = 0;
  for (const size of [() => 1, () => 7, () => 4095, () => [1, 3, 64, 1000, 50_000][i++ % 5], () => 1e9]) {
    const source = counting(size);
    assert.equal(await logits(await start(source)), expected);
    assert.equal(source.streams, 2);
    assert.equal(source.closed, 1);
  }
});

test('the source is closed after a failure and after an abort', async () => {
  const short = counting(() => 5000, bytes.length - 10);
  await assert.rejects((await start(short)).loading.done, { code: 'TRUNCATED' });
  assert.equal(short.closed, 1);
  const controller = new AbortController();
  const aborted = counting(() => {
    controller.abort();
    return 100;
  });
  await assert.rejects((await start(aborted, { signal: controller.signal })).loading.done, { name: 'AbortError' });
  assert.equal(aborted.closed, 1);
});

test('after abort in this thread no step runs and no token is yielded', async (t) => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  t.after(() => engine.close());
  const model = await engine.load(fromBytes(bytes), { prefillBatch: 1 });
  const session = await model.createSession();
  const { call } = Wasm.prototype;
  t.after(() => (Wasm.prototype.call = call));
  for (const [name, at] of /** @type {const} */ ([
    ['bqw_session_run', 50],
    ['bqw_session_sample', 5],
  ])) {
    const controller = new AbortController();
    const counts = { bqw_session_run: 0, bqw_session_sample: 0 };
    let after = null;
    Wasm.prototype.call = function (called, ...args) {
      const result = call.call(this, called, ...args);
      if (called in counts) counts[called]++;
      if (called === name && counts[name] === at) {
        controller.abort();
        after = { ...counts };
      }
      return result;
    };
    await assert.rejects(
      session.generate(
        Array.from({ length: 100 }, (_, i) => 5 + i + at),
        { temperature: 1, seed: 1, signal: controller.signal },
      ).result,
      { name: 'AbortError' },
    );
    assert.deepEqual(counts, after, `aborted in the ${at}th ${name}`);
  }
});

test('after an abort by a flag within a token no step runs', async (t) => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  t.after(() => engine.close());
  const model = await engine.load(fromBytes(bytes));
  const session = await model.createSession();
  const { call, stop } = Wasm.prototype;
  t.after(() => Object.assign(Wasm.prototype, { call, stop }));
  for (let n = 1; n <= model.info.layers; n++) {
    let [calls, asked, aborted] = [0, 0, false];
    Wasm.prototype.call = function (name, ...args) {
      if (name === 'bqw_session_append') [calls, asked] = [0, 0];
      if (name === 'bqw_session_run') calls++;
      return call.call(this, name, ...args);
    };
    Wasm.prototype.stop = function () {
      aborted ||= ++asked === n;
      return stop.call(this);
    };
    const { workUnits } = await session.stats();
    const options = { temperature: 0, maxTokens: 2 };
    const flag = () => aborted;
    await assert.rejects(/** @type {any} */ (session).generate([n, 2, 3], options, flag).result, {
      name: 'AbortError',
    });
    assert.deepEqual([calls, asked], [1, n]);
    assert.equal((await session.stats()).workUnits - workUnits, model.info.layers + 1 + n);
  }
  // Nothing is left of it: the same session computes on.
  const { tokens: ids } = await session.generate([1, 2, 3], { temperature: 0, maxTokens: 5 }).result;
  assert.equal(ids.length, 5);
});

test('a session that is closed during a generation releases its memory', async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const model = await engine.load(fromBytes(bytes));
  const { used } = await model.memory();
  for (let round = 0; round < 3; round++) {
    const session = await model.createSession();
    const parts = session.generate('Once', { temperature: 0 })[Symbol.asyncIterator]();
    await parts.next();
    await session.close();
    await assert.rejects(parts.next(), { code: 'CLOSED' });
    assert.equal((await model.memory()).used, used);
  }
  await engine.close();
});

test('20 models that are loaded, used and closed leave no memory allocated', async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const seen = [];
  const { create } = Wasm;
  Wasm.create = async (...args) => {
    const wasm = await create.apply(Wasm, args);
    seen.push(new WeakRef(wasm.memory));
    return wasm;
  };
  const kept = [];
  for (let round = 0; round < 20; round++) {
    const model = await engine.load(fromBytes(bytes));
    const session = await model.createSession();
    await session.generate('Once', { maxTokens: 2 }).result;
    await model.close();
    kept.push(model, session); // what a page may well hold on to
  }
  Wasm.create = create;
  const { setFlagsFromString } = await import('node:v8');
  const { runInNewContext } = await import('node:vm');
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc');
  for (let i = 0; i < 10 && seen.some((ref) => ref.deref()); i++) {
    await new Promise(setImmediate);
    gc();
  }
  assert.equal(seen.length, 40, 'a planner and a model each');
  assert.equal(seen.filter((ref) => ref.deref()).length, 0);
  assert.equal(kept.length, 40);
  await engine.close();
});
