/**
 * Loads a file. The loader in C requests ranges of bytes, which are copied to their destination in the heap and
 * verified there. Chunks with a wrong hash are fetched again; verified chunks are stored in the cache.
 */
import { changedError, renamedError, Samples, refetchOrThrow } from './refetch.js';
import { structs } from '../../wasm/abi.js';
import { Chunks } from './chunks.js';
import { BqError, onDemand } from '../../shared/errors.js';
import { CHUNK_BYTES, sections, u64 } from '../../shared/sections.js';
import { readFirst } from '../sources/read.js';
import { follow, deferred, Yielder } from '../../shared/async.js';

/** @import { Planned } from '../../engine/plan/plan.js' */
/** @import { ByteSource } from '../sources/types.js' */
/** @import { Cache, CacheEntry, LoadOptions } from '../../shared/types.js' */
/** @import { Deferred } from '../../shared/async.js' */
/** @import { Wasm } from '../../wasm/wasm.js' */

/** Bytes of the header of a v2 file. */
const HEADER = 64;

export class Loading {
  #wasm;
  #file;
  #planResult;
  #options;
  #cache;
  #loader = 0;
  #lifetime;
  /** Reports progress; null if the caller has not passed `onProgress`. @type {import('./progress.js').Meter | null} */
  #meter = null;
  /** Resolved and replaced whenever bytes were verified. @type {Deferred<void>} */
  #nextArrival = deferred();
  /** The model's handle, available before the weights. @type {Deferred<number>} */
  #model = deferred();
  /** @type {Chunks | null} */
  #chunks = null;
  /** @type {CacheEntry | null} */
  #entry = null;
  #paused = false;
  /** Whether bytes came from the source, not only from the cache. */
  #hasFetched = false;
  /**
   * Ends this load's turn to download the prefix, for which other tabs wait; null if it has no turn.
   * @type {(() => Promise<void>) | null}
   */
  #releaseTurn = null;
  #prefixStored = Promise.resolve();
  /**
   * Creates a reader of single rows, for a file that is neither read directly nor cached. Set by the engine.
   * @type {(() => Promise<import('../sources/reader.js').Reader>) | undefined}
   */
  openRows;
  /** Whether loading failed because the cache had an older file of this URL, whose prefix was then removed. */
  outdated = false;
  /** Settles after `done`, when the loaded bytes are in the cache. @type {Promise<void>} */
  cacheSettled = Promise.resolve();

  /**
   * @param {Wasm} wasm
   * @param {ByteSource} file  closed at the end of loading, also after a failure
   * @param {Planned} planResult
   * @param {LoadOptions} options
   * @param {Cache | null} [cache]
   */
  constructor(wasm, file, planResult, options, cache = null) {
    /** The instance that receives the model. */
    this.wasm = this.#wasm = wasm;
    this.plan = planResult.plan;
    this.#file = file;
    this.#planResult = planResult;
    this.#options = options;
    this.#cache = cache;
    this.#lifetime = follow(options.signal);
    /** Resolves when all bytes are in place, rejects if loading fails. @type {Promise<void>} */
    this.done = this.#run();
    // The promises `model` and `arrival` reject, too.
    this.done.catch((error) => {
      this.#model.reject(error);
      this.#nextArrival.reject(error);
    });
  }

  get model() {
    return this.#model.promise;
  }

  /** Settles with the next verified bytes; rejects if loading fails. */
  get arrival() {
    return this.#nextArrival.promise;
  }

  /** @param {unknown} reason */
  stop(reason) {
    this.#lifetime.controller.abort(reason);
  }

  /** Reports the number of consecutive failures of the network, before the next attempt. @param {number} failures */
  reportFailures(failures) {
    this.#meter?.reportRetries(failures);
  }

  /** Stops requests until `resume`. */
  pause() {
    this.#paused = true;
    this.#chunks?.pause();
    this.#meter?.report('paused', 0);
  }

  resume() {
    this.#paused = false;
    this.#chunks?.resume();
  }

  async #run() {
    /** @type {unknown} */
    let mustDelete;
    try {
      const { onProgress } = this.#options;
      if (onProgress)
        this.#meter = new (await onDemand(import('./progress.js'))).Meter(
          onProgress,
          this.plan.fileBytes,
          this.plan.cached.bytes,
        );
      this.#meter?.report('plan', 0);
      this.#createLoader();
      if (this.#cache)
        this.#releaseTurn = await (
          await onDemand(import('./cached-load.js'))
        ).sharePrefix(this.#cache, this.#planResult, this.#lifetime.signal);
      const prefix = await this.#loadPrefix();
      const handle = this.#wasm.out('bqw_loader_model', this.#loader);
      this.#model.resolve(handle);
      this.#announce();
      await this.#loadData(prefix);
      this.#meter?.report('ready', this.plan.fileBytes, this.#cacheProblem);
      this.#announce();
    } catch (error) {
      const code = error instanceof BqError ? error.code : '';
      this.outdated = this.#planResult.cached && code === 'CHANGED';
      // Without hashes it is unknown to which version stored chunks belong.
      mustDelete =
        (code === 'INTEGRITY' && this.#planResult.expectedHash) || (code === 'CHANGED' && this.#planResult.repacked);
      // The cached file is no longer at this URL, so the next plan must use the network.
      if (this.outdated && this.#entry) await this.#entry.drop((await onDemand(import('./cached-load.js'))).PREFIX);
      throw error;
    } finally {
      void this.#releaseTurn?.();
      this.#lifetime.release();
      this.#meter?.stop();
      this.#chunks?.close();
      // Frees some MB of a GGUF file, since this object lives as long as the model.
      this.#planResult.manifest = this.#planResult.head = new Uint8Array();
      this.cacheSettled = this.#prefixStored.then(() =>
        mustDelete ? this.#deleteCached() : this.plan.paging ? undefined : this.#closeEntry(),
      );
      await this.#file.close();
    }
  }

  /**
   * Returns the cached file as a source for paging; null if there is no cache. The file stays open until
   * `releaseCache`. Throws NOMEM if it is not completely cached.
   */
  async openCachedFile() {
    if (!this.#cache || !this.#planResult.url) return null;
    await this.done;
    await this.cacheSettled;
    return (await onDemand(import('./cached-load.js'))).pagedFrom(this.#entry, this.plan);
  }

  /** Whether a cache can store the file. */
  get #isCacheable() {
    return this.plan.version === 2 || this.#planResult.repacked !== null;
  }

  /** The reason why the file is not stored; undefined if it is stored. */
  get #cacheProblem() {
    if (this.#cache && !this.#isCacheable) return 'the file is not stored: only files of version 2 have hashes';
    return this.#entry?.problem?.message;
  }

  /** Closes the entry of the cache, after loading has ended. */
  async releaseCache() {
    await this.done.catch(() => {});
    await this.cacheSettled;
    await this.#closeEntry();
  }

  async #closeEntry() {
    const entry = this.#entry;
    this.#entry = null;
    await entry?.close();
  }

  /** Deletes the cached bytes, because they belong to another file than expected. */
  async #deleteCached() {
    const key = this.#entry?.key;
    await this.#closeEntry();
    if (key) await this.#cache?.delete?.(key).catch(() => {}); // another tab may be reading
  }

  #createLoader() {
    const { manifest, integrity, paging, prefixBytes } = this.#planResult;
    this.#wasm.scope((take) => {
      // The loader takes ownership: a second copy would exceed the planned memory.
      const extra = this.#wasm.put((n) => (n ? this.#wasm.alloc(n) : 0), manifest);
      const hash = integrity ? this.#wasm.put(take, integrity).at : 0;
      const residency = paging ? take(structs.bqw_paging.size) : 0;
      if (paging) this.#wasm.write('bqw_paging', residency, paging);
      const size = Math.max(this.#file.size, 0);
      this.#loader = this.#wasm.out(
        'bqw_loader_create',
        size,
        prefixBytes,
        extra.length && extra.at,
        extra.length,
        hash,
        residency,
      );
    });
  }

  /** Returns the range of bytes that the loader requests next; its length is 0 when the loader has all bytes. */
  #nextWant() {
    return this.#wasm.outStruct('bqw_want', 'bqw_loader_want', this.#loader);
  }

  /**
   * Copies the bytes that the loader requests to their destination.
   * @param {Uint8Array} bytes @param {number} at  their offset in the file @param {Yielder} yielder
   */
  async #feed(bytes, at, yielder) {
    const { signal } = this.#lifetime;
    for (
      let want = this.#nextWant();
      want.length && want.offset >= at && want.offset < at + bytes.length;
      want = this.#nextWant()
    ) {
      const from = want.offset - at;
      const n = Math.min(want.dst_bytes, bytes.length - from);
      this.#wasm.bytes(want.dst, n).set(bytes.subarray(from, from + n));
      this.#wasm.check('bqw_loader_wrote', this.#loader, n);
      await yielder.yield(8);
      signal.throwIfAborted();
    }
  }

  /** Reads, feeds and verifies the prefix; for other formats returns the manifest, which the loader already has. */
  async #loadPrefix() {
    const { head, prefixBytes, cached, manifest } = this.#planResult;
    if (manifest.length) return manifest;
    const yielder = new Yielder();
    const readPrefix = (/** @type {Uint8Array} */ knownBytes) =>
      readFirst(this.#file, knownBytes, prefixBytes, this.#lifetime.signal);
    let bytes = await readPrefix(head);
    for (let tries = cached ? -1 : 0; ; tries++) {
      try {
        await this.#feed(bytes, 0, yielder);
        return bytes;
      } catch (error) {
        if (!(await this.#shouldRetry(error, tries))) throw error;
      }
      bytes = await readPrefix(new Uint8Array());
      if (bytes.some((byte, i) => i < HEADER && byte !== head[i])) throw changedError(this.#file);
    }
  }

  /** Loads the bytes after the prefix. @param {Uint8Array} prefix */
  async #loadData(prefix) {
    const { signal } = this.#lifetime;
    const { prefixBytes: from, totalBytes } = this.#planResult;
    const { version } = this.plan;
    const dataSections = version === 2 ? sections(prefix, HEADER + u64(prefix, 16), from) : {};
    if (this.#cache && this.#isCacheable) {
      const { entry, written: prefixWritten } = await (
        await onDemand(import('./cached-load.js'))
      ).openEntry(this.#cache, this.#planResult, prefix, dataSections.HASH, this.#file);
      this.#entry = entry;
      this.#prefixStored = prefixWritten.then(this.#releaseTurn);
    }
    this.#file.expect?.(this.#planResult.head, totalBytes);
    const hasHash = dataSections.HASH || this.#planResult.expectedHash;
    // Without hashes and version tags another version is detected by comparing samples at the end.
    const samples = hasHash || !this.#file.remote || this.#file.tag ? null : new Samples(this.#file, totalBytes - from);
    const chunks = new Chunks(
      this.#file,
      this.#entry,
      { from, total: totalBytes, head: this.#planResult.head },
      signal,
    );
    this.#chunks = chunks;
    this.#entry?.keepAhead?.(chunks.slots);
    if (this.#paused) chunks.pause();
    const phase = this.#file.remote ? 'download' : 'load';
    let at = from;
    // Progress counts bytes of the original file; the repacked file may be larger.
    const scale = this.plan.fileBytes / totalBytes;
    chunks.onBytes = () => this.#paused || this.#meter?.report(phase, scale * (at + chunks.arrived));
    const yielder = new Yielder();
    for (let want = this.#nextWant(); want.length; want = this.#nextWant()) {
      const c = Math.floor((want.offset - from) / CHUNK_BYTES);
      if (c >= chunks.count)
        throw new BqError(
          'TRUNCATED',
          `${this.#file.name}: expected ${totalBytes + want.length} bytes, found ${totalBytes}`,
          { offset: totalBytes },
        );
      const { bytes, cached } = await chunks.take(c);
      samples?.keep(c, chunks.offset(c), bytes);
      at = chunks.offset(c) + bytes.length;
      if (cached) this.#meter?.addCached(scale * bytes.length);
      this.#meter?.report(this.#paused ? 'paused' : phase, scale * (at + chunks.arrived));
      await this.#loadChunk(chunks, c, bytes, cached, yielder);
    }
    if (hasHash || !this.#hasFetched) return;
    if (this.#file.renamed) throw renamedError(this.#file);
    if (!this.#file.parallel) return;
    if ((await this.#file.changed?.(signal)) || (await samples?.differ(signal))) throw changedError(this.#file);
  }

  /**
   * Copies a chunk to its destination, verifies it and stores it in the cache.
   * @param {Chunks} chunks @param {number} c @param {Uint8Array} bytes @param {boolean} cached @param {Yielder} yielder
   */
  async #loadChunk(chunks, c, bytes, cached, yielder) {
    if (cached && this.#planResult.repacked && !((await this.#entry?.intact?.(c, bytes)) ?? true)) {
      await this.#entry?.drop(c);
      // The hash of the entire file can't be continued at a chunk in its middle.
      if (this.#planResult.expectedHash) throw changedError(this.#file);
      bytes = await chunks.refetch(c);
      cached = false;
    }
    this.#hasFetched ||= !cached;
    for (let tries = cached ? -1 : 0; ; tries++) {
      try {
        await this.#feed(bytes, chunks.offset(c), yielder);
        break;
      } catch (error) {
        if (tries < 0) await this.#entry?.drop(c);
        if (!(await this.#shouldRetry(error, tries))) throw error;
        bytes = await chunks.refetch(c);
        cached = false;
      }
    }
    this.#announce();
    // The next chunk is verified after this one is stored, so a page that is killed loses at most one chunk.
    if (!cached && !this.#entry?.problem && (await this.#file.fileHash?.save(c + 1)) !== false)
      await this.#entry?.write(c, bytes).catch(() => {});
    chunks.release(bytes);
  }

  /**
   * Decides whether to fetch damaged bytes again, from the source or a mirror. Throws CHANGED.
   * @param {unknown} error
   * @param {number} tries  earlier attempts; −1: the bytes came from the cache
   */
  async #shouldRetry(error, tries) {
    const retry = () => this.#wasm.check('bqw_loader_retry', this.#loader);
    return refetchOrThrow(error, tries, this.#file, retry, this.#lifetime.signal);
  }

  /** Wakes code that waits for bytes. */
  #announce() {
    const arrived = this.#nextArrival;
    this.#nextArrival = deferred();
    arrived.resolve();
  }
}
