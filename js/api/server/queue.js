/** The queue of requests for one model: as many run at once as it has sessions, the others wait in order of arrival. */
import { Refusal } from './refusal.js';

export class Queue {
  #width;
  #limit;
  #running = 0;
  /** @type {(() => void)[]} */
  #waiting = [];

  /** @param {number} width  requests that run at once @param {number} limit  requests that may wait */
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
   * Runs `work` when its turn comes, with sessions that no other request needs. Refusal: too many wait. An abort ends the waiting.
   * @template T @param {AbortSignal} signal @param {(sessions: number) => Promise<T>} work
   * @param {number} [parallel]  sessions that it can use @returns {Promise<T>}
   */
  async run(signal, work, parallel = 1) {
    await this.#turn(signal);
    const extraSlots = Math.max(0, Math.min(parallel - 1, this.#width - this.#running));
    this.#running += extraSlots;
    try {
      signal.throwIfAborted();
      return await work(1 + extraSlots);
    } finally {
      for (let i = 0; i <= extraSlots; i++) this.#end();
    }
  }

  /** Passes the slot to the next request in the queue, so that a new one can't overtake. */
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
      throw new Refusal(429, 'rate_limit_exceeded', `${this.#waiting.length} requests are already waiting`, {
        'Retry-After': '1',
      });
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting = this.#waiting.filter((waitingTurn) => waitingTurn !== turn);
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
