// Reads the processes of this machine from /proc.
import { readdirSync, readFileSync } from 'node:fs';

/** @typedef {{ parent: number, command: string, cpu: number }} Process  cpu: milliseconds */

/** @param {number} pid @param {string} file */
const read = (pid, file) => readFileSync(`/proc/${pid}/${file}`, 'utf8');

/**
 * Returns the processes for which `ours` returns true, and all their descendants. Throws if there is no /proc.
 * @param {(pid: number, command: string) => boolean} ours
 * @returns {Map<number, Process>}
 */
export function processTree(ours) {
  /** @type {Map<number, Process>} */
  const all = new Map();
  for (const pid of readdirSync('/proc').map(Number).filter(Boolean)) {
    try {
      // The text before is the program's name in brackets, which may contain any characters.
      const fields = read(pid, 'stat').split(') ').at(-1)?.split(' ') ?? [];
      all.set(pid, {
        parent: Number(fields[1]),
        command: read(pid, 'cmdline'),
        cpu: 10 * (Number(fields[11]) + Number(fields[12])),
      });
    } catch {
      // It has ended meanwhile.
    }
  }
  const among = (/** @type {number} */ pid) => {
    for (let at = pid, process; (process = all.get(at)); at = process.parent)
      if (ours(at, process.command)) return true;
    return false;
  };
  return new Map([...all].filter(([pid]) => among(pid)));
}

/** Returns memory in bytes; 0 if the process has ended. `pss` counts shared memory once, and is slow to read. @param {number} pid @returns {{ rss: number, pss: number }} */
export function memoryOf(pid) {
  let text = '';
  try {
    text = read(pid, 'smaps_rollup');
  } catch {
    // It has ended meanwhile.
  }
  const bytes = (/** @type {string} */ name) =>
    1024 * Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0);
  return { rss: bytes('Rss'), pss: bytes('Pss') };
}
