/**
 * A running generation: `for await (const part of generation)`, then `generation.result`. It computes only as
 * it is read. Leaving the loop ends it.
 */
import { BqError } from './errors.js';

/** @import { Part, Result } from './types.js' */

/** @implements {AsyncIterable<Part>} */
export class Generation {
  /** Set once it has ended, also by abort; stays null when it failed. @type {Result | null} */
  result = null;
  #parts;
  #started = false;

  /** @param {(end: (result: Result) => void) => AsyncGenerator<Part, void>} start */
  constructor(start) {
    this.#parts = start((result) => {
      this.result = result;
    });
  }

  [Symbol.asyncIterator]() {
    if (this.#started) throw new BqError('STATE', 'a generation can be read only once', { hint: 'keep its parts, or use done()' });
    this.#started = true;
    return this.#parts;
  }

  /** Reads what is left and returns the result. Also says the result of one that was read already. @returns {Promise<Result>} */
  async done() {
    this.#started = true;
    for await (const _ of this.#parts);
    if (this.result) return this.result;
    throw new BqError('STATE', 'the generation failed, or was left before it began');
  }
}
