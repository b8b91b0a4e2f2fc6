/** The files of a model as people have them: a folder of a disk, of a hub, or files that somebody chose. */
import { BqError, onDemand } from '../shared/errors.js';
import { nodeModule } from '../shared/node.js';
import { readRange } from '../storage/sources/read.js';

/** @import { ByteSource } from '../storage/sources/types.js' */

/**
 * @typedef {object} Folder
 * @property {string} path     what it is called
 * @property {string[]} names  of the files that lie in it
 * @property {(name: string) => boolean} has  there may be files in folders of it, too: "a/b"
 * @property {(name: string) => Promise<ByteSource>} open
 * @property {(names: string[]) => string} stamp  of the version of these files
 */

/** Size and time of a file. @param {string} path */
export function stampOf(path) {
  const { size, mtimeMs } = nodeModule('fs').statSync(path);
  return `${path} ${size} ${mtimeMs}`;
}

/** In Node. @param {string} path @returns {Promise<Folder>} */
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

/** An object; null: no such file. FORMAT. @param {Folder} folder @param {string} name @returns {Promise<Record<string, any> | null>} */
export async function readJson(folder, name) {
  if (!folder.has(name)) return null;
  const text = await readText(folder, name);
  try {
    const value = JSON.parse(text);
    if (value === null || typeof value !== 'object') throw new Error('it is no object');
    return value;
  } catch (cause) {
    throw new BqError('FORMAT', `${folder.path}/${name} is no JSON: ${/** @type {Error} */ (cause).message}`, {
      cause,
    });
  }
}

/** The same of a path, in Node. @param {string} path */
export async function readJsonFile(path) {
  const { existsSync } = await nodeModule('fs');
  const { basename, dirname } = await nodeModule('path');
  return existsSync(path) ? readJson(await diskFolder(dirname(path)), basename(path)) : null;
}
