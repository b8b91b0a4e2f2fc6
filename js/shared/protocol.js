/**
 * The messages between page and worker.
 *
 * A call is `{ id, target, method, args, options, … }`. `target` is the number of an object; 0 is the engine. The
 * worker sends any number of `{ id, part }` and `{ id, progress }`. If a model can be used before it is completely
 * loaded, it sends `{ id, handle }`. The last message of a call is `{ id, value }` or `{ id, error }`. `{ id, abort }`
 * ends a call.
 *
 * The number of unread parts of a generation is limited by a window, which `{ id, grant }` extends. So a page that
 * reads slowly slows the worker down. Within the window the worker computes parts that are not read yet. Before a step
 * that can't be undone, such as the end, it sends `{ id, sync }` with the number of parts so far. It then waits for
 * `{ id, synced }`, which confirms that all of them were read. An abort contains the number of parts read, `readCount`;
 * the others are removed from the session.
 *
 * Events of the engine are `{ event, detail }`. `{ spawn, role, url }` requests another worker from the page. The
 * answer is `{ spawned, port }` or `{ spawned, error }`, and `{ spawn, end }` ends that worker (workers.js).
 * `{ failure }` is the last message of a worker that fails. The answer to `{ ping }` is `{ pong }`. A worker that
 * answers neither calls nor pings counts as ended.
 */

/** Version of the messages. It is raised with every change, because page and worker may be from different caches. */
export const PROTOCOL = 9;

/**
 * Progress of the call that opens an engine in a worker. `threads`: it begins to start or to use threads, when some
 * browsers' workers may stop answering. `compile`: it waits for the module, which may take any time.
 * @typedef {'threads' | 'compile'} OpenStep
 */

/** Size of the flow-control window: largest number of parts that are computed but not read. */
export const WINDOW = 8;

/**
 * Receives messages from a Web Worker, in a Web Worker, from a thread of Node, or over a MessagePort.
 * @param {any} port
 * @param {(message: any) => void} onMessage
 * @param {(reason: string) => void} onFailure
 */
export function listen(port, onMessage, onFailure) {
  if (port.on) {
    port.on('message', onMessage);
    port.on('messageerror', (/** @type {Error} */ e) => onFailure(e.message));
    port.on('error', (/** @type {Error} */ e) => onFailure(e.message));
    port.on('exit', () => onFailure('it exited'));
    port.on('close', () => onFailure('it was closed'));
  } else {
    port.onmessage = (/** @type {MessageEvent} */ e) => onMessage(e.data);
    port.onerror = port.onmessageerror = (/** @type {any} */ e) => {
      e.preventDefault?.(); // otherwise an error of a nested worker would also count as an error of its parent
      onFailure(e.message ?? "its script can't be loaded");
    };
    port.onclose = () => onFailure('it was closed'); // only some browsers fire this event
  }
}
