#!/usr/bin/env node
// Builds the shipped wasm modules. Sets up the compiler first if necessary.
import { spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { SetupError } from './setup/shell.mjs';
import { command, ROOT, setUp } from './setup/setup.mjs';

/**
 * Runs make and prints its output.
 * @param {import('./setup/setup.mjs').Tools} tools
 * @param {readonly string[]} targets of emscripten.mk
 * @returns {Promise<boolean>} whether make succeeded
 */
export function runMake(tools, targets) {
  // If this process was started by another make, the new one must not use its options and job server.
  const { MAKEFLAGS, MFLAGS, MAKELEVEL, ...env } = tools.env;
  return new Promise((resolve) => {
    const jobCount = Math.min(availableParallelism(), 8);
    const child = spawn(
      tools.make,
      ['-f', 'emscripten.mk', '-k', `-j${jobCount}`, '--no-print-directory', '--output-sync=target', '-s', ...targets],
      { cwd: ROOT, env, stdio: ['ignore', 'inherit', 'inherit'] },
    );
    child.on('error', () => resolve(false));
    child.on('close', (code) => resolve(code === 0));
  });
}

/** Builds the modules in build/wasm. Throws SetupError if this fails. @param {import('./setup/setup.mjs').Tools} tools */
export async function buildWasm(tools) {
  if (!(await runMake(tools, ['wasm'])))
    throw new SetupError('the wasm modules could not be built: the output of make above contains the reason');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await command(async () => buildWasm(await setUp()));
}
