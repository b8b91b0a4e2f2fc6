/**
 * What page and worker say to each other.
 *
 * The page calls: `{ id, op, on, args, … }`. The worker answers each call with events, as many as it likes, and
 * one end: `{ id, event }`, then `{ id, ok }` or `{ id, error }`. `on` is the number of a model or session.
 * Parts of a generation are paid for with credits, so that a page that reads slowly slows the worker down.
 */

/** Raised with every change of the messages: page and worker may come from different caches. */
export const PROTOCOL = 3;

/** Parts that the worker may be ahead of the reader. */
export const CREDITS = 8;

/**
 * Hears the other side, be it a Web Worker, its inside, or Node's threads.
 * @param {any} port
 * @param {(message: any) => void} onMessage
 * @param {(why: string) => void} onFailure
 */
export function listen(port, onMessage, onFailure) {
  if (port.on) {
    port.on('message', onMessage);
    port.on('error', (/** @type {Error} */ e) => onFailure(e.message));
    port.on('exit', () => onFailure('it ended'));
  } else {
    port.onmessage = (/** @type {MessageEvent} */ e) => onMessage(e.data);
    port.onerror = port.onmessageerror = (/** @type {any} */ e) => onFailure(e.message ?? 'its script could not be loaded');
  }
}
