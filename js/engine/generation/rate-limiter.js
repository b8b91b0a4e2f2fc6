/** A generation's limits in time: when it ends, and how soon a token may follow another. Loaded when first asked for. */
import { unlessAborted } from '../../shared/async.js';
import { LONGEST_MS } from '../../shared/timeouts.js';

/** @import { GenerateOptions } from '../../shared/types.js' */
/** @import { Timeline } from '../session/token-sequence.js' */

/**
 * Waits until a moment, or until a timeline is closed, or a promise settles.
 * @param {number} time  of performance.now() @param {Timeline} timeline @param {AbortSignal} [signal] @param {Promise<unknown>} [promise]
 */
export function until(time, { sleepers }, signal, promise) {
  /** @type {any} */
  let timer;
  let wake = () => {};
  // No promise that lasts as long as the session: each wait would stay with it.
  const slept = new Promise((resolve) => {
    wake = () => resolve(undefined);
    sleepers.add(wake);
    timer = setTimeout(wake, Math.min(time - performance.now(), LONGEST_MS));
    void promise?.then(wake, wake);
  });
  return unlessAborted(slept, signal).finally(() => {
    clearTimeout(timer);
    sleepers.delete(wake);
  });
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
   * @param {Timeline} timeline  its end ends the wait @param {AbortSignal} [signal]
   */
  async turn(timeline, signal) {
    const next = Math.min(this.#next, this.due);
    while (!timeline.closed && performance.now() < next) await until(next, timeline, signal);
    this.#next = performance.now() + this.#every;
    return timeline.closed || performance.now() < this.due;
  }
}
