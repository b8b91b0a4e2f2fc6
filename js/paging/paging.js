/**
 * Models larger than their budget: what doesn't stay in memory is read from the file whenever it is needed. C says
 * which bytes go where (bqw_session_pages), this reads them while the session computes.
 *
 * Only imported when a plan pages.
 */
import { BqError, unpackError } from '../shared/errors.js';
import { listen } from '../shared/protocol.js';
import { openReader } from './reader.js';
import { isNode } from '../shared/node.js';
import { structs } from '../wasm/border.js';
import { gate, unlessAborted } from '../shared/async.js';

/** @import { Reader } from './reader.js' */
/** @import { Gate } from '../shared/async.js' */
/** @import { Source } from '../shared/types.js' */
/** @import { Wasm } from '../wasm/wasm.js' */

/** Pages that are asked for in one call. */
const PAGES = 16;
/** Milliseconds that a worker which was ended gets for it. */
const END_MS = 50;
/** Milliseconds in which a worker has to say that it is there: in Firefox one of a busy page was seen never to begin. */
const BEGIN_MS = 4000;
/** Workers begin one after the other, and not while one ends: Firefox may hang in `new Worker` then. */
let free = Promise.resolve();

/**
 * Reads ranges of a file to addresses of the heap.
 * @typedef {object} Filler
 * @property {(offset: number, at: number, bytes: number) => Promise<void>} fill
 * @property {() => Promise<void>} close
 */

/** Reads in this thread, straight into the heap: in Node others do the work meanwhile. @param {Wasm} wasm @param {Reader} reader @returns {Filler} */
function localFiller(wasm, reader) {
  return {
    fill: async (offset, at, bytes) => {
      const piece = await reader.read(offset, bytes, () => wasm.bytes(at, bytes));
      if (!reader.fills && wasm.alive) wasm.bytes(at, bytes).set(piece);
    },
    close: () => reader.close(),
  };
}

/** Reads in a worker of its own, so that the disk works while this thread computes. @implements {Filler} */
class WorkerFiller {
  #wasm;
  #worker;
  #last = 0;
  /** @type {Map<number, { at: number, bytes: number, resolve: () => void, reject: (error: unknown) => void }>} */
  #pending = new Map();
  /** @type {Error | null} */
  #dead = null;
  /** The worker is there, or won't be. @type {Gate<void>} */
  #begun = gate();
  begun = this.#begun.promise;
  /** It has closed its files. @type {Gate<void>} */
  #closed = gate();

  /** @param {Wasm} wasm @param {Worker} worker @param {Source} source */
  constructor(wasm, worker, source) {
    this.#wasm = wasm;
    this.#worker = worker;
    const { buffer } = wasm.memory;
    const shared = typeof SharedArrayBuffer === 'function' && buffer instanceof SharedArrayBuffer ? buffer : null;
    listen(
      worker,
      (message) => this.#answer(message),
      (why) => this.#end(new BqError('NO_WORKER', `the worker that reads the model failed: ${why}`)),
    );
    worker.postMessage({ source, shared });
  }

  /** @param {{ id: number, buffer?: ArrayBuffer, again?: boolean, error?: any, begun?: boolean, closed?: boolean }} message */
  #answer({ id, buffer, again, error, begun, closed }) {
    if (begun) return this.#begun.resolve();
    if (closed) return this.#closed.resolve();
    const call = this.#pending.get(id);
    this.#pending.delete(id);
    if (!call) return;
    if (error) return call.reject(unpackError(error));
    if (buffer && this.#wasm.alive) this.#wasm.bytes(call.at, call.bytes).set(new Uint8Array(buffer, 0, call.bytes));
    if (buffer && again) this.#worker.postMessage({ spare: buffer }, [buffer]);
    else if (buffer) /** @type {any} */ (buffer).transfer?.(0); // freed now, where the browser can
    call.resolve();
  }

  /** Whether it begins; it is given up otherwise. @returns {Promise<boolean>} */
  async there() {
    const late = setTimeout(
      () => this.#end(new BqError('NO_WORKER', 'the worker that reads the model did not begin')),
      BEGIN_MS,
    );
    await this.begun;
    clearTimeout(late);
    if (this.#dead) this.#worker.terminate();
    return !this.#dead;
  }

  /** @type {Filler['fill']} */
  fill = (offset, at, bytes) =>
    new Promise((resolve, reject) => {
      if (this.#dead) return void reject(this.#dead);
      this.#pending.set(++this.#last, { at, bytes, resolve: () => resolve(undefined), reject });
      this.#worker.postMessage({ id: this.#last, offset, at, bytes });
    });

  /** @param {Error} why */
  #end(why) {
    this.#dead ??= why;
    this.#begun.resolve();
    for (const { reject } of this.#pending.values()) reject(why);
    this.#pending.clear();
  }

  close = async () => {
    this.#end(new BqError('CLOSED', 'the model was closed'));
    // It lets go of its files first: a handle that dies with its worker may lock a file for a while.
    this.#worker.postMessage({ close: true });
    setTimeout(this.#closed.resolve, 1000);
    await this.#closed.promise;
    this.#worker.terminate();
    free = free.then(() => new Promise((resolve) => setTimeout(resolve, END_MS)));
  };
}

/** @param {Wasm} wasm @param {Source} source @returns {Promise<Filler>} */
async function openFiller(wasm, source) {
  if (!isNode && source.kind !== 'bytes' && typeof Worker === 'function') {
    const made = free.then(
      () => new WorkerFiller(wasm, new Worker(new URL('../io-worker.js', import.meta.url), { type: 'module' }), source),
    );
    free = made.then(
      ({ begun }) => begun,
      () => {},
    );
    try {
      const filler = await made;
      if (await filler.there()) return filler;
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
  /** Sessions that wait for pages. Only the first asks for any, so that they don't take each other's. @type {number[]} */
  #line = [];
  /** Resolved, and replaced, whenever something has changed. @type {Gate<void>} */
  #gate = gate();

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
    if (this.#line.length && this.#line[0] !== session) return;
    const list = this.#block + 8;
    this.#wasm.check('bqw_session_pages', session, list, PAGES, this.#block);
    const [count] = this.#wasm.u32(this.#block, 1);
    for (let i = 0; i < count; i++)
      void this.#read(/** @type {any} */ (this.#wasm.read('bqw_page', list + i * structs.bqw_page.size)));
  }

  /** @param {{ offset: number, dst: number, bytes: number, id: number }} page */
  async #read({ offset, dst, bytes, id }) {
    this.#open++;
    let error;
    try {
      await this.#filler.fill(offset, dst, bytes);
    } catch (cause) {
      error = cause;
    }
    this.#open--;
    if (this.#closed) return;
    if (this.#wasm.alive) this.#wasm.check('bqw_page_done', this.#model, id, error ? 0 : 1);
    this.#wake(error);
  }

  /** @param {unknown} [error] */
  #wake(error) {
    const before = this.#gate;
    this.#gate = gate();
    if (error) before.reject(error);
    else before.resolve();
  }

  /**
   * Waits until something has changed for a session whose slice found no page. False: no read is under way, what it
   * lacks is something else.
   * @param {number} session
   * @param {AbortSignal} [signal]
   */
  async wait(session, signal) {
    if (!this.#line.includes(session)) this.#line.push(session);
    this.ahead(session);
    if (!this.#open && this.#line[0] === session) return false;
    await unlessAborted(this.#gate.promise, signal);
    return true;
  }

  /** The session has what it waited for, or waits no more. @param {number} session */
  leave(session) {
    const at = this.#line.indexOf(session);
    if (at < 0) return;
    this.#line.splice(at, 1);
    this.#wake();
  }

  async close() {
    this.#closed = true;
    this.#gate.reject(new BqError('CLOSED', 'the model was closed'));
    await this.#filler.close();
  }
}
