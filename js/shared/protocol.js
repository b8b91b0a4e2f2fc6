/**
 * What page and worker say to each other.
 *
 * The page calls: `{ id, on, method, args, options, … }`. The worker answers each call with as many `{ id, part }` and
 * `{ id, progress }` as it likes, with `{ id, made }` where a model comes of it before all of it is loaded, and one end:
 * `{ id, ok }` or `{ id, error }`. `on` is the number of an object, 0 the engine. `{ id, abort }` ends a call.
 * Parts of a generation are paid for with credits, `{ id, credit }`, so that a page that reads slowly slows the worker
 * down. The worker is ahead of the reader: before what can't be undone, such as the end, it asks `{ id, sync }`, with the number of
 * parts so far, and waits for `{ id, synced }`: all of them were read, and more is wanted. An abort says how many were `read`; the others are
 * taken back. Without a call, `{ event, detail }` tells what
 * happens to the engine. `{ spawn, role, url }` asks the page for another worker, which `{ spawned, port }` brings or
 * `{ spawned, error }` doesn't, and `{ spawn, end }` ends it (workers.js). `{ failed }` is the worker's last word. `{ ping }` is answered with `{ pong }`: a worker that owes answers and says nothing is given up.
 */

/** Raised with every change of the messages: page and worker may come from different caches. */
export const PROTOCOL = 8;

/** Parts that the worker may be ahead of the reader. */
export const CREDITS = 8;

/**
 * Hears the other side, be it a Web Worker, its inside, one of Node's threads, or one end of a MessageChannel.
 * @param {any} port
 * @param {(message: any) => void} onMessage
 * @param {(why: string) => void} onFailure
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
      e.preventDefault?.(); // what a worker's own worker throws would go on to the page, as a failure of the first one
      onFailure(e.message ?? 'its script could not be loaded');
    };
    port.onclose = () => onFailure('it was closed'); // of a MessagePort, where browsers tell
  }
}
