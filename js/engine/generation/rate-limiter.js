/** The deadline and the token rate of a generation. Loaded when a generation has one of them. */
import { unlessAborted } from '../../shared/async.js';
import { LONGEST_MS } from '../../shared/timeouts.js';

/** @import { GenerateOptions } from '../../shared/types.js' */
/** @import { TokenSequence } from '../session/token-sequence.js' */

/**
 * Waits until a time, or until a sequence is closed or a promise settles.
 * @param {number} time  of performance.now() @param {TokenSequence} sequence @param {AbortSignal} [signal] @param {Promise<unknown>} [promise]
 */
export function waitUntil(time, { sleepers }, signal, promise) {
  /** @type {any} */
  let timer;
  let wake = () => {};
  // No promise of the session's lifetime is awaited, since each wait would stay attached to it.
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
  /** When the next token may come. */
  #next = 0;

  /** @param {GenerateOptions} options */
  constructor({ deadline = Infinity, maxTokensPerSecond = Infinity }) {
    this.deadline = performance.now() + (deadline instanceof Date ? deadline.getTime() - Date.now() : deadline);
    this.#interval = 1000 / maxTokensPerSecond;
  }

  /**
   * Waits until another token may be generated; false: the deadline has passed.
   * @param {TokenSequence} sequence  closing it ends the wait @param {AbortSignal} [signal]
   */
  async waitForToken(sequence, signal) {
    const next = Math.min(this.#next, this.deadline);
    while (!sequence.isClosed && performance.now() < next) await waitUntil(next, sequence, signal);
    this.#next = performance.now() + this.#interval;
    return sequence.isClosed || performance.now() < this.deadline;
  }
}
