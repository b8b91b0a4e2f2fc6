/** Progress events of a load: bytes that have arrived, their rate, the remaining time. */
import { Throttle } from '../../shared/throttle.js';
import { now as time, timeout } from '../../shared/timeouts.js';

/** @import { Progress } from '../../shared/types.js' */

/** Milliseconds over which the rate is averaged. */
const RATE_WINDOW_MS = 3000;

export class Meter {
  #onProgress;
  #total;
  #loadedBytes = 0;
  /** @type {Progress['phase']} */
  #phase = 'plan';
  #throttle = new Throttle();
  /** Times of the last events, and the bytes that had been fetched by then. @type {[number, number][]} */
  #samples = [];
  /** Bytes that were cached when the load began. They don't count for the rate of the network. */
  #cachedBytes;
  /** Cached bytes that have been read. */
  #readBytes = 0;
  #retries = 0;

  /**
   * @param {(progress: Progress) => void} onProgress
   * @param {number} total  bytes
   * @param {number} cachedBytes  bytes in the cache; if all are cached, the rate is that of reading the cache
   */
  constructor(onProgress, total, cachedBytes) {
    this.#onProgress = onProgress;
    this.#total = total;
    this.#cachedBytes = cachedBytes < total ? cachedBytes : 0;
  }

  /** Counts bytes that were read from the cache. @param {number} bytes */
  addCached(bytes) {
    this.#readBytes = Math.min(this.#readBytes + bytes, this.#cachedBytes);
  }

  /** Reports a failure of the network, before the next attempt. @param {number} retries  consecutive attempts */
  reportRetries(retries) {
    this.#retries = retries;
    this.#emit(this.#phase, this.#loadedBytes, '');
    this.#samples = [];
  }

  /**
   * @param {Progress['phase']} phase @param {number} loaded  bytes; never fewer than before
   * @param {string} [cacheProblem]
   */
  report(phase, loaded, cacheProblem = '') {
    this.#throttle.run(() => this.#emit(phase, loaded, cacheProblem), phase !== this.#phase);
  }

  /** @param {Progress['phase']} phase @param {number} loaded @param {string} cacheProblem */
  #emit(phase, loaded, cacheProblem) {
    const currentTime = time();
    // Time without a request doesn't count for the rate either.
    if (phase === 'paused' || this.#phase === 'paused') this.#samples = [];
    if (loaded > this.#loadedBytes) this.#retries = 0;
    this.#phase = phase;
    // Byte counts of a repacked file are scaled, so they are rounded to integers.
    this.#loadedBytes = Math.min(Math.max(this.#loadedBytes, Math.floor(loaded)), this.#total);
    const fetchedBytes = this.#loadedBytes - this.#readBytes;
    this.#samples.push([currentTime, fetchedBytes]);
    while (this.#samples.length > 2 && currentTime - this.#samples[1][0] > RATE_WINDOW_MS) this.#samples.shift();
    const [sampleTime, from] = this.#samples[0];
    const elapsedMs = currentTime - sampleTime;
    const isMeasurable = elapsedMs >= timeout('progress');
    const bytesPerSecond = isMeasurable ? Math.max((1000 * (fetchedBytes - from)) / elapsedMs, 0) : null;
    const remaining = Math.max(this.#total - this.#cachedBytes - fetchedBytes, 0);
    const etaMs = remaining === 0 ? 0 : bytesPerSecond ? (1000 * remaining) / bytesPerSecond : null;
    this.#onProgress({
      phase,
      loaded: this.#loadedBytes,
      total: this.#total,
      unit: 'bytes',
      bytesPerSecond,
      etaMs,
      retries: this.#retries,
      cacheProblem,
    });
  }

  /** Ends all events. */
  stop() {
    this.#onProgress = () => {};
    this.#throttle.stop();
  }
}
