/**
 * Readers of any part of a file, at any time while a model is open. They run in the engine's thread or in io-worker.js.
 */
import { unlessAborted } from '../../shared/async.js';
import { BqError, thrownText } from '../../shared/errors.js';
import { readBlob } from '../../shared/blob-bytes.js';
import { nodeModule } from '../../shared/node.js';
import { versionOf } from './file-version.js';

/** @import { FilePart } from './types.js' */
/** @import { Source } from '../../shared/types.js' */

/**
 * @typedef {object} Reader
 * @property {boolean} fills  whether `read` fills memory of the caller; otherwise it returns memory of its own
 * @property {(offset: number, bytes: number, into: () => Uint8Array) => Promise<Uint8Array>} read  `into` returns the
 *   memory to fill; only readers that fill call it. Throws READ
 * @property {() => void} [endReads]  rejects the running reads, whose results are no longer needed. Missing in readers
 *   that fill memory: a read that was given up could still write there
 * @property {() => Promise<void>} close
 */

/**
 * Reads a range of the file to an address of the heap. Throws READ.
 * @param {Reader} reader @param {import('../../wasm/wasm.js').Wasm} wasm
 * @param {number} offset  in the file @param {number} at  in the heap @param {number} bytes
 */
export async function readInto(reader, wasm, offset, at, bytes) {
  const piece = await reader.read(offset, bytes, () => wasm.bytes(at, bytes));
  if (!reader.fills && wasm.alive) wasm.bytes(at, bytes).set(piece);
}

/** @param {string} name @param {number} offset @param {unknown} cause */
const failure = (name, offset, cause) =>
  new BqError('READ', `${name} can't be read any more: ${thrownText(cause)}`, {
    offset,
    cause,
  });

/** @param {string} name @param {number} offset @param {number} found @param {number} expected */
function checkLength(name, offset, found, expected) {
  if (found !== expected) throw failure(name, offset, `found ${found} of ${expected} bytes`);
}

/** @param {Blob} blob @returns {Reader} */
function blobReader(blob) {
  const name = 'name' in blob ? String(blob.name) : 'a Blob';
  let lifetime = new AbortController();
  const endReads = () => {
    lifetime.abort();
    lifetime = new AbortController();
  };
  return {
    fills: false,
    async read(offset, bytes) {
      const { signal } = lifetime;
      // Some reads never end.
      const found = await unlessAborted(readBlob(blob, offset, offset + bytes, signal), signal).catch((cause) => {
        throw failure(name, offset, cause);
      });
      checkLength(name, offset, found.length, bytes);
      return found;
    },
    endReads,
    close: async () => endReads(),
  };
}

/** @param {string} path @returns {Promise<Reader & { wasWritten: () => Promise<boolean> }>} */
async function fileReader(path) {
  const { open } = await nodeModule('fs/promises');
  const file = await open(path.startsWith('file:') ? new URL(path) : path).catch((/** @type {Error} */ cause) => {
    throw failure(path, 0, cause);
  });
  const { wasWritten } = await versionOf(file);
  return {
    fills: true,
    async read(offset, bytes, getTarget) {
      const target = getTarget();
      for (let filled = 0; filled < bytes;) {
        const { bytesRead } = await file
          .read(target, filled, bytes - filled, offset + filled)
          .catch((/** @type {Error} */ cause) => {
            throw failure(path, offset, cause);
          });
        if (!bytesRead) checkLength(path, offset, filled, bytes);
        filled += bytesRead;
      }
      return target;
    },
    wasWritten,
    close: () => file.close(),
  };
}

/**
 * Creates a reader of a file that other programs may write; then reads throw READ.
 * @param {string} path @returns {Promise<Reader>}
 */
async function sharedFileReader(path) {
  const { read, wasWritten, ...reader } = await fileReader(path);
  return {
    ...reader,
    async read(offset, bytes, getTarget) {
      const piece = await read(offset, bytes, getTarget);
      if (await wasWritten()) throw failure(path, offset, 'it was changed after the model was loaded');
      return piece;
    },
  };
}

/**
 * @typedef {{ read: (into: Uint8Array, at: { at: number }) => number, close: () => void, mode?: string }} SyncHandle
 */

/**
 * Opens a file by its handle or path. `read` fills `into` with the bytes from offset `at` on, and returns their number.
 * @param {FilePart['handle']} handle
 * @returns {Promise<{ read: (at: number, into: Uint8Array) => Promise<number>, close: () => unknown }>}
 */
async function openHandle(handle) {
  if (typeof handle === 'string') {
    const { read, close } = await fileReader(handle);
    return { read: async (at, target) => (await read(at, target.length, () => target)).length, close };
  }
  /** @type {SyncHandle | null} */
  let sync = null;
  try {
    sync = await /** @type {any} */ (handle).createSyncAccessHandle({ mode: 'read-only' });
    if (sync?.mode !== 'read-only') {
      sync?.close(); // it would lock the file for other tabs
      sync = null;
    }
  } catch {
    // Not available in this thread or for this file: it is read as a File, which is slower.
  }
  const file = sync ? null : await handle.getFile();
  return {
    read: async (/** @type {number} */ at, /** @type {Uint8Array} */ target) => {
      if (sync) {
        const count = sync.read(target, { at });
        return count > target.length ? 0 : count; // Chromium's error code, if the file was removed
      }
      const bytes = await readBlob(/** @type {File} */ (file), at, at + target.length);
      target.set(bytes);
      return bytes.length;
    },
    close: () => sync?.close(),
  };
}

/** @param {FilePart} part */
const nameOf = ({ handle }) => (typeof handle === 'string' ? handle : handle.name);

/**
 * Creates a reader of a file that is stored in one or more files.
 * @param {FilePart[]} parts  in order @returns {Promise<Reader>}
 */
export async function partsReader(parts) {
  const open = await Promise.all(parts.map(({ handle }) => openHandle(handle)));
  return {
    fills: true,
    async read(offset, bytes, getTarget) {
      const target = getTarget();
      for (const [i, part] of parts.entries()) {
        const from = Math.max(offset, part.offset);
        const rangeEnd = Math.min(offset + bytes, part.offset + part.bytes);
        if (from >= rangeEnd) continue;
        const bytesRead = await open[i]
          .read(part.at + from - part.offset, target.subarray(from - offset, rangeEnd - offset))
          .catch((cause) => {
            throw failure(nameOf(part), from, cause);
          });
        checkLength(nameOf(part), from, bytesRead, rangeEnd - from);
      }
      return target;
    },
    close: async () => void (await Promise.all(open.map((reader) => reader.close()))),
  };
}

/** @param {Uint8Array} bytes @returns {Reader} */
const bytesReader = (bytes) => ({
  fills: false,
  read: async (offset, length) => bytes.subarray(offset, offset + length),
  async close() {},
});

/**
 * By kind of the source: a function that creates its reader.
 * @type {Record<string, (source: any) => Reader | Promise<Reader>>}
 */
const READERS = {
  blob: ({ blob }) => blobReader(blob),
  bytes: ({ bytes }) => bytesReader(bytes),
  handle: ({ handle }) => partsReader([{ handle, offset: 0, bytes: Infinity, at: 0 }]),
  parts: ({ parts }) => partsReader(parts),
  file: ({ path }) => sharedFileReader(path),
  url: ({ url }) => sharedFileReader(url),
};

/** Creates the reader of a source that is pageable (kinds.js). Throws ARGUMENT, READ. @param {Source} source */
export async function openReader(source) {
  const reader = READERS[source.kind];
  if (!reader) throw new BqError('ARGUMENT', 'a model in several files is read from its copy in a cache only');
  return reader(source);
}
