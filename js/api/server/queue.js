/**
 * Queue of the requests for one model. As many run at once as the model has sessions; the others wait in order of
 * arrival.
 */
import { Refusal } from './refusal.js';

export class Queue {
  #width;
  #limit;
  #running = 0;
  /** Functions that start the waiting requests, in order. @type {(() => void)[]} */
  #waiting = [];

  /**
   * @param {number} width  largest number of running requests
   * @param {number} limit  largest number of waiting requests
   */
  constructor(width, limit) {
    this.#width = width;
    this.#limit = limit;
  }

  get running() {
    return this.#running;
  }

  get waiting() {
    return this.#waiting.length;
  }

  /** Whether the next request must wait. */
  get isBusy() {
    return this.#running >= this.#width;
  }

  /** Throws a Refusal if too many requests are waiting. */
  checkRoom() {
    if (this.isBusy && this.#waiting.length >= this.#limit)
      throw new Refusal(429, 'rate_limit_exceeded', `${this.#waiting.length} requests are already waiting`, {
        'Retry-After': '1',
      });
  }

  /**
   * Runs `work` when a session is free. The number of its sessions, at most `parallel`, depends on the other requests.
   * Throws a Refusal if too many requests are waiting, and the signal's reason if it aborts before the start.
   * @template T
   * @param {AbortSignal} signal
   * @param {(sessions: number) => Promise<T>} work
   * @param {number} [parallel]  largest number of sessions that it can use
   * @returns {Promise<T>}
   */
  async run(signal, work, parallel = 1) {
    await this.#waitForSlot(signal);
    const extraSlots = Math.max(0, Math.min(parallel - 1, this.#width - this.#running));
    this.#running += extraSlots;
    try {
      signal.throwIfAborted();
      return await work(1 + extraSlots);
    } finally {
      for (let i = 0; i <= extraSlots; i++) this.#releaseSlot();
    }
  }

  /** Passes the slot to the next request in the queue, so that a new one can't overtake it. */
  #releaseSlot() {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#running--;
  }

  /** @param {AbortSignal} signal @returns {Promise<void>} */
  #waitForSlot(signal) {
    signal.throwIfAborted();
    if (!this.isBusy) {
      this.#running++;
      return Promise.resolve();
    }
    this.checkRoom();
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting = this.#waiting.filter((other) => other !== start);
        reject(signal.reason);
      };
      const start = () => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#waiting.push(start);
    });
  }
}
