/** What sources share that can read any range at once. */

import { unlessAborted } from '../../shared/async.js';

/** @import { ByteSource } from './types.js' */

/** Bytes that are read at once. */
const PIECE_BYTES = 1 << 20;

/**
 * `stream` of such a source.
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
