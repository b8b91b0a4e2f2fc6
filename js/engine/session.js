/** One timeline of tokens in the engine of this thread, and generation on it. */
import { MORE, OK, WANT_DATA } from '../wasm/border.js';
import { BqError, onDemand } from '../shared/errors.js';
import { Output } from './output.js';
import { Generation } from '../shared/generation.js';
import { checkCall, TABLE } from '../port/table.js';
import { Throttle } from '../shared/throttle.js';
import { asyncDispose, Pace } from '../shared/async.js';

/** What ends it besides being closed. @typedef {{ signal?: AbortSignal, aborted?: () => boolean }} Ends */

/** @import { LocalModel } from './model.js' */
/** @import { GenerateOptions, Part, Result, Session } from '../shared/types.js' */
/** @import { Wasm } from '../wasm/wasm.js' */

/** Milliseconds of work between turns where an abort needs none: in a turn the other threads fall asleep, and waking them
 * costs as much as a barrier a hundred times. What waits is another call to the same worker. */
const ISOLATED_TURN_MS = 16;

/** @implements {Session} */
export class LocalSession {
  #model;
  #wasm;
  #handle;
  #context;
  #sizes;
  #closed = false;
  #busy = false;
  /** Its timeline. @type {number[]} */
  #ids = [];
  #pace = new Pace();

  /**
   * @param {LocalModel} model
   * @param {Wasm} wasm
   * @param {number} handle
   * @param {{ context: number, window?: number, batch?: number }} sizes
   */
  constructor(model, wasm, handle, { context, window = 256, batch = 32 }) {
    this.#model = model;
    this.#wasm = wasm;
    this.#handle = handle;
    this.#context = context;
    this.#sizes = { window: Math.min(window, context), batch };
  }

  /**
   * @param {string | ArrayLike<number>} prompt
   * @param {GenerateOptions} [options]
   * @param {() => boolean} [aborted]  a faster way than the signal to hear from another thread that it ends
   */
  generate(prompt, options, aborted) {
    return new Generation((end) => this.#generate(prompt, options, aborted, end));
  }

  /**
   * A vector of each of the first of these texts, as many as are computed at once. What the session held is gone.
   * @param {ArrayLike<number>[]} texts @param {number} pooling @param {boolean} normalize @param {AbortSignal} [signal]
   */
  async vectors(texts, pooling, normalize, signal) {
    this.#check();
    this.#busy = true;
    this.#ids = [];
    const wasm = this.#wasm;
    try {
      const taken = wasm.scope((take) => {
        const put = (/** @type {number[]} */ list) => {
          const at = take(list.length * 4);
          wasm.u32(at, list.length).set(list);
          return at;
        };
        const [ids, lengths] = [put(texts.flatMap((ids) => Array.from(ids))), put(texts.map((ids) => ids.length))];
        return wasm.out('bqw_session_texts', this.#handle, ids, lengths, texts.length, pooling, Number(normalize));
      });
      await this.#run({ signal }, 1);
      return Array.from({ length: taken }, (_, i) => wasm.f32(wasm.out('bqw_session_vector', this.#handle, i), this.#model.info.hidden).slice());
    } finally {
      this.#busy = false;
      this.#model.rest(this.#handle);
      if (this.#closed) this.#free();
    }
  }

  /** How many tokens of a prompt it need not compute. @param {ArrayLike<number>} tokens */
  shares(tokens) {
    const most = Math.min(tokens.length, this.#ids.length);
    let n = 0;
    while (n < most && tokens[n] === this.#ids[n]) n++;
    return n;
  }

  /** Tokens of its timeline. */
  get length() {
    return this.#ids.length;
  }

  get closed() {
    return this.#closed;
  }

  async stats() {
    this.#check();
    return { tokens: this.length, context: this.#context, slices: this.#wasm.call('bqw_session_slices', this.#handle) };
  }

  /** @type {Session['trace']} */
  async trace(given) {
    const { options } = checkCall(TABLE.session.trace, [given]);
    const { trace } = await onDemand(import('./trace.js'));
    this.#check();
    return trace(this.#wasm, this.#handle, this.#model.info.layers, options);
  }

  async close() {
    this.end();
  }

  end() {
    if (this.#closed) return;
    this.#closed = true;
    this.#model.forget(this);
    // A generation that is under way frees it when it sees that it is closed.
    if (!this.#busy) this.#free();
  }

  [asyncDispose]() {
    return this.close();
  }

  #free() {
    if (this.#wasm.alive) this.#wasm.call('bqw_session_free', this.#handle);
  }

  #check() {
    if (this.#closed) throw new BqError('CLOSED', 'the session was closed');
  }

  /**
   * @param {string | ArrayLike<number>} prompt
   * @param {GenerateOptions | undefined} given
   * @param {(() => boolean) | undefined} aborted
   * @param {(result: Result) => void} end
   * @returns {AsyncGenerator<Part, void>}
   */
  async *#generate(prompt, given, aborted, end) {
    const { args, options, signal, onProgress } = checkCall(TABLE.session.generate, [prompt, given]);
    this.#check();
    if (!this.#model.info.generates) throw new BqError('UNSUPPORTED', 'the model is an encoder: it writes no text', { hint: 'use embed()' });
    if (this.#busy) throw new BqError('STATE', 'the session is generating already');
    signal?.throwIfAborted();
    const { seed = Math.floor(Math.random() * 2 ** 53), maxTokens = Infinity } = options;
    const ends = { signal, aborted };
    const tokens = this.#timeline(args[0]);
    /** @type {Result} */
    const result = {
      ids: [],
      text: '',
      reason: 'abort',
      stop: null,
      seed,
      timings: { promptTokens: tokens.length, reusedTokens: 0, tokens: 0, prefillMs: 0, ttftMs: 0, decodeMs: 0 },
    };
    const { timings } = result;
    /** @type {import('./guide.js').Guide | null} */
    let guide = null;
    const output = new Output(this.#wasm, this.#model, this.#handle, options, seed);
    this.#busy = true;
    let failed = false;
    try {
      guide = await this.#model.guide(options);
      output.picking = await this.#model.picking(options, this.#handle);
      let since = performance.now();
      timings.reusedTokens = this.#sync(tokens);
      await this.#prefill(ends, onProgress, tokens.length - timings.reusedTokens);
      timings.prefillMs = performance.now() - since;
      output.begin(guide ? null : tokens[tokens.length - 1]);
      // Until another reason is found, leaving the loop (break, throw, abort) is what ends it.
      if (maxTokens < 1) result.reason = 'length';
      while (result.reason === 'abort') {
        const left = Math.min(maxTokens - result.ids.length, this.#context - this.length + 1);
        let sampled = -1;
        const ids = guide ? guide.next(left, (mask) => (sampled = output.sample(mask))) : [output.sample()];
        for (const [i, id] of ids.entries()) {
          const whole = guide !== null && i === ids.length - 1 && guide.ended(left - ids.length);
          const length = result.ids.length + 1 >= maxTokens ? 'length' : this.length >= this.#context ? 'context' : null;
          const told = output.picking?.took(id, !guide || (i === 0 && id === sampled));
          const part = { ...output.part(id, result, whole ? 'stop' : length), ...told };
          timings[timings.tokens++ ? 'decodeMs' : 'ttftMs'] += performance.now() - since;
          yield part;
          if (result.reason !== 'abort') break;
          since = performance.now();
          this.#wasm.check('bqw_session_append', this.#handle, id);
          this.#ids.push(id);
        }
        if (result.reason !== 'abort') break;
        // All of a token at once where an abort is heard without a turn.
        await this.#run(ends, aborted ? 0 : 1);
      }
    } catch (error) {
      failed = !(signal?.aborted || aborted?.());
      throw error;
    } finally {
      this.#busy = false;
      guide?.close();
      this.#model.rest(this.#handle);
      output.close();
      if (this.#closed) this.#free();
      if (!failed) end(result);
    }
  }

  /** The prompt as ids. ARGUMENT, CONTEXT_FULL. @param {string | Uint32Array} prompt @returns {Uint32Array} */
  #timeline(prompt) {
    const tokens = typeof prompt === 'string' ? Uint32Array.from(this.#model.encode(prompt)) : prompt;
    if (!tokens.length) throw new BqError('ARGUMENT', 'the prompt has no tokens');
    if (tokens.length > this.#context)
      throw new BqError('CONTEXT_FULL', `${tokens.length} tokens do not fit in a context of ${this.#context}`, {
        details: { tokens: tokens.length, context: this.#context },
      });
    return tokens;
  }

  /** @param {Uint32Array} tokens @returns {number} how many were in the KV cache */
  #sync(tokens) {
    return this.#wasm.scope((take) => {
      const at = take(tokens.length * 4);
      this.#wasm.u32(at, tokens.length).set(tokens);
      const kept = this.#wasm.out('bqw_session_sync', this.#handle, at, tokens.length);
      this.#ids = [...tokens];
      return kept;
    });
  }

  /**
   * Computes the prompt.
   * @param {Ends} ends
   * @param {GenerateOptions['onProgress']} onProgress
   * @param {number} total  tokens that are to be computed
   */
  async #prefill(ends, onProgress, total) {
    if (!onProgress) return this.#run(ends, 1);
    const throttle = new Throttle();
    const tell = (/** @type {number} */ done) => onProgress({ phase: 'prefill', done, total });
    const slices = () => this.#wasm.call('bqw_session_slices', this.#handle);
    const before = slices();
    const all = this.#slicesOf(total);
    tell(0);
    await this.#run(ends, 1, () => throttle.run(() => tell(Math.floor((total * Math.min(slices() - before, all)) / (all + 1)))));
    throttle.stop();
    tell(total);
  }

  /** Slices of so many tokens: each is one layer for one batch. @param {number} tokens */
  #slicesOf(tokens) {
    const { window, batch } = this.#sizes;
    const whole = Math.floor(tokens / window) * Math.ceil(window / batch);
    return this.#model.info.layers * (whole + Math.ceil((tokens % window) / batch));
  }

  /**
   * Computes until there are results.
   * @param {Ends} ends
   * @param {number} slices  at once; 0: all
   * @param {() => void} [onSlices]
   */
  async #run({ signal, aborted }, slices, onSlices) {
    const goOn = () => {
      this.#check();
      signal?.throwIfAborted();
      if (aborted?.()) throw new DOMException('This operation was aborted', 'AbortError');
    };
    for (let status = MORE; status !== OK; ) {
      goOn();
      this.#wasm.aborted = aborted;
      status = this.#model.run(this.#handle, slices);
      onSlices?.();
      // Nothing is awaited that need not be: each await is a slice's share of what threads wait for.
      const pause = status === WANT_DATA ? this.#model.wait(this.#handle, signal) : this.#pace.pause(aborted && ISOLATED_TURN_MS);
      if (pause) await pause;
    }
    goOn();
  }
}
