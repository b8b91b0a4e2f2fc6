// Runs a test program, keeping what it prints.
import { spawn } from 'node:child_process';

/**
 * @param {readonly string[]} line the program and its arguments
 * @param {{cwd: string, env: NodeJS.ProcessEnv, seconds: number, show?: boolean, silence?: number}} options
 *   seconds: killed after that long; silence: or after so many without output; show: print its output as it comes
 * @returns {Promise<{status: number | string, output: string}>} status 0, or what it ended with
 */
export function runProgram([file, ...args], { cwd, env, seconds, show = false, silence = seconds }) {
  return new Promise((resolve) => {
    const child = spawn(file, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    /** @type {Buffer[]} */
    const chunks = [];
    let late = '';
    const killAfter = (/** @type {number} */ seconds, /** @type {string} */ what) =>
      setTimeout(() => {
        late = `a kill after ${seconds} s${what}`;
        child.kill('SIGKILL');
      }, seconds * 1000);
    const timer = killAfter(seconds, '');
    const quiet = killAfter(silence, ' without output');
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (bytes) => {
        chunks.push(bytes);
        quiet.refresh();
        if (show) process.stdout.write(bytes);
      });
    }
    child.on('error', (error) => {
      for (const one of [timer, quiet]) clearTimeout(one);
      resolve({ status: error.message, output: '' });
    });
    child.on('close', (code, signal) => {
      for (const one of [timer, quiet]) clearTimeout(one);
      const status = late || (code ?? signal ?? 'unknown');
      resolve({ status, output: Buffer.concat(chunks).toString() });
    });
  });
}
