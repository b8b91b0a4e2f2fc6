/** Feeds a file into the engine: the loader in C says which bytes it wants, they go straight to their place. */
import { structs } from './border.js';
import { BqError } from './errors.js';
import { follow, Pace } from './turn.js';

/** @import { Planned } from './plan.js' */
/** @import { ByteSource } from './sources/types.js' */
/** @import { LoadOptions } from './types.js' */
/** @import { Wasm } from './wasm.js' */

/** @template T @typedef {{ promise: Promise<T>, resolve: (value: T) => void, reject: (error: unknown) => void }} Gate */

/** A gap this small is read over rather than asked for anew. */
const SKIP = 1 << 20;

export class Loading {
  #wasm;
  #file;
  #planned;
  #options;
  #loader = 0;
  #life;
  /** Resolved, and replaced, whenever bytes have arrived. @type {Gate<void>} */
  #gate = gate();
  /** The model's handle, as soon as everything but the weights is there. @type {Gate<number>} */
  #model = gate();
  #handle = 0;

  /**
   * @param {Wasm} wasm
   * @param {ByteSource} file  closed when loading ends, however it ends
   * @param {Planned} planned
   * @param {LoadOptions} options
   */
  constructor(wasm, file, planned, options) {
    /** The instance that is being filled. */
    this.wasm = this.#wasm = wasm;
    this.plan = planned.plan;
    this.#file = file;
    this.#planned = planned;
    this.#options = options;
    this.#life = follow(options.signal);
    /** Settles when all is in place, or why it never will be. @type {Promise<void>} */
    this.done = this.#run();
    // Whoever waits for the model or for bytes is told too; nobody has to listen.
    this.done.catch((error) => {
      this.#model.reject(error);
      this.#gate.reject(error);
    });
    this.model.catch(() => {});
    this.#gate.promise.catch(() => {});
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

  async #run() {
    try {
      const { plan, companion } = this.#planned;
      this.#wasm.scope((take) => {
        const extra = this.#wasm.put(take, companion);
        const size = Math.max(this.#file.size, 0);
        let residency = 0;
        if (this.#planned.paging) this.#wasm.write('bqw_paging', (residency = take(structs.bqw_paging.size)), this.#planned.paging);
        this.#loader = this.#wasm.out('bqw_loader_create', size, this.#planned.prefixBytes, extra.length && extra.at, extra.length, residency);
      });
      await this.#feed(plan.fileBytes);
      this.#progress('ready', plan.fileBytes);
    } finally {
      this.#life.release();
      await this.#file.close();
    }
  }

  #want() {
    return this.#wasm.outStruct('bqw_want', 'bqw_loader_want', this.#loader);
  }

  /** @param {number} total */
  async #feed(total) {
    const { signal } = this.#life;
    const pace = new Pace();
    const phase = this.#file.remote ? 'download' : 'load';
    let piece = this.#planned.head;
    let at = 0; // offset of the piece in the file
    /** @type {AsyncGenerator<Uint8Array, void> | null} */
    let stream = null;
    try {
      for (let want = this.#want(); ; want = this.#want()) {
        this.#announce(want);
        if (!want.length) return;
        while (want.offset < at || want.offset >= at + piece.length) {
          const ahead = want.offset - (at + piece.length);
          if (!stream || ahead < 0 || ahead > SKIP) {
            await stream?.return();
            stream = this.#file.stream(want.offset, total || Infinity, signal);
            [piece, at] = [new Uint8Array(), want.offset];
          }
          const { value } = await stream.next();
          if (!value) throw this.#truncated(at + piece.length, total);
          [at, piece] = [at + piece.length, value];
          this.#progress(phase, want.offset);
        }
        const from = want.offset - at;
        const n = Math.min(want.dst_bytes, piece.length - from);
        this.#wasm.bytes(want.dst, n).set(piece.subarray(from, from + n));
        this.#wasm.check('bqw_loader_wrote', this.#loader, n);
        await pace.pause();
        signal.throwIfAborted();
      }
    } finally {
      await stream?.return();
    }
  }

  /** Tells those who wait how far it is. @param {Record<string, number>} want */
  #announce(want) {
    if (!this.#handle && (!want.length || want.offset >= this.#planned.prefixBytes)) {
      this.#handle = this.#wasm.out('bqw_loader_model', this.#loader);
      this.#model.resolve(this.#handle);
    }
    const before = this.#gate;
    this.#gate = gate();
    this.#gate.promise.catch(() => {});
    before.resolve();
  }

  /** @param {number} at @param {number} total */
  #truncated(at, total) {
    return new BqError('TRUNCATED', `${this.#file.name} ends after ${at} of ${total} bytes`, { offset: at });
  }

  /** @param {'download' | 'load' | 'ready'} phase @param {number} loaded */
  #progress(phase, loaded) {
    this.#options.onProgress?.({ phase, loaded, total: this.#planned.plan.fileBytes });
  }
}

/** Promise.withResolvers, which is too new for us. @returns {Gate<any>} */
function gate() {
  /** @type {any} */
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
}
