/**
 * Constrains generated text to a grammar: which tokens may come next, which are forced, and when a text must
 * end to be complete within its limit.
 */
import { compile, compileParts, keyOf, Machine } from '../../text/grammar/index.js';
import { QUOTE_MARKS } from '../../text/grammar/notations.js';
import { ENDS, NONE, SPECIAL } from '../../wasm/abi.js';

/** @import { LocalModel } from '../model/model.js' */
/** @import { ResponseFormat } from '../../shared/types.js' */
/** @import { Matcher } from '../../text/grammar/machine.js' */

/** Compiles grammars for the vocabulary of a model. */
export class Grammars {
  /** @param {Machine} machine @param {LocalModel} model @param {number[]} quotes  special tokens that are marks of quotes */
  constructor(machine, model, quotes) {
    this.machine = machine;
    this.model = model;
    this.quotes = quotes;
    this.words = Math.ceil(model.info.vocabSize / 32);
    /** Tokens that end a text. */
    this.ends = Array.from({ length: model.info.vocabSize }, (_, id) => id).filter((id) => model.flags(id) & ENDS);
  }

  /** NO_ENGINE, GRAMMAR. @param {LocalModel} model @param {Uint8Array} section  TOKN @param {string | undefined} url */
  static async create(model, section, url) {
    const quotes = QUOTE_MARKS.flatMap((mark) => model.findToken(mark) ?? []).filter((id) => model.flags(id) & SPECIAL);
    return new Grammars(await Machine.create(url, section, model.info.vocabSize, quotes), model, quotes);
  }

  /** GRAMMAR. @param {ResponseFormat} format @param {number[]} stopTokens */
  async guide(format, stopTokens) {
    const matcher = await this.machine.matcher(keyOf(format), () => compile(format));
    return new Guide(this, matcher, [...this.ends, ...stopTokens]);
  }

  /** A guide for a part of a text. GRAMMAR. @param {import('../../text/grammar/sequence.js').Node} node @param {number[]} ends  tokens that may follow it */
  async part(node, ends) {
    const matcher = await this.machine.matcher(`parts ${keyOf(node)}`, () => compileParts(node));
    return new Guide(this, matcher, ends);
  }
}

export class Guide {
  #guides;
  #matcher;
  #ends;
  /** Whether the text could end within its limit when last checked. */
  #fits = true;

  /** @param {Grammars} guides @param {Matcher} matcher @param {number[]} ends */
  constructor(guides, matcher, ends) {
    this.#guides = guides;
    this.#matcher = matcher;
    this.#ends = ends;
    this.words = guides.words;
  }

  /** Keywords of the format that have no effect. */
  get warnings() {
    return this.#matcher.warnings;
  }

  /** Whether the text is complete and nothing can follow, or the limit is reached. @param {number} remaining  tokens until the limit */
  hasEnded(remaining) {
    return !this.#matcher.continues || (this.#matcher.complete && remaining <= 0);
  }

  /**
   * The next tokens: forced ones, or a sampled one and the tokens that it forces, which are computed with it. Near the limit
   * the shortest end of the text.
   * @param {number} remaining  tokens until the limit
   * @param {(mask: Uint32Array) => number} sample
   * @returns {number[]}
   */
  next(remaining, sample) {
    const forced = this.#acceptWithinLimit(remaining, this.#forcedTokens());
    if (forced.length) return forced;
    const id = this.#sampleMasked(sample);
    if (this.#ends.includes(id)) return [id];
    const ids = this.#acceptWithinLimit(remaining, [id]);
    const remainder = remaining - ids.length;
    return remainder > 0 ? [...ids, ...this.#acceptWithinLimit(remainder, this.#forcedTokens())] : ids;
  }

  /** Accepts tokens, or the shortest end of the text if it could not end within the limit after them. @param {number} remaining @param {number[]} ids */
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

  /** A mask of tokens that may come next, end tokens included; a copy. */
  mask() {
    const mask = this.#matcher.mask(this.words).slice();
    if (this.#matcher.complete) for (const id of this.#ends) mask[id >>> 5] |= 1 << (id & 31);
    return mask;
  }

  /** @param {(mask: Uint32Array) => number} sample */
  #sampleMasked(sample) {
    return sample(this.mask());
  }

  /** Accepts a token that was picked elsewhere. @param {number} id @returns {boolean}  false: it is not allowed */
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

  /** Whether the text can end within this many tokens. A token has at least one byte. @param {number} remaining */
  #endsWithin(remaining) {
    const { least: minBytes } = this.#matcher;
    if (minBytes <= remaining) return true;
    const bytes = remaining > 0 ? this.#matcher.shortest() : null;
    return bytes !== null && this.#encodeAfterText(bytes).length <= remaining;
  }

  /** Forced bytes as tokens, without tokens at the end that could continue as longer ones. */
  #forcedTokens() {
    const bytes = this.#matcher.forced();
    if (!bytes.length) return [];
    const ids = this.#encodeAfterText(bytes);
    let at = 0;
    const undecided = ids.findIndex((id) => {
      const open = this.#matcher.extends(bytes.subarray(at));
      at += this.#guides.machine.token(id).length;
      return open;
    });
    return undecided < 0 ? ids : ids.slice(0, undecided);
  }

  /** Tokens of bytes that follow other text. @param {Uint8Array} bytes @returns {number[]} */
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

  /** Tokens of bytes without special tokens. @param {Uint8Array} bytes @returns {number[]} */
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

  /** Whether the tokens spell these bytes. @param {number[]} ids @param {Uint8Array} bytes */
  #spells(ids, bytes) {
    let at = 0;
    return ids.every((id) => this.#guides.machine.token(id).every((byte) => byte === bytes[at++]));
  }

  /** Returns the matcher to the machine when the text has ended. */
  close() {
    this.#guides.machine.give(this.#matcher);
  }
}
