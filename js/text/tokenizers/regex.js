/**
 * Reads the regular expressions by which tokenizers cut text: what they use of Oniguruma's and Rust's, as a tree over sets
 * of characters. What can't become an automaton (references, looking far ahead or back) is refused by name.
 */
import { complement, intersect, LAST, lowerCase, properties, property, unite } from './unicode.js';
import { unsupported } from './section.js';

/** @typedef {import('./unicode.js').CharSet} CharSet */
/**
 * A set: one of these characters. look: what follows is one of the set, or, where `end` says so, nothing.
 * @typedef {{ set: CharSet } | { look: CharSet, end: boolean } | { all: Node[] } | { any: Node[] }
 *   | { repeat: Node, min: number, max: number, lazy: boolean }} Node
 */

const MOST = 1000;
/** @type {Record<string, string>} */
const CONTROLS = { n: '\n', r: '\r', t: '\t', f: '\f', v: '\v', a: '\x07', e: '\x1b', 0: '\0' };

const words = () => properties('L', 'M', 'Nd', 'Pc');
/** @type {Record<string, () => CharSet>} */
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

/** @param {string} text @returns {CharSet} */
export const setOf = (text) =>
  unite(
    Array.from(text, (c) => {
      const code = /** @type {number} */ (c.codePointAt(0));
      return /** @type {[number, number]} */ ([code, code]);
    }),
  );

/** The set with the other cases of its characters, where it is small enough to have been written out. @param {CharSet} set @returns {CharSet} */
function anyCase(set) {
  if (set.reduce((n, [first, last]) => n + last - first + 1, 0) > 2000) return set;
  const lower = lowerCase();
  const fold = (/** @type {number} */ c) => (c === 0x17f ? 0x73 : (lower.get(c) ?? c));
  const folds = new Set(
    set.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, i) => fold(first + i))),
  );
  const others = [...lower.keys(), 0x17f].filter((c) => folds.has(fold(c)));
  return unite([...set, ...[...folds, ...others].map((c) => /** @type {[number, number]} */ ([c, c]))]);
}

class Reader {
  /** @param {string} source @param {boolean} rust  whose rules: Rust's (tiktoken), or Oniguruma's */
  constructor(source, rust) {
    this.source = source;
    this.chars = Array.from(source);
    this.at = 0;
    this.rust = rust;
    this.ignoreCase = false;
  }

  /** @param {string} what @returns {Error} */
  refuse(what) {
    return unsupported(
      `the tokenizer cuts text by ${JSON.stringify(this.source)}, of which ${what} can't be used`,
      'sets of characters, their repetition, alternatives, and looking at the one character that follows',
    );
  }

  /** @param {string} text */
  take(text) {
    const found = this.chars.slice(this.at, this.at + text.length).join('') === text;
    if (found) this.at += text.length;
    return found;
  }

  next() {
    if (this.at >= this.chars.length) throw this.refuse('its end');
    return this.chars[this.at++];
  }

  /** @returns {Node} */
  alternatives() {
    const was = this.ignoreCase;
    const any = [this.sequence()];
    while (this.take('|')) any.push(this.sequence());
    this.ignoreCase = was;
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

  /** @param {Node} node @returns {Node} */
  repeated(node) {
    for (;;) {
      const bounds = this.bounds();
      if (!bounds) return node;
      const [min, max, braces] = bounds;
      if (min > MOST || (max !== Infinity && max > MOST) || min > max)
        throw this.refuse(`a repetition of ${min} to ${max} times`);
      if ('look' in node) throw this.refuse('the repetition of what only looks');
      const lazy = this.take('?');
      const possessive = !lazy && (!braces || this.rust) && this.take('+');
      node = possessive ? this.possessive(node, min, max) : { repeat: node, min, max, lazy };
    }
  }

  /** @returns {[min: number, max: number, braces: boolean] | undefined} */
  bounds() {
    if (this.take('*')) return [0, Infinity, false];
    if (this.take('+')) return [1, Infinity, false];
    if (this.take('?')) return [0, 1, false];
    const [all, min, comma, max] = /^\{(\d+)(,?)(\d*)\}/.exec(this.chars.slice(this.at, this.at + 20).join('')) ?? [];
    if (!all) return undefined;
    this.at += all.length;
    return [Number(min), max ? Number(max) : comma ? Infinity : Number(min), true];
  }

  /** As many as there are, none given back: of sets, what follows is another character. @param {Node} node @param {number} min @param {number} max @returns {Node} */
  possessive(node, min, max) {
    if (!('set' in node)) throw this.refuse('a group that gives nothing back');
    const other = { look: complement(node.set), end: true };
    /** @type {Node} */
    const open = { all: [{ repeat: node, min, max, lazy: false }, other] };
    if (max === Infinity) return open;
    return { any: [{ repeat: node, min: max, max, lazy: false }, open] };
  }

  /** @returns {Node | undefined} */
  atom() {
    const c = this.next();
    if (c === '(') return this.group();
    if (c === '[') return this.set(this.brackets());
    if (c === '.') return { set: complement(setOf('\n')) };
    if (c === '$') return { look: this.rust ? [] : setOf('\n'), end: true };
    if (c === '^' || '*+?'.includes(c)) throw this.refuse(`"${c}"`);
    if (c === '\\') {
      if (this.take('z')) return { look: [], end: true };
      return this.set(this.escape());
    }
    return this.set(setOf(c));
  }

  /** @param {CharSet} set */
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
      if (!('set' in inner)) throw this.refuse('a look at more than one character');
      return { look: negative ? complement(inner.set) : inner.set, end: negative };
    }
    const was = this.ignoreCase;
    const [flags] = /^-?[ismux]*(?=[:)])/.exec(this.chars.slice(this.at, this.at + 8).join('')) ?? [];
    if (!flags || /[mx]/.test(flags)) throw this.refuse(`"(?${this.chars[this.at] ?? ''}"`);
    this.at += flags.length;
    this.ignoreCase = flags.startsWith('-') ? was && !flags.includes('i') : was || flags.includes('i');
    if (this.take(')')) return undefined; // to the end of the group
    this.at++;
    const inner = this.close(this.alternatives());
    this.ignoreCase = was;
    return inner;
  }

  /** @template T @param {T} node @returns {T} */
  close(node) {
    if (!this.take(')')) throw this.refuse('a group without an end');
    return node;
  }

  /** After a backslash. @returns {CharSet} */
  escape() {
    const c = this.next();
    if (c === 'p' || c === 'P') return this.property(c === 'P');
    if (c === 'x' || c === 'u') return this.code(c);
    if (Object.hasOwn(CLASSES, c)) return CLASSES[c]();
    if (Object.hasOwn(CONTROLS, c)) return setOf(CONTROLS[c]);
    if (/[A-Za-z0-9]/.test(c)) throw this.refuse(`"\\${c}"`);
    return setOf(c);
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
    const rest = this.chars.slice(this.at, this.at + 10).join('');
    const [all, digits] =
      /^\{([0-9A-Fa-f]{1,6})\}/.exec(rest) ??
      (kind === 'x' ? /^([0-9A-Fa-f]{2})/ : /^([0-9A-Fa-f]{4})/).exec(rest) ??
      [];
    const code = parseInt(digits ?? '', 16);
    if (!all || !(code <= LAST)) throw this.refuse(`"\\${kind}"`);
    this.at += all.length;
    return [[code, code]];
  }

  /** After a bracket. @returns {CharSet} */
  brackets() {
    const negative = this.take('^');
    /** @type {CharSet} */
    let set = [];
    for (let first = true; !this.take(']') || first; first = false) {
      if (first && this.chars[this.at - 1] === ']') set = setOf(']');
      else if (this.take('&&')) {
        this.at--;
        this.chars[this.at] = '[';
        this.at++;
        const rest = this.brackets();
        set = intersect(unite(set), rest);
        break;
      } else set = [...set, ...this.member()];
    }
    return negative ? complement(unite(set)) : unite(set);
  }

  /** One of a bracket's characters, ranges, classes. @returns {CharSet} */
  member() {
    const posix = /^\[:(\^?)(\w+):\]/.exec(this.chars.slice(this.at, this.at + 16).join(''));
    if (posix) throw this.refuse(posix[0]);
    if (this.take('[')) return this.brackets();
    const first = this.take('\\') ? this.escape() : setOf(this.next());
    const more =
      this.chars[this.at] === '-' && this.chars[this.at + 1] !== ']' && this.chars[this.at + 1] !== undefined;
    if (!more || first.length !== 1 || first[0][0] !== first[0][1]) return first;
    this.at++;
    const last = this.take('\\') ? this.escape() : setOf(this.next());
    if (last.length !== 1 || last[0][0] !== last[0][1] || last[0][0] < first[0][0]) throw this.refuse('a range');
    return [[first[0][0], last[0][0]]];
  }
}

/**
 * UNSUPPORTED names what can't be used.
 * @param {string} source
 * @param {{ rust?: boolean }} [options]  rust: by the rules of Rust's expressions, not Oniguruma's
 * @returns {Node}
 */
export function parseRegex(source, { rust = false } = {}) {
  if (source.length > 20_000)
    throw unsupported(
      'the tokenizer cuts text by an expression of more than 20,000 characters',
      'expressions of tokenizers are far shorter',
    );
  const reader = new Reader(source, rust);
  const node = reader.alternatives();
  if (reader.at < reader.chars.length) throw reader.refuse(`"${reader.chars[reader.at]}"`);
  return node;
}
