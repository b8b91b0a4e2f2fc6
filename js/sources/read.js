/** What all sources share. */

/** @import { ByteSource } from './types.js' */

/** Bytes that local sources read at once. */
const STEP = 1 << 20;

/**
 * `stream` of a source that can read any range at once.
 * @param {number} size
 * @param {(offset: number, end: number) => Promise<Uint8Array> | Uint8Array} read
 * @returns {ByteSource['stream']}
 */
export function streamOf(size, read) {
  return async function* (offset, end, signal) {
    const last = Math.min(end, size);
    for (let at = offset; at < last; ) {
      signal?.throwIfAborted();
      const piece = await read(at, Math.min(at + STEP, last));
      if (!piece.length) return;
      at += piece.length;
      yield piece;
    }
  };
}

/**
 * The bytes from `offset` up to `end` in one piece, fewer only at the end of the file.
 * @param {ByteSource} source
 * @param {number} offset
 * @param {number} end
 * @param {AbortSignal} [signal]
 */
export async function readRange(source, offset, end, signal) {
  const pieces = [];
  let length = 0;
  for await (const piece of source.stream(offset, end, signal)) {
    pieces.push(piece.slice());
    length += piece.length;
  }
  const all = new Uint8Array(length);
  length = 0;
  for (const piece of pieces) {
    all.set(piece, length);
    length += piece.length;
  }
  return all;
}
