/** Helpers for asynchronous work: yielding to the event loop, waits that a signal can end, and deferred promises. */

/** Milliseconds of work between two yields. A yield can cost 0.1 ms. */
const WORK_MS = 4;

/** Functions that resolve the promises of waiting callers, in order. @type {(() => void)[]} */
const resolvers = [];
/** @type {MessageChannel | undefined} */
let channel;

/**
 * Returns a promise that settles after a turn of the event loop. (A nested setTimeout would add 4 ms.)
 * @returns {Promise<void>}
 */
function turnOfEventLoop() {
  if (typeof setImmediate === 'function') return new Promise((resolve) => setImmediate(resolve));
  if (!channel) {
    channel = new MessageChannel();
    channel.port1.onmessage = () => resolvers.shift()?.();
  }
  const { port2 } = channel;
  return new Promise((resolve) => {
    resolvers.push(resolve);
    port2.postMessage(0);
  });
}

/** Limits the time that long work takes before it yields to the event loop. */
export class Yielder {
  #start = performance.now();

  /**
   * Yields for one turn of the event loop if the work since the last yield took `ms` or more. Otherwise returns
   * undefined, so that no await is needed.
   * @param {number} [ms]
   * @returns {Promise<void> | undefined}
   */
  yield(ms = WORK_MS) {
    if (performance.now() - this.#start < ms) return undefined;
    return turnOfEventLoop().then(() => {
      this.#start = performance.now();
    });
  }

  /**
   * Waits for as long as the work since the last yield took, so that half of the processor's time is used.
   * @returns {Promise<void> | undefined}
   */
  rest() {
    const elapsedMs = performance.now() - this.#start;
    if (elapsedMs < WORK_MS) return undefined;
    return new Promise((resolve) => setTimeout(resolve, elapsedMs)).then(() => {
      this.#start = performance.now();
    });
  }
}

/**
 * Waits for a promise; rejects with the signal's reason if the signal aborts first.
 * @template T
 * @param {Promise<T>} promise
 * @param {AbortSignal} [signal]
 * @returns {Promise<T>}
 */
export function unlessAborted(promise, signal) {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort);
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

/**
 * Creates a controller that aborts when `signal` aborts, until it is released. (Some supported browsers lack
 * AbortSignal.any.)
 * @param {AbortSignal} [signal]
 */
export function follow(signal) {
  const controller = new AbortController();
  const abort = () => controller.abort(signal?.reason);
  if (signal?.aborted) abort();
  else signal?.addEventListener('abort', abort);
  return { controller, signal: controller.signal, release: () => signal?.removeEventListener('abort', abort) };
}

/**
 * @template T
 * @typedef {{ promise: Promise<T>, resolve: (value: T) => void, reject: (error: unknown) => void }} Deferred
 */

/**
 * Creates a promise with the functions that settle it. An unhandled rejection is ignored. (Some supported browsers lack
 * Promise.withResolvers.)
 * @returns {Deferred<any>}
 */
export function deferred() {
  /** @type {any} */
  const result = {};
  result.promise = new Promise((resolve, reject) => Object.assign(result, { resolve, reject }));
  result.promise.catch(() => {});
  return result;
}

/**
 * Symbol.asyncDispose, for `await using`, or a substitute if the browser lacks it.
 * @type {typeof Symbol.asyncDispose}
 */
export const asyncDispose = Symbol.asyncDispose ?? /** @type {any} */ (Symbol.for('Symbol.asyncDispose'));

/**
 * Creates an iterator that calls `leave` when its reader stops early, even before the first part. (A generator that was
 * not started would skip its `finally`.)
 * @template T
 * @param {() => Promise<IteratorResult<T, void>>} next
 * @param {() => unknown} leave
 * @returns {AsyncGenerator<T, void>}
 */
export function iterate(next, leave) {
  /** @type {any} */
  const parts = {
    next,
    return: async (/** @type {any} */ value) => (await leave(), { done: true, value }),
    async throw(/** @type {unknown} */ error) {
      await leave();
      throw error;
    },
    [Symbol.asyncIterator]: () => parts,
    [asyncDispose]: leave,
  };
  return parts;
}
