/** A generation's limits in time: when it ends, and how soon a token may follow another. Loaded when first asked for. */
import { unlessAborted } from '../shared/async.js';

/** @import { GenerateOptions } from '../shared/types.js' */

/** The longest that a timer can be set to. */
const LONGEST_MS = 2 ** 31 - 1;

/**
 * Waits until a moment, or until one of the promises settles.
 * @param {number} time  of performance.now() @param {Promise<unknown>[]} promises @param {AbortSignal} [signal]
 */
export function until(time, promises, signal) {
  /** @type {any} */
  let timer;
  const slept = new Promise((resolve) => {
    timer = setTimeout(resolve, Math.min(time - performance.now(), LONGEST_MS));
  });
  return unlessAborted(Promise.race([slept, ...promises]), signal).finally(() => clearTimeout(timer));
}

export class Limits {
  /** When it ends, of performance.now(). */
  due;
  /** Milliseconds between two tokens. */
  #every;
  /** When the next token may come. */
  #next = 0;

  /** @param {GenerateOptions} options */
  constructor({ deadline = Infinity, maxTokensPerSecond = Infinity }) {
    this.due = performance.now() + (deadline instanceof Date ? deadline.getTime() - Date.now() : deadline);
    this.#every = 1000 / maxTokensPerSecond;
  }

  /**
   * Waits until another token may come; false: none may, it is over.
   * @param {Promise<unknown>} closing  ends the wait @param {AbortSignal} [signal]
   */
  async turn(closing, signal) {
    const next = Math.min(this.#next, this.due);
    let closed = false;
    const close = closing.then(() => (closed = true));
    while (!closed && performance.now() < next) await until(next, [close], signal);
    this.#next = performance.now() + this.#every;
    return closed || performance.now() < this.due;
  }
}
