/** What is wrong with the bytes of a file, and whether they are worth fetching again. Never loaded on demand: then the network may be what failed. */
import { BqError } from '../../shared/errors.js';
import { CHUNK } from './chunks.js';

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
  const problem = page ? 'is a web page' : 'does not begin like a .bq4 or .gguf file';
  return new BqError('NOT_A_MODEL', `${file.name} ${problem}`, {
    offset: 0,
    ...(page && {
      hint: 'the address leads to a page about the file, an error page or a login: use the address of the file itself',
    }),
  });
}

/** @param {ByteSource} file */
export const changedError = (file) =>
  new BqError('CHANGED', `another file is at ${file.name} now than the one that was planned with`);

/** Answers of its server name different versions, and no hash tells whether their bytes belong together. @param {ByteSource} file */
export const renamed = (file) =>
  new BqError('CHANGED', `the answers for ${file.name} name different versions of it`, { details: { renamed: true } });

/** Parts of the data, in eighths, of which the first chunk is sampled. */
const SAMPLED = [0, 1, 2, 4];
/** Bytes of a sample: of a chunk's beginning, and of its middle. The first request's bytes may end between the two. */
const SAMPLE = 4096;

/**
 * Bytes of a file without hashes whose server doesn't name its version: read once more at the end, they tell whether it was replaced by
 * another one with the same beginning and length (a fine-tune of the same model) amid a load, or since an earlier visit.
 */
export class Samples {
  #file;
  #chunks;
  /** @type {{ offset: number, bytes: Uint8Array }[]} */
  #storedSamples = [];

  /** @param {ByteSource} file @param {number} dataBytes */
  constructor(file, dataBytes) {
    this.#file = file;
    const chunks = Math.ceil(dataBytes / CHUNK);
    this.#chunks = new Set(SAMPLED.map((eighths) => Math.floor((chunks * eighths) / 8)));
  }

  /** @param {number} chunk @param {number} offset  of the chunk in the file @param {Uint8Array} bytes  of it */
  keep(chunk, offset, bytes) {
    if (!this.#chunks.delete(chunk)) return;
    for (const at of [0, Math.floor(bytes.length / 2)])
      this.#storedSamples.push({ offset: offset + at, bytes: bytes.slice(at, at + SAMPLE) });
  }

  /** Whether other bytes are there now. @param {AbortSignal} signal */
  async differ(signal) {
    for (const { offset, bytes } of this.#storedSamples) {
      let at = 0;
      for await (const piece of this.#file.stream(offset, offset + bytes.length, signal)) {
        if (piece.some((byte, i) => byte !== bytes[at + i])) return true;
        at += piece.length;
      }
    }
    return false;
  }
}

/**
 * Decides whether damaged bytes are fetched again: from the same address once, then from each mirror. Throws CHANGED, and what `retry` throws
 * where the loader can't go back.
 * @param {unknown} error
 * @param {number} tries  how often it was fetched again; −1: it came from the cache
 * @param {ByteSource} file
 * @param {() => void} retry  makes the loader go back
 * @param {AbortSignal} signal
 */
export async function refetchOrThrow(error, tries, file, retry, signal) {
  if (!(error instanceof BqError) || !['CHECKSUM', 'INTEGRITY'].includes(error.code) || !file.nextMirror) return false;
  retry();
  if (tries < 0 || (tries === 0 && error.code === 'CHECKSUM')) return true;
  if (await file.nextMirror(signal)) return true;
  if (await file.changed?.(signal)) throw changedError(file);
  return false;
}
