/** GBNF, the grammars of llama.cpp, as rules over bytes. */
import { refused } from './failure.js';
import { Rules } from './ir.js';
import { rangesOf, ALL, charsOf, complement, setOf, union } from './sets.js';
import { Writer } from './text.js';

/** @import { CodePoints } from './sets.js' */

const MOST_TIMES = 10000;
const DEEPEST = 200;
/** @type {Record<string, string>} */
const ESCAPES = { n: '\n', r: '\r', t: '\t', '\\': '\\', '"': '"', '[': '[', ']': ']', '-': '-', '^': '^' };

/** Without the mark of what was escaped. @param {string} c */
const plain = (c) => (c.length > 1 && c[0] === '\\' ? c.slice(1) : c);

class Reader {
  rules = new Rules();
  #writer = new Writer(this.rules);
  #text;
  #at = 0;
  #depth = 0;
  /** Rules by name, and where each was first spoken of. @type {Map<string, { rule: number, at: number, defined: boolean }>} */
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

  /** Blanks and comments. @param {boolean} lines  also ends of lines */
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
    const known = this.#names.get(name) ?? { rule: this.rules.rule(name), at: this.#at, defined: false };
    this.#names.set(name, known);
    return known;
  }

  read() {
    for (this.#space(true); this.#at < this.#text.length; this.#space(true)) {
      const name = this.#take(/[A-Za-z0-9_-]+/y);
      this.#space(true);
      if (!name || !this.#take(/::=/y)) throw this.#bad('should have a rule: name ::= …');
      const known = this.#named(name[0]);
      if (known.defined) throw this.#bad(`has the rule "${name[0]}" a second time`);
      known.defined = true;
      this.#space(true);
      this.#either(this.rules.start(known.rule), this.rules.state(true), false);
      this.#space(false);
      if (this.#at < this.#text.length && !this.#take(/\r?\n/y))
        throw this.#bad(`has something at "${this.#text.slice(this.#at, this.#at + 20)}" that is not understood`);
    }
    for (const [name, { defined, at }] of this.#names)
      if (!defined) throw refused(`line ${this.#line(at)} of the grammar speaks of "${name}", which is no rule`);
    const root = this.#names.get('root');
    if (!root) throw refused('the grammar has no rule "root"');
    return this.rules.encode(root.rule);
  }

  /** @param {number} from @param {number} to @param {boolean} inside  parentheses */
  #either(from, to, inside) {
    if (++this.#depth > DEEPEST) throw this.#bad('has groups too deep');
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

  /** One thing and how often it comes. @param {number} from @param {number} to @returns {boolean} */
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
    if (min > max || min > MOST_TIMES || (max < Infinity && max > MOST_TIMES))
      throw this.#bad(`repeats something ${found[0]} times: at most ${MOST_TIMES}`);
    return [min, max];
  }

  /** @param {number} from @param {number} to @returns {boolean}  whether there is one */
  #atom(from, to) {
    const name = this.#take(/[A-Za-z0-9_-]+(?!\s*::=)(?![A-Za-z0-9_-])/y);
    if (name) this.rules.call(from, this.#named(name[0]).rule, to);
    else if (this.#take(/"/y)) this.#literal(from, to);
    else if (this.#take(/\[/y)) this.#chars(from, this.#class(), to);
    else if (this.#take(/\./y)) this.#chars(from, ALL, to);
    else if (this.#take(/\(/y)) {
      this.#either(from, to, true);
      this.#space(true);
      if (!this.#take(/\)/y)) throw this.#bad('has an unmatched (');
    } else return false;
    return true;
  }

  /** @param {number} from @param {CodePoints} set @param {number} to */
  #chars(from, set, to) {
    for (const [low, high] of rangesOf(set)) this.#writer.range(from, low, high, to);
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
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) throw this.#bad(`has ${all}, which is no character`);
    return `\\${String.fromCodePoint(code)}`;
  }

  /** @returns {CodePoints} */
  #class() {
    const others = Boolean(this.#take(/\^/y));
    /** @type {CodePoints[]} */
    const sets = [];
    for (let c = this.#char(); c !== ']'; c = this.#char()) {
      const low = plain(c);
      if (!this.#take(/-(?!\])/y)) {
        sets.push(charsOf(low));
        continue;
      }
      const high = plain(this.#char());
      const range = /** @type {[number, number]} */ ([low.codePointAt(0), high.codePointAt(0)]);
      if (range[0] > range[1]) throw this.#bad('has a range of characters that ends before it begins');
      sets.push(setOf([range]));
    }
    const all = union(...sets);
    return others ? complement(all) : all;
  }
}

/** GRAMMAR: it is written wrongly, a rule is missing or begins with itself. @param {unknown} text @returns {Uint8Array<ArrayBuffer>} */
export function compileGbnf(text) {
  if (typeof text !== 'string') throw refused('a grammar must be a text, in GBNF');
  return new Reader(text).read();
}
