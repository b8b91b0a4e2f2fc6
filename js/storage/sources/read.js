/** Reads ranges of sources into one array. */
import { BqError } from '../../shared/errors.js';

/** @import { ByteSource } from './types.js' */

/**
 * Returns the bytes from `offset` up to `end` in one array; fewer only at the end of the file.
 * @param {ByteSource} source
 * @param {number} offset
 * @param {number} end
 * @param {AbortSignal} [signal]
 * @param {Uint8Array[]} [pieces]  at most one array of bytes, which the result begins with
 */
export async function readRange(source, offset, end, signal, pieces = []) {
  let length = pieces[0]?.length ?? 0;
  for await (const piece of source.stream(offset, end, signal)) {
    pieces.push(piece.slice());
    length += piece.length;
  }
  const joined = new Uint8Array(length);
  length = 0;
  for (const piece of pieces) {
    joined.set(piece, length);
    length += piece.length;
  }
  return joined;
}

/**
 * Returns the first `end` bytes of a file. Throws TRUNCATED.
 * @param {ByteSource} source
 * @param {Uint8Array} head  bytes of its beginning that were read before
 * @param {number} end
 * @param {AbortSignal} [signal]
 */
export async function readFirst(source, head, end, signal) {
  if (head.length >= end) return head.subarray(0, end);
  const bytes = await readRange(source, head.length, end, signal, [head]);
  if (bytes.length < end)
    throw new BqError('TRUNCATED', `${source.name} ends after ${bytes.length} bytes, in the middle of its header`, {
      offset: bytes.length,
    });
  return bytes;
}
