/**
 * The caller's side of a port to an engine: proxies of the engine's objects, with the methods in the table of
 * `methods.js`.
 */
import { addModelMethods } from '../../api/openai/model-mixin.js';
import { asyncDispose, deferred } from '../../shared/async.js';
import { BqError, packError, unpackError } from '../../shared/errors.js';
import { emit, Events } from '../../shared/events.js';
import { Generation } from '../../shared/generation.js';
import { WINDOW, listen } from '../../shared/protocol.js';
import { after } from '../../shared/timeouts.js';
import { checkCall, TABLE } from './methods.js';

/** @import { Row } from './methods.js' */
/** @import { Part, Result } from '../../shared/types.js' */

/**
 * Callbacks of a pending call.
 * @typedef {object} CallHandlers
 * @property {AbortSignal} [signal]
 * @property {(event: any) => void} [onProgress]
 * @property {(part: Part | { sync: number }) => void} [onPart]  `sync`: request to confirm that all parts so far were
 *   read
 * @property {(handle: { target: number, info: any }) => void} [onHandle]
 */

/** Number of unanswered pings after which a worker counts as ended. */
const MAX_UNANSWERED_PINGS = 3;

/** Calls over a port: a worker, or one end of a MessageChannel. */
export class Connection {
  #port;
  #lastId = 0;
  /** Pending calls. @type {Map<number, CallHandlers & import('../../shared/async.js').Deferred<any>>} */
  #calls = new Map();
  /** The reason why the connection has ended. @type {Error | null} */
  #failure = null;
  /** Whether a message was ever received. */
  #hasReceived = false;
  /** Number of consecutive pings without an answer. */
  #unansweredPings = 0;
  /** Cancels the next ping; null if none is scheduled. @type {(() => void) | null} */
  #cancelPing = null;
  /** Events of the engine. */
  events = new Events();
  /** Called when the connection has ended. @type {() => void} */
  onEnd = () => {};
  /** Whether the other side is a worker that this side has started. It may hang, so it is pinged. */
  isWatched = false;

  /** @param {any} port @param {(request: any) => void} [onSpawn]  handles requests for another worker */
  constructor(port, onSpawn) {
    this.#port = port;
    listen(
      port,
      (message) => (message.spawn ? onSpawn?.(message) : this.#receive(message)),
      (error) => this.#fail(new BqError('NO_WORKER', `the worker failed: ${error}`)),
    );
  }

  /** @param {any} message */
  #receive(message) {
    this.#hasReceived = true;
    this.#unansweredPings = 0;
    this.#dispatch(message);
    if (!this.#calls.size) this.#stopWatching();
  }

  /** @param {any} message */
  #dispatch({ id, part, sync, progress, handle, error, value, event, detail, failure }) {
    if (failure) return this.#fail(new BqError('NO_WORKER', `the worker failed: ${failure}`));
    if (event) return emit(this.events, event, detail.error ? { ...detail, error: unpackError(detail.error) } : detail);
    const call = this.#calls.get(id);
    if (part) return call?.onPart?.(part);
    // Without a handler of parts, all parts count as read.
    if (sync !== undefined) return call?.onPart ? call.onPart({ sync }) : this.send({ id, synced: sync });
    if (progress) return call?.onProgress?.(progress);
    if (handle) return call?.onHandle?.(handle);
    this.#calls.delete(id);
    if (error) call?.reject(unpackError(error));
    else if (call) call.resolve(value);
    else if (value?.handle) this.begin({ target: value.handle.target, method: 'close' }).end.catch(() => {}); // the call was aborted
  }

  /**
   * Pings a worker with pending calls, and ends the connection when it answers no more pings. Such a worker is in an
   * endless loop, or has closed itself.
   */
  watch() {
    this.#cancelPing ??= after('workerPing', () => {
      this.#cancelPing = null;
      if (++this.#unansweredPings > MAX_UNANSWERED_PINGS && this.#hasReceived) {
        this.#fail(new BqError('NO_WORKER', 'the worker stopped answering: it has ended or hangs'));
        void this.#port.terminate?.();
      } else {
        this.send({ ping: true });
        this.watch();
      }
    });
  }

  #stopWatching() {
    this.#cancelPing?.();
    this.#cancelPing = null;
  }

  /**
   * Starts a call. `end` settles with its result. Before that, an abort of the signal is sent to the other side.
   * @param {{ kind?: string, target: number | string, method: string, args?: any[], options?: object,
   *   flag?: Int32Array | null }} request  `kind`: kind of the object, for the error of a closed one
   * @param {CallHandlers} [handlers]
   */
  begin(request, handlers = {}) {
    if (this.#failure) throw this.#failure;
    const { signal } = handlers;
    signal?.throwIfAborted();
    const id = ++this.#lastId;
    try {
      this.#port.postMessage({ id, ...request, progress: Boolean(handlers.onProgress) });
    } catch (cause) {
      // The call is registered after it was posted, because a message that can't be posted has no answer.
      throw new BqError(
        'ARGUMENT',
        `an argument of ${request.method} can't be sent to the worker: ${/** @type {Error} */ (cause).message}`,
        { cause },
      );
    }
    const pending = deferred();
    this.#calls.set(id, { ...handlers, ...pending });
    if (this.isWatched) this.watch();
    let stop = () => {};
    const abort = () => {
      this.send({ id, abort: packError(signal?.reason) });
      stop = after('abort', () => this.#calls.delete(id) && pending.reject(signal?.reason));
    };
    signal?.addEventListener('abort', abort);
    const end = pending.promise
      .then(
        (value) => {
          // An aborted call rejects, unless it has created an object, which the caller must be able to close.
          if (!value?.handle) signal?.throwIfAborted();
          return value;
        },
        (error) => {
          signal?.throwIfAborted();
          throw error;
        },
      )
      .finally(() => {
        stop();
        signal?.removeEventListener('abort', abort);
      });
    return { id, end };
  }

  /** Sends a message about a call, unless the connection has ended. @param {object} message */
  send(message) {
    if (!this.#failure) this.#port.postMessage(message);
  }

  /** @param {Error} error */
  #fail(error) {
    const wasClosed = this.#failure;
    this.#failure ??= error;
    this.#stopWatching();
    for (const { reject } of this.#calls.values()) reject(this.#failure);
    this.#calls.clear();
    this.onEnd();
    if (!wasClosed && /** @type {any} */ (error).code === 'NO_WORKER') emit(this.events, 'died', { error });
  }

  async close() {
    this.#fail(new BqError('CLOSED', 'the engine was closed'));
    await (this.#port.terminate ?? this.#port.close).call(this.#port);
  }
}

/**
 * Creates the proxy of an object of the other side, with the methods of its kind.
 * @param {Connection} connection
 * @param {keyof typeof TABLE} kind
 * @param {number | string} target  number of the object
 * @param {object} [members]  further members of the proxy
 * @returns {any}
 */
export function createProxy(connection, kind, target, members) {
  /** @type {any} */
  const object = {};
  for (const [method, row] of Object.entries(TABLE[kind])) {
    const call = { connection, request: { kind, target, method }, row };
    object[method] = row.stream
      ? (/** @type {any[]} */ ...callArgs) =>
          Generation.check(
            () => checkCall(row, callArgs),
            (checked, end, reading) => stream(call, checked, end, reading),
          )
      : async (/** @type {any[]} */ ...callArgs) => callMethod(call, callArgs);
  }
  if (kind === 'model') addModelMethods(object);
  if (kind !== 'engine' && object.close) {
    const { close } = object;
    object.close = () => close().catch(() => {}); // closing never rejects
  }
  object[asyncDispose] = () => object.close();
  return Object.assign(object, members);
}

/**
 * A method of an object of the other side.
 * @typedef {{ connection: Connection, request: { kind: string, target: number | string, method: string }, row: Row }} Call
 */

/**
 * Calls a method. If it creates an object, the result is a proxy.
 * @param {Call} call
 * @param {any[]} callArgs
 * @returns {Promise<any>}
 */
function callMethod({ connection, request, row }, callArgs) {
  const { args, options, signal, onProgress } = checkCall(row, callArgs);
  const { makes } = row;
  if (!makes) return connection.begin({ ...request, args, options }, { signal, onProgress }).end;
  const result = deferred();
  const onHandle = (/** @type {any} */ handle) =>
    result.resolve(createProxy(connection, makes, handle.target, handle.info && { info: handle.info, loaded: end }));
  const { end } = connection.begin({ ...request, args, options }, { signal, onProgress, onHandle });
  end.then((value) => value && onHandle(value.handle), result.reject);
  return result.promise;
}

/**
 * Yields the parts of a generation of the other side.
 * @param {Call} call
 * @param {ReturnType<typeof checkCall>} checked
 * @param {(result: Result) => void} end
 * @param {import('../../shared/generation.js').Reading} reading
 * @returns {AsyncGenerator<Part, void>}
 */
async function* stream({ connection, request }, { args, options, onProgress }, end, { signal, reader }) {
  signal.throwIfAborted();
  // With shared memory the worker detects an abort between two work units, without a message. Elements: whether it is
  // aborted (0 or 1), and the number of parts read.
  const flag = typeof SharedArrayBuffer === 'function' ? new Int32Array(new SharedArrayBuffer(8)) : null;
  /** Received parts, and requests to confirm that all earlier parts were read. @type {(Part | { sync: number })[]} */
  const queue = [];
  let readCount = 0;
  let wake = () => {};
  /** @type {Result | null} */
  let result = null;
  let hasEnded = false;
  const onPart = (/** @type {Part | { sync: number }} */ part) => {
    queue.push(part);
    wake();
  };
  const call = connection.begin({ ...request, args, options, flag }, { onProgress, onPart });
  const settled = call.end
    .then((value) => (result = value))
    .finally(() => {
      hasEnded = true;
      wake();
    });
  settled.catch(() => {});
  const leave = () => {
    const countAtAbort = Math.min(readCount, reader?.readCount ?? Infinity);
    if (flag) {
      Atomics.store(flag, 1, countAtAbort);
      Atomics.store(flag, 0, 1);
    }
    connection.send({ id: call.id, abort: packError(signal.reason), readCount: countAtAbort });
    wake();
  };
  signal.addEventListener('abort', leave);
  try {
    while ((queue.length || !hasEnded) && !signal.aborted) {
      const next = queue.shift();
      if (!next) await new Promise((resolve) => (wake = () => resolve(undefined)));
      else if ('sync' in next) {
        await reader?.caughtUp();
        connection.send({ id: call.id, synced: next.sync });
      } else {
        readCount++;
        yield next;
        if (readCount % (WINDOW / 2) === 0) connection.send({ id: call.id, grant: WINDOW / 2 });
      }
    }
  } finally {
    signal.removeEventListener('abort', leave);
    if (!hasEnded && !signal.aborted) leave();
    await waitBriefly(settled);
    if (result) end(result);
  }
  // An abort after the last part has no effect.
  if (/** @type {Result | null} */ (result)?.finishReason === 'abort' || !result) signal.throwIfAborted();
  await settled;
}

/**
 * Waits until an aborted call has settled, at most for the `abort` timeout.
 * @param {Promise<unknown>} settled
 * @returns {Promise<void>}
 */
const waitBriefly = (settled) =>
  new Promise((resolve) => {
    const stop = after('abort', resolve);
    settled.catch(() => {}).finally(() => (stop(), resolve()));
  });
