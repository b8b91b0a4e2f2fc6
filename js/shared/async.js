/** Long work that lets others in: turns of the event loop, and signals that end waiting. */

/** Milliseconds of work between turns, which may cost 0.1 ms each. */
const TURN_MS = 4;

/** @type {(() => void)[]} */
const waiting = [];
/** @type {MessageChannel | undefined} */
let channel;

/** A whole turn of the event loop, without the 4 ms that nested timers cost. @returns {Promise<void>} */
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

/** Says when it is time for a turn. */
export class Pace {
  #since = performance.now();

  /**
   * Nothing (no promise, no cost) unless so much work was done since the last turn.
   * @param {number} [ms]
   * @returns {Promise<void> | undefined}
   */
  pause(ms = TURN_MS) {
    if (performance.now() - this.#since < ms) return undefined;
    return turn().then(() => {
      this.#since = performance.now();
    });
  }

  /** As `pause`, for as long as was worked. @returns {Promise<void> | undefined} */
  rest() {
    const worked = performance.now() - this.#since;
    if (worked < TURN_MS) return undefined;
    return new Promise((resolve) => setTimeout(resolve, worked)).then(() => {
      this.#since = performance.now();
    });
  }
}

/**
 * Waits for a promise, or throws the signal's reason.
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
 * A controller that aborts with `signal`, until it is released. (AbortSignal.any is too new for us.)
 * @param {AbortSignal} [signal]
 */
export function follow(signal) {
  const controller = new AbortController();
  const abort = () => controller.abort(signal?.reason);
  if (signal?.aborted) abort();
  else signal?.addEventListener('abort', abort);
  return { controller, signal: controller.signal, release: () => signal?.removeEventListener('abort', abort) };
}

/** @template T @typedef {{ promise: Promise<T>, resolve: (value: T) => void, reject: (error: unknown) => void }} Gate */

/** Promise.withResolvers, which is too new for us; nobody has to wait for it. @returns {Gate<any>} */
export function gate() {
  /** @type {any} */
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  made.promise.catch(() => {});
  return made;
}

/** For `await using`, where the browser knows it. @type {typeof Symbol.asyncDispose} */
export const asyncDispose = Symbol.asyncDispose ?? /** @type {any} */ (Symbol.for('Symbol.asyncDispose'));
