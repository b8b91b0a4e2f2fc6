// The folder outside the checkout that several clones share: toolchains and Python packages.
import { mkdirSync, openSync, closeSync, readFileSync, renameSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { say } from './shell.mjs';

/** BQ4_CACHE, else bq4/ in the user's cache folder. */
export function cacheRoot() {
  if (process.env.BQ4_CACHE) return process.env.BQ4_CACHE;
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'bq4');
}

/**
 * Writes a file so that it is seen whole or not at all.
 * @param {string} path
 * @param {string} text
 */
export function writeWhole(path, text) {
  const part = `${path}.${process.pid}.part`;
  writeFileSync(part, text);
  renameSync(part, path);
}

/** @param {number} pid */
function alive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === 'EPERM';
  }
}

/**
 * Runs `work` while no other process on this machine runs work of that name. The lock of a process
 * that is gone is taken over.
 * @template T
 * @param {string} name
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withLock(name, work) {
  mkdirSync(cacheRoot(), { recursive: true });
  const path = join(cacheRoot(), `${name}.lock`);
  for (let waited = 0; ; waited++) {
    try {
      const file = openSync(path, 'wx');
      writeSync(file, String(process.pid));
      closeSync(file);
      break;
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EEXIST') throw error;
    }
    const owner = readOwner(path);
    // An empty lock belongs to a process between open and write, or one that died there.
    if (owner === undefined || (owner === 0 && waited < 10) || (owner > 0 && alive(owner))) {
      if (waited === 0 && owner) say(`waiting for another set-up (process ${owner}) to finish`);
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
 * @param {string} path
 * @returns {number | undefined} the process that holds the lock, 0 when it says none, undefined when it is gone
 */
function readOwner(path) {
  try {
    return Number(readFileSync(path, 'utf8')) || 0;
  } catch {
    return undefined;
  }
}
