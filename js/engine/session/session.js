/** A session in this thread: a token sequence and the generations that extend it. */
import { hide } from '../../shared/hide.js';
import { BqError, onDemand } from '../../shared/errors.js';
import { Output } from '../generation/output.js';
import { DEFAULT_MAX_TOKENS, emptyResult, Generation } from '../../shared/generation.js';
import { TokenSequence } from './token-sequence.js';
import { checkCall, TABLE } from '../../remote/port/methods.js';
import { asyncDispose } from '../../shared/async.js';
import { now } from '../../shared/timeouts.js';
import { dropUnread } from '../generation/unread-parts.js';

/** @import { LocalAdapter } from '../model/adapter.js' */
/** @import { LocalModel } from '../model/model.js' */
/** @import { Guide } from '../generation/grammar-guide.js' */
/** @import { ReplyParts } from '../generation/reply-parts.js' */
/** @import { Reader, Reading } from '../../shared/generation.js' */
/** @import { GenerateOptions, Part, Result, Session, SessionOptions } from '../../shared/types.js' */
/** @import { Wasm } from '../../wasm/wasm.js' */

/**
 * Parts of a session. `fit` checks that a prompt fits in the context and returns its tokens.
 * @typedef {{ wasm: Wasm, sequence: TokenSequence, fit: (prompt: ArrayLike<number>) => Uint32Array }} SessionParts
 */

/**
 * State of a running generation.
 * @typedef {object} GenerationState
 * @property {GenerateOptions & { speculate?: any }} options  with the id of the draft model
 * @property {number} maxTokens
 * @property {number} maxLength  tokens of the sequence at which the generation ends; Infinity if a full context is
 *   shifted
 * @property {Uint32Array} tokens  the prompt
 * @property {import('../generation/rate-limiter.js').RateLimiter | null} rateLimiter  null without a limit
 * @property {import('./token-sequence.js').StopConditions & { signal: AbortSignal }} stopConditions
 * @property {Reader | null} reader
 * @property {import('../generation/unread-parts.js').PartState[]} partStates  one for the prompt, and with a reader one
 *   for each part
 * @property {ReplyParts | null} replyParts
 * @property {Guide | ReplyParts | null} guide  constraint of the text; null: any text
 * @property {Output} output
 * @property {Result} result
 * @property {import('../speculation/prompt-lookup.js').Speculator | null} speculator
 * @property {import('../speculation/draft-model.js').DraftModel | null} draftModel
 * @property {number} remaining  tokens until the limit, before the current step
 * @property {number} sampled  token that the current step sampled for the guide; -1: none
 * @property {number} stepStart  time of performance.now() from which the current step is measured
 */

/** @implements {Session} */
export class LocalSession {
  #model;
  #wasm;
  #context;
  #options;
  #sequence;
  #isBusy = false;
  #adapter;
  /** Time since which the reader of a generation has not read; Infinity: it is reading. */
  unreadSince = Infinity;

  /**
   * @param {LocalModel} model
   * @param {Wasm} wasm
   * @param {number} handle
   * @param {Pick<SessionOptions, 'prefillWindow' | 'prefillBatch' | 'quality'> & { contextTokens: number }} sizes
   * @param {number[]} [ids]  tokens of the original session, if this session is a fork
   * @param {LocalAdapter | null} [adapter]  adapter of the original session
   */
  constructor(model, wasm, handle, sizes, ids = [], adapter = null) {
    adapter?.join();
    this.#adapter = adapter;
    this.#model = model;
    this.#wasm = wasm;
    this.#context = sizes.contextTokens;
    this.#options = sizes;
    this.#sequence = new TokenSequence(model, wasm, handle, sizes, ids);
    hide(this, 'unreadSince', 'copyCacheFrom');
  }

  /**
   * @param {string | ArrayLike<number>} prompt
   * @param {GenerateOptions} [options]
   * @param {() => boolean} [aborted]  returns whether another thread has aborted; noticed earlier than the signal
   * @param {ReplyParts | null} [replyParts]  constrained sections of a reply
   */
  generate(prompt, options, aborted, replyParts = null) {
    return Generation.check(
      () => checkCall(TABLE.session.generate, [prompt, options]),
      (call, end, reading) => this.#generate(call, aborted, end, reading, replyParts),
    );
  }

  /** @param {GenerateOptions} [options] @param {() => boolean} [aborted]  as in `generate` */
  continue(options, aborted) {
    return Generation.check(
      () => checkCall(TABLE.session.continue, [options]),
      (call, end, reading) => this.#generate(call, aborted, end, reading, null),
    );
  }

  /**
   * Runs work that needs exclusive use of the session's parts. Throws CLOSED, STATE.
   * @template T
   * @param {(parts: SessionParts) => T | Promise<T>} work
   */
  async runAlone(work) {
    this.#checkIdle();
    return this.#runBusy(async () => work({ ...this.parts, fit: (prompt) => this.#checkPrompt(prompt) }));
  }

  /** Id of the session's adapter; null: none. */
  get adapter() {
    return this.#adapter?.info.id ?? null;
  }

  /**
   * Uses another adapter, or none, from now on. The sequence is computed again. Throws CLOSED, NO_SESSION.
   * @param {string | null} id
   */
  useAdapter(id) {
    if (id === this.adapter) return;
    const adapter = id === null ? null : this.#model.adapter(id);
    if (adapter) adapter.enter(this.#sequence.handle);
    else this.#wasm.check('bqw_session_adapter', this.#sequence.handle, 0, 0);
    this.#adapter?.leave();
    this.#adapter = adapter;
  }

  /**
   * Returns the length of the common prefix with a prompt; 0 if the session has another adapter.
   * @param {ArrayLike<number>} tokens @param {string | null} adapter  id of the prompt's adapter
   */
  sharedLength(tokens, adapter) {
    const maxLength = adapter === this.adapter ? Math.min(tokens.length, this.#sequence.tokens.length) : 0;
    let n = 0;
    while (n < maxLength && tokens[n] === this.#sequence.tokens[n]) n++;
    return n;
  }

  /** Number of tokens of the sequence. */
  get length() {
    return this.#sequence.tokens.length;
  }

  /** The WebAssembly instance, the sequence and the context size. */
  get parts() {
    return { wasm: this.#wasm, sequence: this.#sequence, context: this.#context };
  }

  get isClosed() {
    return this.#sequence.isClosed;
  }

  /**
   * Returns a method whose code is loaded at the first call.
   * @param {'append' | 'copyCacheFrom' | 'choose' | 'restore' | 'save' | 'stats' | 'trace' | 'truncate'} name
   * @returns {(...args: any[]) => Promise<any>}
   */
  #lazyMethod =
    (name) =>
    async (...args) =>
      (await onDemand(import('./lazy-methods.js')))[name](this, this.#model, args);
  append = this.#lazyMethod('append');
  copyCacheFrom = this.#lazyMethod('copyCacheFrom');
  choose = this.#lazyMethod('choose');
  restore = this.#lazyMethod('restore');
  save = this.#lazyMethod('save');
  stats = this.#lazyMethod('stats');
  trace = this.#lazyMethod('trace');
  truncate = this.#lazyMethod('truncate');

  /** @type {Session['fork']} */
  async fork() {
    const { tokens, handle } = this.#settledSequence();
    return /** @type {any} */ (this.#model.forked(handle, this.#options, [...tokens], this.#adapter));
  }

  /** @type {Session['tokens']} */
  async tokens() {
    this.#sequence.check();
    return [...this.#sequence.allTokens()];
  }

  async close() {
    this.end();
  }

  /** Closes the session at once. */
  end() {
    if (this.#sequence.isClosed) return;
    this.#sequence.close();
    this.#model.forget(this);
    // A running generation frees the session when it notices that the session is closed.
    if (!this.#isBusy) this.#free();
  }

  [asyncDispose]() {
    return this.close();
  }

  #free() {
    if (!this.#wasm.alive) return;
    this.#wasm.call('bqw_session_free', this.#sequence.handle);
    this.#adapter?.leave();
  }

  /** Throws CLOSED, and STATE if a generation is running. */
  #checkIdle() {
    this.#sequence.check();
    if (this.#isBusy)
      throw new BqError('STATE', 'the session is already generating', {
        hint: 'await or abort the other generation first',
      });
  }

  /** Appends the pending token, if any, and returns the sequence. Throws CLOSED, STATE. */
  #settledSequence() {
    this.#checkIdle();
    const { pendingToken } = this.#sequence;
    if (pendingToken !== null) this.#sequence.push(pendingToken);
    return this.#sequence;
  }

  /** Runs work while the session is marked as busy. @template T @param {() => Promise<T>} work @returns {Promise<T>} */
  async #runBusy(work) {
    this.#isBusy = true;
    try {
      return await work();
    } finally {
      this.#isBusy = false;
      this.#model.releaseUnit(this.#sequence.handle);
      if (this.#sequence.isClosed) this.#free();
    }
  }

  /**
   * Computes the parts of a generation.
   * @param {ReturnType<typeof checkCall>} call
   * @param {(() => boolean) | undefined} aborted
   * @param {(result: Result) => void} end @param {Reading} reading
   * @param {ReplyParts | null} replyParts
   * @returns {AsyncGenerator<Part, void>}
   */
  async *#generate(call, aborted, end, reading, replyParts) {
    const state = await this.#begin(call, aborted, reading, replyParts);
    const { result, stopConditions, rateLimiter, maxTokens } = state;
    const { signal, reader } = reading;
    let hasFailed = false;
    try {
      await this.#prepare(state, call.onProgress);
      // The finish reason is 'abort' until another one is set, so it is right if a reader leaves its loop.
      while (result.finishReason === 'abort') {
        // A pause also takes effect between computing and sampling.
        const pause = this.#sequence.waitWhilePaused(stopConditions);
        if (pause) await pause;
        if (rateLimiter && !(await rateLimiter.waitForToken(this.#sequence, signal))) {
          result.finishReason = 'deadline';
          break;
        }
        const ids = this.#sampleTokens(state);
        for (const [i, id] of ids.entries()) {
          const part = this.#addToken(state, ids, i);
          this.unreadSince = now();
          yield part;
          this.unreadSince = Infinity;
          if (result.finishReason !== 'abort') break;
          state.stepStart = performance.now();
          if (this.length < this.#context) this.#sequence.push(id);
          else await this.#shiftContext(state, id);
        }
        if (result.finishReason !== 'abort') break;
        // No limit (0) if aborts are noticed through shared memory.
        const workUnits = aborted ? 0 : 1;
        if (state.speculator) await state.speculator.run(stopConditions, workUnits, maxTokens - result.tokens.length);
        else await this.#sequence.run(stopConditions, workUnits);
      }
      if (reader) await this.#waitForReader(reader);
    } catch (error) {
      hasFailed = !(signal.aborted || aborted?.());
      throw error;
    } finally {
      this.#finish(state);
      if (!hasFailed) end(result);
    }
  }

  /**
   * Checks the call of a generation and marks the session as busy. Throws ARGUMENT, CLOSED, CONTEXT_FULL, NO_SESSION,
   * STATE, UNSUPPORTED.
   * @param {ReturnType<typeof checkCall>} call
   * @param {(() => boolean) | undefined} aborted
   * @param {Reading} reading @param {ReplyParts | null} replyParts
   * @returns {Promise<GenerationState>}
   */
  async #begin({ args, options }, aborted, { signal, reader }, replyParts) {
    this.#checkIdle();
    this.#model.checkGenerates();
    signal.throwIfAborted();
    const {
      seed = Math.floor(Math.random() * 2 ** 53),
      maxTokens = DEFAULT_MAX_TOKENS,
      contextPolicy = 'error',
      deadline,
      maxTokensPerSecond,
    } = options;
    const rateLimiter =
      deadline === undefined && !maxTokensPerSecond
        ? null
        : new (await onDemand(import('../generation/rate-limiter.js'))).RateLimiter({ deadline, maxTokensPerSecond });
    this.#checkIdle();
    const tokens = this.#checkPrompt(args[0] ?? this.#sequence.allTokens());
    if (options.adapter !== undefined) this.useAdapter(options.adapter);
    const output = new Output(this.#wasm, this.#model, this.#sequence.handle, options, seed);
    this.#isBusy = true;
    return {
      options,
      maxTokens,
      tokens,
      rateLimiter,
      output,
      reader,
      replyParts,
      maxLength: contextPolicy === 'error' ? this.#context : Infinity,
      stopConditions: { signal, aborted, due: rateLimiter?.deadline },
      result: emptyResult(seed, tokens.length),
      partStates: [{ tokens: tokens.length, text: 0, decodeMs: 0 }],
      guide: replyParts,
      speculator: null,
      draftModel: null,
      remaining: 0,
      sampled: -1,
      stepStart: 0,
    };
  }

  /**
   * Loads the modules that a generation needs, and computes its prompt.
   * @param {GenerationState} state @param {GenerateOptions['onProgress']} onProgress
   */
  async #prepare(state, onProgress) {
    const { options, maxTokens, tokens, stopConditions, result } = state;
    const { speculate = 'auto' } = options;
    // The module loads while the prompt is computed. If loading fails, the generation decodes without draft tokens.
    const speculates = speculate && this.#sequence.maxDraftTokens && maxTokens > 2;
    const loadingSpeculator = speculates ? onDemand(import('../speculation/prompt-lookup.js')).catch(() => null) : null;
    if (speculate.model)
      state.draftModel = (await onDemand(import('./lazy-methods.js'))).DraftModel.open(
        this.#model,
        speculate.model,
        this.#sequence,
        tokens,
      );
    await this.#prepareOutput(state);
    state.stepStart = performance.now();
    result.usage.cachedTokens = await this.#sequence.prefill(stopConditions, onProgress, tokens);
    result.timings.prefillMs = performance.now() - state.stepStart;
    const speculation = await loadingSpeculator;
    if (speculation)
      state.speculator = new speculation.Speculator(this.#model, this.#sequence, speculate, state.draftModel);
    if (!speculation || speculate === 'auto') this.#model.decoding.add(this.#sequence);
    const isContinued = !state.guide || state.replyParts?.isFreeText;
    state.output.begin(isContinued ? tokens[tokens.length - 1] : null);
    if (maxTokens < 1) result.finishReason = 'length';
  }

  /** Prepares what selects the tokens: formats, biases, the LM head. @param {GenerationState} state */
  async #prepareOutput(state) {
    const { options, tokens, stopConditions, output, result } = state;
    const { promptLogprobs } = options;
    const guide = (state.guide ??= await this.#model.guide(options));
    if (guide?.warnings.length) result.warnings = [...guide.warnings];
    output.logitProcessors = await this.#model.logitProcessors(options, this.#sequence.handle);
    // Formats and biases may select any token, so they need all logits.
    if (this.#options.quality?.lmHeadFraction)
      await (
        await onDemand(import('./lazy-methods.js'))
      ).useClusteredHead(
        this,
        this.#model,
        !guide && !options.logitBias && promptLogprobs === undefined,
        stopConditions.signal,
      );
    if (output.logitProcessors && promptLogprobs !== undefined)
      result.promptLogprobs = await output.logitProcessors.logprobsOfPrompt(
        this.#sequence,
        stopConditions,
        tokens,
        promptLogprobs,
      );
  }

  /** Returns the next tokens: one, or several if a format forces them. @param {GenerationState} state */
  #sampleTokens(state) {
    const { guide, output } = state;
    this.#sequence.check();
    state.remaining = Math.min(state.maxTokens - state.result.tokens.length, state.maxLength - this.length + 1);
    state.sampled = -1;
    return guide ? guide.next(state.remaining, (mask) => (state.sampled = output.sample(mask))) : [output.sample()];
  }

  /**
   * Adds a token to the result and returns its part. Sets the finish reason if the token is the last one.
   * @param {GenerationState} state
   * @param {number[]} ids @param {number} i  index of the token in `ids`
   * @returns {Part}
   */
  #addToken(state, ids, i) {
    const { guide, output, result } = state;
    const { timings, usage } = result;
    const id = ids[i];
    const isComplete = guide !== null && i === ids.length - 1 && guide.hasEnded(state.remaining - ids.length);
    const limitReason =
      result.tokens.length + 1 >= state.maxTokens ? 'length' : this.length >= state.maxLength ? 'context' : null;
    const logprobs = output.logitProcessors?.accept(id, !guide || (i === 0 && id === state.sampled));
    const lastReason = isComplete ? 'stop' : limitReason;
    const part = { ...output.part(id, result, lastReason, state.replyParts?.hidesText), ...logprobs };
    timings[usage.completionTokens++ ? 'decodeMs' : 'firstTokenMs'] += performance.now() - state.stepStart;
    this.#sequence.pendingToken = id;
    if (state.reader)
      state.partStates.push({ tokens: this.length + 1, text: result.text.length, decodeMs: timings.decodeMs });
    return part;
  }

  /** Removes the oldest tokens of a full context and appends a token. @param {GenerationState} state @param {number} id */
  async #shiftContext({ options, stopConditions, result, reader, speculator }, id) {
    // Dropped tokens can't be restored, so the reader must have read all earlier parts.
    if (reader) await this.#waitForReader(reader);
    stopConditions.signal.throwIfAborted();
    speculator?.finish(result.usage);
    const { shift } = await onDemand(import('../prompt/context-policy.js'));
    await shift(this.#sequence, id, options, stopConditions, result, this.#model);
    speculator?.start();
  }

  /** Frees the parts of a generation, removes unread tokens and completes the result. @param {GenerationState} state */
  #finish({ reader, partStates, result, speculator, draftModel, guide, output }) {
    const { usage } = result;
    this.#isBusy = false;
    this.unreadSince = Infinity;
    this.#model.decoding.delete(this.#sequence);
    speculator?.finish(usage);
    draftModel?.close();
    guide?.close();
    this.#model.releaseUnit(this.#sequence.handle);
    output.close();
    if (reader && this.#wasm.alive) dropUnread(reader.readCount ?? Infinity, partStates, result, this.#sequence);
    usage.totalTokens = usage.promptTokens + usage.completionTokens;
    if (this.#sequence.isClosed) this.#free();
  }

  /** Waits until a reader in another thread has read all parts. @param {Reader} reader */
  async #waitForReader(reader) {
    this.unreadSince = now();
    await reader.caughtUp();
    this.unreadSince = Infinity;
  }

  /**
   * Returns the tokens of a prompt. Throws ARGUMENT, CONTEXT_FULL.
   * @param {string | ArrayLike<number>} prompt
   * @returns {Uint32Array}
   */
  #checkPrompt(prompt) {
    const tokens = Uint32Array.from(typeof prompt === 'string' ? this.#model.encode(prompt) : prompt);
    if (!tokens.length) throw new BqError('ARGUMENT', 'expected a prompt with at least one token, found none');
    if (tokens.length > this.#context)
      throw new BqError('CONTEXT_FULL', `${tokens.length} tokens do not fit in a context of ${this.#context}`, {
        details: { tokens: tokens.length, context: this.#context },
      });
    return tokens;
  }
}
