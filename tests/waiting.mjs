// Waiting in tests: nothing for ever, and who waited in vain says for what, and what was there instead.
import { setTimeout as sleep } from 'node:timers/promises';

/** Seconds that a single wait may take, also on a busy machine. */
export const PATIENCE = 60;

/** Somebody waited in vain. */
export class Late extends Error {}

/** @param {string} what @param {number} seconds @param {(() => unknown) | undefined} state */
async function late(what, seconds, state) {
  const seen = await Promise.race([Promise.resolve().then(state), sleep(5000, 'nobody can say')]).catch(String);
  return new Late(
    `waited ${seconds} s in vain for ${what}${seen === undefined ? '' : `; there is ${typeof seen === 'string' ? seen : JSON.stringify(seen)}`}`,
  );
}

/**
 * @template T
 * @param {string} what  that is waited for, for the error
 * @param {PromiseLike<T>} promise
 * @param {{ seconds?: number, state?: () => unknown }} [options]  `state`: what there is instead, also for the error
 * @returns {Promise<T>}
 */
export function inTime(what, promise, { seconds = PATIENCE, state } = {}) {
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
 * @param {{ seconds?: number, every?: number, state?: () => unknown }} [options]  `every`: milliseconds between two looks
 * @returns {Promise<T>}  what the last look has found
 */
export async function until(what, look, { seconds = PATIENCE, every = 10, state } = {}) {
  for (const start = Date.now(); ; await sleep(every)) {
    const found = await inTime(what, Promise.resolve(look()), { seconds, state });
    if (found) return found;
    if (Date.now() - start > 1000 * seconds) throw await late(what, seconds, state);
  }
}
