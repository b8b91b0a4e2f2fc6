/**
 * What page and worker say to each other.
 *
 * The page calls: `{ id, op, on, args, … }`. The worker answers each call with events, as many as it likes, and
 * one end: `{ id, event }`, then `{ id, ok }` or `{ id, error }`. `on` is the number of a model or session.
 * Parts of a generation are paid for with credits, so that a page that reads slowly slows the worker down.
 */

/** Raised with every change of the messages: page and worker may come from different caches. */
export const PROTOCOL = 1;

/** Parts that the worker may be ahead of the reader. */
export const CREDITS = 8;

/**
 * @typedef {{ id: number, op: 'open', args: [{ protocol: number, options: object }] }
 *   | { id: number, op: 'plan' | 'load', args: [source: any, options: any] }
 *   | { id: number, op: 'createSession', on: number, args: [options: any] }
 *   | { id: number, op: 'generate', on: number, args: [prompt: any, options: any], flag: Int32Array | null }
 *   | { id: number, op: 'loaded', on: number, args: [] }
 *   | { id: number, op: 'call', on: number, method: string, args: any[] }
 *   | { id: number, op: 'close', on: number, args: [] }
 *   | { id: number, op: 'abort' }
 *   | { id: number, op: 'credit', n: number }} Request
 *   `abort` and `credit` concern the call with that id; nothing answers them
 */

/** @typedef {{ id: number, event: any } | { id: number, ok: any } | { id: number, error: any }} Reply */

/**
 * The one thing that Web Workers and Node's threads both are.
 * @typedef {object} Port
 * @property {(message: any) => void} post
 * @property {(onMessage: (message: any) => void, onFailure: (error: unknown) => void) => void} listen
 * @property {() => void | Promise<unknown>} close
 */
