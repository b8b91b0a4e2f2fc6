/**
 * The threads of an engine in addition to the caller's. They are workers (js/thread.js) that stay inside a function of
 * the WebAssembly module. There they compute parts of each parallel region and sleep between regions. This module is
 * loaded only if threads are used.
 */
import { THREAD_STACK } from './abi.js';
import { releaseMemory } from './release-memory.js';
import { listen } from '../shared/protocol.js';
import { isNode, nodeModule } from '../shared/node.js';
import { deferred } from '../shared/async.js';
import { within } from '../shared/timeouts.js';
import { onDemand } from '../shared/errors.js';
import { startWorker } from '../shared/workers.js';

/** @import { ThreadTiming } from '../shared/types.js' */
/** @import { Compiled, Wasm } from './wasm.js' */

/**
 * Number of times that an idle thread reads a word in memory before it sleeps. That takes some 100 µs. The gap between
 * two parallel regions of a token is shorter, and so are most waits for a slower thread. Waking a sleeping thread takes
 * 40 µs (docs/SPEED.md).
 */
const SPINS = 100_000;
/** Time limit in milliseconds of the measurement that finds the initial number of threads. */
const MEASURE_MS = 40;
/** Numbers of threads that are measured. More threads rarely help, since memory bandwidth is the limit. */
const THREAD_COUNTS = [1, 2, 3, 4, 6, 8];
/** Number of matrix products in a measurement. Together their weights exceed the caches of a core. */
const PRODUCTS = 8;
/** Smallest speedup over one thread that justifies the power consumption of more threads. */
const MIN_SPEEDUP = 1.1;

/**
 * A worker.
 * @typedef {object} Thread
 * @property {Promise<string>} started  settles with the first message of the worker
 * @property {(message: object | null, transfer?: ArrayBuffer[]) => void} post  sends a message; null ends the worker
 * @property {() => Promise<string>} next  waits for the next message
 * @property {() => void} end  terminates the worker
 * @property {() => void} allowExit  lets Node exit while the worker is idle
 */

/** Starts a worker. @param {string} [url]  URL of a script that imports js/thread.js @returns {Promise<Thread>} */
export async function startThread(url) {
  /** @type {any} */
  let worker;
  if (isNode) {
    const { Worker: NodeWorker } = await nodeModule('worker_threads');
    worker = new NodeWorker(url ? new URL(url) : new URL('../thread.js', import.meta.url), { execArgv: [] });
  } else {
    worker = await startWorker('thread', url);
  }
  /** @type {import('../shared/async.js').Deferred<string>[]} */
  const waiting = [];
  /** @type {Error | null} */
  let failure = null;
  listen(
    worker,
    (message) => waiting.shift()?.resolve(message),
    (reason) => {
      failure ??= new Error(reason);
      for (const { reject } of waiting.splice(0)) reject(failure);
    },
  );
  const next = () => {
    const answer = deferred();
    if (failure) answer.reject(failure);
    else waiting.push(answer);
    return answer.promise;
  };
  return {
    started: next(),
    post: (message, transfer = []) => {
      worker.ref?.();
      worker.postMessage(message, transfer);
    },
    next,
    end: () => void worker.terminate(),
    allowExit: () => worker.unref?.(),
  };
}

export class Threads {
  /** Workers that no instance uses. @type {Thread[]} */
  #resting = [];
  /** Promises that settle when a thread has left its instance. @type {Set<Promise<void>>} */
  #leaving = new Set();
  #closed = false;
  #url;
  /** Settles when the thread that is starting has started. Threads start one at a time. @type {Promise<void> | null} */
  #starting = null;
  /** The thread that is starting. @type {Thread | null} */
  #startingThread = null;
  /**
   * Number of resting threads when an instance last got too few threads; Infinity: it got enough. With more resting
   * threads another try makes sense.
   */
  #insufficient = Infinity;
  /** Called before a thread is started. */
  onStart = () => {};
  /** Number of threads of an instance, including the caller's. */
  count = 1;
  /** Reason for `count`, for `engine.info`. */
  reason = '';
  /**
   * Creates the object that chooses the number of threads for each run of an instance; null: all threads compute.
   * @type {((wasm: Wasm) => import('./thread-choice.js').ThreadChoice) | null}
   */
  #createChoice = null;
  /** Measured times by number of threads. @type {ThreadTiming[]} */
  timings = [];

  /** @param {string} [url]  URL of a script that imports js/thread.js */
  constructor(url) {
    this.#url = url;
  }

  /**
   * Attaches threads to an instance. They leave it when it is released. Returns '', or the reason why the instance has
   * only the caller's thread.
   * @param {Wasm} wasm
   * @param {Compiled} compiled  build with shared memory
   * @param {number} [count]
   */
  async attach(wasm, { module }, count = this.count) {
    if (count < 2) return '';
    // The stacks are never freed: a worker that starts after the timeout may still use its stack.
    const stacks = wasm.alloc((count - 1) * THREAD_STACK);
    const failed = (/** @type {unknown} */ error) =>
      `no threads could be started: ${/** @type {Error} */ (error).message}`;
    /** @type {Thread[]} */
    const team = [];
    try {
      await this.#addThreads(team, count - 1);
    } catch (error) {
      this.#resting.push(...team);
      this.#insufficient = this.#resting.length;
      this.#startingThread?.allowExit();
      return failed(error);
    }
    try {
      const ready = Promise.all(team.map((thread) => thread.next()));
      team.forEach((thread, i) =>
        thread.post({
          module,
          rare: wasm.rare,
          memory: wasm.memory,
          index: i + 1,
          stack: stacks + (i + 1) * THREAD_STACK,
        }),
      );
      for (const message of await within('threadsReady', ready))
        if (message !== 'ready') throw new Error('a thread failed to instantiate the module');
      // The module's own adaptation to busy cores is off (0) if the number of threads is chosen for each run.
      wasm.check('bqw_threads', count, SPINS, this.#createChoice ? 0 : 1);
      this.#insufficient = Infinity;
    } catch (error) {
      for (const thread of team) thread.end(); // not reused: they may already use the memory
      this.#insufficient = -1;
      return failed(error);
    }
    team.forEach((thread) => thread.allowExit());
    wasm.threads = count;
    wasm.useThreads = (used) => void wasm.call('bqw_threads_use', used);
    wasm.choice = this.#createChoice?.(wasm) ?? null;
    wasm.onRelease = () => this.#leave(wasm, team);
    return '';
  }

  /** Whether threads have started after their timeout, since an instance got too few threads. */
  get late() {
    return this.#resting.length > this.#insufficient;
  }

  /**
   * Adds resting threads to a team, and starts the missing ones.
   * @param {Thread[]} team  output @param {number} count
   */
  async #addThreads(team, count) {
    await within('threadsReady', Promise.all(this.#leaving));
    while (team.length < count) {
      // Threads start one after another: Firefox sometimes hangs in `new Worker` while other workers start.
      if (!this.#resting.length) await within('threadStart', (this.#starting ??= this.#start()));
      const thread = this.#resting.pop();
      if (thread) team.push(thread);
    }
  }

  /**
   * Starts the first thread in advance. Settles when it has started, or after the timeout. Never rejects: a missing
   * thread is started again when an instance needs it, and that call reports a failure.
   */
  prepare() {
    return within('threadStart', (this.#starting ??= this.#start())).catch(() => {});
  }

  /** Starts another resting thread. If it starts after the timeout, the next instance uses it. */
  async #start() {
    try {
      this.onStart();
      const thread = await startThread(this.#url);
      this.#startingThread = thread;
      if (this.#closed) thread.end();
      await thread.started;
      thread.allowExit();
      this.#resting.push(thread);
    } finally {
      this.#starting = this.#startingThread = null;
    }
  }

  /** @param {Wasm} wasm @param {Thread[]} team */
  #leave(wasm, team) {
    // After a trap the state of the threads is unknown.
    if (!wasm.alive) return team.forEach((thread) => thread.end());
    wasm.call('bqw_threads_leave');
    releaseMemory(wasm.memory);
    // The threads are reused for the next model: Firefox may hang in `new Worker` while other workers end.
    team.forEach((thread) => {
      const leaving = thread.next().then(
        () => void (this.#closed ? thread.post(null) : this.#resting.push(thread)),
        () => thread.end(),
      );
      this.#leaving.add(leaving);
      void leaving.finally(() => this.#leaving.delete(leaving));
    });
  }

  /**
   * Starts the largest number of threads, and measures which number to use at first.
   * @param {Wasm} wasm @param {Compiled} compiled @param {number} max  largest number of threads
   * @param {ThreadTiming[]} [timings]  timings of an earlier visit
   */
  async choose(wasm, compiled, max, timings) {
    this.reason = await this.attach(wasm, compiled, max);
    if (this.reason) return;
    const imported = onDemand(import('./thread-choice.js')).catch(() => null);
    this.timings = timings?.at(-1)?.threads === max ? timings : measure(wasm, max);
    const [{ ms: single }] = this.timings;
    const best = this.timings.reduce((a, b) => (b.ms < a.ms ? b : a), { threads: 1, ms: single / MIN_SPEEDUP });
    const { ThreadChoice } = (await imported) ?? {};
    // If the module can't be loaded, the measured number is used for all runs.
    this.count = ThreadChoice ? max : best.threads;
    this.reason = `${best.threads} of ${max} by a measurement at first`;
    if (!ThreadChoice) return;
    const counts = this.timings.map(({ threads }) => threads);
    this.#createChoice = (wasm) => new ThreadChoice(wasm, counts, best.threads);
    this.reason += ', then the fastest while it computes';
  }

  close() {
    this.#closed = true;
    this.#startingThread?.end();
    this.#resting.splice(0).forEach((thread) => thread.post(null));
  }
}

/**
 * Measures the milliseconds of the same work with different numbers of threads. Each time is the median of several
 * rounds; in a round, every number is measured once.
 * @param {Wasm} wasm  instance with `max` threads
 * @param {number} max
 * @returns {ThreadTiming[]}
 */
function measure(wasm, max) {
  const block = wasm.alloc(wasm.call('bqw_measure_bytes', PRODUCTS, 1));
  wasm.call('bqw_measure_prepare', block, PRODUCTS, 1);
  const begin = performance.now();
  const counts = [...new Set([...THREAD_COUNTS.filter((n) => n < max), max])];
  const timings = counts.map((threads) => ({ threads, samples: /** @type {number[]} */ ([]) }));
  // The first rounds are discarded: the JavaScript engine replaces the code by optimized code while it runs.
  const warmUpEnd = begin + MEASURE_MS / 4;
  for (let round = 0; round < 200 && (performance.now() - begin < MEASURE_MS || timings[0].samples.length < 3); round++)
    for (const { threads, samples } of timings) {
      wasm.check('bqw_threads', threads, SPINS, 0);
      // Wakes threads that slept while fewer threads were measured. While a token is computed, no thread sleeps.
      wasm.call('bqw_measure', block);
      const start = performance.now();
      wasm.call('bqw_measure', block);
      if (start > warmUpEnd) samples.push(performance.now() - start);
    }
  wasm.free(block);
  return timings.map(({ threads, samples }) => ({
    threads,
    ms: samples.sort((a, b) => a - b)[samples.length >> 1],
  }));
}

/** Heap bytes that the measurement needs in addition to the stacks. */
export const MEASURE_BYTES = 5 << 20;
