/** One timeline of tokens in the engine of this thread, and generation on it. */
import { MORE, NONE, OK, WANT_DATA } from '../wasm/border.js';
import { BqError, onDemand } from '../shared/errors.js';
import { Generation } from '../shared/generation.js';
import { StopFilter } from '../chat/stop-strings.js';
import { Pace } from '../shared/async.js';

/** @import { LocalModel } from './model.js' */
/** @import { GenerateOptions, Part, Result, Session } from '../shared/types.js' */
/** @import { Wasm } from '../wasm/wasm.js' */

const ENDS = 1;
const SPECIAL = 2;

/** Milliseconds of work between turns where an abort needs none: in a turn the other threads fall asleep, and waking them
 * costs as much as a barrier a hundred times. What waits is another call to the same worker. */
const ISOLATED_TURN_MS = 16;

/** Where things lie in the block that a generation takes from the heap. */
const AT = { options: 0, rng: 40, token: 48, detokenizer: 56, text: 64 };

/** `name`, or its default where it is undefined. @param {any} options @param {string} name @param {number} initial @param {number} least */
function numberOf(options, name, initial, least) {
  const value = options[name] ?? initial;
  if (typeof value === 'number' && value >= least) return value;
  throw new BqError('ARGUMENT', `${name} is ${value}, not a number of at least ${least}`);
}

/** @param {GenerateOptions} o */
function sampleRecord(o) {
  return {
    temperature: numberOf(o, 'temperature', 0.7, 0),
    top_k: numberOf(o, 'topK', 40, 0),
    top_p: numberOf(o, 'topP', 0.95, 0),
    min_p: numberOf(o, 'minP', 0, 0),
    repeat_penalty: numberOf(o, 'repeatPenalty', 1, 0),
    repeat_last: numberOf(o, 'repeatLast', 64, 0),
  };
}

/** @implements {Session} */
export class LocalSession {
  #model;
  #wasm;
  #handle;
  #context;
  #closed = false;
  #busy = false;
  #tokens = 0;
  #pace = new Pace();

  /**
   * @param {LocalModel} model
   * @param {Wasm} wasm
   * @param {number} handle
   * @param {number} context
   */
  constructor(model, wasm, handle, context) {
    this.#model = model;
    this.#wasm = wasm;
    this.#handle = handle;
    this.#context = context;
  }

  /**
   * @param {string | ArrayLike<number>} prompt
   * @param {GenerateOptions & { aborted?: () => boolean }} [options]  `aborted`: a faster way than the signal to hear
   *   from another thread that it ends
   */
  generate(prompt, options = {}) {
    return new Generation((end) => this.#generate(prompt, options, end));
  }

  async stats() {
    this.#check();
    return { tokens: this.#tokens, context: this.#context, slices: this.#wasm.call('bqw_session_slices', this.#handle) };
  }

  /** @type {Session['trace']} */
  async trace(options = {}) {
    const { trace } = await onDemand(import('./trace.js'));
    this.#check();
    return trace(this.#wasm, this.#handle, this.#model.info.layers, options);
  }

  async close() {
    if (this.#closed) return;
    this.#closed = true;
    this.#model.forget(this);
    // A generation that is under way frees it when it sees that it is closed.
    if (!this.#busy) this.#free();
  }

  #free() {
    if (this.#wasm.alive) this.#wasm.call('bqw_session_free', this.#handle);
  }

  #check() {
    if (this.#closed) throw new BqError('CLOSED', 'the session was closed');
  }

  /**
   * @param {string | ArrayLike<number>} prompt
   * @param {GenerateOptions & { aborted?: () => boolean }} options
   * @param {(result: Result) => void} end
   * @returns {AsyncGenerator<Part, void>}
   */
  async *#generate(prompt, options, end) {
    this.#check();
    if (this.#busy) throw new BqError('STATE', 'the session is generating already');
    options.signal?.throwIfAborted();
    const seed = numberOf(options, 'seed', Math.floor(Math.random() * 2 ** 53), 0);
    const sample = sampleRecord(options);
    const maxTokens = numberOf(options, 'maxTokens', Infinity, 0);
    const tokens = this.#timeline(prompt);
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
    const block = this.#wasm.alloc(AT.text + this.#wasm.call('bqw_detokenize_limit', this.#model.handle));
    this.#busy = true;
    let failed = false;
    try {
      let since = performance.now();
      timings.reusedTokens = this.#sync(tokens);
      await this.#run(options, 1);
      timings.prefillMs = performance.now() - since;
      this.#prepare(block, sample, seed, tokens[tokens.length - 1]);
      const filter = new StopFilter(options.stop ?? []);
      // Until another reason is found, leaving the loop (break, throw, abort) is what ends it.
      if (maxTokens < 1) result.reason = 'length';
      while (result.reason === 'abort') {
        const id = this.#sample(block);
        const part = this.#part(id, block, filter, options, maxTokens, result);
        timings[timings.tokens++ ? 'decodeMs' : 'ttftMs'] += performance.now() - since;
        yield part;
        if (result.reason !== 'abort') break;
        since = performance.now();
        this.#wasm.check('bqw_session_append', this.#handle, id);
        this.#tokens++;
        // All of a token at once where an abort is heard without a turn.
        await this.#run(options, options.aborted ? 0 : 1);
      }
    } catch (error) {
      failed = !(options.signal?.aborted || options.aborted?.());
      throw error;
    } finally {
      this.#busy = false;
      this.#model.rest(this.#handle);
      this.#wasm.free(block);
      if (this.#closed) this.#free();
      if (!failed) end(result);
    }
  }

  /** The prompt as ids. ARGUMENT, CONTEXT_FULL. @param {string | ArrayLike<number>} prompt @returns {Uint32Array} */
  #timeline(prompt) {
    const tokens = Uint32Array.from(typeof prompt === 'string' ? this.#model.encode(prompt) : prompt);
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
      this.#tokens = tokens.length;
      return kept;
    });
  }

  /** Computes until there are logits. @param {GenerateOptions & { aborted?: () => boolean }} options @param {number} slices  at once; 0: all */
  async #run({ signal, aborted }, slices) {
    const goOn = () => {
      this.#check();
      signal?.throwIfAborted();
      if (aborted?.()) throw new DOMException('This operation was aborted', 'AbortError');
    };
    for (let status = MORE; status !== OK; ) {
      goOn();
      this.#wasm.aborted = aborted;
      status = this.#model.run(this.#handle, slices);
      // Nothing is awaited that need not be: each await is a slice's share of what threads wait for.
      const pause = status === WANT_DATA ? this.#model.wait(this.#handle, signal) : this.#pace.pause(aborted && ISOLATED_TURN_MS);
      if (pause) await pause;
    }
    goOn();
  }

  /** @param {number} block @param {Record<string, number>} sample @param {number} seed @param {number} before  the last token of the prompt */
  #prepare(block, sample, seed, before) {
    this.#wasm.write('bqw_sample_options', block + AT.options, sample);
    this.#wasm.call('bqw_rng_seed', seed, block + AT.rng);
    const state = this.#wasm.bytes(block + AT.detokenizer, 8).fill(0);
    // The space that a first token brings is dropped only where no text precedes it.
    state[6] = this.#flags(before) & SPECIAL ? 0 : 1;
  }

  /** @param {number} block */
  #sample(block) {
    this.#wasm.check('bqw_session_sample', this.#handle, block + AT.options, block + AT.rng, block + AT.token);
    return this.#wasm.u32(block + AT.token, 1)[0];
  }

  /** @param {number} id */
  #flags(id) {
    return this.#wasm.call('bqw_token_flags', this.#model.handle, id);
  }

  /** @param {number} block @param {number} id  NONE: what is left */
  #text(block, id) {
    const at = block + AT.text;
    return this.#wasm.text(at, this.#wasm.call('bqw_detokenize', this.#model.handle, block + AT.detokenizer, id, at));
  }

  /**
   * Takes a token into the result; sets its reason when it is the last.
   * @param {number} id
   * @param {number} block
   * @param {StopFilter} filter
   * @param {GenerateOptions} options
   * @param {number} maxTokens
   * @param {Result} result
   * @returns {Part}
   */
  #part(id, block, filter, options, maxTokens, result) {
    const ends = Boolean(this.#flags(id) & ENDS) || Boolean(options.stopTokens?.includes(id));
    result.ids.push(id);
    const met = filter.push(ends ? this.#text(block, NONE) : this.#text(block, id));
    let { text } = met;
    if (met.stop !== null || ends) [result.reason, result.stop] = ['stop', met.stop ?? id];
    else if (result.ids.length >= maxTokens) result.reason = 'length';
    else if (this.#tokens >= this.#context) result.reason = 'context';
    if (result.reason !== 'abort' && met.stop === null) {
      const rest = ends ? { text: '', stop: null } : filter.push(this.#text(block, NONE));
      text += rest.text;
      if (rest.stop !== null) [result.reason, result.stop] = ['stop', rest.stop];
      else text += filter.flush();
    }
    result.text += text;
    return { id, text };
  }
}
