// Threads: regions run every slice and never hang, teams are created and closed, and failures to start threads are handled.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { beforeEach, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { createEngine } from '../../js/node.js';
import { openEngine } from '../../js/engine/engine.js';
import { createWorkerEngine, fromBytes } from '../../js/index.js';
import { THREAD_STACK } from '../../js/wasm/abi.js';
import { Threads } from '../../js/wasm/threads.js';
import { Wasm } from '../../js/wasm/wasm.js';
import { random, tinyModel } from './fixture.mjs';
import { openLogits } from './logits.mjs';
import { inTime, until } from '../waiting.mjs';
import { blockThread, createTeam } from './teams.mjs';
import { setTimeouts } from './timeouts.mjs';

// On a busy machine, threads can start late, which is no fault; only some tests limit it.
beforeEach(
  (t) =>
    void setTimeouts(/** @type {import("node:test").TestContext} */ (t), {
      threadStart: Infinity,
      threadsReady: Infinity,
    }),
);

/** All ten thousand take minutes: BQ4_THREAD_CYCLES=10000 node --test tests/js/threads.test.mjs */
const CYCLES = Number(process.env.BQ4_THREAD_CYCLES ?? 100);

for (const [count, regions] of [
  [2, 10_000],
  [3, 10_000],
  [8, 2000],
]) {
  test(`${regions} regions on ${count} threads, with pauses in which they fall asleep: every slice is run`, async () => {
    const { wasm, failure } = await createTeam(count);
    assert.equal(failure, '');
    const next = random(count);
    for (let region = 0; region < regions; region++) {
      const barriers = region % 4;
      assert.equal(wasm.call('bqw_measure_empty', 1, barriers), count * (1 + barriers));
      const gap = next();
      if (gap > 0.98)
        blockThread(1); // all threads are asleep
      else if (gap > 0) for (const until = performance.now() + gap * 0.05; performance.now() < until;); // threads are about to sleep
    }
    for (const spins of [0, 1, 100]) {
      wasm.check('bqw_threads', count, spins, 0);
      assert.equal(wasm.call('bqw_measure_empty', 2000, 3), 2000 * count * 4, `${spins} looks before sleep`);
    }
    wasm.release();
  });
}

test('fewer threads than started: the others do not run slices, and none runs a slice of another region', async () => {
  const { wasm } = await createTeam(6);
  for (let round = 0; round < 2000; round++) {
    const count = 1 + ((round * 7) % 6);
    wasm.check('bqw_threads', count, round % 3 ? 50 : 0, 0);
    assert.equal(wasm.call('bqw_measure_empty', 3, 1), 3 * count * 2);
  }
  wasm.release();
});

test(`${CYCLES} teams one after another, with and without new workers`, async () => {
  const kept = new Threads();
  kept.count = 3;
  for (let cycle = 0; cycle < CYCLES; cycle++) {
    const fresh = cycle % 10 === 0;
    const { wasm, threads, failure } = await createTeam(fresh ? 2 : 3, fresh ? undefined : kept);
    assert.equal(failure, '');
    assert.equal(wasm.call('bqw_measure_empty', 20, 0), 20 * wasm.threads);
    wasm.release();
    if (fresh) threads.close();
    await new Promise((resolve) => setImmediate(resolve));
  }
  kept.close();
});

test('threads without a core are not used until they have one again', async (t) => {
  const { wasm } = await createTeam(2);
  // Of the readings of the clock in a region, the first is its beginning; if the caller waits for the other thread, the second and the
  // third are the beginning and the end of the wait; the last is its end. So the clock determines whether the time of a region is spent
  // waiting.
  let [now, reading, slow] = [0, 0, 3];
  t.mock.method(performance, 'now', () => (now += ++reading === slow ? 30 : 0));
  const alone = () => wasm.call('bqw_threads_alone');
  /** Whether this number of regions is computed by both threads. @param {number} regions */
  const together = (regions) => {
    const before = alone();
    for (let region = 0; region < regions; region++) {
      reading = 0;
      wasm.call('bqw_measure_empty', 1, 0);
    }
    return alone() === before;
  };
  const untilAlone = () => until('a region that is computed by one thread', () => !together(1), { every: 0 });
  wasm.check('bqw_threads', 2, 0, 0);
  assert.ok(together(200), 'not unless it is allowed');
  wasm.check('bqw_threads', 2, 0, 1);
  slow = 2;
  assert.ok(together(200), 'not while nothing is waited for');
  slow = 3;
  for (const pause of [100, 200, 400, 800, 1600, 1600]) {
    await untilAlone();
    now += pause - 1;
    assert.ok(!together(1), `alone for ${pause} ms`);
    now += 1;
    assert.ok(together(1), 'then tried again');
  }
  await untilAlone();
  now += 1600;
  slow = 2;
  assert.ok(together(200), 'and together once nothing is waited for');
  wasm.release();
});

test('a trap in another thread is a trap, not a hang', async () => {
  const { wasm } = await createTeam(2);
  const block = wasm.alloc(wasm.call('bqw_measure_bytes', 8, 1));
  wasm.call('bqw_measure_prepare', block, 8, 1);
  wasm.call('bqw_measure', block);
  // The last field of the record at the beginning of the block is the address of the results, 4 bytes per row: the rows of the second half,
  // which the second thread computes, are past the end of the memory.
  wasm.u32(block, 15)[14] = wasm.memoryBytes - (896 / 2) * 4;
  assert.throws(() => wasm.call('bqw_measure', block), { code: 'TRAP' });
  assert.ok(!wasm.alive);
  wasm.release();
});

test('threads use less than half of their stacks', async (t) => {
  const engine = await createEngine({ threads: 2 });
  /** The stack of the last team. @type {{ wasm: Wasm, at: number } | null} */
  let stack = null;
  const { attach } = Threads.prototype;
  t.after(() => (Threads.prototype.attach = attach));
  Threads.prototype.attach = function (wasm, ...rest) {
    const { alloc } = wasm;
    wasm.alloc = (bytes) => {
      const at = alloc.call(wasm, bytes);
      stack = { wasm, at };
      wasm.bytes(at, bytes).fill(0xa5);
      return at;
    };
    const attached = attach.call(this, wasm, ...rest); // allocates the stacks before waiting
    wasm.alloc = alloc;
    return attached;
  };
  for (const type of ['f32', 'f16', 'bf16', 'bq4_16', 'bq4', 'bq4h', 'bq8']) {
    const model = await engine.load(fromBytes(await tinyModel({ type })));
    await (await model.createSession()).generate('Once upon a time', { maxTokens: 5 }).result;
    const { wasm, at } = stack ?? assert.fail();
    const used = THREAD_STACK - wasm.bytes(at, THREAD_STACK).findIndex((byte) => byte !== 0xa5);
    assert.ok(used > 0 && used < THREAD_STACK / 2, `${type}: ${used} bytes`);
    await model.close();
  }
  await engine.close();
});

test('idle threads sleep and use no CPU time', async () => {
  const { wasm } = await createTeam(3);
  assert.equal(wasm.call('bqw_measure_empty', 100, 0), 300);
  blockThread(20);
  const before = process.cpuUsage();
  blockThread(500);
  const { user, system } = process.cpuUsage(before);
  assert.ok(user + system < 100_000, `${user + system} µs of CPU in half a second`);
  wasm.release();
});

test('a program that leaves an engine open can exit', () => {
  const program = `import { createEngine } from ${JSON.stringify(new URL('../../js/node.js', import.meta.url).href)};
    globalThis[Symbol.for('bq4.timeouts')] = { threadStart: Infinity, threadsReady: Infinity };
    const engine = await createEngine({ threads: 3 }); console.log(engine.info.threads);`;
  const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
    timeout: 60_000,
  });
  assert.deepEqual([status, stdout.trim()], [0, '3']);
});

/** @param {string} script @param {RegExp} reason */
async function withoutThreads(script, reason) {
  const engine = await createEngine({ threads: 3, threadUrl: new URL(`./threads/${script}`, import.meta.url) });
  assert.equal(engine.info.threads, 1);
  assert.match(engine.info.threadsReason, reason);
  const model = await engine.load(fromBytes(await tinyModel()));
  assert.equal(model.info.threads, 1);
  assert.equal((await (await model.createSession()).generate('x', { maxTokens: 3 }).result).tokens.length, 3);
  await engine.close();
}

test('workers that fail to start: one thread, with the reason', () =>
  withoutThreads('broken.mjs', /this one is broken/));
test('workers that do not respond: one thread after a timeout, with the reason', (t) => {
  setTimeouts(t, { threadStart: 1 });
  return withoutThreads('silent.mjs', /no response within 1 ms/);
});

const late = new URL('./threads/late.mjs', import.meta.url);

test('threads that start after their timeout compute models that are loaded later', async (t) => {
  const restore = setTimeouts(t, { threadStart: 1 });
  const gate = new BroadcastChannel('bq4 late thread');
  t.after(() => gate.close());
  const engine = await createEngine({ threads: 2, threadUrl: late });
  t.after(() => engine.close());
  assert.equal(engine.info.threads, 1);
  assert.match(engine.info.threadsReason, /no response within 1 ms/);
  restore();
  const changes = [];
  engine.events.addEventListener('threads', (event) => changes.push(/** @type {any} */ (event).detail));
  const bytes = fromBytes(await tinyModel());
  await until('a model on two threads', async () => {
    gate.postMessage('begin'); // repeatedly, since it may not listen yet
    const model = await engine.load(bytes);
    const { threads } = model.info;
    assert.equal(threads, engine.info.threads);
    assert.equal((await (await model.createSession()).generate('x', { maxTokens: 3 }).result).tokens.length, 3);
    await model.close();
    return threads === 2;
  });
  assert.equal(engine.info.threadsReason, '');
  assert.deepEqual(changes, [{ threads: 2, threadsReason: '', timings: [] }]);
});

test('threads that start while their engine closes end without an error', async (t) => {
  setTimeouts(t, { threadStart: 1 });
  const gate = new BroadcastChannel('bq4 late thread');
  t.after(() => gate.close());
  const failures = [];
  const listen = (error) => failures.push(error);
  process.on('unhandledRejection', listen);
  t.after(() => process.off('unhandledRejection', listen));
  for (const close of [true, false]) {
    const engine = await createEngine({ threads: 3, threadUrl: late });
    if (close) await engine.close();
    gate.postMessage('begin');
    if (!close) await engine.close();
  }
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(failures, []);
});

test('a model whose threads do not start computes with one, in the planned memory', async (t) => {
  const engine = await createEngine({ threads: 2 });
  const { attach } = Threads.prototype;
  t.after(() => (Threads.prototype.attach = attach));
  Threads.prototype.attach = function (wasm, compiled, count) {
    return attach.call(
      Object.assign(new Threads(new URL('./threads/broken.mjs', import.meta.url).href), { count: 2 }),
      wasm,
      compiled,
      count,
    );
  };
  const bytes = await tinyModel();
  const { heapBytes } = await engine.plan(fromBytes(bytes));
  const model = await engine.load(fromBytes(bytes));
  assert.equal(model.info.threads, 1);
  assert.equal((await model.memory()).total, heapBytes);
  assert.equal((await (await model.createSession()).generate('x', { maxTokens: 3 }).result).tokens.length, 3);
  await engine.close();
});

test('the choice begins with a measurement, at most the number of cores; one thread if requested or if memory cannot be shared', async (t) => {
  const { info } = await createEngine();
  assert.ok(info.threads >= 1 && info.threads <= Math.max(1, navigator.hardwareConcurrency));
  if (navigator.hardwareConcurrency > 1) {
    assert.deepEqual(info.timings.map(({ threads }) => threads).slice(0, 2), [1, 2]);
    assert.ok(info.timings.every(({ ms }) => ms > 0));
    assert.match(info.threadsReason, /measurement at first.*while it computes/);
    assert.deepEqual(info.learned, {});
  }
  const single = await createEngine({ threads: 1 });
  assert.deepEqual(
    [single.info.threads, single.info.threadsReason, single.info.timings],
    [1, 'set by the option threads', []],
  );
  for (const threads of [0, 1.5, 33, -1, NaN, /** @type {any} */ ('many')])
    for (const create of [createEngine, createWorkerEngine])
      await assert.rejects(create({ threads }), { code: 'ARGUMENT' });

  const shared = globalThis.SharedArrayBuffer;
  t.after(() => (globalThis.SharedArrayBuffer = shared));
  delete (/** @type {any} */ (globalThis).SharedArrayBuffer);
  const alone = await createEngine({ threads: 2 });
  assert.equal(alone.info.threads, 1);
  assert.match(alone.info.threadsReason, /isolated/);
});

test('one core is reserved for the page, unless there are only two; of many cores, few numbers are tried', async (t) => {
  for (const [there, tried] of /** @type {[number, number[]][]} */ ([
    [1, []],
    [2, [1, 2]],
    [3, [1, 2]],
    [4, [1, 2, 3]],
    [6, [1, 2, 3, 4, 5]],
    [64, [1, 2, 3, 4, 6, 8]],
  ])) {
    cores(t, there);
    const engine = await createEngine();
    assert.deepEqual(
      engine.info.timings.map(({ threads }) => threads),
      tried,
      `${there} cores`,
    );
    if (there === 1)
      assert.deepEqual([engine.info.threads, engine.info.threadsReason], [1, 'this machine has one core']);
    await engine.close();
  }
});

/** Simulates a machine with this number of cores. @param {import('node:test').TestContext} t @param {number} there */
function cores(t, there) {
  const own = Object.getOwnPropertyDescriptor(navigator, 'hardwareConcurrency');
  t.after(() =>
    own
      ? Object.defineProperty(navigator, 'hardwareConcurrency', own)
      : delete (/** @type {any} */ (navigator).hardwareConcurrency),
  );
  Object.defineProperty(navigator, 'hardwareConcurrency', { value: there, configurable: true });
}

/**
 * A clock on which the time of a run depends on its work and its number of threads only.
 * @param {import('node:test').TestContext} t @param {(threads: number, rows: number) => number} times
 */
function clocked(t, times) {
  const [{ call }, real] = [Wasm.prototype, performance.now];
  let [now, used, rows] = [0, 1, 0];
  /** Numbers of threads of the runs, of one token and of several. @type {{ decode: number[], prefill: number[] }} */
  const runs = { decode: [], prefill: [] };
  t.after(() => {
    Wasm.prototype.call = call;
    performance.now = real;
  });
  performance.now = () => (now += 1e-3); // a loop that waits for time to pass ends
  Wasm.prototype.call = function (name, ...args) {
    const work = () => call.call(this, 'bqw_session_work', args[0]);
    const isRun = /^bqw_session_run/.test(name);
    const before = isRun ? work() : 0;
    const result = call.call(this, name, ...args);
    if (name === 'bqw_threads' || name === 'bqw_threads_use') used = Number(args[0]);
    if (name === 'bqw_measure') now += times(used, 1);
    if (name === 'bqw_session_rows') rows = result;
    if (!isRun) return result;
    now += (times(used, name === 'bqw_session_run' ? rows : 2) * (work() - before)) / 1e4;
    if (name === 'bqw_session_run') runs[rows === 1 ? 'decode' : 'prefill'].push(used);
    return result;
  };
  return runs;
}

const LONG = Array.from({ length: 200 }, (_, i) => 5 + (i % 250));

for (const build of /** @type {const} */ (['simd128', 'relaxed', 'relaxed16'])) {
  test(`${build}: threads share the attention of a token over many positions, with the bits of one thread`, async () => {
    const config = { context: 640, heads: 9, kv_heads: 3, head_dim: 16 };
    const bytes = await tinyModel({ type: 'bq4', config });
    const ids = Uint32Array.from({ length: 530 }, (_, i) => (i * 37) % 90);
    /** @param {number} threads */
    const logits = async (threads) => {
      const model = await openLogits(fromBytes(bytes), { build, threads, kv: 'i8', contextTokens: 640 });
      const rows = [model.start(ids.subarray(0, 508)), ...Array.from(ids.subarray(508), (id) => model.next(id))];
      model.close();
      return rows;
    };
    const wanted = await logits(0);
    for (const threads of [2, 4, 7]) assert.deepEqual(await logits(threads), wanted, `${threads} threads`);
  });
}

test('the number of threads is tuned during computation, separately for prompts and tokens; the bits are the same', async (t) => {
  const bytes = await tinyModel({ type: 'bq4', config: { context: 512 } });
  /** @param {any} engine */
  const write = async (engine) => {
    const model = await engine.load(fromBytes(bytes), { sessions: 3 });
    const how = { temperature: 0, maxTokens: 60, stopTokens: [] };
    const { tokens: ids } = await model.generate(LONG, how).result;
    const together = await Promise.all(['One', 'Two', 'And three'].map((text) => model.generate(text, how).result));
    const { vectors } = await model.embed(['Once upon a time', 'A quick brown fox'], {});
    return [ids, together.map((one) => one.tokens), vectors.map((/** @type {Float32Array} */ vector) => vector.join())];
  };
  const alone = await createEngine({ threads: 1 });
  const wanted = await write(alone);
  await alone.close();
  cores(t, 4);
  // Three threads are fastest for prompts, one for tokens; the first measurement has two.
  let measuring = true;
  const runs = clocked(t, (threads, rows) =>
    measuring ? (threads === 2 ? 3 : 9) : rows > 1 ? 12 / threads : 2 + threads,
  );
  const engine = await createEngine();
  assert.match(engine.info.threadsReason, /^2 of 3 by a measurement at first/);
  measuring = false;
  /** @type {any[]} */
  const reports = [];
  engine.events.addEventListener('threads', (event) => reports.push(/** @type {any} */ (event).detail.learned));
  assert.deepEqual(await write(engine), wanted);
  const { learned } = engine.info;
  assert.deepEqual([learned.prefill?.threads, learned.decode?.threads, learned.few?.threads], [3, 1, 3]);
  assert.deepEqual(reports.at(-1), learned);
  const times = Object.fromEntries(
    (learned.decode?.tried ?? []).map(({ threads, time }) => [threads, time.toFixed(2)]),
  );
  assert.deepEqual([times[1], times[2]], ['1.00', '1.33']);
  for (const [kind, best] of /** @type {const} */ ([
    ['prefill', 3],
    ['decode', 1],
  ])) {
    const list = runs[kind];
    assert.equal(list[0], 2, 'what was measured is the beginning');
    assert.ok(new Set(list).size > 1, 'others are tried');
    assert.ok(list.filter((threads) => threads === best).length > list.length / 2, `${kind}: ${list}`);
  }
  await engine.close();
});

test('a requested number of threads stays', async (t) => {
  const runs = clocked(t, (threads) => threads * threads);
  const engine = await createEngine({ threads: 3 });
  const model = await engine.load(fromBytes(await tinyModel({ type: 'bq4', config: { context: 512 } })));
  await model.generate(LONG, { temperature: 0, maxTokens: 60, stopTokens: [] }).result;
  assert.deepEqual([...new Set([...runs.prefill, ...runs.decode])], [3]);
  assert.deepEqual(
    [engine.info.threads, engine.info.threadsReason, engine.info.learned],
    [3, 'set by the option threads', {}],
  );
  await engine.close();
});

test('slow uses one thread, without measurements; a session opened meanwhile has all of them later', async (t) => {
  cores(t, 4);
  const runs = clocked(t, (threads) => 12 / threads);
  for (const threads of /** @type {const} */ (['auto', 3])) {
    const engine = await createEngine({ threads });
    const model = await engine.load(fromBytes(await tinyModel({ type: 'bq4', config: { context: 512 } })));
    await engine.setPace('slow');
    for (const kind of /** @type {const} */ (['prefill', 'decode'])) runs[kind].length = 0;
    const session = await model.createSession();
    await session.generate(LONG.slice(0, 40), { temperature: 0, maxTokens: 10, stopTokens: [] }).result;
    assert.deepEqual([...new Set([...runs.prefill, ...runs.decode])], [1]);
    assert.deepEqual(engine.info.learned, {});
    await engine.setPace('full');
    await session.generate(LONG, { temperature: 0, maxTokens: 40, stopTokens: [] }).result;
    if (threads === 'auto') assert.equal(engine.info.learned.prefill?.threads, 3);
    await engine.close();
  }
});

test(
  'a page receives the number of threads of its worker',
  { skip: navigator.hardwareConcurrency < 2 && 'one core' },
  async () => {
    const engine = await createWorkerEngine();
    const model = await engine.load(fromBytes(await tinyModel({ type: 'bq4', config: { context: 512 } })));
    let round = 0;
    await until('the numbers for prompts and for tokens', async () => {
      const prompt = LONG.map((id, i) => (i ? id : 5 + round++));
      await model.generate(prompt, { temperature: 0, maxTokens: 100, stopTokens: [] }).result;
      return engine.info.learned.prefill && engine.info.learned.decode;
    });
    assert.ok([1, 2].includes(engine.info.learned.prefill?.threads ?? 0));
    await engine.close();
  },
);

test('a host without builds for threads: one thread, with the reason', async () => {
  const at = (/** @type {string} */ name) => new URL(`../../build/wasm/bq4-${name}.wasm`, import.meta.url);
  const plain = { relaxed: at('relaxed'), simd128: at('simd128') };
  for (const [wasmUrl, reason] of /** @type {const} */ ([
    [at('simd128'), /wasmUrl/],
    [plain, /wasmUrl/],
    [{ ...plain, 'relaxed-threads': at('none'), 'simd128-threads': at('none') }, /bq4-none/],
  ])) {
    const { info } = await createEngine({ wasmUrl, threads: 2 });
    assert.equal(info.threads, 1);
    assert.match(info.threadsReason, reason);
  }
});

test('several models at once, closed in any order, and workers are reused', async () => {
  const engine = await createEngine({ threads: 2 });
  const bytes = await tinyModel({ type: 'bq4' });
  const run = async (/** @type {import('../../js/shared/types.js').Model} */ model) =>
    (await (await model.createSession()).generate('x', { temperature: 0, maxTokens: 5 }).result).tokens.join();
  const seen = new Set();
  for (let round = 0; round < 5; round++) {
    const models = await Promise.all([1, 2, 3].map(() => engine.load(fromBytes(bytes))));
    assert.deepEqual(
      models.map((model) => model.info.threads),
      [2, 2, 2],
    );
    for (const ids of await Promise.all(models.map(run))) seen.add(ids);
    for (const at of [1, 0, 2]) await models[at].close();
  }
  assert.equal(seen.size, 1);
  await assert.rejects(engine.load(fromBytes(bytes.slice(0, -100))), { code: 'TRUNCATED' });
  await engine.close();
});

test('a worker that waits for its module can take any time; one that starts threads has a timeout', async (t) => {
  const steps = [];
  /** @type {() => void} */
  let release = () => {};
  const threadStarted = new Promise((resolve) => (release = () => resolve(undefined)));
  const { compile } = WebAssembly;
  t.after(() => (WebAssembly.compile = compile));
  WebAssembly.compile = async (bytes) => (await threadStarted, compile(bytes));
  const engine = await openEngine({ threads: 2 }, (step) => {
    steps.push(step);
    if (step === 'compile') release();
  });
  assert.deepEqual(steps, ['threads', 'compile', 'threads']);
  await engine.close();
});

test('the page times out for a worker that starts threads, not for one that waits for its module', async (t) => {
  setTimeouts(t, { workerSilence: 1000 });
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const workers = [];
  const make = () => {
    const worker = new Worker(new URL('./threads/waiting-worker.mjs', import.meta.url));
    workers.push(worker);
    // The page has processed the message when this callback runs; a timer of the page would fire then.
    worker.on('message', ({ progress }) => {
      if (progress !== 'compile') return;
      setImmediate(() => {
        t.mock.timers.tick(1000);
        worker.postMessage('end');
      });
    });
    return worker;
  };
  const engine = await createWorkerEngine({ worker: make, threads: 2 });
  assert.deepEqual([workers.length, engine.info.threads], [1, 2]);
  t.mock.timers.reset();
  await engine.close();
});

test('an engine that fails to open, or is aborted, ends the threads that it has started', async (t) => {
  const ends = [];
  const record = (/** @type {Worker} */ worker) => ends.push(new Promise((resolve) => worker.on('exit', resolve)));
  process.on('worker', record);
  t.after(() => process.off('worker', record));
  const nothing = new URL('./nothing.wasm', import.meta.url);
  await assert.rejects(
    createEngine({ threads: 2, build: 'simd128', wasmUrl: { relaxed: nothing, simd128: nothing } }),
    {
      code: 'NO_ENGINE',
    },
  );
  const controller = new AbortController();
  const opened = createEngine({ threads: 2, signal: controller.signal });
  await until('a second thread', () => ends.length === 2);
  controller.abort();
  await assert.rejects(opened, { name: 'AbortError' });
  await inTime('the threads to end', Promise.all(ends));
});

test('a worker that stops responding when it starts threads: another one with one thread, or an error, but no hang', async (t) => {
  setTimeouts(t, { workerSilence: 1 });
  /** @type {Worker[]} */
  const items = [];
  t.after(() => items.forEach((worker) => worker.terminate()));
  const make = () => {
    items.push(new Worker(new URL('./threads/hanging-worker.mjs', import.meta.url)));
    return items[items.length - 1];
  };
  const engine = await createWorkerEngine({ worker: make, threads: 2 });
  assert.equal(items.length, 2);
  assert.deepEqual(
    [engine.info.threads, engine.info.threadsReason],
    [1, 'the worker stopped answering while it started threads'],
  );
  const model = await engine.load(fromBytes(await tinyModel()));
  assert.equal((await (await model.createSession()).generate('x', { maxTokens: 3 }).result).tokens.length, 3);
  await engine.close();
  await assert.rejects(
    createWorkerEngine({ worker: make(), threads: 2 }),
    (/** @type {any} */ e) => e.code === 'NO_WORKER' && /stopped answering/.test(e.message) && /function/.test(e.hint),
  );
});
