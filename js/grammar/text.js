/** Texts as bytes: automata over code points become rules over UTF-8, as they are or as JSON writes them inside a string. */
/** @import { Dfa } from './dfa.js' */
/** @import { Rules } from './ir.js' */

/** Ranges of code points whose UTF-8 has as many bytes. */
const LENGTHS = [
  [0, 0x7f],
  [0x80, 0x7ff],
  [0x800, 0xffff],
  [0x10000, 0x10ffff],
];
const SHORT = new Map([
  [8, 'b'],
  [9, 't'],
  [10, 'n'],
  [12, 'f'],
  [13, 'r'],
  [34, '"'],
  [92, '\\'],
]);

/** UTF-8 of a code point. @param {number} c @param {number} n  bytes */
function utf8(c, n) {
  if (n === 1) return [c];
  const bytes = Array.from({ length: n }, (_, i) => 0x80 | ((c >> (6 * (n - 1 - i))) & 63));
  bytes[0] = ((0xf00 >> n) & 0xff) | (c >> (6 * (n - 1)));
  return bytes;
}

/** Writes ranges of characters as edges; what ends alike is shared. */
export class Writer {
  /** States that lead to a state by so many continuation bytes. @type {Map<string, number>} */
  #continued = new Map();

  /** @param {Rules} rules */
  constructor(rules) {
    this.rules = rules;
  }

  /** A state from which `n` continuation bytes lead to another. @param {number} n @param {number} to @returns {number} */
  #continuation(n, to) {
    if (!n) return to;
    const key = `${n} ${to}`;
    let state = this.#continued.get(key);
    if (state === undefined) {
      state = this.rules.state();
      this.#continued.set(key, state);
      this.rules.edge(state, 0x80, 0xbf, this.#continuation(n - 1, to));
    }
    return state;
  }

  /** Bytes from `low` to `high`, of equal length, as a tree of edges. @param {number} from @param {number[]} low @param {number[]} high @param {number} to @returns {void} */
  #bytes(from, low, high, to) {
    const rest = low.length - 1;
    const [a, b] = [low[0], high[0]];
    if (!rest) return this.rules.edge(from, a, b, to);
    const least = low.slice(1).every((byte) => byte === 0x80);
    const most = high.slice(1).every((byte) => byte === 0xbf);
    if (a === b && !(least && most)) {
      const next = this.rules.state();
      this.rules.edge(from, a, a, next);
      return this.#bytes(next, low.slice(1), high.slice(1), to);
    }
    const begin = least ? a : a + 1;
    const end = most ? b : b - 1;
    if (!least) this.#bytes(from, low, [a, ...Array(rest).fill(0xbf)], to);
    if (begin <= end) this.rules.edge(from, begin, end, this.#continuation(rest, to));
    if (!most) this.#bytes(from, [b, ...Array(rest).fill(0x80)], high, to);
  }

  /** @param {number} from @param {number} low @param {number} high @param {number} to */
  range(from, low, high, to) {
    if (high < 0x80) return this.rules.edge(from, low, high, to);
    LENGTHS.forEach(([first, last], i) => {
      const [a, b] = [Math.max(low, first), Math.min(high, last)];
      if (a <= b) this.#bytes(from, utf8(a, i + 1), utf8(b, i + 1), to);
    });
  }

  /** An automaton from a state on; its ends lead to `to`. @param {number} from @param {Dfa} dfa @param {number} to @param {boolean} json  inside a JSON string */
  dfa(from, dfa, to, json) {
    const states = dfa.map((_, i) => (i ? this.rules.state() : from));
    // The first state may be come back to, but what is before it must not be.
    if (dfa.some(({ edges }) => edges.some(([, , t]) => t === 0))) {
      states[0] = this.rules.state();
      this.rules.skip(from, states[0]);
    }
    dfa.forEach(({ accepts, edges }, i) => {
      if (accepts) this.rules.skip(states[i], to);
      /** @type {number | undefined} */
      let escape;
      for (const [low, high, target] of edges) {
        if (!json) {
          this.range(states[i], low, high, states[target]);
          continue;
        }
        for (const [a, b] of PLAIN)
          if (a <= high && b >= low) this.range(states[i], Math.max(a, low), Math.min(b, high), states[target]);
        for (const c of ESCAPED) {
          if (c > high) break;
          if (c < low) continue;
          if (escape === undefined) this.rules.edge(states[i], 92, 92, (escape = this.rules.state()));
          this.rules.literal(escape, escaped(c), states[target]);
        }
      }
    });
  }
}

/** What a JSON string may have as it is. */
const PLAIN = [
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0xd7ff],
  [0xe000, 0x10ffff],
];
const ESCAPED = [...Array(32).keys(), 34, 92];
/** What stands behind the backslash. @param {number} c */
const escaped = (c) => SHORT.get(c) ?? `u${c.toString(16).padStart(4, '0')}`;

/** A rule of one character as it is, or behind a backslash. @param {Rules} rules */
function oneCharacter(rules) {
  const rule = rules.rule('character', true);
  const from = rules.start(rule);
  const end = rules.state(true);
  const writer = new Writer(rules);
  for (const [low, high] of PLAIN) writer.range(from, low, high, end);
  const escape = rules.state();
  rules.edge(from, 92, 92, escape);
  return { rule, escape, end };
}

/** The rule of one character of a JSON string, in its only spelling without needless escapes. @param {Rules} rules */
export function spelledRule(rules) {
  const { rule, escape, end } = oneCharacter(rules);
  for (const c of ESCAPED) rules.literal(escape, escaped(c), end);
  return rule;
}

/** The rule of one character of a JSON string, in any of JSON's spellings. @param {Rules} rules */
export function characterRule(rules) {
  const { rule, escape, end } = oneCharacter(rules);
  for (const c of '"\\/bfnrt') rules.literal(escape, c, end);
  /** Hexadecimal digits in either case. @param {number} at @param {string} digits @param {number} [to] */
  const hex = (at, digits, to = rules.state()) => {
    for (const c of digits) {
      rules.literal(at, c, to);
      if (/[a-f]/.test(c)) rules.literal(at, c.toUpperCase(), to);
    }
    return to;
  };
  const all = '0123456789abcdef';
  const u = rules.literal(escape, 'u');
  const three = hex(u, '0123456789abcef');
  const two = hex(three, all);
  hex(hex(two, all), all, end);
  // Not a surrogate by itself, but two that are one character.
  const d = hex(u, 'd');
  hex(d, '01234567', two);
  const low = rules.literal(hex(hex(hex(d, '89ab'), all), all), '\\u');
  hex(hex(hex(hex(low, 'd'), 'cdef'), all), all, end);
  return rule;
}
