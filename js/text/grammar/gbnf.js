/** Compiles grammars in GBNF, the format of llama.cpp, to rules over bytes. */
import { charsOf, complement, intersect, TEXT, unite } from '../regex/sets.js';
import { checkCharacters, grammarError } from './failure.js';
import { Rules } from './ir.js';
import { Writer } from './text.js';

/** @import { CharSet } from '../regex/sets.js' */

/** Maximum number of repetitions in a quantifier. */
const MAX_REPETITIONS = 10000;
/** Maximum depth of nested groups. */
const MAX_DEPTH = 200;
/** @type {Record<string, string>} */
const ESCAPES = { n: '\n', r: '\r', t: '\t', '\\': '\\', '"': '"', '[': '[', ']': ']', '-': '-', '^': '^' };

/** Returns a result of #readChar without the backslash that marks escaped characters. @param {string} c */
const unmarked = (c) => (c.length > 1 && c[0] === '\\' ? c.slice(1) : c);

class Reader {
  rules = new Rules();
  #writer = new Writer(this.rules);
  #text;
  #at = 0;
  #depth = 0;
  /**
   * Rules by name, and the offset where each is first used or defined.
   * @type {Map<string, { rule: number, at: number, defined: boolean }>}
   */
  #names = new Map();

  /** @param {string} text */
  constructor(text) {
    this.#text = text;
  }

  #lineAt(at = this.#at) {
    return this.#text.slice(0, at).split('\n').length;
  }

  /** @param {string} problem */
  #errorAtLine(problem) {
    return grammarError(`line ${this.#lineAt()} of the grammar ${problem}`);
  }

  /** Skips blanks and comments. @param {boolean} lines  whether to skip line breaks, too */
  #skipSpace(lines) {
    const found = lines ? /(?:\s|#.*)*/y : /(?:[ \t]|#.*)*/y;
    found.lastIndex = this.#at;
    this.#at += found.exec(this.#text)?.[0].length ?? 0;
  }

  /**
   * Skips a match of a pattern at the current offset, and returns it, or null.
   * @param {RegExp} pattern  with the flag y
   */
  #take(pattern) {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found) this.#at += found[0].length;
    return found;
  }

  /** @param {string} name */
  #ruleNamed(name) {
    const entry = this.#names.get(name) ?? { rule: this.rules.rule(name), at: this.#at, defined: false };
    this.#names.set(name, entry);
    return entry;
  }

  read() {
    for (this.#skipSpace(true); this.#at < this.#text.length; this.#skipSpace(true)) {
      const name = this.#take(/[A-Za-z0-9_-]+/y);
      this.#skipSpace(true);
      if (!name || !this.#take(/::=/y)) throw this.#errorAtLine('is not a rule: expected name ::= …');
      const entry = this.#ruleNamed(name[0]);
      if (entry.defined) throw this.#errorAtLine(`defines the rule "${name[0]}" a second time`);
      entry.defined = true;
      this.#skipSpace(true);
      this.#readAlternatives(this.rules.start(entry.rule), this.rules.state(true), false);
      this.#skipSpace(false);
      if (this.#at < this.#text.length && !this.#take(/\r?\n/y))
        throw this.#errorAtLine(`has an unexpected "${this.#text.slice(this.#at, this.#at + 20)}"`);
    }
    for (const [name, { defined, at }] of this.#names)
      if (!defined) throw grammarError(`line ${this.#lineAt(at)} of the grammar uses the undefined rule "${name}"`);
    const root = this.#names.get('root');
    if (!root) throw grammarError('the grammar has no rule "root"');
    return this.rules.encode(root.rule);
  }

  /** @param {number} from @param {number} to @param {boolean} isGroup  whether they are in parentheses */
  #readAlternatives(from, to, isGroup) {
    if (++this.#depth > MAX_DEPTH) throw this.#errorAtLine(`has groups more than ${MAX_DEPTH} levels deep`);
    do {
      this.#skipSpace(true);
      this.#readSequence(from, to, isGroup);
    } while (this.#take(/\|/y));
    this.#depth--;
  }

  /** @param {number} from @param {number} to @param {boolean} isGroup */
  #readSequence(from, to, isGroup) {
    let at = from;
    for (;;) {
      this.#skipSpace(isGroup);
      const next = this.rules.state();
      if (!this.#readRepeatedItem(at, next)) break;
      at = next;
    }
    this.rules.skip(at, to);
  }

  /**
   * Reads one item with its quantifier.
   * @param {number} from @param {number} to @returns {boolean}  whether there is one
   */
  #readRepeatedItem(from, to) {
    const begin = this.rules.state();
    const end = this.rules.state(true);
    if (!this.#readItem(begin, end)) return false;
    this.#skipSpace(false);
    const times = this.#readQuantifier();
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
  #readQuantifier() {
    const found = this.#take(/[*+?]|\{\s*(\d+)\s*(?:(,)\s*(\d*)\s*)?\}/y);
    if (!found) return null;
    if (found[0] === '*') return [0, Infinity];
    if (found[0] === '+') return [1, Infinity];
    if (found[0] === '?') return [0, 1];
    const min = Number(found[1]);
    const max = found[2] ? (found[3] ? Number(found[3]) : Infinity) : min;
    if (min > max) throw this.#errorAtLine(`has the quantifier ${found[0]}, whose minimum is above its maximum`);
    if (min > MAX_REPETITIONS || (max < Infinity && max > MAX_REPETITIONS))
      throw this.#errorAtLine(`has the quantifier ${found[0]}; at most ${MAX_REPETITIONS} repetitions are supported`);
    return [min, max];
  }

  /** @param {number} from @param {number} to @returns {boolean}  whether there is one */
  #readItem(from, to) {
    const name = this.#take(/[A-Za-z0-9_-]+(?!\s*::=)(?![A-Za-z0-9_-])/y);
    if (name) this.rules.call(from, this.#ruleNamed(name[0]).rule, to);
    else if (this.#take(/"/y)) this.#readLiteral(from, to);
    else if (this.#take(/\[/y)) this.#addChars(from, this.#readClass(), to);
    else if (this.#take(/\./y)) this.#addChars(from, TEXT, to);
    else if (this.#take(/\(/y)) {
      this.#readAlternatives(from, to, true);
      this.#skipSpace(true);
      if (!this.#take(/\)/y)) throw this.#errorAtLine('has an unmatched (');
    } else return false;
    return true;
  }

  /** @param {number} from @param {CharSet} set @param {number} to */
  #addChars(from, set, to) {
    for (const [low, high] of set) this.#writer.range(from, low, high, to);
  }

  /** @param {number} from @param {number} to */
  #readLiteral(from, to) {
    let text = '';
    for (let c = this.#readChar(); c !== '"'; c = this.#readChar()) text += unmarked(c);
    this.rules.literal(from, text, to);
  }

  /** Reads the next character. An escaped character is returned with a backslash before it. */
  #readChar() {
    const found = this.#take(/\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([nrt\\"[\]^-]))|[^\\\n]/uy);
    if (!found) throw this.#errorAtLine('ends inside quotes or brackets, or has an unknown escape');
    const [all, x, u, U, short] = found;
    if (all[0] !== '\\') return all;
    if (short) return `\\${ESCAPES[short]}`;
    const code = parseInt(x ?? u ?? U, 16);
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      throw this.#errorAtLine(`has the escape ${all}, which is not a character`);
    return `\\${String.fromCodePoint(code)}`;
  }

  /** @returns {CharSet} */
  #readClass() {
    const isNegated = Boolean(this.#take(/\^/y));
    /** @type {CharSet} */
    const ranges = [];
    for (let c = this.#readChar(); c !== ']'; c = this.#readChar()) {
      const low = unmarked(c);
      if (!this.#take(/-(?!\])/y)) {
        ranges.push(...charsOf(low));
        continue;
      }
      const high = unmarked(this.#readChar());
      const range = /** @type {[number, number]} */ ([low.codePointAt(0), high.codePointAt(0)]);
      if (range[0] > range[1]) throw this.#errorAtLine('has a character range out of order');
      ranges.push(range);
    }
    const set = unite(ranges);
    return intersect(isNegated ? complement(set) : set, TEXT);
  }
}

/**
 * Compiles a grammar to the rules that C reads. Throws GRAMMAR if its syntax is invalid, or if a rule is missing or
 * begins with itself.
 * @param {unknown} text @returns {Uint8Array<ArrayBuffer>}
 */
export function compileGbnf(text) {
  if (typeof text !== 'string') throw grammarError('a grammar must be a string, in GBNF');
  checkCharacters('the grammar', text);
  return new Reader(text).read();
}
