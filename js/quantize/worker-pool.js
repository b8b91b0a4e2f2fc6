/**
 * The pool of rounding workers, in threads or in this thread, and the assignment of jobs to them. Results don't depend
 * on the number of workers. Node only.
 */
import { deferred } from '../shared/async.js';
import { BqError, unpackError } from '../shared/errors.js';
import { nodeModule } from '../shared/node.js';
import { RoundingWorker } from './rounding-worker.js';
import { roundingBytes } from './rounder.js';

/** @import { Codec } from '../format/bq4/codec.js' */
/** @import { Encoder, Piece } from '../format/bq4/encode-tensor.js' */
/** @import { Deferred } from '../shared/async.js' */
/** @import { Task } from './rounding-worker.js' */
/** @import { Moments, Rounded } from './rounder.js' */

/**
 * A rounding worker in this thread or in another one.
 * @typedef {Encoder & { key: string, use: (moments: Moments) => void | Promise<void>,
 *   round: (...args: Parameters<RoundingWorker['round']>) => Rounded | Promise<Rounded>,
 *   close: (reason: Error) => void }} AnyWorker
 */
/**
 * @template T @typedef {{ key: string, bytes: number, run: (worker: AnyWorker) => Promise<T>, isUrgent?: boolean }} Job
 *   key: input whose moments it needs, or ''; bytes: size of its result; isUrgent: later jobs wait for it
 */

/** Limit of the default number of threads. */
const MAX_DEFAULT_THREADS = 8;
/** Weights of a model below which starting threads takes longer than rounding. */
const SMALL_MODEL_WEIGHTS = 1 << 22;
/** Limit of the results that wait to be taken, in bytes for each thread. */
const MAX_WAITING_BYTES = 32 << 20;

/**
 * Returns the view itself if it covers its buffer, else a copy, because postMessage would copy the entire buffer.
 * @template {Float32Array | Uint8Array} T @param {T} view @returns {T}
 */
const withOwnBuffer = (view) => (view.byteLength === view.buffer.byteLength ? view : /** @type {T} */ (view.slice()));

/** A rounding worker in another thread, which does one call at a time. @implements {AnyWorker} */
class RemoteWorker {
  #worker;
  /** The pending call. @type {Deferred<any> | null} */
  #pending = null;
  /** @type {Error | null} */
  #endReason = null;
  key = '';

  constructor() {
    const { Worker } = nodeModule('worker_threads');
    this.#worker = new Worker(new URL('./round-thread.js', import.meta.url), { execArgv: [] });
    this.#worker.on('message', (/** @type {{ result: any, error?: object }} */ { result, error }) => {
      const pending = this.#pending;
      this.#pending = null;
      if (error) pending?.reject(unpackError(error));
      else pending?.resolve(result);
    });
    const onExit = (/** @type {unknown} */ cause) =>
      this.close(new BqError('NO_WORKER', 'a rounding thread ended unexpectedly', { cause, hint: 'try --threads 1' }));
    this.#worker.on('error', onExit);
    this.#worker.on('exit', onExit);
  }

  /** Throws NOMEM, NO_WORKER. @param {Task} task */
  static async create(task) {
    const worker = new RemoteWorker();
    try {
      await worker.#call('begin', [task]);
      return worker;
    } catch (error) {
      worker.close(/** @type {Error} */ (error));
      throw error;
    }
  }

  /**
   * @param {string} call  of round-thread.js @param {any[]} args @param {ArrayBufferLike[]} [transfer]
   * @returns {Promise<any>}
   */
  async #call(call, args, transfer = []) {
    if (this.#endReason) throw this.#endReason;
    this.#pending = deferred();
    const { promise } = this.#pending;
    this.#worker.postMessage({ call, args }, transfer);
    return promise;
  }

  /** Copies the moments before it returns. @param {Moments} moments */
  async use({ key, cols, values, drift }) {
    const copies = { values: values.slice(), drift: drift?.slice() };
    const buffers = Object.values(copies).flatMap((copy) => (copy ? [copy.buffer] : []));
    await this.#call('use', [{ key, cols, ...copies }], buffers);
    this.key = key;
  }

  /** @type {AnyWorker['round']} */
  round = (type, layout, weights, rows, cols) =>
    this.#call('round', [type.id, layout, withOwnBuffer(weights), rows, cols]);
  /** @type {Encoder['encode']} */
  encode = ({ type, bytes }, to, layout, rows, cols) =>
    this.#call('encode', [{ type: type.id, bytes: withOwnBuffer(bytes) }, to.id, layout, rows, cols]);
  /** @type {Encoder['dequantize']} */
  dequantize = (type, layout, bytes, rows, cols) =>
    this.#call('dequantize', [type.id, layout, withOwnBuffer(bytes), rows, cols]);

  /** @param {Error} reason */
  close(reason) {
    if (this.#endReason) return;
    this.#endReason = reason;
    this.#pending?.reject(reason);
    void this.#worker.terminate();
  }
}

/**
 * Returns the default number of threads: one per core, as far as a quarter of the memory suffices.
 * @param {Task} task @param {number} weights
 */
export function defaultThreads({ shapes, largestPiece }, weights) {
  if (weights < SMALL_MODEL_WEIGHTS) return 1;
  const { availableParallelism, totalmem } = nodeModule('os');
  const bytes = 3 * largestPiece + (shapes.length ? roundingBytes(shapes) : 0);
  return Math.max(1, Math.min(MAX_DEFAULT_THREADS, availableParallelism(), Math.floor(totalmem() / 4 / bytes)));
}

export class WorkerPool {
  /** @type {{ worker: AnyWorker, key: string, busy: boolean }[]} */
  #workers;
  /** @type {(Job<any> & Deferred<any>)[]} */
  #queue = [];
  /** @type {Error | null} */
  #endReason = null;
  #signal;
  #abort = () => this.close(this.#signal?.reason);

  /** @param {AnyWorker[]} workers @param {AbortSignal} [signal] */
  constructor(workers, signal) {
    this.#workers = workers.map((worker) => ({ worker, key: '', busy: false }));
    this.#signal = signal;
    if (signal?.aborted) this.#abort();
    signal?.addEventListener('abort', this.#abort);
  }

  /**
   * Throws NOMEM, NO_WORKER.
   * @param {number} threads @param {Task} task @param {Codec} codec  used in this thread @param {AbortSignal} [signal]
   */
  static async create(threads, task, codec, signal) {
    if (threads < 2) return new WorkerPool([await RoundingWorker.create(task, codec)], signal);
    const results = await Promise.allSettled(Array.from({ length: threads }, () => RemoteWorker.create(task)));
    const workers = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    // If memory suffices for fewer workers, these do all jobs.
    if (!workers.length) throw /** @type {PromiseRejectedResult} */ (results[0]).reason;
    return new WorkerPool(workers, signal);
  }

  /**
   * Returns a function for each job that returns its result; the functions must be called in order. Later jobs are
   * started ahead as long as the results that wait to be taken are not too large.
   * @template T @param {Job<T>[]} jobs @returns {(() => Promise<T>)[]}
   */
  startAhead(jobs) {
    const maxBytes = this.#workers.length > 1 ? MAX_WAITING_BYTES * this.#workers.length : 0;
    /** @type {(Promise<T> | null)[]} */
    const startedJobs = [];
    let waitingBytes = 0;
    return jobs.map(({ bytes }, i) => async () => {
      while (startedJobs.length <= i || (waitingBytes < maxBytes && startedJobs.length < jobs.length)) {
        const next = jobs[startedJobs.length];
        waitingBytes += next.bytes;
        startedJobs.push(this.#start(next));
      }
      const result = await startedJobs[i];
      startedJobs[i] = null;
      waitingBytes -= bytes;
      return /** @type {T} */ (result);
    });
  }

  /** @template T @param {Job<T>} job @returns {Promise<T>} */
  #start(job) {
    const queuedJob = { ...job, .../** @type {Deferred<T>} */ (deferred()) };
    if (this.#endReason) queuedJob.reject(this.#endReason);
    else this.#queue.push(queuedJob);
    this.#assign();
    return queuedJob.promise;
  }

  /**
   * Assigns jobs to free workers in order. A job waits for the worker that has its moments, since preparing moments
   * takes longest. An urgent job does not wait: if that worker is busy, any free worker gets the job.
   */
  #assign() {
    for (const job of [...this.#queue]) {
      const preparedWorker = job.key && this.#workers.find(({ key }) => key === job.key);
      if (preparedWorker && preparedWorker.busy && !job.isUrgent) continue;
      const freeWorker =
        preparedWorker && !preparedWorker.busy ? preparedWorker : this.#workers.find(({ busy }) => !busy);
      if (!freeWorker) continue;
      this.#queue.splice(this.#queue.indexOf(job), 1);
      freeWorker.busy = true;
      if (job.key) freeWorker.key = job.key;
      job
        .run(freeWorker.worker)
        .then(job.resolve, (error) => job.reject(this.#endReason ?? error))
        .finally(() => {
          freeWorker.busy = false;
          this.#assign();
        });
    }
  }

  /** Ends all threads at once and rejects all pending jobs. @param {Error} [reason] */
  close(reason = new BqError('CLOSED', 'the worker pool was closed')) {
    this.#endReason ??= reason;
    this.#signal?.removeEventListener('abort', this.#abort);
    for (const { worker } of this.#workers) worker.close(reason);
    for (const { reject } of this.#queue.splice(0)) reject(reason);
  }
}
