/** Compiles grammars in GBNF, the format of llama.cpp, to rules over bytes. */
import { charsOf, complement, intersect, TEXT, unite } from '../regex/sets.js';
import { refused } from './failure.js';
import { Rules } from './ir.js';
import { Writer } from './text.js';

/** @import { CharSet } from '../regex/sets.js' */

/** Maximum number of repetitions in a quantifier, and depth of groups. */
const MAX_REPETITIONS = 10000;
const MAX_DEPTH = 200;
/** @type {Record<string, string>} */
const ESCAPES = { n: '\n', r: '\r', t: '\t', '\\': '\\', '"': '"', '[': '[', ']': ']', '-': '-', '^': '^' };

/** A character of #char without the backslash that marks escaped ones. @param {string} c */
const plain = (c) => (c.length > 1 && c[0] === '\\' ? c.slice(1) : c);

class Reader {
  rules = new Rules();
  #writer = new Writer(this.rules);
  #text;
  #at = 0;
  #depth = 0;
  /** Rules by name, and the offset where each is first used or defined. @type {Map<string, { rule: number, at: number, defined: boolean }>} */
  #names = new Map();

  /** @param {string} text */
  constructor(text) {
    this.#text = text;
  }

  #line(at = this.#at) {
    return this.#text.slice(0, at).split('\n').length;
  }

  /** @param {string} what */
  #bad(what) {
    return refused(`line ${this.#line()} of the grammar ${what}`);
  }

  /** Skips blanks and comments. @param {boolean} lines  and line breaks */
  #space(lines) {
    const found = lines ? /(?:\s|#.*)*/y : /(?:[ \t]|#.*)*/y;
    found.lastIndex = this.#at;
    this.#at += found.exec(this.#text)?.[0].length ?? 0;
  }

  /** @param {RegExp} pattern  sticky */
  #take(pattern) {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found) this.#at += found[0].length;
    return found;
  }

  /** @param {string} name */
  #named(name) {
    const entry = this.#names.get(name) ?? { rule: this.rules.rule(name), at: this.#at, defined: false };
    this.#names.set(name, entry);
    return entry;
  }

  read() {
    for (this.#space(true); this.#at < this.#text.length; this.#space(true)) {
      const name = this.#take(/[A-Za-z0-9_-]+/y);
      this.#space(true);
      if (!name || !this.#take(/::=/y)) throw this.#bad('is not a rule: expected name ::= …');
      const entry = this.#named(name[0]);
      if (entry.defined) throw this.#bad(`defines the rule "${name[0]}" a second time`);
      entry.defined = true;
      this.#space(true);
      this.#either(this.rules.start(entry.rule), this.rules.state(true), false);
      this.#space(false);
      if (this.#at < this.#text.length && !this.#take(/\r?\n/y))
        throw this.#bad(`has an unexpected "${this.#text.slice(this.#at, this.#at + 20)}"`);
    }
    for (const [name, { defined, at }] of this.#names)
      if (!defined) throw refused(`line ${this.#line(at)} of the grammar uses the undefined rule "${name}"`);
    const root = this.#names.get('root');
    if (!root) throw refused('the grammar has no rule "root"');
    return this.rules.encode(root.rule);
  }

  /** @param {number} from @param {number} to @param {boolean} inside  whether it is in parentheses */
  #either(from, to, inside) {
    if (++this.#depth > MAX_DEPTH) throw this.#bad(`has groups more than ${MAX_DEPTH} levels deep`);
    do {
      this.#space(true);
      this.#sequence(from, to, inside);
    } while (this.#take(/\|/y));
    this.#depth--;
  }

  /** @param {number} from @param {number} to @param {boolean} inside */
  #sequence(from, to, inside) {
    let at = from;
    for (;;) {
      this.#space(inside);
      const next = this.rules.state();
      if (!this.#repeated(at, next)) break;
      at = next;
    }
    this.rules.skip(at, to);
  }

  /** One item with its quantifier. @param {number} from @param {number} to @returns {boolean}  whether there is one */
  #repeated(from, to) {
    const begin = this.rules.state();
    const end = this.rules.state(true);
    if (!this.#atom(begin, end)) return false;
    this.#space(false);
    const times = this.#times();
    if (!times) {
      this.rules.skip(from, begin);
      this.rules.skip(end, to);
      this.rules.end(end, false);
      return true;
    }
    const rule = this.rules.rules.push({ start: begin, plain: false, name: 'a repetition' }) - 1;
    this.rules.call(from, rule, to, ...times);
    return true;
  }

  /** @returns {[number, number] | null} */
  #times() {
    const found = this.#take(/[*+?]|\{\s*(\d+)\s*(?:(,)\s*(\d*)\s*)?\}/y);
    if (!found) return null;
    if (found[0] === '*') return [0, Infinity];
    if (found[0] === '+') return [1, Infinity];
    if (found[0] === '?') return [0, 1];
    const min = Number(found[1]);
    const max = found[2] ? (found[3] ? Number(found[3]) : Infinity) : min;
    if (min > max) throw this.#bad(`has the quantifier ${found[0]}, whose minimum is above its maximum`);
    if (min > MAX_REPETITIONS || (max < Infinity && max > MAX_REPETITIONS))
      throw this.#bad(`has the quantifier ${found[0]}; at most ${MAX_REPETITIONS} repetitions are supported`);
    return [min, max];
  }

  /** @param {number} from @param {number} to @returns {boolean}  whether there is one */
  #atom(from, to) {
    const name = this.#take(/[A-Za-z0-9_-]+(?!\s*::=)(?![A-Za-z0-9_-])/y);
    if (name) this.rules.call(from, this.#named(name[0]).rule, to);
    else if (this.#take(/"/y)) this.#literal(from, to);
    else if (this.#take(/\[/y)) this.#chars(from, this.#class(), to);
    else if (this.#take(/\./y)) this.#chars(from, TEXT, to);
    else if (this.#take(/\(/y)) {
      this.#either(from, to, true);
      this.#space(true);
      if (!this.#take(/\)/y)) throw this.#bad('has an unmatched (');
    } else return false;
    return true;
  }

  /** @param {number} from @param {CharSet} set @param {number} to */
  #chars(from, set, to) {
    for (const [low, high] of set) this.#writer.range(from, low, high, to);
  }

  /** @param {number} from @param {number} to */
  #literal(from, to) {
    let text = '';
    for (let c = this.#char(); c !== '"'; c = this.#char()) text += plain(c);
    this.rules.literal(from, text, to);
  }

  /** The next character; an escaped one has a mark before it. */
  #char() {
    const found = this.#take(/\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([nrt\\"[\]^-]))|[^\\\n]/uy);
    if (!found) throw this.#bad('ends inside quotes or brackets, or has an unknown escape');
    const [all, x, u, U, short] = found;
    if (all[0] !== '\\') return all;
    if (short) return `\\${ESCAPES[short]}`;
    const code = parseInt(x ?? u ?? U, 16);
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      throw this.#bad(`has the escape ${all}, which is not a character`);
    return `\\${String.fromCodePoint(code)}`;
  }

  /** @returns {CharSet} */
  #class() {
    const isNegated = Boolean(this.#take(/\^/y));
    /** @type {CharSet} */
    const ranges = [];
    for (let c = this.#char(); c !== ']'; c = this.#char()) {
      const low = plain(c);
      if (!this.#take(/-(?!\])/y)) {
        ranges.push(...charsOf(low));
        continue;
      }
      const high = plain(this.#char());
      const range = /** @type {[number, number]} */ ([low.codePointAt(0), high.codePointAt(0)]);
      if (range[0] > range[1]) throw this.#bad('has a character range out of order');
      ranges.push(range);
    }
    const set = unite(ranges);
    return isNegated ? intersect(complement(set), TEXT) : set;
  }
}

/** The rules of a grammar, as C reads them. GRAMMAR: its syntax is wrong, a rule is missing or begins with itself. @param {unknown} text @returns {Uint8Array<ArrayBuffer>} */
export function compileGbnf(text) {
  if (typeof text !== 'string') throw refused('a grammar must be a text, in GBNF');
  return new Reader(text).read();
}
