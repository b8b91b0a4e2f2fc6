/** The folder of a model: a folder on disk, a repository on a hub, or files that a user picked in the browser. */
import { BqError, onDemand } from '../shared/errors.js';
import { nodeModule } from '../shared/node.js';
import { readRange } from '../storage/sources/read.js';

/** @import { ByteSource } from '../storage/sources/types.js' */

/**
 * @typedef {object} Folder
 * @property {string} path     name of the folder in messages
 * @property {string[]} names  names of its files
 * @property {(name: string) => boolean} has  whether the folder has a file; a file in a subfolder is "a/b"
 * @property {(name: string) => Promise<ByteSource>} open
 * @property {(names: string[]) => string} stamp  returns a string that identifies the version of these files
 */

/** Returns a string that identifies the version of a file, by its size and time. @param {string} path */
export function stampOf(path) {
  const { size, mtimeMs } = nodeModule('fs').statSync(path);
  return `${path} ${size} ${mtimeMs}`;
}

/** Opens a folder on disk (Node only). @param {string} path @returns {Promise<Folder>} */
export async function diskFolder(path) {
  const { existsSync, readdirSync } = await nodeModule('fs');
  const { join } = await nodeModule('path');
  return {
    path,
    names: readdirSync(path),
    has: (name) => existsSync(join(path, name)),
    open: async (name) => (await onDemand(import('../storage/sources/file.js'))).openFile(join(path, name)),
    stamp: (files) => files.map((name) => stampOf(join(path, name))).join(),
  };
}

/** @param {Folder} folder @param {string} name @returns {Promise<Uint8Array>} */
export async function readBytes(folder, name) {
  const file = await folder.open(name);
  try {
    return await readRange(file, 0, Infinity);
  } finally {
    await file.close();
  }
}

/** @param {Folder} folder @param {string} name */
export const readText = async (folder, name) => new TextDecoder().decode(await readBytes(folder, name));

/**
 * Converts the JSON that Python writes to standard JSON: Infinity (as in time_step_limit of Mamba-2) becomes 1e999,
 * which parses as Infinity; NaN becomes null.
 * @param {string} text
 */
const withoutSpecialNumbers = (text) =>
  text.replace(/"(?:[^"\\]|\\.)*"|(-?)Infinity|NaN/gs, (all, sign) =>
    all.startsWith('"') ? all : all === 'NaN' ? 'null' : `${sign}1e999`,
  );

/**
 * Reads a JSON object; null if there is no such file. Throws FORMAT.
 * @param {Folder} folder @param {string} name @returns {Promise<Record<string, any> | null>}
 */
export async function readJson(folder, name) {
  if (!folder.has(name)) return null;
  const text = await readText(folder, name);
  try {
    const value = JSON.parse(withoutSpecialNumbers(text));
    if (value === null || typeof value !== 'object') throw new Error('expected an object');
    return value;
  } catch (cause) {
    throw new BqError('FORMAT', `${folder.path}/${name} is not valid JSON: ${/** @type {Error} */ (cause).message}`, {
      cause,
    });
  }
}

/** Like readJson, for the path of a file on disk (Node only). @param {string} path */
export async function readJsonFile(path) {
  const { existsSync } = await nodeModule('fs');
  const { basename, dirname } = await nodeModule('path');
  return existsSync(path) ? readJson(await diskFolder(dirname(path)), basename(path)) : null;
}
