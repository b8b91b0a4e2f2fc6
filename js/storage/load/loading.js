/**
 * Feeds a file into the engine: the loader in C says which bytes it wants, they go to their place and are verified
 * there. What does not verify is fetched again; what does is kept in the cache, where there is one.
 */
import { changed, renamed, Samples, refetchOrThrow } from './refetch.js';
import { structs } from '../../wasm/abi.js';
import { Chunks } from './chunks.js';
import { BqError, onDemand } from '../../shared/errors.js';
import { sections, u64 } from '../../shared/sections.js';
import { readFirst } from '../sources/read.js';
import { follow, deferred, Pace } from '../../shared/async.js';

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
  #planned;
  #options;
  #cache;
  #loader = 0;
  #life;
  /** Where somebody wants to know. @type {import('./progress.js').Meter | null} */
  #meter = null;
  /** Resolved, and replaced, whenever bytes have been verified. @type {Deferred<void>} */
  #gate = deferred();
  /** The model's handle, as soon as everything but the weights is there. @type {Deferred<number>} */
  #model = deferred();
  /** @type {Chunks | null} */
  #chunks = null;
  /** @type {CacheEntry | null} */
  #entry = null;
  #paused = false;
  /** Something came from elsewhere than the cache. */
  #fetched = false;
  /** Ends this load's turn to fetch the prefix, where it has one: others wait for it. @type {(() => Promise<void>) | null} */
  #pass = null;
  #prefixKept = Promise.resolve();
  /** It failed because the cache knew an older file of this address; it does no more. */
  outdated = false;
  /** Ends when what was loaded is in the cache, after `done`. @type {Promise<void>} */
  kept = Promise.resolve();

  /**
   * @param {Wasm} wasm
   * @param {ByteSource} file  closed when loading ends, however it ends
   * @param {Planned} planned
   * @param {LoadOptions} options
   * @param {Cache | null} [cache]
   */
  constructor(wasm, file, planned, options, cache = null) {
    /** The instance that is being filled. */
    this.wasm = this.#wasm = wasm;
    this.plan = planned.plan;
    this.#file = file;
    this.#planned = planned;
    this.#options = options;
    this.#cache = cache;
    this.#life = follow(options.signal);
    /** Settles when all is in place, or why it never will be. @type {Promise<void>} */
    this.done = this.#run();
    // Whoever waits for the model or for bytes is told too.
    this.done.catch((error) => {
      this.#model.reject(error);
      this.#gate.reject(error);
    });
  }

  get model() {
    return this.#model.promise;
  }

  /** The next arrival of bytes. Throws what ended the loading. */
  get arrival() {
    return this.#gate.promise;
  }

  /** @param {unknown} reason */
  stop(reason) {
    this.#life.controller.abort(reason);
  }

  /** The network failed so often in a row, and is tried again. @param {number} failures */
  failed(failures) {
    this.#meter?.retried(failures);
  }

  /** Asks for no more bytes until `resume`. */
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
    let wrong;
    try {
      const { onProgress } = this.#options;
      if (onProgress)
        this.#meter = new (await onDemand(import('./progress.js'))).Meter(
          onProgress,
          this.plan.fileBytes,
          this.plan.cached.bytes,
        );
      this.#meter?.report('plan', 0);
      this.#create();
      if (this.#cache)
        this.#pass = await (
          await onDemand(import('./cached-load.js'))
        ).sharePrefix(this.#cache, this.#planned, this.#life.signal);
      const prefix = await this.#prefix();
      const handle = this.#wasm.out('bqw_loader_model', this.#loader);
      this.#model.resolve(handle);
      this.#announce();
      await this.#data(prefix);
      this.#meter?.report('ready', this.plan.fileBytes, this.#problem);
      this.#announce();
    } catch (error) {
      const code = error instanceof BqError ? error.code : '';
      this.outdated = this.#planned.cached && code === 'CHANGED';
      // Without hashes nothing tells which of the chunks that were kept are of which version.
      wrong = (code === 'INTEGRITY' && this.#planned.wanted) || (code === 'CHANGED' && this.#planned.repacked);
      // What the cache knows is no longer at this address: the next plan asks the network.
      if (this.outdated && this.#entry) await this.#entry.drop((await onDemand(import('./cached-load.js'))).PREFIX);
      throw error;
    } finally {
      void this.#pass?.();
      this.#life.release();
      this.#meter?.stop();
      this.#chunks?.close();
      // Some MB of a GGUF file: whoever keeps the model keeps this.
      this.#planned.manifest = this.#planned.head = new Uint8Array();
      this.kept = this.#prefixKept.then(() =>
        wrong ? this.#forget() : this.plan.paging ? undefined : this.#closeEntry(),
      );
      await this.#file.close();
    }
  }

  /**
   * Where in the cache the whole file is, to read what doesn't stay in memory; null: in no cache. It stays open until
   * `releaseCache`. What the cache can't keep can't be paged: NOMEM.
   */
  async parts() {
    if (!this.#cache || !this.#planned.url) return null;
    await this.done;
    await this.kept;
    return (await onDemand(import('./cached-load.js'))).pagedFrom(this.#entry, this.plan);
  }

  /** Whether a cache keeps it, where there is one. */
  get #keeps() {
    return this.plan.version === 2 || this.#planned.repacked !== null;
  }

  /** What is not kept, and why. */
  get #problem() {
    if (this.#cache && !this.#keeps) return 'only files of version 2 have hashes, so this one is not kept';
    return this.#entry?.problem?.message;
  }

  /** Closes the entry of the cache, after loading has ended. */
  async releaseCache() {
    await this.done.catch(() => {});
    await this.kept;
    await this.#closeEntry();
  }

  async #closeEntry() {
    const entry = this.#entry;
    this.#entry = null;
    await entry?.close();
  }

  /** What came is another file than the one asked for: nothing of it stays. */
  async #forget() {
    const key = this.#entry?.key;
    await this.#closeEntry();
    if (key) await this.#cache?.delete?.(key).catch(() => {}); // another tab may be reading
  }

  #create() {
    const { manifest, integrity, paging, prefixBytes } = this.#planned;
    this.#wasm.scope((take) => {
      // Given away: a copy beside the engine's would take more than was planned.
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

  #want() {
    return this.#wasm.outStruct('bqw_want', 'bqw_loader_want', this.#loader);
  }

  /** Puts those bytes in place that the loader wants. @param {Uint8Array} bytes @param {number} at  their offset in the file @param {Pace} pace */
  async #feed(bytes, at, pace) {
    const { signal } = this.#life;
    for (
      let want = this.#want();
      want.length && want.offset >= at && want.offset < at + bytes.length;
      want = this.#want()
    ) {
      const from = want.offset - at;
      const n = Math.min(want.dst_bytes, bytes.length - from);
      this.#wasm.bytes(want.dst, n).set(bytes.subarray(from, from + n));
      this.#wasm.check('bqw_loader_wrote', this.#loader, n);
      await pace.pause(8);
      signal.throwIfAborted();
    }
  }

  /** All before the data, fed and verified; or the manifest, which the loader has. */
  async #prefix() {
    const { head, prefixBytes, cached, manifest } = this.#planned;
    if (manifest.length) return manifest;
    const pace = new Pace();
    const whole = (/** @type {Uint8Array} */ known) => readFirst(this.#file, known, prefixBytes, this.#life.signal);
    let bytes = await whole(head);
    for (let tries = cached ? -1 : 0; ; tries++) {
      try {
        await this.#feed(bytes, 0, pace);
        return bytes;
      } catch (error) {
        if (!(await this.#again(error, tries))) throw error;
      }
      bytes = await whole(new Uint8Array());
      if (bytes.some((byte, i) => i < HEADER && byte !== head[i])) throw changed(this.#file);
    }
  }

  /** @param {Uint8Array} prefix */
  async #data(prefix) {
    const { signal } = this.#life;
    const { prefixBytes: from, totalBytes } = this.#planned;
    const { version } = this.plan;
    const rest = version === 2 ? sections(prefix, HEADER + u64(prefix, 16), from) : {};
    /** @type {CacheEntry | null} */
    let readable = null;
    if (this.#cache && this.#keeps) {
      const { entry, written, reads } = await (
        await onDemand(import('./cached-load.js'))
      ).openEntry(this.#cache, this.#planned, prefix, rest.HASH);
      this.#entry = entry;
      readable = reads ? entry : null;
      this.#prefixKept = written.then(this.#pass);
    }
    this.#file.expect?.(this.#planned.head, totalBytes);
    // What nothing else can tell from another version of the file is looked at again at the end.
    const samples =
      rest.HASH || !this.#file.remote || this.#file.tag ? null : new Samples(this.#file, totalBytes - from);
    const chunks = new Chunks(this.#file, readable, { from, total: totalBytes, head: this.#planned.head }, signal);
    this.#chunks = chunks;
    this.#entry?.keepAhead?.(chunks.slots);
    if (this.#paused) chunks.pause();
    const phase = this.#file.remote ? 'download' : 'load';
    let at = from;
    // In bytes of the file, of which a repacked one may have more.
    const scale = this.plan.fileBytes / totalBytes;
    chunks.onBytes = () => this.#paused || this.#meter?.report(phase, scale * (at + chunks.arrived));
    const pace = new Pace();
    for (let want = this.#want(); want.length; want = this.#want()) {
      const c = Math.floor((want.offset - from) / (1 << 20));
      if (c >= chunks.count)
        throw new BqError(
          'TRUNCATED',
          `${this.#file.name} ends after ${totalBytes} bytes, ${want.length} more are needed`,
          { offset: totalBytes },
        );
      const { bytes, cached } = await chunks.take(c);
      samples?.keep(c, chunks.offset(c), bytes);
      at = chunks.offset(c) + bytes.length;
      if (cached) this.#meter?.addCached(scale * bytes.length);
      this.#meter?.report(this.#paused ? 'paused' : phase, scale * (at + chunks.arrived));
      await this.#chunk(chunks, c, bytes, cached, pace);
    }
    if (rest.HASH || !this.#fetched) return;
    if (this.#file.renamed) throw renamed(this.#file);
    if (!this.#file.parallel) return;
    if ((await this.#file.changed?.(signal)) || (await samples?.differ(signal))) throw changed(this.#file);
  }

  /** A chunk into its place, and into the cache. @param {Chunks} chunks @param {number} c @param {Uint8Array} bytes @param {boolean} cached @param {Pace} pace */
  async #chunk(chunks, c, bytes, cached, pace) {
    if (cached && this.#planned.repacked && !((await this.#entry?.intact?.(c, bytes)) ?? true)) {
      await this.#entry?.drop(c);
      // The hash of the whole can't be made of a part.
      if (this.#planned.wanted) throw changed(this.#file);
      bytes = await chunks.again(c);
      cached = false;
    }
    this.#fetched ||= !cached;
    for (let tries = cached ? -1 : 0; ; tries++) {
      try {
        await this.#feed(bytes, chunks.offset(c), pace);
        break;
      } catch (error) {
        if (tries < 0) await this.#entry?.drop(c);
        if (!(await this.#again(error, tries))) throw error;
        bytes = await chunks.again(c);
        cached = false;
      }
    }
    this.#announce();
    // No other is verified before this one is kept: whoever is killed loses one.
    if (!cached && this.#entry && !this.#entry.problem) await this.#entry.write(c, bytes).catch(() => {});
    chunks.release(bytes);
  }

  /**
   * Whether what did not verify is worth fetching again, from wherever the source is now. CHANGED.
   * @param {unknown} error
   * @param {number} tries  how often it was fetched again; −1: it came from the cache
   */
  async #again(error, tries) {
    const retry = () => this.#wasm.check('bqw_loader_retry', this.#loader);
    return refetchOrThrow(error, tries, this.#file, retry, this.#life.signal);
  }

  /** Tells those who wait that there is more. */
  #announce() {
    const before = this.#gate;
    this.#gate = deferred();
    before.resolve();
  }
}
