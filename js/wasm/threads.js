/**
 * The other threads of an engine: workers (js/thread.js) that spend their time inside the wasm module, where they
 * help with one parallel region after another and sleep when there is none. Loaded only where threads are wanted.
 */
import { THREAD_STACK } from './abi.js';
import { releaseMemory } from './release-memory.js';
import { listen } from '../shared/protocol.js';
import { isNode, nodeModule } from '../shared/node.js';
import { gate } from '../shared/async.js';
import { within } from '../shared/timeouts.js';
import { onDemand } from '../shared/errors.js';
import { startWorker } from '../shared/workers.js';

/** @import { ThreadTiming } from '../shared/types.js' */
/** @import { Compiled, Wasm } from './wasm.js' */

/**
 * Looks at a word in memory before sleeping: some 100 µs, longer than what lies between two regions of a token and than
 * most waits for a thread that has more to do. Waking one that sleeps takes 40 µs (docs/SPEED.md).
 */
const SPINS = 100_000;
/** Milliseconds that measuring may take, which number to begin with. */
const MEASURE_MS = 40;
/** Threads that are tried: more than these seldom help, since memory is the limit. */
const TRIED = [1, 2, 3, 4, 6, 8];
/** Matrix products that are timed: more weights than the caches next to a core hold. */
const PRODUCTS = 8;
/** More threads must be this many times as fast to be worth their power. */
const WORTH = 1.1;

/** One worker. @typedef {{ here: Promise<string>, post: (message: object | null, transfer?: ArrayBuffer[]) => void, next: () => Promise<string>, end: () => void, rest: () => void }} Thread */

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
  /** @type {import('../shared/async.js').Gate<string>[]} */
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
    const answer = gate();
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
    rest: () => worker.unref?.(), // in Node, a thread that waits for work must not keep the program from ending
  };
}

export class Threads {
  /** Workers without an instance. @type {Thread[]} */
  #resting = [];
  /** Those on their way out of an instance. @type {Set<Promise<void>>} */
  #leaving = new Set();
  #closed = false;
  #url;
  /** The start of a thread that is not there yet: one at a time. @type {Promise<void> | null} */
  #starting = null;
  /** The thread that is starting. @type {Thread | null} */
  #next = null;
  /** Threads without an instance when there were too few: with more, another try is worth it. */
  #lacking = Infinity;
  /** A thread is about to be started. */
  onStart = () => {};
  /** How many an instance gets, the caller's thread included. */
  count = 1;
  /** Why so many. */
  reason = '';
  /** What chooses from these numbers while an instance computes; null: it uses all. @type {((wasm: Wasm) => import('./thread-choice.js').Choice) | null} */
  #choice = null;
  /** @type {ThreadTiming[]} */
  timings = [];

  /** @param {string} [url] of a script that imports js/thread.js */
  constructor(url) {
    this.#url = url;
  }

  /**
   * Gives an instance its threads; they leave it when it is released. Returns '' or why it has but one.
   * @param {Wasm} wasm
   * @param {Compiled} compiled  whose memory is shared
   * @param {number} [count]
   */
  async attach(wasm, { module }, count = this.count) {
    if (count < 2) return '';
    // Never given back: a worker that was too slow may still use its part.
    const stacks = wasm.alloc((count - 1) * THREAD_STACK);
    const failed = (/** @type {unknown} */ error) =>
      `no threads could be started: ${/** @type {Error} */ (error).message}`;
    /** @type {Thread[]} */
    const team = [];
    try {
      await this.#gather(team, count - 1);
    } catch (error) {
      this.#resting.push(...team);
      this.#lacking = this.#resting.length;
      this.#next?.rest();
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
      for (const said of await within('threadsReady', ready))
        if (said !== 'ready') throw new Error('a thread could not begin');
      // Where the fastest number of threads is learned, busy cores need no other remedy.
      wasm.check('bqw_threads', count, SPINS, this.#choice ? 0 : 1);
      this.#lacking = Infinity;
    } catch (error) {
      for (const thread of team) thread.end(); // they may have begun to use the memory
      this.#lacking = -1;
      return failed(error);
    }
    team.forEach((thread) => thread.rest());
    wasm.threads = count;
    wasm.useThreads = (some) => void wasm.call('bqw_threads_use', some);
    wasm.choice = this.#choice?.(wasm) ?? null;
    wasm.onRelease = () => this.#leave(wasm, team);
    return '';
  }

  /** Whether enough may be there now, after there were too few. */
  get late() {
    return this.#resting.length > this.#lacking;
  }

  /** Takes threads without an instance, and starts those that are lacking. @param {Thread[]} team  gets them @param {number} count */
  async #gather(team, count) {
    await within('threadsReady', Promise.all(this.#leaving));
    while (team.length < count) {
      // One after the other, each up before the next: Firefox sometimes hangs in `new Worker` while others begin.
      if (!this.#resting.length) await within('threadStart', (this.#starting ??= this.#start()));
      const thread = this.#resting.pop();
      if (thread) team.push(thread);
    }
  }

  /** One more thread without an instance. One that comes after its time-out is there for the next instance. */
  async #start() {
    try {
      this.onStart();
      const thread = await startThread(this.#url);
      this.#next = thread;
      if (this.#closed) thread.end();
      await thread.here;
      thread.rest();
      this.#resting.push(thread);
    } finally {
      this.#starting = this.#next = null;
    }
  }

  /** @param {Wasm} wasm @param {Thread[]} team */
  #leave(wasm, team) {
    // After a trap nobody knows where they are.
    if (!wasm.alive) return team.forEach((thread) => thread.end());
    wasm.call('bqw_threads_leave');
    releaseMemory(wasm.memory);
    // They are kept for the next model: Firefox may hang in `new Worker` while other workers end.
    team.forEach((thread) => {
      const left = thread.next().then(
        () => void (this.#closed ? thread.post(null) : this.#resting.push(thread)),
        () => thread.end(),
      );
      this.#leaving.add(left);
      void left.finally(() => this.#leaving.delete(left));
    });
  }

  /** Starts as many as may be used, and measures which number to begin with. @param {Wasm} wasm @param {Compiled} compiled @param {number} most */
  async choose(wasm, compiled, most) {
    this.reason = await this.attach(wasm, compiled, most);
    if (this.reason) return;
    const learning = onDemand(import('./thread-choice.js')).catch(() => null);
    this.timings = measure(wasm, most);
    const [{ ms: one }] = this.timings;
    const best = this.timings.reduce((a, b) => (b.ms < a.ms ? b : a), { threads: 1, ms: one / WORTH });
    const { Choice } = (await learning) ?? {};
    // Where what learns can't be had, what was measured stays.
    this.count = Choice ? most : best.threads;
    this.reason = `${best.threads} of ${most} by a measurement at first`;
    if (!Choice) return;
    const numbers = this.timings.map(({ threads }) => threads);
    this.#choice = (wasm) => new Choice(wasm, numbers, best.threads);
    this.reason += ', then the fastest while it computes';
  }

  close() {
    this.#closed = true;
    this.#next?.end();
    this.#resting.splice(0).forEach((thread) => thread.post(null));
  }
}

/**
 * Milliseconds of the same work with different numbers of threads, each the median of rounds in turn.
 * @param {Wasm} wasm  with `most` threads
 * @param {number} most
 * @returns {ThreadTiming[]}
 */
function measure(wasm, most) {
  const block = wasm.alloc(wasm.call('bqw_measure_bytes', PRODUCTS, 1));
  wasm.call('bqw_measure_prepare', block, PRODUCTS, 1);
  const since = performance.now();
  const tried = [...new Set([...TRIED.filter((n) => n < most), most])];
  const timings = tried.map((threads) => ({ threads, all: /** @type {number[]} */ ([]) }));
  // The first rounds are for the compiler, which makes code that is used much faster while it runs.
  const warm = since + MEASURE_MS / 4;
  for (let round = 0; round < 200 && (performance.now() - since < MEASURE_MS || timings[0].all.length < 3); round++)
    for (const { threads, all } of timings) {
      wasm.check('bqw_threads', threads, SPINS, 0);
      wasm.call('bqw_measure', block); // wakes those that slept while fewer were measured: amid a token none sleeps
      const start = performance.now();
      wasm.call('bqw_measure', block);
      if (start > warm) all.push(performance.now() - start);
    }
  wasm.free(block);
  return timings.map(({ threads, all }) => ({ threads, ms: all.sort((a, b) => a - b)[all.length >> 1] }));
}

/** What measuring takes of the heap, beside the stacks. */
export const MEASURE_BYTES = 5 << 20;
