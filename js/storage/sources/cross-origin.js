/**
 * Cross-Origin Storage: files of all sites, found by their SHA-256, so that a model is downloaded once for all of them.
 * No browser has it by default yet (github.com/WICG/cross-origin-storage). Failures never end a load: the user may have
 * refused access. Loaded on demand.
 */
import { hex } from '../../shared/hex.js';
import { integrityBytes } from '../../wasm/sha256.js';

/** @import { Cache } from '../../shared/types.js' */
/** @import { Source } from './types.js' */

/**
 * @typedef {object} CrossOriginStorage
 * @property {(hash: { algorithm: 'SHA-256', value: string }, options?: { create?: boolean, origins?: '*' }) =>
 *   Promise<FileSystemFileHandle>} requestFileHandle  `create`: to write the file, readable for `origins`
 */

/** Returns the file's handle. @param {Uint8Array} hash @param {{ create?: boolean, origins?: '*' }} [options] */
const requestFile = (hash, options) =>
  /** @type {{ crossOriginStorage: CrossOriginStorage }} */ (
    /** @type {unknown} */ (navigator)
  ).crossOriginStorage.requestFileHandle({ algorithm: 'SHA-256', value: hex(hash) }, options);

/**
 * Returns the stored file in place of an address whose hash is known; else the source itself. Its hash is checked like
 * that of a download.
 * @param {Source} source @param {string | undefined} integrity  the option of the load @param {Cache} cache
 * @returns {Promise<Source>}
 */
export async function findStored(source, integrity = source.integrity, cache) {
  if (source.kind !== 'url' || !integrity) return source;
  const isCached = (await cache.find(source.url).catch(() => null))?.complete;
  if (isCached) return source;
  const blob = await requestFile(integrityBytes(integrity))
    .then((handle) => handle.getFile())
    .catch(() => null);
  return blob ? { kind: 'blob', blob, integrity, facts: source.facts } : source;
}

/** Writes a file while it is downloaded from its first byte to its last. */
export class StoredCopy {
  /** The open file; null if it can't be written. @type {FileSystemWritableFileStream | null} */
  #file;
  /** Number of written bytes. */
  #length = 0;

  /** @param {FileSystemWritableFileStream | null} file */
  constructor(file) {
    this.#file = file;
  }

  /** @param {Uint8Array} hash  SHA-256 of the file */
  static async create(hash) {
    const file = await requestFile(hash, { create: true, origins: '*' })
      .then((handle) => handle.createWritable())
      .catch(() => null);
    return new StoredCopy(file);
  }

  /** @param {number} offset  of the bytes in the file @param {Uint8Array} bytes  may be reused afterwards */
  async write(offset, bytes) {
    const from = this.#length - offset; // a part may be downloaded twice
    if (from < 0) return this.abort();
    if (from >= bytes.length) return;
    const copy = bytes.slice(from);
    this.#length += copy.length;
    await this.#file?.write(copy).catch(() => this.abort());
  }

  /** Ends the file, which other sites can use from now on. */
  async close() {
    const file = this.#file;
    this.#file = null;
    await file?.close().catch(() => {});
  }

  /** Discards the file, unless it was closed. */
  async abort() {
    const file = this.#file;
    this.#file = null;
    await file?.abort().catch(() => {});
  }
}
