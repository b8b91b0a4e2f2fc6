/** Limits progress reports to one in a few milliseconds. The last report is never lost. */
import { after, now, timeout } from './timeouts.js';

export class Throttle {
  #last = -Infinity;
  /** Latest report that followed another one too soon. @type {(() => void) | null} */
  #pending = null;
  #timerRuns = false;

  /**
   * Runs a report now, or after the interval unless a later report replaces it.
   * @param {() => void} report
   * @param {boolean} [immediately]
   */
  run(report, immediately = false) {
    const time = now();
    const isTooSoon = !immediately && time - this.#last < timeout('progress');
    this.#pending = isTooSoon ? report : null;
    if (isTooSoon) {
      if (!this.#timerRuns) after('progress', this.#onTimer);
      this.#timerRuns = true;
      return;
    }
    this.#last = time;
    report();
  }

  #onTimer = () => {
    this.#timerRuns = false;
    if (this.#pending) this.run(this.#pending);
  };

  /** Drops a pending report. */
  stop() {
    this.#pending = null;
  }
}
