/** How far a load is and how fast. */
import { Throttle } from '../../shared/throttle.js';
import { now as time, timeout } from '../../shared/timeouts.js';

/** @import { Progress } from '../../shared/types.js' */

/** Milliseconds over which the rate is taken. */
const RATE_MS = 3000;

export class Meter {
  #tell;
  #total;
  #loaded = 0;
  /** @type {Progress['phase']} */
  #phase = 'plan';
  #throttle = new Throttle();
  /** Times and positions of the last events. @type {[number, number][]} */
  #past = [];
  /** Bytes that the cache had when the load began, and those of them that have come: they say nothing about the network. */
  #stored;
  #read = 0;
  #failures = 0;

  /** @param {(progress: Progress) => void} tell @param {number} total @param {number} stored  in a cache; all of it: then that is what takes its time */
  constructor(tell, total, stored) {
    this.#tell = tell;
    this.#total = total;
    this.#stored = stored < total ? stored : 0;
  }

  /** So many bytes came out of the cache. @param {number} bytes */
  cached(bytes) {
    this.#read = Math.min(this.#read + bytes, this.#stored);
  }

  /** The network failed so often in a row, and is tried again. @param {number} failures */
  failed(failures) {
    this.#failures = failures;
    this.#event(this.#phase, this.#loaded, '');
    this.#past = [];
  }

  /** @param {Progress['phase']} phase @param {number} loaded  never goes backwards @param {string} [cacheProblem] */
  at(phase, loaded, cacheProblem = '') {
    this.#throttle.run(() => this.#event(phase, loaded, cacheProblem), phase !== this.#phase);
  }

  /** @param {Progress['phase']} phase @param {number} loaded @param {string} cacheProblem */
  #event(phase, loaded, cacheProblem) {
    const now = time();
    // Time without a request says nothing about the network either.
    if (phase === 'paused' || this.#phase === 'paused') this.#past = [];
    if (loaded > this.#loaded) this.#failures = 0;
    this.#phase = phase;
    // Part of a chunk's work may count: bytes are whole.
    this.#loaded = Math.min(Math.max(this.#loaded, Math.floor(loaded)), this.#total);
    const fetched = this.#loaded - this.#read;
    this.#past.push([now, fetched]);
    while (this.#past.length > 2 && now - this.#past[1][0] > RATE_MS) this.#past.shift();
    const [since, from] = this.#past[0];
    const rate = now - since >= timeout('progress') ? Math.max((1000 * (fetched - from)) / (now - since), 0) : 0;
    const left = Math.max(this.#total - this.#stored - fetched, 0);
    const secondsLeft = left === 0 ? 0 : rate > 0 ? left / rate : null;
    this.#tell({
      phase,
      loaded: this.#loaded,
      total: this.#total,
      rate,
      secondsLeft,
      failures: this.#failures,
      cacheProblem,
    });
  }

  /** Tells nothing more. */
  stop() {
    this.#tell = () => {};
    this.#throttle.stop();
  }
}
