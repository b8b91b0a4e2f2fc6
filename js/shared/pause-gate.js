/** Something that can be held up: who computes looks at `held` before going on. */
import { gate } from './async.js';

/**
 * Reads a generation elsewhere, behind what was passed on to it.
 * @typedef {object} Reader
 * @property {number | null} read  parts that it has read, once it has left; null: it goes on reading
 * @property {() => Promise<void>} caughtUp  settles when it has read all that was passed on and asks for more, or when it has left
 */

export class Hold {
  /** Settles when it may go on; null: nothing holds it up. @type {Promise<void> | null} */
  held = null;
  /** Null: parts are read as they come. @type {Reader | null} */
  reader = null;
  #release = () => {};
  /** Where else it is to be held up. @type {((held: boolean) => Promise<unknown> | undefined) | null} */
  #further = null;

  /** Settles when nothing more is computed. */
  async pause() {
    if (!this.held) {
      const { promise, resolve } = gate();
      this.held = promise;
      this.#release = () => resolve(undefined);
    }
    await this.#further?.(true);
  }

  async resume() {
    this.held = null;
    this.#release();
    await this.#further?.(false);
  }

  /** What is done for it elsewhere is held up with it. @param {(held: boolean) => Promise<unknown> | undefined} further */
  lead(further) {
    this.#further = further;
    if (this.held) void further(true);
  }

  /** As `lead`, for another generation. @template {{ pause: () => Promise<void>, resume: () => Promise<void> }} T @param {T} run */
  over(run) {
    this.lead((held) => (held ? run.pause() : run.resume()));
    return run;
  }

  /** As `over`, for a generation whose parts are those of this one. @template {import('./generation.js').Generation} T @param {T} run */
  through(run) {
    if (this.reader) run.readBy(this.reader);
    return this.over(run);
  }
}
