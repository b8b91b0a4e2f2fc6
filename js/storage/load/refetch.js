/**
 * Errors of wrong bytes in a file, and the decision whether to fetch the bytes again. This module is never loaded on
 * demand, since the failure may be one of the network.
 */
import { BqError } from '../../shared/errors.js';
import { CHUNK_BYTES } from '../../shared/sections.js';

/** @import { ByteSource } from '../sources/types.js' */

/**
 * Returns the error of a file that is not a model.
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

/** Returns the error of a file that was replaced by another one. @param {ByteSource} file */
export const changedError = (file) => new BqError('CHANGED', `${file.name} has changed since the load was planned`);

/**
 * Returns the error of a file whose server sends different version tags, while no hash shows whether the bytes belong
 * together.
 * @param {ByteSource} file
 */
export const renamedError = (file) =>
  new BqError('CHANGED', `the server sent different version tags for ${file.name}`, { details: { renamed: true } });

/** Positions of the sampled chunks, in eighths of the data. */
const SAMPLED_EIGHTHS = [0, 1, 2, 4];
/**
 * Bytes of a sample. A chunk has a sample at its beginning and one in its middle: the first request may end between the
 * two.
 */
const SAMPLE_BYTES = 4096;

/**
 * Samples of a file that has neither hashes nor a version tag. They are read again at the end of a load, to detect that
 * the file was replaced during the load or since an earlier visit. The other file may have the same beginning and length,
 * as a fine-tuned version of the model has.
 */
export class Samples {
  #file;
  #chunks;
  /** @type {{ offset: number, bytes: Uint8Array }[]} */
  #storedSamples = [];

  /** @param {ByteSource} file @param {number} dataBytes */
  constructor(file, dataBytes) {
    this.#file = file;
    const chunks = Math.ceil(dataBytes / CHUNK_BYTES);
    this.#chunks = new Set(SAMPLED_EIGHTHS.map((eighths) => Math.floor((chunks * eighths) / 8)));
  }

  /**
   * Copies the samples of a chunk, if it is one of the sampled chunks.
   * @param {number} chunk @param {number} offset  of the chunk in the file @param {Uint8Array} bytes  of the chunk
   */
  keep(chunk, offset, bytes) {
    if (!this.#chunks.delete(chunk)) return;
    for (const at of [0, Math.floor(bytes.length / 2)])
      this.#storedSamples.push({ offset: offset + at, bytes: bytes.slice(at, at + SAMPLE_BYTES) });
  }

  /** Reads the samples again and returns whether bytes differ. @param {AbortSignal} signal */
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
 * Decides whether damaged bytes are fetched again: once from the same address, then from each mirror. Throws CHANGED,
 * and the error of `retry`.
 * @param {unknown} error
 * @param {number} tries  number of earlier attempts; −1: the bytes came from the cache
 * @param {ByteSource} file
 * @param {() => void} retry  resets the loader to the beginning of these bytes; throws if that is not possible
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
