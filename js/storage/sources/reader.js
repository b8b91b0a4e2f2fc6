/** Reads of any part of a file, at any time, for as long as a model is open. In the engine's thread or in io-worker.js. */
import { unlessAborted } from '../../shared/async.js';
import { BqError, thrownText } from '../../shared/errors.js';
import { readBlob } from '../../shared/blob-bytes.js';
import { nodeModule } from '../../shared/node.js';
import { versionOf } from './file-version.js';

/** @import { FilePart } from './types.js' */
/** @import { Source } from '../../shared/types.js' */

/**
 * @typedef {object} Reader
 * @property {boolean} fills  `read` fills memory that it is given; otherwise it brings its own
 * @property {(offset: number, bytes: number, into: () => Uint8Array) => Promise<Uint8Array>} read  `into`: where to,
 *   asked for only by those that fill. READ.
 * @property {() => void} [endReads]  fails the reads under way, whose results are not needed any more; missing: reads that fill memory can't
 *   be ended, since they may still write there
 * @property {() => Promise<void>} close
 */

/** A range of the file to an address of the heap. READ. @param {Reader} reader @param {import('../../wasm/wasm.js').Wasm} wasm @param {number} offset @param {number} at @param {number} bytes */
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
  if (found !== expected) throw failure(name, offset, `${found} of ${expected} bytes are there`);
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

/** A file that other programs may write while it is read. @param {string} path @returns {Promise<Reader>} */
async function sharedFileReader(path) {
  const { read, wasWritten, ...reader } = await fileReader(path);
  return {
    ...reader,
    async read(offset, bytes, getTarget) {
      const piece = await read(offset, bytes, getTarget);
      if (await wasWritten()) throw failure(path, offset, 'it was written since the model was loaded');
      return piece;
    },
  };
}

/** @typedef {{ read: (into: Uint8Array, at: { at: number }) => number, close: () => void, mode?: string }} SyncHandle */

/** Fills `into` from `at` on; and its end. @param {FilePart['handle']} handle @returns {Promise<{ read: (at: number, into: Uint8Array) => Promise<number>, close: () => unknown }>} */
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
      sync?.close(); // it would keep other tabs out
      sync = null;
    }
  } catch {
    // Not in this thread, or not with this file: a File does, more slowly.
  }
  const file = sync ? null : await handle.getFile();
  return {
    read: async (/** @type {number} */ at, /** @type {Uint8Array} */ target) => {
      if (sync) return sync.read(target, { at });
      const bytes = await readBlob(/** @type {File} */ (file), at, at + target.length);
      target.set(bytes);
      return bytes.length;
    },
    close: () => sync?.close(),
  };
}

/** @param {FilePart} part */
const nameOf = ({ handle }) => (typeof handle === 'string' ? handle : handle.name);

/** A file that lies in one file or several. @param {FilePart[]} parts  one after the other @returns {Promise<Reader>} */
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

/** Readers by the kind of the source. @type {Record<string, (source: any) => Reader | Promise<Reader>>} */
const READERS = {
  blob: ({ blob }) => blobReader(blob),
  bytes: ({ bytes }) => bytesReader(bytes),
  handle: ({ handle }) => partsReader([{ handle, offset: 0, bytes: Infinity, at: 0 }]),
  parts: ({ parts }) => partsReader(parts),
  file: ({ path }) => sharedFileReader(path),
  url: ({ url }) => sharedFileReader(url),
};

/** ARGUMENT. @param {Source} source  a pageable one: kinds.js */
export async function openReader(source) {
  const reader = READERS[source.kind];
  if (!reader) throw new BqError('ARGUMENT', 'a model in several files is read from its copy in a cache only');
  return reader(source);
}
