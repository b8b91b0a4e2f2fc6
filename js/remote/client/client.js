/** The page's side of an engine in a worker, with the same methods as an engine in this thread. */
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

/**
 * Description of an engine that was opened over a port.
 * @typedef {{ info: EngineInfo, store: Pick<EngineStore, 'backend' | 'reason'> | null }} Opened
 */

const LOAD_FAILURE = "its script can't be loaded";

/**
 * Starts the engine's worker. Throws NO_WORKER.
 * @param {any} [workerOrFactory]  a worker that runs worker.js, or a function that creates one
 */
async function startWorker(workerOrFactory) {
  if (workerOrFactory) {
    const worker = typeof workerOrFactory === 'function' ? await workerOrFactory() : workerOrFactory;
    if (!isPort(worker)) throw wrong('the result of the function in the option worker', worker, 'a Worker');
    return worker;
  }
  if (isNode) {
    const { Worker: Thread } = await nodeModule('worker_threads');
    // Options of the program, such as --input-type, may be invalid for the script of a thread.
    return new Thread(new URL('../../worker.js', import.meta.url), { execArgv: [] });
  }
  try {
    return new Worker(new URL('../../worker.js', import.meta.url), { type: 'module' });
  } catch (cause) {
    const { message } = /** @type {Error} */ (cause);
    const error = new BqError('NO_WORKER', `the browser refused to create a worker: ${message}`, { cause });
    throw await explainError(error, startWorker);
  }
}

/**
 * Connects to an engine's worker. Further workers that it requests (js/shared/workers.js) end with the connection.
 * @param {any} port
 */
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
      // Not makeWorker: bundlers find the scripts by these literals, and this module is loaded by every page.
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
  connection.isWatched = true;
  connection.onEnd = () => workers.forEach((worker) => worker.terminate());
  return connection;
}

/**
 * Adds the reason, if it can be found, to the error of a worker that did not start.
 * @param {any} error @param {Function} createWorker  the function that created the worker
 */
async function explainError(error, createWorker) {
  if (error?.code !== 'NO_WORKER') return error;
  const diagnosis = await onDemand(import('./worker-error.js')).then(
    (part) => part.whyNoWorker(String(createWorker), error),
    () => undefined,
  );
  return diagnosis
    ? new BqError('NO_WORKER', `the worker could not be started: ${diagnosis.message}`, { ...diagnosis, cause: error })
    : error;
}

/**
 * Creates the proxy of an engine.
 * @param {Connection} connection
 * @param {Opened} opened
 * @param {boolean} [ownsWorker]  whether closing the engine ends the worker
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
    // The engine closes its files before its worker ends, because a file handle of an ended worker may stay locked for
    // a while.
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
 * Opens the engine of a worker. Returns null if the worker stopped answering while it started threads, which can happen
 * in workers that create workers.
 * @param {Connection} connection
 * @param {object} options
 * @param {AbortSignal} [signal]
 * @param {boolean} [hostsWorkers]  whether this context creates the engine's other workers. False if only the worker's
 *   script has their URLs
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
  // An abort rejects immediately, because the worker may never answer.
  return unlessAborted(answer, signal).finally(() => stop());
}

/**
 * Connects to an engine of another context over one of its ports (`engine.openPort`). Closing the returned engine
 * closes the objects that were created over this port, but not the other context's engine. Throws NO_WORKER.
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
 * Creates an engine in a worker of its own, so that the page stays responsive. Throws NO_SIMD, NO_ENGINE, NO_WORKER,
 * ARGUMENT.
 * @param {EngineOptions & { worker?: any, background?: Pace, pressure?: Pace }} [options]  `worker`: a worker that runs
 *   js/worker.js, or a function that creates one; `background`: pace while the page is hidden; `pressure`: pace while
 *   the machine is overloaded
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

/**
 * Starts a worker and opens its engine; tries again with one thread.
 * @param {EngineOptions & { worker?: any }} options
 * @returns {Promise<Engine>}
 */
async function startEngine({ signal, worker, ...options }) {
  signal?.throwIfAborted();
  if (options.cache && typeof options.cache === 'object' && 'open' in options.cache)
    throw new BqError('ARGUMENT', 'cache: expected options, found an open store', {
      hint: 'the worker opens the store itself',
    });
  const workerOptions = {
    ...options,
    cache: options.cache ?? (isNode ? false : 'auto'),
    // Addresses are resolved here, against the page. Only addresses of the caller are passed: the worker finds the
    // package's modules relative to its own script, which may be at another address.
    wasmUrl: namedBuilds(options.wasmUrl),
    threadUrl: options.threadUrl && fullUrl(options.threadUrl),
  };
  // With the caller's own worker, only its script has the URLs of the other workers, unless `threadUrl` is passed too.
  const hosts = !isNode && (!worker || Boolean(options.threadUrl));
  for (const threads of [options.threads, 1]) {
    const connection = connectWorker(await startWorker(worker));
    try {
      const opened = await open(connection, { ...workerOptions, threads }, signal, hosts);
      if (opened)
        return remoteEngine(
          connection,
          threads === options.threads ? opened : { ...opened, info: { ...opened.info, threadsReason: SILENT_WORKER } },
        );
    } catch (error) {
      await connection.close();
      throw isNode ? error : await explainError(error, worker ?? startWorker);
    }
    void connection.close();
    if (worker && typeof worker !== 'function') break;
  }
  throw new BqError('NO_WORKER', SILENT_WORKER, {
    hint: 'pass threads: 1, or pass a function that creates the worker, so that a second attempt can use one thread',
  });
}

/**
 * Creates an engine in a worker, loads a model and returns it. `close` of the model also closes the engine. Throws the
 * errors of createWorkerEngine and `engine.load`.
 * @type {(source: SourceLike, options?: EngineOptions & { worker?: any, background?: Pace, pressure?: Pace } & LoadOptions) => Promise<Model>}
 */
export const load = loaderOf(createWorkerEngine, 'createWorkerEngine');

const SILENT_WORKER = 'the worker stopped answering while it started threads';
