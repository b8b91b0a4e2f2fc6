/** How much of the machine an engine takes: all of it, less, nothing. */
import { emit } from '../shared/events.js';
import { Hold } from '../shared/hold.js';

/** @import { Pace } from '../shared/types.js' */

export class Tempo extends Hold {
  /** It computes half of the time, with one thread. */
  slow = false;
  #paused = false;
  /** @type {Pace} */
  #pace = 'run';
  #events;

  /** @param {EventTarget} events  where changes are told */
  constructor(events) {
    super();
    this.#events = events;
  }

  /** By the caller: whatever the pace is. @param {boolean} paused */
  stop(paused) {
    if (paused !== this.#paused) emit(this.#events, paused ? 'paused' : 'resumed');
    this.#paused = paused;
    this.#settle();
  }

  /** @param {Pace} pace */
  set(pace) {
    if (pace !== this.#pace) emit(this.#events, 'pace', { pace });
    this.#pace = pace;
    this.slow = pace === 'slow';
    this.#settle();
  }

  #settle() {
    void (this.#paused || this.#pace === 'pause' ? this.pause() : this.resume());
  }
}
