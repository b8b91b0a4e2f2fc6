/**
 * Parses the regular expressions with which tokenizers split text: the parts of Oniguruma's and Rust's syntax that they
 * use. Parts that cannot become an automaton (back references, lookaheads of more than one character, lookbehinds) are
 * an error that names them.
 */
import { charsOf, complement, intersect, LAST, unite } from '../regex/sets.js';
import { CONTROLS, quantifierOf } from '../regex/syntax.js';
import { lowerCase, properties, property } from './unicode.js';
import { unsupported } from './section.js';

/** @import { Tree } from '../regex/nfa.js' @import { CharSet } from '../regex/sets.js' */

/**
 * An assertion: the next character is one of `look`, or, if `end`, the text ends here.
 * @typedef {{ look: CharSet, end: boolean }} Lookahead
 */
/** @typedef {Tree<Lookahead>} Node */

/** Maximum number of repetitions in a quantifier. */
const MAX_REPETITIONS = 1000;
/** Maximum length of an expression, in characters. */
const MAX_LENGTH = 20_000;
/** Escapes of control characters, including those that only Oniguruma has. @type {Record<string, string>} */
const ESCAPES = { ...CONTROLS, a: '\x07', e: '\x1b' };

const words = () => properties('L', 'M', 'Nd', 'Pc');
/** Character classes by their escapes, computed from Unicode's properties. @type {Record<string, () => CharSet>} */
const CLASSES = {
  s: () => properties('White_Space'),
  S: () => complement(properties('White_Space')),
  d: () => properties('Nd'),
  D: () => complement(properties('Nd')),
  w: words,
  W: () => complement(words()),
  h: () =>
    unite([
      [48, 57],
      [65, 70],
      [97, 102],
    ]),
};

/** Largest set to which the other case is added. Larger sets are properties, which already contain both cases. */
const MAX_FOLDED = 2000;

/** Adds the other case of all characters to a set. @param {CharSet} set @returns {CharSet} */
function anyCase(set) {
  if (set.reduce((n, [first, last]) => n + last - first + 1, 0) > MAX_FOLDED) return set;
  const lower = lowerCase();
  const fold = (/** @type {number} */ c) => (c === 0x17f ? 0x73 : (lower.get(c) ?? c));
  const folds = new Set(
    set.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, i) => fold(first + i))),
  );
  const others = [...lower.keys(), 0x17f].filter((c) => folds.has(fold(c)));
  return unite([...set, ...[...folds, ...others].map((c) => /** @type {[number, number]} */ ([c, c]))]);
}

class Reader {
  /** @param {string} source @param {boolean} rust  whether the syntax is Rust's (tiktoken) instead of Oniguruma's */
  constructor(source, rust) {
    this.source = source;
    this.chars = Array.from(source);
    this.at = 0;
    this.rust = rust;
    this.ignoreCase = false;
  }

  /** Creates the error for an unsupported part. @param {string} part @returns {Error} */
  refuse(part) {
    return unsupported(
      `the tokenizer splits text by the expression ${JSON.stringify(this.source)}, in which ${part} is not supported`,
      'supported are sets of characters, repetitions, alternatives, and lookaheads of one character',
    );
  }

  /** Skips a text if it is next. @param {string} text @returns {boolean}  whether it was next */
  take(text) {
    const isNext = this.chars.slice(this.at, this.at + text.length).join('') === text;
    if (isNext) this.at += text.length;
    return isNext;
  }

  next() {
    if (this.at >= this.chars.length) throw this.refuse('its unexpected end');
    return this.chars[this.at++];
  }

  /** @returns {Node} */
  alternatives() {
    const before = this.ignoreCase;
    const any = [this.sequence()];
    while (this.take('|')) any.push(this.sequence());
    this.ignoreCase = before;
    return any.length === 1 ? any[0] : { any };
  }

  /** @returns {Node} */
  sequence() {
    /** @type {Node[]} */
    const all = [];
    while (this.at < this.chars.length && !'|)'.includes(this.chars[this.at])) {
      const atom = this.atom();
      if (atom) all.push(this.repeated(atom));
    }
    return all.length === 1 ? all[0] : { all };
  }

  /** Parses the quantifiers after a node. @param {Node} node @returns {Node} */
  repeated(node) {
    for (;;) {
      const found = quantifierOf(this.chars.slice(this.at, this.at + 20).join(''));
      if (!found) return node;
      const { min, max, length } = found;
      this.at += length;
      if (min > MAX_REPETITIONS || (max !== Infinity && max > MAX_REPETITIONS) || min > max)
        throw this.refuse(`a repetition of ${min} to ${max} times`);
      if ('assert' in node) throw this.refuse('the repetition of an assertion');
      const lazy = this.take('?');
      const possessive = !lazy && (length === 1 || this.rust) && this.take('+');
      node = possessive ? this.possessive(node, min, max) : { repeat: node, min, max, lazy };
    }
  }

  /**
   * Returns a possessive repetition of a set, which does not backtrack: the next character must not be in the set.
   * @param {Node} node @param {number} min @param {number} max @returns {Node}
   */
  possessive(node, min, max) {
    if (!('set' in node)) throw this.refuse('a possessive quantifier of a group');
    const other = { assert: { look: complement(node.set), end: true } };
    /** @type {Node} */
    const unlimited = { all: [{ repeat: node, min, max }, other] };
    if (max === Infinity) return unlimited;
    return { any: [{ repeat: node, min: max, max }, unlimited] };
  }

  /** @returns {Node | undefined} */
  atom() {
    const c = this.next();
    if (c === '(') return this.group();
    if (c === '[') return this.set(this.brackets());
    if (c === '.') return { set: complement(charsOf('\n')) };
    if (c === '$') return { assert: { look: this.rust ? [] : charsOf('\n'), end: true } };
    if (c === '^' || '*+?'.includes(c)) throw this.refuse(`"${c}"`);
    if (c === '\\') {
      if (this.take('z')) return { assert: { look: [], end: true } };
      return this.set(this.escape());
    }
    return this.set(charsOf(c));
  }

  /** @param {CharSet} set @returns {Node} */
  set(set) {
    return { set: this.ignoreCase ? anyCase(set) : set };
  }

  /** @returns {Node | undefined} */
  group() {
    if (!this.take('?')) return this.close(this.alternatives());
    if (this.take(':')) return this.close(this.alternatives());
    const negative = this.take('!');
    if (negative || this.take('=')) {
      const inner = this.close(this.alternatives());
      if (!('set' in inner)) throw this.refuse('a lookahead of more than one character');
      return { assert: { look: negative ? complement(inner.set) : inner.set, end: negative } };
    }
    const before = this.ignoreCase;
    const [flags] = /^-?[ismux]*(?=[:)])/.exec(this.chars.slice(this.at, this.at + 8).join('')) ?? [];
    if (!flags || /[mx]/.test(flags)) throw this.refuse(`"(?${this.chars[this.at] ?? ''}"`);
    this.at += flags.length;
    this.ignoreCase = flags.startsWith('-') ? before && !flags.includes('i') : before || flags.includes('i');
    if (this.take(')')) return undefined; // the flags apply up to the end of the enclosing group
    this.at++;
    const inner = this.close(this.alternatives());
    this.ignoreCase = before;
    return inner;
  }

  /** @template T @param {T} node @returns {T} */
  close(node) {
    if (!this.take(')')) throw this.refuse('a group without ")"');
    return node;
  }

  /** Parses an escape after its backslash. @returns {CharSet} */
  escape() {
    const c = this.next();
    if (c === 'p' || c === 'P') return this.property(c === 'P');
    if (c === 'x' || c === 'u') return this.code(c);
    if (Object.hasOwn(CLASSES, c)) return CLASSES[c]();
    if (Object.hasOwn(ESCAPES, c)) return charsOf(ESCAPES[c]);
    if (/[A-Za-z0-9]/.test(c)) throw this.refuse(`"\\${c}"`);
    return charsOf(c);
  }

  /** @param {boolean} negative @returns {CharSet} */
  property(negative) {
    const short = this.next();
    let name = short;
    if (short === '{') for (name = ''; !this.take('}');) name += this.next();
    const not = name.startsWith('^');
    const set = property(not ? name.slice(1) : name);
    if (!set) throw this.refuse(`\\p{${name}}`);
    return negative !== not ? complement(set) : set;
  }

  /** @param {string} kind @returns {CharSet} */
  code(kind) {
    const text = this.chars.slice(this.at, this.at + 10).join('');
    const [all, digits] =
      /^\{([0-9A-Fa-f]{1,6})\}/.exec(text) ??
      (kind === 'x' ? /^([0-9A-Fa-f]{2})/ : /^([0-9A-Fa-f]{4})/).exec(text) ??
      [];
    const code = parseInt(digits ?? '', 16);
    if (!all || !(code <= LAST)) throw this.refuse(`"\\${kind}"`);
    this.at += all.length;
    return [[code, code]];
  }

  /** Parses a set after its opening bracket. @returns {CharSet} */
  brackets() {
    const negative = this.take('^');
    /** @type {CharSet} */
    let set = [];
    for (let first = true; !this.take(']') || first; first = false) {
      if (first && this.chars[this.at - 1] === ']') set = charsOf(']');
      else if (this.take('&&')) {
        this.at--;
        this.chars[this.at] = '[';
        this.at++;
        set = intersect(unite(set), this.brackets());
        break;
      } else set = [...set, ...this.member()];
    }
    return negative ? complement(unite(set)) : unite(set);
  }

  /** Parses one character, range or class in brackets. @returns {CharSet} */
  member() {
    const posix = /^\[:(\^?)(\w+):\]/.exec(this.chars.slice(this.at, this.at + 16).join(''));
    if (posix) throw this.refuse(posix[0]);
    if (this.take('[')) return this.brackets();
    const first = this.take('\\') ? this.escape() : charsOf(this.next());
    const isRange =
      this.chars[this.at] === '-' && this.chars[this.at + 1] !== ']' && this.chars[this.at + 1] !== undefined;
    if (!isRange || first.length !== 1 || first[0][0] !== first[0][1]) return first;
    this.at++;
    const last = this.take('\\') ? this.escape() : charsOf(this.next());
    if (last.length !== 1 || last[0][0] !== last[0][1] || last[0][0] < first[0][0])
      throw this.refuse('a character range out of order');
    return [[first[0][0], last[0][0]]];
  }
}

/**
 * Parses an expression. Throws UNSUPPORTED if a part of it is not supported.
 * @param {string} source
 * @param {{ rust?: boolean }} [options]  rust: whether the syntax is Rust's instead of Oniguruma's
 * @returns {Node}
 */
export function parseRegex(source, { rust = false } = {}) {
  if (source.length > MAX_LENGTH)
    throw unsupported(
      `the tokenizer splits text by an expression of ${source.length} characters; at most ${MAX_LENGTH} are supported`,
      'expressions of tokenizers are far shorter: the file may be damaged',
    );
  const reader = new Reader(source, rust);
  const node = reader.alternatives();
  if (reader.at < reader.chars.length) throw reader.refuse(`"${reader.chars[reader.at]}"`);
  return node;
}
