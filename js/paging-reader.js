/** Reads of any part of a file, at any time, for as long as a model is open. In the engine's thread or in io-worker.js. */
import { BqError } from './errors.js';
import { nodeModule } from './sources/node.js';

/** @import { Plan, Source } from './types.js' */

/**
 * @typedef {object} Reader
 * @property {boolean} fills  `read` fills memory that it is given; otherwise it brings its own
 * @property {(offset: number, bytes: number, into: () => Uint8Array) => Promise<Uint8Array>} read  `into`: where to,
 *   asked for only by those that fill. READ.
 * @property {() => Promise<void>} close
 */

/** @param {string} name @param {number} offset @param {unknown} cause */
const failure = (name, offset, cause) =>
  new BqError('READ', `${name} can't be read any more: ${cause instanceof Error ? cause.message : cause}`, { offset, cause });

/** @param {string} name @param {number} offset @param {number} got @param {number} wanted */
function checkLength(name, offset, got, wanted) {
  if (got !== wanted) throw failure(name, offset, `${got} of ${wanted} bytes are there`);
}

/** @param {Blob} blob @returns {Reader} */
function blobReader(blob) {
  const name = 'name' in blob ? String(blob.name) : 'a Blob';
  return {
    fills: false,
    async read(offset, bytes) {
      let buffer;
      try {
        buffer = await blob.slice(offset, offset + bytes).arrayBuffer();
      } catch (cause) {
        throw failure(name, offset, cause);
      }
      checkLength(name, offset, buffer.byteLength, bytes);
      return new Uint8Array(buffer);
    },
    async close() {},
  };
}

/** @param {string} path @returns {Promise<Reader>} */
async function fileReader(path) {
  const { open } = await nodeModule('fs/promises');
  const file = await open(path.startsWith('file:') ? new URL(path) : path).catch((/** @type {Error} */ cause) => {
    throw failure(path, 0, cause);
  });
  return {
    fills: true,
    async read(offset, bytes, into) {
      const target = into();
      for (let done = 0; done < bytes; ) {
        const { bytesRead } = await file.read(target, done, bytes - done, offset + done).catch((/** @type {Error} */ cause) => {
          throw failure(path, offset, cause);
        });
        if (!bytesRead) checkLength(path, offset, done, bytes);
        done += bytesRead;
      }
      return target;
    },
    close: () => file.close(),
  };
}

/** @param {Uint8Array} bytes @returns {Reader} */
const bytesReader = (bytes) => ({
  fills: false,
  read: async (offset, length) => bytes.subarray(offset, offset + length),
  async close() {},
});

/** UNSUPPORTED unless any part of the source can be read at any time. @param {Source} source @param {Plan} plan */
export function mustPage(source, { weightBytes, heapBytes }) {
  if (source.kind !== 'url' || source.url.startsWith('file:')) return;
  throw new BqError('UNSUPPORTED', `the model has ${weightBytes} bytes of weights, more than fit in the budget, and can't be read again and again from ${source.url}`, {
    hint: 'keep the file on this machine: choose it as a file, or load it through a store',
    details: { weightBytes, heapBytes },
  });
}

/** @param {Source} source  one that `mustPage` lets pass @returns {Promise<Reader>} */
export async function openReader(source) {
  if (source.kind === 'blob') return blobReader(source.blob);
  if (source.kind === 'bytes') return bytesReader(source.bytes);
  return fileReader(source.kind === 'url' ? source.url : source.path);
}
