/** The page's side of an engine in a worker: the same methods as the engine of this thread. */
import { Chat } from '../chat/chat.js';
import { fullUrl, resolveBuilds } from '../shared/builds.js';
import { unlessAborted } from '../shared/async.js';
import { BqError, packError, unpackError } from '../shared/errors.js';
import { Generation } from '../shared/generation.js';
import { CREDITS, listen, PROTOCOL } from '../shared/protocol.js';
import { toSource } from '../sources/index.js';
import { isNode, nodeModule } from '../shared/node.js';

/** @import { Engine, EngineInfo, EngineOptions, EngineStore, Model, ModelInfo, Part, Result, Session } from '../shared/types.js' */

/** Milliseconds that a worker may be silent while it starts threads: more than it gives them itself. */
const THREADS_MS = 6000;
/** Milliseconds for a worker to let go of its files. */
const CLOSE_MS = 1000;
/** Milliseconds for a worker's own workers to end before it does: Chromium 156 keeps all of them, for good, when both happen at once. */
const NESTED_MS = 50;

/** @param {any} [given]  a worker that runs worker.js, or a function that makes one */
async function startWorker(given) {
  if (given) return typeof given === 'function' ? given() : given;
  if (isNode) {
    const { Worker: Thread } = await nodeModule('worker_threads');
    return new Thread(new URL('../worker.js', import.meta.url));
  }
  try {
    return new Worker(new URL('../worker.js', import.meta.url), { type: 'module' });
  } catch (cause) {
    throw new BqError('NO_WORKER', `no worker can be started: ${/** @type {Error} */ (cause).message}`, { cause });
  }
}

/** Calls to a worker. */
class Connection {
  #worker;
  #last = 0;
  /** Calls under way. @type {Map<number, { resolve: (value: any) => void, reject: (error: unknown) => void }>} */
  #pending = new Map();
  /** Who hears of their events. @type {Map<number, (event: any) => void>} */
  #listeners = new Map();
  /** Why no call can succeed any more. @type {Error | null} */
  #dead = null;

  /** @param {any} worker */
  constructor(worker) {
    this.#worker = worker;
    listen(
      worker,
      ({ id, event, error, ok }) => {
        if (event) return this.#listeners.get(id)?.(event);
        const call = this.#pending.get(id);
        this.#pending.delete(id);
        if (error) call?.reject(unpackError(error));
        else call?.resolve(ok);
      },
      (why) => this.#end(new BqError('NO_WORKER', `the worker failed: ${why}`)),
    );
  }

  /**
   * Begins a call: its id, and its end. Events come until `forget(id)`.
   * @param {object} request
   * @param {(event: any) => void} [onEvent]
   */
  start(request, onEvent) {
    if (this.#dead) throw this.#dead;
    const id = ++this.#last;
    try {
      this.#worker.postMessage({ id, args: [], ...request });
    } catch (cause) {
      // What can't be posted must not be registered: nobody would ever answer it.
      throw new BqError('ARGUMENT', `an argument can't be sent to the worker: ${/** @type {Error} */ (cause).message}`, { cause });
    }
    if (onEvent) this.#listeners.set(id, onEvent);
    const end = new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject }));
    return { id, end };
  }

  /** @param {number} id */
  forget(id) {
    this.#listeners.delete(id);
  }

  /** Tells the worker something about a call. @param {object} message */
  tell(message) {
    if (!this.#dead) this.#worker.postMessage(message);
  }

  /**
   * A whole call; an abort is passed on. Events go on until what `then` makes of the result has settled.
   * @param {object} request
   * @param {{ signal?: AbortSignal, onEvent?: (event: any) => void, then?: (value: any) => Promise<any> }} [options]
   * @returns {Promise<any>}
   */
  async call(request, { signal, onEvent, then } = {}) {
    signal?.throwIfAborted();
    const { id, end } = this.start(request, onEvent);
    const abort = () => this.tell({ id, op: 'abort', reason: packError(signal?.reason) });
    const forget = () => this.forget(id);
    signal?.addEventListener('abort', abort);
    try {
      const value = await end;
      then?.(value).then(forget, forget) ?? forget();
      return value;
    } catch (error) {
      forget();
      signal?.throwIfAborted();
      throw error;
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }

  /** @param {Error} why */
  #end(why) {
    this.#dead ??= why;
    for (const { reject } of this.#pending.values()) reject(this.#dead);
    this.#pending.clear();
    this.#listeners.clear();
  }

  async close() {
    this.#end(new BqError('CLOSED', 'the engine was closed'));
    await this.#worker.terminate();
  }
}

/** An object in the worker, by its number. */
class Remote {
  /** @param {Connection} connection @param {number} on */
  constructor(connection, on) {
    this.connection = connection;
    this.on = on;
  }

  /** @param {string} method @param {any[]} args @returns {Promise<any>} */
  invoke(method, ...args) {
    return this.connection.call({ op: 'call', on: this.on, method, args });
  }

  async close() {
    await this.connection.call({ op: 'close', on: this.on }).catch(() => {});
  }
}

/** @implements {Session} */
class RemoteSession extends Remote {
  /** @type {Session['stats']} */
  stats = () => this.invoke('stats');
  /** @type {Session['trace']} */
  trace = (options) => this.invoke('trace', options);

  /** @type {Session['generate']} */
  generate = (prompt, { signal, ...options } = {}) =>
    new Generation((end) => this.#generate([typeof prompt === 'string' ? prompt : Uint32Array.from(prompt), options], signal, end));

  /**
   * @param {any[]} args
   * @param {AbortSignal | undefined} signal
   * @param {(result: Result) => void} end
   * @returns {AsyncGenerator<Part, void>}
   */
  async *#generate(args, signal, end) {
    signal?.throwIfAborted();
    const { connection } = this;
    // Where memory can be shared, the worker sees an abort between two slices, without a message.
    const flag = typeof SharedArrayBuffer === 'function' ? new Int32Array(new SharedArrayBuffer(4)) : null;
    /** @type {Part[]} */
    const queue = [];
    let wake = () => {};
    /** @type {Part[]} */
    const read = [];
    /** @type {Result | null} */
    let result = null;
    let ended = false;
    const call = connection.start({ op: 'generate', on: this.on, args, flag }, (part) => {
      queue.push(part);
      wake();
    });
    const settled = call.end.then((value) => (result = value)).finally(() => {
      ended = true;
      wake();
    });
    settled.catch(() => {});
    const abort = () => {
      if (flag) Atomics.store(flag, 0, 1);
      connection.tell({ id: call.id, op: 'abort' });
      wake();
    };
    signal?.addEventListener('abort', abort);
    try {
      while (queue.length || !ended) {
        signal?.throwIfAborted();
        const part = queue.shift();
        if (!part) {
          await new Promise((resolve) => (wake = () => resolve(undefined)));
          continue;
        }
        if (read.push(part) % (CREDITS / 2) === 0) connection.tell({ id: call.id, op: 'credit', n: CREDITS / 2 });
        yield part;
      }
      signal?.throwIfAborted();
      await settled;
    } finally {
      signal?.removeEventListener('abort', abort);
      if (!ended) abort();
      await settled.catch(() => {});
      connection.forget(call.id);
      const told = /** @type {Result | null} */ (result);
      // The worker may have been ahead of what was read: the result tells what was.
      if (told)
        end(read.length === told.ids.length
          ? told
          : { ...told, ids: read.map((part) => part.id), text: read.map((part) => part.text).join(''), reason: 'abort', stop: null });
    }
  }
}

/** @implements {Model} */
class RemoteModel extends Remote {
  /** @param {Connection} connection @param {number} on @param {ModelInfo} info @param {Promise<void>} loaded */
  constructor(connection, on, info, loaded) {
    super(connection, on);
    this.info = info;
    this.loaded = loaded;
  }

  /** @type {Model['tokenize']} */
  tokenize = (...args) => this.invoke('tokenize', ...args);
  /** @type {Model['detokenize']} */
  detokenize = (ids) => this.invoke('detokenize', Array.from(ids));
  /** @type {Model['tokenId']} */
  tokenId = (text) => this.invoke('tokenId', text);
  /** @type {Model['memory']} */
  memory = () => this.invoke('memory');
  pause = () => this.invoke('pause');
  resume = () => this.invoke('resume');
  /** @type {Model['createSession']} */
  createSession = async (...args) => new RemoteSession(this.connection, await this.connection.call({ op: 'createSession', on: this.on, args }));
  /** @type {Model['createChat']} */
  createChat = async (options = {}) => Chat.create(this, options);
}

/** @implements {Engine} */
class RemoteEngine {
  #connection;

  /** @param {Connection} connection @param {EngineInfo} info @param {Pick<EngineStore, 'backend' | 'reason'> | null} store */
  constructor(connection, info, store) {
    this.#connection = connection;
    this.info = { ...info, worker: true };
    const ask = (/** @type {string} */ method) => (/** @type {any[]} */ ...args) => connection.call({ op: 'store', method, args });
    /** @type {EngineStore | null} */
    this.store = store && { ...store, list: ask('list'), usage: ask('usage'), delete: ask('delete'), pin: ask('pin'), clear: ask('clear') };
  }

  /** @type {Engine['plan']} */
  plan = async (source, { signal, onProgress, ...options } = {}) => this.#connection.call({ op: 'plan', args: [toSource(source), options] }, { signal });

  /** @type {Engine['load']} */
  load = async (source, { signal, onProgress, ...options } = {}) => {
    const connection = this.#connection;
    let loaded = Promise.resolve();
    const { model, info } = await connection.call(
      { op: 'load', args: [toSource(source), options] },
      { signal, onEvent: onProgress, then: (made) => (loaded = connection.call({ op: 'loaded', on: made.model }, { signal })) },
    );
    return new RemoteModel(connection, model, info, loaded);
  };

  close = async () => {
    // It lets go of its files first: a handle that dies with its worker may lock a file for a while.
    if (this.store || this.info.threads > 1) {
      const patience = setTimeout(() => this.#connection.close(), CLOSE_MS);
      await this.#connection.call({ op: 'end' }).catch(() => {});
      clearTimeout(patience);
      await new Promise((resolve) => setTimeout(resolve, NESTED_MS));
    }
    await this.#connection.close();
  };
}

/**
 * Opens the engine of a worker. Null: it went silent while it started threads, as workers that make workers can.
 * @param {Connection} connection
 * @param {object} options
 * @param {AbortSignal} [signal]
 * @returns {Promise<{ info: EngineInfo, store: Pick<EngineStore, 'backend' | 'reason'> | null } | null>}
 */
async function open(connection, options, signal) {
  /** @type {any} */
  let timer;
  const answer = new Promise((resolve, reject) => {
    const onEvent = () => (timer = setTimeout(resolve, THREADS_MS, null));
    connection.call({ op: 'open', args: [{ protocol: PROTOCOL, options }] }, { signal, onEvent }).then(resolve, reject);
  });
  // Whoever doesn't want it any more need not wait for a worker that may never answer.
  return unlessAborted(answer, signal).finally(() => clearTimeout(timer));
}

/**
 * An engine in a worker of its own: the page stays responsive. NO_SIMD, NO_ENGINE, NO_WORKER, ARGUMENT.
 * @param {EngineOptions & { worker?: any }} [options]  `worker`: one that runs js/worker.js, or a function that makes one
 * @returns {Promise<Engine>}
 */
export async function createWorkerEngine({ signal, worker, ...options } = {}) {
  signal?.throwIfAborted();
  // Relative to the page, not to the worker.
  if (options.cache && typeof options.cache === 'object' && 'open' in options.cache)
    throw new BqError('ARGUMENT', 'a worker opens its store itself: pass options of a store');
  const given = { ...options, wasmUrl: resolveBuilds(options.wasmUrl), threadUrl: options.threadUrl && fullUrl(options.threadUrl) };
  for (const threads of [options.threads, 1]) {
    const connection = new Connection(await startWorker(worker));
    try {
      const made = await open(connection, { ...given, threads }, signal);
      if (made) return new RemoteEngine(connection, threads === options.threads ? made.info : { ...made.info, threadsReason: SILENT }, made.store);
    } catch (error) {
      await connection.close();
      throw error;
    }
    void connection.close();
    if (worker && typeof worker !== 'function') break;
  }
  throw new BqError('NO_WORKER', SILENT, { hint: 'ask for one thread, or pass a function that makes the worker, so that another one can be tried' });
}

const SILENT = 'the worker went silent when it started threads';
