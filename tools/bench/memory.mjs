// Measures the memory of a runtime, by the same definition for all of them: the increase of the proportional set size of the
// child processes of this one while it loads a model. Memory pages shared by several processes count once.
import { memoryOf, processTree } from './processes.mjs';

const EVERY_MS = 100;

/** Returns the bytes of all child processes; NaN if the system does not report them. */
export function bytesBelow() {
  try {
    const below = [...processTree((pid) => pid === process.pid).keys()].filter((pid) => pid !== process.pid);
    return below.reduce((sum, pid) => sum + memoryOf(pid).pss, 0);
  } catch {
    return NaN;
  }
}

/**
 * Runs `work` and measures the peak of memory meanwhile, minus `before`.
 * @template T
 * @param {number} before
 * @param {() => Promise<T>} work
 * @returns {Promise<{ value: T, peak: number }>}
 */
export async function watched(before, work) {
  let peak = before;
  const look = () => (peak = Math.max(peak, bytesBelow()));
  const timer = setInterval(look, EVERY_MS);
  try {
    const value = await work();
    look();
    return { value, peak: peak - before };
  } finally {
    clearInterval(timer);
  }
}
