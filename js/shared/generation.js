/**
 * A running generation: `for await (const part of generation)`, then `generation.result`; or `await generation`, which
 * is its result. It computes only as it is read. Leaving the loop ends it.
 */
import { asyncDispose } from './async.js';
import { BqError } from './errors.js';
import { report } from './events.js';
import { PauseGate } from './pause-gate.js';

/** @import { Part, Result } from './types.js' */

/** @implements {AsyncIterable<Part>} */
export class Generation {
  /** Set once it has ended, also by abort; stays null when it failed. @type {Result | null} */
  result = null;
  #source;
  /** Parts that have come: whoever reads beside the loop, such as done(), takes none from it. @type {Part[]} */
  #parts = [];
  /** The part that is under way. @type {Promise<void> | null} */
  #coming = null;
  #begun = false;
  #ended = false;
  #looped = false;
  /** Settles when it was left. @type {Promise<unknown> | undefined} */
  #left;
  #hold = new PauseGate();
  /** Why it failed. @type {{ error: unknown } | null} */
  #failure = null;

  /** @param {(end: (result: Result) => void, hold: PauseGate) => AsyncGenerator<Part, void>} start */
  constructor(start) {
    this.#source = start((result) => {
      this.result = result;
    }, this.#hold);
  }

  /**
   * One whose call is checked at once. What is wrong with the call is thrown to whoever reads it; where nobody does, it is reported.
   * @template T
   * @param {() => T} check @param {(checked: T, end: (result: Result) => void, hold: PauseGate) => AsyncGenerator<Part, void>} start
   */
  static of(check, start) {
    try {
      const checked = check();
      return new Generation((end, hold) => start(checked, end, hold));
    } catch (error) {
      // eslint-disable-next-line require-yield
      const failed = new Generation(async function* () {
        throw error;
      });
      setTimeout(() => failed.#begun || report(error));
      return failed;
    }
  }

  /** Somebody in another thread reads it. @param {import('./pause-gate.js').Reader} reader */
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

  /** @returns {AsyncGenerator<Part, void>} */
  [Symbol.asyncIterator]() {
    if (this.#looped)
      throw new BqError('STATE', 'a generation can be read only once', { hint: 'keep its parts, or await it' });
    this.#looped = true;
    let next = 0;
    let failed = false;
    const leave = () => this.#leave();
    /** @type {any} */
    const parts = {
      next: async () => {
        const at = next++;
        while (at >= this.#parts.length && (await this.#more()));
        if (at < this.#parts.length) return { done: false, value: this.#parts[at] };
        if (!this.#failure || failed) return { done: true, value: undefined };
        failed = true;
        throw this.#failure.error;
      },
      return: async (/** @type {any} */ value) => (await leave(), { done: true, value }),
      async throw(/** @type {unknown} */ error) {
        await leave();
        throw error;
      },
      [Symbol.asyncIterator]: () => parts,
      [asyncDispose]: leave,
    };
    return parts;
  }

  /** Its texts, in the place of a loop: nothing is computed before it is read, canceling ends it. @returns {ReadableStream<string>} */
  get textStream() {
    const parts = this[Symbol.asyncIterator]();
    /** @type {UnderlyingDefaultSource<string>} */
    const source = {
      async pull(sink) {
        const { done, value } = await parts.next();
        if (done || !value) sink.close();
        else sink.enqueue(value.text);
      },
      cancel: async () => void (await parts.return()),
    };
    return new ReadableStream(source, { highWaterMark: 0 });
  }

  /** Computes the next part; false: it has ended. Whoever asks meanwhile waits for the same one. @returns {Promise<boolean>} */
  async #more() {
    if (this.#ended) return false;
    await (this.#coming ??= this.#compute());
    return true;
  }

  async #compute() {
    this.#begun = true;
    try {
      const { done, value } = await this.#source.next();
      if (done) this.#ended = true;
      else this.#parts.push(value);
    } catch (error) {
      this.#ended = true;
      this.#failure = { error };
    }
    this.#coming = null;
  }

  #leave() {
    this.#looped = this.#begun = this.#ended = true;
    this.#left = this.#source.return();
    return this.#left;
  }

  /** Reads what is left and returns the result. Also says the result of one that was read already. @returns {Promise<Result>} */
  async done() {
    const ended = this.#ended;
    while (await this.#more());
    await this.#left;
    // An abort is thrown to whoever was waiting for the end; it has a result.
    if (this.#failure && !(ended && this.result)) throw this.#failure.error;
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
    await this.#leave();
  }
}
