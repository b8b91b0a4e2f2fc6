/** Limits the work of compiling a format. It is counted in steps, so that the limit is the same on every machine. */
import { tooLarge } from './failure.js';

/** Maximum number of steps: about a second on a slow machine. */
const MAX_STEPS = 6_000_000;

let steps = 0;

/** Counts steps of the format that is being compiled. GRAMMAR: there are too many. @param {number} count @param {string} part  subject of the message */
export function countSteps(count, part) {
  steps += count;
  if (steps > MAX_STEPS) throw tooLarge(part);
}

/** Compiles a format with a limit of its own. @template T @param {() => T} compile  synchronous @returns {T} */
export function withStepBound(compile) {
  const before = steps;
  steps = 0;
  try {
    return compile();
  } finally {
    steps = before;
  }
}
