/** The cache of model files. Downloads are stored chunk by chunk and continue at the next visit. */
import { callback, flag, kind, milliseconds, number, oneOf, text } from '../../shared/checks.js';
import { BqError, onDemand } from '../../shared/errors.js';
import { nameOf } from '../sources/file-name.js';
import { isNode } from '../../shared/node.js';
import { follow } from '../../shared/async.js';
import { checkBy } from '../../shared/options.js';
import { within } from '../../shared/timeouts.js';
import { Entry } from './entry.js';
import { chunksOf, isState, lengthOf, MEASUREMENTS, PREFIX } from './layout.js';
import { lock } from './locks.js';
import { hex } from '../../shared/hex.js';
import { hide } from '../../shared/hide.js';

/**
 * @import { FileMetadata, Backend, BackendName, EntryOptions, Found, Listed, Marks, StoreOptions, Usage } from './types.js'
 */
/** @import { Host, Notice } from './entry.js' */

/**
 * A stored file with the hashes of its chunks.
 * @typedef {Listed & { about: FileMetadata, marks: Marks, hashes: Map<number, bigint | null> }} StoredFile
 */

/**
 * Backends, the best first. Opening rejects if a backend is not available.
 * @type {[BackendName, (options: StoreOptions & { name: string }) => Promise<Backend>][]}
 */
const BACKENDS = [
  [
    'file',
    async ({ name, path }) => {
      if (!isNode) throw new Error('only available in Node');
      if (!path) throw new Error('the option path is missing');
      return (await onDemand(import('./node-folder.js'))).openFiles(name, path);
    },
  ],
  [
    'opfs',
    async ({ name }) => {
      if (!globalThis.navigator?.storage?.getDirectory)
        throw new Error('not available in this browser or on this kind of page');
      return (await onDemand(import('./opfs.js'))).openOpfs(name);
    },
  ],
  ['cache', async ({ name }) => (await onDemand(import('./cache-api.js'))).openCache(name)],
  ['indexeddb', async ({ name }) => (await onDemand(import('./indexeddb.js'))).openIndexedDb(name)],
  ['memory', async ({ name }) => (await onDemand(import('./memory.js'))).openMemory(name)],
];

/** Hexadecimal digits of a SHA-256 in names of files and marks. 128 bits are collision-resistant enough. */
const HASH_DIGITS = 32;
/** Keys of a store: an identity (16 digits in an older layout), the length of the prefix, the length of the file. */
const KEY = /^([0-9a-f]{16}){1,2}-\d+-\d+$/;
/** Names of stores. Each is a folder, a database or a cache. */
const STORE_NAME = /^[A-Za-z0-9][\w .-]*$/;

/** Returns a URL without its fragment. @param {string} url */
const withoutFragment = (url) => url.split('#')[0];

/**
 * Returns a URL without fragment and query. The query differs between signed URLs of the same file.
 * @param {string} url
 */
const withoutQuery = (url) => withoutFragment(url).split('?')[0];

/**
 * Computes SHA-256 with the browser's function, which is available in secure contexts only.
 * @param {Uint8Array} bytes
 */
const platformSha256 = async (bytes) =>
  new Uint8Array(await crypto.subtle.digest('SHA-256', /** @type {Uint8Array<ArrayBuffer>} */ (bytes)));

/**
 * Checks a key, because keys become names of folders and must not lead out of the store. Throws ARGUMENT.
 * @param {string} key
 */
function checkKey(key) {
  if (typeof key !== 'string' || !KEY.test(key))
    throw new BqError('ARGUMENT', `expected the key of a cached file, found ${JSON.stringify(key)}`, {
      hint: 'list() returns the keys',
      details: { param: 'key' },
    });
}

/** Returns a BqError unchanged; converts other errors to STORAGE. @param {unknown} cause @param {string} message */
const toStorageError = (cause, message) =>
  cause instanceof BqError
    ? cause
    : new BqError('STORAGE', `${message}: ${/** @type {Error} */ (cause).message}`, { cause });

export class Store {
  #backend;
  #sha256;
  #scope;
  #maxBytes;
  #host;
  /** @type {Set<Entry>} */
  #entries = new Set();
  /** @type {BroadcastChannel | undefined} */
  #channel;
  /** Settles when the last write of measurements has ended. */
  #written = Promise.resolve();
  /** Questions about the storage that the browser did not answer. @type {Set<string>} */
  #unresponsive = new Set();

  /**
   * @param {Backend} backend @param {string} reason @param {StoreOptions & { name: string }} options
   * @param {number} maxBytes
   */
  constructor(backend, reason, { name, hash, sha256 = platformSha256, stallTimeout = 20_000, crossOrigin }, maxBytes) {
    /** The backend in use. @type {BackendName} */
    this.backend = backend.name;
    /** The reason why no better backend is used; '' if it is the best one. */
    this.reason = reason;
    /** Whether complete files can be used for paging: an entry has `parts`. */
    this.pages = backend.name === 'opfs' || backend.name === 'file';
    /** Whether files are shared with other sites: the option, in a browser that has the storage. */
    this.crossOrigin = !!crossOrigin && 'crossOriginStorage' in (globalThis.navigator ?? {});
    this.#backend = backend;
    this.#sha256 = sha256;
    this.#maxBytes = maxBytes;
    this.#scope = `bq4-store/${backend.name}/${backend.root ?? ''}/${name}`;
    try {
      this.#channel = new BroadcastChannel(this.#scope);
      this.#channel.onmessage = ({ data }) => this.#receiveNotice(data);
      /** @type {any} */ (this.#channel).unref?.(); // otherwise it would keep Node alive
    } catch {
      // Missing, or refused with all storage (Firefox with blocked cookies): the journal is read now and then.
    }
    /** @type {Host} */
    this.#host = {
      backend,
      hash,
      stallTimeout,
      lockName: (key, kind) => `${this.#scope}/${key}/${kind}`,
      makeRoom: (key, bytes, full) => this.#makeRoom(key, bytes, full),
      broadcast: (notice) => {
        this.#channel?.postMessage(notice);
        this.#receiveNotice(notice);
      },
      forget: (entry) => this.#entries.delete(entry),
    };
    const { notes } = backend;
    /**
     * Measurements of this machine; undefined if they can't be stored.
     * @type {import('../../shared/types.js').Cache['measurements']}
     */
    this.measurements =
      notes && maxBytes > 0
        ? {
            read: () => notes.bytes(MEASUREMENTS),
            write: (bytes) => (this.#written = notes.put(MEASUREMENTS, bytes).catch(() => {})),
          }
        : undefined;
    hide(this, 'pages', 'measurements', 'crossOrigin');
  }

  /** @param {Uint8Array | string} content @returns {Promise<string>} */
  async #digest(content) {
    const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
    return hex(await this.#sha256(bytes)).slice(0, HASH_DIGITS);
  }

  /** Returns the name of the mark for a URL. @param {string} url */
  #markOf = async (url) => `at-${await this.#digest(withoutFragment(url))}`;

  /**
   * Returns the key of a file. Ids inside a file are not used, since an author could copy the id of another file.
   * A prefix with SHA-256 hashes identifies all bytes of its file, from any URL; other prefixes only together with the
   * URL.
   * @param {EntryOptions} file
   */
  async #keyOf({ url, prefix, sealed, fileBytes, prefixBytes }) {
    const content = await this.#digest(prefix);
    const identity = sealed ? content : await this.#digest(`${withoutQuery(url)}\n${content}`);
    return `${identity}-${prefixBytes}-${fileBytes}`;
  }

  /** Returns the keys of the stored files. Other files in the folder of the store are ignored. */
  async #keys() {
    return (await this.#backend.keys()).filter((key) => KEY.test(key));
  }

  /** @param {Notice} notice */
  #receiveNotice(notice) {
    for (const entry of this.#entries) if (entry.key === notice.key) entry.receiveNotice(notice);
  }

  /** Returns the cached files. Throws STORAGE. @returns {Promise<Listed[]>} */
  async list() {
    const files = await this.#loadFiles();
    return files.filter(({ cachedBytes }) => cachedBytes > 0).map(({ about, marks, hashes, ...listed }) => listed);
  }

  /**
   * Returns the number of cached bytes, and the browser's estimate for the entire origin.
   * @returns {Promise<Usage>}
   */
  async usage() {
    const files = await this.#loadFiles();
    const { usage = 0, quota = 0 } = await this.#estimate();
    const persisted = (await this.#callStorage('persisted')) ?? false;
    return { files: files.length, cachedBytes: sum(files), usage, quota, maxBytes: this.#maxBytes, persisted };
  }

  /**
   * Returns the newest file from a URL, without network access; null if there is none with a complete prefix.
   * @param {string} url
   * @returns {Promise<Found | null>}
   */
  async find(url) {
    if (this.#maxBytes === 0) return null;
    const mark = await this.#markOf(url);
    const date = (/** @type {StoredFile} */ { marks }) => marks.get(mark) ?? 0;
    const files = (await this.#loadFiles(({ marks }) => marks.has(mark)).catch(() => [])).filter((file) =>
      file.hashes.has(PREFIX),
    );
    for (const { key, about, hashes, cachedBytes, complete } of files.sort((a, b) => date(b) - date(a))) {
      const prefix = new Uint8Array(about.prefixBytes);
      const prefixHash = hashes.get(PREFIX) ?? null;
      const space = await this.#backend.open(key, about);
      const isStored = await space.read(PREFIX, 0, prefix, false).catch(() => false);
      await space.close();
      const { hash } = this.#host;
      if (!isStored || (hash && prefixHash !== null && (await hash(prefix)) !== prefixHash)) continue;
      const { fileId, fileBytes, prefixBytes } = about;
      return { key, fileId, fileBytes, prefixBytes, prefix, prefixHash, cachedBytes, complete };
    }
    return null;
  }

  /**
   * Waits for this tab's turn to download the beginning of a file that is not cached. Only one tab at a time has the
   * turn.
   * @param {string} url
   * @param {AbortSignal} [signal]
   * @returns {Promise<import('./locks.js').Release | null>}  ends the turn. Null if this store stores nothing, or if
   *   the wait takes too long
   */
  async turn(url, signal) {
    if (this.#maxBytes === 0) return null;
    const { controller, signal: limitedSignal, release } = follow(signal);
    const timer = setTimeout(() => controller.abort(), this.#host.stallTimeout);
    try {
      return await lock(this.#host.lockName(withoutFragment(url), 'make'), { wait: true, signal: limitedSignal });
    } catch {
      signal?.throwIfAborted();
      return null;
    } finally {
      clearTimeout(timer);
      release();
    }
  }

  /**
   * Opens a file, and creates it if it is missing. Never rejects: check `problem`.
   * @param {EntryOptions} options
   * @returns {Promise<Entry>}  the caller closes it; until then the file can't be deleted
   */
  async open(options) {
    const { url, fileBytes, prefixBytes } = options;
    const fileId = typeof options.fileId === 'string' ? options.fileId : hex(Uint8Array.from(options.fileId ?? []));
    /** @type {unknown} */
    let keyError;
    const key = await this.#keyOf(options).catch((error) => ((keyError = error), ''));
    const metadata = { url, name: nameOf(url), fileId, fileBytes, prefixBytes };
    const entry = new Entry(this.#host, key, metadata, options);
    this.#entries.add(entry);
    return entry.start(async () => {
      if (keyError) throw keyError;
      // One tab at a time, since browsers that restore a session open many tabs at once.
      const release = await lock(this.#host.lockName(key, 'make'), {
        wait: true,
        signal: AbortSignal.timeout(this.#host.stallTimeout), // a frozen tab may hold it for hours
      });
      try {
        return await this.#prepare(key, metadata);
      } finally {
        await release?.();
      }
    });
  }

  /**
   * Creates a file if it is missing, and sets its marks.
   * @param {string} key @param {FileMetadata} metadata @returns {ReturnType<Parameters<Entry['start']>[0]>}
   */
  async #prepare(key, metadata) {
    if (this.#maxBytes === 0) throw new BqError('STORAGE', `nothing is stored: ${this.reason || 'maxBytes is 0'}`);
    const stored = await this.#get(key);
    const mark = await this.#markOf(metadata.url);
    const storedMetadata = stored?.about ?? (await this.#backend.create(key, metadata)) ?? metadata;
    const markAddress = stored?.marks.has(mark) ? null : this.#backend.mark(key, mark, true);
    // This mark is written in the background.
    const touched = this.#backend.mark(key, 'used', true).catch(() => {});
    // A stored file can be read without a new mark, also from full storage.
    await (stored ? markAddress?.catch(() => {}) : Promise.all([markAddress, touched, this.#tidy(key, mark)]));
    return { about: storedMetadata, touched };
  }

  /**
   * Deletes the older files of a new file's URL that are not pinned, since they would never be used again, and files
   * without a single byte, which remain of tabs that were killed.
   * @param {string} key @param {string} mark  of the new file
   */
  async #tidy(key, mark) {
    const files = new Map((await this.#loadFiles((_, otherKey) => otherKey !== key)).map((file) => [file.key, file]));
    for (const otherKey of await this.#keys()) {
      const file = files.get(otherKey);
      const isUseless = !file?.hashes.size || (file.marks.has(mark) && !file.pinned);
      if (otherKey !== key && isUseless) await this.#remove(otherKey).catch(() => false);
    }
  }

  /** Deletes a file. Throws ARGUMENT, IN_USE, STORAGE. @param {string} key */
  async delete(key) {
    checkKey(key);
    const removed = await this.#remove(key).catch((error) => {
      throw toStorageError(error, `${key} can't be deleted`);
    });
    if (!removed) throw new BqError('IN_USE', `${key} is in use, in this tab or another one`);
  }

  /**
   * Deletes all files that are not in use, and the measurements. Throws IN_USE if a file was in use; the others are
   * deleted.
   */
  async clear() {
    let firstError;
    for (const key of await this.#keys()) await this.delete(key).catch((error) => (firstError ??= error));
    await this.#written;
    if (this.#backend.notes)
      await this.#backend.remove(MEASUREMENTS).catch((error) => {
        firstError ??= toStorageError(error, `${MEASUREMENTS} can't be deleted`);
      });
    if (firstError) throw firstError;
  }

  /**
   * Pins a file, so that only `delete` and `clear` delete it. Throws ARGUMENT, STORAGE.
   * @param {string} key @param {boolean} [isOn]
   */
  async pin(key, isOn = true) {
    checkKey(key);
    const file = await this.#get(key)
      .then((file) => file && this.#backend.mark(key, 'pinned', isOn).then(() => file))
      .catch((error) => {
        throw toStorageError(error, `${key} can't be pinned`);
      });
    if (!file)
      throw new BqError('ARGUMENT', `no cached file has the key ${key}`, {
        hint: 'list() returns the keys',
        details: { param: 'key' },
      });
  }

  async close() {
    for (const entry of [...this.#entries]) await entry.close();
    await this.#written;
    this.#channel?.close();
    this.#backend.close();
  }

  /** Returns the metadata and marks of a file; null if they are missing or invalid. @param {string} key */
  async #get(key) {
    const file = await this.#backend.get(key);
    const { url, fileBytes = 0, prefixBytes = 0 } = file?.about ?? {};
    return typeof url === 'string' &&
      key.endsWith(`-${prefixBytes}-${fileBytes}`) &&
      prefixBytes > 0 &&
      prefixBytes <= fileBytes
      ? file
      : null;
  }

  /**
   * Reads the metadata of files. Throws STORAGE.
   * @param {(file: { marks: Marks }, key: string) => boolean} [isWanted]  selects files
   * @returns {Promise<StoredFile[]>}
   */
  async #loadFiles(isWanted) {
    const keys = await this.#keys().catch((error) => {
      throw toStorageError(error, `the ${this.backend} store can't be read`);
    });
    // Another tab may delete a file meanwhile.
    const files = await Promise.all(keys.map((key) => this.#loadFile(key, isWanted).catch(() => null)));
    return files.filter((file) => file !== null);
  }

  /**
   * @param {string} key @param {(file: { marks: Marks }, key: string) => boolean} [isWanted]
   * @returns {Promise<StoredFile | null>}
   */
  async #loadFile(key, isWanted = () => true) {
    const stored = await this.#get(key);
    if (!stored || !isWanted(stored, key)) return null;
    const { about, marks } = stored;
    const space = await this.#backend.open(key, about);
    const hashes = await space.scan();
    await space.close();
    let cachedBytes = 0;
    for (const index of hashes.keys()) {
      if (isState(index)) hashes.delete(index);
      else cachedBytes += lengthOf(about, index);
    }
    const { url, name, fileId, fileBytes } = about;
    const complete = hashes.has(PREFIX) && hashes.size === chunksOf(about) + 1;
    return {
      key,
      url,
      name,
      fileId,
      fileBytes,
      cachedBytes,
      complete,
      pinned: marks.has('pinned'),
      lastUsed: marks.get('used') ?? 0,
      about,
      marks,
      hashes,
    };
  }

  /** Deletes a file. @param {string} key @returns {Promise<boolean>}  false if the file is in use */
  async #remove(key) {
    const release = await lock(this.#host.lockName(key, 'use'));
    if (!release) return false;
    try {
      const processLock = this.#backend.lock ? await this.#backend.lock(key) : async () => {};
      if (!processLock) return false;
      await this.#backend.remove(key).finally(processLock);
      return true;
    } finally {
      await release();
    }
  }

  /** Returns the browser's estimate of the storage; empty if there is none. @returns {Promise<StorageEstimate>} */
  async #estimate() {
    if (isNode || this.backend === 'memory') return {};
    return (await this.#callStorage('estimate')) ?? {};
  }

  /**
   * Calls a method of navigator.storage. A method that does not respond in time is not called again.
   * @param {'estimate' | 'persisted'} method @returns {Promise<any>}  undefined without an answer
   */
  async #callStorage(method) {
    if (this.#unresponsive.has(method)) return undefined;
    const answer = (async () => globalThis.navigator?.storage?.[method]?.())().catch(() => undefined);
    return within('storeOpen', answer).catch(() => void this.#unresponsive.add(method));
  }

  /**
   * Deletes the least recently used files until a file has enough room. Deletes nothing if deleting all of them would
   * not be enough.
   * @param {string} key  the file that needs room
   * @param {number} bytes
   * @param {boolean} full  whether the browser has just rejected a write
   * @returns {Promise<boolean>}  whether writing can be tried
   */
  async #makeRoom(key, bytes, full) {
    const { usage = 0, quota = Infinity } = await this.#estimate();
    if (!full && this.#maxBytes === Infinity && bytes <= quota - usage) return true;
    const files = await this.#loadFiles();
    const excessBytes = bytes - (this.#maxBytes - sum(files)); // beyond `maxBytes`
    const candidates = files
      .filter((file) => file.key !== key && !file.pinned && file.cachedBytes > 0)
      .sort((a, b) => a.lastUsed - b.lastUsed);
    let neededBytes = full ? bytes : Math.max(excessBytes, bytes - (quota - usage));
    // The browser's estimate is inexact. If deleting all files would not satisfy it, only `maxBytes` prevents an
    // attempt.
    if (sum(candidates) < neededBytes) neededBytes = full ? Infinity : excessBytes;
    if (sum(candidates) < neededBytes) return false;
    let freed = 0;
    for (const file of candidates) {
      if (freed >= neededBytes) break;
      if (await this.#remove(file.key).catch(() => false)) freed += file.cachedBytes;
    }
    return full ? freed > 0 : freed >= excessBytes;
  }
}

/** Checks of the options of a store. */
const OPTION_CHECKS = {
  backend: oneOf('auto', ...BACKENDS.map(([kind]) => kind)),
  maxBytes: number(0),
  name: kind('letters, digits, spaces, ".", "_" and "-"', (v) => !text(v) && STORE_NAME.test(v)),
  path: kind('a folder', (v) => !text(v) && v),
  stallTimeout: milliseconds,
  crossOrigin: flag,
  hash: callback,
  sha256: callback,
};

/** Returns the number of cached bytes of files. @param {StoredFile[]} files */
const sum = (files) => files.reduce((bytes, file) => bytes + file.cachedBytes, 0);

/**
 * Opens the best available store. If no backend is available, returns a store that stores nothing. Throws ARGUMENT, and
 * STORAGE if a backend is requested by its name and is not available.
 * @param {StoreOptions} [options]
 * @returns {Promise<Store>}
 */
export async function openStore(options = {}) {
  const {
    backend: requested = 'auto',
    maxBytes = Infinity,
    name = 'models',
  } = checkBy(OPTION_CHECKS, 'cache', options);
  const reasons = [];
  const hasSha256 = options.sha256 || globalThis.crypto?.subtle;
  if (!hasSha256) reasons.push('SHA-256 requires a secure context');
  for (const [kind, open] of hasSha256 ? BACKENDS : []) {
    if (requested === 'auto' ? kind === 'memory' || (kind === 'file') !== isNode : requested !== kind) continue;
    try {
      return new Store(
        await within('storeOpen', open({ ...options, name })),
        reasons.join('; '),
        { ...options, name },
        maxBytes,
      );
    } catch (error) {
      if (/** @type {any} */ (error).code === 'ARGUMENT') throw error;
      reasons.push(`${kind}: ${/** @type {Error} */ (error).message}`);
    }
  }
  if (requested !== 'auto') throw new BqError('STORAGE', `no storage of this kind: ${reasons.join('; ') || requested}`);
  const { openMemory } = await onDemand(import('./memory.js'));
  return new Store(openMemory(name), reasons.join('; '), { ...options, name }, 0);
}

/**
 * Opens the store that an option describes: 'auto', the path of a folder (Node), or options of `openStore`. Throws
 * STORAGE, ARGUMENT.
 * @param {'auto' | string | StoreOptions} option
 * @param {StoreOptions} defaults
 */
export function toStore(option, defaults) {
  if (typeof option === 'object' && !(option instanceof URL)) return openStore({ ...defaults, ...option });
  return openStore(option === 'auto' ? defaults : { ...defaults, path: String(option) });
}
