/** Progress: told no more often than every few milliseconds, and never without the last of it. */
import { after, now, timeout } from './timeouts.js';

export class Throttle {
  #last = -Infinity;
  /** What came too soon after the last, to be run unless more comes. @type {(() => void) | null} */
  #later = null;
  #waits = false;

  /** Runs now, or soon unless something else is to be run by then. @param {() => void} run @param {boolean} [atOnce] */
  run(run, atOnce = false) {
    const time = now();
    const soon = !atOnce && time - this.#last < timeout('progress');
    this.#later = soon ? run : null;
    if (soon) {
      if (!this.#waits) after('progress', this.#due);
      this.#waits = true;
      return;
    }
    this.#last = time;
    run();
  }

  #due = () => {
    this.#waits = false;
    if (this.#later) this.run(this.#later);
  };

  /** Runs nothing more of what was put off. */
  stop() {
    this.#later = null;
  }
}
