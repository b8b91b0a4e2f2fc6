/**
 * Logit processors: biases, penalties by the count of a token, and log
 * probabilities. Loaded when a generation asks for one of them.
 */

import { structs } from '../../wasm/abi.js';
import { logSum, roundLogprob } from '../model/probabilities.js';

/** @import { GenerateOptions, Logprob } from '../../shared/types.js' */
/** @import { Wasm } from '../../wasm/wasm.js' */

/** The field of the sampler's options with the address of biases; their count follows it. */
const BIAS = structs.bqw_sample_options.at.bias;
/** Offsets in a TOKN section of the numbers of tokens, of merges and of text bytes (docs/FORMAT.md). */
const AT = { tokens: 32, merges: 36, text: 40 };

/** A function that gives the bytes of a token. @param {Uint8Array} section  TOKN @returns {(id: number) => Uint8Array} */
export function vocabulary(section) {
  const view = new DataView(section.buffer, section.byteOffset, section.length);
  const [tokens, merges, bytes] = [AT.tokens, AT.merges, AT.text].map((at) =>
    section.length ? view.getUint32(at, true) : 0,
  );
  // The section ends with the texts; before them lie merges, kinds, scores and the end offsets of texts.
  const text = section.length - bytes;
  const ends = text - 12 * merges - 4 * Math.ceil(tokens / 4) - 8 * tokens;
  const end = (/** @type {number} */ id) => (id < 0 ? 0 : view.getUint32(ends + 4 * id, true));
  return (id) => (id < tokens ? section.subarray(text + end(id - 1), text + end(id)) : new Uint8Array());
}

export class LogitProcessors {
  #wasm;
  #session;
  #section;
  #vocab;
  #options;
  /** @type {Map<number, number>} */
  #biases;
  /** Number of occurrences of each token. @type {Map<number, number>} */
  #counts = new Map();
  /** @type {((id: number) => Uint8Array) | null} */
  #bytesOf = null;

  /** @param {Wasm} wasm @param {number} session  its handle @param {GenerateOptions} options @param {() => Uint8Array} section  TOKN @param {number} vocab */
  constructor(wasm, session, options, section, vocab) {
    this.#wasm = wasm;
    this.#session = session;
    this.#section = section;
    this.#vocab = vocab;
    this.#options = options;
    this.#biases = new Map();
    for (const { token: id, bias } of options.logitBias ?? []) this.#biases.set(id, (this.#biases.get(id) ?? 0) + bias);
  }

  /** Writes biases to the heap and to the sampler's options. @param {(bytes: number) => number} take @param {number} options  address of the options */
  writeBiases(take, options) {
    const biases = this.#allBiases();
    const at = take(8 * biases.length);
    for (const [i, [id, bias]] of biases.entries()) {
      this.#wasm.u32(at + 8 * i, 1)[0] = id;
      this.#wasm.f32(at + 8 * i + 4, 1)[0] = bias;
    }
    this.#wasm.u32(options + BIAS, 2).set([at, biases.length]);
  }

  /** @returns {[id: number, bias: number][]} */
  #allBiases() {
    const { presencePenalty = 0, frequencyPenalty = 0 } = this.#options;
    const biases = new Map(this.#biases);
    if (presencePenalty || frequencyPenalty)
      for (const [id, count] of this.#counts)
        biases.set(id, (biases.get(id) ?? 0) - presencePenalty - frequencyPenalty * count);
    return [...biases];
  }

  /**
   * Counts a token and returns its log probabilities, if they are requested. A forced token has no alternatives.
   * @param {number} id @param {boolean} sampled  from the current logits
   * @returns {{ logprobs: Logprob & { top: Logprob[] } } | {}}
   */
  accept(id, sampled) {
    this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
    const { logprobs } = this.#options;
    if (logprobs === undefined) return {};
    return { logprobs: sampled ? this.logprobsOf(id, logprobs) : { ...this.#logprobOf(id, 0), top: [] } };
  }

  /** @param {number} id @param {number} logprob @returns {Logprob} */
  #logprobOf(id, logprob) {
    this.#bytesOf ??= vocabulary(this.#section());
    return { token: id, logprob: roundLogprob(logprob), bytes: [...this.#bytesOf(id)] };
  }

  /**
   * Log probabilities of each token of a text, except the first. Since the next tokens are known, several are computed in a batch,
   * as draft tokens that are all accepted.
   * @param {import('../session/token-sequence.js').TokenSequence} sequence @param {import('../session/token-sequence.js').StopConditions} ends @param {Uint32Array} tokens @param {number} n  alternatives of each
   */
  async logprobsOfPrompt(sequence, ends, tokens, n) {
    sequence.sync(tokens.slice(0, 1));
    const logprobs = [];
    for (let i = 1, draftedAhead = -1; i < tokens.length; i++) {
      if (draftedAhead < 0) {
        draftedAhead = sequence.maxDraftTokens
          ? sequence.addDraftTokens([...tokens.subarray(i, i + sequence.maxDraftTokens)])
          : 0;
        await sequence.run(ends, 1);
      }
      logprobs.push(this.logprobsOf(tokens[i], n));
      sequence.push(tokens[i]);
      draftedAhead--;
    }
    return logprobs;
  }

  /** Log probabilities by the model's logits, before temperature, biases and other processors. @param {number} id @param {number} n  alternatives */
  logprobsOf(id, n) {
    const logits = this.#wasm.f32(this.#wasm.out('bqw_session_logits', this.#session), this.#vocab);
    /** The likeliest tokens; of equal ones the smaller id comes first. @type {number[]} */
    const best = [];
    for (let i = 0; i < logits.length; i++) {
      if (best.length === n && !(n && logits[i] > logits[best[n - 1]])) continue;
      let at = best.length;
      while (at && logits[i] > logits[best[at - 1]]) at--;
      best.splice(at, 0, i);
      best.length = Math.min(best.length, n);
    }
    const base = logSum(logits);
    const entry = (/** @type {number} */ token) => this.#logprobOf(token, logits[token] - base);
    return { ...entry(id), top: best.map(entry) };
  }
}
