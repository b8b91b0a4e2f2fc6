/** The page's side of an engine in a worker: the same methods as the engine of this thread. */
import { Connection, remote } from '../port/proxy.js';
import { unlessAborted } from '../../shared/async.js';
import { fullUrl, namedBuilds } from '../../shared/builds.js';
import { BqError, onDemand } from '../../shared/errors.js';
import { loaderOf } from '../../shared/loader.js';
import { isNode, nodeModule } from '../../shared/node.js';
import { checkOptions } from '../../shared/options.js';
import { PROTOCOL } from '../../shared/protocol.js';
import { after, overriddenTimeouts } from '../../shared/timeouts.js';

/** @import { Engine, EngineInfo, EngineOptions, EngineStore, LoadOptions, Model, Pace, SourceLike } from '../../shared/types.js' */

/** What the other side says of its engine. @typedef {{ info: EngineInfo, store: Pick<EngineStore, 'backend' | 'reason'> | null }} Opened */

const UNLOADED = 'its script could not be loaded';

/** @param {any} [given]  a worker that runs worker.js, or a function that makes one */
async function startWorker(given) {
  if (given) return typeof given === 'function' ? given() : given;
  if (isNode) {
    const { Worker: Thread } = await nodeModule('worker_threads');
    return new Thread(new URL('../../worker.js', import.meta.url));
  }
  try {
    return new Worker(new URL('../../worker.js', import.meta.url), { type: 'module' });
  } catch (cause) {
    throw new BqError('NO_WORKER', `no worker can be started: ${/** @type {Error} */ (cause).message}`, { cause });
  }
}

/** The way to an engine's worker; those that this asks for (js/shared/workers.js) end with it. @param {any} port */
function connectWorker(port) {
  /** @type {Map<number, Worker>} */
  const made = new Map();
  const connection = new Connection(port, ({ spawn: id, role, url, end }) => {
    if (end) {
      made.get(id)?.terminate();
      return void made.delete(id);
    }
    const fail = (/** @type {any} */ event) => {
      event.preventDefault?.();
      port.postMessage({ spawned: id, error: event.message ?? UNLOADED });
    };
    try {
      const worker = url
        ? new Worker(url, { type: 'module' })
        : role === 'io'
          ? new Worker(new URL('../../io-worker.js', import.meta.url), { type: 'module' })
          : new Worker(new URL('../../thread.js', import.meta.url), { type: 'module' });
      made.set(id, worker);
      worker.onerror = fail;
      const { port1, port2 } = new MessageChannel();
      worker.postMessage({ port: port1 }, [port1]);
      port.postMessage({ spawned: id, port: port2 }, [port2]);
    } catch (error) {
      fail(error);
    }
  });
  connection.watched = true;
  connection.onEnd = () => made.forEach((worker) => worker.terminate());
  return connection;
}

/**
 * The same error with what is wrong with the worker's script, if that is known.
 * @param {any} error @param {Function} start  what made the worker
 */
async function explained(error, start) {
  if (error.code !== 'NO_WORKER') return error;
  const why = await onDemand(import('./worker-error.js')).then(
    (part) => part.whyNoWorker(String(start), error.stack),
    () => undefined,
  );
  return why
    ? new BqError('NO_WORKER', `the worker could not be started: ${why.message}`, { ...why, cause: error })
    : error;
}

/**
 * @param {Connection} connection
 * @param {Opened} opened
 * @param {boolean} [owned]  the worker ends with it
 * @returns {Engine}
 */
function remoteEngine(connection, { info, store }, owned = true) {
  const known = { ...info, worker: true };
  connection.events.addEventListener('threads', (event) => Object.assign(known, /** @type {any} */ (event).detail));
  const engine = remote(connection, 'engine', 0, {
    events: connection.events,
    info: known,
    store: store && remote(connection, 'store', 'store', store),
  });
  const { close } = engine;
  engine.close = async () => {
    // It lets go of its files first: a handle that dies with its worker may lock a file for a while.
    if (!owned || store || info.threads > 1) {
      const stop = after('workerClose', () => connection.close());
      await close().catch(() => {});
      stop();
      if (owned) await new Promise((resolve) => void after('nestedClose', () => resolve(undefined)));
    }
    await connection.close();
  };
  return engine;
}

/**
 * Opens the engine of a worker. Null: it went silent while it started threads, as workers that make workers can.
 * @param {Connection} connection
 * @param {object} options
 * @param {AbortSignal} [signal]
 * @param {boolean} [hosts]  other workers are made here: not where only the worker's script knows where theirs are
 * @returns {Promise<Opened | null>}
 */
async function open(connection, options, signal, hosts) {
  let stop = () => {};
  const answer = new Promise((resolve, reject) => {
    const onProgress = () => {
      stop();
      stop = after('workerSilence', () => resolve(null));
    };
    const timeouts = overriddenTimeouts();
    const request = { on: 0, method: 'open', args: [{ protocol: PROTOCOL, options, hosts, timeouts }] };
    connection.begin(request, { signal, onProgress }).end.then(resolve, reject);
  });
  // Whoever doesn't want it any more need not wait for a worker that may never answer.
  return unlessAborted(answer, signal).finally(() => stop());
}

/**
 * An engine that somebody else has opened, over a port of it (`engine.openPort`). What is made over this port is closed
 * with it, the engine is not. NO_WORKER.
 * @param {MessagePort} port
 * @param {{ signal?: AbortSignal }} [options]
 * @returns {Promise<Engine>}
 */
export async function connectEngine(port, options) {
  const { signal } = checkOptions('connectEngine', options);
  const connection = new Connection(port);
  try {
    return remoteEngine(connection, /** @type {Opened} */ (await open(connection, {}, signal)), false);
  } catch (error) {
    await connection.close();
    throw error;
  }
}

/**
 * An engine in a worker of its own: the page stays responsive. NO_SIMD, NO_ENGINE, NO_WORKER, ARGUMENT.
 * @param {EngineOptions & { worker?: any, background?: Pace, pressure?: Pace }} [given]  `worker`: one that runs js/worker.js, or a function
 *   that makes one; `background`, `pressure`: the pace while the page is hidden, and while the machine has much to do
 * @returns {Promise<Engine>}
 */
export async function createWorkerEngine(given) {
  const { background, pressure, ...rest } = checkOptions('createWorkerEngine', given);
  const engine = await start(rest);
  if (background || pressure) {
    const { throttleInBackground } = await onDemand(import('./background.js')).catch(async (error) => {
      await engine.close();
      throw error;
    });
    const { close } = engine;
    const end = throttleInBackground(engine, { background, pressure });
    engine.close = () => (end(), close());
  }
  return engine;
}

/** @param {EngineOptions & { worker?: any }} given @returns {Promise<Engine>} */
async function start({ signal, worker, ...options }) {
  signal?.throwIfAborted();
  // Relative to the page, not to the worker.
  if (options.cache && typeof options.cache === 'object' && 'open' in options.cache)
    throw new BqError('ARGUMENT', 'a worker opens its store itself: pass options of a store');
  const full = {
    ...options,
    cache: options.cache ?? (isNode ? false : 'auto'),
    // Those beside the modules the worker finds itself: its script may come from elsewhere.
    wasmUrl: namedBuilds(options.wasmUrl),
    threadUrl: options.threadUrl && fullUrl(options.threadUrl),
  };
  // Where a worker is given, only its script knows where the others lie, unless that is given, too.
  const hosts = !isNode && (!worker || Boolean(options.threadUrl));
  for (const threads of [options.threads, 1]) {
    const connection = connectWorker(await startWorker(worker));
    try {
      const made = await open(connection, { ...full, threads }, signal, hosts);
      if (made)
        return remoteEngine(
          connection,
          threads === options.threads ? made : { ...made, info: { ...made.info, threadsReason: SILENT } },
        );
    } catch (error) {
      await connection.close();
      throw isNode ? error : await explained(error, worker ?? startWorker);
    }
    void connection.close();
    if (worker && typeof worker !== 'function') break;
  }
  throw new BqError('NO_WORKER', SILENT, {
    hint: 'ask for one thread, or pass a function that makes the worker, so that another one can be tried',
  });
}

/**
 * Makes an engine in a worker, loads a model and returns it: its `close` closes the engine, too. What createWorkerEngine and `engine.load` throw.
 * @type {(source: SourceLike, options?: EngineOptions & { worker?: any, background?: Pace, pressure?: Pace } & LoadOptions) => Promise<Model>}
 */
export const load = loaderOf(createWorkerEngine, 'createWorkerEngine');

const SILENT = 'the worker went silent when it started threads';
