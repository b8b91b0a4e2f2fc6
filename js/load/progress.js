/** How far a load is and how fast. */

/** @import { Progress } from '../shared/types.js' */

/** Milliseconds between two events of one phase, and over which the rate is taken. */
const EVERY_MS = 20;
const RATE_MS = 3000;

export class Meter {
  #tell;
  #total;
  #loaded = 0;
  #sent = -Infinity;
  #phase = '';
  /** What came too soon after the last event, to be told unless more comes: a download that stalls shows how far it is.
   * @type {Parameters<Meter['at']> | null} */
  #later = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** Times and positions of the last events. @type {[number, number][]} */
  #past = [];

  /** @param {((progress: Progress) => void) | undefined} tell @param {number} total */
  constructor(tell, total) {
    this.#tell = tell;
    this.#total = total;
  }

  /** @param {Progress['phase']} phase @param {number} loaded  never goes backwards @param {string} [cacheProblem] */
  at(phase, loaded, cacheProblem = '') {
    const now = performance.now();
    if (!this.#tell) return;
    const soon = phase === this.#phase && now - this.#sent < EVERY_MS;
    this.#later = soon ? [phase, loaded, cacheProblem] : null;
    if (soon) return void (this.#timer ??= setTimeout(this.#tellLater, EVERY_MS));
    [this.#phase, this.#sent] = [phase, now];
    this.#loaded = Math.min(Math.max(this.#loaded, loaded), this.#total);
    if (phase === 'paused') this.#past = [];
    this.#past.push([now, this.#loaded]);
    while (this.#past.length > 2 && now - this.#past[1][0] > RATE_MS) this.#past.shift();
    const [since, from] = this.#past[0];
    const rate = now - since >= EVERY_MS ? (1000 * (this.#loaded - from)) / (now - since) : 0;
    const left = this.#total - this.#loaded;
    this.#tell({ phase, loaded: this.#loaded, total: this.#total, rate, secondsLeft: left === 0 ? 0 : rate > 0 ? left / rate : null, cacheProblem });
  }

  #tellLater = () => {
    this.#timer = undefined;
    if (this.#later) this.at(...this.#later);
  };

  /** Tells nothing more. */
  stop() {
    this.#tell = undefined;
  }
}
