/** Writes the rules of a shape's arrays: tuples, different items (uniqueItems) and counted items (contains). */
import { textsOf } from '../dfa.js';
import { grammarError, tooLargeError } from '../failure.js';
import { MARK } from '../ir.js';
import { valueSpellings } from '../notations.js';
import { numberTexts } from './numbers.js';
import { stringDfa, writeText } from './scalars.js';
import { andSub, canonical, TRUE } from './shapes.js';

/** @import { Compiler } from './index.js' */
/** @import { ArrayShape, Contained, Shape, Sub } from './shapes.js' */

/** Maximum number of values that are enumerated for an item, and of tuples of such values. */
const MAX_LISTED = 64;
const MAX_TUPLES = 4096;
/** Maximum length of strings from which on a list cannot run out of different ones. */
const LONG_STRING = 64;
/** Maximum number of items in a list of different strings, and of required items in it. */
const MAX_DIFFERENT = 1000;
const MAX_REQUIRED = 16;
/** Maximum number of states of a list whose items are counted. */
const MAX_COUNTED = 40_000;

/** Returns the shape without a maximum length of LONG_STRING or more. @param {Shape} s @returns {Shape} */
const withoutLongLimit = (s) =>
  s.string.dfa && s.string.max >= LONG_STRING ? { ...s, string: { ...s.string, max: Infinity } } : s;

/**
 * Returns all values of a shape, or null if there are too many or they cannot be enumerated.
 * @param {Shape} s @returns {any[] | null}
 */
function valuesOf(s) {
  if (s.values) return [...s.values.values()];
  if (s.types.has('array') || s.types.has('object')) return null;
  const numbers = s.types.has('number') ? numberTexts(s.number, []) : null;
  const strings = s.types.has('string') ? stringDfa(withoutLongLimit(s)) : null;
  if ((numbers && numbers.max < Infinity) || (s.types.has('string') && !strings)) return null;
  const found = [numbers?.texts, strings].map((dfa) => (dfa ? textsOf(dfa, MAX_LISTED) : []));
  return found[0] && found[1] && [null, true, false, ...found[0].map(Number), ...found[1]];
}

/**
 * Returns all values of a schema, or null if there are too many.
 * @param {Compiler} compiler @param {Sub} sub @returns {any[] | null}
 */
function valuesOfSub(compiler, sub) {
  /** @type {Map<string, any>} */
  const found = new Map();
  for (const s of compiler.shapesOf(sub)) {
    const values = valuesOf(s);
    if (!values) return null;
    for (const value of values) if (compiler.admission.admits(s, value)) found.set(canonical(value), value);
  }
  return found.size <= MAX_LISTED ? [...found.values()] : null;
}

/**
 * Returns the array with only those conditions of `contains` that need counting. A condition that all items satisfy
 * becomes a limit of length. Returns null if no array satisfies the conditions.
 * @param {ArrayShape} array @returns {ArrayShape | null}
 */
function simplifyContains({ contains, ...array }) {
  let { min, max } = array;
  const counted = [];
  for (const condition of contains) {
    if (condition.min > condition.max) return null;
    if (condition.sub.pos.length || condition.sub.neg.length) {
      if (condition.min > 0 || condition.max < Infinity) counted.push(condition);
    } else {
      min = Math.max(min, condition.min && condition.from + condition.min);
      max = Math.min(max, condition.from + condition.max);
    }
  }
  // An array that must contain n items has at least n.
  for (const condition of counted) if (condition.min) min = Math.max(min, condition.from + condition.min);
  return min > max ? null : { ...array, min, max, contains: counted };
}

/** The numbers of items that satisfy each condition of `contains`, as part of the states of a list. */
class ContainsCounts {
  #contains;
  /**
   * Largest value of each count: the maximum of its condition, or the minimum if there is no maximum.
   * @type {number[]}
   */
  limits;

  /** @param {Contained[]} contains */
  constructor(contains) {
    this.#contains = contains;
    this.limits = contains.map(({ min, max }) => (max < Infinity ? max : min));
  }

  /** Returns the counts of an empty list. @returns {number[]} */
  start() {
    return this.limits.map(() => 0);
  }

  /** Whether a list with these counts may end. @param {number[]} counts */
  mayEnd(counts) {
    return this.#contains.every(({ min }, k) => counts[k] >= min);
  }

  /**
   * Returns the counts after item `n`, or null if too many items satisfy a condition.
   * @param {number[]} counts @param {number} n
   * @param {boolean[]} satisfied  for each condition, whether the item satisfies it
   * @returns {number[] | null}
   */
  countsAfter(counts, n, satisfied) {
    const next = counts.map((count, k) => count + (satisfied[k] && n >= this.#contains[k].from ? 1 : 0));
    if (this.#contains.some(({ max }, k) => next[k] > max)) return null;
    return next.map((count, k) => Math.min(count, this.limits[k]));
  }
}

/**
 * Creates states of a list, each identified by numbers. `write` is called once for each state and may create further
 * states by calling `stateOf`.
 * @template {(number | number[])[]} T
 * @param {Compiler['rules']} rules @param {(begin: (...key: T) => number) => void} start
 * @param {(state: number, stateOf: (...key: T) => number, ...key: T) => void} write
 */
function writeStates(rules, start, write) {
  /** @type {Map<string, number>} */
  const states = new Map();
  /** @type {{ key: T, state: number }[]} */
  const todo = [];
  const stateOf = (/** @type {T} */ ...key) => {
    const text = key.join(' ');
    let state = states.get(text);
    if (state === undefined) {
      state = rules.state();
      states.set(text, state);
      todo.push({ key, state });
    }
    return state;
  };
  start(stateOf);
  for (const { key, state } of todo) write(state, stateOf, ...key);
}

/**
 * Writes lists of different values, in the order in which the schema lists the values.
 * @param {Compiler} compiler @param {any[]} values @param {ArrayShape} array @param {number} from
 * @param {number} to
 */
function writeInOrder({ rules, admission, notation }, values, { min, max, contains }, from, to) {
  const length = Math.min(max, values.length);
  const counter = new ContainsCounts(contains);
  /** For each value and each condition of `contains`, whether the value satisfies it. */
  const satisfied = values.map((value) => contains.map(({ sub }) => admission.satisfies(sub, value)));
  // A state: the next value to decide on, the number of items so far, and their counts.
  writeStates(
    rules,
    (/** @type {(i: number, n: number, counts: number[]) => number} */ stateOf) =>
      void rules.literal(from, '[', stateOf(0, 0, counter.start())),
    (at, stateOf, i, n, counts) => {
      if (n >= min && counter.mayEnd(counts)) rules.literal(at, ']', to);
      if (i === values.length) return;
      rules.skip(at, stateOf(i + 1, n, counts));
      const next = n < length ? counter.countsAfter(counts, n, satisfied[i]) : null;
      if (!next) return;
      for (const text of valueSpellings(values[i], notation))
        rules.literal(at, (n ? notation.comma : '') + text, stateOf(i + 1, n + 1, next));
    },
  );
}

/**
 * Returns the shape of items if they are strings and each string can be made longer, or can have any characters.
 * Returns null otherwise.
 * @param {Compiler} compiler @param {Sub} sub @returns {Shape | null}
 */
function unlimitedString(compiler, sub) {
  const [s, ...others] = compiler.shapesOf(sub);
  if (!s || others.length || s.values || [...s.types].join() !== 'string') return null;
  const dfa = stringDfa(withoutLongLimit(s));
  const isUnlimited = dfa ? dfa.every(({ accepts, edges }) => !accepts || edges.length) : s.string.max > 0;
  return isUnlimited ? s : null;
}

/**
 * Writes lists of different strings, with marks where C compares them.
 * @param {Compiler} compiler @param {Shape} s @param {ArrayShape} array @param {number} from @param {number} to
 */
function writeDifferent(compiler, s, { min, max }, from, to) {
  const { rules } = compiler;
  compiler.requireJson('uniqueItems for strings that are not listed');
  const item = rules.rule('an item');
  const textStart = rules.marked(rules.start(item), '"', MARK.open);
  const end = rules.state();
  rules.marked(end, '"', MARK.close, rules.state(true));
  writeText(compiler, s, compiler.notation.quotes[0], textStart, end, compiler.spelled());
  const nextItem = rules.rule('an item');
  rules.call(rules.literal(rules.start(nextItem), ', '), item, rules.state(true));

  const begin = rules.marked(from, '[', MARK.list);
  const close = rules.state();
  rules.marked(close, ']', MARK.shut, to);
  if (!min) rules.skip(begin, close);
  const first = rules.state();
  rules.call(begin, item, first);
  rules.call(first, nextItem, close, Math.max(0, min - 1), Math.min(max, MAX_DIFFERENT) - 1);
  rules.slack += 1 + min * min;
}

/**
 * Writes arrays with uniqueItems.
 * @param {Compiler} compiler @param {ArrayShape} array @param {number} from @param {number} to
 */
function writeUnique(compiler, array, from, to) {
  const { prefix, rest, min, max } = array;
  const values = prefix.length ? null : valuesOfSub(compiler, rest);
  if (values) return writeInOrder(compiler, values, array, from, to);
  if (max <= 1) return writeAny(compiler, array, from, to);
  if (array.contains.length)
    throw grammarError(
      'contains together with uniqueItems is supported only for items of an enum, or for at most one item',
      'use an enum for the items, or omit one of the two',
    );
  const strings = prefix.length || min > MAX_REQUIRED ? null : unlimitedString(compiler, rest);
  if (strings) return writeDifferent(compiler, strings, array, from, to);
  const each = prefix.map((sub) => valuesOfSub(compiler, sub));
  const lists = /** @type {any[][]} */ (each.filter(Boolean));
  const tuples = lists.reduce((product, list) => product * list.length, 1);
  if (!prefix.length || lists.length < prefix.length || tuples > MAX_TUPLES || min > prefix.length)
    throw grammarError(
      'uniqueItems is supported only for items with few values, for strings of any length, or for at most one item',
      'use an enum for the items, or omit uniqueItems and remove repetitions afterwards',
    );
  /** @type {any[][]} */
  let all = [[]];
  const found = [];
  for (let n = 0; n <= Math.min(prefix.length, max); n++) {
    if (n >= min) found.push(...all);
    all = all.flatMap((tuple) =>
      (lists[n] ?? []).filter((v) => tuple.every((w) => canonical(v) !== canonical(w))).map((v) => [...tuple, v]),
    );
  }
  compiler.writeListed(found, from, to);
}

/**
 * Writes arrays without `contains`.
 * @param {Compiler} compiler @param {ArrayShape} array @param {number} from @param {number} to
 */
function writeItems(compiler, { prefix, rest, min, max }, from, to) {
  const { rules, notation } = compiler;
  let at = rules.literal(from, '[');
  const close = rules.state();
  rules.literal(close, ']', to);
  prefix.forEach((sub, i) => {
    if (i >= min && i <= max) rules.skip(at, close);
    const next = rules.state();
    if (i < max) rules.call(i ? rules.literal(at, notation.comma) : at, compiler.rule(sub), next);
    at = next;
  });
  const n = prefix.length;
  if (n > max) return;
  if (n >= min) rules.skip(at, close);
  if (n === max) return;
  let first = at;
  if (!n) {
    first = rules.state();
    rules.call(at, compiler.rule(rest), first);
  }
  const nextItem = rules.rule('an item');
  rules.call(rules.literal(rules.start(nextItem), notation.comma), compiler.rule(rest), rules.state(true));
  const written = Math.max(n, 1);
  rules.call(first, nextItem, close, Math.max(0, min - written), max - written);
}

/**
 * Writes arrays with `contains`; their items may be in any order. Each item is written with the conditions that it
 * counts for. Any other condition is left open if it has no maximum, and negated if it has one.
 * @param {Compiler} compiler @param {ArrayShape} array @param {number} from @param {number} to
 */
function writeCounted(compiler, { prefix, rest, min, max, contains }, from, to) {
  const { rules, notation } = compiler;
  const counter = new ContainsCounts(contains);
  const { limits } = counter;
  /** Number of items from which on the states no longer depend on it. */
  const last = max < Infinity ? max : Math.max(min, prefix.length, ...contains.map(({ from }) => from), 1);
  const size = (last + 1) * limits.reduce((product, limit) => product * (limit + 1), 1) * 2 ** contains.length;
  if (size > MAX_COUNTED) throw tooLargeError('contains together with limits of the number of items');
  /**
   * Returns the schemas of item `n`, or null if no value satisfies them.
   * @param {number} n @param {boolean[]} counted  for each condition, whether the item counts for it
   * @returns {Sub | null}
   */
  const itemOf = (n, counted) => {
    const sub = contains.reduce((all, condition, k) => {
      if (counted[k]) return andSub(all, condition.sub);
      if (n < condition.from) return all;
      return condition.max < Infinity ? andSub(all, { pos: condition.sub.neg, neg: condition.sub.pos }) : all;
    }, prefix[n] ?? rest);
    return compiler.hasShape(sub) ? sub : null;
  };
  /** All values of `counted`: the combinations of conditions for which an item can count. */
  const combinations = Array.from({ length: 2 ** contains.length }, (_, bits) =>
    contains.map((_condition, k) => ((bits >> k) & 1) === 1),
  );
  const close = rules.state();
  rules.literal(close, ']', to);
  // A state: the number of items, and their counts.
  writeStates(
    rules,
    (/** @type {(n: number, counts: number[]) => number} */ stateOf) =>
      void rules.literal(from, '[', stateOf(0, counter.start())),
    (at, stateOf, n, counts) => {
      if (n >= min && counter.mayEnd(counts)) rules.skip(at, close);
      if (n === max) return;
      const before = n ? rules.literal(at, notation.comma) : at;
      for (const counted of combinations) {
        // An item counts for a condition only from the condition's first item on, and only below the count's limit.
        if (counted.some((isCounted, k) => isCounted && (n < contains[k].from || counts[k] === limits[k]))) continue;
        const next = counter.countsAfter(counts, n, counted);
        const sub = next && itemOf(n, counted);
        if (sub) rules.call(before, compiler.rule(sub), stateOf(Math.min(n + 1, last), next));
      }
    },
  );
}

/**
 * Writes arrays whose items may be equal.
 * @param {Compiler} compiler @param {ArrayShape} array @param {number} from @param {number} to
 */
function writeAny(compiler, array, from, to) {
  if (array.contains.length) writeCounted(compiler, array, from, to);
  else writeItems(compiler, array, from, to);
}

/** Writes the arrays of a shape. @param {Compiler} compiler @param {Shape} s @param {number} from @param {number} to */
export function writeArray(compiler, s, from, to) {
  // If an array is excluded, no array is written, because the shape has other types.
  if ([...s.excluded.values()].some(Array.isArray)) {
    if (s.types.size === 1) throw grammarError('"not" with an array in "const" or "enum" is not supported');
    return;
  }
  if (s.array.repeats) {
    if (s.array.unique) return;
    // For "not" with uniqueItems, arrays of two equal items are written: a part of the arrays that satisfy it.
    const sub = s.array.prefix[0] ?? s.array.rest;
    const values =
      s.array.prefix.length || s.array.contains.length || s.array.min > 2 || s.array.max < 2
        ? null
        : valuesOfSub(compiler, sub);
    if (!values && sub !== TRUE) throw grammarError('"not" with "uniqueItems" is not supported');
    compiler.writeListed(
      (values ?? [0, null, true]).map((v) => [v, v]),
      from,
      to,
    );
    return;
  }
  const array = s.array.min <= s.array.max ? simplifyContains(s.array) : null;
  if (array?.unique) writeUnique(compiler, array, from, to);
  else if (array) writeAny(compiler, array, from, to);
}
