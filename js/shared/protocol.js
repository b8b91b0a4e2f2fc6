/**
 * The messages between page and worker.
 *
 * A call is `{ id, target, method, args, options, … }`; `target` is the number of an object, 0 the engine. The worker sends any number
 * of `{ id, part }` and `{ id, progress }`, then `{ id, handle }` if a model exists before all of it is loaded, and one end:
 * `{ id, value }` or `{ id, error }`. `{ id, abort }` ends a call.
 * Parts of a generation are limited by a window, which `{ id, grant }` extends, so that a page that reads slowly slows the worker
 * down. The worker runs ahead of the reader. Before a step that can't be undone, such as the end, it sends `{ id, sync }` with the number of
 * parts so far, and waits for `{ id, synced }`: all of them were read. An abort holds the number of parts read, `readCount`; the others are
 * removed from the session.
 * Events of the engine are `{ event, detail }`. `{ spawn, role, url }` asks the page for another worker; the answer is `{ spawned, port }` or
 * `{ spawned, error }`, and `{ spawn, end }` ends that worker (workers.js). `{ failure }` is the last message of a worker that fails.
 * `{ ping }` is answered with `{ pong }`; a worker that answers neither calls nor pings counts as ended.
 */

/** Raised with every change of the messages: page and worker may come from different caches. */
export const PROTOCOL = 9;

/**
 * What an engine's worker does while it opens, as the progress of that call: `threads` when it begins to start or to use threads, where
 * workers may stop answering; `compile` when it waits for the module, which may take any time.
 * @typedef {'threads' | 'compile'} OpenStep
 */

/** Size of the flow-control window: parts that the worker may be ahead of the reader. */
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
    port.on('exit', () => onFailure('it ended'));
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
