/**
 * What a generation asks of the probabilities of its tokens besides sampling: biases, penalties by how often a token has come, and
 * the probabilities themselves. Loaded when first asked for.
 */

import { structs } from '../../wasm/abi.js';
import { wrong } from '../../shared/options.js';
import { logSum, round } from '../model/probabilities.js';

/** @import { GenerateOptions, Logprob } from '../../shared/types.js' */
/** @import { Wasm } from '../../wasm/wasm.js' */

/** Where the sampler's options have them, and how many there are behind it. */
const BIAS = structs.bqw_sample_options.fields[7];
/** Of a TOKN section: where the number of tokens is, of merges, of bytes of all texts (docs/FORMAT.md). */
const AT = { tokens: 32, merges: 36, text: 40 };

/** The bytes of tokens. @param {Uint8Array} section  TOKN @returns {(id: number) => Uint8Array} */
export function vocabulary(section) {
  const view = new DataView(section.buffer, section.byteOffset, section.length);
  const [tokens, merges, bytes] = [AT.tokens, AT.merges, AT.text].map((at) =>
    section.length ? view.getUint32(at, true) : 0,
  );
  // Texts are the last, kinds lie before the merges, and before them scores and where texts end.
  const text = section.length - bytes;
  const ends = text - 12 * merges - 4 * Math.ceil(tokens / 4) - 8 * tokens;
  const end = (/** @type {number} */ id) => (id < 0 ? 0 : view.getUint32(ends + 4 * id, true));
  return (id) => (id < tokens ? section.subarray(text + end(id - 1), text + end(id)) : new Uint8Array());
}

export class Picking {
  #wasm;
  #session;
  #section;
  #vocab;
  #options;
  /** @type {Map<number, number>} */
  #biases;
  /** How often a token has come. @type {Map<number, number>} */
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
    for (const { token: id, bias } of options.logitBias ?? []) {
      if (!(Number.isInteger(id) && id >= 0 && bias < Infinity))
        throw wrong('a bias', { id, bias }, 'a token and a number');
      if (id >= vocab) throw wrong('a bias', { id, bias }, `a token from 0 to ${vocab - 1} and a number`);
      this.#biases.set(id, (this.#biases.get(id) ?? 0) + bias);
    }
  }

  /** What is added to logits, into options of the sampler. @param {(bytes: number) => number} take @param {number} options  where they are */
  bias(take, options) {
    const biases = this.#biased();
    const at = take(8 * biases.length);
    for (const [i, [id, bias]] of biases.entries()) {
      this.#wasm.u32(at + 8 * i, 1)[0] = id;
      this.#wasm.f32(at + 8 * i + 4, 1)[0] = bias;
    }
    this.#wasm.u32(options + BIAS.offset, 2).set([at, biases.length]);
  }

  /** @returns {[id: number, bias: number][]} */
  #biased() {
    const { presencePenalty = 0, frequencyPenalty = 0 } = this.#options;
    const all = new Map(this.#biases);
    if (presencePenalty || frequencyPenalty)
      for (const [id, count] of this.#counts)
        all.set(id, (all.get(id) ?? 0) - presencePenalty - frequencyPenalty * count);
    return [...all];
  }

  /**
   * Takes note of a token; what is told of it. A token that had to come has no alternatives.
   * @param {number} id @param {boolean} sampled  among the logits that are there
   * @returns {{ logprobs: Logprob & { top: Logprob[] } } | {}}
   */
  took(id, sampled) {
    this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
    const { logprobs } = this.#options;
    if (logprobs === undefined) return {};
    return { logprobs: sampled ? this.told(id, logprobs) : { ...this.#one(id, 0), top: [] } };
  }

  /** @param {number} id @param {number} logprob @returns {Logprob} */
  #one(id, logprob) {
    this.#bytesOf ??= vocabulary(this.#section());
    return { token: id, logprob: round(logprob), bytes: [...this.#bytesOf(id)] };
  }

  /**
   * How likely each token of a text is behind those before it, but for the first. What comes next is known, so several are computed in a batch,
   * as guesses that are right.
   * @param {import('../session/token-sequence.js').Timeline} timeline @param {import('../session/token-sequence.js').Ends} ends @param {Uint32Array} tokens @param {number} n  others of each
   */
  async ofPrompt(timeline, ends, tokens, n) {
    timeline.sync(tokens.slice(0, 1));
    const all = [];
    for (let i = 1, ahead = -1; i < tokens.length; i++) {
      if (ahead < 0) {
        ahead = timeline.drafts ? timeline.draft([...tokens.subarray(i, i + timeline.drafts)]) : 0;
        await timeline.run(ends, 1);
      }
      all.push(this.told(tokens[i], n));
      timeline.push(tokens[i]);
      ahead--;
    }
    return all;
  }

  /** By the model's own logits, before temperature, biases and all else. @param {number} id @param {number} n  how many others */
  told(id, n) {
    const logits = this.#wasm.f32(this.#wasm.out('bqw_session_logits', this.#session), this.#vocab);
    /** The likeliest, ids rising where they are equal. @type {number[]} */
    const best = [];
    for (let i = 0; i < logits.length; i++) {
      if (best.length === n && !(n && logits[i] > logits[best[n - 1]])) continue;
      let at = best.length;
      while (at && logits[i] > logits[best[at - 1]]) at--;
      best.splice(at, 0, i);
      best.length = Math.min(best.length, n);
    }
    const base = logSum(logits);
    const one = (/** @type {number} */ token) => this.#one(token, logits[token] - base);
    return { ...one(id), top: best.map(one) };
  }
}
