/**
 * Constrains generated text to a grammar. A guide determines which tokens may come next, which tokens are forced, and
 * when a text must end to be complete within its limit.
 */
import { compile, compileParts, keyOf, Machine } from '../../text/grammar/index.js';
import { QUOTE_MARKS } from '../../text/grammar/notations.js';
import { ENDS, NONE, SPECIAL } from '../../wasm/abi.js';

/** @import { LocalModel } from '../model/model.js' */
/** @import { ResponseFormat } from '../../shared/types.js' */
/** @import { Matcher } from '../../text/grammar/machine.js' */

/** Compiles grammars for the vocabulary of a model. */
export class Grammars {
  /**
   * @param {Machine} machine @param {LocalModel} model
   * @param {number[]} quotes  special tokens that are quotation marks
   */
  constructor(machine, model, quotes) {
    this.machine = machine;
    this.model = model;
    this.quotes = quotes;
    /** Length of a mask in 32-bit words. */
    this.words = Math.ceil(model.info.vocabSize / 32);
    /** Tokens that end a text. */
    this.endTokens = Array.from({ length: model.info.vocabSize }, (_, id) => id).filter((id) => model.flags(id) & ENDS);
  }

  /**
   * Throws NO_ENGINE, GRAMMAR.
   * @param {LocalModel} model @param {Uint8Array} section  TOKN
   * @param {string | undefined} url  URL of the WebAssembly module for grammars
   */
  static async create(model, section, url) {
    const quotes = QUOTE_MARKS.flatMap((mark) => model.findToken(mark) ?? []).filter((id) => model.flags(id) & SPECIAL);
    return new Grammars(await Machine.create(url, section, model.info.vocabSize, quotes), model, quotes);
  }

  /** Compiles a guide for a text. Throws GRAMMAR. @param {ResponseFormat} format @param {number[]} stopTokens */
  async guide(format, stopTokens) {
    const matcher = await this.machine.matcher(keyOf(format), () => compile(format));
    return new Guide(this, matcher, [...this.endTokens, ...stopTokens]);
  }

  /**
   * Compiles a guide for a part of a text. Throws GRAMMAR.
   * @param {import('../../text/grammar/sequence.js').Node} node @param {number[]} endTokens  tokens that may follow the part
   */
  async part(node, endTokens) {
    const matcher = await this.machine.matcher(`parts ${keyOf(node)}`, () => compileParts(node));
    return new Guide(this, matcher, endTokens);
  }
}

export class Guide {
  #guides;
  #matcher;
  #endTokens;
  /** Whether the text was able to end within its limit at the last check. */
  #fits = true;

  /** @param {Grammars} guides @param {Matcher} matcher @param {number[]} endTokens */
  constructor(guides, matcher, endTokens) {
    this.#guides = guides;
    this.#matcher = matcher;
    this.#endTokens = endTokens;
    this.words = guides.words;
  }

  /** Keywords of the format that have no effect. */
  get warnings() {
    return this.#matcher.warnings;
  }

  /**
   * Returns whether nothing can follow, or the text is complete and the limit reached.
   * @param {number} remaining  tokens until the limit
   */
  hasEnded(remaining) {
    return !this.#matcher.continues || (this.#matcher.complete && remaining <= 0);
  }

  /**
   * Returns the next tokens: forced tokens, or a sampled token and the tokens that it forces, which are computed
   * together. Near the limit, returns the shortest end of the text.
   * @param {number} remaining  tokens until the limit
   * @param {(mask: Uint32Array) => number} sample
   * @returns {number[]}
   */
  next(remaining, sample) {
    const forced = this.#acceptWithinLimit(remaining, this.#forcedTokens());
    if (forced.length) return forced;
    const id = this.#sampleMasked(sample);
    if (this.#endTokens.includes(id)) return [id];
    const ids = this.#acceptWithinLimit(remaining, [id]);
    const remainder = remaining - ids.length;
    return remainder > 0 ? [...ids, ...this.#acceptWithinLimit(remainder, this.#forcedTokens())] : ids;
  }

  /**
   * Accepts tokens. If the text could not end within the limit after them, accepts its shortest end instead.
   * @param {number} remaining @param {number[]} ids @returns {number[]}  the accepted tokens
   */
  #acceptWithinLimit(remaining, ids) {
    if (!ids.length) return ids;
    const matcher = this.#matcher;
    matcher.mark();
    for (const id of ids) matcher.accept(id);
    if (!this.#fits || this.#endsWithin(remaining - ids.length)) return ids;
    matcher.return();
    this.#fits = this.#endsWithin(remaining);
    const ending = this.#fits ? this.#encodeAfterText(matcher.shortest() ?? new Uint8Array()) : ids;
    for (const id of ending) matcher.accept(id);
    return ending;
  }

  /** Returns a new mask of the tokens that may come next, including end tokens. */
  mask() {
    const mask = this.#matcher.mask(this.words).slice();
    if (this.#matcher.complete) for (const id of this.#endTokens) mask[id >>> 5] |= 1 << (id & 31);
    return mask;
  }

  /** @param {(mask: Uint32Array) => number} sample */
  #sampleMasked(sample) {
    return sample(this.mask());
  }

  /** Accepts a token that the caller has picked. @param {number} id @returns {boolean}  false: it is not allowed */
  accept(id) {
    return this.#matcher.accept(id);
  }

  /** Accepts bytes. @param {Uint8Array} bytes @returns {boolean}  false: they are not allowed */
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

  /** Whether the text may continue. */
  get continues() {
    return this.#matcher.continues;
  }

  /** Number of tokens of the shortest end; Infinity: too many to compute. */
  get shortestEnd() {
    if (this.#matcher.complete) return 0;
    const bytes = this.#matcher.shortest();
    return bytes === null ? Infinity : this.#encodeAfterText(bytes).length;
  }

  /**
   * Returns whether the text can end within `remaining` tokens. A token has at least one byte.
   * @param {number} remaining
   */
  #endsWithin(remaining) {
    const { least: minBytes } = this.#matcher;
    if (minBytes <= remaining) return true;
    const bytes = remaining > 0 ? this.#matcher.shortest() : null;
    return bytes !== null && this.#encodeAfterText(bytes).length <= remaining;
  }

  /** Returns the tokens of the forced bytes, without trailing tokens that could be parts of longer tokens. */
  #forcedTokens() {
    const bytes = this.#matcher.forced();
    if (!bytes.length) return [];
    const ids = this.#encodeAfterText(bytes);
    let at = 0;
    const undecided = ids.findIndex((id) => {
      const mayBeLonger = this.#matcher.extends(bytes.subarray(at));
      at += this.#guides.machine.token(id).length;
      return mayBeLonger;
    });
    return undecided < 0 ? ids : ids.slice(0, undecided);
  }

  /** Returns the tokens of bytes that follow other text. @param {Uint8Array} bytes @returns {number[]} */
  #encodeAfterText(bytes) {
    const { machine, quotes } = this.#guides;
    for (const id of quotes) {
      const mark = machine.token(id);
      const at = bytes.findIndex((_, i) => mark.every((byte, k) => bytes[i + k] === byte));
      if (at < 0) continue;
      const bytesAfter = bytes.subarray(at + mark.length);
      return [
        ...(at ? this.#encodeText(bytes.subarray(0, at)) : []),
        id,
        ...(bytesAfter.length ? this.#encodeAfterText(bytesAfter) : []),
      ];
    }
    return this.#encodeText(bytes);
  }

  /** Returns the tokens of bytes without special tokens. @param {Uint8Array} bytes @returns {number[]} */
  #encodeText(bytes) {
    const { model, machine } = this.#guides;
    for (const prefix of [[], [10]]) {
      const ids = model.encode(Uint8Array.of(...prefix, ...bytes), { addSpecial: false });
      const lengths = ids.map((id) => machine.token(id).length);
      let byteCount = lengths.reduce((a, b) => a + b, 0);
      let from = 0;
      while (byteCount > bytes.length) byteCount -= lengths[from++];
      const suffix = ids.slice(from);
      if (byteCount === bytes.length && this.#spells(suffix, bytes)) return suffix;
    }
    const ids = [];
    for (let at = 0; at < bytes.length; at += machine.token(ids[ids.length - 1]).length) {
      const id = machine.longest(bytes.subarray(at));
      if (id === NONE) return [];
      ids.push(id);
    }
    return ids;
  }

  /** Returns whether the tokens spell these bytes. @param {number[]} ids @param {Uint8Array} bytes */
  #spells(ids, bytes) {
    let at = 0;
    return ids.every((id) => this.#guides.machine.token(id).every((byte) => byte === bytes[at++]));
  }

  /** Returns the matcher to the machine, for later texts. */
  close() {
    this.#guides.machine.give(this.#matcher);
  }
}
