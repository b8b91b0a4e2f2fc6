// Runs a test program, and returns its output and its CPU time.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Shell script: runs the command in its arguments and writes the CPU times of all its processes to the file `$0`. */
const TIMING_SCRIPT = 'times="$0"; "$@"; status=$?; times >"$times"; exit $status';

/** Ids of running process groups. They are killed when this process exits. @type {Set<number>} */
const groups = new Set();

/** Ends all processes of a group. @param {number | undefined} pid */
function killGroup(pid) {
  if (!pid) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The group has already ended.
  }
}

process.on('exit', () => groups.forEach(killGroup));
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) process.on(signal, () => process.exit(1));

/**
 * Returns the CPU seconds of a program and its children, on all cores.
 * @param {string} file  output of the shell's `times`
 */
function cpuSeconds(file) {
  try {
    const children = readFileSync(file, 'utf8').trim().split('\n')[1];
    const times = [...children.matchAll(/(\d+)m([\d.]+)s/g)].map(
      ([, minutes, seconds]) => 60 * Number(minutes) + Number(seconds),
    );
    return times.reduce((sum, time) => sum + time, 0);
  } catch {
    return 0; // The program was killed before the file was written.
  }
}

/**
 * @typedef {object} Outcome
 * @property {number | string} status  exit status; or the signal, error or time limit that ended the program
 * @property {string} output
 * @property {number} wall  seconds
 * @property {number} cpu   CPU seconds of all its processes; 0 if unknown, since it was killed
 */

/**
 * Runs a program to its end.
 * @param {readonly string[]} line  the program and its arguments
 * @param {{cwd: string, env: NodeJS.ProcessEnv, seconds: number, show?: boolean, silence?: number}} options
 *   seconds: time limit, after which the program is killed; silence: time limit in seconds without any output;
 *   show: whether its output is also printed at once
 * @returns {Promise<Outcome>}
 */
export function runProgram(line, { cwd, env, seconds, show = false, silence = seconds }) {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-test-'));
  const times = join(folder, 'times');
  const startTime = Date.now();
  return new Promise((resolve) => {
    // The program gets its own process group, so that all its children can be killed with it.
    const child = spawn('sh', ['-c', TIMING_SCRIPT, times, ...line], {
      cwd,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    if (child.pid) groups.add(child.pid);
    /** @type {Buffer[]} */
    const chunks = [];
    let killReason = '';
    const killAfter = (/** @type {number} */ limitSeconds, /** @type {string} */ condition) =>
      setTimeout(() => {
        killReason = `a kill after ${limitSeconds} s${condition}`;
        killGroup(child.pid);
      }, limitSeconds * 1000);
    const totalTimer = killAfter(seconds, '');
    const silenceTimer = killAfter(silence, ' without output');
    const end = (/** @type {number | string} */ status) => {
      for (const timer of [totalTimer, silenceTimer]) clearTimeout(timer);
      killGroup(child.pid);
      if (child.pid) groups.delete(child.pid);
      const cpu = cpuSeconds(times);
      rmSync(folder, { recursive: true, force: true });
      resolve({ status, output: Buffer.concat(chunks).toString(), wall: (Date.now() - startTime) / 1000, cpu });
    };
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (bytes) => {
        chunks.push(bytes);
        silenceTimer.refresh();
        if (show) process.stdout.write(bytes);
      });
    }
    child.on('error', (error) => end(error.message));
    // The program has exited, but one of its children may keep its output open.
    child.on('exit', () => setTimeout(killGroup, 2000, child.pid).unref());
    child.on('close', (code, signal) => end(killReason || (code ?? signal ?? 'unknown')));
  });
}
