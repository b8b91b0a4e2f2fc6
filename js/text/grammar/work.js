/** How much work compiling one format may take, counted in steps: the same bound on every machine, whatever its parts are. */
import { tooLarge } from './failure.js';

/** About a second of a slow machine. */
const MOST_STEPS = 6_000_000;

let steps = 0;

/** Counts steps of the format that is being compiled. GRAMMAR: they have become too many. @param {number} count @param {string} part  of the format, for the message */
export function countSteps(count, part) {
  steps += count;
  if (steps > MOST_STEPS) throw tooLarge(part);
}

/** Compiles a format with a bound of its own. @template T @param {() => T} compile  synchronous @returns {T} */
export function withStepBound(compile) {
  const before = steps;
  steps = 0;
  try {
    return compile();
  } finally {
    steps = before;
  }
}
