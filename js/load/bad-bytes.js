/** What is wrong with the bytes of a file, and whether they are worth fetching again. Never loaded on demand: then the network may be what failed. */
import { BqError } from '../shared/errors.js';

/** @import { ByteSource } from '../sources/types.js' */

/**
 * What a file is that is no model.
 * @param {ByteSource} file
 * @param {Uint8Array} head
 */
export function notAModel(file, head) {
  const text = String.fromCharCode(...head.subarray(0, 256));
  if (!head.length) return new BqError('TRUNCATED', `${file.name} is empty`);
  const page = /^\s*</.test(text) || file.type.startsWith('text/html');
  const what = page ? 'is a web page' : 'does not begin like a .bq4 or .gguf file';
  return new BqError('NOT_A_MODEL', `${file.name} ${what}`, {
    offset: 0,
    ...(page && {
      hint: 'the address leads to a page about the file, an error page or a login: use the address of the file itself',
    }),
  });
}

/** @param {ByteSource} file */
export const changed = (file) =>
  new BqError('CHANGED', `another file is at ${file.name} now than the one that was planned with`);

/**
 * From the same place once, then from each mirror. CHANGED, and what `retry` throws where there is no way back.
 * @param {unknown} error
 * @param {number} tries  how often it was fetched again; −1: it came from the cache
 * @param {ByteSource} file
 * @param {() => void} retry  makes the loader go back
 * @param {AbortSignal} signal
 */
export async function worthAgain(error, tries, file, retry, signal) {
  if (!(error instanceof BqError) || !['CHECKSUM', 'INTEGRITY'].includes(error.code) || !file.nextMirror) return false;
  retry();
  if (tries < 0 || (tries === 0 && error.code === 'CHECKSUM')) return true;
  if (await file.nextMirror(signal)) return true;
  if (await file.changed?.(signal)) throw changed(file);
  return false;
}
