// What a runtime takes of a machine's memory, by one definition for all of them: the proportional set size of the
// processes that this one has started (a page shared by several counts once), while it loads a model, beside before.
import { memoryOf, processTree } from './processes.mjs';

const EVERY_MS = 100;

/** Bytes of all processes below this one; NaN where the system does not tell. */
export function bytesBelow() {
  try {
    const below = [...processTree((pid) => pid === process.pid).keys()].filter((pid) => pid !== process.pid);
    return below.reduce((sum, pid) => sum + memoryOf(pid).pss, 0);
  } catch {
    return NaN;
  }
}

/**
 * The most that was seen while `work` went on, beyond `before`.
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
