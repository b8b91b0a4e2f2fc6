/**
 * The data of a file, chunk by chunk in order: from the cache where it is there, else from its source, several ranges
 * ahead. What lies between the network and the heap is in here, and it is bounded: MOST_LIVE chunks.
 */
import { BqError } from '../../shared/errors.js';
import { deferred, follow } from '../../shared/async.js';

/** @import { ByteSource } from '../sources/types.js' */
/** @import { CacheEntry } from '../../shared/types.js' */
/** @import { Deferred } from '../../shared/async.js' */

/** As docs/FORMAT.md, HASH. */
export const CHUNK = 1 << 20;
/** Chunks per range, at least and at most: as many as come in RANGE_MS, so that asking costs little of the time. */
const RANGE = 4;
const LONGEST = 16;
const RANGE_MS = 200;
/** Chunks in JavaScript at once. */
export const MOST_LIVE = 12;
/** How many of them are kept for the range that is needed first; others then wait, or nothing would ever move. */
const AHEAD = 3;

/** @typedef {{ bytes: Uint8Array, cached: boolean }} Chunk  `cached`: from the cache, not from the source */

export class Chunks {
  #file;
  #entry;
  #from;
  #total;
  #head;
  #life;
  /** Ends the requests of the present run: until a pause, or another way of asking. */
  #run = new AbortController();
  /** Chunks asked for, not yet taken; `there`: as they arrived. @type {Map<number, Deferred<Chunk> & { there?: Uint8Array }>} */
  slots = new Map();
  /** The next chunk that nobody has been sent for. */
  #planned = 0;
  /** The next one to be taken. */
  #next = 0;
  #range = RANGE;
  /** Memory of chunks to use again: new memory costs more than what is read into it. @type {ArrayBufferLike[]} */
  #spare = [];
  #running = 0;
  #paused = false;
  #closed = false;
  /** Wakes who waits for room. @type {Set<() => void>} */
  #waiting = new Set();
  /** Chunks that are there, or are being filled. */
  live = 0;
  /** Bytes that have arrived, from anywhere, and were not taken yet. */
  arrived = 0;
  /** Told of every piece that comes. */
  onBytes = () => {};

  /**
   * @param {ByteSource} file
   * @param {CacheEntry | null} entry
   * @param {{ from: number, total: number, head?: Uint8Array }} range  of the file that is cut into chunks; `head`: its
   *   first bytes, which are not asked for again
   * @param {AbortSignal} signal
   */
  constructor(file, entry, { from, total, head = new Uint8Array() }, signal) {
    this.#file = file;
    this.#entry = entry;
    this.#from = from;
    this.#total = total;
    this.#head = head;
    this.#life = follow(signal);
    this.count = Math.max(Math.ceil((total - from) / CHUNK), 0);
    signal.addEventListener('abort', this.#stopRun);
  }

  #stopRun = () => {
    const { reason } = this.#life.signal;
    this.#run.abort(reason);
    // Also those that nobody was sent for, and nobody will be.
    for (const slot of this.slots.values()) slot.reject(reason);
  };

  /** Where a chunk begins in the file. @param {number} c */
  offset(c) {
    return this.#from + c * CHUNK;
  }

  /** @param {number} c */
  length(c) {
    return Math.min(CHUNK, this.#total - this.offset(c));
  }

  /** A chunk, later than all that were taken before. Its bytes count until `release`. @param {number} c @returns {Promise<Chunk>} */
  async take(c) {
    this.#life.signal.throwIfAborted();
    for (const [old, slot] of this.slots) if (old < c) this.#forget(old, slot); // a gap of v1
    this.#next = c;
    this.#wake(); // who was not needed first may be now
    if (c > this.#planned) this.#planned = c;
    const slot = this.#slot(c);
    this.#schedule();
    const chunk = await slot.promise;
    this.slots.delete(c);
    this.arrived -= chunk.bytes.length;
    return chunk;
  }

  /** The chunk from the source, whatever the cache has. In place of one that was taken. @param {number} c @returns {Promise<Uint8Array>} */
  async again(c) {
    const bytes = new Uint8Array(this.length(c));
    await this.#fill(c, bytes, this.#life.signal);
    return bytes;
  }

  /** One chunk less is held. @param {Uint8Array | null} [bytes]  of it, not used any more */
  release(bytes) {
    this.live--;
    if (bytes?.buffer.byteLength === CHUNK) this.#spare.push(bytes.buffer);
    if (this.#closed) this.#free();
    this.#wake();
    this.#schedule();
  }

  /** No byte is asked for until `resume`. */
  pause() {
    if (this.#paused) return;
    this.#paused = true;
    this.#restart(new DOMException('paused', 'AbortError'));
  }

  resume() {
    this.#paused = false;
    this.#wake();
    this.#schedule();
  }

  /** Memory that nobody wants any more is given back at once, where the browser can: collecting it may take long. */
  #free() {
    for (const buffer of this.#spare.splice(0)) /** @type {any} */ (buffer).transfer?.(0);
  }

  close() {
    this.#paused = this.#closed = true;
    this.#free();
    this.#run.abort();
    this.#life.signal.removeEventListener('abort', this.#stopRun);
    this.#life.release();
    this.#wake();
    this.slots.clear();
    this.#head = new Uint8Array();
  }

  /** @param {number} c */
  #slot(c) {
    const known = this.slots.get(c);
    if (known) return known;
    /** @type {Deferred<Chunk> & { there?: Uint8Array }} */
    const slot = deferred();
    this.slots.set(c, slot);
    return slot;
  }

  /** Memory for a chunk. @param {number} c */
  #buffer(c) {
    this.live++;
    return new Uint8Array(this.#spare.pop() ?? new ArrayBuffer(CHUNK), 0, this.length(c));
  }

  /** Whether a range that begins there has to wait with its next chunk. @param {number} first */
  #full(first) {
    return this.live >= MOST_LIVE - (first > this.#next ? AHEAD : 0);
  }

  /** @param {number} c @param {{ there?: Uint8Array }} slot */
  #forget(c, slot) {
    this.slots.delete(c);
    if (!slot.there) return;
    this.arrived -= this.length(c);
    this.release();
  }

  #wake() {
    for (const wake of [...this.#waiting]) wake();
  }

  /** Ends all requests under way; what is not there yet will be asked for anew. @param {unknown} reason */
  #restart(reason) {
    if (this.#file.parallel === 0 && this.#paused) return; // one long stream is just not read
    this.#run.abort(reason);
    this.#run = new AbortController();
    if (this.#life.signal.aborted) this.#stopRun();
    const missing = [...this.slots].filter(([, { there }]) => !there).map(([c]) => c);
    if (missing.length) this.#planned = Math.min(this.#planned, ...missing);
  }

  /** Starts what there is room for. */
  #schedule() {
    while (!this.#paused && !this.#life.signal.aborted && this.#planned < this.count) {
      const first = this.#planned;
      if (this.slots.get(first)?.there) {
        this.#planned++;
        continue;
      }
      const parallel = this.#file.parallel ?? 0;
      const cached = this.#entry && (this.#entry.has(first) || this.#entry.role === 'reader');
      const long = !cached && parallel === 0;
      const n = cached ? 1 : this.#stretch(first, long ? Infinity : this.#range);
      if (this.#running >= (cached ? 3 : Math.max(parallel, 1)) || (cached && this.#full(first))) return;
      this.#planned = first + n;
      for (let c = first; c < first + (long ? 1 : n); c++) this.#slot(c);
      this.#running++;
      const { signal } = this.#run;
      const job = cached ? this.#fromEntry(first, this.#buffer(first), signal) : this.#fromSource(first, n, signal);
      void job.finally(() => {
        this.#running--;
        this.#schedule();
      });
    }
  }

  /** Chunks from `first` on that the cache does not have. @param {number} first @param {number} most */
  #stretch(first, most) {
    let n = 1;
    while (n < most && first + n < this.count && !this.#entry?.has(first + n) && !this.slots.get(first + n)?.there) n++;
    return n;
  }

  /** @param {number} c @param {Uint8Array} bytes @param {boolean} cached @param {AbortSignal} signal */
  #deliver(c, bytes, cached, signal) {
    const slot = this.slots.get(c);
    if (signal.aborted || !slot || slot.there) {
      if (!cached) this.arrived -= bytes.length;
      return this.release(bytes);
    }
    if (cached) this.arrived += bytes.length;
    slot.there = bytes;
    slot.resolve({ bytes, cached });
  }

  /** @param {number} c @param {Uint8Array} bytes  to be filled @param {AbortSignal} signal */
  async #fromEntry(c, bytes, signal) {
    const entry = /** @type {CacheEntry} */ (this.#entry);
    try {
      const there = entry.has(c) || (await entry.waitFor?.(c, signal));
      const read = there ? await entry.read(c, signal, bytes) : null;
      if (read && read.buffer !== bytes.buffer) bytes.set(read.subarray(0, bytes.length));
      if (read?.length === bytes.length) return this.#deliver(c, bytes, true, signal);
      if (read) await entry.drop(c); // torn
      await this.#fill(c, bytes, signal);
      this.arrived += bytes.length;
      this.#deliver(c, bytes, false, signal);
    } catch (error) {
      this.release(bytes);
      this.#failed(c, error, signal);
    }
  }

  /** @param {number} c @param {Uint8Array} bytes @param {AbortSignal} signal */
  async #fill(c, bytes, signal) {
    let at = 0;
    for await (const piece of this.#file.stream(this.offset(c), this.offset(c) + bytes.length, signal)) {
      bytes.set(piece, at);
      at += piece.length;
      this.#count(piece.length);
    }
    this.arrived -= at; // it is in nobody's slot yet
    if (at < bytes.length) throw this.#truncated(this.offset(c) + at);
  }

  /** @param {number} from @param {number} to @param {AbortSignal} signal */
  async *#stream(from, to, signal) {
    const known = this.#head.subarray(from, to);
    if (known.length) yield known;
    if (from + known.length < to) yield* this.#file.stream(from + known.length, to, signal);
  }

  /** @param {number} first @param {number} n @param {AbortSignal} signal */
  async #fromSource(first, n, signal) {
    const since = performance.now();
    let c = first;
    const end = first + n;
    /** @type {Uint8Array | null} */
    let chunk = null;
    let filled = 0;
    try {
      for await (const piece of this.#stream(this.offset(first), Math.min(this.offset(end), this.#total), signal)) {
        this.#count(piece.length);
        for (let i = 0; i < piece.length;) {
          chunk ??= await this.#room(c, first, signal);
          const part = Math.min(chunk.length - filled, piece.length - i);
          chunk.set(piece.subarray(i, i + part), filled);
          [filled, i] = [filled + part, i + part];
          if (filled < chunk.length) continue;
          this.#deliver(c++, chunk, false, signal);
          [chunk, filled] = [null, 0];
        }
      }
      if (c < end) throw this.#truncated(this.offset(c) + filled);
      const fitting = Math.round((n * RANGE_MS) / (performance.now() - since));
      this.#range = Math.min(Math.max(fitting, RANGE), LONGEST);
    } catch (error) {
      this.arrived -= filled;
      if (chunk) this.release(chunk);
      this.#failed(c, error, signal);
    }
  }

  /** Memory for a chunk as soon as one may be begun. @param {number} c @param {number} first  of its range @param {AbortSignal} signal */
  async #room(c, first, signal) {
    this.#slot(c);
    while (this.#full(first) || this.#paused) {
      signal.throwIfAborted();
      await new Promise((resolve) => {
        const wake = () => {
          this.#waiting.delete(wake);
          signal.removeEventListener('abort', wake);
          resolve(undefined);
        };
        this.#waiting.add(wake);
        signal.addEventListener('abort', wake);
      });
    }
    signal.throwIfAborted();
    return this.#buffer(c);
  }

  /** @param {number} n */
  #count(n) {
    this.arrived += n;
    this.onBytes();
  }

  /** @param {number} at */
  #truncated(at) {
    return new BqError('TRUNCATED', `${this.#file.name} ends after ${at} of ${this.#total} bytes`, { offset: at });
  }

  /** @param {number} c @param {unknown} error @param {AbortSignal} signal */
  #failed(c, error, signal) {
    if (signal.aborted && !this.#life.signal.aborted) return; // given up on purpose: it will be asked for again
    if (error instanceof BqError && error.details.serial && this.#file.parallel === 0) {
      this.#planned = Math.min(this.#planned, c);
      this.#restart(error);
      return;
    }
    this.#slot(c).reject(error);
  }
}
