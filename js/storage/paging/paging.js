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
 * @property {() => void} endReads  fails the reads under way that can be ended (reader.js)
 * @property {() => Promise<void>} close
 */

/** Reads in this thread, straight into the heap: in Node others do the work meanwhile. @param {Wasm} wasm @param {Reader} reader @returns {Filler} */
function localFiller(wasm, reader) {
  return {
    fill: (offset, at, bytes) => readInto(reader, wasm, offset, at, bytes),
    endReads: () => reader.endReads?.(),
    close: () => reader.close(),
  };
}

/** A read under way. @typedef {{ sourceId: number, wasm: Wasm, at: number, bytes: number, resolve: () => void, reject: (error: unknown) => void }} Read */

/** A worker that reads, so that the disk works while this thread computes: one for all models. */
class ReadingWorker {
  /** @type {Promise<ReadingWorker> | null} */
  static #shared = null;

  /** The one that there is, or a new one. Throws where there can't be one. */
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
  /** Sources and reads so far. */
  #lastId = 0;
  /** Sources that are open, and whoever waits for one to be closed. @type {Map<number, Deferred<boolean>>} */
  #open = new Map();
  /** @type {Map<number, Read>} */
  #pending = new Map();
  /** @type {Error | null} */
  #failure = null;
  /** The worker is there, or won't be. @type {Deferred<void>} */
  #started = deferred();

  /** @param {WorkerLike} worker */
  constructor(worker) {
    this.#worker = worker;
    listen(
      worker,
      (message) => this.#handleMessage(message),
      (reason) => this.#fail(new BqError('NO_WORKER', `the worker that reads the model failed: ${reason}`)),
    );
    const startError = new BqError('NO_WORKER', 'the worker that reads the model did not begin');
    void this.#started.promise.then(after('readerStart', () => this.#fail(startError)));
  }

  /** @param {{ id: number, buffer?: ArrayBuffer, isReusable?: boolean, error?: any, started?: boolean, closedSource?: number }} message */
  #handleMessage({ id, buffer, isReusable, error, started, closedSource }) {
    if (started) return this.#started.resolve();
    if (closedSource) return this.#open.get(closedSource)?.resolve(true);
    const pendingRead = this.#takePending(id);
    if (!pendingRead) return;
    const { wasm, at, bytes } = pendingRead;
    if (error) return pendingRead.reject(unpackError(error));
    if (buffer && wasm.alive) wasm.bytes(at, bytes).set(new Uint8Array(buffer, 0, bytes));
    if (buffer && isReusable) this.#worker.postMessage({ spare: buffer }, [buffer]);
    else if (buffer) /** @type {any} */ (buffer).transfer?.(0); // freed now, where the browser can
    pendingRead.resolve();
  }

  /** @param {number} id */
  #takePending(id) {
    const pendingRead = this.#pending.get(id);
    this.#pending.delete(id);
    return pendingRead;
  }

  /** It is no more. @param {Error} error */
  #fail(error) {
    if (this.#failure) return;
    this.#failure = error;
    this.#worker.terminate();
    ReadingWorker.#shared = null;
    this.#started.resolve();
    for (const id of [...this.#pending.keys()]) this.#takePending(id)?.reject(error);
    for (const closing of this.#open.values()) closing.resolve(false);
  }

  /** NO_WORKER, CLOSED: it has ended meanwhile. @param {Wasm} wasm @param {Source} source @returns {Filler} */
  open(wasm, source) {
    if (this.#failure) throw this.#failure;
    const sourceId = ++this.#lastId;
    this.#open.set(sourceId, deferred());
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
    const closing = /** @type {Deferred<boolean>} */ (this.#open.get(sourceId));
    if (!this.#failure) {
      // The worker closes its files first: a handle that dies with its worker may lock a file for a while.
      this.#worker.postMessage({ sourceId, close: true });
      const stop = after('readerClose', () => closing.resolve(false));
      // What still reads would write into memory that others have then.
      if (!(await closing.promise)) this.#fail(new BqError('NO_WORKER', 'the worker that reads the model hangs'));
      stop();
    }
    this.#open.delete(sourceId);
    if (!this.#open.size) this.#fail(closedError);
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
  #isClosed = false;
  /**
   * Sessions that wait for pages, each with the count of reads that had begun when it came. Only the first asks for any, so that they
   * don't take each other's. @type {Map<number, number>}
   */
  #waitingSessions = new Map();
  /** Resolved, and replaced, whenever something has changed. @type {Deferred<void>} */
  #nextChange = deferred();
  /** Counts reads that begin. */
  #readCount = 0;
  /** The last read that failed. @type {{ readNumber: number, error: unknown } | null} */
  #lastFailure = null;

  /** @param {Wasm} wasm @param {number} model  its handle @param {Filler} filler */
  constructor(wasm, model, filler) {
    this.#wasm = wasm;
    this.#model = model;
    this.#filler = filler;
    this.#block = wasm.alloc(8 + PAGES * structs.bqw_page.size);
  }

  /** @param {Wasm} wasm @param {number} model @param {Source | Reader} source  a source that `canPage` (plan.js), or how it is read in this thread @param {AbortSignal} [signal] */
  static async open(wasm, model, source, signal) {
    if ('read' in source) return new Pager(wasm, model, localFiller(wasm, source));
    const opening = openFiller(wasm, source);
    try {
      return new Pager(wasm, model, await unlessAborted(opening, signal));
    } catch (error) {
      // A handle may never give its file: what is opened after an abort is closed.
      void opening.then((filler) => filler.close()).catch(() => {});
      throw error;
    }
  }

  /** After every slice: starts to read what the session will need. @param {number} session  its handle */
  ahead(session) {
    if (this.#waitingSessions.size && !this.#isFirst(session)) return;
    const list = this.#block + 8;
    this.#wasm.check('bqw_session_pages', session, list, PAGES, this.#block);
    const [count] = this.#wasm.u32(this.#block, 1);
    for (let i = 0; i < count; i++)
      void this.#readPage(/** @type {any} */ (this.#wasm.read('bqw_page', list + i * structs.bqw_page.size)));
  }

  /** @param {{ offset: number, dst: number, bytes: number, id: number }} page */
  async #readPage({ offset, dst, bytes, id }) {
    this.#open++;
    const readNumber = ++this.#readCount;
    let isComplete = true;
    try {
      await this.#filler.fill(offset, dst, bytes);
    } catch (error) {
      isComplete = false;
      this.#lastFailure = { readNumber, error };
    }
    this.#open--;
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
   * Waits until something has changed for a session whose slice found no page. False: no read is under way, what it
   * lacks is something else. Throws what a read threw that began while it waits: an earlier one, for another generation or
   * ahead of need, is tried again first.
   * @param {number} session
   * @param {AbortSignal} [signal]
   */
  async wait(session, signal) {
    const readsBefore = this.#waitingSessions.get(session) ?? this.#readCount;
    this.#waitingSessions.set(session, readsBefore);
    this.ahead(session);
    if (!this.#open && this.#isFirst(session)) return false;
    try {
      await unlessAborted(this.#nextChange.promise, signal);
    } catch (error) {
      // Some reads never end; the next session begins others.
      if (!this.#isClosed && this.#waitingSessions.size === 1) this.#filler.endReads();
      throw error;
    }
    if (this.#lastFailure && this.#lastFailure.readNumber > readsBefore) throw this.#lastFailure.error;
    return true;
  }

  /** The session has what it waited for, or waits no more. @param {number} session */
  leave(session) {
    if (this.#waitingSessions.delete(session)) this.#wake();
  }

  /** @param {number} session */
  #isFirst(session) {
    return this.#waitingSessions.keys().next().value === session;
  }

  async close() {
    this.#isClosed = true;
    this.#nextChange.reject(new BqError('CLOSED', 'the model was closed'));
    await this.#filler.close();
  }
}
