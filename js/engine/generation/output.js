/** The output of one generation: samples tokens and converts them to text. */
import { OPTION_ROWS } from '../../shared/generate-options.js';
import { ENDS, NONE, SPECIAL, structs } from '../../wasm/abi.js';
import { StopFilter } from '../../api/chat/stop-strings.js';

/** @import { LocalModel } from '../model/model.js' */
/** @import { GenerateOptions, Part, Result } from '../../shared/types.js' */
/** @import { Wasm } from '../../wasm/wasm.js' */

/** Offset in bq_sample_options of the address of the mask. */
const MASK = structs.bq_sample_options.at.mask;

/** Offsets in the heap block of a generation. */
const AT = { rng: 0, token: 8, detokenizer: 16, options: 24, text: 24 + structs.bq_sample_options.size };

/** Returns the values of the sampler's record, bq_sample_options. @param {Record<string, any>} options */
const sampleRecord = (options) =>
  Object.fromEntries(OPTION_ROWS.map(([name, row]) => [name, options[name] ?? row.default]));

export class Output {
  #wasm;
  #model;
  #session;
  #options;
  #block;
  #filter;
  /** @type {import('./logit-processors.js').LogitProcessors | null} */
  logitProcessors = null;

  /**
   * @param {Wasm} wasm @param {LocalModel} model @param {number} session  handle of the session
   * @param {GenerateOptions} options @param {number} seed
   */
  constructor(wasm, model, session, options, seed) {
    this.#wasm = wasm;
    this.#model = model;
    this.#session = session;
    this.#options = options;
    model.checkTokens('stopTokens', options.stopTokens ?? []);
    this.#filter = new StopFilter([options.stop ?? []].flat());
    this.#block = wasm.alloc(AT.text + wasm.call('bqw_detokenize_limit', model.handle));
    wasm.write('bq_sample_options', this.#block + AT.options, sampleRecord(options));
    wasm.call('bqw_rng_seed', seed, this.#block + AT.rng);
  }

  /**
   * Resets the detokenizer for a new text.
   * @param {number | null} lastPromptToken  last token of the prompt; null: the output is a text of its own
   */
  begin(lastPromptToken) {
    const state = this.#wasm.bytes(this.#block + AT.detokenizer, 8).fill(0);
    // The space in front of a first token is dropped only if no text precedes it.
    state[6] = lastPromptToken !== null && this.#model.flags(lastPromptToken) & SPECIAL ? 0 : 1;
  }

  /** Samples a token. @param {Uint32Array} [mask]  allowed tokens, one bit each; default: all @returns {number} */
  sample(mask) {
    const wasm = this.#wasm;
    const block = this.#block;
    return wasm.scope((take) => {
      const at = mask ? take(mask.byteLength) : 0;
      if (mask) wasm.u32(at, mask.length).set(mask);
      wasm.u32(block + AT.options + MASK, 1)[0] = at;
      this.logitProcessors?.writeBiases(take, block + AT.options);
      wasm.check('bqw_session_sample', this.#session, block + AT.options, block + AT.rng, block + AT.token);
      return wasm.u32(block + AT.token, 1)[0];
    });
  }

  /** Detokenizes a token. @param {number} id  NONE: returns the text that the detokenizer has held back */
  #text(id) {
    const at = this.#block + AT.text;
    return this.#wasm.text(
      at,
      this.#wasm.call('bqw_detokenize', this.#model.handle, this.#block + AT.detokenizer, id, at),
    );
  }

  /**
   * Adds a token to the result. Sets the finish reason if the token is the last one.
   * @param {number} id
   * @param {Result} result
   * @param {Result['finishReason'] | null} limitReason  reason why no token may follow; null: tokens may follow
   * @param {boolean} [hidden]  whether its text is not shown; stop strings are not searched in hidden text
   * @returns {Part}
   */
  part(id, result, limitReason, hidden = false) {
    const isEnd = Boolean(this.#model.flags(id) & ENDS) || Boolean(this.#options.stopTokens?.includes(id));
    result.tokens.push(id);
    const decoded = isEnd ? this.#text(NONE) : this.#text(id);
    const filtered = hidden ? { text: this.#filter.flush(), stop: null } : this.#filter.push(decoded);
    let { text } = filtered;
    if (filtered.stop !== null || isEnd) [result.finishReason, result.stop] = ['stop', filtered.stop ?? id];
    else if (limitReason) result.finishReason = limitReason;
    if (result.finishReason !== 'abort' && filtered.stop === null) {
      const tail = isEnd ? { text: '', stop: null } : this.#filter.push(this.#text(NONE));
      text += tail.text;
      if (tail.stop !== null) [result.finishReason, result.stop] = ['stop', tail.stop];
      else text += this.#filter.flush();
    }
    result.text += text;
    return { token: id, text };
  }

  close() {
    this.#wasm.free(this.#block);
  }
}
