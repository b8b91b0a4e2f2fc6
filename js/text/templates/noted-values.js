/** Parses arguments of calls in a notation of grammar/notations.js: exactly the texts that its grammar allows. */

import { exactNumber } from '../../shared/exact-json.js';

/** @import { Members, Notation, Quote } from '../grammar/notations.js' */

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
/** A character between quotes. Its escapes are those that JSON and Python have in common, and some others of Python. */
const CHARACTER =
  /\\(?:x(?<byte>[\da-fA-F]{2})|u(?<unit>(?![dD][89a-fA-F])[\da-fA-F]{4})|(?<letter>[\\'"abfnrtv]))|[^\\\p{Cc}]|[\x7f-\x9f]/uy;
const LETTERS = new Map(Object.entries({ a: '\x07', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' }));

class Reader {
  #at = 0;
  #text;
  #notation;

  /** @param {string} text @param {Notation} notation */
  constructor(text, notation) {
    this.#text = text;
    this.#notation = notation;
  }

  /** Skips a part if it is next. @param {string} part @returns {boolean}  whether it was next */
  #skip(part) {
    const found = this.#text.startsWith(part, this.#at);
    if (found) this.#at += part.length;
    return found;
  }

  /** @param {string} part */
  #expect(part) {
    if (!this.#skip(part)) throw new SyntaxError(`expected ${part} at ${this.#at}`);
  }

  /** @param {RegExp} pattern  with the flag y @returns {RegExpExecArray | null} */
  #match(pattern) {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found) this.#at += found[0].length;
    return found;
  }

  /**
   * Reads a string in a kind of quotes. Returns null if none begins here.
   * @param {Quote} quote @returns {string | null}
   */
  #quoted({ open, close, escaped, pattern }) {
    if (!this.#skip(open)) return null;
    if (escaped) return this.#escaped(escaped);
    if (!close) return this.#match(new RegExp(pattern ?? '', 'uy'))?.[0] ?? null;
    const end = this.#text.indexOf(close, this.#at);
    if (end < 0) throw new SyntaxError('a string without an end');
    const text = this.#text.slice(this.#at, end);
    this.#at = end + close.length;
    return text;
  }

  /** Reads a string with escapes after its opening quote. @param {string} end  the closing quote */
  #escaped(end) {
    let text = '';
    while (!this.#skip(end)) {
      const found = this.#match(CHARACTER);
      if (!found) throw new SyntaxError(`a wrong character at ${this.#at}`);
      const { byte, unit, letter } = found.groups ?? {};
      const code = byte ?? unit;
      text += code ? String.fromCharCode(parseInt(code, 16)) : letter ? (LETTERS.get(letter) ?? letter) : found[0];
    }
    return text;
  }

  /** @param {Quote[]} quotes @returns {string | null} */
  #anyQuoted(quotes) {
    for (const quote of quotes) {
      const text = this.#quoted(quote);
      if (text !== null) return text;
    }
    return null;
  }

  /** Reads items up to a closing mark. @param {string} close  '': the end of the text @param {() => void} readItem */
  #items(close, readItem) {
    const ends = () => (close ? this.#skip(close) : this.#at === this.#text.length);
    if (ends()) return;
    for (readItem(); !ends(); readItem()) this.#expect(this.#notation.comma);
  }

  /** Reads the members of an object after its opening mark. @param {Members} members */
  #members({ close, names, colon }) {
    /** @type {[string, any][]} */
    const entries = [];
    this.#items(close, () => {
      const name = this.#anyQuoted(names);
      if (name === null) throw new SyntaxError(`expected a name at ${this.#at}`);
      this.#expect(colon);
      entries.push([name, this.#value()]);
    });
    return Object.fromEntries(entries);
  }

  /** @returns {any} */
  #value() {
    const { quotes, object, words } = this.#notation;
    const text = this.#anyQuoted(quotes);
    if (text !== null) return text;
    if (this.#skip(object.open)) return this.#members(object);
    if (this.#skip('[')) {
      /** @type {any[]} */
      const list = [];
      this.#items(']', () => void list.push(this.#value()));
      return list;
    }
    for (const [word, spellings] of words) if (spellings.some((spelling) => this.#skip(spelling))) return word;
    const number = this.#match(NUMBER);
    if (!number) throw new SyntaxError(`expected a value at ${this.#at}`);
    return exactNumber(number[0]);
  }

  /** @returns {Record<string, any>} */
  arguments() {
    const { root } = this.#notation;
    this.#expect(root.open);
    const found = this.#members(root);
    if (this.#at < this.#text.length) throw new SyntaxError(`expected the end at ${this.#at}`);
    return found;
  }
}

/**
 * Parses the arguments of a call. Throws SyntaxError if the text is not in the notation.
 * @param {string} text @param {Notation} notation @returns {Record<string, any>}
 */
export const readArguments = (text, notation) => new Reader(text, notation).arguments();
