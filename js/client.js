/** The page's side of an engine in a worker: the same methods as the engine of this thread. */
import { Chat } from './chat.js';
import { BqError, unpackError } from './errors.js';
import { Generation } from './generation.js';
import { CREDITS, PROTOCOL } from './protocol.js';
import { toSource } from './sources/index.js';
import { isNode, nodeModule } from './sources/node.js';
import { resolveBuilds } from './wasm.js';

/** @typedef {import('./protocol.js').Port} Port */
/** @typedef {import('./types.js').Engine} EngineType */
/** @typedef {import('./types.js').Model} ModelType */
/** @typedef {import('./types.js').Session} SessionType */
/** @typedef {import('./types.js').GenerateOptions} GenerateOptions */
/** @typedef {import('./types.js').LoadOptions} LoadOptions */
/** @typedef {import('./types.js').Part} Part */
/** @typedef {import('./types.js').Result} Result */
/** @typedef {import('./types.js').SourceLike} SourceLike */

/** @param {any} worker  a Web Worker @returns {Port} */
const webPort = (worker) => ({
  post: (message) => worker.postMessage(message),
  listen(onMessage, onFailure) {
    worker.onmessage = (/** @type {MessageEvent} */ e) => onMessage(e.data);
    worker.onerror = worker.onmessageerror = (/** @type {any} */ e) => onFailure(e.message ?? 'its script could not be loaded');
  },
  close: () => worker.terminate(),
});

/** @param {any} worker  of node:worker_threads @returns {Port} */
const nodePort = (worker) => ({
  post: (message) => worker.postMessage(message),
  listen(onMessage, onFailure) {
    worker.on('message', onMessage);
    worker.on('error', (/** @type {Error} */ e) => onFailure(e.message));
    worker.on('exit', () => onFailure('it ended'));
  },
  close: () => worker.terminate(),
});

/** @param {any} [given]  a worker that runs worker.js @returns {Promise<Port>} */
async function startWorker(given) {
  if (isNode) {
    const { Worker: Thread } = await nodeModule('worker_threads');
    return nodePort(given ?? new Thread(new URL('./worker.js', import.meta.url)));
  }
  try {
    return webPort(given ?? new Worker(new URL('./worker.js', import.meta.url), { type: 'module' }));
  } catch (cause) {
    throw new BqError('NO_WORKER', `no worker can be started: ${/** @type {Error} */ (cause).message}`, { cause });
  }
}

/** Calls over a port. */
class Connection {
  #port;
  #last = 0;
  /** @type {Map<number, { resolve: (value: any) => void, reject: (error: unknown) => void }>} */
  #pending = new Map();
  /** @type {Map<number, (event: any) => void>} */
  #listeners = new Map();
  /** Why no call can succeed any more. @type {Error | null} */
  #dead = null;

  /** @param {Port} port */
  constructor(port) {
    this.#port = port;
    port.listen(
      (reply) => {
        if ('event' in reply) return this.#listeners.get(reply.id)?.(reply.event);
        const call = this.#pending.get(reply.id);
        this.#pending.delete(reply.id);
        if ('error' in reply) call?.reject(unpackError(reply.error));
        else call?.resolve(reply.ok);
      },
      (why) => this.#end(new BqError('NO_WORKER', `the worker failed: ${why}`)),
    );
  }

  /**
   * A call that is under way: `id`, and its end.
   * @param {object} request
   * @param {(event: any) => void} [onEvent]  until `forget`
   */
  start(request, onEvent) {
    if (this.#dead) throw this.#dead;
    const id = ++this.#last;
    if (onEvent) this.#listeners.set(id, onEvent);
    const end = new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject }));
    this.#port.post({ id, args: [], ...request });
    return { id, end };
  }

  /** @param {number} id */
  forget(id) {
    this.#listeners.delete(id);
  }

  /** Tells the worker something about a call. @param {object} message */
  tell(message) {
    if (!this.#dead) this.#port.post(message);
  }

  /**
   * A call from start to end; an abort is passed on and ends it with the signal's reason.
   * @param {object} request
   * @param {{ signal?: AbortSignal, onEvent?: (event: any) => void, then?: (value: any) => Promise<any> }} [options]
   *   events go on until what `then` makes of the result has settled
   * @returns {Promise<any>}
   */
  async call(request, { signal, onEvent, then } = {}) {
    signal?.throwIfAborted();
    const { id, end } = this.start(request, onEvent);
    const abort = () => this.tell({ id, op: 'abort' });
    signal?.addEventListener('abort', abort);
    const forget = () => this.forget(id);
    try {
      const value = await end;
      if (then) then(value).then(forget, forget);
      else forget();
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
    await this.#port.close();
  }
}

/** @implements {SessionType} */
class RemoteSession {
  #connection;
  #on;
  #closed = false;

  /** @param {Connection} connection @param {number} on */
  constructor(connection, on) {
    this.#connection = connection;
    this.#on = on;
  }

  /** @param {string | ArrayLike<number>} prompt @param {GenerateOptions} [options] */
  generate(prompt, options = {}) {
    return new Generation((end) => this.#generate(prompt, options, end));
  }

  /**
   * @param {string | ArrayLike<number>} prompt
   * @param {GenerateOptions} options
   * @param {(result: Result) => void} end
   * @returns {AsyncGenerator<Part, void>}
   */
  async *#generate(prompt, { signal, ...options }, end) {
    signal?.throwIfAborted();
    // Where memory can be shared, the worker sees an abort between two slices, without a message.
    const flag = typeof SharedArrayBuffer === 'function' ? new Int32Array(new SharedArrayBuffer(4)) : null;
    /** @type {Part[]} */
    const queue = [];
    let wake = () => {};
    const ids = /** @type {number[]} */ ([]);
    let text = '';
    /** @type {Result | null} */
    let result = null;
    let ended = false;
    const given = typeof prompt === 'string' ? prompt : Uint32Array.from(prompt);
    const call = this.#connection.start({ op: 'generate', on: this.#on, args: [given, options], flag }, (part) => {
      queue.push(part);
      wake();
    });
    const finish = () => {
      ended = true;
      wake();
    };
    call.end.then((value) => (result = value)).then(finish, finish);
    const abort = () => {
      if (flag) Atomics.store(flag, 0, 1);
      this.#connection.tell({ id: call.id, op: 'abort' });
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
        text += part.text;
        if (ids.push(part.id) % (CREDITS / 2) === 0) this.#connection.tell({ id: call.id, op: 'credit', n: CREDITS / 2 });
        yield part;
      }
      await call.end;
    } finally {
      signal?.removeEventListener('abort', abort);
      if (!ended) abort();
      await call.end.catch(() => {});
      this.#connection.forget(call.id);
      // The worker may have been ahead of what was read: the result tells what was.
      const settled = /** @type {Result | null} */ (result);
      if (settled) end(ids.length === settled.ids.length ? settled : { ...settled, ids, text, reason: 'abort', stop: null });
    }
  }

  async stats() {
    return this.#connection.call({ op: 'call', on: this.#on, method: 'stats' });
  }

  async close() {
    if (this.#closed) return;
    this.#closed = true;
    await this.#connection.call({ op: 'close', on: this.#on }).catch(() => {});
  }
}

/** @implements {ModelType} */
class RemoteModel {
  #connection;
  #on;
  #closed = false;

  /** @param {Connection} connection @param {number} on @param {import('./types.js').ModelInfo} info @param {Promise<void>} loaded */
  constructor(connection, on, info, loaded) {
    this.#connection = connection;
    this.#on = on;
    this.info = info;
    this.loaded = loaded;
  }

  /** @param {string} method @param {...any} args @returns {Promise<any>} */
  #call(method, ...args) {
    return this.#connection.call({ op: 'call', on: this.#on, method, args });
  }

  /** @param {string} text @param {import('./types.js').TokenizeOptions} [options] */
  async tokenize(text, options) {
    return this.#call('tokenize', text, options);
  }

  /** @param {ArrayLike<number>} ids */
  async detokenize(ids) {
    return this.#call('detokenize', Array.from(ids));
  }

  /** @param {string} text */
  async tokenId(text) {
    return this.#call('tokenId', text);
  }

  async memory() {
    return this.#call('memory');
  }

  /** @param {import('./types.js').SessionOptions} [options] */
  async createSession(options) {
    return new RemoteSession(this.#connection, await this.#connection.call({ op: 'createSession', on: this.#on, args: [options] }));
  }

  /** @param {import('./types.js').ChatOptions} [options] */
  async createChat(options = {}) {
    return Chat.create(this, options);
  }

  async close() {
    if (this.#closed) return;
    this.#closed = true;
    await this.#connection.call({ op: 'close', on: this.#on }).catch(() => {});
  }
}

/** @implements {EngineType} */
class RemoteEngine {
  #connection;

  /** @param {Connection} connection @param {import('./types.js').EngineInfo} info */
  constructor(connection, info) {
    this.#connection = connection;
    this.info = { ...info, worker: true };
  }

  /** @param {SourceLike} source @param {LoadOptions} [options] */
  async plan(source, { signal, onProgress, ...options } = {}) {
    return this.#connection.call({ op: 'plan', args: [toSource(source), options] }, { signal });
  }

  /** @param {SourceLike} source @param {LoadOptions} [options] */
  async load(source, { signal, onProgress, ...options } = {}) {
    const connection = this.#connection;
    let loaded = Promise.resolve();
    const { model, info } = await connection.call(
      { op: 'load', args: [toSource(source), options] },
      { signal, onEvent: onProgress, then: (made) => (loaded = connection.call({ op: 'loaded', on: made.model }, { signal })) },
    );
    return new RemoteModel(connection, model, info, loaded);
  }

  async close() {
    await this.#connection.close();
  }
}

/**
 * An engine in a worker of its own: the page stays responsive. NO_SIMD, NO_ENGINE, NO_WORKER.
 * @param {import('./types.js').EngineOptions & { worker?: any }} [options]  `worker`: one that runs js/worker.js
 * @returns {Promise<import('./types.js').Engine>}
 */
export async function createWorkerEngine({ signal, worker, ...options } = {}) {
  signal?.throwIfAborted();
  const wasmUrl = resolveBuilds(options.wasmUrl); // relative to the page, not to the worker
  const connection = new Connection(await startWorker(worker));
  try {
    const args = [{ protocol: PROTOCOL, options: { ...options, wasmUrl } }];
    return new RemoteEngine(connection, await connection.call({ op: 'open', args }, { signal }));
  } catch (error) {
    await connection.close();
    throw error;
  }
}
