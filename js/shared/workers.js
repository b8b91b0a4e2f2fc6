/**
 * Starts the workers of an engine: threads, and one that reads files. In pages, the context that created the engine's
 * worker (the host) also creates these, and sends a port of each to the engine. The reason: in Firefox (at least up to
 * 153) a worker that creates a worker may hang forever. There `new Worker` waits for a notification of debuggers, on a
 * condition variable on which the new worker's own thread waits as well. Only one of the two is woken.
 */
import { deferred } from './async.js';
import { onDemand } from './errors.js';

/** @import { Deferred } from './async.js' */

/**
 * The interface that a worker and a port of a worker share.
 * @typedef {{ postMessage: (message: any, transfer?: Transferable[]) => void, terminate: () => void, onmessage?: any, onerror?: any }} WorkerLike
 */
/** @typedef {'io' | 'thread'} Role */

/**
 * Port to the host; null if this context creates its workers itself.
 * @type {{ postMessage: (message: object) => void } | null}
 */
let host = null;
/**
 * Pending requests and running workers of the host, by id.
 * @type {Map<number, Deferred<WorkerLike> & { worker?: WorkerLike }>}
 */
const requests = new Map();
let lastId = 0;

/** Delegates the creation of workers to the other side of a port. @param {any} port */
export function delegateWorkers(port) {
  host = port;
}

/**
 * Handles the host's message that a worker was created (`port`), can't be created, or has failed (`error`).
 * @param {{ spawned: number, port?: any, error?: string }} message
 */
export function handleSpawned({ spawned: id, port, error }) {
  const request = requests.get(id);
  if (!request) return port?.close();
  if (error) {
    requests.delete(id);
    return request.worker ? request.worker.onerror?.({ message: error }) : request.reject(new Error(error));
  }
  port.terminate = () => {
    requests.delete(id);
    host?.postMessage({ spawn: id, end: true });
    port.close();
  };
  request.worker = port;
  request.resolve(port);
}

/**
 * Starts a worker; rejects if it can't be created.
 * @param {Role} role
 * @param {string} [url]  see makeWorker
 * @returns {Promise<WorkerLike>}
 */
export async function startWorker(role, url) {
  if (!host) return /** @type {WorkerLike} */ ((await onDemand(import('./make-worker.js'))).makeWorker(role, url));
  const request = deferred();
  requests.set(++lastId, request);
  host.postMessage({ spawn: lastId, role, url });
  return request.promise;
}
