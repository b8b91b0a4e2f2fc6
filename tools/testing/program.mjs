// Runs a test program, keeping what it prints.
import { spawn } from 'node:child_process';

/**
 * @param {readonly string[]} line the program and its arguments
 * @param {{cwd: string, env: NodeJS.ProcessEnv, seconds: number, show?: boolean}} options
 *   seconds: killed after that long; show: print its output as it comes
 * @returns {Promise<{status: number | string, output: string}>} status 0, or what it ended with
 */
export function runProgram([file, ...args], { cwd, env, seconds, show = false }) {
  return new Promise((resolve) => {
    const child = spawn(file, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    /** @type {Buffer[]} */
    const chunks = [];
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      child.kill('SIGKILL');
    }, seconds * 1000);
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (bytes) => {
        chunks.push(bytes);
        if (show) process.stdout.write(bytes);
      });
    }
    child.on('error', (error) => {
      clearTimeout(timer);
      resolve({ status: error.message, output: '' });
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      const status = late ? `a kill after ${seconds} s` : (code ?? signal ?? 'unknown');
      resolve({ status, output: Buffer.concat(chunks).toString() });
    });
  });
}
