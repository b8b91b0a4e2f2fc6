// The processes of this machine, as /proc tells of them.
import { readdirSync, readFileSync } from 'node:fs';

/** @typedef {{ parent: number, command: string, cpu: number }} Process  cpu: milliseconds */

/** @param {number} pid @param {string} file */
const read = (pid, file) => readFileSync(`/proc/${pid}/${file}`, 'utf8');

/**
 * Those that `ours` is true of, and all below them. Throws where there is no /proc.
 * @param {(pid: number, command: string) => boolean} ours
 * @returns {Map<number, Process>}
 */
export function processTree(ours) {
  /** @type {Map<number, Process>} */
  const all = new Map();
  for (const pid of readdirSync('/proc').map(Number).filter(Boolean)) {
    try {
      // What comes before is the program's name in brackets, whatever is in it.
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

/** Bytes; `pss` counts what processes share once, and takes a while to get. 0 if it has ended. @param {number} pid @returns {{ rss: number, pss: number }} */
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
