// Reproducible random integers.
import { random } from './fixture.mjs';

/** @typedef {(n: number) => number} Draw  returns a random integer from 0 to n - 1 */

/** A generator of random integers. @param {number} seed @returns {Draw} */
export function drawFrom(seed) {
  const next = random(seed);
  return (n) => Math.min(n - 1, Math.floor(((next() + 1) / 2) * n));
}
