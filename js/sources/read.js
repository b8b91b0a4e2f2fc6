/** What all read from sources. */

/** @import { ByteSource } from './types.js' */

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
