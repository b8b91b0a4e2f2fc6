/**
 * Paging, for models larger than their memory budget: weights that are not resident are read from the file whenever
 * they are needed. The C code lists which bytes go to which address (bqw_session_pages); this module reads them while
 * the session computes. It is loaded on demand, for plans with paging.
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

/** Largest number of pages that are requested in one call. */
const MAX_PAGES = 16;

/**
 * Reads ranges of a file to addresses of the heap.
 * @typedef {object} Filler
 * @property {(offset: number, at: number, bytes: number) => Promise<void>} fill
 * @property {() => void} endReads  rejects the running reads that can be ended (reader.js)
 * @property {() => Promise<void>} close
 */

/**
 * Creates a filler that reads in this thread, directly into the heap. In Node other threads do the work meanwhile.
 * @param {Wasm} wasm @param {Reader} reader @returns {Filler}
 */
function localFiller(wasm, reader) {
  return {
    fill: (offset, at, bytes) => readInto(reader, wasm, offset, at, bytes),
    endReads: () => reader.endReads?.(),
    close: () => reader.close(),
  };
}

/**
 * A running read.
 * @typedef {{ sourceId: number, wasm: Wasm, at: number, bytes: number, resolve: () => void,
 *   reject: (error: unknown) => void }} Read
 */

/** A worker that reads files while this thread computes. All models share one worker. */
class ReadingWorker {
  /** @type {Promise<ReadingWorker> | null} */
  static #shared = null;

  /** Returns the shared worker, which is started if it is missing. Throws if it can't be started. */
  static get() {
    return (ReadingWorker.#shared ??= ReadingWorker.#start().catch((error) => {
      ReadingWorker.#shared = null;
      throw error;
    }));
  }

  static async #start() {
    const worker = new ReadingWorker(await within('readerStart', startWorker('io')));
    await worker.#started.promise;
    if (worker.#failure) throw worker.#failure;
    return worker;
  }

  #worker;
  /** Last id of a source or a read. */
  #lastId = 0;
  /**
   * Open sources by id, with a promise of their end: true when the worker has closed the source, false if it failed.
   * @type {Map<number, Deferred<boolean>>}
   */
  #openSources = new Map();
  /** @type {Map<number, Read>} */
  #pending = new Map();
  /** @type {Error | null} */
  #failure = null;
  /** Resolves when the worker has started, or has failed. @type {Deferred<void>} */
  #started = deferred();

  /** @param {WorkerLike} worker */
  constructor(worker) {
    this.#worker = worker;
    listen(
      worker,
      (message) => this.#handleMessage(message),
      (reason) => this.#fail(new BqError('NO_WORKER', `the worker that reads the model failed: ${reason}`)),
    );
    const startError = new BqError('NO_WORKER', 'the worker that reads the model did not start');
    void this.#started.promise.then(after('readerStart', () => this.#fail(startError)));
  }

  /**
   * @param {{ id: number, buffer?: ArrayBuffer, isReusable?: boolean, error?: any, started?: boolean,
   *   closedSource?: number }} message
   */
  #handleMessage({ id, buffer, isReusable, error, started, closedSource }) {
    if (started) return this.#started.resolve();
    if (closedSource) return this.#openSources.get(closedSource)?.resolve(true);
    const pendingRead = this.#takePending(id);
    if (!pendingRead) return;
    const { wasm, at, bytes } = pendingRead;
    if (error) return pendingRead.reject(unpackError(error));
    if (buffer && wasm.alive) wasm.bytes(at, bytes).set(new Uint8Array(buffer, 0, bytes));
    if (buffer && isReusable) this.#worker.postMessage({ spare: buffer }, [buffer]);
    else if (buffer) /** @type {any} */ (buffer).transfer?.(0); // frees it now, if the browser can
    pendingRead.resolve();
  }

  /** @param {number} id */
  #takePending(id) {
    const pendingRead = this.#pending.get(id);
    this.#pending.delete(id);
    return pendingRead;
  }

  /** Ends the worker, and rejects all reads. @param {Error} error */
  #fail(error) {
    if (this.#failure) return;
    this.#failure = error;
    this.#worker.terminate();
    ReadingWorker.#shared = null;
    this.#started.resolve();
    for (const id of [...this.#pending.keys()]) this.#takePending(id)?.reject(error);
    for (const closing of this.#openSources.values()) closing.resolve(false);
  }

  /**
   * Opens a source. Throws NO_WORKER or CLOSED if the worker has ended meanwhile.
   * @param {Wasm} wasm @param {Source} source @returns {Filler}
   */
  open(wasm, source) {
    if (this.#failure) throw this.#failure;
    const sourceId = ++this.#lastId;
    this.#openSources.set(sourceId, deferred());
    const { buffer } = wasm.memory;
    const sharedBuffer = typeof SharedArrayBuffer === 'function' && buffer instanceof SharedArrayBuffer ? buffer : null;
    this.#worker.postMessage({ sourceId, source, sharedHeap: sharedBuffer });
    return {
      fill: (offset, at, bytes) =>
        new Promise((resolve, reject) => {
          if (this.#failure) return void reject(this.#failure);
          const id = ++this.#lastId;
          this.#pending.set(id, { sourceId, wasm, at, bytes, resolve: () => resolve(undefined), reject });
          this.#worker.postMessage({ sourceId, id, offset, at, bytes });
        }),
      endReads: () => this.#worker.postMessage({ sourceId, endReads: true }),
      close: () => this.#closeSource(sourceId),
    };
  }

  /** @param {number} sourceId */
  async #closeSource(sourceId) {
    const closedError = new BqError('CLOSED', 'the model was closed');
    for (const [id, pendingRead] of this.#pending)
      if (pendingRead.sourceId === sourceId) this.#takePending(id)?.reject(closedError);
    const closing = /** @type {Deferred<boolean>} */ (this.#openSources.get(sourceId));
    if (!this.#failure) {
      // The worker closes its files first: a handle that ends with its worker may lock the file for a while.
      this.#worker.postMessage({ sourceId, close: true });
      const stop = after('readerClose', () => closing.resolve(false));
      // A read that still runs would write into memory that has another use by then.
      if (!(await closing.promise)) this.#fail(new BqError('NO_WORKER', 'the worker that reads the model hangs'));
      stop();
    }
    this.#openSources.delete(sourceId);
    if (!this.#openSources.size) this.#fail(closedError);
  }
}

/** @param {Wasm} wasm @param {Source} source @returns {Promise<Filler>} */
async function openFiller(wasm, source) {
  if (!isNode && !isInMemory(source) && typeof Worker === 'function') {
    try {
      return (await ReadingWorker.get()).open(wasm, source);
    } catch {
      // This thread reads if the browser has no workers in workers, or if the worker does not start.
    }
  }
  return localFiller(wasm, await openReader(source));
}

export class Pager {
  #wasm;
  #model;
  #filler;
  #block;
  /** Number of running reads. */
  #runningReads = 0;
  #isClosed = false;
  /**
   * Sessions that wait for pages, with the number of reads that had begun before the wait. Only the first session
   * requests pages, so that sessions don't replace each other's pages. @type {Map<number, number>}
   */
  #waitingSessions = new Map();
  /** Resolved and replaced at every change: the end of a read, or of a wait. @type {Deferred<void>} */
  #nextChange = deferred();
  /** Number of reads that have begun. */
  #readCount = 0;
  /** The last read that failed. @type {{ readNumber: number, error: unknown } | null} */
  #lastFailure = null;

  /** @param {Wasm} wasm @param {number} model  its handle @param {Filler} filler */
  constructor(wasm, model, filler) {
    this.#wasm = wasm;
    this.#model = model;
    this.#filler = filler;
    this.#block = wasm.alloc(8 + MAX_PAGES * structs.bqw_page.size);
  }

  /**
   * Creates the pager of a model. Throws errors of the source.
   * @param {Wasm} wasm
   * @param {number} model  its handle
   * @param {Source | Reader} source  a pageable source (kinds.js), or a reader that is used in this thread
   * @param {AbortSignal} [signal]
   */
  static async open(wasm, model, source, signal) {
    if ('read' in source) return new Pager(wasm, model, localFiller(wasm, source));
    const opening = openFiller(wasm, source);
    try {
      return new Pager(wasm, model, await unlessAborted(opening, signal));
    } catch (error) {
      // Opening a handle may take forever, so an abort does not wait for it. A file that is opened later is closed.
      void opening.then((filler) => filler.close()).catch(() => {});
      throw error;
    }
  }

  /** Starts to read the pages that a session will need; called after every step. @param {number} session  its handle */
  ahead(session) {
    if (this.#waitingSessions.size && !this.#isFirst(session)) return;
    const list = this.#block + 8;
    this.#wasm.check('bqw_session_pages', session, list, MAX_PAGES, this.#block);
    const [count] = this.#wasm.u32(this.#block, 1);
    for (let i = 0; i < count; i++)
      void this.#readPage(/** @type {any} */ (this.#wasm.read('bqw_page', list + i * structs.bqw_page.size)));
  }

  /** @param {{ offset: number, dst: number, bytes: number, id: number }} page */
  async #readPage({ offset, dst, bytes, id }) {
    this.#runningReads++;
    const readNumber = ++this.#readCount;
    let isComplete = true;
    try {
      await this.#filler.fill(offset, dst, bytes);
    } catch (error) {
      isComplete = false;
      this.#lastFailure = { readNumber, error };
    }
    this.#runningReads--;
    if (this.#isClosed) return;
    if (this.#wasm.alive) this.#wasm.check('bqw_page_done', this.#model, id, isComplete ? 1 : 0);
    this.#wake();
  }

  #wake() {
    const changed = this.#nextChange;
    this.#nextChange = deferred();
    changed.resolve();
  }

  /**
   * Waits for the next change, for a session whose step needs a page that is missing. Returns false if no read is
   * running, so that the session lacks something other than a page. Throws the error of a read that began during the
   * wait. Failed reads from before the wait, for another generation or ahead of need, are tried again first.
   * @param {number} session
   * @param {AbortSignal} [signal]
   */
  async wait(session, signal) {
    const readsBefore = this.#waitingSessions.get(session) ?? this.#readCount;
    this.#waitingSessions.set(session, readsBefore);
    this.ahead(session);
    if (!this.#runningReads && this.#isFirst(session)) return false;
    try {
      await unlessAborted(this.#nextChange.promise, signal);
    } catch (error) {
      // Some reads never end; the next session starts new ones.
      if (!this.#isClosed && this.#waitingSessions.size === 1) this.#filler.endReads();
      throw error;
    }
    if (this.#lastFailure && this.#lastFailure.readNumber > readsBefore) throw this.#lastFailure.error;
    return true;
  }

  /** Ends the wait of a session. @param {number} session */
  leave(session) {
    if (this.#waitingSessions.delete(session)) this.#wake();
  }

  /** Whether a session is the first of those that wait. @param {number} session */
  #isFirst(session) {
    return this.#waitingSessions.keys().next().value === session;
  }

  async close() {
    this.#isClosed = true;
    this.#nextChange.reject(new BqError('CLOSED', 'the model was closed'));
    await this.#filler.close();
  }
}
