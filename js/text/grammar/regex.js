/** Regular expressions as ECMAScript writes them with the flag u (and as JSON Schema's `pattern`), as trees. */
import { refused } from './failure.js';
import { ALL, charsOf, complement, rangesOf, setOf, union, unionOf } from './sets.js';

/** @import { CodePoints } from './sets.js' */

/**
 * `chars`: one character of a set; `^` and `$`: nothing, at the begin or the end of the text.
 * @typedef {{ kind: 'chars', set: CodePoints } | { kind: 'and' | 'or', parts: Tree[] } | { kind: 'repeat', part: Tree, min: number, max: number } | { kind: '^' | '$' }} Tree
 */

const DIGIT = setOf([[48, 57]]);
const WORD = union(
  DIGIT,
  charsOf('_'),
  setOf([
    [65, 90],
    [97, 122],
  ]),
);
const SPACE = setOf([
  [9, 13],
  [32, 32],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
]);
const NEWLINE = charsOf('\n\r\u2028\u2029');
/** @type {Record<string, CodePoints>} */
const CLASSES = { d: DIGIT, w: WORD, s: SPACE, D: complement(DIGIT), W: complement(WORD), S: complement(SPACE) };
/** @type {Record<string, string>} */
const CONTROLS = { n: '\n', r: '\r', t: '\t', f: '\f', v: '\v', 0: '\0' };

/** Nesting of groups, and times of one repetition. */
const DEEPEST = 200;
const MOST_TIMES = 10000;

/** Sets of \p{…} as they were asked for. @type {Map<string, CodePoints>} */
const properties = new Map();

/** @param {string} name  of \p{name} @returns {CodePoints} */
function propertySet(name) {
  const known = properties.get(name);
  if (known) return known;
  let is;
  try {
    is = new RegExp(`^\\p{${name}}$`, 'u');
  } catch {
    throw refused(`the regular expression's \\p{${name}} is no Unicode property`);
  }
  /** @type {[number, number][]} */
  const ranges = [];
  for (const [from, to] of rangesOf(ALL))
    for (let c = from; c <= to; c++) {
      if (!is.test(String.fromCodePoint(c))) continue;
      const last = ranges.at(-1);
      if (last && last[1] === c - 1) last[1] = c;
      else ranges.push([c, c]);
    }
  const set = setOf(ranges);
  properties.set(name, set);
  return set;
}

/** What a text must begin with, or must not. @typedef {{ tree: Tree, not: boolean }} Ahead */

class Parser {
  #text;
  #at = 0;
  #depth = 0;
  /** @type {Ahead[]} */
  ahead = [];

  /** @param {string} source @param {boolean} dotAll */
  constructor(source, dotAll) {
    this.#text = [...source];
    this.source = source;
    this.dot = dotAll ? ALL : complement(NEWLINE);
  }

  /** @param {string} what */
  #bad(what) {
    return refused(`the regular expression /${this.source.slice(0, 80)}/ ${what}`);
  }

  /** @param {string} text @returns {boolean} */
  #eat(text) {
    if (this.#text.slice(this.#at, this.#at + text.length).join('') !== text) return false;
    this.#at += text.length;
    return true;
  }

  /** @returns {Tree} */
  whole() {
    const tree = this.#either();
    if (this.#at < this.#text.length) throw this.#bad(`has an unmatched ${this.#text[this.#at]}`);
    if (this.ahead.length && tree.kind === 'or')
      throw this.#bad('has a lookahead in one of several alternatives, which is not supported');
    return tree;
  }

  /**
   * Lookaheads where the whole text begins: what is asked of it beside the rest.
   * @param {Tree[]} parts  what the sequence has so far
   */
  #lookaheads(parts) {
    if (this.#depth > 1 || parts.some(({ kind }) => kind !== '^')) return;
    for (let not = this.#eat('(?!'); not || this.#eat('(?='); not = this.#eat('(?!')) {
      this.ahead.push({ tree: this.#either(), not });
      if (!this.#eat(')')) throw this.#bad('has an unmatched (');
    }
  }

  /** @returns {Tree} */
  #either() {
    if (++this.#depth > DEEPEST) throw this.#bad('has groups too deep');
    const parts = [this.#sequence()];
    while (this.#eat('|')) parts.push(this.#sequence());
    this.#depth--;
    return parts.length > 1 ? { kind: 'or', parts } : parts[0];
  }

  /** @returns {Tree} */
  #sequence() {
    /** @type {Tree[]} */
    const parts = [];
    for (;;) {
      this.#lookaheads(parts);
      if (this.#at === this.#text.length || '|)'.includes(this.#text[this.#at])) break;
      const part = this.#repeated();
      // The same place twice is that place: the list stays short.
      if ((part.kind === '^' || part.kind === '$') && parts.at(-1)?.kind === part.kind) continue;
      parts.push(part);
    }
    return parts.length === 1 ? parts[0] : { kind: 'and', parts };
  }

  /** @returns {Tree} */
  #repeated() {
    const part = this.#atom();
    const times = this.#times();
    if (!times) return part;
    if (part.kind === '^' || part.kind === '$') throw this.#bad(`repeats a ${part.kind}`);
    this.#eat('?'); // lazy or greedy, the texts are the same
    const { min, max } = times;
    if (min > max) throw this.#bad('repeats at least more often than at most');
    if (Math.max(min, max === Infinity ? 0 : max) > MOST_TIMES)
      throw this.#bad(`repeats something more than ${MOST_TIMES} times`);
    return { kind: 'repeat', part, min, max };
  }

  #times() {
    if (this.#eat('*')) return { min: 0, max: Infinity };
    if (this.#eat('+')) return { min: 1, max: Infinity };
    if (this.#eat('?')) return { min: 0, max: 1 };
    if (this.#text[this.#at] !== '{') return null;
    const found = /^\{(\d+)(?:(,)(\d*))?\}/.exec(this.#text.slice(this.#at, this.#at + 40).join(''));
    if (!found) throw this.#bad('has a { that begins no repetition');
    this.#at += found[0].length;
    const min = Number(found[1]);
    return { min, max: found[2] ? (found[3] ? Number(found[3]) : Infinity) : min };
  }

  /** @returns {Tree} */
  #atom() {
    const c = this.#text[this.#at++];
    if (c === '^' || c === '$') return { kind: c };
    if (c === '.') return { kind: 'chars', set: this.dot };
    if (c === '[') return { kind: 'chars', set: this.#class() };
    if (c === '\\') return { kind: 'chars', set: this.#escape(false) };
    if (c === '(') return this.#group();
    if ('*+?{}]'.includes(c)) throw this.#bad(`has a ${c} where nothing is repeated`);
    return { kind: 'chars', set: charsOf(c) };
  }

  /** @returns {Tree} */
  #group() {
    if (this.#eat('?')) {
      for (const [begins, name] of [
        ['=', 'a lookahead (?='],
        ['!', 'a lookahead (?!'],
        ['<=', 'a lookbehind (?<='],
        ['<!', 'a lookbehind (?<!'],
      ])
        if (this.#eat(begins)) throw this.#bad(`has ${name}, which is not supported`);
      if (this.#eat('<')) while (this.#at < this.#text.length && this.#text[this.#at++] !== '>');
      else if (!this.#eat(':')) throw this.#bad('has a group (? that is not supported');
    }
    const tree = this.#either();
    if (!this.#eat(')')) throw this.#bad('has an unmatched (');
    return tree;
  }

  /** Behind a backslash. @param {boolean} inClass @returns {CodePoints} */
  #escape(inClass) {
    const c = this.#text[this.#at++];
    if (c === undefined) throw this.#bad('ends with a backslash');
    if (Object.hasOwn(CLASSES, c)) return CLASSES[c];
    if (Object.hasOwn(CONTROLS, c)) return charsOf(CONTROLS[c]);
    if (c === 'p' || c === 'P') {
      const found = /^\{([\w=]+)\}/.exec(this.#text.slice(this.#at, this.#at + 80).join(''));
      if (!found) throw this.#bad(`has a \\${c} without {…}`);
      this.#at += found[0].length;
      const set = propertySet(found[1]);
      return c === 'p' ? set : complement(set);
    }
    if (c === 'c' && /[A-Za-z]/.test(this.#text[this.#at] ?? ''))
      return charsOf(String.fromCharCode(this.#text[this.#at++].charCodeAt(0) % 32));
    if (c === 'x' || c === 'u') return charsOf(String.fromCodePoint(this.#hex(c)));
    if (inClass && c === 'b') return charsOf('\b');
    if (inClass && c === '-') return charsOf('-');
    if (/[A-Za-z0-9]/.test(c)) throw this.#bad(`has \\${c}, which is not supported`);
    return charsOf(c);
  }

  /** @param {string} c @returns {number} */
  #hex(c) {
    const rest = this.#text.slice(this.#at, this.#at + 16).join('');
    const found = (c === 'x' ? /^([\da-f]{2})/i : /^(?:([\da-f]{4})|\{([\da-f]{1,6})\})/i).exec(rest);
    if (!found) throw this.#bad(`has an incomplete \\${c}`);
    this.#at += found[0].length;
    let code = parseInt(found[1] ?? found[2], 16);
    const low = /^\\u(d[c-f][\da-f]{2})/i.exec(this.#text.slice(this.#at, this.#at + 6).join(''));
    if (code >= 0xd800 && code < 0xdc00 && low) {
      this.#at += 6;
      code = 0x10000 + ((code - 0xd800) << 10) + parseInt(low[1], 16) - 0xdc00;
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) throw this.#bad(`has \\${c} of no character`);
    return code;
  }

  /** @returns {CodePoints} */
  #class() {
    const others = this.#eat('^');
    /** @type {CodePoints[]} */
    const sets = [];
    while (!this.#eat(']')) {
      const set = this.#classChar();
      if (this.#text[this.#at] !== '-' || this.#text[this.#at + 1] === ']') {
        sets.push(set);
        continue;
      }
      this.#at++;
      const end = this.#classChar();
      if (set.length !== 2 || set[0] !== set[1] || end.length !== 2 || end[0] !== end[1] || end[0] < set[0])
        throw this.#bad('has an invalid range: expected two characters in ascending order around a hyphen');
      sets.push([set[0], end[0]]);
    }
    const all = unionOf(sets);
    return others ? complement(all) : all;
  }

  /** @returns {CodePoints} */
  #classChar() {
    const c = this.#text[this.#at++];
    if (c === undefined) throw this.#bad('has an unmatched [');
    return c === '\\' ? this.#escape(true) : charsOf(c);
  }
}

/**
 * An expression, and the lookaheads that it begins with. GRAMMAR: it is written wrongly, or has what is not supported.
 * @param {string} source @param {{ dotAll?: boolean }} [options] @returns {{ tree: Tree, ahead: Ahead[] }}
 */
export function parseRegex(source, { dotAll = false } = {}) {
  const parser = new Parser(source, dotAll);
  return { tree: parser.whole(), ahead: parser.ahead };
}
