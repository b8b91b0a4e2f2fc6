/** How far a load is and how fast. */
import { EVERY_MS, Throttle } from '../shared/throttle.js';

/** @import { Progress } from '../shared/types.js' */

/** Milliseconds over which the rate is taken. */
const RATE_MS = 3000;

export class Meter {
  #tell;
  #total;
  #loaded = 0;
  #phase = '';
  #throttle = new Throttle();
  /** Times and positions of the last events. @type {[number, number][]} */
  #past = [];

  /** @param {(progress: Progress) => void} tell @param {number} total */
  constructor(tell, total) {
    this.#tell = tell;
    this.#total = total;
  }

  /** @param {Progress['phase']} phase @param {number} loaded  never goes backwards @param {string} [cacheProblem] */
  at(phase, loaded, cacheProblem = '') {
    this.#throttle.run(() => this.#event(phase, loaded, cacheProblem), phase !== this.#phase);
  }

  /** @param {Progress['phase']} phase @param {number} loaded @param {string} cacheProblem */
  #event(phase, loaded, cacheProblem) {
    const now = performance.now();
    this.#phase = phase;
    this.#loaded = Math.min(Math.max(this.#loaded, loaded), this.#total);
    if (phase === 'paused') this.#past = [];
    this.#past.push([now, this.#loaded]);
    while (this.#past.length > 2 && now - this.#past[1][0] > RATE_MS) this.#past.shift();
    const [since, from] = this.#past[0];
    const rate = now - since >= EVERY_MS ? (1000 * (this.#loaded - from)) / (now - since) : 0;
    const left = this.#total - this.#loaded;
    const secondsLeft = left === 0 ? 0 : rate > 0 ? left / rate : null;
    this.#tell({ phase, loaded: this.#loaded, total: this.#total, rate, secondsLeft, cacheProblem });
  }

  /** Tells nothing more. */
  stop() {
    this.#tell = () => {};
    this.#throttle.stop();
  }
}
