/** Turns automata over code points into rules over the bytes of UTF-8, either of the text itself or of a string with escapes. */
import { countSteps } from './work.js';

/** @import { Dfa } from './dfa.js' */
/** @import { Rules } from './ir.js' */

/** Ranges of code points by the number of their bytes in UTF-8: 1 to 4. */
const LENGTHS = [
  [0, 0x7f],
  [0x80, 0x7ff],
  [0x800, 0xffff],
  [0x10000, 0x10ffff],
];

/**
 * How characters are written in a string, each in one way: ranges of those without an escape, those with one in order, and the letters of
 * short escapes.
 * @typedef {{ key: string, plain: [number, number][], escaped: number[], short: Map<number, string> }} Spelling
 */

/** The spelling of strings between quotes: that of JSON, with this character in place of its quote. @param {'"' | "'"} quote @returns {Spelling} */
function spelling(quote) {
  const c = quote.charCodeAt(0);
  return {
    key: quote,
    plain: [
      [0x20, c - 1],
      [c + 1, 0x5b],
      [0x5d, 0xd7ff],
      [0xe000, 0x10ffff],
    ],
    escaped: [...Array(32).keys(), c, 92],
    short: new Map([
      [8, 'b'],
      [9, 't'],
      [10, 'n'],
      [12, 'f'],
      [13, 'r'],
      [c, quote],
      [92, '\\'],
    ]),
  };
}

/** Spellings by the quote that is escaped. */
export const SPELLINGS = { '"': spelling('"'), "'": spelling("'") };

/** UTF-8 of a code point. @param {number} c @param {number} n  bytes */
function utf8(c, n) {
  if (n === 1) return [c];
  const bytes = Array.from({ length: n }, (_, i) => 0x80 | ((c >> (6 * (n - 1 - i))) & 63));
  bytes[0] = ((0xf00 >> n) & 0xff) | (c >> (6 * (n - 1)));
  return bytes;
}

/** Writes ranges of characters as edges. States with the same continuation are shared. */
export class Writer {
  /** States from which some continuation bytes lead to another state, by number of bytes and target. @type {Map<string, number>} */
  #continued = new Map();

  /** Rules of one character of a large set, by its ranges. @type {Map<string, number>} */
  #sets = new Map();
  #shares = true;
  /** The smallest number of characters from each state to the end; null: characters aren't counted. @type {Map<number, number> | null} */
  #lacks = null;

  /** @param {Rules} rules */
  constructor(rules) {
    this.rules = rules;
  }

  /** A state within a character whose last byte leads to another state: it lacks as many characters. @param {number} to */
  #before(to) {
    const state = this.rules.state();
    const lacks = this.#lacks?.get(to);
    if (lacks !== undefined) this.#lack(state, lacks);
    return state;
  }

  /** @param {number} state @param {number} characters */
  #lack(state, characters) {
    this.#lacks?.set(state, characters);
    this.rules.lacks(state, characters);
  }

  /** A state from which `n` continuation bytes lead to another. @param {number} n @param {number} to @returns {number} */
  #continuation(n, to) {
    if (!n) return to;
    const key = `${n} ${to}`;
    let state = this.#continued.get(key);
    if (state === undefined) {
      state = this.#before(to);
      this.#continued.set(key, state);
      this.rules.edge(state, 0x80, 0xbf, this.#continuation(n - 1, to));
    }
    return state;
  }

  /** Bytes from `low` to `high`, of equal length, as a tree of edges. @param {number} from @param {number[]} low @param {number[]} high @param {number} to @param {boolean} begins  a character @returns {void} */
  #bytes(from, low, high, to, begins) {
    const rest = low.length - 1;
    const [a, b] = [low[0], high[0]];
    const counted = begins && this.#lacks !== null;
    if (!rest) return this.rules.edge(from, a, b, to, counted);
    const least = low.slice(1).every((byte) => byte === 0x80);
    const most = high.slice(1).every((byte) => byte === 0xbf);
    if (a === b && !(least && most)) {
      const next = this.#before(to);
      this.rules.edge(from, a, a, next, counted);
      return this.#bytes(next, low.slice(1), high.slice(1), to, false);
    }
    const begin = least ? a : a + 1;
    const end = most ? b : b - 1;
    if (!least) this.#bytes(from, low, [a, ...Array(rest).fill(0xbf)], to, begins);
    if (begin <= end) this.rules.edge(from, begin, end, this.#continuation(rest, to), counted);
    if (!most) this.#bytes(from, [b, ...Array(rest).fill(0x80)], high, to, begins);
  }

  /** @param {number} from @param {number} low @param {number} high @param {number} to */
  range(from, low, high, to) {
    if (high < 0x80) return this.rules.edge(from, low, high, to, this.#lacks !== null);
    LENGTHS.forEach(([first, last], i) => {
      const [a, b] = [Math.max(low, first), Math.min(high, last)];
      if (a <= b) this.#bytes(from, utf8(a, i + 1), utf8(b, i + 1), to, true);
    });
  }

  /** An automaton from a state on; its ends lead to `to`. @param {number} from @param {Dfa} dfa @param {number} to @param {Spelling | null} spelled  inside a string; null: not @param {number[]} [lacks]  by its states */
  dfa(from, dfa, to, spelled, lacks) {
    const states = dfa.map((_, i) => (i ? this.rules.state() : from));
    // If a loop leads back to the first state, it needs a state of its own: `from` may have other edges.
    if (dfa.some(({ edges }) => edges.some(([, , t]) => t === 0))) {
      states[0] = this.rules.state();
      this.rules.skip(from, states[0]);
    }
    if (lacks) states.forEach((state, i) => this.#lack(state, lacks[i]));
    dfa.forEach(({ accepts, edges }, i) => {
      if (accepts) this.rules.skip(states[i], to);
      /** @type {number | undefined} */
      let escape;
      const shared = this.#shares && !this.#lacks ? sharedEdges(edges) : null;
      for (const [target, { set }] of shared?.sets ?? [])
        this.rules.call(states[i], this.#setRule(set, spelled), states[target]);
      for (const [low, high, target] of shared?.others ?? edges) {
        if (!spelled) {
          this.range(states[i], low, high, states[target]);
          continue;
        }
        for (const [a, b] of spelled.plain)
          if (a <= high && b >= low) this.range(states[i], Math.max(a, low), Math.min(b, high), states[target]);
        for (const c of spelled.escaped) {
          if (c > high) break;
          if (c < low) continue;
          if (escape === undefined)
            this.rules.edge(states[i], 92, 92, (escape = this.#before(states[target])), this.#lacks !== null);
          this.#escaped(escape, escapeOf(c, spelled), states[target]);
        }
      }
    });
  }

  /** The rule of one character of a set. @param {[number, number, number][]} edges  to one state @param {Spelling | null} spelled */
  #setRule(edges, spelled) {
    const key = `${spelled?.key} ${edges.map(([low, high]) => `${low}-${high}`).join()}`;
    let rule = this.#sets.get(key);
    if (rule === undefined) {
      rule = this.rules.rule('a character');
      this.#sets.set(key, rule);
      const own = new Writer(this.rules);
      own.#shares = false;
      own.dfa(
        this.rules.start(rule),
        [
          { accepts: false, edges: edges.map(([low, high]) => [low, high, 1]) },
          { accepts: true, edges: [] },
        ],
        this.rules.state(true),
        spelled,
      );
    }
    return rule;
  }

  /** The rest of an escape, after its backslash. @param {number} escape @param {string} text  ASCII @param {number} to */
  #escaped(escape, text, to) {
    const lacks = this.#lacks?.get(to);
    if (lacks === undefined) return void this.rules.literal(escape, text, to);
    // A backslash lacks as many characters as the nearest of those that it may begin.
    if (lacks < (this.#lacks?.get(escape) ?? 0)) this.#lack(escape, lacks);
    [...text].reduce((at, c, i) => {
      const next = i + 1 < text.length ? this.#before(to) : to;
      this.rules.edge(at, c.charCodeAt(0), c.charCodeAt(0), next);
      return next;
    }, escape);
  }

  /**
   * The texts of an automaton that have `min` to `max` characters. C counts the characters as the text is written.
   * @param {number} from @param {Dfa} dfa @param {number[]} lacks  `missingOf` of its states @param {{ min: number, max: number }} length @param {number} to
   * @param {Spelling | null} spelled
   */
  limited(from, dfa, lacks, { min, max }, to, spelled) {
    if (lacks[0] > max) return;
    const rule = this.rules.limitedRule('a text of limited length');
    const own = new Writer(this.rules);
    own.#lacks = new Map();
    own.dfa(this.rules.start(rule), dfa, this.rules.state(true), spelled, lacks);
    this.rules.call(from, rule, to, min, max);
  }
}

/** The escape of a character, after its backslash. @param {number} c @param {Spelling} spelling */
const escapeOf = (c, { short }) => short.get(c) ?? `u${c.toString(16).padStart(4, '0')}`;

/** If the edges to one state take this many states or more, they become a rule of their own, which is written once. */
const MANY_STATES = 24;

/** The approximate number of states that a range takes. @param {number} low @param {number} high */
const statesOf = (low, high) => (low < 32 ? 4 * (Math.min(high, 31) - low + 1) : 1) + (high > 127 ? 3 : 0);

/** Divides edges into those that become rules, by target, and the others. @param {[number, number, number][]} edges */
function sharedEdges(edges) {
  /** @type {Map<number, { set: [number, number, number][], states: number }>} */
  const found = new Map();
  for (const edge of edges) {
    const entry = found.get(edge[2]) ?? { set: [], states: 0 };
    found.set(edge[2], entry);
    entry.set.push(edge);
    entry.states += statesOf(edge[0], edge[1]);
  }
  for (const [to, { states }] of found) if (states < MANY_STATES) found.delete(to);
  return { sets: found, others: edges.filter(([, , to]) => !found.has(to)) };
}

/** The smallest number of bytes of a character of a range. @param {number} low @param {number} high @param {Spelling | null} spelled */
function leastBytes(low, high, spelled) {
  if (!spelled) return LENGTHS.findIndex(([, last]) => low <= last) + 1;
  if (spelled.plain.some(([a, b]) => a <= high && b >= low && Math.max(a, low) < 0x80)) return 1;
  if ([...spelled.short.keys()].some((c) => c >= low && c <= high)) return 2;
  return low < 0x20 ? 6 : LENGTHS.findIndex(([, last]) => low <= last) + 1;
}

/**
 * The smallest number of characters from each state to the end, if C can count them as the text is written (grammar.h): the paths with the
 * fewest bytes must have the fewest characters. Null: they don't.
 * @param {Dfa} dfa @param {boolean} longer  whether each such path must have a state with a loop of one byte, so that texts can be made longer
 * @param {Spelling | null} spelled @returns {number[] | null}
 */
export function missingOf(dfa, longer, spelled) {
  const bytesOf = (/** @type {number} */ low, /** @type {number} */ high) => leastBytes(low, high, spelled);
  const least = (/** @type {(low: number, high: number) => number} */ weight) => {
    const found = dfa.map(({ accepts }) => (accepts ? 0 : Infinity));
    for (let changed = true; changed;) {
      changed = false;
      dfa.forEach(({ edges }, i) => {
        countSteps(edges.length, 'a limit of length beside a pattern');
        for (const [low, high, to] of edges) {
          const n = weight(low, high) + found[to];
          if (n < found[i]) [found[i], changed] = [n, true];
        }
      });
    }
    return found;
  };
  const [characters, bytes] = [least(() => 1), least(bytesOf)];
  const agree = dfa.every(({ edges }, i) =>
    edges.every(([low, high, to]) => bytesOf(low, high) + bytes[to] > bytes[i] || 1 + characters[to] === characters[i]),
  );
  if (!agree || !longer) return agree ? characters : null;
  /** States with a shortest path that has such a loop. @type {Set<number>} */
  const loops = new Set();
  // States that are nearer to an end come first.
  const order = [...dfa.keys()].sort((a, b) => characters[a] - characters[b]);
  for (const i of order)
    if (
      dfa[i].edges.some(
        ([low, high, to]) =>
          (to === i && bytesOf(low, high) === 1) || (characters[to] + 1 === characters[i] && loops.has(to)),
      )
    )
      loops.add(i);
  return loops.size === dfa.length ? characters : null;
}

/** The rule of one character without an escape, and the state after a backslash, whose escapes the caller adds. @param {Rules} rules @param {'"' | "'"} quote */
function oneCharacter(rules, quote) {
  // C takes characters for plain that JSON doesn't escape.
  const rule = rules.rule('character', quote === '"');
  const from = rules.start(rule);
  const end = rules.state(true);
  const writer = new Writer(rules);
  for (const [low, high] of SPELLINGS[quote].plain) writer.range(from, low, high, end);
  const escape = rules.state();
  rules.edge(from, 92, 92, escape);
  return { rule, escape, end };
}

/** The rule of one character of a JSON string, in its only spelling without needless escapes. @param {Rules} rules */
export function spelledRule(rules) {
  const { rule, escape, end } = oneCharacter(rules, '"');
  for (const c of SPELLINGS['"'].escaped) rules.literal(escape, escapeOf(c, SPELLINGS['"']), end);
  return rule;
}

/** Hexadecimal digits in either case. @param {Rules} rules @param {number} at @param {string} digits @param {number} [to] */
function hexDigit(rules, at, digits, to = rules.state()) {
  for (const c of digits) {
    rules.literal(at, c, to);
    if (/[a-f]/.test(c)) rules.literal(at, c.toUpperCase(), to);
  }
  return to;
}

const HEX = '0123456789abcdef';

/** The rule of one character of a string of Python: as it is, or escaped in a way that has the same meaning in templates/noted-values.js. @param {Rules} rules @param {'"' | "'"} quote */
export function pythonCharacterRule(rules, quote) {
  const { rule, escape, end } = oneCharacter(rules, quote);
  for (const c of '\\\'"abfnrtv') rules.literal(escape, c, end);
  const last = rules.state();
  hexDigit(rules, last, HEX, end);
  hexDigit(rules, rules.literal(escape, 'x'), HEX, last);
  const u = rules.literal(escape, 'u');
  const three = rules.state();
  hexDigit(rules, three, HEX, last);
  hexDigit(rules, hexDigit(rules, u, HEX.replace('d', '')), HEX, three);
  // No half of a surrogate pair.
  hexDigit(rules, hexDigit(rules, u, 'd'), '01234567', three);
  return rule;
}

/** The rule of one character of a JSON string, in any of JSON's spellings. @param {Rules} rules */
export function characterRule(rules) {
  const { rule, escape, end } = oneCharacter(rules, '"');
  for (const c of '"\\/bfnrt') rules.literal(escape, c, end);
  const hex = (/** @type {number} */ at, /** @type {string} */ digits, /** @type {number} */ to = rules.state()) =>
    hexDigit(rules, at, digits, to);
  const all = HEX;
  const u = rules.literal(escape, 'u');
  const three = hex(u, '0123456789abcef');
  const two = hex(three, all);
  hex(hex(two, all), all, end);
  // A surrogate alone is not allowed, only a pair that stands for one character.
  const d = hex(u, 'd');
  hex(d, '01234567', two);
  const low = rules.literal(hex(hex(hex(d, '89ab'), all), all), '\\u');
  hex(hex(hex(hex(low, 'd'), 'cdef'), all), all, end);
  return rule;
}
