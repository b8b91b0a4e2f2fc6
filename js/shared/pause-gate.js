/** A pause gate: code that computes in steps waits for `untilOpen` before each step. */
import { deferred } from './async.js';

export class PauseGate {
  /** Settles when the gate opens; null while it is open. @type {Promise<void> | null} */
  untilOpen = null;
  #release = () => {};

  close() {
    if (this.untilOpen) return;
    const { promise, resolve } = deferred();
    this.untilOpen = promise;
    this.#release = () => resolve(undefined);
  }

  open() {
    this.untilOpen = null;
    this.#release();
  }
}
