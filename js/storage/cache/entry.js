/**
 * One file in the store, open. Whoever holds its lock writes; others follow and take over when the writer ends.
 * Nothing here throws into a load: what can't be kept turns `problem` on, what can't be read is not there.
 */
import { BqError } from '../../shared/errors.js';
import { keepAhead } from './early-write.js';
import { CHUNK, chunksOf, lengthOf, PREFIX } from './layout.js';
import { lock } from './locks.js';

/** @import { About, Backend, EntryOptions, Space } from './types.js' */

/**
 * What an entry needs of its store.
 * @typedef {object} Host
 * @property {Backend} backend
 * @property {(key: string, kind: 'use' | 'write' | 'make') => string} lockName
 * @property {(key: string, bytes: number, full: boolean) => Promise<boolean>} makeRoom  deletes what was not used for
 *   longest, unless all of it would not be enough. `full`: the browser has just refused a write
 * @property {((bytes: Uint8Array) => bigint | Promise<bigint>) | undefined} hash
 * @property {number} stallTimeout
 * @property {(notice: Notice) => void} tell  other tabs
 * @property {(entry: Entry) => void} forget
 */
/** @typedef {{ key: string, index: number, hash: bigint | null | undefined }} Notice  undefined: dropped */

/** Milliseconds between looks at what another tab or process wrote, should its notices not arrive. */
const POLL_MS = 500;

/** @param {unknown} cause @param {About} about @returns {BqError} */
function problemOf(cause, { name, fileBytes }) {
  if (cause instanceof BqError) return cause;
  const error = /** @type {any} */ (cause);
  const full = error?.name === 'QuotaExceededError' || error?.code === 'ENOSPC' || error?.code === 'EDQUOT';
  const details = { fileBytes };
  if (full)
    return new BqError('QUOTA', `storage is full: not all ${fileBytes} bytes of ${name} can be kept`, {
      cause,
      details,
    });
  return new BqError('STORAGE', `${name} can't be kept: ${error?.message ?? cause}`, { cause, details });
}

export class Entry {
  /** Why nothing more is kept, or null. What is there stays usable. @type {BqError | null} */
  problem = null;
  #host;
  #about;
  #expected;
  /** @type {Space | null} */
  #space = null;
  /** @type {Map<number, bigint | null>} */
  #have = new Map();
  /** Found damaged, and not yet written again as far as we know. @type {Set<number>} */
  #damaged = new Set();
  /** Chunks whose bytes had the recorded hash and were damaged all the same: the hash is not trusted again. @type {Set<number>} */
  #suspect = new Set();
  /** @type {Promise<void> | undefined} */
  #touched;
  /** Ends the use lock. @type {() => Promise<void>} */
  #unuse = async () => {};
  /** Ends the write lock while it is held. @type {(() => Promise<void>) | null} */
  #unlock = null;
  /** When another tab last wrote something. */
  #progress = 0;
  /** A wait for the write lock, while it is under way. @type {Promise<void> | null} */
  #queued = null;
  #life = new AbortController();
  /** Called at every change. @type {Set<() => void>} */
  #waiting = new Set();
  /** Operations of the space, one after another. @type {Promise<unknown>} */
  #last = Promise.resolve();

  /** @param {Host} host @param {string} key @param {About} about @param {EntryOptions} options */
  constructor(host, key, about, { hashes }) {
    this.#host = host;
    this.#about = about;
    this.#expected = hashes ?? null;
    this.key = key;
    /** How many chunks the file has. Chunk c begins at `prefixBytes + c · 1 MiB`. */
    this.chunks = chunksOf(about);
  }

  /**
   * Called by the store, once.
   * @param {() => Promise<{ about: About, touched: Promise<void> }>} prepare  runs while nobody can delete the file;
   *   `touched` ends before others may
   */
  async start(prepare) {
    try {
      const { fileBytes, prefixBytes } = this.#about;
      if (!(Number.isSafeInteger(fileBytes) && prefixBytes > 0 && prefixBytes <= fileBytes))
        throw new BqError('STORAGE', `a file of unknown length can't be kept`, {
          details: { fileBytes, prefixBytes },
        });
      const { backend, lockName } = this.#host;
      this.#unuse = (await lock(lockName(this.key, 'use'), { shared: true, wait: true })) ?? this.#unuse;
      const { about, touched } = await prepare();
      this.#about = about;
      this.#touched = touched;
      this.#space = await backend.open(this.key, this.#about);
      await this.#scan();
      if (!this.complete) await this.#claim(false);
      if (this.#unlock && !(await this.#host.makeRoom(this.key, this.#missingBytes(), false)))
        throw new BqError('QUOTA', `${this.#about.name} needs ${fileBytes} bytes, more than this store may take`, {
          details: { fileBytes },
        });
    } catch (error) {
      this.#fail(error);
    }
    return this;
  }

  /** 'writer': who fetches what is missing, and knows what is. */
  get role() {
    return this.#unlock && !this.#queued ? 'writer' : 'reader';
  }

  get complete() {
    return this.#have.has(PREFIX) && this.#have.size === this.chunks + 1;
  }

  /** @param {number} c */
  has(c) {
    return this.#have.has(c);
  }

  /** XXH64 of the chunk when it was written, to compare with. @param {number} c @returns {bigint | null} */
  hash(c) {
    return this.#have.get(c) ?? null;
  }

  /** Whether a chunk's bytes are those that were written, as far as their hash tells. @param {number} c @param {Uint8Array} bytes */
  async intact(c, bytes) {
    const kept = this.hash(c);
    return kept === null || ((await this.#host.hash?.(bytes)) ?? kept) === kept;
  }

  /**
   * A chunk; null when it isn't there after all (then `has` is false too). It was whole when it was written: compare
   * its hash, and `drop` it when it differs.
   * @param {number} c
   * @param {AbortSignal} [signal]
   * @param {Uint8Array<ArrayBufferLike>} [into]  at least as long as the chunk; may lie in shared or wasm memory
   * @returns {Promise<Uint8Array<ArrayBufferLike> | null>}  the part of `into` that was filled
   */
  async read(c, signal, into) {
    signal?.throwIfAborted();
    const length = lengthOf(this.#about, c);
    if (!this.has(c)) return null;
    const target = into ? into.subarray(0, length) : new Uint8Array(length);
    return (await this.#fill(c, 0, target)) ? target : null;
  }

  /**
   * Any bytes of the file, null unless all of them are there.
   * @param {number} offset  in the file
   * @param {number} length
   * @param {AbortSignal} [signal]
   * @param {Uint8Array<ArrayBufferLike>} [into]
   * @returns {Promise<Uint8Array<ArrayBufferLike> | null>}
   */
  async readRange(offset, length, signal, into) {
    const { prefixBytes, fileBytes } = this.#about;
    if (offset < 0 || offset + length > fileBytes) return null;
    const target = into ? into.subarray(0, length) : new Uint8Array(length);
    for (let done = 0; done < length;) {
      signal?.throwIfAborted();
      const at = offset + done - prefixBytes;
      const c = at < 0 ? PREFIX : Math.floor(at / CHUNK);
      const from = at < 0 ? offset + done : at % CHUNK;
      const n = Math.min(lengthOf(this.#about, c) - from, length - done);
      if (!this.has(c) || !(await this.#fill(c, from, target.subarray(done, done + n)))) return null;
      done += n;
    }
    return target;
  }

  /** @returns {Promise<Uint8Array<ArrayBufferLike> | null>} */
  readPrefix() {
    return this.read(PREFIX);
  }

  /**
   * Keeps a chunk that was verified.
   * @param {number} c
   * @param {Uint8Array} bytes  unchanged until the promise resolves
   * @param {bigint | null} [hash]  its XXH64. Default: as the file or the store's `hash` says
   * @returns {Promise<boolean>}  whether it is kept now
   */
  async write(c, bytes, hash) {
    if (this.has(c)) return true;
    if (!this.#space || this.problem || this.#life.signal.aborted) return false;
    return this.#serial(async (space) => {
      try {
        if (this.has(c)) return true; // ahead of its turn
        if (bytes.length !== lengthOf(this.#about, c))
          throw new BqError('ARGUMENT', `chunk ${c} has ${lengthOf(this.#about, c)} bytes, not ${bytes.length}`);
        if (!this.#unlock && !(await this.#claim(false))) return false;
        const sum = hash ?? this.#expected?.[c] ?? (await this.#host.hash?.(bytes)) ?? null;
        await this.#keep(space, c, bytes, sum);
        this.#changed(c, sum);
        this.#host.tell({ key: this.key, index: c, hash: sum });
        if (this.complete) await this.#release();
        return true;
      } catch (error) {
        this.#fail(error);
        return false;
      }
    }, false);
  }

  /** Until it is closed, keeps also what waits for its turn to be verified. @param {Parameters<typeof keepAhead>[1]} slots */
  keepAhead(slots) {
    if (this.#expected && this.#host.hash) keepAhead(this, slots, this.#expected, this.#host.hash, this.#life.signal);
  }

  /** @param {Uint8Array} bytes @param {bigint | null} [hash] */
  writePrefix(bytes, hash) {
    return this.write(PREFIX, bytes, hash);
  }

  /** @param {Space} space @param {number} c @param {Uint8Array} bytes @param {bigint | null} hash */
  async #keep(space, c, bytes, hash) {
    for (let retries = 0; ; retries--) {
      try {
        return await space.write(c, bytes, hash);
      } catch (error) {
        if (problemOf(error, this.#about).code !== 'QUOTA') throw error;
        // What was deleted may take a moment to count as free.
        if (await this.#host.makeRoom(this.key, this.#missingBytes(), true)) retries = 10;
        else if (retries <= 0) throw error;
        else await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  }

  /** Says that a chunk is damaged, or the prefix no longer its address's: it isn't there any more, and can be written again. @param {number} c */
  async drop(c) {
    this.#changed(c, undefined);
    this.#damaged.add(c);
    if (this.problem || (!this.#unlock && (c !== PREFIX || !(await this.#claim(false))))) return;
    await this.#serial((space) => this.#journalDamage(space), undefined);
  }

  /**
   * Waits for whoever is fetching this file.
   * @param {number} c
   * @param {AbortSignal} [signal]
   * @returns {Promise<boolean>}  true: the chunk is there. false: it won't come, fetch it yourself (and write it: that
   *   is refused while another tab has stalled but not ended)
   */
  async waitFor(c, signal) {
    this.#progress ||= performance.now();
    while (!this.has(c)) {
      signal?.throwIfAborted();
      if (performance.now() - this.#progress > this.#host.stallTimeout) return false;
      if (!this.#space || this.problem || this.#life.signal.aborted || (this.#unlock && !this.#queued)) return false;
      this.#queue();
      await this.#change(signal);
    }
    return true;
  }

  /** Files that hold the chunks, for as long as this is open; null: not all are there, or there are no such files. */
  async parts() {
    if (!this.complete) return null;
    return this.#serial(async (space) => {
      await space.settle(); // a handle for writing would keep out those for reading
      return (await space.parts?.()) ?? null;
    }, null);
  }

  /** Keeps the file from being deleted to make room. @param {boolean} [on] */
  async pin(on = true) {
    await this.#host.backend.mark(this.key, 'pinned', on).catch((error) => this.#fail(error));
  }

  async close() {
    if (this.#life.signal.aborted) return;
    this.#life.abort(new BqError('CLOSED', 'the entry was closed'));
    this.#wake();
    await this.#queued; // it may hold the file's lock for a moment
    await this.#serial(async (space) => space.close().catch(() => {}), undefined);
    this.#space = null;
    await this.#unlock?.();
    this.#unlock = null;
    await this.#touched;
    await this.#unuse();
    this.#host.forget(this);
  }

  /** Another tab wrote or dropped a chunk. @param {Notice} notice */
  heard({ index, hash }) {
    if (this.#unlock) return;
    this.#changed(index, hash);
  }

  /** @param {number} c @param {bigint | null | undefined} hash */
  #changed(c, hash) {
    const expected = this.#expected?.[c];
    if (hash === undefined || (hash !== null && expected !== undefined && expected !== hash)) this.#have.delete(c);
    else if (!this.#have.has(c)) {
      this.#have.set(c, hash);
      this.#progress = performance.now();
    }
    if (hash !== undefined) this.#damaged.delete(c);
    this.#wake();
  }

  #wake() {
    for (const wake of [...this.#waiting]) wake();
  }

  /** The next change, or POLL_MS and a look at the journal. @param {AbortSignal} [signal] @returns {Promise<void>} */
  #change(signal) {
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer);
        this.#waiting.delete(end);
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
      this.#waiting.add(end);
      signal?.addEventListener('abort', abort);
    });
  }

  /** Takes what is written down for what is there. */
  #scan() {
    return this.#serial(async (space) => {
      const found = await space.scan();
      for (const c of this.#have.keys()) if (!found.has(c)) this.#have.delete(c);
      for (const [c, hash] of found)
        if ((c < this.chunks || c === PREFIX) && !this.#damaged.has(c)) this.#changed(c, hash);
    }, undefined);
  }

  /** @param {number} c @param {number} from @param {Uint8Array<ArrayBufferLike>} into */
  #fill(c, from, into) {
    return this.#serial(async (space) => {
      const there = await space.read(c, from, into, !!this.#unlock || this.complete).catch(() => false);
      if (!there) this.#have.delete(c);
      return there;
    }, false);
  }

  /** @template T @param {(space: Space) => Promise<T>} work @param {T} otherwise  without a space @returns {Promise<T>} */
  #serial(work, otherwise) {
    const next = this.#last.then(() => (this.#space ? work(this.#space) : otherwise));
    this.#last = next.catch(() => {});
    return next;
  }

  #missingBytes() {
    let missing = this.#have.has(PREFIX) ? 0 : this.#about.prefixBytes;
    for (let c = 0; c < this.chunks; c++) if (!this.#have.has(c)) missing += lengthOf(this.#about, c);
    return missing;
  }

  /** The write lock, if it is free; or when it becomes free. @param {boolean} wait */
  async #claim(wait) {
    const { backend, lockName } = this.#host;
    const { signal } = this.#life;
    for (;;) {
      const mine = await lock(lockName(this.key, 'write'), wait ? { wait, signal } : {});
      const other = mine && (backend.lock ? await backend.lock(this.key).catch(() => () => {}) : () => {});
      if (mine && other && !signal.aborted && !this.problem && !this.#unlock) {
        this.#unlock = async () => {
          await other();
          await mine();
        };
        return true;
      }
      await other?.();
      await mine?.();
      if (!wait || signal.aborted || this.problem || this.#unlock) return false;
      await this.#change(signal);
    }
  }

  /** Becomes the writer when the present one ends. */
  #queue() {
    if (this.#queued || this.#unlock) return;
    this.#queued = this.#claim(true)
      .then(async (won) => {
        if (!won) return;
        await this.#serial((space) => this.#journalDamage(space), undefined);
        await this.#scan();
        if (this.complete) await this.#serial(() => this.#release(), undefined);
      })
      .catch((error) => this.#fail(error))
      .finally(() => {
        this.#queued = null;
        this.#wake();
      });
  }

  /** Tells of the damage found, unless somebody has repaired it meanwhile. @param {Space} space */
  async #journalDamage(space) {
    const { hash, tell } = this.#host;
    try {
      for (const index of this.#damaged) {
        const bytes = new Uint8Array(lengthOf(this.#about, index));
        const kept = hash && index !== PREFIX && !this.#suspect.has(index) && (await space.scan()).get(index);
        this.#suspect.add(index);
        if (typeof kept === 'bigint' && (await space.read(index, 0, bytes, true)) && (await hash?.(bytes)) === kept) {
          this.#damaged.delete(index);
          this.#changed(index, kept);
          continue;
        }
        await space.drop(index);
        tell({ key: this.key, index, hash: undefined });
      }
      this.#damaged.clear();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Lets others write. */
  async #release() {
    await this.#space?.settle().catch(() => {});
    await this.#unlock?.();
    this.#unlock = null;
  }

  /** @param {unknown} error */
  #fail(error) {
    if (this.#life.signal.aborted) return;
    this.problem ??= problemOf(error, this.#about);
    this.#last = this.#last.then(() => this.#release());
    this.#wake();
  }
}
