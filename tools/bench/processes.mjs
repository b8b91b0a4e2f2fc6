// Reads the processes of this machine from /proc.
import { readdirSync, readFileSync } from 'node:fs';

/** @typedef {{ parent: number, command: string, cpu: number }} Process  cpu: milliseconds */

/** Reads a file of a process. @param {number} pid @param {string} file */
const readFile = (pid, file) => readFileSync(`/proc/${pid}/${file}`, 'utf8');

/**
 * Returns the processes for which `isRoot` returns true, and all their descendants. Throws if there is no /proc.
 * @param {(pid: number, command: string) => boolean} isRoot
 * @returns {Map<number, Process>}
 */
export function processTree(isRoot) {
  /** @type {Map<number, Process>} */
  const processes = new Map();
  for (const pid of readdirSync('/proc').map(Number).filter(Boolean)) {
    try {
      // Before the last bracket there is the program's name, which may contain any characters.
      const fields = readFile(pid, 'stat').split(') ').at(-1)?.split(' ') ?? [];
      processes.set(pid, {
        parent: Number(fields[1]),
        command: readFile(pid, 'cmdline'),
        cpu: 10 * (Number(fields[11]) + Number(fields[12])),
      });
    } catch {
      // The process has ended meanwhile.
    }
  }
  const isInTree = (/** @type {number} */ pid) => {
    for (let ancestor = pid, process; (process = processes.get(ancestor)); ancestor = process.parent)
      if (isRoot(ancestor, process.command)) return true;
    return false;
  };
  return new Map([...processes].filter(([pid]) => isInTree(pid)));
}

/** Returns the memory of a process in bytes, or 0 if it has ended. `pss` counts shared memory once; the system computes it slowly. @param {number} pid @returns {{ rss: number, pss: number }} */
export function memoryOf(pid) {
  let text = '';
  try {
    text = readFile(pid, 'smaps_rollup');
  } catch {
    // The process has ended meanwhile.
  }
  const bytes = (/** @type {string} */ name) =>
    1024 * Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0);
  return { rss: bytes('Rss'), pss: bytes('Pss') };
}
