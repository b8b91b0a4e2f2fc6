import { streamOf } from './local.js';

/** @import { ByteSource } from './types.js' */

/**
 * Opens bytes in memory.
 * @param {Uint8Array} bytes
 * @returns {ByteSource}
 */
export function openBytes(bytes) {
  return {
    name: 'bytes in memory',
    size: bytes.length,
    remote: false,
    type: '',
    stream: streamOf(bytes.length, (offset, end) => bytes.subarray(offset, end)),
    async close() {},
  };
}
