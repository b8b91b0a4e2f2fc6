/** The page's side of an engine behind a port: an object for each of the engine's, made from the table. */
import { addModelMethods } from '../../api/openai/model-mixin.js';
import { asyncDispose, deferred } from '../../shared/async.js';
import { BqError, packError, unpackError } from '../../shared/errors.js';
import { emit, Events } from '../../shared/events.js';
import { Generation } from '../../shared/generation.js';
import { CREDITS, listen } from '../../shared/protocol.js';
import { after } from '../../shared/timeouts.js';
import { checkCall, TABLE } from './methods.js';

/** @import { Row } from './methods.js' */
/** @import { Part, Result } from '../../shared/types.js' */

/**
 * Who hears of a call.
 * @typedef {object} Hears
 * @property {AbortSignal} [signal]
 * @property {(event: any) => void} [onProgress]
 * @property {(part: Part | { sync: number }) => void} [onPart]  or the question whether all parts before were read
 * @property {(made: { on: number, info: any }) => void} [onMade]
 */

/** Questions without an answer after which a worker is given up. */
const MOST_SILENT = 3;

/** Calls over a port: a worker, or one end of a MessageChannel. */
export class Connection {
  #port;
  #last = 0;
  /** Calls under way. @type {Map<number, Hears & import('../../shared/async.js').Deferred<any>>} */
  #calls = new Map();
  /** Why no call can succeed any more. @type {Error | null} */
  #dead = null;
  /** Whether anything was ever heard; questions in a row whether the other side is there, without an answer. */
  #heard = false;
  #silent = 0;
  /** Takes back the next of them; null: there is none. @type {(() => void) | null} */
  #asking = null;
  /** What happens to the engine. */
  events = new Events();
  /** It is over. @type {() => void} */
  onEnd = () => {};
  /** Whether the other side is a worker of its own, which may hang. */
  watched = false;

  /** @param {any} port @param {(request: any) => void} [onSpawn]  it asks for a worker */
  constructor(port, onSpawn) {
    this.#port = port;
    listen(
      port,
      (message) => (message.spawn ? onSpawn?.(message) : this.#hear(message)),
      (why) => this.#end(new BqError('NO_WORKER', `the worker failed: ${why}`)),
    );
  }

  /** @param {any} message */
  #hear(message) {
    this.#heard = true;
    this.#silent = 0;
    this.#take(message);
    if (!this.#calls.size) this.#rest();
  }

  /** @param {any} message */
  #take({ id, part, sync, progress, made, error, ok, event, detail, failed }) {
    if (failed) return this.#end(new BqError('NO_WORKER', `the worker failed: ${failed}`));
    if (event) return emit(this.events, event, detail.error ? { ...detail, error: unpackError(detail.error) } : detail);
    const call = this.#calls.get(id);
    if (part) return call?.onPart?.(part);
    // Where nobody reads parts, all are read.
    if (sync !== undefined) return call?.onPart ? call.onPart({ sync }) : this.tell({ id, synced: sync });
    if (progress) return call?.onProgress?.(progress);
    if (made) return call?.onMade?.(made);
    this.#calls.delete(id);
    if (error) call?.reject(unpackError(error));
    else if (call) call.resolve(ok);
    else if (ok?.made) this.begin({ on: ok.made.on, method: 'close' }).end.catch(() => {}); // of a call that was given up
  }

  /** Gives up a worker that owes answers and is silent: one that loops, or has closed itself, says nothing of it. */
  watch() {
    this.#asking ??= after('workerPing', () => {
      this.#asking = null;
      if (++this.#silent > MOST_SILENT && this.#heard) {
        this.#end(new BqError('NO_WORKER', 'the worker does not answer any more: it has ended, or hangs'));
        void this.#port.terminate?.();
      } else {
        this.tell({ ping: true });
        this.watch();
      }
    });
  }

  #rest() {
    this.#asking?.();
    this.#asking = null;
  }

  /**
   * Begins a call; `end` is its end. Until then an abort is passed on.
   * @param {{ on: number | string, method: string, args?: any[], options?: object, flag?: Int32Array | null }} request
   * @param {Hears} [hears]
   */
  begin(request, hears = {}) {
    if (this.#dead) throw this.#dead;
    const { signal } = hears;
    signal?.throwIfAborted();
    const id = ++this.#last;
    try {
      this.#port.postMessage({ id, ...request, progress: Boolean(hears.onProgress) });
    } catch (cause) {
      // What can't be posted must not be registered: nobody would ever answer it.
      throw new BqError(
        'ARGUMENT',
        `an argument of ${request.method} can't be sent to the worker: ${/** @type {Error} */ (cause).message}`,
        { cause },
      );
    }
    const made = deferred();
    this.#calls.set(id, { ...hears, ...made });
    if (this.watched) this.watch();
    let stop = () => {};
    const abort = () => {
      this.tell({ id, abort: packError(signal?.reason) });
      stop = after('abort', () => this.#calls.delete(id) && made.reject(signal?.reason));
    };
    signal?.addEventListener('abort', abort);
    const end = made.promise
      .then(
        (ok) => {
          // Whoever has aborted expects nothing; what was made must be closed by someone.
          if (!ok?.made) signal?.throwIfAborted();
          return ok;
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

  /** Tells the other side something about a call. @param {object} message */
  tell(message) {
    if (!this.#dead) this.#port.postMessage(message);
  }

  /** @param {Error} why */
  #end(why) {
    const known = this.#dead;
    this.#dead ??= why;
    this.#rest();
    for (const { reject } of this.#calls.values()) reject(this.#dead);
    this.#calls.clear();
    this.onEnd();
    if (!known && /** @type {any} */ (why).code === 'NO_WORKER') emit(this.events, 'died', { error: why });
  }

  async close() {
    this.#end(new BqError('CLOSED', 'the engine was closed'));
    await (this.#port.terminate ?? this.#port.close).call(this.#port);
  }
}

/**
 * An object behind a port, with the methods of its kind.
 * @param {Connection} connection
 * @param {keyof typeof TABLE} kind
 * @param {number | string} on  its number
 * @param {object} [more]  what it has besides
 * @returns {any}
 */
export function remote(connection, kind, on, more) {
  /** @type {any} */
  const object = {};
  for (const [method, row] of Object.entries(TABLE[kind])) {
    const call = { connection, on, method, row };
    object[method] = row.stream
      ? (/** @type {any[]} */ ...given) =>
          Generation.of(
            () => checkCall(row, given),
            (checked, end, reading) => stream(call, checked, end, reading),
          )
      : async (/** @type {any[]} */ ...given) => ask(call, given);
  }
  if (kind === 'model') addModelMethods(object);
  if (kind !== 'engine' && object.close) {
    const { close } = object;
    object.close = () => close().catch(() => {}); // whatever became of it
  }
  object[asyncDispose] = () => object.close();
  return Object.assign(object, more);
}

/** @typedef {{ connection: Connection, on: number | string, method: string, row: Row }} Call */

/** @param {Call} call @param {any[]} given @returns {Promise<any>} */
function ask({ connection, on, method, row }, given) {
  const { args, options, signal, onProgress } = checkCall(row, given);
  const { makes } = row;
  if (!makes) return connection.begin({ on, method, args, options }, { signal, onProgress }).end;
  const made = deferred();
  const onMade = (/** @type {any} */ told) =>
    made.resolve(remote(connection, makes, told.on, told.info && { info: told.info, loaded: end }));
  const { end } = connection.begin({ on, method, args, options }, { signal, onProgress, onMade });
  end.then((ok) => ok && onMade(ok.made), made.reject);
  return made.promise;
}

/**
 * @param {Call} call
 * @param {ReturnType<typeof checkCall>} checked
 * @param {(result: Result) => void} end
 * @param {import('../../shared/generation.js').Reading} reading
 * @returns {AsyncGenerator<Part, void>}
 */
async function* stream({ connection, on, method }, { args, options, onProgress }, end, { signal, reader }) {
  signal.throwIfAborted();
  // Where memory can be shared, the worker sees an abort between two slices, without a message: whether, and how many parts were read.
  const flag = typeof SharedArrayBuffer === 'function' ? new Int32Array(new SharedArrayBuffer(8)) : null;
  /** Parts, and questions whether all before them were read. @type {(Part | { sync: number })[]} */
  const queue = [];
  let read = 0;
  let wake = () => {};
  /** @type {Result | null} */
  let result = null;
  let ended = false;
  const onPart = (/** @type {Part | { sync: number }} */ part) => {
    queue.push(part);
    wake();
  };
  const call = connection.begin({ on, method, args, options, flag }, { onProgress, onPart });
  const settled = call.end
    .then((value) => (result = value))
    .finally(() => {
      ended = true;
      wake();
    });
  settled.catch(() => {});
  const leave = () => {
    const seen = Math.min(read, reader?.read ?? Infinity);
    if (flag) {
      Atomics.store(flag, 1, seen);
      Atomics.store(flag, 0, 1);
    }
    connection.tell({ id: call.id, abort: packError(signal.reason), read: seen });
    wake();
  };
  signal.addEventListener('abort', leave);
  try {
    while ((queue.length || !ended) && !signal.aborted) {
      const next = queue.shift();
      if (!next) await new Promise((resolve) => (wake = () => resolve(undefined)));
      else if ('sync' in next) {
        await reader?.caughtUp();
        connection.tell({ id: call.id, synced: next.sync });
      } else {
        read++;
        yield next;
        if (read % (CREDITS / 2) === 0) connection.tell({ id: call.id, credit: CREDITS / 2 });
      }
    }
  } finally {
    signal.removeEventListener('abort', leave);
    if (!ended && !signal.aborted) leave();
    await orGivenUp(settled);
    if (result) end(result);
  }
  // An abort that comes when all was read already changes nothing.
  if (/** @type {Result | null} */ (result)?.finishReason === 'abort' || !result) signal.throwIfAborted();
  await settled;
}

/** Waits for what becomes of a call that was aborted, as long as there is hope. @param {Promise<unknown>} settled @returns {Promise<void>} */
const orGivenUp = (settled) =>
  new Promise((resolve) => {
    const stop = after('abort', resolve);
    settled.catch(() => {}).finally(() => (stop(), resolve()));
  });
