/** The page's side of js/shared/workers.js. Loaded when an engine's worker asks for others. */
import { makeWorker } from '../shared/workers.js';

/** @import { Role } from '../shared/workers.js' */

/**
 * Makes a worker, or ends it.
 * @param {any} port  to who asks
 * @param {Map<number, Worker>} made  for it
 * @param {{ spawn: number, role: Role, url?: string, end?: boolean }} request
 */
export function spawn(port, made, { spawn: id, role, url, end }) {
  if (end) {
    made.get(id)?.terminate();
    return void made.delete(id);
  }
  const fail = (/** @type {any} */ event) => {
    event.preventDefault?.();
    port.postMessage({ spawned: id, error: event.message ?? 'its script could not be loaded' });
  };
  try {
    const worker = makeWorker(role, url);
    made.set(id, worker);
    worker.onerror = worker.onmessageerror = fail;
    const { port1, port2 } = new MessageChannel();
    worker.postMessage({ port: port1 }, [port1]);
    port.postMessage({ spawned: id, port: port2 }, [port2]);
  } catch (error) {
    fail(error);
  }
}
