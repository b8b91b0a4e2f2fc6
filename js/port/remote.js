/** The page's side of an engine behind a port: an object for each of the engine's, made from the table. */
import { conversing } from '../openai/conversing.js';
import { asyncDispose, gate } from '../shared/async.js';
import { BqError, packError, unpackError } from '../shared/errors.js';
import { emit } from '../shared/events.js';
import { Generation } from '../shared/generation.js';
import { CREDITS, listen } from '../shared/protocol.js';
import { checkCall, TABLE } from './table.js';

/** @import { Row } from './table.js' */
/** @import { Part, Result } from '../shared/types.js' */

/**
 * Who hears of a call.
 * @typedef {object} Hears
 * @property {AbortSignal} [signal]
 * @property {(event: any) => void} [onProgress]
 * @property {(part: Part) => void} [onPart]
 * @property {(made: { on: number, info: any }) => void} [onMade]
 */

/** Calls over a port: a worker, or one end of a MessageChannel. */
export class Connection {
  #port;
  #last = 0;
  /** Calls under way. @type {Map<number, Hears & import('../shared/async.js').Gate<any>>} */
  #calls = new Map();
  /** Why no call can succeed any more. @type {Error | null} */
  #dead = null;
  /** What happens to the engine. */
  events = new EventTarget();
  /** It is over. @type {() => void} */
  onEnd = () => {};

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
  #hear({ id, part, progress, made, error, ok, event, detail }) {
    if (event) return emit(this.events, event, detail.error ? { ...detail, error: unpackError(detail.error) } : detail);
    const call = this.#calls.get(id);
    if (part) return call?.onPart?.(part);
    if (progress) return call?.onProgress?.(progress);
    if (made) return call?.onMade?.(made);
    this.#calls.delete(id);
    if (error) call?.reject(unpackError(error));
    else call?.resolve(ok);
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
    const made = gate();
    this.#calls.set(id, { ...hears, ...made });
    const abort = () => this.tell({ id, abort: packError(signal?.reason) });
    signal?.addEventListener('abort', abort);
    const end = made.promise
      .catch((error) => {
        signal?.throwIfAborted();
        throw error;
      })
      .finally(() => signal?.removeEventListener('abort', abort));
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
      ? (/** @type {any[]} */ ...given) => new Generation((end, hold) => stream(call, given, end, hold))
      : async (/** @type {any[]} */ ...given) => ask(call, given);
  }
  if (kind === 'model') conversing(object);
  if (kind === 'model' || kind === 'session') {
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
  const made = gate();
  const onMade = (/** @type {any} */ told) =>
    made.resolve(remote(connection, makes, told.on, told.info && { info: told.info, loaded: end }));
  const { end } = connection.begin({ on, method, args, options }, { signal, onProgress, onMade });
  end.then((ok) => ok && onMade(ok.made), made.reject);
  return made.promise;
}

/**
 * @param {Call} call
 * @param {any[]} given
 * @param {(result: Result) => void} end
 * @param {import('../shared/hold.js').Hold} hold
 * @returns {AsyncGenerator<Part, void>}
 */
async function* stream({ connection, on, method, row }, given, end, hold) {
  const { args, options, signal, onProgress } = checkCall(row, given);
  signal?.throwIfAborted();
  // Where memory can be shared, the worker sees an abort between two slices, without a message.
  const flag = typeof SharedArrayBuffer === 'function' ? new Int32Array(new SharedArrayBuffer(4)) : null;
  /** @type {Part[]} */
  const queue = [];
  /** @type {Part[]} */
  const read = [];
  let wake = () => {};
  /** @type {Result | null} */
  let result = null;
  let ended = false;
  const onPart = (/** @type {Part} */ part) => {
    queue.push(part);
    wake();
  };
  const call = connection.begin({ on, method, args, options, flag }, { onProgress, onPart });
  hold.lead((held) => connection.begin({ on, method: 'hold', args: [call.id, held] }).end.catch(() => {}));
  const settled = call.end
    .then((value) => (result = value))
    .finally(() => {
      ended = true;
      wake();
    });
  settled.catch(() => {});
  const abort = () => {
    if (flag) Atomics.store(flag, 0, 1);
    connection.tell({ id: call.id, abort: packError(signal?.reason) });
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
      if (read.push(part) % (CREDITS / 2) === 0) connection.tell({ id: call.id, credit: CREDITS / 2 });
      yield part;
    }
    signal?.throwIfAborted();
    await settled;
  } finally {
    signal?.removeEventListener('abort', abort);
    if (!ended) abort();
    await settled.catch(() => {});
    const told = /** @type {Result | null} */ (result);
    if (told) end(read.length === told.ids.length ? told : asRead(told, read));
  }
}

/** The engine may have been ahead of the reader: the result tells what was read. @param {Result} result @param {Part[]} read @returns {Result} */
const asRead = (result, read) => ({
  ...result,
  ids: read.map((part) => part.id),
  text: read.map((part) => part.text).join(''),
  reason: 'abort',
  stop: null,
});
