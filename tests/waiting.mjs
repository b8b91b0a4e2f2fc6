// Waiting in tests, in Node and in pages. Every wait has the same time limit. The error of a wait that reached it names the condition
// and the state at that time.

/** Time limit of a single wait, in seconds; enough for a busy machine. */
export const TIMEOUT_SECONDS = 60;
/** Time limit of the `state` callback that describes the state for an error, in seconds. */
const STATE_TIMEOUT_SECONDS = 5;

/** A wait reached its time limit. */
export class Late extends Error {}

/** Resolves to `value` after `ms` milliseconds. @template T @param {number} ms @param {T} [value] @returns {Promise<T>} */
const sleep = (ms, value) => new Promise((resolve) => setTimeout(resolve, ms, value));

/** The error of a wait. @param {string} what @param {number} seconds @param {(() => unknown) | undefined} state @returns {Promise<Late>} */
async function timeoutError(what, seconds, state) {
  const value = await Promise.race([
    Promise.resolve().then(state),
    sleep(1000 * STATE_TIMEOUT_SECONDS, 'no answer'),
  ]).catch(String);
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return new Late(`expected ${what} within ${seconds} s${value === undefined ? '' : `, found ${text}`}`);
}

/**
 * The promise with a time limit: rejects with `Late` when it has not settled in time.
 * @template T
 * @param {string} what  the awaited result, a noun for the error
 * @param {PromiseLike<T>} promise
 * @param {{ seconds?: number, state?: () => unknown }} [options]  `seconds`: another limit, for clean-up or for many waits in one;
 *   `state`: returns a description of the state for the error
 * @returns {Promise<T>}
 */
export function inTime(what, promise, { seconds = TIMEOUT_SECONDS, state } = {}) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => timeoutError(what, seconds, state).then(reject), 1000 * seconds);
    Promise.resolve(promise)
      .then(resolve, reject)
      .finally(() => clearTimeout(timer));
  });
}

/**
 * Polls a condition until it is true.
 * @template T
 * @param {string} what  the condition, a noun for the error
 * @param {() => T | Promise<T>} poll  returns a true value when the condition holds
 * @param {{ every?: number, state?: () => unknown }} [options]  `every`: milliseconds between two polls; `state`: as for `inTime`
 * @returns {Promise<T>}  the last value of `poll`
 */
export async function until(what, poll, { every = 10, state } = {}) {
  // Date.now() is used, since tests replace other clocks.
  for (const start = Date.now(); ; await sleep(every)) {
    const value = await inTime(what, Promise.resolve(poll()), { state });
    if (value) return value;
    if (Date.now() - start > 1000 * TIMEOUT_SECONDS) throw await timeoutError(what, TIMEOUT_SECONDS, state);
  }
}

/** A deferred promise, for which code under test waits until the test calls `release`.
 * @template [T=void] @returns {{ promise: Promise<T>, release: (value: T) => void }} */
export function barrier() {
  /** @type {(value: any) => void} */
  let release = () => {};
  /** @type {Promise<any>} */
  const promise = new Promise((resolve) => (release = resolve));
  return { promise, release };
}
