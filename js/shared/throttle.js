/** Progress: told no more often than every few milliseconds, and never without the last of it. */

/** Milliseconds between two events. */
export const EVERY_MS = 20;

export class Throttle {
  #last = -Infinity;
  /** What came too soon after the last, to be run unless more comes. @type {(() => void) | null} */
  #later = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /** Runs now, or soon unless something else is to be run by then. @param {() => void} run @param {boolean} [atOnce] */
  run(run, atOnce = false) {
    const now = performance.now();
    const soon = !atOnce && now - this.#last < EVERY_MS;
    this.#later = soon ? run : null;
    if (soon) return void (this.#timer ??= setTimeout(this.#due, EVERY_MS));
    this.#last = now;
    run();
  }

  #due = () => {
    this.#timer = undefined;
    if (this.#later) this.run(this.#later);
  };

  /** Runs nothing more of what was put off. */
  stop() {
    this.#later = null;
  }
}
