/**
 * Models larger than their budget: what doesn't stay in memory is read from the file whenever it is needed. C says
 * which bytes go where (bqw_session_pages), this reads them while the session computes.
 *
 * Only imported when a plan pages.
 */
import { BqError, unpackError } from '../../shared/errors.js';
import { listen } from '../../shared/protocol.js';
import { openReader, readInto } from '../sources/reader.js';
import { isInMemory } from '../sources/kinds.js';
import { isNode } from '../../shared/node.js';
import { structs } from '../../wasm/abi.js';
import { deferred, unlessAborted } from '../../shared/async.js';
import { after, within } from '../../shared/timeouts.js';
import { startWorker } from '../../shared/workers.js';

/** @import { Reader } from '../sources/reader.js' */
/** @import { Deferred } from '../../shared/async.js' */
/** @import { WorkerLike } from '../../shared/workers.js' */
/** @import { Source } from '../../shared/types.js' */
/** @import { Wasm } from '../../wasm/wasm.js' */

/** Pages that are asked for in one call. */
const PAGES = 16;
/**
 * Reads ranges of a file to addresses of the heap.
 * @typedef {object} Filler
 * @property {(offset: number, at: number, bytes: number) => Promise<void>} fill
 * @property {() => Promise<void>} close
 */

/** Reads in this thread, straight into the heap: in Node others do the work meanwhile. @param {Wasm} wasm @param {Reader} reader @returns {Filler} */
function localFiller(wasm, reader) {
  return {
    fill: (offset, at, bytes) => readInto(reader, wasm, offset, at, bytes),
    close: () => reader.close(),
  };
}

/** A read under way. @typedef {{ of: number, wasm: Wasm, at: number, bytes: number, resolve: () => void, reject: (error: unknown) => void }} Read */

/** A worker that reads, so that the disk works while this thread computes: one for all models. */
class ReadingWorker {
  /** @type {Promise<ReadingWorker> | null} */
  static #one = null;

  /** The one that there is, or a new one. Throws where there can't be one. */
  static get() {
    return (ReadingWorker.#one ??= ReadingWorker.#start().catch((error) => {
      ReadingWorker.#one = null;
      throw error;
    }));
  }

  static async #start() {
    const one = new ReadingWorker(await within('readerStart', startWorker('io')));
    await one.#begun.promise;
    if (one.#dead) throw one.#dead;
    return one;
  }

  #worker;
  /** Sources and reads so far. */
  #last = 0;
  /** Sources that are open, and whoever waits for one to be closed. @type {Map<number, Deferred<boolean>>} */
  #open = new Map();
  /** @type {Map<number, Read>} */
  #pending = new Map();
  /** @type {Error | null} */
  #dead = null;
  /** The worker is there, or won't be. @type {Deferred<void>} */
  #begun = deferred();

  /** @param {WorkerLike} worker */
  constructor(worker) {
    this.#worker = worker;
    listen(
      worker,
      (message) => this.#answer(message),
      (why) => this.#end(new BqError('NO_WORKER', `the worker that reads the model failed: ${why}`)),
    );
    const why = new BqError('NO_WORKER', 'the worker that reads the model did not begin');
    void this.#begun.promise.then(after('readerStart', () => this.#end(why)));
  }

  /** @param {{ id: number, buffer?: ArrayBuffer, again?: boolean, error?: any, begun?: boolean, closed?: number }} message */
  #answer({ id, buffer, again, error, begun, closed }) {
    if (begun) return this.#begun.resolve();
    if (closed) return this.#open.get(closed)?.resolve(true);
    const read = this.#take(id);
    if (!read) return;
    const { wasm, at, bytes } = read;
    if (error) return read.reject(unpackError(error));
    if (buffer && wasm.alive) wasm.bytes(at, bytes).set(new Uint8Array(buffer, 0, bytes));
    if (buffer && again) this.#worker.postMessage({ spare: buffer }, [buffer]);
    else if (buffer) /** @type {any} */ (buffer).transfer?.(0); // freed now, where the browser can
    read.resolve();
  }

  /** @param {number} id */
  #take(id) {
    const read = this.#pending.get(id);
    this.#pending.delete(id);
    return read;
  }

  /** It is no more. @param {Error} why */
  #end(why) {
    if (this.#dead) return;
    this.#dead = why;
    this.#worker.terminate();
    ReadingWorker.#one = null;
    this.#begun.resolve();
    for (const id of [...this.#pending.keys()]) this.#take(id)?.reject(why);
    for (const closed of this.#open.values()) closed.resolve(false);
  }

  /** NO_WORKER, CLOSED: it has ended meanwhile. @param {Wasm} wasm @param {Source} source @returns {Filler} */
  open(wasm, source) {
    if (this.#dead) throw this.#dead;
    const of = ++this.#last;
    this.#open.set(of, deferred());
    const { buffer } = wasm.memory;
    const shared = typeof SharedArrayBuffer === 'function' && buffer instanceof SharedArrayBuffer ? buffer : null;
    this.#worker.postMessage({ of, source, shared });
    return {
      fill: (offset, at, bytes) =>
        new Promise((resolve, reject) => {
          if (this.#dead) return void reject(this.#dead);
          const id = ++this.#last;
          this.#pending.set(id, { of, wasm, at, bytes, resolve: () => resolve(undefined), reject });
          this.#worker.postMessage({ of, id, offset, at, bytes });
        }),
      close: () => this.#close(of),
    };
  }

  /** @param {number} of */
  async #close(of) {
    const why = new BqError('CLOSED', 'the model was closed');
    for (const [id, read] of this.#pending) if (read.of === of) this.#take(id)?.reject(why);
    const closed = /** @type {Deferred<boolean>} */ (this.#open.get(of));
    if (!this.#dead) {
      // It lets go of its files first: a handle that dies with its worker may lock a file for a while.
      this.#worker.postMessage({ of, close: true });
      const stop = after('readerClose', () => closed.resolve(false));
      // What still reads would write into memory that others have then.
      if (!(await closed.promise)) this.#end(new BqError('NO_WORKER', 'the worker that reads the model hangs'));
      stop();
    }
    this.#open.delete(of);
    if (!this.#open.size) this.#end(why);
  }
}

/** @param {Wasm} wasm @param {Source} source @returns {Promise<Filler>} */
async function openFiller(wasm, source) {
  if (!isNode && !isInMemory(source) && typeof Worker === 'function') {
    try {
      return (await ReadingWorker.get()).open(wasm, source);
    } catch {
      // A browser without workers in workers reads in this one, as where the worker does not begin.
    }
  }
  return localFiller(wasm, await openReader(source));
}

export class Pager {
  #wasm;
  #model;
  #filler;
  #block;
  /** Reads under way. */
  #open = 0;
  #closed = false;
  /**
   * Sessions that wait for pages, each with the count of reads that had begun when it came. Only the first asks for any, so that they
   * don't take each other's. @type {Map<number, number>}
   */
  #line = new Map();
  /** Resolved, and replaced, whenever something has changed. @type {Deferred<void>} */
  #gate = deferred();
  /** Counts reads that begin. */
  #begun = 0;
  /** The last read that failed. @type {{ begun: number, error: unknown } | null} */
  #failure = null;

  /** @param {Wasm} wasm @param {number} model  its handle @param {Filler} filler */
  constructor(wasm, model, filler) {
    this.#wasm = wasm;
    this.#model = model;
    this.#filler = filler;
    this.#block = wasm.alloc(8 + PAGES * structs.bqw_page.size);
  }

  /** @param {Wasm} wasm @param {number} model @param {Source} source  one that `canPage` (plan.js) */
  static async open(wasm, model, source) {
    return new Pager(wasm, model, await openFiller(wasm, source));
  }

  /** After every slice: starts to read what the session will need. @param {number} session  its handle */
  ahead(session) {
    if (this.#line.size && !this.#isFirst(session)) return;
    const list = this.#block + 8;
    this.#wasm.check('bqw_session_pages', session, list, PAGES, this.#block);
    const [count] = this.#wasm.u32(this.#block, 1);
    for (let i = 0; i < count; i++)
      void this.#read(/** @type {any} */ (this.#wasm.read('bqw_page', list + i * structs.bqw_page.size)));
  }

  /** @param {{ offset: number, dst: number, bytes: number, id: number }} page */
  async #read({ offset, dst, bytes, id }) {
    this.#open++;
    const begun = ++this.#begun;
    let good = true;
    try {
      await this.#filler.fill(offset, dst, bytes);
    } catch (error) {
      good = false;
      this.#failure = { begun, error };
    }
    this.#open--;
    if (this.#closed) return;
    if (this.#wasm.alive) this.#wasm.check('bqw_page_done', this.#model, id, good ? 1 : 0);
    this.#wake();
  }

  #wake() {
    const before = this.#gate;
    this.#gate = deferred();
    before.resolve();
  }

  /**
   * Waits until something has changed for a session whose slice found no page. False: no read is under way, what it
   * lacks is something else. Throws what a read threw that began while it waits: an earlier one, for another generation or
   * ahead of need, is tried again first.
   * @param {number} session
   * @param {AbortSignal} [signal]
   */
  async wait(session, signal) {
    const since = this.#line.get(session) ?? this.#begun;
    this.#line.set(session, since);
    this.ahead(session);
    if (!this.#open && this.#isFirst(session)) return false;
    await unlessAborted(this.#gate.promise, signal);
    if (this.#failure && this.#failure.begun > since) throw this.#failure.error;
    return true;
  }

  /** The session has what it waited for, or waits no more. @param {number} session */
  leave(session) {
    if (this.#line.delete(session)) this.#wake();
  }

  /** @param {number} session */
  #isFirst(session) {
    return this.#line.keys().next().value === session;
  }

  async close() {
    this.#closed = true;
    this.#gate.reject(new BqError('CLOSED', 'the model was closed'));
    await this.#filler.close();
  }
}
