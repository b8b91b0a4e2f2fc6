/** Something that can be held up: who computes looks at `held` before going on. */
import { gate } from './async.js';

export class Hold {
  /** Settles when it may go on; null: nothing holds it up. @type {Promise<void> | null} */
  held = null;
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
}
