// Runs a test program, keeping what it prints and how much of a core it took.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Runs the program that follows, and writes the times of all its processes to the file named first. */
const TIMED = 'times="$0"; "$@"; status=$?; times >"$times"; exit $status';

/** Process groups that run. Each is ended with this process. @type {Set<number>} */
const groups = new Set();

/** Ends all processes of a group. @param {number | undefined} pid */
function killGroup(pid) {
  if (!pid) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

process.on('exit', () => groups.forEach(killGroup));
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) process.on(signal, () => process.exit(1));

/** Seconds of all cores that a program and its children took, of what the shell's `times` prints. @param {string} file */
function cpuSeconds(file) {
  try {
    const children = readFileSync(file, 'utf8').trim().split('\n')[1];
    const times = [...children.matchAll(/(\d+)m([\d.]+)s/g)].map(
      ([, minutes, seconds]) => 60 * Number(minutes) + Number(seconds),
    );
    return times.reduce((sum, time) => sum + time, 0);
  } catch {
    return 0; // it was killed
  }
}

/**
 * @typedef {object} Outcome
 * @property {number | string} status  0, or what it ended with
 * @property {string} output
 * @property {number} wall  seconds
 * @property {number} cpu   seconds of all its processes; 0: unknown, since it was killed
 */

/**
 * @param {readonly string[]} line the program and its arguments
 * @param {{cwd: string, env: NodeJS.ProcessEnv, seconds: number, show?: boolean, silence?: number}} options
 *   seconds: killed after that long; silence: or after so many without output; show: print its output as it comes
 * @returns {Promise<Outcome>}
 */
export function runProgram(line, { cwd, env, seconds, show = false, silence = seconds }) {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-test-'));
  const times = join(folder, 'times');
  const startTime = Date.now();
  return new Promise((resolve) => {
    // In a process group of its own, so that nothing of it outlives it.
    const child = spawn('sh', ['-c', TIMED, times, ...line], {
      cwd,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    if (child.pid) groups.add(child.pid);
    /** @type {Buffer[]} */
    const chunks = [];
    let late = '';
    const killAfter = (/** @type {number} */ seconds, /** @type {string} */ what) =>
      setTimeout(() => {
        late = `a kill after ${seconds} s${what}`;
        killGroup(child.pid);
      }, seconds * 1000);
    const timer = killAfter(seconds, '');
    const quiet = killAfter(silence, ' without output');
    const end = (/** @type {number | string} */ status) => {
      for (const one of [timer, quiet]) clearTimeout(one);
      killGroup(child.pid);
      if (child.pid) groups.delete(child.pid);
      const cpu = cpuSeconds(times);
      rmSync(folder, { recursive: true, force: true });
      resolve({ status, output: Buffer.concat(chunks).toString(), wall: (Date.now() - startTime) / 1000, cpu });
    };
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (bytes) => {
        chunks.push(bytes);
        quiet.refresh();
        if (show) process.stdout.write(bytes);
      });
    }
    child.on('error', (error) => end(error.message));
    // A child that it left behind may keep its output open: the program itself has ended.
    child.on('exit', () => setTimeout(killGroup, 2000, child.pid).unref());
    child.on('close', (code, signal) => end(late || (code ?? signal ?? 'unknown')));
  });
}
