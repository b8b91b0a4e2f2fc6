/** A gate that pauses work: whatever computes a generation looks at `held` between two units of work, and waits for it. */
import { deferred } from './async.js';

/**
 * The reader of a generation in another thread, to which its parts are forwarded.
 * @typedef {object} Reader
 * @property {number | null} read  number of parts that it had read when it stopped reading; null: it still reads
 * @property {() => Promise<void>} caughtUp  settles when it has read all forwarded parts and asks for more, or has stopped reading
 */

export class PauseGate {
  /** Settles when the work may go on; null: it is not paused. @type {Promise<void> | null} */
  held = null;
  /** Null: the parts are read in this thread. @type {Reader | null} */
  reader = null;
  #release = () => {};
  /** Pauses and resumes the work that is done elsewhere for this one. @type {((held: boolean) => Promise<unknown> | undefined) | null} */
  #forward = null;

  /** Settles when nothing is computed any more. */
  async pause() {
    if (!this.held) {
      const { promise, resolve } = deferred();
      this.held = promise;
      this.#release = () => resolve(undefined);
    }
    await this.#forward?.(true);
  }

  async resume() {
    this.held = null;
    this.#release();
    await this.#forward?.(false);
  }

  /** Forwards pausing and resuming to a function. @param {(held: boolean) => Promise<unknown> | undefined} forward */
  forwardTo(forward) {
    this.#forward = forward;
    if (this.held) void forward(true);
  }

  /** Pauses and resumes another generation together with this one. @template {{ pause: () => Promise<void>, resume: () => Promise<void> }} T @param {T} generation */
  attach(generation) {
    this.forwardTo((held) => (held ? generation.pause() : generation.resume()));
    return generation;
  }

  /** Attaches the generation whose parts this one passes on: it has the same reader. @template {import('./generation.js').Generation} T @param {T} generation */
  attachSource(generation) {
    if (this.reader) generation.readBy(this.reader);
    return this.attach(generation);
  }
}
