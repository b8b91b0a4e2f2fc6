/**
 * Parses regular expressions in the syntax of ECMAScript with the flag u. JSON Schema's `pattern` has the same syntax.
 */
import { charsOf, complement, intersect, TEXT, unite } from '../regex/sets.js';
import { CONTROLS, quantifierOf } from '../regex/syntax.js';
import { checkCharacters, grammarError } from './failure.js';

/** @import { CharSet } from '../regex/sets.js' */

/**
 * A tree whose assertions are `^` and `$`, the beginning and the end of the text, and lookaheads.
 * @typedef {import('../regex/nfa.js').Tree<Assertion>} Tree
 */
/** @typedef {'^' | '$' | Ahead} Assertion */
/**
 * A lookahead: the rest of the text begins with a match of the expression or, if `not`, does not.
 * @typedef {{ ahead: Tree, not: boolean }} Ahead
 */
/**
 * An expression without the lookaheads at its beginning, and these lookaheads.
 * @typedef {{ tree: Tree, lookaheads: Ahead[] }} Regex
 */

/** Returns the characters that are not in a set, without surrogates. @param {CharSet} set */
const others = (set) => intersect(complement(set), TEXT);

/** @type {CharSet} */
const DIGIT = [[48, 57]];
const WORD = unite([...DIGIT, ...charsOf('_'), [65, 90], [97, 122]]);
/** @type {CharSet} */
const SPACE = [
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
];
const NEWLINE = charsOf('\n\r\u2028\u2029');
/** Character classes by their escapes. @type {Record<string, CharSet>} */
const CLASSES = { d: DIGIT, w: WORD, s: SPACE, D: others(DIGIT), W: others(WORD), S: others(SPACE) };

/** Maximum depth of nested groups. */
const MAX_DEPTH = 200;
/** Maximum number of repetitions in a quantifier. */
const MAX_REPETITIONS = 10000;

/** Cache of the sets of `\p{…}`, by name. @type {Map<string, CharSet>} */
const properties = new Map();

/**
 * Returns the set of `\p{name}`, computed with the runtime's own RegExp. So it agrees with validators in the same
 * runtime, and pages need no Unicode tables.
 * @param {string} name @returns {CharSet}
 */
function propertySet(name) {
  const computed = properties.get(name);
  if (computed) return computed;
  let pattern;
  try {
    pattern = new RegExp(`^\\p{${name}}$`, 'u');
  } catch {
    throw grammarError(`the regular expression has \\p{${name}}, which is not a Unicode property`);
  }
  /** @type {CharSet} */
  const set = [];
  for (const [from, to] of TEXT)
    for (let c = from; c <= to; c++) {
      if (!pattern.test(String.fromCodePoint(c))) continue;
      const last = set.at(-1);
      if (last && last[1] === c - 1) last[1] = c;
      else set.push([c, c]);
    }
  properties.set(name, set);
  return set;
}

class Parser {
  #text;
  #at = 0;
  #depth = 0;

  /** @param {string} source @param {boolean} dotAll */
  constructor(source, dotAll) {
    this.#text = [...source];
    this.source = source;
    this.dot = dotAll ? TEXT : others(NEWLINE);
  }

  /** @param {string} problem */
  #error(problem) {
    return grammarError(`the regular expression /${this.source.slice(0, 80)}/ ${problem}`);
  }

  /** Skips a text if it is next. @param {string} text @returns {boolean}  whether it was next */
  #eat(text) {
    if (this.#text.slice(this.#at, this.#at + text.length).join('') !== text) return false;
    this.#at += text.length;
    return true;
  }

  /** Parses the complete expression. @returns {Tree} */
  parse() {
    const tree = this.#either();
    if (this.#at < this.#text.length) throw this.#error(`has an unmatched ${this.#text[this.#at]}`);
    return tree;
  }

  /** Parses a lookahead if one is next. @returns {Ahead | null} */
  #lookahead() {
    const not = this.#eat('(?!');
    if (!not && !this.#eat('(?=')) return null;
    const ahead = this.#either();
    if (!this.#eat(')')) throw this.#error('has an unmatched (');
    return { ahead, not };
  }

  /** @returns {Tree} */
  #either() {
    if (++this.#depth > MAX_DEPTH) throw this.#error(`has groups more than ${MAX_DEPTH} levels deep`);
    const any = [this.#sequence()];
    while (this.#eat('|')) any.push(this.#sequence());
    this.#depth--;
    return any.length > 1 ? { any } : any[0];
  }

  /** @returns {Tree} */
  #sequence() {
    /** @type {Tree[]} */
    const all = [];
    for (;;) {
      if (this.#at === this.#text.length || '|)'.includes(this.#text[this.#at])) break;
      const part = this.#repeated();
      const last = all.at(-1);
      // Repeated assertions are redundant. Omitting them keeps the list short.
      if ('assert' in part && last && 'assert' in last && last.assert === part.assert) continue;
      all.push(part);
    }
    return all.length === 1 ? all[0] : { all };
  }

  /** @returns {Tree} */
  #repeated() {
    const part = this.#atom();
    const quantifier = quantifierOf(this.#text.slice(this.#at, this.#at + 40).join(''));
    if (!quantifier) return part;
    const { min, max, length } = quantifier;
    this.#at += length;
    if ('assert' in part)
      throw this.#error(`has a quantifier after ${typeof part.assert === 'object' ? 'a lookahead' : part.assert}`);
    this.#eat('?'); // a lazy quantifier allows the same texts
    if (min > max) throw this.#error('has a quantifier whose minimum is above its maximum');
    if (Math.max(min, max === Infinity ? 0 : max) > MAX_REPETITIONS)
      throw this.#error(`has a quantifier of more than ${MAX_REPETITIONS} repetitions, which is not supported`);
    return { repeat: part, min, max };
  }

  /** @returns {Tree} */
  #atom() {
    const lookahead = this.#lookahead();
    if (lookahead) return { assert: lookahead };
    const c = this.#text[this.#at++];
    if (c === '^' || c === '$') return { assert: c };
    if (c === '.') return { set: this.dot };
    if (c === '[') return { set: this.#class() };
    if (c === '\\') return { set: this.#escape(false) };
    if (c === '(') return this.#group();
    // As without the flag u, an unmatched closing bracket is a character, and so is a { that begins no quantifier.
    const isQuantifier = c === '{' && /^\d*,?\d*\}/.test(this.#text.slice(this.#at, this.#at + 40).join(''));
    if ('*+?'.includes(c) || isQuantifier) throw this.#error(`has an unexpected ${c}`);
    return { set: charsOf(c) };
  }

  /** @returns {Tree} */
  #group() {
    if (this.#eat('?')) {
      for (const [begins, name] of [
        ['<=', 'a lookbehind (?<='],
        ['<!', 'a lookbehind (?<!'],
      ])
        if (this.#eat(begins)) throw this.#error(`has ${name}, which is not supported`);
      if (this.#eat('<')) while (this.#at < this.#text.length && this.#text[this.#at++] !== '>');
      else if (!this.#eat(':')) throw this.#error('has a group (? that is not supported');
    }
    const tree = this.#either();
    if (!this.#eat(')')) throw this.#error('has an unmatched (');
    return tree;
  }

  /** Parses an escape after its backslash. @param {boolean} inClass @returns {CharSet} */
  #escape(inClass) {
    const c = this.#text[this.#at++];
    if (c === undefined) throw this.#error('ends with a backslash');
    if (Object.hasOwn(CLASSES, c)) return CLASSES[c];
    if (Object.hasOwn(CONTROLS, c)) return charsOf(CONTROLS[c]);
    if (c === 'p' || c === 'P') {
      const found = /^\{([\w=]+)\}/.exec(this.#text.slice(this.#at, this.#at + 80).join(''));
      if (!found) throw this.#error(`has a \\${c} without {…}`);
      this.#at += found[0].length;
      const set = propertySet(found[1]);
      return c === 'p' ? set : others(set);
    }
    if (c === 'c' && /[A-Za-z]/.test(this.#text[this.#at] ?? ''))
      return charsOf(String.fromCharCode(this.#text[this.#at++].charCodeAt(0) % 32));
    if (c === 'x' || c === 'u') return charsOf(String.fromCodePoint(this.#hex(c)));
    if (inClass && c === 'b') return charsOf('\b');
    if (inClass && c === '-') return charsOf('-');
    if (/[A-Za-z0-9]/.test(c)) throw this.#error(`has \\${c}, which is not supported`);
    return charsOf(c);
  }

  /** Parses \x… or \u… after its letter, and returns the code point. @param {string} c @returns {number} */
  #hex(c) {
    const text = this.#text.slice(this.#at, this.#at + 16).join('');
    const found = (c === 'x' ? /^([\da-f]{2})/i : /^(?:([\da-f]{4})|\{([\da-f]{1,6})\})/i).exec(text);
    if (!found) throw this.#error(`has an incomplete \\${c}`);
    this.#at += found[0].length;
    let code = parseInt(found[1] ?? found[2], 16);
    const low = /^\\u(d[c-f][\da-f]{2})/i.exec(this.#text.slice(this.#at, this.#at + 6).join(''));
    if (code >= 0xd800 && code < 0xdc00 && low) {
      this.#at += 6;
      code = 0x10000 + ((code - 0xd800) << 10) + parseInt(low[1], 16) - 0xdc00;
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      throw this.#error(`has an escape \\${c} that is not a character`);
    return code;
  }

  /** Parses a class in brackets, after the opening bracket. @returns {CharSet} */
  #class() {
    const isNegated = this.#eat('^');
    /** @type {CharSet} */
    const ranges = [];
    while (!this.#eat(']')) {
      const set = this.#classChar();
      if (this.#text[this.#at] !== '-' || this.#text[this.#at + 1] === ']') {
        ranges.push(...set);
        continue;
      }
      this.#at++;
      const [first, last] = [set, this.#classChar()].map((chars) =>
        chars.length === 1 && chars[0][0] === chars[0][1] ? chars[0][0] : NaN,
      );
      if (!(first <= last)) throw this.#error('has a character range out of order, or one that ends with a class');
      ranges.push([first, last]);
    }
    const set = unite(ranges);
    return isNegated ? others(set) : intersect(set, TEXT);
  }

  /** @returns {CharSet} */
  #classChar() {
    const c = this.#text[this.#at++];
    if (c === undefined) throw this.#error('has an unmatched [');
    return c === '\\' ? this.#escape(true) : charsOf(c);
  }
}

/**
 * Separates the lookaheads at the beginning of an expression (a ^ may precede them) from its rest.
 * @param {Tree} tree @returns {Regex}
 */
function splitLookaheads(tree) {
  const parts = 'all' in tree ? tree.all : [tree];
  const isAssertion = (/** @type {Tree} */ part) => 'assert' in part && part.assert !== '$';
  const end = parts.findIndex((part) => !isAssertion(part));
  const [first, rest] = end < 0 ? [parts, []] : [parts.slice(0, end), parts.slice(end)];
  const lookaheads = first.flatMap((part) =>
    'assert' in part && typeof part.assert === 'object' ? [part.assert] : [],
  );
  if (!lookaheads.length) return { tree, lookaheads };
  const begins = first.some((part) => 'assert' in part && part.assert === '^');
  return { tree: { all: [...(begins ? [{ assert: /** @type {'^'} */ ('^') }] : []), ...rest] }, lookaheads };
}

/**
 * Parses an expression. Throws GRAMMAR if its syntax is invalid or a part of it is not supported.
 * @param {string} source @param {{ dotAll?: boolean }} [options] @returns {Regex}
 */
export function parseRegex(source, { dotAll = false } = {}) {
  checkCharacters('a regular expression', source);
  const parser = new Parser(source, dotAll);
  return splitLookaheads(parser.parse());
}
