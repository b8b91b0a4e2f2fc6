// Whole numbers at random, the same from the same seed.
import { random } from './fixture.mjs';

/** @typedef {(n: number) => number} Draw  a whole number from 0 to n - 1 */

/** Whole numbers from a seed. @param {number} seed @returns {Draw} */
export function drawFrom(seed) {
  const next = random(seed);
  return (n) => Math.min(n - 1, Math.floor(((next() + 1) / 2) * n));
}
