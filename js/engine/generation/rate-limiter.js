/** The deadline and the maximum token rate of a generation. Loaded when a generation has one of them. */
import { unlessAborted } from '../../shared/async.js';
import { LONGEST_MS } from '../../shared/timeouts.js';

/** @import { GenerateOptions } from '../../shared/types.js' */
/** @import { TokenSequence } from '../session/token-sequence.js' */

/**
 * Waits until a time, or until a sequence is closed, the signal aborts or a promise settles.
 * @param {number} time  on the clock of performance.now() @param {TokenSequence} sequence
 * @param {AbortSignal} [signal] @param {Promise<unknown>} [promise]
 */
export function waitUntil(time, { sleepers }, signal, promise) {
  /** @type {any} */
  let timer;
  let wake = () => {};
  // A function in `sleepers` instead of a promise that lives as long as the session: handlers of each wait would stay
  // attached to such a promise.
  const wait = new Promise((resolve) => {
    wake = () => resolve(undefined);
    sleepers.add(wake);
    timer = setTimeout(wake, Math.min(time - performance.now(), LONGEST_MS));
    void promise?.then(wake, wake);
  });
  return unlessAborted(wait, signal).finally(() => {
    clearTimeout(timer);
    sleepers.delete(wake);
  });
}

export class RateLimiter {
  /** End of the generation, on the clock of performance.now(). */
  deadline;
  /** Milliseconds between two tokens. */
  #interval;
  /** Earliest time of the next token, on the clock of performance.now(). */
  #next = 0;

  /** @param {GenerateOptions} options */
  constructor({ deadline = Infinity, maxTokensPerSecond = Infinity }) {
    this.deadline = performance.now() + (deadline instanceof Date ? deadline.getTime() - Date.now() : deadline);
    this.#interval = 1000 / maxTokensPerSecond;
  }

  /**
   * Waits until another token may be generated. Returns false if the deadline has passed.
   * @param {TokenSequence} sequence  sequence whose close ends the wait @param {AbortSignal} [signal]
   */
  async waitForToken(sequence, signal) {
    const next = Math.min(this.#next, this.deadline);
    while (!sequence.isClosed && performance.now() < next) await waitUntil(next, sequence, signal);
    this.#next = performance.now() + this.#interval;
    return sequence.isClosed || performance.now() < this.deadline;
  }
}
