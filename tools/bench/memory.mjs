// Measures the memory of a runtime: the increase of the proportional set size of the child processes of this process while the
// runtime loads a model. In this size, memory pages that several processes share count once.
import { memoryOf, processTree } from './processes.mjs';

/** Time between two measurements. */
const INTERVAL_MS = 100;

/** Returns the bytes of all child processes, or NaN if the system does not report them. */
export function childProcessBytes() {
  try {
    const childProcesses = [...processTree((pid) => pid === process.pid).keys()].filter((pid) => pid !== process.pid);
    return childProcesses.reduce((sum, pid) => sum + memoryOf(pid).pss, 0);
  } catch {
    return NaN;
  }
}

/**
 * Runs `work`. `peak` is the largest memory of the child processes meanwhile, minus `bytesBefore`.
 * @template T
 * @param {number} bytesBefore
 * @param {() => Promise<T>} work
 * @returns {Promise<{ value: T, peak: number }>}
 */
export async function measurePeak(bytesBefore, work) {
  let peak = bytesBefore;
  const updatePeak = () => (peak = Math.max(peak, childProcessBytes()));
  const timer = setInterval(updatePeak, INTERVAL_MS);
  try {
    const value = await work();
    updatePeak();
    return { value, peak: peak - bytesBefore };
  } finally {
    clearInterval(timer);
  }
}
