/**
 * Compiles a regular expression to the deterministic automaton of a stage (docs/FORMAT.md, TOKN). In one pass over the
 * text, it finds the match that a backtracking matcher would find first. Each of its states is a list of states of the
 * nondeterministic automaton; the preferred ones are first.
 */
import { Nfa } from '../regex/nfa.js';
import { LAST } from '../regex/sets.js';
import { ALPHABET } from './bytes.js';
import { parseRegex } from './regex.js';
import { unsupported } from './section.js';

/** @import { CharSet } from '../regex/sets.js' @import { Lookahead } from './regex.js' */

/** Flags of a stage. */
export const STAGE = Object.freeze({ dropMatches: 1, dropBetween: 2, bytes: 4 });
/** Bit of an entry of the table: a match ends before this character. */
const MATCH = 0x8000;
/** Number of the first state. */
const START = 1;
/**
 * Limits: states of the nondeterministic and of the deterministic automaton, classes of characters, and steps of the
 * compiler.
 */
const MAX = { nfaStates: 20_000, states: 4096, classes: 250, steps: 4_000_000 };

/** @param {string} source @param {string} resource  whose limit is exceeded */
const tooLarge = (source, resource) =>
  unsupported(
    `the tokenizer splits text by the expression ${JSON.stringify(source.slice(0, 200))}, which needs too many ${resource}`,
    'simplify the expression',
  );

/**
 * Divides characters into classes: characters that are in the same sets have the same class. Returns runs of characters
 * of one class (first character, class), the classes of each set, and the number of classes.
 * @param {CharSet[]} sets @param {string} source
 */
function classify(sets, source) {
  /** Indexes of the sets that begin or end at a character. @type {Map<number, number[]>} */
  const borders = new Map([[0, []]]);
  sets.forEach((set, i) =>
    set.forEach(([first, last]) => {
      for (const at of [first, last + 1]) borders.set(at, [...(borders.get(at) ?? []), i]);
    }),
  );
  /** @type {Map<string, number>} */
  const classes = new Map();
  /** @type {[number, number][]} */
  const runs = [];
  const inside = new Uint8Array(sets.length);
  const members = sets.map(() => new Set());
  for (const at of [...borders.keys()].sort((a, b) => a - b)) {
    if (at > LAST) break;
    for (const i of borders.get(at) ?? []) inside[i] ^= 1;
    const key = inside.join('');
    const number = classes.get(key) ?? classes.size;
    classes.set(key, number);
    sets.forEach((_, i) => inside[i] && members[i].add(number));
    if (runs.at(-1)?.[1] !== number) runs.push([at, number]);
  }
  if (classes.size > MAX.classes) throw tooLarge(source, 'classes of characters');
  return { runs, members, count: classes.size };
}

/**
 * Collects the different sets of characters of an automaton. Returns them, and the number of each state's set (consumed
 * or looked at), or -1.
 * @param {Nfa<Lookahead>} nfa
 */
function collectSets(nfa) {
  /** Numbers of sets by their text. @type {Map<string, number>} */
  const setNumbers = new Map();
  /** @type {CharSet[]} */
  const sets = [];
  const setOf = nfa.states.map(({ set, assert }) => {
    const chars = set ?? assert?.look;
    if (!chars) return -1;
    const key = chars.join();
    const number = setNumbers.get(key) ?? sets.length;
    if (number === sets.length) sets.push(chars);
    setNumbers.set(key, number);
    return number;
  });
  return { sets, setOf };
}

/** Computes transitions between lists of states of a nondeterministic automaton. The preferred states are first. */
class Transitions {
  #nfa;
  #setOf;
  #classes;
  #source;
  #steps = 0;

  /**
   * @param {Nfa<Lookahead>} nfa @param {number[]} setOf  from `collectSets`
   * @param {ReturnType<typeof classify>} classes @param {string} source  expression, for errors
   */
  constructor(nfa, setOf, classes, source) {
    this.#nfa = nfa;
    this.#setOf = setOf;
    this.#classes = classes;
    this.#source = source;
  }

  /**
   * Adds the states that can be reached from one without consuming or looking at a character, in order of preference.
   * @param {number} from @param {Set<number>} seen @param {number[]} out
   */
  reach(from, seen, out) {
    const stack = [from];
    for (let at; (at = stack.pop()) !== undefined;) {
      if (seen.has(at)) continue;
      if (++this.#steps > MAX.steps) throw tooLarge(this.#source, 'steps');
      seen.add(at);
      if (at && this.#setOf[at] < 0) stack.push(...[...this.#nfa.states[at].next].reverse());
      else out.push(at);
    }
  }

  /**
   * Returns the list of states after a character of a class, or at the end of the text (the class `classes.count`).
   * @param {number[]} list @param {number} byClass
   */
  follow(list, byClass) {
    const { members, count } = this.#classes;
    const [seen, next, nextSeen] = [new Set(), /** @type {number[]} */ ([]), new Set()];
    const todo = [...list].reverse();
    for (let at; (at = todo.pop()) !== undefined;) {
      if (seen.has(at)) continue; // a preferred path already leads here
      seen.add(at);
      if (!at) return { match: true, next };
      const { set, assert, next: targets } = this.#nfa.states[at];
      if (!(byClass < count ? members[this.#setOf[at]].has(byClass) : assert?.end)) continue;
      /** @type {number[]} */
      const sameCharacter = [];
      if (set) this.reach(targets[0], nextSeen, next);
      else this.reach(targets[0], new Set(), sameCharacter);
      todo.push(...sameCharacter.reverse());
    }
    return { match: false, next };
  }
}

/**
 * Compiles an expression to runs of characters of one class and a table of next states.
 * @param {string} source @param {{ rust?: boolean }} [options]
 */
function compileTable(source, options) {
  /** @type {Nfa<Lookahead>} */
  const nfa = new Nfa((states) => {
    if (states >= MAX.nfaStates) throw tooLarge(source, 'states');
  });
  const start = nfa.add(parseRegex(source, options), 0);
  const { sets, setOf } = collectSets(nfa);
  const classes = classify(sets, source);
  const { runs, count } = classes;
  const transitions = new Transitions(nfa, setOf, classes, source);
  /** @type {number[]} */
  const first = [];
  transitions.reach(start, new Set(), first);
  const states = [[], first];
  /** Numbers of states by their lists. */
  const numbers = new Map([
    ['', 0],
    [first.join(), START],
  ]);
  /** @type {number[][]} */
  const table = [Array.from({ length: count + 1 }, () => 0)];
  for (let i = START; i < states.length; i++) {
    table.push(
      Array.from({ length: count + 1 }, (_, byClass) => {
        const { match, next } = transitions.follow(states[i], byClass);
        if (match && i === START)
          throw unsupported(
            `the tokenizer splits text by the expression ${JSON.stringify(source)}, which matches the empty string`,
            'each match must have at least one character',
          );
        const key = next.join();
        const number = numbers.get(key) ?? states.length;
        if (number === states.length && states.push(next) > MAX.states) throw tooLarge(source, 'states');
        numbers.set(key, number);
        return number | (match ? MATCH : 0);
      }),
    );
  }
  return { runs, table, count };
}

/**
 * Converts runs of the letters of byte-level vocabularies to runs of the bytes that they represent.
 * @param {[number, number][]} runs
 */
function byteRuns(runs) {
  /** @type {[number, number][]} */
  const out = [];
  for (const [letter, byte] of [...ALPHABET].sort((a, b) => a[1] - b[1])) {
    const code = letter.charCodeAt(0);
    const found = /** @type {[number, number]} */ (runs.findLast(([first]) => first <= code));
    if (out.at(-1)?.[1] !== found[1]) out.push([byte, found[1]]);
  }
  return out;
}

/**
 * Returns the payload of a stage. Throws UNSUPPORTED if the expression is too large or a part of it is not supported.
 * @param {string} source
 * @param {{ rust?: boolean, flags?: number }} [options]  rust: whether the syntax is Rust's; flags: bits of STAGE. With
 *   STAGE.bytes, the expression matches the letters that represent bytes in byte-level vocabularies
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function compileStage(source, { rust, flags = 0 } = {}) {
  const { runs: all, table, count } = compileTable(source, { rust });
  const runs = flags & STAGE.bytes ? byteRuns(all) : all;
  const tableAt = 16 + 4 * runs.length;
  const out = new Uint8Array(tableAt + Math.ceil((2 * table.length * (count + 1)) / 4) * 4);
  const view = new DataView(out.buffer);
  [flags, count, table.length, runs.length].forEach((value, i) => view.setUint32(4 * i, value, true));
  runs.forEach(([first, byClass], i) => view.setUint32(16 + 4 * i, first * 256 + byClass, true));
  table.flat().forEach((next, i) => view.setUint16(tableAt + 2 * i, next, true));
  return out;
}
