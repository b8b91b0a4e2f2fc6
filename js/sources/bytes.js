import { streamOf } from './read.js';

/**
 * @param {Uint8Array} bytes
 * @returns {import('./types.js').ByteSource}
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
