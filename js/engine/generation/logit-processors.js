/**
 * Logit processors: biases, penalties by the count of a token, and log probabilities. Loaded when an option of a
 * generation requires one of them.
 */

import { structs } from '../../wasm/abi.js';
import { logSum, roundLogprob } from '../model/probabilities.js';

/** @import { GenerateOptions, Logprob } from '../../shared/types.js' */
/** @import { Wasm } from '../../wasm/wasm.js' */

/** Offset in bq_sample_options of the address of the biases; their number is in the next field. */
const BIAS = structs.bq_sample_options.at.bias;
/**
 * Offsets in a TOKN section of the number of tokens, the number of merges and the number of text bytes
 * (docs/FORMAT.md).
 */
const AT = { tokens: 32, merges: 36, text: 40 };

/**
 * Returns a function that returns the bytes of a token.
 * @param {Uint8Array} section  TOKN
 * @returns {(id: number) => Uint8Array}
 */
export function vocabulary(section) {
  const view = new DataView(section.buffer, section.byteOffset, section.length);
  const [tokens, merges, bytes] = [AT.tokens, AT.merges, AT.text].map((at) =>
    section.length ? view.getUint32(at, true) : 0,
  );
  // The section ends with the end offsets of the texts, scores, kinds, merges and the texts.
  const text = section.length - bytes;
  const endOffsets = text - 12 * merges - 4 * Math.ceil(tokens / 4) - 8 * tokens;
  const end = (/** @type {number} */ id) => (id < 0 ? 0 : view.getUint32(endOffsets + 4 * id, true));
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

  /**
   * @param {Wasm} wasm @param {number} session  handle of the session @param {GenerateOptions} options
   * @param {() => Uint8Array} section  returns the TOKN section @param {number} vocab  vocabulary size
   */
  constructor(wasm, session, options, section, vocab) {
    this.#wasm = wasm;
    this.#session = session;
    this.#section = section;
    this.#vocab = vocab;
    this.#options = options;
    this.#biases = new Map();
    for (const { token: id, bias } of options.logitBias ?? []) this.#biases.set(id, (this.#biases.get(id) ?? 0) + bias);
  }

  /**
   * Writes the biases to the heap, and their address to the sampler's options.
   * @param {(bytes: number) => number} take  heap allocator @param {number} options  address of the sampler's options
   */
  writeBiases(take, options) {
    const biases = this.#allBiases();
    const at = take(8 * biases.length);
    for (const [i, [id, bias]] of biases.entries()) {
      this.#wasm.u32(at + 8 * i, 1)[0] = id;
      this.#wasm.f32(at + 8 * i + 4, 1)[0] = bias;
    }
    this.#wasm.u32(options + BIAS, 2).set([at, biases.length]);
  }

  /** Returns the biases of the options plus the penalties. @returns {[id: number, bias: number][]} */
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
   * @param {number} id @param {boolean} sampled  whether it was sampled from the current logits
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
   * Returns the log probabilities of each token of a prompt, except the first. Since the next tokens are known, several
   * are computed in a batch, as draft tokens that are all accepted.
   * @param {import('../session/token-sequence.js').TokenSequence} sequence
   * @param {import('../session/token-sequence.js').StopConditions} stopConditions
   * @param {Uint32Array} tokens @param {number} n  number of alternatives for each token
   */
  async logprobsOfPrompt(sequence, stopConditions, tokens, n) {
    sequence.sync(tokens.slice(0, 1));
    const logprobs = [];
    for (let i = 1, draftedAhead = -1; i < tokens.length; i++) {
      if (draftedAhead < 0) {
        draftedAhead = sequence.maxDraftTokens
          ? sequence.addDraftTokens([...tokens.subarray(i, i + sequence.maxDraftTokens)])
          : 0;
        await sequence.run(stopConditions, 1);
      }
      logprobs.push(this.logprobsOf(tokens[i], n));
      sequence.push(tokens[i]);
      draftedAhead--;
    }
    return logprobs;
  }

  /**
   * Returns the log probabilities of a token and of the `n` most likely tokens. They come from the model's logits,
   * before temperature, biases and other processors.
   * @param {number} id @param {number} n
   */
  logprobsOf(id, n) {
    const logits = this.#wasm.f32(this.#wasm.out('bqw_session_logits', this.#session), this.#vocab);
    /** The most likely tokens; among equals, the smaller token is first. @type {number[]} */
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
