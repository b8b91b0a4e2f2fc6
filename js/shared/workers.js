/**
 * The workers beside the engine's own: threads, and one that reads. In pages whoever made the engine's worker makes them,
 * too, and sends a port of each: in Firefox (to 153 at least) a worker that makes one itself may hang for ever. There
 * `new Worker` waits until a debugger knows of the new one, on a condition that the new one's own thread waits on as well;
 * one of the two is woken.
 */
import { gate } from './async.js';
import { onDemand } from './errors.js';

/** @import { Gate } from './async.js' */

/** What is common to a worker and the port of one. @typedef {{ postMessage: (message: any, transfer?: Transferable[]) => void, terminate: () => void, onmessage?: any, onerror?: any }} WorkerLike */
/** @typedef {'io' | 'thread'} Role */

/** The way to whoever makes workers for this one. Null: it does so itself. @type {{ postMessage: (message: object) => void } | null} */
let host = null;
/** Those asked for, by number. @type {Map<number, Gate<WorkerLike> & { worker?: WorkerLike }>} */
const asked = new Map();
let last = 0;

/** From now on the other side of a port is asked. @param {any} port */
export function workersFrom(port) {
  host = port;
}

/** What the host said. @param {{ spawned: number, port?: any, error?: string }} message */
export function spawned({ spawned: id, port, error }) {
  const one = asked.get(id);
  if (!one) return port?.close();
  if (error) {
    asked.delete(id);
    return one.worker ? one.worker.onerror?.({ message: error }) : one.reject(new Error(error));
  }
  port.terminate = () => {
    asked.delete(id);
    host?.postMessage({ spawn: id, end: true });
    port.close();
  };
  one.worker = port;
  one.resolve(port);
}

/** Throws where it can't be made. @param {Role} role @param {string} [url] @returns {Promise<WorkerLike>} */
export async function startWorker(role, url) {
  if (!host) return /** @type {WorkerLike} */ ((await onDemand(import('./make-worker.js'))).makeWorker(role, url));
  const one = gate();
  asked.set(++last, one);
  host.postMessage({ spawn: last, role, url });
  return one.promise;
}
