/**
 * A running generation: `for await (const part of generation)`, `generation.textStream`, or `await generation.result`.
 * Tokens are computed when they are read, or while the result is awaited. Leaving the loop ends the generation.
 */
import { asyncDispose, follow, iterate } from './async.js';
import { BqError } from './errors.js';
import { report } from './events.js';
import { GENERATE_OPTIONS } from './generate-options.js';

/** @import { Part, Result } from './types.js' */

/**
 * Reader of a generation in another thread. Some computed parts may not be read yet.
 * @typedef {object} Reader
 * @property {number | null} readCount  number of parts read, after it has stopped reading; null while it is reading
 * @property {() => Promise<void>} caughtUp  settles when all sent parts are read and more are requested, or when it has
 *   stopped reading
 */

/**
 * The reading side of a generation, for the code that computes it.
 * @typedef {object} Reading
 * @property {AbortSignal} signal  aborts with the caller's signal, and when `abort()` is called
 * @property {Reader | null} reader  null if the reader is in the same thread, where each part is read when it is
 *   computed
 */

/** Default of `maxTokens`. */
export const DEFAULT_MAX_TOKENS = GENERATE_OPTIONS.maxTokens.default;

/**
 * Returns the result of a generation that has computed nothing yet.
 * @param {number} seed
 * @param {number} promptTokens
 * @returns {Result}
 */
export const emptyResult = (seed, promptTokens) => ({
  tokens: [],
  text: '',
  finishReason: 'abort',
  stop: null,
  seed,
  usage: {
    promptTokens,
    cachedTokens: 0,
    completionTokens: 0,
    totalTokens: promptTokens,
    draftedTokens: 0,
    acceptedTokens: 0,
  },
  timings: { prefillMs: 0, firstTokenMs: 0, decodeMs: 0 },
});

/**
 * Computes a generation and passes its result to `end`.
 * @typedef {(end: (result: Result) => void, reading: Reading) => AsyncGenerator<Part, void>} Start
 */

/** @implements {AsyncIterable<Part>} */
export class Generation {
  #start;
  #callerSignal;
  /**
   * Null until the first part is requested.
   * @type {{ parts: AsyncGenerator<Part, void>, lifetime: ReturnType<typeof follow> } | null}
   */
  #source = null;
  /** @type {Reader | null} */
  #reader = null;
  /** Set when the generation has ended, also by an abort; null if it failed. @type {Result | null} */
  #result = null;
  /** Computed parts. They are kept, so that awaiting the result doesn't consume parts of the loop. @type {Part[]} */
  #parts = [];
  /** The part that is being computed. @type {Promise<void> | null} */
  #pending = null;
  #isEnded = false;
  #isIterated = false;
  /** Settles when the source has ended after the caller left the loop. @type {Promise<unknown> | undefined} */
  #returned;
  /** Error of a failed generation. @type {{ error: unknown } | null} */
  #failure = null;

  /** @param {Start} start @param {AbortSignal} [signal]  the caller's signal */
  constructor(start, signal) {
    this.#start = start;
    this.#callerSignal = signal;
  }

  /**
   * Creates a generation and checks its arguments immediately. An error of the check is thrown when the generation is
   * read. If it is not read, the error is reported.
   * @template {{ signal?: AbortSignal }} T
   * @param {() => T} check
   * @param {(checked: T, end: (result: Result) => void, reading: Reading) => AsyncGenerator<Part, void>} start
   */
  static check(check, start) {
    try {
      const checked = check();
      return new Generation((end, reading) => start(checked, end, reading), checked.signal);
    } catch (error) {
      // eslint-disable-next-line require-yield
      const failedGeneration = new Generation(async function* () {
        throw error;
      });
      setTimeout(() => failedGeneration.#source || failedGeneration.#isEnded || report(error));
      return failedGeneration;
    }
  }

  /** Sets the reader in another thread to which the parts are sent. @param {Reader | null} reader */
  readBy(reader) {
    this.#reader = reader;
    return this;
  }

  /**
   * Promise of the result. Missing parts are computed. If the generation fails, it rejects with the error. An abort
   * rejects the promises that exist at that time. A promise requested after an abort resolves to the result computed so
   * far.
   * @returns {Promise<Result>}
   */
  get result() {
    return this.#finish();
  }

  /**
   * Ends the generation. The loop and pending promises of the result throw the reason.
   * @param {unknown} [reason]  default: an AbortError
   */
  abort(reason) {
    if (this.#isEnded) return;
    this.#open().lifetime.controller.abort(reason);
    void this.#drain();
  }

  /** @returns {AsyncGenerator<Part, void>} */
  [Symbol.asyncIterator]() {
    if (this.#isIterated)
      throw new BqError('STATE', 'a generation can be read only once', {
        hint: 'keep its parts, or await its result',
      });
    this.#isIterated = true;
    let next = 0;
    let hasThrown = false;
    /** @returns {Promise<IteratorResult<Part, void>>} */
    const readNext = async () => {
      const at = next++;
      while (at >= this.#parts.length && (await this.#computeNext()));
      if (at < this.#parts.length) return { done: false, value: this.#parts[at] };
      if (!this.#failure || hasThrown) return { done: true, value: undefined };
      hasThrown = true;
      throw this.#failure.error;
    };
    return iterate(readNext, () => this.#leave());
  }

  /**
   * Stream of the parts' texts. Nothing is computed before it is read. Canceling it ends the generation.
   * @returns {ReadableStream<string>}
   */
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

  #open() {
    if (!this.#source) {
      const lifetime = follow(this.#callerSignal);
      const reading = { signal: lifetime.signal, reader: this.#reader };
      this.#source = { lifetime, parts: this.#start((result) => (this.#result = result), reading) };
    }
    return this.#source;
  }

  /**
   * Computes the next part. Returns false if the generation has ended. Several callers may wait for the same part.
   * @returns {Promise<boolean>}
   */
  async #computeNext() {
    if (this.#isEnded) return false;
    await (this.#pending ??= this.#compute());
    return true;
  }

  async #compute() {
    const { parts, lifetime } = this.#open();
    try {
      const { done, value } = await parts.next();
      if (done || !value) this.#isEnded = true;
      else this.#parts.push(value);
    } catch (error) {
      this.#isEnded = true;
      this.#failure = { error };
    }
    if (this.#isEnded) lifetime.release();
    this.#pending = null;
  }

  async #drain() {
    while (await this.#computeNext());
    await this.#returned;
  }

  /** @returns {Promise<Result>} */
  async #finish() {
    const wasEnded = this.#isEnded;
    await this.#drain();
    if (this.#failure && !(wasEnded && this.#result)) throw this.#failure.error;
    if (this.#result) return this.#result;
    throw new BqError('STATE', 'the generation was abandoned before it started');
  }

  #leave() {
    this.#isIterated = this.#isEnded = true;
    this.#source?.lifetime.release();
    this.#returned = this.#source?.parts.return();
    return this.#returned;
  }

  /** Ends the generation, like leaving the loop. */
  async [asyncDispose]() {
    await this.#leave();
  }
}
