/** The cache of model files: what was downloaded once is there the next time, as far as it got. */
import { BqError, onDemand } from '../../shared/errors.js';
import { nameOf } from '../sources/file-name.js';
import { isNode } from '../../shared/node.js';
import { follow } from '../../shared/async.js';
import { within } from '../../shared/timeouts.js';
import { Entry } from './entry.js';
import { chunksOf, lengthOf, PREFIX } from './layout.js';
import { lock } from './locks.js';
import { hex } from '../../shared/hex.js';

/** @import { About, Backend, BackendName, EntryOptions, Found, Listed, Marks, StoreOptions, Usage } from './types.js' */
/** @import { Host, Notice } from './entry.js' */

/** @typedef {Listed & { about: About, marks: Marks, have: Map<number, bigint | null> }} Known */

/** Best first. Each rejects where it doesn't work. @type {[BackendName, (options: StoreOptions & { name: string }) => Promise<Backend>][]} */
const BACKENDS = [
  [
    'file',
    async ({ name, path }) => {
      if (!isNode) throw new Error('only in Node');
      if (!path) throw new Error('no path of a folder was given');
      return (await onDemand(import('./node-folder.js'))).openFiles(name, path);
    },
  ],
  [
    'opfs',
    async ({ name }) => {
      if (!globalThis.navigator?.storage?.getDirectory) throw new Error('not in this browser or on this kind of page');
      return (await onDemand(import('./opfs.js'))).openOpfs(name);
    },
  ],
  ['cache', async ({ name }) => (await onDemand(import('./cache-api.js'))).openCache(name)],
  ['indexeddb', async ({ name }) => (await onDemand(import('./indexeddb.js'))).openIndexedDb(name)],
  ['memory', async ({ name }) => (await onDemand(import('./memory.js'))).openMemory(name)],
];

/** Hexadecimal digits of a SHA-256 in names of files and marks: nobody finds another text with the same 128 bits. */
const DIGITS = 32;
/** Keys that a store hands out: an identity (16 digits: of an older layout), the length of the prefix, that of the file. */
const KEY = /^([0-9a-f]{16}){1,2}-\d+-\d+$/;
/** Names of stores: one folder, database or cache each. */
const STORE_NAME = /^[A-Za-z0-9][\w .-]*$/;

/** An address without its fragment, which no server sees. @param {string} url */
const addressOf = (url) => url.split('#')[0];

/** An address without what signatures change: those of one file differ in their query. @param {string} url */
const placeOf = (url) => addressOf(url).split('?')[0];

/** SHA-256 by the browser, which has it in secure contexts only. @param {Uint8Array} bytes */
const platformSha256 = async (bytes) =>
  new Uint8Array(await crypto.subtle.digest('SHA-256', /** @type {Uint8Array<ArrayBuffer>} */ (bytes)));

/** Keys become names of folders: anything else would reach out of the store. ARGUMENT. @param {string} key */
function checkKey(key) {
  if (typeof key !== 'string' || !KEY.test(key))
    throw new BqError('ARGUMENT', `expected the key of a kept file, found ${JSON.stringify(key)}`, {
      hint: 'list() returns the keys',
      details: { param: 'key' },
    });
}

/** @param {unknown} cause @param {string} what */
const failure = (cause, what) =>
  cause instanceof BqError
    ? cause
    : new BqError('STORAGE', `${what}: ${/** @type {Error} */ (cause).message}`, { cause });

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

  /** @param {Backend} backend @param {string} reason @param {StoreOptions & { name: string }} options @param {number} maxBytes */
  constructor(backend, reason, { name, path, hash, sha256 = platformSha256, stallTimeout = 20_000 }, maxBytes) {
    /** Where the files are. @type {BackendName} */
    this.backend = backend.name;
    /** Why not in a better place; '' in the best. */
    this.reason = reason;
    /** Files that are whole can be read by others: `parts` of an entry. */
    this.pages = backend.name === 'opfs' || backend.name === 'file';
    this.#backend = backend;
    this.#sha256 = sha256;
    this.#maxBytes = maxBytes;
    this.#scope = `bq4-store/${backend.name}/${path ?? ''}/${name}`;
    if (typeof BroadcastChannel === 'function') {
      this.#channel = new BroadcastChannel(this.#scope);
      this.#channel.onmessage = ({ data }) => this.#hear(data);
      /** @type {any} */ (this.#channel).unref?.(); // Node would wait for it
    }
    /** @type {Host} */
    this.#host = {
      backend,
      hash,
      stallTimeout,
      lockName: (key, kind) => `${this.#scope}/${key}/${kind}`,
      makeRoom: (key, bytes, full) => this.#makeRoom(key, bytes, full),
      tell: (notice) => {
        this.#channel?.postMessage(notice);
        this.#hear(notice);
      },
      forget: (entry) => this.#entries.delete(entry),
    };
  }

  /** @param {Uint8Array | string} content @returns {Promise<string>} */
  async #digest(content) {
    const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
    return hex(await this.#sha256(bytes)).slice(0, DIGITS);
  }

  /** The mark of an address. @param {string} url */
  #markOf = async (url) => `at-${await this.#digest(addressOf(url))}`;

  /**
   * What tells a file from all others. Nothing that a file says of itself will do: its author could choose what another one says.
   * A prefix with SHA-256 hashes stands for all bytes of its file, wherever it comes from; any other for those at its place alone.
   * @param {EntryOptions} file
   */
  async #keyOf({ url, prefix, sealed, fileBytes, prefixBytes }) {
    const content = await this.#digest(prefix);
    const identity = sealed ? content : await this.#digest(`${placeOf(url)}\n${content}`);
    return `${identity}-${prefixBytes}-${fileBytes}`;
  }

  /** The keys of what this store made; anything else in its place is left alone. */
  async #keys() {
    return (await this.#backend.keys()).filter((key) => KEY.test(key));
  }

  /** @param {Notice} notice */
  #hear(notice) {
    for (const entry of this.#entries) if (entry.key === notice.key) entry.heard(notice);
  }

  /** What is here. STORAGE. @returns {Promise<Listed[]>} */
  async list() {
    const known = await this.#known();
    return known.filter(({ cachedBytes }) => cachedBytes > 0).map(({ about, marks, have, ...listed }) => listed);
  }

  /**
   * Bytes kept here, and what the browser says of the whole origin.
   * @returns {Promise<Usage>}
   */
  async usage() {
    const known = await this.#known();
    const { usage = 0, quota = 0 } = await this.#estimate();
    const persisted = (await globalThis.navigator?.storage?.persisted?.().catch(() => false)) ?? false;
    return { files: known.length, cachedBytes: sum(known), usage, quota, maxBytes: this.#maxBytes, persisted };
  }

  /**
   * The newest file that came from this address, without asking the network. Null: none, or not its first bytes.
   * @param {string} url
   * @returns {Promise<Found | null>}
   */
  async find(url) {
    if (this.#maxBytes === 0) return null;
    const mark = await this.#markOf(url);
    const date = (/** @type {Known} */ { marks }) => marks.get(mark) ?? 0;
    const known = (await this.#known(({ marks }) => marks.has(mark)).catch(() => [])).filter((file) =>
      file.have.has(PREFIX),
    );
    for (const { key, about, have, cachedBytes, complete } of known.sort((a, b) => date(b) - date(a))) {
      const prefix = new Uint8Array(about.prefixBytes);
      const prefixHash = have.get(PREFIX) ?? null;
      const space = await this.#backend.open(key, about);
      const there = await space.read(PREFIX, 0, prefix, false).catch(() => false);
      await space.close();
      const { hash } = this.#host;
      if (!there || (hash && prefixHash !== null && (await hash(prefix)) !== prefixHash)) continue;
      const { fileId, fileBytes, prefixBytes } = about;
      return { key, fileId, fileBytes, prefixBytes, prefix, prefixHash, cachedBytes, complete };
    }
    return null;
  }

  /**
   * The turn to fetch the beginning of a file that isn't here, which one at a time has, in all tabs.
   * @param {string} url
   * @param {AbortSignal} [signal]
   * @returns {Promise<import('./locks.js').Release | null>}  ends it. Null: nothing is kept here, or who has it makes one wait
   *   too long
   */
  async turn(url, signal) {
    if (this.#maxBytes === 0) return null;
    const { controller, signal: enough, release } = follow(signal);
    const timer = setTimeout(() => controller.abort(), this.#host.stallTimeout);
    try {
      return await lock(this.#host.lockName(addressOf(url), 'make'), { wait: true, signal: enough });
    } catch {
      signal?.throwIfAborted();
      return null;
    } finally {
      clearTimeout(timer);
      release();
    }
  }

  /**
   * Opens a file, and makes it when it isn't there. Never rejects: look at `problem`.
   * @param {EntryOptions} options
   * @returns {Promise<Entry>}  the caller's to close; until then nobody can delete the file
   */
  async open(options) {
    const { url, fileBytes, prefixBytes } = options;
    const fileId = typeof options.fileId === 'string' ? options.fileId : hex(Uint8Array.from(options.fileId ?? []));
    /** @type {unknown} */
    let failed;
    const key = await this.#keyOf(options).catch((error) => ((failed = error), ''));
    const about = { url, name: nameOf(url), fileId, fileBytes, prefixBytes };
    const entry = new Entry(this.#host, key, about, options);
    this.#entries.add(entry);
    return entry.start(async () => {
      if (failed) throw failed;
      // One at a time: browsers that restore a session open many tabs at once.
      const release = await lock(this.#host.lockName(key, 'make'), { wait: true });
      try {
        return await this.#prepare(key, about);
      } finally {
        await release?.();
      }
    });
  }

  /** @param {string} key @param {About} about @returns {ReturnType<Parameters<Entry['start']>[0]>} */
  async #prepare(key, about) {
    if (this.#maxBytes === 0) throw new BqError('STORAGE', `nothing is kept: ${this.reason}`);
    const found = await this.#get(key);
    const mark = await this.#markOf(about.url);
    const known = found?.about ?? (await this.#backend.create(key, about)) ?? about;
    const marked = found?.marks.has(mark) ? null : this.#backend.mark(key, mark, true);
    // Nobody has to wait for this one.
    const touched = this.#backend.mark(key, 'used', true).catch(() => {});
    await Promise.all(found ? [marked] : [marked, touched, this.#tidy(key, mark)]);
    return { about: known, touched };
  }

  /**
   * Makes place for a new file: of another one at its address, which would never be asked for again, and of files
   * without a single byte, which somebody who was killed or refused has left.
   * @param {string} key @param {string} mark  of the new file
   */
  async #tidy(key, mark) {
    const known = new Map((await this.#known((_, other) => other !== key)).map((file) => [file.key, file]));
    for (const old of await this.#keys()) {
      const file = known.get(old);
      const useless = !file?.have.size || (file.marks.has(mark) && !file.pinned);
      if (old !== key && useless) await this.#remove(old).catch(() => false);
    }
  }

  /** ARGUMENT, IN_USE, STORAGE. @param {string} key */
  async delete(key) {
    checkKey(key);
    const removed = await this.#remove(key).catch((error) => {
      throw failure(error, `${key} can't be deleted`);
    });
    if (!removed) throw new BqError('IN_USE', `${key} is in use, here or in another tab`);
  }

  /** Deletes all that is not in use. IN_USE: something was, the rest is gone. */
  async clear() {
    let first;
    for (const key of await this.#keys()) await this.delete(key).catch((error) => (first ??= error));
    if (first) throw first;
  }

  /** A pinned file is only deleted on request. ARGUMENT, STORAGE. @param {string} key @param {boolean} [on] */
  async pin(key, on = true) {
    checkKey(key);
    const found = await this.#get(key)
      .then((file) => file && this.#backend.mark(key, 'pinned', on).then(() => file))
      .catch((error) => {
        throw failure(error, `${key} can't be pinned`);
      });
    if (!found)
      throw new BqError('ARGUMENT', `no file is kept under the key ${key}`, {
        hint: 'list() returns the keys',
        details: { param: 'key' },
      });
  }

  async close() {
    for (const entry of [...this.#entries]) await entry.close();
    this.#channel?.close();
    this.#backend.close();
  }

  /** What is known of a file; null: nothing that makes sense. @param {string} key */
  async #get(key) {
    const found = await this.#backend.get(key);
    const { url, fileBytes = 0, prefixBytes = 0 } = found?.about ?? {};
    return typeof url === 'string' && Number.isSafeInteger(fileBytes) && prefixBytes > 0 && prefixBytes <= fileBytes
      ? found
      : null;
  }

  /** @param {(file: { marks: Marks }, key: string) => boolean} [wanted]  what is looked at @returns {Promise<Known[]>} */
  async #known(wanted) {
    const keys = await this.#keys().catch((error) => {
      throw failure(error, `the ${this.backend} store can't be read`);
    });
    const all = [];
    for (const key of keys) {
      // One that another tab deletes meanwhile is no longer there.
      const known = await this.#look(key, wanted).catch(() => null);
      if (known) all.push(known);
    }
    return all;
  }

  /** @param {string} key @param {(file: { marks: Marks }, key: string) => boolean} [wanted] @returns {Promise<Known | null>} */
  async #look(key, wanted = () => true) {
    const found = await this.#get(key);
    if (!found || !wanted(found, key)) return null;
    const { about, marks } = found;
    const space = await this.#backend.open(key, about);
    const have = await space.scan();
    await space.close();
    let cachedBytes = 0;
    for (const index of have.keys()) cachedBytes += lengthOf(about, index);
    const { url, name, fileId, fileBytes } = about;
    const complete = have.has(PREFIX) && have.size === chunksOf(about) + 1;
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
      have,
    };
  }

  /** @param {string} key @returns {Promise<boolean>}  false: in use */
  async #remove(key) {
    const release = await lock(this.#host.lockName(key, 'use'));
    if (!release) return false;
    const other = this.#backend.lock ? await this.#backend.lock(key) : () => {};
    try {
      if (other) await this.#backend.remove(key);
      return !!other;
    } finally {
      await other?.();
      await release();
    }
  }

  /** @returns {Promise<StorageEstimate>} */
  async #estimate() {
    if (isNode || this.backend === 'memory') return {};
    return (await globalThis.navigator?.storage?.estimate?.().catch(() => ({}))) ?? {};
  }

  /**
   * @param {string} key  the file that needs room
   * @param {number} bytes
   * @param {boolean} full  the browser has just refused a write
   * @returns {Promise<boolean>}  false: can't be made, so nothing was deleted
   */
  async #makeRoom(key, bytes, full) {
    const { usage = 0, quota = Infinity } = await this.#estimate();
    if (!full && this.#maxBytes === Infinity && bytes <= quota - usage) return true;
    const known = await this.#known();
    const short = bytes - (this.#maxBytes - sum(known)); // beyond our own limit
    const others = known
      .filter((file) => file.key !== key && !file.pinned && file.cachedBytes > 0)
      .sort((a, b) => a.lastUsed - b.lastUsed);
    let need = full ? bytes : Math.max(short, bytes - (quota - usage));
    // An estimate is no promise: where all would not do, only our own limit is a reason not to try.
    if (sum(others) < need) need = full ? Infinity : short;
    if (sum(others) < need) return false;
    let freed = 0;
    for (const file of others) {
      if (freed >= need) break;
      if (await this.#remove(file.key).catch(() => false)) freed += file.cachedBytes;
    }
    return full ? freed > 0 : freed >= short;
  }
}

/** @param {Known[]} known */
const sum = (known) => known.reduce((bytes, file) => bytes + file.cachedBytes, 0);

/**
 * The best store that works here; in memory, keeping nothing, when none does. Rejects only for a backend that was
 * asked for by name: STORAGE.
 * @param {StoreOptions} [options]
 * @returns {Promise<Store>}
 */
export async function openStore(options = {}) {
  const { backend: wanted = 'auto', maxBytes = Infinity, name = 'models' } = options;
  if (!STORE_NAME.test(name))
    throw new BqError(
      'ARGUMENT',
      `cache.name: expected letters, digits, spaces, ".", "_" and "-", found ${JSON.stringify(name)}`,
      {
        details: { param: 'cache.name' },
      },
    );
  const reasons = [];
  const hashes = options.sha256 || globalThis.crypto?.subtle;
  if (!hashes) reasons.push('no SHA-256 without a secure context');
  for (const [kind, open] of hashes ? BACKENDS : []) {
    if (wanted === 'auto' ? kind === 'memory' || (kind === 'file') !== isNode : wanted !== kind) continue;
    try {
      return new Store(
        await within('storeOpen', open({ ...options, name })),
        reasons.join('; '),
        { ...options, name },
        maxBytes,
      );
    } catch (error) {
      reasons.push(`${kind}: ${/** @type {Error} */ (error).message}`);
    }
  }
  if (wanted !== 'auto') throw new BqError('STORAGE', `no storage of this kind: ${reasons.join('; ') || wanted}`);
  const { openMemory } = await onDemand(import('./memory.js'));
  return new Store(openMemory(name), reasons.join('; '), { ...options, name }, 0);
}

/**
 * The store that an option stands for: 'auto', the path of a folder (Node), or options of `openStore`. STORAGE.
 * @param {'auto' | string | StoreOptions} option
 * @param {StoreOptions} defaults
 */
export function toStore(option, defaults) {
  if (typeof option === 'object') return openStore({ ...defaults, ...option });
  return openStore(option === 'auto' ? defaults : { ...defaults, path: option });
}

/**
 * Asks the browser to keep the origin's storage even when space is short. On pages only, best after a click.
 * @returns {Promise<boolean>}  whether it will
 */
export async function askToPersist() {
  const storage = globalThis.navigator?.storage;
  return (
    (await storage?.persisted?.().catch(() => false)) || ((await storage?.persist?.().catch(() => false)) ?? false)
  );
}
