/**
 * Holds what a session generates to a grammar: which tokens may come next, which must, and when a text has to come to its
 * end so that it is whole within its limit.
 */
import { compile, compileParts, keyOf, Machine } from '../../text/grammar/index.js';
import { ENDS, NONE } from '../../wasm/abi.js';

/** @import { LocalModel } from '../model/model.js' */
/** @import { ResponseFormat } from '../../shared/types.js' */
/** @import { Matcher } from '../../text/grammar/machine.js' */

/** The vocabulary of a model, for its guides. */
export class Guides {
  /** @param {Machine} machine @param {LocalModel} model */
  constructor(machine, model) {
    this.machine = machine;
    this.model = model;
    this.words = Math.ceil(model.info.vocabSize / 32);
    /** Tokens that end a text. */
    this.ends = Array.from({ length: model.info.vocabSize }, (_, id) => id).filter((id) => model.flags(id) & ENDS);
  }

  /** NO_ENGINE, GRAMMAR. @param {LocalModel} model @param {Uint8Array} section  TOKN @param {string | undefined} url */
  static async create(model, section, url) {
    return new Guides(await Machine.create(url, section, model.info.vocabSize), model);
  }

  /** GRAMMAR. @param {ResponseFormat} format @param {number[]} stopTokens */
  async guide(format, stopTokens) {
    const matcher = await this.machine.matcher(keyOf(format), () => compile(format));
    return new Guide(this, matcher, [...this.ends, ...stopTokens]);
  }

  /** Of a part of a text. GRAMMAR. @param {import('../../text/grammar/sequence.js').Node} node @param {number[]} ends  tokens that may follow it */
  async part(node, ends) {
    const matcher = await this.machine.matcher(`parts ${keyOf(node)}`, () => compileParts(node));
    return new Guide(this, matcher, ends);
  }
}

export class Guide {
  #guides;
  #matcher;
  #ends;
  /** Whether the text could end within its limit: until then it need not be watched. */
  #fits = true;

  /** @param {Guides} guides @param {Matcher} matcher @param {number[]} ends */
  constructor(guides, matcher, ends) {
    this.#guides = guides;
    this.#matcher = matcher;
    this.#ends = ends;
    this.words = guides.words;
  }

  /** What of the format was passed over. */
  get warnings() {
    return this.#matcher.warnings;
  }

  /** Whether the text is whole, and nothing more can follow, or may. @param {number} left  tokens that may come */
  ended(left) {
    return !this.#matcher.continues || (this.#matcher.complete && left <= 0);
  }

  /**
   * The next tokens: those that are forced, or one that is sampled and what it forces, which is computed along with it; once the limit
   * is near, what ends the text.
   * @param {number} left  tokens that may come
   * @param {(mask: Uint32Array) => number} sample
   * @returns {number[]}
   */
  next(left, sample) {
    const forced = this.#taken(left, this.#forced());
    if (forced.length) return forced;
    const id = this.#sampled(sample);
    if (this.#ends.includes(id)) return [id];
    const ids = this.#taken(left, [id]);
    const rest = left - ids.length;
    return rest > 0 ? [...ids, ...this.#taken(rest, this.#forced())] : ids;
  }

  /** Takes tokens, or what ends the text where it could not end behind them. @param {number} left @param {number[]} ids */
  #taken(left, ids) {
    if (!ids.length) return ids;
    const matcher = this.#matcher;
    matcher.mark();
    for (const id of ids) matcher.accept(id);
    if (!this.#fits || this.#endsWithin(left - ids.length)) return ids;
    matcher.return();
    this.#fits = this.#endsWithin(left);
    const last = this.#fits ? this.#ids(matcher.shortest() ?? new Uint8Array()) : ids;
    for (const id of last) matcher.accept(id);
    return last;
  }

  /** Tokens that may come next, those that end it included: a copy. */
  mask() {
    const mask = this.#matcher.mask(this.words).slice();
    if (this.#matcher.complete) for (const id of this.#ends) mask[id >>> 5] |= 1 << (id & 31);
    return mask;
  }

  /** @param {(mask: Uint32Array) => number} sample */
  #sampled(sample) {
    return sample(this.mask());
  }

  /** Takes a token that something else has picked. @param {number} id @returns {boolean}  whether it may come */
  accept(id) {
    return this.#matcher.accept(id);
  }

  /** Takes bytes that are part of a token. @param {Uint8Array} bytes @returns {boolean}  whether they may come */
  feed(bytes) {
    const { machine } = this.#guides;
    for (let at = 0; at < bytes.length;) {
      const id = machine.longest(bytes.subarray(at));
      if (id === NONE || !this.#matcher.accept(id)) return false;
      at += machine.token(id).length;
    }
    return true;
  }

  /** Whether the text may end. */
  get complete() {
    return this.#matcher.complete;
  }

  /** Whether it may go on. */
  get continues() {
    return this.#matcher.continues;
  }

  /** How many tokens end it; Infinity: too many to say. */
  get rest() {
    if (this.#matcher.complete) return 0;
    const bytes = this.#matcher.shortest();
    return bytes === null ? Infinity : this.#ids(bytes).length;
  }

  /** Whether the text can end with so many more tokens. A token has a byte at least. @param {number} left */
  #endsWithin(left) {
    const { least } = this.#matcher;
    if (least <= left) return true;
    const bytes = left > 0 ? this.#matcher.shortest() : null;
    return bytes !== null && this.#ids(bytes).length <= left;
  }

  /** Forced bytes as tokens, without those at the end that could be longer ones. */
  #forced() {
    const bytes = this.#matcher.forced();
    if (!bytes.length) return [];
    const ids = this.#ids(bytes);
    let at = 0;
    const sure = ids.findIndex((id) => {
      const open = this.#matcher.extends(bytes.subarray(at));
      at += this.#guides.machine.token(id).length;
      return open;
    });
    return sure < 0 ? ids : ids.slice(0, sure);
  }

  /** Bytes as the model's tokenizer has them, behind other text. @param {Uint8Array} bytes @returns {number[]} */
  #ids(bytes) {
    const { model, machine } = this.#guides;
    for (const before of [[], [10]]) {
      const ids = model.encode(Uint8Array.of(...before, ...bytes), { addSpecial: false });
      const lengths = ids.map((id) => machine.token(id).length);
      let left = lengths.reduce((a, b) => a + b, 0);
      let from = 0;
      while (left > bytes.length) left -= lengths[from++];
      const found = ids.slice(from);
      if (left === bytes.length && this.#spell(found, bytes)) return found;
    }
    const ids = [];
    for (let at = 0; at < bytes.length; at += machine.token(ids[ids.length - 1]).length) {
      const id = machine.longest(bytes.subarray(at));
      if (id === NONE) return [];
      ids.push(id);
    }
    return ids;
  }

  /** Whether tokens have these bytes. @param {number[]} ids @param {Uint8Array} bytes */
  #spell(ids, bytes) {
    let at = 0;
    return ids.every((id) => this.#guides.machine.token(id).every((byte) => byte === bytes[at++]));
  }

  /** To be called when the text has ended. */
  close() {
    this.#guides.machine.give(this.#matcher);
  }
}
