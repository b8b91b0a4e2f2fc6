// Waiting in tests, in Node and in pages: nothing for ever, all for as long, and a test that waited in vain says for what, and what
// was there instead.

/** Seconds that a single wait may take, also on a busy machine. */
export const TIMEOUT_MS = 60;
/** Seconds in which what was waited for in vain may say what there is instead. */
const ANSWER = 5;

/** A test waited in vain. */
export class Late extends Error {}

/** @template T @param {number} ms @param {T} [value] @returns {Promise<T>} */
const sleep = (ms, value) => new Promise((resolve) => setTimeout(resolve, ms, value));

/** @param {string} what @param {number} seconds @param {(() => unknown) | undefined} state */
async function late(what, seconds, state) {
  const seen = await Promise.race([Promise.resolve().then(state), sleep(1000 * ANSWER, 'no answer')]).catch(String);
  return new Late(
    `waited ${seconds} s in vain for ${what}${seen === undefined ? '' : `; there is ${typeof seen === 'string' ? seen : JSON.stringify(seen)}`}`,
  );
}

/**
 * @template T
 * @param {string} what  that is waited for, for the error
 * @param {PromiseLike<T>} promise
 * @param {{ seconds?: number, state?: () => unknown }} [options]  `seconds`: only for what ends anyway, or consists of many waits;
 *   `state`: what there is instead, also for the error
 * @returns {Promise<T>}
 */
export function inTime(what, promise, { seconds = TIMEOUT_MS, state } = {}) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => late(what, seconds, state).then(reject), 1000 * seconds);
    Promise.resolve(promise)
      .then(resolve, reject)
      .finally(() => clearTimeout(timer));
  });
}

/**
 * Looks until something is true.
 * @template T
 * @param {string} what  for the error
 * @param {() => T | Promise<T>} look
 * @param {{ every?: number, state?: () => unknown }} [options]  `every`: milliseconds between two looks
 * @returns {Promise<T>}  what the last look has found
 */
export async function until(what, look, { every = 10, state } = {}) {
  // By a clock that no test sets.
  for (const start = Date.now(); ; await sleep(every)) {
    const found = await inTime(what, Promise.resolve(look()), { state });
    if (found) return found;
    if (Date.now() - start > 1000 * TIMEOUT_MS) throw await late(what, TIMEOUT_MS, state);
  }
}

/** A promise and what settles it: a barrier. @template [T=void] @returns {{ promise: Promise<T>, release: (value: T) => void }} */
export function barrier() {
  /** @type {(value: any) => void} */
  let release = () => {};
  /** @type {Promise<any>} */
  const promise = new Promise((resolve) => (release = resolve));
  return { promise, release };
}
