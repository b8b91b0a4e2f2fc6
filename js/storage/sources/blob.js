import { BqError } from '../../shared/errors.js';
import { readBlob } from '../../shared/blob-bytes.js';
import { streamOf } from './local.js';

/** @import { ByteSource, Source } from './types.js' */

/** Returns the File of a handle. Throws READ. @param {FileSystemFileHandle} handle */
const fileOf = (handle) =>
  handle.getFile().catch((cause) => {
    throw new BqError('READ', `${handle.name} can't be read: ${cause.message}`, { cause });
  });

/**
 * Opens a Blob, or the file of a handle. Throws READ.
 * @param {Extract<Source, { kind: 'blob' | 'handle' }>} source
 * @returns {Promise<ByteSource>}
 */
export async function openBlob(source) {
  const blob = source.kind === 'blob' ? source.blob : await fileOf(source.handle);
  const name = 'name' in blob ? String(blob.name) : 'a Blob';
  return {
    name,
    size: blob.size,
    remote: false,
    type: blob.type,
    // The time of the last write identifies the version of a file.
    tag: 'lastModified' in blob ? String(blob.lastModified) : '',
    stream: streamOf(blob.size, async (offset, end, signal) => {
      try {
        return await readBlob(blob, offset, end, signal);
      } catch (cause) {
        throw new BqError('READ', `${name} can't be read any more`, { offset, cause });
      }
    }),
    async close() {},
  };
}
