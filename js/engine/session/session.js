/** One timeline of tokens in the engine of this thread, and generation on it. */
import { BqError, onDemand } from '../../shared/errors.js';
import { Output } from '../generation/output.js';
import { DEFAULT_MAX_TOKENS, emptyResult, Generation } from '../../shared/generation.js';
import { Timeline } from './token-sequence.js';
import { checkCall, TABLE } from '../../remote/port/methods.js';
import { asyncDispose } from '../../shared/async.js';
import { now } from '../../shared/timeouts.js';
import { dropUnread } from '../generation/unread-parts.js';

/** @import { LocalAdapter } from '../model/adapter.js' */
/** @import { LocalModel } from '../model/model.js' */
/** @import { GenerateOptions, Part, Result, Session, SessionOptions } from '../../shared/types.js' */
/** @import { Wasm } from '../../wasm/wasm.js' */

/** @implements {Session} */
export class LocalSession {
  #model;
  #wasm;
  #context;
  #options;
  #timeline;
  #busy = false;
  #adapter;
  /** Since when a generation waits for its reader; Infinity: it doesn't. */
  heldSince = Infinity;

  /**
   * @param {LocalModel} model
   * @param {Wasm} wasm
   * @param {number} handle
   * @param {{ contextTokens: number, prefillWindow?: number, prefillBatch?: number, quality?: SessionOptions['quality'] }} sizes
   * @param {number[]} [ids]  that are there already
   * @param {LocalAdapter | null} [adapter]  that it computes with already
   */
  constructor(model, wasm, handle, sizes, ids = [], adapter = null) {
    adapter?.join();
    this.#adapter = adapter;
    this.#model = model;
    this.#wasm = wasm;
    this.#context = sizes.contextTokens;
    this.#options = sizes;
    this.#timeline = new Timeline(model, wasm, handle, sizes, ids);
  }

  /**
   * @param {string | ArrayLike<number>} prompt
   * @param {GenerateOptions} [options]
   * @param {() => boolean} [aborted]  a faster way than the signal to hear from another thread that it ends
   * @param {import('../generation/reply-parts.js').Turn | null} [turn]  what holds a reply's parts to what they are to be
   */
  generate(prompt, options, aborted, turn = null) {
    return Generation.check(
      () => checkCall(TABLE.session.generate, [prompt, options]),
      (call, end, reading) => this.#generate(call, aborted, end, reading, turn),
    );
  }

  /** @param {GenerateOptions} [options] @param {() => boolean} [aborted]  as of `generate` */
  continue(options, aborted) {
    return Generation.check(
      () => checkCall(TABLE.session.continue, [options]),
      (call, end, reading) => this.#generate(call, aborted, end, reading, null),
    );
  }

  /**
   * Work with what it is made of, that nothing else may be done beside.
   * @template T @param {(own: { wasm: Wasm, timeline: Timeline, fit: (prompt: ArrayLike<number>) => Uint32Array }) => T | Promise<T>} work
   */
  async alone(work) {
    this.#idle();
    return this.#during(async () => work({ ...this.own, fit: (prompt) => this.#prompt(prompt) }));
  }

  /** Of the adapter that it computes with; null: none. */
  get adapter() {
    return this.#adapter?.info.id ?? null;
  }

  /** Computes with another adapter, or none, from now on, all anew. CLOSED, NO_SESSION. @param {string | null} id */
  use(id) {
    if (id === this.adapter) return;
    const adapter = id === null ? null : this.#model.adapter(id);
    if (adapter) adapter.enter(this.#timeline.handle);
    else this.#wasm.check('bqw_session_adapter', this.#timeline.handle, 0, 0);
    this.#adapter?.leave();
    this.#adapter = adapter;
  }

  /** How many tokens of a prompt it need not compute with an adapter. @param {ArrayLike<number>} tokens @param {string | null} adapter */
  shares(tokens, adapter) {
    const most = adapter === this.adapter ? Math.min(tokens.length, this.#timeline.ids.length) : 0;
    let n = 0;
    while (n < most && tokens[n] === this.#timeline.ids[n]) n++;
    return n;
  }

  /** Tokens of its timeline. */
  get length() {
    return this.#timeline.ids.length;
  }

  /** What it is made of. */
  get own() {
    return { wasm: this.#wasm, timeline: this.#timeline, context: this.#context };
  }

  get closed() {
    return this.#timeline.closed;
  }

  /** What few pages call comes when it is called. @param {'append' | 'borrow' | 'choose' | 'restore' | 'save' | 'stats' | 'truncate'} name @returns {(...given: any[]) => Promise<any>} */
  #more =
    (name) =>
    async (...given) =>
      (await onDemand(import('./lazy-methods.js')))[name](this, this.#model, given);
  append = this.#more('append');
  borrow = this.#more('borrow');
  choose = this.#more('choose');
  restore = this.#more('restore');
  save = this.#more('save');
  stats = this.#more('stats');
  truncate = this.#more('truncate');

  /** @type {Session['fork']} */
  async fork() {
    const { ids, handle } = this.#settled();
    return /** @type {any} */ (this.#model.forked(handle, this.#options, [...ids], this.#adapter));
  }

  /** @type {Session['tokens']} */
  async tokens() {
    this.#timeline.check();
    return [...this.#timeline.all()];
  }

  /** @type {Session['trace']} */
  async trace(given) {
    const { options } = checkCall(TABLE.session.trace, [given]);
    const { trace } = await onDemand(import('../model/trace.js'));
    this.#timeline.check();
    return trace(this.#wasm, this.#timeline.handle, this.#model.info.layers, options);
  }

  async close() {
    this.end();
  }

  end() {
    if (this.#timeline.closed) return;
    this.#timeline.close();
    this.#model.forget(this);
    // A generation that is under way frees it when it sees that it is closed.
    if (!this.#busy) this.#free();
  }

  [asyncDispose]() {
    return this.close();
  }

  #free() {
    if (!this.#wasm.alive) return;
    this.#wasm.call('bqw_session_free', this.#timeline.handle);
    this.#adapter?.leave();
  }

  /** That it does nothing now. */
  #idle() {
    this.#timeline.check();
    if (this.#busy) throw new BqError('STATE', 'the session is generating already');
  }

  /** The timeline, on which what was generated last has come. */
  #settled() {
    this.#idle();
    const { next } = this.#timeline;
    if (next !== null) this.#timeline.push(next);
    return this.#timeline;
  }

  /** Work that nothing else may be done beside. @template T @param {() => Promise<T>} work @returns {Promise<T>} */
  async #during(work) {
    this.#busy = true;
    try {
      return await work();
    } finally {
      this.#busy = false;
      this.#model.rest(this.#timeline.handle);
      if (this.#timeline.closed) this.#free();
    }
  }

  /**
   * @param {ReturnType<typeof checkCall>} call
   * @param {(() => boolean) | undefined} aborted
   * @param {(result: Result) => void} end @param {import('../../shared/generation.js').Reading} reading
   * @param {import('../generation/reply-parts.js').Turn | null} turn
   * @returns {AsyncGenerator<Part, void>}
   */
  async *#generate({ args, options, onProgress }, aborted, end, { signal, reader }, turn) {
    this.#idle();
    this.#model.writes();
    signal.throwIfAborted();
    const { seed = Math.floor(Math.random() * 2 ** 53), maxTokens = DEFAULT_MAX_TOKENS } = options;
    const { deadline, maxTokensPerSecond, contextPolicy = 'error', speculate = 'auto' } = options;
    const limits =
      deadline === undefined && !maxTokensPerSecond
        ? null
        : new (await onDemand(import('../generation/rate-limiter.js'))).Limits({ deadline, maxTokensPerSecond });
    const shifts = contextPolicy !== 'error';
    const ends = { signal, aborted, due: limits?.due };
    this.#idle();
    const tokens = this.#prompt(args[0] ?? this.#timeline.all());
    if (options.adapter !== undefined) this.use(options.adapter);
    const result = emptyResult(seed, tokens.length);
    const { timings, usage } = result;
    /** @type {import('../generation/unread-parts.js').Mark[]} */
    const marks = [{ tokens: tokens.length, text: 0, decodeMs: 0 }];
    /** @type {import('../generation/grammar-guide.js').Guide | import('../generation/reply-parts.js').Turn | null} */
    let guide = turn;
    /** @type {import('../speculation/prompt-lookup.js').Guesses | null} */
    let guesses = null;
    /** @type {import('../speculation/draft-model.js').Draft | null} */
    let draft = null;
    const output = new Output(this.#wasm, this.#model, this.#timeline.handle, options, seed);
    this.#busy = true;
    let failed = false;
    try {
      // Loaded while the prompt is computed. Where it can't be, nothing is guessed.
      const wanted = speculate && this.#timeline.drafts && maxTokens > 2;
      const guessing = wanted ? onDemand(import('../speculation/prompt-lookup.js')).catch(() => null) : null;
      if (speculate.model)
        draft = (await onDemand(import('./lazy-methods.js'))).Draft.open(
          this.#model,
          speculate.model,
          this.#timeline,
          tokens,
        );
      guide ??= await this.#model.guide(options);
      if (guide?.warnings.length) result.warnings = [...guide.warnings];
      output.picking = await this.#model.picking(options, this.#timeline.handle);
      // Of tokens that a format or a bias asks for all logits are needed.
      if (this.#options.quality?.lmHeadFraction)
        await this.#model.cluster(
          this.#timeline.handle,
          !guide && !options.logitBias && options.promptLogprobs === undefined,
          signal,
        );
      if (output.picking && options.promptLogprobs !== undefined)
        result.promptLogprobs = await output.picking.ofPrompt(this.#timeline, ends, tokens, options.promptLogprobs);
      let since = performance.now();
      usage.cachedTokens = await this.#timeline.prefill(ends, onProgress, tokens);
      timings.prefillMs = performance.now() - since;
      const loaded = await guessing;
      if (loaded) guesses = new loaded.Guesses(this.#model, this.#timeline, speculate, draft);
      if (!guesses || speculate === 'auto') this.#model.decoding.add(this.#timeline);
      output.begin(guide && !turn?.free ? null : tokens[tokens.length - 1]);
      // Until another reason is found, leaving the loop (break, throw, abort) is what ends it.
      if (maxTokens < 1) result.finishReason = 'length';
      while (result.finishReason === 'abort') {
        // Also between what is computed and what is picked of it.
        const held = this.#timeline.heldUp(ends);
        if (held) await held;
        if (limits && !(await limits.turn(this.#timeline, signal))) {
          result.finishReason = 'deadline';
          break;
        }
        this.#timeline.check();
        const left = Math.min(maxTokens - result.tokens.length, shifts ? Infinity : this.#context - this.length + 1);
        let sampled = -1;
        const ids = guide ? guide.next(left, (mask) => (sampled = output.sample(mask))) : [output.sample()];
        for (const [i, id] of ids.entries()) {
          const whole = guide !== null && i === ids.length - 1 && guide.ended(left - ids.length);
          const full = this.length >= this.#context;
          const length = result.tokens.length + 1 >= maxTokens ? 'length' : full && !shifts ? 'context' : null;
          const told = output.picking?.took(id, !guide || (i === 0 && id === sampled));
          const part = { ...output.part(id, result, whole ? 'stop' : length, turn?.hides), ...told };
          timings[usage.completionTokens++ ? 'decodeMs' : 'firstTokenMs'] += performance.now() - since;
          this.#timeline.next = id;
          if (reader) marks.push({ tokens: this.length + 1, text: result.text.length, decodeMs: timings.decodeMs });
          this.heldSince = now();
          yield part;
          this.heldSince = Infinity;
          if (result.finishReason !== 'abort') break;
          since = performance.now();
          if (!full) this.#timeline.push(id);
          else {
            // What is left out now can't come back for a reader that leaves before.
            if (reader) await this.#caughtUp(reader);
            signal.throwIfAborted();
            guesses?.end(usage);
            const { shift } = await onDemand(import('../prompt/context-policy.js'));
            await shift(this.#timeline, id, options, ends, result, this.#model);
            guesses?.begin();
          }
        }
        if (result.finishReason !== 'abort') break;
        // All of a token at once where an abort is heard without a turn.
        const slices = aborted ? 0 : 1;
        if (guesses) await guesses.run(ends, slices, maxTokens - result.tokens.length);
        else await this.#timeline.run(ends, slices);
      }
      if (reader) await this.#caughtUp(reader);
    } catch (error) {
      failed = !(signal.aborted || aborted?.());
      throw error;
    } finally {
      this.#busy = false;
      this.heldSince = Infinity;
      this.#model.decoding.delete(this.#timeline);
      guesses?.end(usage);
      draft?.close();
      guide?.close();
      this.#model.rest(this.#timeline.handle);
      output.close();
      if (reader && this.#wasm.alive) dropUnread(reader.readCount ?? Infinity, marks, result, this.#timeline);
      usage.totalTokens = usage.promptTokens + usage.completionTokens;
      if (this.#timeline.closed) this.#free();
      if (!failed) end(result);
    }
  }

  /** Until a reader elsewhere has read all. @param {import('../../shared/generation.js').Reader} reader */
  async #caughtUp(reader) {
    this.heldSince = now();
    await reader.caughtUp();
    this.heldSince = Infinity;
  }

  /** The prompt as ids. ARGUMENT, CONTEXT_FULL. @param {string | ArrayLike<number>} prompt @returns {Uint32Array} */
  #prompt(prompt) {
    const tokens = Uint32Array.from(typeof prompt === 'string' ? this.#model.encode(prompt) : prompt);
    if (!tokens.length) throw new BqError('ARGUMENT', 'the prompt has no tokens');
    if (tokens.length > this.#context)
      throw new BqError('CONTEXT_FULL', `${tokens.length} tokens do not fit in a context of ${this.#context}`, {
        details: { tokens: tokens.length, context: this.#context },
      });
    return tokens;
  }
}
