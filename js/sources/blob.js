import { BqError } from '../errors.js';
import { streamOf } from './local.js';

/** @import { ByteSource } from './types.js' */

/**
 * @param {Blob} blob
 * @returns {ByteSource}
 */
export function openBlob(blob) {
  const name = 'name' in blob ? String(blob.name) : 'a Blob';
  return {
    name,
    size: blob.size,
    remote: false,
    type: blob.type,
    stream: streamOf(blob.size, async (offset, end) => {
      try {
        return new Uint8Array(await blob.slice(offset, end).arrayBuffer());
      } catch (cause) {
        throw new BqError('READ', `${name} can't be read any more`, { offset, cause });
      }
    }),
    async close() {},
  };
}
