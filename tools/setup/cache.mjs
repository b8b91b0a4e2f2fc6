// The cache folder outside the checkout, with toolchains, Python packages and models. Several clones share it.
import { mkdirSync, openSync, closeSync, readFileSync, renameSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { say } from './shell.mjs';

/** Returns the path of the cache folder: `BQ4_CACHE`, by default bq4/ in the user's cache folder. */
export function cacheRoot() {
  if (process.env.BQ4_CACHE) return process.env.BQ4_CACHE;
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'bq4');
}

/**
 * Writes a file atomically: other processes find the complete file or none.
 * @param {string} path
 * @param {string} text
 */
export function writeAtomically(path, text) {
  const partialPath = `${path}.${process.pid}.part`;
  writeFileSync(partialPath, text);
  renameSync(partialPath, path);
}

/** Whether a process is running. @param {number} pid */
function isRunning(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === 'EPERM';
  }
}

/**
 * Runs `work` while it holds a lock file. Processes of this machine with the same name wait for each other. The lock of a
 * process that has ended is removed.
 * @template T
 * @param {string} name
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withLock(name, work) {
  mkdirSync(cacheRoot(), { recursive: true });
  const path = join(cacheRoot(), `${name}.lock`);
  for (let attempts = 0; ; attempts++) {
    try {
      const file = openSync(path, 'wx');
      writeSync(file, String(process.pid));
      closeSync(file);
      break;
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EEXIST') throw error;
    }
    const owner = readOwner(path);
    // The lock file is empty if its process has not yet written its id, or ended before doing so.
    if (owner === undefined || (owner === 0 && attempts < 10) || (owner > 0 && isRunning(owner))) {
      if (attempts === 0 && owner) say(`waiting for another set-up (process ${owner}) to finish`);
      await sleep(200);
    } else {
      rmSync(path, { force: true });
    }
  }
  try {
    return await work();
  } finally {
    rmSync(path, { force: true });
  }
}

/**
 * Reads the owner of a lock file.
 * @param {string} path
 * @returns {number | undefined}  process id; 0 if the file is empty, undefined if it doesn't exist
 */
function readOwner(path) {
  try {
    return Number(readFileSync(path, 'utf8')) || 0;
  } catch {
    return undefined;
  }
}
