/**
 * A running generation: `for await (const part of generation)`, then `generation.result`; or `await generation`, which
 * is its result. It computes only as it is read. Leaving the loop ends it.
 */
import { asyncDispose } from './async.js';
import { BqError } from './errors.js';
import { Hold } from './hold.js';

/** @import { Part, Result } from './types.js' */

/** @implements {AsyncIterable<Part>} */
export class Generation {
  /** Set once it has ended, also by abort; stays null when it failed. @type {Result | null} */
  result = null;
  #parts;
  #started = false;
  #hold = new Hold();
  /** Why it failed. @type {{ error: unknown } | null} */
  #failure = null;

  /** @param {(end: (result: Result) => void, hold: Hold) => AsyncGenerator<Part, void>} start */
  constructor(start) {
    this.#parts = this.#read(
      start((result) => {
        this.result = result;
      }, this.#hold),
    );
  }

  /** Somebody in another thread reads it. @param {import('./hold.js').Reader} reader */
  readBy(reader) {
    this.#hold.reader = reader;
  }

  /** Settles when nothing more of it is computed. What was computed still comes. */
  pause() {
    return this.#hold.pause();
  }

  /** Goes on where it was. */
  resume() {
    return this.#hold.resume();
  }

  [Symbol.asyncIterator]() {
    if (this.#started)
      throw new BqError('STATE', 'a generation can be read only once', { hint: 'keep its parts, or await it' });
    this.#started = true;
    return this.#parts;
  }

  /** Its texts, in the place of a loop: nothing is computed before it is read, canceling ends it. @returns {ReadableStream<string>} */
  get textStream() {
    const parts = this[Symbol.asyncIterator]();
    /** @type {UnderlyingDefaultSource<string>} */
    const source = {
      async pull(sink) {
        const { done, value } = await parts.next();
        if (done) sink.close();
        else sink.enqueue(value.text);
      },
      cancel: async () => void (await parts.return()),
    };
    return new ReadableStream(source, { highWaterMark: 0 });
  }

  /** @param {AsyncGenerator<Part, void>} parts @returns {AsyncGenerator<Part, void>} */
  async *#read(parts) {
    try {
      yield* parts;
    } catch (error) {
      this.#failure = { error };
      throw error;
    }
  }

  /** Reads what is left and returns the result. Also says the result of one that was read already. @returns {Promise<Result>} */
  async done() {
    this.#started = true;
    for await (const _ of this.#parts);
    if (this.#failure && !this.result) throw this.#failure.error;
    if (this.result) return this.result;
    throw new BqError('STATE', 'the generation was left before it began');
  }

  /**
   * `await generation`: its result.
   * @template [A=Result], [B=never]
   * @param {((result: Result) => A | PromiseLike<A>) | null} [onDone]
   * @param {((error: any) => B | PromiseLike<B>) | null} [onFailure]
   * @returns {Promise<A | B>}
   */
  then(onDone, onFailure) {
    return this.done().then(onDone, onFailure);
  }

  /** Ends it. */
  async [asyncDispose]() {
    this.#started = true;
    await this.#parts.return();
  }
}
