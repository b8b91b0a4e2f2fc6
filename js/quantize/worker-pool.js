/** Those that round, in threads of their own or in this one, and who does what next. What comes of it doesn't depend on how many they are. In Node. */
import { deferred } from '../shared/async.js';
import { BqError, unpackError } from '../shared/errors.js';
import { nodeModule } from '../shared/node.js';
import { Hand } from './rounding-worker.js';
import { roundingBytes } from './rounder.js';

/** @import { Codec } from '../format/bq4/codec.js' */
/** @import { Encoder, Piece } from '../format/bq4/encode-tensor.js' */
/** @import { Deferred } from '../shared/async.js' */
/** @import { Task } from './rounding-worker.js' */
/** @import { Moments, Rounded } from './rounder.js' */

/** @typedef {Encoder & { key: string, use: (moments: Moments) => void | Promise<void>, round: (...given: Parameters<Hand['round']>) => Rounded | Promise<Rounded>, end: (why: Error) => void }} AnyHand */
/** @template T @typedef {{ key: string, bytes: number, run: (hand: AnyHand) => Promise<T>, hurry?: boolean }} Job  key: of the moments that it needs, or ''; bytes: of what it gives; hurry: others wait for it */

/** Threads at most, unless more are asked for. */
const MOST = 8;
/** Weights of a model that one thread has rounded before others have begun. */
const SMALL = 1 << 22;
/** Bytes of results that may wait for their turn, for each thread. */
const WAITING = 32 << 20;

/** A buffer of its own: of a view all that it is a view of would be copied. @template {Float32Array | Uint8Array} T @param {T} view @returns {T} */
const own = (view) => (view.byteLength === view.buffer.byteLength ? view : /** @type {T} */ (view.slice()));

/** A hand in another thread. It does one thing at a time. @implements {AnyHand} */
class RemoteHand {
  #worker;
  /** @type {Deferred<any> | null} */
  #asked = null;
  /** @type {Error | null} */
  #ended = null;
  key = '';

  constructor() {
    const { Worker } = nodeModule('worker_threads');
    this.#worker = new Worker(new URL('./round-thread.js', import.meta.url), { execArgv: [] });
    this.#worker.on('message', (/** @type {{ result: any, error?: object }} */ { result, error }) => {
      const asked = this.#asked;
      this.#asked = null;
      if (error) asked?.reject(unpackError(error));
      else asked?.resolve(result);
    });
    const lost = (/** @type {unknown} */ cause) =>
      this.end(new BqError('NO_WORKER', 'a thread that rounds has ended', { cause, hint: 'try --threads 1' }));
    this.#worker.on('error', lost);
    this.#worker.on('exit', lost);
  }

  /** NOMEM, NO_WORKER. @param {Task} task */
  static async create(task) {
    const hand = new RemoteHand();
    try {
      await hand.#ask('begin', [task]);
      return hand;
    } catch (error) {
      hand.end(/** @type {Error} */ (error));
      throw error;
    }
  }

  /** @param {string} call  of round-thread.js @param {any[]} given @param {ArrayBufferLike[]} [transfer] @returns {Promise<any>} */
  async #ask(call, given, transfer = []) {
    if (this.#ended) throw this.#ended;
    this.#asked = deferred();
    const { promise } = this.#asked;
    this.#worker.postMessage({ call, given }, transfer);
    return promise;
  }

  /** What is copied is copied before it returns. @param {Moments} moments */
  async use({ key, cols, values, drift }) {
    const copies = { values: values.slice(), drift: drift?.slice() };
    const buffers = Object.values(copies).flatMap((copy) => (copy ? [copy.buffer] : []));
    await this.#ask('use', [{ key, cols, ...copies }], buffers);
    this.key = key;
  }

  /** @type {AnyHand['round']} */
  round = (type, layout, weights, rows, cols) => this.#ask('round', [type.id, layout, own(weights), rows, cols]);
  /** @type {Encoder['encode']} */
  encode = ({ type, bytes }, to, layout, rows, cols) =>
    this.#ask('encode', [{ type: type.id, bytes: own(bytes) }, to.id, layout, rows, cols]);
  /** @type {Encoder['dequantize']} */
  dequantize = (type, layout, bytes, rows, cols) => this.#ask('dequantize', [type.id, layout, own(bytes), rows, cols]);

  /** @param {Error} why */
  end(why) {
    if (this.#ended) return;
    this.#ended = why;
    this.#asked?.reject(why);
    void this.#worker.terminate();
  }
}

/** As many as there are cores, and as a quarter of the memory has room for. @param {Task} task @param {number} weights */
export function usualThreads({ shapes, largestPiece }, weights) {
  if (weights < SMALL) return 1;
  const { availableParallelism, totalmem } = nodeModule('os');
  const bytes = 3 * largestPiece + (shapes.length ? roundingBytes(shapes) : 0);
  return Math.max(1, Math.min(MOST, availableParallelism(), Math.floor(totalmem() / 4 / bytes)));
}

export class Hands {
  /** @type {{ hand: AnyHand, key: string, busy: boolean }[]} */
  #all;
  /** @type {(Job<any> & Deferred<any>)[]} */
  #queue = [];
  /** @type {Error | null} */
  #ended = null;
  #signal;
  #abort = () => this.end(this.#signal?.reason);

  /** @param {AnyHand[]} hands @param {AbortSignal} [signal] */
  constructor(hands, signal) {
    this.#all = hands.map((hand) => ({ hand, key: '', busy: false }));
    this.#signal = signal;
    if (signal?.aborted) this.#abort();
    signal?.addEventListener('abort', this.#abort);
  }

  /** NOMEM, NO_WORKER. @param {number} threads @param {Task} task @param {Codec} codec  of this thread @param {AbortSignal} [signal] */
  static async create(threads, task, codec, signal) {
    if (threads < 2) return new Hands([await Hand.create(task, codec)], signal);
    const made = await Promise.allSettled(Array.from({ length: threads }, () => RemoteHand.create(task)));
    const hands = made.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    // Where there is memory for fewer, those do it.
    if (!hands.length) throw /** @type {PromiseRejectedResult} */ (made[0]).reason;
    return new Hands(hands, signal);
  }

  /**
   * What jobs give. They are asked for in their order; others are begun before, as long as not too much waits.
   * @template T @param {Job<T>[]} jobs @returns {(() => Promise<T>)[]}
   */
  ahead(jobs) {
    const room = this.#all.length > 1 ? WAITING * this.#all.length : 0;
    /** @type {(Promise<T> | null)[]} */
    const begun = [];
    let waiting = 0;
    return jobs.map(({ bytes }, i) => async () => {
      while (begun.length <= i || (waiting < room && begun.length < jobs.length)) {
        const next = jobs[begun.length];
        waiting += next.bytes;
        begun.push(this.#begin(next));
      }
      const result = await begun[i];
      begun[i] = null;
      waiting -= bytes;
      return /** @type {T} */ (result);
    });
  }

  /** @template T @param {Job<T>} job @returns {Promise<T>} */
  #begin(job) {
    const made = { ...job, .../** @type {Deferred<T>} */ (deferred()) };
    if (this.#ended) made.reject(this.#ended);
    else this.#queue.push(made);
    this.#next();
    return made.promise;
  }

  /** Those that are free take the first jobs; what needs moments that one has is that one's, unless others wait for it: to prepare them takes longest. */
  #next() {
    for (const job of [...this.#queue]) {
      const has = job.key && this.#all.find(({ key }) => key === job.key);
      if (has && has.busy && !job.hurry) continue;
      const free = has && !has.busy ? has : this.#all.find(({ busy }) => !busy);
      if (!free) continue;
      this.#queue.splice(this.#queue.indexOf(job), 1);
      free.busy = true;
      if (job.key) free.key = job.key;
      job
        .run(free.hand)
        .then(job.resolve, (error) => job.reject(this.#ended ?? error))
        .finally(() => {
          free.busy = false;
          this.#next();
        });
    }
  }

  /** Threads end at once, and whoever waits hears why. @param {Error} [why] */
  end(why = new BqError('CLOSED', 'it was closed')) {
    this.#ended ??= why;
    this.#signal?.removeEventListener('abort', this.#abort);
    for (const { hand } of this.#all) hand.end(why);
    for (const { reject } of this.#queue.splice(0)) reject(why);
  }
}
