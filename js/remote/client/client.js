/** The page's side of an engine in a worker: the same methods as the engine of this thread. */
import { Connection, createProxy } from '../port/proxy.js';
import { unlessAborted } from '../../shared/async.js';
import { fullUrl, namedBuilds } from '../../shared/builds.js';
import { isPort } from '../../shared/checks.js';
import { BqError, onDemand } from '../../shared/errors.js';
import { loaderOf } from '../../shared/loader.js';
import { isNode, nodeModule } from '../../shared/node.js';
import { checkOptions, wrong } from '../../shared/options.js';
import { PROTOCOL } from '../../shared/protocol.js';
import { after, overriddenTimeouts } from '../../shared/timeouts.js';

/** @import { Engine, EngineInfo, EngineOptions, EngineStore, LoadOptions, Model, Pace, SourceLike } from '../../shared/types.js' */

/** The answer of an engine that was opened behind a port. @typedef {{ info: EngineInfo, store: Pick<EngineStore, 'backend' | 'reason'> | null }} Opened */

const LOAD_FAILURE = "its script can't be loaded";

/** @param {any} [workerOrFactory]  a worker that runs worker.js, or a function that creates one */
async function startWorker(workerOrFactory) {
  if (workerOrFactory) {
    const worker = typeof workerOrFactory === 'function' ? await workerOrFactory() : workerOrFactory;
    if (!isPort(worker)) throw wrong('the result of the function in the option worker', worker, 'a Worker');
    return worker;
  }
  if (isNode) {
    const { Worker: Thread } = await nodeModule('worker_threads');
    return new Thread(new URL('../../worker.js', import.meta.url));
  }
  try {
    return new Worker(new URL('../../worker.js', import.meta.url), { type: 'module' });
  } catch (cause) {
    const { message } = /** @type {Error} */ (cause);
    const error = new BqError('NO_WORKER', `the browser refused to create a worker: ${message}`, { cause });
    throw await explainError(error, startWorker);
  }
}

/** The connection to an engine's worker. Workers that it requests (js/shared/workers.js) end with the connection. @param {any} port */
function connectWorker(port) {
  /** @type {Map<number, Worker>} */
  const workers = new Map();
  const connection = new Connection(port, ({ spawn: id, role, url, end }) => {
    if (end) {
      workers.get(id)?.terminate();
      return void workers.delete(id);
    }
    const fail = (/** @type {any} */ event) => {
      event.preventDefault?.();
      port.postMessage({ spawned: id, error: event.message ?? LOAD_FAILURE });
    };
    try {
      const worker = url
        ? new Worker(url, { type: 'module' })
        : role === 'io'
          ? new Worker(new URL('../../io-worker.js', import.meta.url), { type: 'module' })
          : new Worker(new URL('../../thread.js', import.meta.url), { type: 'module' });
      workers.set(id, worker);
      worker.onerror = fail;
      const { port1, port2 } = new MessageChannel();
      worker.postMessage({ port: port1 }, [port1]);
      port.postMessage({ spawned: id, port: port2 }, [port2]);
    } catch (error) {
      fail(error);
    }
  });
  connection.watched = true;
  connection.onEnd = () => workers.forEach((worker) => worker.terminate());
  return connection;
}

/**
 * Adds the reason to an error of a worker that did not start, if it can be found.
 * @param {any} error @param {Function} createWorker  the function that created the worker
 */
async function explainError(error, createWorker) {
  if (error.code !== 'NO_WORKER') return error;
  const diagnosis = await onDemand(import('./worker-error.js')).then(
    (part) => part.whyNoWorker(String(createWorker), error),
    () => undefined,
  );
  return diagnosis
    ? new BqError('NO_WORKER', `the worker could not be started: ${diagnosis.message}`, { ...diagnosis, cause: error })
    : error;
}

/**
 * @param {Connection} connection
 * @param {Opened} opened
 * @param {boolean} [ownsWorker]  closing the engine ends the worker
 * @returns {Engine}
 */
function remoteEngine(connection, { info, store }, ownsWorker = true) {
  const liveInfo = { ...info, worker: true };
  connection.events.addEventListener('threads', (event) => Object.assign(liveInfo, /** @type {any} */ (event).detail));
  const engine = createProxy(connection, 'engine', 0, {
    events: connection.events,
    info: liveInfo,
    store: store && createProxy(connection, 'store', 'store', store),
  });
  const { close } = engine;
  engine.close = async () => {
    // The engine closes its files before its worker ends: a file handle of an ended worker may stay locked for a while.
    if (!ownsWorker || store || info.threads > 1) {
      const stop = after('workerClose', () => connection.close());
      await close().catch(() => {});
      stop();
      if (ownsWorker) await new Promise((resolve) => void after('nestedClose', () => resolve(undefined)));
    }
    await connection.close();
  };
  return engine;
}

/**
 * Opens the engine of a worker. Null: the worker stopped answering while it started threads, as workers that create workers can.
 * @param {Connection} connection
 * @param {object} options
 * @param {AbortSignal} [signal]
 * @param {boolean} [hostsWorkers]  this context creates the engine's other workers; false where only the worker's script knows their URLs
 * @returns {Promise<Opened | null>}
 */
async function open(connection, options, signal, hostsWorkers) {
  let stop = () => {};
  const answer = new Promise((resolve, reject) => {
    /** @param {import('../../shared/protocol.js').OpenStep} step */
    const onProgress = (step) => {
      stop();
      if (step === 'threads') stop = after('workerSilence', () => resolve(null));
    };
    const timeouts = overriddenTimeouts();
    const request = {
      target: 0,
      method: 'open',
      args: [{ protocol: PROTOCOL, options, hosts: hostsWorkers, timeouts }],
    };
    connection.begin(request, { signal, onProgress }).end.then(resolve, reject);
  });
  // An abort rejects at once, since the worker may never answer.
  return unlessAborted(answer, signal).finally(() => stop());
}

/**
 * An engine that another context has opened, over a port of it (`engine.openPort`). Objects created over this port are closed
 * with the connection; the engine is not. NO_WORKER.
 * @param {MessagePort} port
 * @param {{ signal?: AbortSignal }} [options]
 * @returns {Promise<Engine>}
 */
export async function connectEngine(port, options) {
  const { signal } = checkOptions('connectEngine', options);
  if (!isPort(port)) throw wrong('the port', port, 'a MessagePort');
  const connection = new Connection(port);
  try {
    return remoteEngine(connection, /** @type {Opened} */ (await open(connection, {}, signal)), false);
  } catch (error) {
    await connection.close();
    throw error;
  }
}

/**
 * An engine in its own worker, so that the page stays responsive. NO_SIMD, NO_ENGINE, NO_WORKER, ARGUMENT.
 * @param {EngineOptions & { worker?: any, background?: Pace, pressure?: Pace }} [options]  `worker`: one that runs js/worker.js, or a function
 *   that creates one; `background`, `pressure`: the pace while the page is hidden, and while the machine is overloaded
 * @returns {Promise<Engine>}
 */
export async function createWorkerEngine(options) {
  const { background, pressure, ...engineOptions } = checkOptions('createWorkerEngine', options);
  const engine = await startEngine(engineOptions);
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
async function startEngine({ signal, worker, ...options }) {
  signal?.throwIfAborted();
  // URLs are resolved here, relative to the page, not to the worker.
  if (options.cache && typeof options.cache === 'object' && 'open' in options.cache)
    throw new BqError('ARGUMENT', 'cache: expected options, found an open store', {
      hint: 'the worker opens the store itself',
    });
  const workerOptions = {
    ...options,
    cache: options.cache ?? (isNode ? false : 'auto'),
    // Only builds that the caller names: the worker finds the others beside its own script, which may come from another place.
    wasmUrl: namedBuilds(options.wasmUrl),
    threadUrl: options.threadUrl && fullUrl(options.threadUrl),
  };
  // Only the script of the caller's worker knows the URLs of the other workers, unless `threadUrl` is passed too.
  const hosts = !isNode && (!worker || Boolean(options.threadUrl));
  for (const threads of [options.threads, 1]) {
    const connection = connectWorker(await startWorker(worker));
    try {
      const opened = await open(connection, { ...workerOptions, threads }, signal, hosts);
      if (opened)
        return remoteEngine(
          connection,
          threads === options.threads ? opened : { ...opened, info: { ...opened.info, threadsReason: SILENT } },
        );
    } catch (error) {
      await connection.close();
      throw isNode ? error : await explainError(error, worker ?? startWorker);
    }
    void connection.close();
    if (worker && typeof worker !== 'function') break;
  }
  throw new BqError('NO_WORKER', SILENT, {
    hint: 'pass threads: 1, or pass a function that creates the worker, so that a second attempt can use one thread',
  });
}

/**
 * Creates an engine in a worker, loads a model and returns it; its `close` closes the engine too. Errors of createWorkerEngine and `engine.load`.
 * @type {(source: SourceLike, options?: EngineOptions & { worker?: any, background?: Pace, pressure?: Pace } & LoadOptions) => Promise<Model>}
 */
export const load = loaderOf(createWorkerEngine, 'createWorkerEngine');

const SILENT = 'the worker stopped answering while it started threads';
