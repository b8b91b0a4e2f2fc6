/**
 * Delivers the data of a file chunk by chunk, in order, from the cache or from its source. Several ranges are requested
 * ahead. At most MAX_LIVE chunks are in buffers between the network and the heap.
 */
import { BqError } from '../../shared/errors.js';
import { deferred, follow } from '../../shared/async.js';
import { CHUNK_BYTES } from '../../shared/sections.js';

/** @import { ByteSource } from '../sources/types.js' */
/** @import { CacheEntry } from '../../shared/types.js' */
/** @import { Deferred } from '../../shared/async.js' */

/** Smallest and largest number of chunks per range. A range should take RANGE_MS, so that requests cost little. */
const MIN_RANGE = 4;
const MAX_RANGE = 16;
const RANGE_MS = 200;
/** Largest number of chunks in buffers at a time. */
export const MAX_LIVE = 12;
/** Number of these buffers that are reserved for the range that is needed first, to avoid a deadlock. */
const RESERVED_LIVE = 3;

/** @typedef {{ bytes: Uint8Array, cached: boolean }} Chunk  `cached`: from the cache, not from the source */

export class Chunks {
  #file;
  #entry;
  #from;
  #total;
  #head;
  #lifetime;
  /** Aborts the running requests: at a pause, or to change between ranges and one stream. */
  #requests = new AbortController();
  /**
   * Requested chunks that were not taken yet, by index; `arrivedBytes` is set when a chunk has arrived.
   * @type {Map<number, Deferred<Chunk> & { arrivedBytes?: Uint8Array }>}
   */
  slots = new Map();
  /** Index of the next chunk to request. */
  #nextToRequest = 0;
  /** Index of the next chunk to be taken. */
  #nextToTake = 0;
  #rangeChunks = MIN_RANGE;
  /** Buffers to reuse, since allocating costs more than reading. @type {ArrayBufferLike[]} */
  #spareBuffers = [];
  #runningJobs = 0;
  #isPaused = false;
  #isClosed = false;
  /** Whether to download, although another tab has the write lock: it has stalled, or has just ended. */
  #ignoresWriter = false;
  /** Functions that wake readers which wait for a free buffer. @type {Set<() => void>} */
  #waiters = new Set();
  /** Number of chunks that are filled or being filled. */
  live = 0;
  /** Bytes that have arrived and were not taken yet. */
  arrived = 0;
  /** Called when bytes have arrived from the source. */
  onBytes = () => {};

  /**
   * @param {ByteSource} file
   * @param {CacheEntry | null} entry
   * @param {{ from: number, total: number, head?: Uint8Array }} range  the chunks begin at offset `from` of the file,
   *   which has `total` bytes; `head`: first bytes of the file, which are not requested again
   * @param {AbortSignal} signal
   */
  constructor(file, entry, { from, total, head = new Uint8Array() }, signal) {
    this.#file = file;
    this.#entry = entry;
    this.#from = from;
    this.#total = total;
    this.#head = head;
    this.#lifetime = follow(signal);
    this.count = Math.max(Math.ceil((total - from) / CHUNK_BYTES), 0);
    signal.addEventListener('abort', this.#abortAll);
  }

  #abortAll = () => {
    const { reason } = this.#lifetime.signal;
    this.#requests.abort(reason);
    // Chunks that were not requested yet are rejected, too.
    for (const slot of this.slots.values()) slot.reject(reason);
  };

  /** Returns the offset of a chunk in the file. @param {number} c */
  offset(c) {
    return this.#from + c * CHUNK_BYTES;
  }

  /** @param {number} c */
  length(c) {
    return Math.min(CHUNK_BYTES, this.#total - this.offset(c));
  }

  /**
   * Returns a chunk when it has arrived. Indices must increase. The buffer of the chunk counts as live until `release`.
   * @param {number} c @returns {Promise<Chunk>}
   */
  async take(c) {
    this.#lifetime.signal.throwIfAborted();
    for (const [earlier, slot] of this.slots) if (earlier < c) this.#forget(earlier, slot); // v1 files have gaps
    this.#nextToTake = c;
    this.#wake(); // another range may now be the first
    if (c > this.#nextToRequest) this.#nextToRequest = c;
    const slot = this.#slot(c);
    this.#schedule();
    const chunk = await slot.promise;
    this.slots.delete(c);
    this.arrived -= chunk.bytes.length;
    return chunk;
  }

  /**
   * Reads a chunk that was taken from the source again, without the cache.
   * @param {number} c @returns {Promise<Uint8Array>}
   */
  async refetch(c) {
    const bytes = new Uint8Array(this.length(c));
    await this.#fill(c, bytes, this.#lifetime.signal);
    return bytes;
  }

  /** Releases the buffer of a chunk. @param {Uint8Array | null} [bytes]  not used any more */
  release(bytes) {
    this.live--;
    if (bytes?.buffer.byteLength === CHUNK_BYTES) this.#spareBuffers.push(bytes.buffer);
    if (this.#isClosed) this.#freeBuffers();
    this.#wake();
    this.#schedule();
  }

  /** Stops requests until `resume`. */
  pause() {
    if (this.#isPaused) return;
    this.#isPaused = true;
    this.#restartRequests(new DOMException('paused', 'AbortError'));
  }

  resume() {
    this.#isPaused = false;
    this.#wake();
    this.#schedule();
  }

  /** Frees unused buffers at once where the browser can, since garbage collection may take long. */
  #freeBuffers() {
    for (const buffer of this.#spareBuffers.splice(0)) /** @type {any} */ (buffer).transfer?.(0);
  }

  close() {
    this.#isPaused = this.#isClosed = true;
    this.#freeBuffers();
    this.#requests.abort();
    this.#lifetime.signal.removeEventListener('abort', this.#abortAll);
    this.#lifetime.release();
    this.#wake();
    this.slots.clear();
    this.#head = new Uint8Array();
  }

  /** Returns the slot of a chunk, which is created if it is missing. @param {number} c */
  #slot(c) {
    const existing = this.slots.get(c);
    if (existing) return existing;
    /** @type {Deferred<Chunk> & { arrivedBytes?: Uint8Array }} */
    const slot = deferred();
    this.slots.set(c, slot);
    return slot;
  }

  /** Returns a buffer for a chunk. @param {number} c */
  #buffer(c) {
    this.live++;
    return new Uint8Array(this.#spareBuffers.pop() ?? new ArrayBuffer(CHUNK_BYTES), 0, this.length(c));
  }

  /** Whether a range must wait for a free buffer. @param {number} first */
  #isFull(first) {
    return this.live >= MAX_LIVE - (first > this.#nextToTake ? RESERVED_LIVE : 0);
  }

  /** @param {number} c @param {{ arrivedBytes?: Uint8Array }} slot */
  #forget(c, slot) {
    this.slots.delete(c);
    if (!slot.arrivedBytes) return;
    this.arrived -= this.length(c);
    this.release();
  }

  #wake() {
    for (const wake of [...this.#waiters]) wake();
  }

  /** Aborts all requests; missing chunks will be requested again. @param {unknown} reason */
  #restartRequests(reason) {
    if (this.#file.parallel === 0 && this.#isPaused) return; // a single stream stays open; it is only not read
    this.#requests.abort(reason);
    this.#requests = new AbortController();
    if (this.#lifetime.signal.aborted) this.#abortAll();
    const pendingChunks = [...this.slots].filter(([, { arrivedBytes }]) => !arrivedBytes).map(([c]) => c);
    if (pendingChunks.length) this.#nextToRequest = Math.min(this.#nextToRequest, ...pendingChunks);
  }

  /** Starts requests, as many as free buffers and parallel streams allow. */
  #schedule() {
    while (!this.#isPaused && !this.#lifetime.signal.aborted && this.#nextToRequest < this.count) {
      const first = this.#nextToRequest;
      if (this.slots.get(first)?.arrivedBytes) {
        this.#nextToRequest++;
        continue;
      }
      const parallel = this.#file.parallel ?? 0;
      const cached = this.#entry && (this.#entry.has(first) || (this.#entry.role === 'reader' && !this.#ignoresWriter));
      const isSingleStream = !cached && parallel === 0;
      const n = cached ? 1 : this.#countUncached(first, isSingleStream ? Infinity : this.#rangeChunks);
      if (this.#runningJobs >= (cached ? 3 : Math.max(parallel, 1)) || (cached && this.#isFull(first))) return;
      this.#nextToRequest = first + n;
      for (let c = first; c < first + (isSingleStream ? 1 : n); c++) this.#slot(c);
      this.#runningJobs++;
      const { signal } = this.#requests;
      const job = cached
        ? this.#readFromEntry(first, this.#buffer(first), signal)
        : this.#readFromSource(first, n, signal);
      void job.finally(() => {
        this.#runningJobs--;
        this.#schedule();
      });
    }
  }

  /**
   * Returns the number of successive chunks from `first` on that are not cached, at most `limit`.
   * @param {number} first @param {number} limit
   */
  #countUncached(first, limit) {
    let n = 1;
    while (
      n < limit &&
      first + n < this.count &&
      !this.#entry?.has(first + n) &&
      !this.slots.get(first + n)?.arrivedBytes
    )
      n++;
    return n;
  }

  /** @param {number} c @param {Uint8Array} bytes @param {boolean} cached @param {AbortSignal} signal */
  #deliver(c, bytes, cached, signal) {
    const slot = this.slots.get(c);
    if (signal.aborted || !slot || slot.arrivedBytes) {
      if (!cached) this.arrived -= bytes.length;
      return this.release(bytes);
    }
    if (cached) this.arrived += bytes.length;
    slot.arrivedBytes = bytes;
    slot.resolve({ bytes, cached });
  }

  /**
   * Reads a chunk from the cache, or else from the source.
   * @param {number} c @param {Uint8Array} bytes  to be filled @param {AbortSignal} signal
   */
  async #readFromEntry(c, bytes, signal) {
    const entry = /** @type {CacheEntry} */ (this.#entry);
    try {
      const isStored = entry.has(c) || (await entry.waitFor?.(c, signal));
      const bytesRead = isStored ? await entry.read(c, signal, bytes) : null;
      if (bytesRead && bytesRead.buffer !== bytes.buffer) bytes.set(bytesRead.subarray(0, bytes.length));
      if (bytesRead?.length === bytes.length) return this.#deliver(c, bytes, true, signal);
      if (bytesRead) await entry.drop(c); // stored incompletely
      // A source that is read in order continues with one stream for all chunks from this one on.
      if (this.#file.parallel === 0 && !signal.aborted) {
        this.release(bytes);
        this.#ignoresWriter = true;
        this.#nextToRequest = Math.min(this.#nextToRequest, c);
        this.#restartRequests(new DOMException('the chunk is not cached', 'AbortError'));
        return;
      }
      await this.#fill(c, bytes, signal);
      this.arrived += bytes.length;
      this.#deliver(c, bytes, false, signal);
    } catch (error) {
      this.release(bytes);
      this.#failChunk(c, error, signal);
    }
  }

  /**
   * Reads one chunk from the source. Throws TRUNCATED and errors of the source.
   * @param {number} c @param {Uint8Array} bytes  to be filled @param {AbortSignal} signal
   */
  async #fill(c, bytes, signal) {
    let at = 0;
    for await (const piece of this.#file.stream(this.offset(c), this.offset(c) + bytes.length, signal)) {
      bytes.set(piece, at);
      at += piece.length;
      this.#countBytes(piece.length);
    }
    this.arrived -= at; // the chunk is in no slot yet
    if (at < bytes.length) throw this.#truncated(this.offset(c) + at);
  }

  /** @param {number} from @param {number} end @param {AbortSignal} signal */
  async *#stream(from, end, signal) {
    const headBytes = this.#head.subarray(from, end);
    if (headBytes.length) yield headBytes;
    if (from + headBytes.length < end) yield* this.#file.stream(from + headBytes.length, end, signal);
  }

  /** Reads a range of chunks from the source. @param {number} first @param {number} n @param {AbortSignal} signal */
  async #readFromSource(first, n, signal) {
    if (this.#file.fileHash) this.#entry = null; // the hash of the whole file needs every later byte from the source
    const startTime = performance.now();
    let c = first;
    const end = first + n;
    /** @type {Uint8Array | null} */
    let chunk = null;
    let filled = 0;
    try {
      for await (const piece of this.#stream(this.offset(first), Math.min(this.offset(end), this.#total), signal)) {
        this.#countBytes(piece.length);
        for (let i = 0; i < piece.length;) {
          chunk ??= await this.#waitForBuffer(c, first, signal);
          const copied = Math.min(chunk.length - filled, piece.length - i);
          chunk.set(piece.subarray(i, i + copied), filled);
          [filled, i] = [filled + copied, i + copied];
          if (filled < chunk.length) continue;
          this.#deliver(c++, chunk, false, signal);
          [chunk, filled] = [null, 0];
        }
      }
      if (c < end) throw this.#truncated(this.offset(c) + filled);
      const idealRange = Math.round((n * RANGE_MS) / (performance.now() - startTime));
      this.#rangeChunks = Math.min(Math.max(idealRange, MIN_RANGE), MAX_RANGE);
    } catch (error) {
      this.arrived -= filled;
      if (chunk) this.release(chunk);
      this.#failChunk(c, error, signal);
    }
  }

  /** Waits for a free buffer. @param {number} c @param {number} first  of its range @param {AbortSignal} signal */
  async #waitForBuffer(c, first, signal) {
    this.#slot(c);
    while (this.#isFull(first) || this.#isPaused) {
      signal.throwIfAborted();
      await new Promise((resolve) => {
        const wake = () => {
          this.#waiters.delete(wake);
          signal.removeEventListener('abort', wake);
          resolve(undefined);
        };
        this.#waiters.add(wake);
        signal.addEventListener('abort', wake);
      });
    }
    signal.throwIfAborted();
    return this.#buffer(c);
  }

  /** @param {number} n */
  #countBytes(n) {
    this.arrived += n;
    this.onBytes();
  }

  /** @param {number} at */
  #truncated(at) {
    return new BqError('TRUNCATED', `${this.#file.name}: expected ${this.#total} bytes, found ${at}`, { offset: at });
  }

  /** @param {number} c @param {unknown} error @param {AbortSignal} signal */
  #failChunk(c, error, signal) {
    if (signal.aborted && !this.#lifetime.signal.aborted) return; // aborted on purpose: it will be requested again
    if (error instanceof BqError && error.details.serial && this.#file.parallel === 0) {
      this.#nextToRequest = Math.min(this.#nextToRequest, c);
      this.#restartRequests(error);
      return;
    }
    this.#slot(c).reject(error);
  }
}
