// Running other programs and printing progress.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** An error that the user can correct. It is printed without a stack trace. */
export class SetupError extends Error {}

/** Prints a line of progress to standard error. @param {string} text */
export function say(text) {
  process.stderr.write(`bq4: ${text}\n`);
}

/**
 * Runs `work`, and prints a line before it and another with its duration after it.
 * @template T
 * @param {string} text
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function step(text, work) {
  say(`${text} ...`);
  const start = Date.now();
  const result = await work();
  say(`${text}: done in ${((Date.now() - start) / 1000).toFixed(0)} s`);
  return result;
}

/**
 * Runs a program to its end. Rejects with a SetupError that contains the last lines of its output if it fails.
 * @param {string} file
 * @param {readonly string[]} args
 * @param {{cwd?: string, env?: NodeJS.ProcessEnv}} [options]
 * @returns {Promise<string>} its standard output
 */
export function run(file, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
    /** @type {Buffer[]} */
    const stdoutChunks = [];
    /** @type {Buffer[]} */
    const outputs = [];
    child.stdout.on('data', (bytes) => {
      stdoutChunks.push(bytes);
      outputs.push(bytes);
    });
    child.stderr.on('data', (bytes) => {
      outputs.push(bytes);
    });
    child.on('error', (error) => reject(new SetupError(`cannot run ${file}: ${error.message}`)));
    child.on('close', (code, signal) => {
      if (code === 0) return resolve(Buffer.concat(stdoutChunks).toString());
      const tail = Buffer.concat(outputs).toString().trimEnd().split('\n').slice(-20).join('\n');
      reject(new SetupError(`${file} ${args.slice(0, 3).join(' ')} ... failed (${signal ?? code}):\n${tail}`));
    });
  });
}

/**
 * Returns the standard output of a program, or undefined if the program is missing or fails.
 * @param {string} file
 * @param {readonly string[]} args
 * @param {NodeJS.ProcessEnv} [env]
 */
export function probe(file, args, env) {
  const result = spawnSync(file, args, { encoding: 'utf8', env, stdio: ['ignore', 'pipe', 'ignore'] });
  return result.status === 0 ? result.stdout : undefined;
}

/**
 * Returns the absolute path of the first of these programs that is on PATH.
 * @param {readonly string[]} names
 * @returns {string | undefined}
 */
export function findOnPath(names) {
  for (const name of names) {
    for (const folder of (process.env.PATH ?? '').split(delimiter)) {
      for (const suffix of process.platform === 'win32' ? ['.exe', '.cmd', '.bat', ''] : ['']) {
        const path = join(folder, name + suffix);
        if (folder && existsSync(path) && statSync(path).isFile()) return path;
      }
    }
  }
  return undefined;
}

/**
 * Compares dotted versions number by number.
 * @param {string} a
 * @param {string} b
 * @returns {number} negative, zero or positive
 */
export function compareVersions(a, b) {
  const [x, y] = [a, b].map((version) => version.split('.').map(Number));
  for (let i = 0; i < Math.max(x.length, y.length); i++) {
    const difference = (x[i] ?? 0) - (y[i] ?? 0);
    if (difference) return difference;
  }
  return 0;
}
