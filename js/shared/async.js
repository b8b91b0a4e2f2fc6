/** Helpers for asynchronous work: yielding to the event loop in long work, waiting that a signal ends, and deferred promises. */

/** Milliseconds of work between two turns of the event loop. A turn may cost 0.1 ms. */
const TURN_MS = 4;

/** @type {(() => void)[]} */
const waiting = [];
/** @type {MessageChannel | undefined} */
let channel;

/** Settles after a turn of the event loop. (A nested setTimeout would add 4 ms.) @returns {Promise<void>} */
function turn() {
  if (typeof setImmediate === 'function') return new Promise((resolve) => setImmediate(resolve));
  if (!channel) {
    channel = new MessageChannel();
    channel.port1.onmessage = () => waiting.shift()?.();
  }
  const { port2 } = channel;
  return new Promise((resolve) => {
    waiting.push(resolve);
    port2.postMessage(0);
  });
}

/** Decides when long work yields to the event loop. */
export class Pace {
  #start = performance.now();

  /**
   * Yields for one turn if the work since the last turn took `ms` or more; else returns undefined, so that no await is needed.
   * @param {number} [ms]
   * @returns {Promise<void> | undefined}
   */
  pause(ms = TURN_MS) {
    if (performance.now() - this.#start < ms) return undefined;
    return turn().then(() => {
      this.#start = performance.now();
    });
  }

  /** Like `pause`, but waits for as long as the work took: half of the processor's time. @returns {Promise<void> | undefined} */
  rest() {
    const worked = performance.now() - this.#start;
    if (worked < TURN_MS) return undefined;
    return new Promise((resolve) => setTimeout(resolve, worked)).then(() => {
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
 * A controller that aborts when `signal` does, until it is released. (AbortSignal.any is missing in supported browsers.)
 * @param {AbortSignal} [signal]
 */
export function follow(signal) {
  const controller = new AbortController();
  const abort = () => controller.abort(signal?.reason);
  if (signal?.aborted) abort();
  else signal?.addEventListener('abort', abort);
  return { controller, signal: controller.signal, release: () => signal?.removeEventListener('abort', abort) };
}

/** @template T @typedef {{ promise: Promise<T>, resolve: (value: T) => void, reject: (error: unknown) => void }} Deferred */

/** A promise with the functions that settle it. (Promise.withResolvers is missing in supported browsers.) An unhandled rejection is ignored. @returns {Deferred<any>} */
export function deferred() {
  /** @type {any} */
  const result = {};
  result.promise = new Promise((resolve, reject) => Object.assign(result, { resolve, reject }));
  result.promise.catch(() => {});
  return result;
}

/** Symbol.asyncDispose, for `await using`, or a stand-in where the browser lacks it. @type {typeof Symbol.asyncDispose} */
export const asyncDispose = Symbol.asyncDispose ?? /** @type {any} */ (Symbol.for('Symbol.asyncDispose'));

/**
 * An iterator that calls `leave` when its reader leaves it, also one that was not started: a generator skips its `finally` then.
 * @template T @param {() => Promise<IteratorResult<T, void>>} next @param {() => unknown} leave @returns {AsyncGenerator<T, void>}
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
