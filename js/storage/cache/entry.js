/**
 * An open file of the cache. The tab that holds its write lock downloads and writes; other tabs read the chunks that it
 * has stored, and one of them becomes the writer when that tab ends. Errors never reach a load: a failed write sets
 * `problem`, and a chunk that can't be read counts as missing.
 */
import { BqError } from '../../shared/errors.js';
import { CHUNK_BYTES, u32 } from '../../shared/sections.js';
import { keepAhead } from './early-write.js';
import { chunksOf, lengthOf, PREFIX, STATE_BYTES, stateIndex } from './layout.js';
import { lock } from './locks.js';

/** @import { FileMetadata, Backend, EntryOptions, ChunkStorage } from './types.js' */

/**
 * The parts of the store that an entry uses.
 * @typedef {object} Host
 * @property {Backend} backend
 * @property {(key: string, kind: 'use' | 'write' | 'make') => string} lockName
 * @property {(key: string, bytes: number, full: boolean) => Promise<boolean>} makeRoom  deletes the least recently
 *   used files, unless deleting all of them would not be enough. `full`: whether the browser has just rejected a write
 * @property {((bytes: Uint8Array) => bigint | Promise<bigint>) | undefined} hash
 * @property {number} stallTimeout
 * @property {(notice: Notice) => void} broadcast  sends a notice to the entries of this tab and of other tabs
 * @property {(entry: Entry) => void} forget
 */
/**
 * A written or dropped chunk.
 * @typedef {{ key: string, index: number, hash: bigint | null | undefined }} Notice  undefined: dropped
 */

/** Milliseconds between reads of the journal, in case notices of another tab or process do not arrive. */
const POLL_MS = 500;

/**
 * Returns the error for a failed write: QUOTA or STORAGE.
 * @param {unknown} cause @param {FileMetadata} about @returns {BqError}
 */
function problemOf(cause, { name, fileBytes }) {
  if (cause instanceof BqError) return cause;
  const error = /** @type {any} */ (cause);
  const isFull = error?.name === 'QuotaExceededError' || error?.code === 'ENOSPC' || error?.code === 'EDQUOT';
  const details = { fileBytes };
  if (isFull)
    return new BqError('QUOTA', `storage is full: ${name} needs ${fileBytes} bytes`, {
      cause,
      details,
    });
  return new BqError('STORAGE', `${name} can't be stored in the cache: ${error?.message ?? cause}`, { cause, details });
}

export class Entry {
  /** The reason why nothing more is stored, or null. Stored chunks stay usable. @type {BqError | null} */
  problem = null;
  #host;
  #metadata;
  #expected;
  /** @type {ChunkStorage | null} */
  #space = null;
  /** @type {Map<number, bigint | null>} */
  #hashes = new Map();
  /** Damaged chunks that were not written again. @type {Set<number>} */
  #damagedChunks = new Set();
  /**
   * Chunks that were damaged although their bytes had the recorded hash: the hash is not trusted again.
   * @type {Set<number>}
   */
  #suspectChunks = new Set();
  /** @type {Promise<void> | undefined} */
  #markedUsed;
  /** Releases the lock against deletion. @type {() => Promise<void>} */
  #releaseUse = async () => {};
  /** Releases the write lock; null if this tab is not the writer. @type {(() => Promise<void>) | null} */
  #releaseWrite = null;
  /** Time of the last change by another tab. */
  #lastProgress = 0;
  /** A running wait for the write lock. @type {Promise<void> | null} */
  #pendingClaim = null;
  #lifetime = new AbortController();
  /** Called at every change. @type {Set<() => void>} */
  #waiters = new Set();
  /** Operations of the space, one after another. @type {Promise<unknown>} */
  #lastOperation = Promise.resolve();

  /** @param {Host} host @param {string} key @param {FileMetadata} metadata @param {EntryOptions} options */
  constructor(host, key, metadata, { hashes }) {
    this.#host = host;
    this.#metadata = metadata;
    this.#expected = hashes ?? null;
    this.key = key;
    /** Number of chunks of the file. Chunk c begins at offset `prefixBytes + c · 1 MiB`. */
    this.chunks = chunksOf(metadata);
  }

  /**
   * Opens the entry; called once, by the store.
   * @param {() => Promise<{ about: FileMetadata, touched: Promise<void> }>} prepare  creates the file if it is missing; the
   *   file can't be deleted meanwhile, nor before `touched` has settled
   */
  async start(prepare) {
    try {
      const { fileBytes, prefixBytes } = this.#metadata;
      if (!(Number.isSafeInteger(fileBytes) && prefixBytes > 0 && prefixBytes <= fileBytes))
        throw new BqError('STORAGE', `expected a file of known length, found ${fileBytes} bytes`, {
          details: { fileBytes, prefixBytes },
        });
      const { backend, lockName, stallTimeout } = this.#host;
      const signal = AbortSignal.timeout(stallTimeout); // a frozen tab may hold the lock for hours
      this.#releaseUse =
        (await lock(lockName(this.key, 'use'), { shared: true, wait: true, signal })) ?? this.#releaseUse;
      const { about, touched } = await this.#withRoom(prepare);
      this.#metadata = about;
      this.#markedUsed = touched;
      this.#space = await backend.open(this.key, this.#metadata);
      await this.#scan();
      if (!this.complete) await this.#claimWriteLock(false);
      if (this.#releaseWrite && !(await this.#host.makeRoom(this.key, this.#missingBytes(), false)))
        throw new BqError('QUOTA', `${this.#metadata.name} needs ${fileBytes} bytes, more than maxBytes of the cache`, {
          details: { fileBytes },
        });
    } catch (error) {
      this.#fail(error);
    }
    return this;
  }

  /** 'writer' if this tab downloads missing chunks, else 'reader'. */
  get role() {
    return this.#releaseWrite && !this.#pendingClaim ? 'writer' : 'reader';
  }

  get complete() {
    return this.#hashes.has(PREFIX) && this.#hashes.size === this.chunks + 1;
  }

  /** @param {number} c */
  has(c) {
    return this.#hashes.has(c);
  }

  /**
   * Returns the XXH64 that a chunk had when it was written; null if it is unknown.
   * @param {number} c @returns {bigint | null}
   */
  hash(c) {
    return this.#hashes.get(c) ?? null;
  }

  /**
   * Whether a chunk's bytes match the hash of the written bytes; true without a hash.
   * @param {number} c @param {Uint8Array} bytes
   */
  async intact(c, bytes) {
    const storedHash = this.hash(c);
    return storedHash === null || ((await this.#host.hash?.(bytes)) ?? storedHash) === storedHash;
  }

  /**
   * Reads a chunk; null if it can't be read (then `has` is false, too). The chunk was verified only when it was
   * written, so the caller must compare its hash, and `drop` it if it differs.
   * @param {number} c
   * @param {AbortSignal} [signal]
   * @param {Uint8Array<ArrayBufferLike>} [buffer]  at least as long as the chunk; may be in shared or wasm memory
   * @returns {Promise<Uint8Array<ArrayBufferLike> | null>}  the filled part of the buffer
   */
  async read(c, signal, buffer) {
    signal?.throwIfAborted();
    const length = lengthOf(this.#metadata, c);
    if (!this.has(c)) return null;
    const target = buffer ? buffer.subarray(0, length) : new Uint8Array(length);
    return (await this.#readInto(c, 0, target)) ? target : null;
  }

  /**
   * Reads a range of the file; null unless all of its bytes are stored.
   * @param {number} offset  in the file
   * @param {number} length
   * @param {AbortSignal} [signal]
   * @param {Uint8Array<ArrayBufferLike>} [buffer]
   * @returns {Promise<Uint8Array<ArrayBufferLike> | null>}
   */
  async readRange(offset, length, signal, buffer) {
    const { prefixBytes, fileBytes } = this.#metadata;
    if (offset < 0 || offset + length > fileBytes) return null;
    const target = buffer ? buffer.subarray(0, length) : new Uint8Array(length);
    for (let filled = 0; filled < length;) {
      signal?.throwIfAborted();
      const at = offset + filled - prefixBytes;
      const c = at < 0 ? PREFIX : Math.floor(at / CHUNK_BYTES);
      const from = at < 0 ? offset + filled : at % CHUNK_BYTES;
      const n = Math.min(lengthOf(this.#metadata, c) - from, length - filled);
      if (!this.has(c) || !(await this.#readInto(c, from, target.subarray(filled, filled + n)))) return null;
      filled += n;
    }
    return target;
  }

  /** @returns {Promise<Uint8Array<ArrayBufferLike> | null>} */
  readPrefix() {
    return this.read(PREFIX);
  }

  /**
   * Stores a verified chunk.
   * @param {number} c
   * @param {Uint8Array} bytes  unchanged until the promise resolves
   * @param {bigint | null} [hash]  its XXH64. Default: that in the file, or computed by the option `hash` of the store
   * @returns {Promise<boolean>}  whether the chunk is stored now
   */
  async write(c, bytes, hash) {
    if (this.has(c)) return true;
    if (!this.#space || this.problem || this.#lifetime.signal.aborted) return false;
    return this.#serial(async (space) => {
      try {
        if (this.has(c)) return true; // stored early
        if (bytes.length !== lengthOf(this.#metadata, c))
          throw new BqError(
            'ARGUMENT',
            `chunk ${c}: expected ${lengthOf(this.#metadata, c)} bytes, found ${bytes.length}`,
          );
        if (!this.#releaseWrite && !(await this.#claimWriteLock(false))) return false;
        const sum = hash ?? this.#expected?.[c] ?? (await this.#host.hash?.(bytes)) ?? null;
        await this.#withRoom(() => space.write(c, bytes, sum));
        this.#applyChange(c, sum);
        this.#host.broadcast({ key: this.key, index: c, hash: sum });
        if (this.complete) await this.#releaseWriter();
        return true;
      } catch (error) {
        this.#fail(error);
        return false;
      }
    }, false);
  }

  /**
   * Stores the state of the file's SHA-256 before a chunk, if this tab is the writer. To be called before the preceding
   * chunk is written.
   * @param {number} c @param {Uint8Array} state @returns {Promise<void>}
   */
  async writeHashState(c, state) {
    if (this.problem || !this.#releaseWrite) return;
    const bytes = new Uint8Array(STATE_BYTES);
    new DataView(bytes.buffer).setUint32(0, c, true);
    bytes.set(state, 8);
    await this.#serial(async (space) => {
      const hash = (await this.#host.hash?.(bytes)) ?? null;
      await this.#withRoom(() => space.write(stateIndex(c), bytes, hash)).catch((error) => this.#fail(error));
    }, undefined);
  }

  /**
   * Returns the state of the file's SHA-256 before a chunk; null if it is not stored.
   * @param {number} c @returns {Promise<Uint8Array | null>}
   */
  readHashState(c) {
    return this.#serial(async (space) => {
      const index = stateIndex(c);
      const bytes = new Uint8Array(STATE_BYTES);
      const storedHash = (await space.scan()).get(index);
      const isStored = storedHash !== undefined && (await space.read(index, 0, bytes, false).catch(() => false));
      if (!isStored || u32(bytes, 0) !== c) return null;
      return storedHash === null || (await this.#host.hash?.(bytes)) === storedHash ? bytes.subarray(8) : null;
    }, null);
  }

  /**
   * Also stores chunks that have arrived out of order and wait for their turn to be verified, until the entry is
   * closed.
   * @param {Parameters<typeof keepAhead>[1]} slots
   */
  keepAhead(slots) {
    if (this.#expected && this.#host.hash)
      keepAhead(this, slots, this.#expected, this.#host.hash, this.#lifetime.signal);
  }

  /** @param {Uint8Array} bytes @param {bigint | null} [hash] */
  writePrefix(bytes, hash) {
    return this.write(PREFIX, bytes, hash);
  }

  /**
   * Calls a function that writes; if storage is full, deletes other files and tries again.
   * @template T @param {() => Promise<T>} write @returns {Promise<T>}
   */
  async #withRoom(write) {
    for (let attemptsLeft = 0; ; attemptsLeft--) {
      try {
        return await write();
      } catch (error) {
        if (problemOf(error, this.#metadata).code !== 'QUOTA') throw error;
        // The storage of deleted files may be freed up to a second late.
        if (await this.#host.makeRoom(this.key, this.#missingBytes(), true)) attemptsLeft = 10;
        else if (attemptsLeft <= 0) throw error;
        else await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  }

  /** Removes a damaged chunk, or a prefix that is out of date, so that it can be written again. @param {number} c */
  async drop(c) {
    this.#applyChange(c, undefined);
    this.#damagedChunks.add(c);
    if (this.problem || (!this.#releaseWrite && (c !== PREFIX || !(await this.#claimWriteLock(false))))) return;
    await this.#serial((space) => this.#journalDamage(space), undefined);
  }

  /**
   * Waits until the tab that downloads this file has stored a chunk.
   * @param {number} c
   * @param {AbortSignal} [signal]
   * @returns {Promise<boolean>}  true: the chunk is stored. false: it won't be stored, so the caller must download it.
   *   Then it can try to write it, which fails as long as a stalled tab still has the write lock
   */
  async waitFor(c, signal) {
    this.#lastProgress ||= performance.now();
    while (!this.has(c)) {
      signal?.throwIfAborted();
      if (performance.now() - this.#lastProgress > this.#host.stallTimeout) return false;
      if (!this.#space || this.problem || this.#lifetime.signal.aborted || (this.#releaseWrite && !this.#pendingClaim))
        return false;
      this.#queueForWriteLock();
      await this.#waitForChange(signal);
    }
    return true;
  }

  /**
   * Returns the files with the chunks, usable while the entry is open; null if chunks are missing or the backend has no
   * files.
   */
  async parts() {
    if (!this.complete) return null;
    return this.#serial(async (space) => {
      await space.settle(); // a handle for writing would block readers
      return (await space.parts?.()) ?? null;
    }, null);
  }

  /** Pins the file, so that it is not deleted to make room for others. @param {boolean} [isOn] */
  async pin(isOn = true) {
    await this.#host.backend.mark(this.key, 'pinned', isOn).catch((error) => this.#fail(error));
  }

  async close() {
    if (this.#lifetime.signal.aborted) return;
    this.#lifetime.abort(new BqError('CLOSED', 'the entry was closed'));
    this.#wake();
    await this.#pendingClaim; // it may still hold the file's lock
    await this.#serial(async (space) => space.close().catch(() => {}), undefined);
    this.#space = null;
    await this.#releaseWrite?.();
    this.#releaseWrite = null;
    await this.#markedUsed;
    await this.#releaseUse();
    this.#host.forget(this);
  }

  /** Handles a notice that another tab wrote or dropped a chunk. @param {Notice} notice */
  receiveNotice({ index, hash }) {
    if (this.#releaseWrite) return;
    this.#applyChange(index, hash);
  }

  /**
   * Records a change of a chunk.
   * @param {number} c @param {bigint | null | undefined} hash  undefined: the chunk was dropped
   */
  #applyChange(c, hash) {
    const expected = this.#expected?.[c];
    if (hash === undefined || (hash !== null && expected !== undefined && expected !== hash)) this.#hashes.delete(c);
    else if (!this.#hashes.has(c)) {
      this.#hashes.set(c, hash);
      this.#lastProgress = performance.now();
    }
    if (hash !== undefined) this.#damagedChunks.delete(c);
    this.#wake();
  }

  #wake() {
    for (const wake of [...this.#waiters]) wake();
  }

  /**
   * Waits for the next change; after POLL_MS without one, reads the journal.
   * @param {AbortSignal} [signal] @returns {Promise<void>}
   */
  #waitForChange(signal) {
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer);
        this.#waiters.delete(end);
        signal?.removeEventListener('abort', abort);
        resolve();
      };
      const abort = () => {
        end();
        reject(signal?.reason);
      };
      const timer = setTimeout(
        () =>
          this.#scan()
            .catch(() => {})
            .then(end),
        POLL_MS,
      );
      this.#waiters.add(end);
      signal?.addEventListener('abort', abort);
    });
  }

  /** Reads the journal. */
  #scan() {
    return this.#serial(async (space) => {
      const storedHashes = await space.scan();
      for (const c of this.#hashes.keys()) if (!storedHashes.has(c)) this.#hashes.delete(c);
      for (const [c, hash] of storedHashes)
        if ((c < this.chunks || c === PREFIX) && !this.#damagedChunks.has(c)) this.#applyChange(c, hash);
    }, undefined);
  }

  /** @param {number} c @param {number} from @param {Uint8Array<ArrayBufferLike>} target */
  #readInto(c, from, target) {
    return this.#serial(async (space) => {
      const isStored = await space.read(c, from, target, !!this.#releaseWrite || this.complete).catch(() => false);
      if (!isStored) this.#hashes.delete(c);
      return isStored;
    }, false);
  }

  /**
   * Runs an operation of the space after the earlier ones.
   * @template T @param {(space: ChunkStorage) => Promise<T>} work @param {T} otherwise  result if no space is open
   * @returns {Promise<T>}
   */
  #serial(work, otherwise) {
    const next = this.#lastOperation.then(() => (this.#space ? work(this.#space) : otherwise));
    this.#lastOperation = next.catch(() => {});
    return next;
  }

  #missingBytes() {
    let missingBytes = this.#hashes.has(PREFIX) ? 0 : this.#metadata.prefixBytes;
    for (let c = 0; c < this.chunks; c++) if (!this.#hashes.has(c)) missingBytes += lengthOf(this.#metadata, c);
    return missingBytes;
  }

  /** Takes the write lock if it is free, or with `wait` when it becomes free. @param {boolean} wait */
  async #claimWriteLock(wait) {
    const { backend, lockName } = this.#host;
    const { signal } = this.#lifetime;
    for (;;) {
      const webLock = await lock(lockName(this.key, 'write'), wait ? { wait, signal } : {});
      const processLock = webLock && (backend.lock ? await backend.lock(this.key).catch(() => () => {}) : () => {});
      if (webLock && processLock && !signal.aborted && !this.problem && !this.#releaseWrite) {
        this.#releaseWrite = async () => {
          await processLock();
          await webLock();
        };
        return true;
      }
      await processLock?.();
      await webLock?.();
      if (!wait || signal.aborted || this.problem || this.#releaseWrite) return false;
      await this.#waitForChange(signal);
    }
  }

  /** Waits for the write lock in the background: this tab becomes the writer when the current writer ends. */
  #queueForWriteLock() {
    if (this.#pendingClaim || this.#releaseWrite) return;
    this.#pendingClaim = this.#claimWriteLock(true)
      .then(async (won) => {
        if (!won) return;
        await this.#serial((space) => this.#journalDamage(space), undefined);
        await this.#scan();
        if (this.complete) await this.#serial(() => this.#releaseWriter(), undefined);
      })
      .catch((error) => this.#fail(error))
      .finally(() => {
        this.#pendingClaim = null;
        this.#wake();
      });
  }

  /** Records damaged chunks in the journal, unless they were repaired meanwhile. @param {ChunkStorage} space */
  async #journalDamage(space) {
    const { hash, broadcast } = this.#host;
    try {
      for (const index of this.#damagedChunks) {
        const bytes = new Uint8Array(lengthOf(this.#metadata, index));
        const recordedHash =
          hash && index !== PREFIX && !this.#suspectChunks.has(index) && (await space.scan()).get(index);
        this.#suspectChunks.add(index);
        if (
          typeof recordedHash === 'bigint' &&
          (await space.read(index, 0, bytes, true)) &&
          (await hash?.(bytes)) === recordedHash
        ) {
          this.#damagedChunks.delete(index);
          this.#applyChange(index, recordedHash);
          continue;
        }
        await space.drop(index);
        broadcast({ key: this.key, index, hash: undefined });
      }
      this.#damagedChunks.clear();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Releases the write lock, after the files are closed. */
  async #releaseWriter() {
    await this.#space?.settle().catch(() => {});
    await this.#releaseWrite?.();
    this.#releaseWrite = null;
  }

  /** Sets `problem`: nothing more is stored. @param {unknown} error */
  #fail(error) {
    if (this.#lifetime.signal.aborted) return;
    this.problem ??= problemOf(error, this.#metadata);
    this.#lastOperation = this.#lastOperation.then(() => this.#releaseWriter());
    this.#wake();
  }
}
