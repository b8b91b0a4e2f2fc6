/** Limits the work of compiling a format. Work is counted in steps, so that the limit is the same on every machine. */
import { tooLargeError } from './failure.js';

/** Maximum number of steps: about a second on a slow machine. */
const MAX_STEPS = 6_000_000;

let steps = 0;

/**
 * Adds to the steps of the current compilation. Throws GRAMMAR beyond the limit.
 * @param {number} count @param {string} subject  of the message
 */
export function countSteps(count, subject) {
  steps += count;
  if (steps > MAX_STEPS) throw tooLargeError(subject);
}

/** Runs a compilation with its own count of steps. @template T @param {() => T} compile  synchronous @returns {T} */
export function withStepBound(compile) {
  const before = steps;
  steps = 0;
  try {
    return compile();
  } finally {
    steps = before;
  }
}
