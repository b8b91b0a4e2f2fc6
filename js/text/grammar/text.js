/** Converts automata over code points to rules over UTF-8 bytes: of the text itself, or of a string with escapes. */
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
 * The canonical spelling of the characters of a string. `key`: identifies the spelling; `plain`: ranges of characters
 * without an escape; `escaped`: characters with an escape, in ascending order; `short`: characters with a short escape,
 * and its letter.
 * @typedef {{ key: string, plain: [number, number][], escaped: number[], short: Map<number, string> }} Spelling
 */

/**
 * Returns the spelling of strings between quotes: that of JSON, with `quote` in place of its quote.
 * @param {'"' | "'"} quote @returns {Spelling}
 */
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

/** Spellings by the escaped quote. */
export const SPELLINGS = { '"': spelling('"'), "'": spelling("'") };

/** Returns the UTF-8 bytes of a code point. @param {number} c @param {number} n  number of bytes */
function utf8(c, n) {
  if (n === 1) return [c];
  const bytes = Array.from({ length: n }, (_, i) => 0x80 | ((c >> (6 * (n - 1 - i))) & 63));
  bytes[0] = ((0xf00 >> n) & 0xff) | (c >> (6 * (n - 1)));
  return bytes;
}

/** Writes characters and automata as edges of rules. States with the same continuation are shared. */
export class Writer {
  /** States before continuation bytes, by the number of these bytes and the target. @type {Map<string, number>} */
  #continued = new Map();

  /** Rules of one character of a large set, by its ranges. @type {Map<string, number>} */
  #sets = new Map();
  /** Whether large sets of characters become rules of their own. */
  #shares = true;
  /**
   * Smallest number of missing characters from each state to the end; null if characters are not counted.
   * @type {Map<number, number> | null}
   */
  #missing = null;

  /** @param {Rules} rules */
  constructor(rules) {
    this.rules = rules;
  }

  /**
   * Adds a state inside a character that leads to `to`, with the same number of missing characters.
   * @param {number} to
   */
  #stateInside(to) {
    const state = this.rules.state();
    const missing = this.#missing?.get(to);
    if (missing !== undefined) this.#setMissing(state, missing);
    return state;
  }

  /** Sets the number of missing characters of a state. @param {number} state @param {number} characters */
  #setMissing(state, characters) {
    this.#missing?.set(state, characters);
    this.rules.setMissing(state, characters);
  }

  /**
   * Returns a state from which `n` continuation bytes lead to another.
   * @param {number} n @param {number} to @returns {number}
   */
  #continuation(n, to) {
    if (!n) return to;
    const key = `${n} ${to}`;
    let state = this.#continued.get(key);
    if (state === undefined) {
      state = this.#stateInside(to);
      this.#continued.set(key, state);
      this.rules.edge(state, 0x80, 0xbf, this.#continuation(n - 1, to));
    }
    return state;
  }

  /**
   * Writes the byte sequences from `low` to `high`, which have equal length, as a tree of edges.
   * @param {number} from @param {number[]} low @param {number[]} high @param {number} to
   * @param {boolean} begins  whether the first byte begins a character @returns {void}
   */
  #bytes(from, low, high, to, begins) {
    const rest = low.length - 1;
    const [a, b] = [low[0], high[0]];
    const counted = begins && this.#missing !== null;
    if (!rest) return this.rules.edge(from, a, b, to, counted);
    const isFirstFull = low.slice(1).every((byte) => byte === 0x80);
    const isLastFull = high.slice(1).every((byte) => byte === 0xbf);
    if (a === b && !(isFirstFull && isLastFull)) {
      const next = this.#stateInside(to);
      this.rules.edge(from, a, a, next, counted);
      return this.#bytes(next, low.slice(1), high.slice(1), to, false);
    }
    const begin = isFirstFull ? a : a + 1;
    const end = isLastFull ? b : b - 1;
    if (!isFirstFull) this.#bytes(from, low, [a, ...Array(rest).fill(0xbf)], to, begins);
    if (begin <= end) this.rules.edge(from, begin, end, this.#continuation(rest, to), counted);
    if (!isLastFull) this.#bytes(from, [b, ...Array(rest).fill(0x80)], high, to, begins);
  }

  /**
   * Writes one character from `low` to `high`.
   * @param {number} from @param {number} low @param {number} high @param {number} to
   */
  range(from, low, high, to) {
    if (high < 0x80) return this.rules.edge(from, low, high, to, this.#missing !== null);
    LENGTHS.forEach(([first, last], i) => {
      const [a, b] = [Math.max(low, first), Math.min(high, last)];
      if (a <= b) this.#bytes(from, utf8(a, i + 1), utf8(b, i + 1), to, true);
    });
  }

  /**
   * Writes an automaton between two states.
   * @param {number} from @param {Dfa} dfa @param {number} to
   * @param {Spelling | null} spelled  spelling inside a string; null: the characters themselves
   * @param {number[]} [missing]  number of missing characters of each state of the automaton
   */
  dfa(from, dfa, to, spelled, missing) {
    const states = dfa.map((_, i) => (i ? this.rules.state() : from));
    // If a loop leads back to the first state, it needs a state of its own: `from` may have other edges.
    if (dfa.some(({ edges }) => edges.some(([, , t]) => t === 0))) {
      states[0] = this.rules.state();
      this.rules.skip(from, states[0]);
    }
    if (missing) states.forEach((state, i) => this.#setMissing(state, missing[i]));
    dfa.forEach(({ accepts, edges }, i) => {
      if (accepts) this.rules.skip(states[i], to);
      /** @type {number | undefined} */
      let escape;
      const shared = this.#shares && !this.#missing ? sharedEdges(edges) : null;
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
            this.rules.edge(states[i], 92, 92, (escape = this.#stateInside(states[target])), this.#missing !== null);
          this.#escaped(escape, escapeOf(c, spelled), states[target]);
        }
      }
    });
  }

  /**
   * Returns the rule of one character of a set.
   * @param {[number, number, number][]} edges  edges to one state, whose ranges are the set
   * @param {Spelling | null} spelled
   */
  #setRule(edges, spelled) {
    const key = `${spelled?.key} ${edges.map(([low, high]) => `${low}-${high}`).join()}`;
    let rule = this.#sets.get(key);
    if (rule === undefined) {
      rule = this.rules.rule('a character');
      this.#sets.set(key, rule);
      const ruleWriter = new Writer(this.rules);
      ruleWriter.#shares = false;
      ruleWriter.dfa(
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

  /** Writes an escape after its backslash. @param {number} escape @param {string} text  ASCII @param {number} to */
  #escaped(escape, text, to) {
    const missing = this.#missing?.get(to);
    if (missing === undefined) return void this.rules.literal(escape, text, to);
    // The state after a backslash has the smallest number of missing characters of all escapes that continue from it.
    if (missing < (this.#missing?.get(escape) ?? 0)) this.#setMissing(escape, missing);
    [...text].reduce((at, c, i) => {
      const next = i + 1 < text.length ? this.#stateInside(to) : to;
      this.rules.edge(at, c.charCodeAt(0), c.charCodeAt(0), next);
      return next;
    }, escape);
  }

  /**
   * Writes the texts of an automaton that have `min` to `max` characters. C counts the characters while the text is
   * generated.
   * @param {number} from @param {Dfa} dfa
   * @param {number[]} missing  result of `missingOf`
   * @param {{ min: number, max: number }} length @param {number} to @param {Spelling | null} spelled
   */
  limited(from, dfa, missing, { min, max }, to, spelled) {
    if (missing[0] > max) return;
    const rule = this.rules.limitedRule('a text of limited length');
    const ruleWriter = new Writer(this.rules);
    ruleWriter.#missing = new Map();
    ruleWriter.dfa(this.rules.start(rule), dfa, this.rules.state(true), spelled, missing);
    this.rules.call(from, rule, to, min, max);
  }
}

/** Returns the escape of a character without its backslash. @param {number} c @param {Spelling} spelling */
const escapeOf = (c, { short }) => short.get(c) ?? `u${c.toString(16).padStart(4, '0')}`;

/** Number of states from which on the edges to one state become a rule of their own, which is shared. */
const MIN_SHARED_STATES = 24;

/** Returns the approximate number of states that a range needs. @param {number} low @param {number} high */
const statesOf = (low, high) => (low < 32 ? 4 * (Math.min(high, 31) - low + 1) : 1) + (high > 127 ? 3 : 0);

/**
 * Divides edges into those that become rules (`sets`, by target) and the others.
 * @param {[number, number, number][]} edges
 */
function sharedEdges(edges) {
  /** @type {Map<number, { set: [number, number, number][], states: number }>} */
  const found = new Map();
  for (const edge of edges) {
    const entry = found.get(edge[2]) ?? { set: [], states: 0 };
    found.set(edge[2], entry);
    entry.set.push(edge);
    entry.states += statesOf(edge[0], edge[1]);
  }
  for (const [to, { states }] of found) if (states < MIN_SHARED_STATES) found.delete(to);
  return { sets: found, others: edges.filter(([, , to]) => !found.has(to)) };
}

/**
 * Returns the smallest number of bytes of a character of a range.
 * @param {number} low @param {number} high @param {Spelling | null} spelled
 */
function leastBytes(low, high, spelled) {
  if (!spelled) return LENGTHS.findIndex(([, last]) => low <= last) + 1;
  if (spelled.plain.some(([a, b]) => a <= high && b >= low && Math.max(a, low) < 0x80)) return 1;
  if ([...spelled.short.keys()].some((c) => c >= low && c <= high)) return 2;
  return low < 0x20 ? 6 : LENGTHS.findIndex(([, last]) => low <= last) + 1;
}

/**
 * Returns the smallest number of characters from each state to the end, or null if C cannot count characters for this
 * automaton (c/grammar/grammar.h). C can if the paths with the fewest bytes also have the fewest characters.
 * @param {Dfa} dfa
 * @param {boolean} longer  whether each of these paths must also have a loop of one byte, so that texts can be made
 *   longer
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
  /** States with a shortest path that has a loop of one byte. @type {Set<number>} */
  const loops = new Set();
  // In the order of their distance to an end.
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

/**
 * Adds a rule of one character, with the characters that need no escape. The caller adds the escapes after the state
 * `escape`, which follows a backslash.
 * @param {Rules} rules @param {'"' | "'"} quote
 */
function oneCharacter(rules, quote) {
  // The flag `plain` is for JSON only: in C it means any character that JSON does not escape.
  const rule = rules.rule('character', quote === '"');
  const from = rules.start(rule);
  const end = rules.state(true);
  const writer = new Writer(rules);
  for (const [low, high] of SPELLINGS[quote].plain) writer.range(from, low, high, end);
  const escape = rules.state();
  rules.edge(from, 92, 92, escape);
  return { rule, escape, end };
}

/**
 * Adds the rule of one character of a JSON string in its canonical spelling, without needless escapes.
 * @param {Rules} rules
 */
export function spelledRule(rules) {
  const { rule, escape, end } = oneCharacter(rules, '"');
  for (const c of SPELLINGS['"'].escaped) rules.literal(escape, escapeOf(c, SPELLINGS['"']), end);
  return rule;
}

/**
 * Writes one of some hexadecimal digits, in either case. Returns the state after it.
 * @param {Rules} rules @param {number} at @param {string} digits @param {number} [to]
 */
function hexDigit(rules, at, digits, to = rules.state()) {
  for (const c of digits) {
    rules.literal(at, c, to);
    if (/[a-f]/.test(c)) rules.literal(at, c.toUpperCase(), to);
  }
  return to;
}

const HEX = '0123456789abcdef';

/**
 * Adds the rule of one character of a Python string: unescaped, or with an escape that templates/noted-values.js
 * supports.
 * @param {Rules} rules @param {'"' | "'"} quote
 */
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
  // Surrogates (d8 to df) are excluded.
  hexDigit(rules, hexDigit(rules, u, 'd'), '01234567', three);
  return rule;
}

/** Adds the rule of one character of a JSON string, with all spellings of JSON. @param {Rules} rules */
export function characterRule(rules) {
  const { rule, escape, end } = oneCharacter(rules, '"');
  for (const c of '"\\/bfnrt') rules.literal(escape, c, end);
  const hex = (/** @type {number} */ at, /** @type {string} */ digits, /** @type {number} */ to = rules.state()) =>
    hexDigit(rules, at, digits, to);
  const u = rules.literal(escape, 'u');
  const three = hex(u, '0123456789abcef');
  const two = hex(three, HEX);
  hex(hex(two, HEX), HEX, end);
  // Surrogates are allowed only as a pair.
  const d = hex(u, 'd');
  hex(d, '01234567', two);
  const low = rules.literal(hex(hex(hex(d, '89ab'), HEX), HEX), '\\u');
  hex(hex(hex(hex(low, 'd'), 'cdef'), HEX), HEX, end);
  return rule;
}
