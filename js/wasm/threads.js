/**
 * The threads of an engine beside the caller's: workers (js/thread.js) that stay inside the wasm module, where they help with one
 * parallel region after another and sleep between them. This module is loaded only where threads are used.
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
 * Times that an idle thread reads a word in memory before it sleeps. That takes some 100 µs, longer than the gap between two parallel
 * regions of a token and than most waits for a slower thread; waking a sleeping thread takes 40 µs (docs/SPEED.md).
 */
const SPINS = 100_000;
/** Limit of the measurement that finds the number of threads to begin with, in milliseconds. */
const MEASURE_MS = 40;
/** Numbers of threads that are measured. More seldom help, since memory bandwidth is the limit. */
const THREAD_COUNTS = [1, 2, 3, 4, 6, 8];
/** Number of matrix products in a measurement: their weights exceed the caches that belong to a core. */
const PRODUCTS = 8;
/** More threads must be this many times as fast as one to justify their power consumption. */
const MIN_SPEEDUP = 1.1;

/**
 * A worker. `here` settles with its first message, `next` waits for the next one; `post` sends it a message, null to end it; `end`
 * terminates it; `rest` lets Node exit while it waits for work.
 * @typedef {{ here: Promise<string>, post: (message: object | null, transfer?: ArrayBuffer[]) => void, next: () => Promise<string>, end: () => void, allowExit: () => void }} Thread
 */

/** @param {string} [url]  of a script that imports js/thread.js @returns {Promise<Thread>} */
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
  let dead = null;
  listen(
    worker,
    (message) => waiting.shift()?.resolve(message),
    (why) => {
      dead ??= new Error(why);
      for (const { reject } of waiting.splice(0)) reject(dead);
    },
  );
  const next = () => {
    const answer = deferred();
    if (dead) answer.reject(dead);
    else waiting.push(answer);
    return answer.promise;
  };
  return {
    here: next(),
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
  /** Workers that are in no instance. @type {Thread[]} */
  #resting = [];
  /** Settle when the threads that leave an instance are out of it. @type {Set<Promise<void>>} */
  #leaving = new Set();
  #closed = false;
  #url;
  /** Settles when the thread that is starting has started. Threads start one at a time. @type {Promise<void> | null} */
  #starting = null;
  /** The thread that is starting. @type {Thread | null} */
  #startingThread = null;
  /** Number of resting threads when an instance last got too few; Infinity: it got enough. With more threads another try makes sense. */
  #insufficient = Infinity;
  /** Is called before a thread is started. */
  onStart = () => {};
  /** Number of threads of an instance, the caller's included. */
  count = 1;
  /** Why it is this number, for `engine.info`. */
  reason = '';
  /** Makes the object that chooses the number of threads for each run of an instance; null: all threads compute. @type {((wasm: Wasm) => import('./thread-choice.js').ThreadChoice) | null} */
  #createChoice = null;
  /** @type {ThreadTiming[]} */
  timings = [];

  /** @param {string} [url] of a script that imports js/thread.js */
  constructor(url) {
    this.#url = url;
  }

  /**
   * Gives an instance its threads, which leave it when it is released. Returns '' or the reason why it has only the caller's.
   * @param {Wasm} wasm
   * @param {Compiled} compiled  whose memory is shared
   * @param {number} [count]
   */
  async attach(wasm, { module }, count = this.count) {
    if (count < 2) return '';
    // The stacks are never freed: a worker that started after the time-out may still use its own.
    const stacks = wasm.alloc((count - 1) * THREAD_STACK);
    const failed = (/** @type {unknown} */ error) =>
      `no threads could be started: ${/** @type {Error} */ (error).message}`;
    /** @type {Thread[]} */
    const team = [];
    try {
      await this.#gather(team, count - 1);
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
      // The module's own remedy for busy cores is off where the number of threads is chosen for each run.
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

  /** Whether more threads are there than when an instance got too few: some started after the time-out. */
  get late() {
    return this.#resting.length > this.#insufficient;
  }

  /** Takes resting threads, and starts as many as are missing. @param {Thread[]} team  gets them @param {number} count */
  async #gather(team, count) {
    await within('threadsReady', Promise.all(this.#leaving));
    while (team.length < count) {
      // Each has started before the next begins: Firefox sometimes hangs in `new Worker` while other workers start.
      if (!this.#resting.length) await within('threadStart', (this.#starting ??= this.#start()));
      const thread = this.#resting.pop();
      if (thread) team.push(thread);
    }
  }

  /**
   * Starts the first thread, before there is anything to compute. Settles when it has started, or after the time-out. Never rejects: a
   * thread that is missing is started when it is needed, and a failure shows then.
   */
  prepare() {
    return within('threadStart', (this.#starting ??= this.#start())).catch(() => {});
  }

  /** Starts one more resting thread. If it starts only after the time-out, the next instance uses it. */
  async #start() {
    try {
      this.onStart();
      const thread = await startThread(this.#url);
      this.#startingThread = thread;
      if (this.#closed) thread.end();
      await thread.here;
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
    // The threads are kept for the next model: Firefox may hang in `new Worker` while other workers end.
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
   * Starts as many threads as may be used, and measures with how many to begin.
   * @param {Wasm} wasm @param {Compiled} compiled @param {number} max @param {ThreadTiming[]} [timings]  of an earlier visit
   */
  async choose(wasm, compiled, max, timings) {
    this.reason = await this.attach(wasm, compiled, max);
    if (this.reason) return;
    const imported = onDemand(import('./thread-choice.js')).catch(() => null);
    this.timings = timings?.at(-1)?.threads === max ? timings : measure(wasm, max);
    const [{ ms: single }] = this.timings;
    const best = this.timings.reduce((a, b) => (b.ms < a.ms ? b : a), { threads: 1, ms: single / MIN_SPEEDUP });
    const { ThreadChoice } = (await imported) ?? {};
    // Where the module can't be loaded, the measured number stays.
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
 * Milliseconds of the same work with different numbers of threads, each the median of rounds in which the numbers take turns.
 * @param {Wasm} wasm  with `max` threads
 * @param {number} max
 * @returns {ThreadTiming[]}
 */
function measure(wasm, max) {
  const block = wasm.alloc(wasm.call('bqw_measure_bytes', PRODUCTS, 1));
  wasm.call('bqw_measure_prepare', block, PRODUCTS, 1);
  const begin = performance.now();
  const counts = [...new Set([...THREAD_COUNTS.filter((n) => n < max), max])];
  const timings = counts.map((threads) => ({ threads, samples: /** @type {number[]} */ ([]) }));
  // The first rounds don't count: the JavaScript engine replaces the code by optimized code while it runs.
  const warm = begin + MEASURE_MS / 4;
  for (let round = 0; round < 200 && (performance.now() - begin < MEASURE_MS || timings[0].samples.length < 3); round++)
    for (const { threads, samples } of timings) {
      wasm.check('bqw_threads', threads, SPINS, 0);
      wasm.call('bqw_measure', block); // wakes threads that slept while fewer were measured: within a token none sleeps
      const start = performance.now();
      wasm.call('bqw_measure', block);
      if (start > warm) samples.push(performance.now() - start);
    }
  wasm.free(block);
  return timings.map(({ threads, samples }) => ({
    threads,
    ms: samples.sort((a, b) => a - b)[samples.length >> 1],
  }));
}

/** Heap that the measurement needs beside the stacks, in bytes. */
export const MEASURE_BYTES = 5 << 20;
