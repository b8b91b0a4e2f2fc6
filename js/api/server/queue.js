/** Requests for one model: as many at once as it has sessions, the others in the order in which they came. */
import { Refusal } from './refusal.js';

export class Queue {
  #width;
  #limit;
  #running = 0;
  /** @type {(() => void)[]} */
  #waiting = [];

  /** @param {number} width  at once @param {number} limit  that may wait */
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

  /**
   * Does some work when it is its turn, with as many sessions as nobody else needs. Refusal: too many wait. An abort ends the waiting.
   * @template T @param {AbortSignal} signal @param {(sessions: number) => Promise<T>} work
   * @param {number} [most]  that it has a use for @returns {Promise<T>}
   */
  async run(signal, work, most = 1) {
    await this.#turn(signal);
    const more = Math.max(0, Math.min(most - 1, this.#width - this.#running));
    this.#running += more;
    try {
      signal.throwIfAborted();
      return await work(1 + more);
    } finally {
      for (let i = 0; i <= more; i++) this.#end();
    }
  }

  /** A turn goes from one to the next, so nobody who comes just now overtakes. */
  #end() {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#running--;
  }

  /** @param {AbortSignal} signal @returns {Promise<void>} */
  #turn(signal) {
    signal.throwIfAborted();
    if (this.#running < this.#width) {
      this.#running++;
      return Promise.resolve();
    }
    if (this.#waiting.length >= this.#limit)
      throw new Refusal(429, 'rate_limit_exceeded', `${this.#waiting.length} requests are waiting already`, {
        'Retry-After': '1',
      });
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting = this.#waiting.filter((one) => one !== turn);
        reject(signal.reason);
      };
      const turn = () => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#waiting.push(turn);
    });
  }
}
