/** Shared code of sources that can read any range directly: Blobs, files and bytes in memory. */

import { unlessAborted } from '../../shared/async.js';

/** @import { ByteSource } from './types.js' */

/** Largest number of bytes per read. */
const PIECE_BYTES = 1 << 20;

/**
 * Creates the method `stream` of such a source.
 * @param {number} size
 * @param {(offset: number, end: number, signal?: AbortSignal) => Promise<Uint8Array> | Uint8Array} read
 * @returns {ByteSource['stream']}
 */
export function streamOf(size, read) {
  return async function* (offset, end, signal) {
    const last = Math.min(end, size);
    for (let at = offset; at < last;) {
      signal?.throwIfAborted();
      const reading = read(at, Math.min(at + PIECE_BYTES, last), signal);
      // Some reads never end.
      const piece = reading instanceof Promise ? await unlessAborted(reading, signal) : reading;
      if (!piece.length) return;
      at += piece.length;
      yield piece;
    }
  };
}
