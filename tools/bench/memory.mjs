// What a runtime takes of a machine's memory, by one definition for all of them: the proportional set size of the
// processes that this one has started (a page shared by several counts once), while it loads a model, beside before.
import { readdirSync, readFileSync } from 'node:fs';

const EVERY_MS = 100;

/** Bytes of all processes below this one; NaN where the system does not tell. */
export function bytesBelow() {
  try {
    /** @type {Map<number, number>} */
    const parents = new Map();
    for (const pid of readdirSync('/proc').map(Number).filter(Boolean)) {
      try {
        parents.set(pid, Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ')[1]));
      } catch { /* it has ended meanwhile */ }
    }
    const below = (/** @type {number | undefined} */ pid) => {
      for (let at = pid && parents.get(pid); at; at = parents.get(at)) if (at === process.pid) return true;
      return false;
    };
    return [...parents.keys()].filter(below).reduce((sum, pid) => sum + proportional(pid), 0);
  } catch {
    return NaN;
  }
}

/** @param {number} pid */
function proportional(pid) {
  try {
    return 1024 * Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0; // it has ended meanwhile
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
