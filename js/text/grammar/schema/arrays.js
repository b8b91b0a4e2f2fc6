/** Arrays of a shape, as rules. */
import { ofTexts, textsOf } from '../dfa.js';
import { refused, tooLarge } from '../failure.js';
import { MARK } from '../ir.js';
import { numberTexts } from './numbers.js';
import { jsonOf, stringDfa, writeText } from './scalars.js';
import { andSub, canonical, TRUE } from './shapes.js';

/** @import { Compiler } from './index.js' */
/** @import { Shape, Sub } from './shapes.js' */

const MOST_LISTED = 64;
/** Characters of a string from which on a limit is no hindrance to differ. */
const FAR = 64;
const MOST_TUPLES = 4096;
/** Items of a list of different strings, at most, and at least where it must have some. */
const MOST_DIFFERENT = 1000;
const MOST_NEEDED = 16;
/** States of lists whose items are counted by kinds. */
const MOST_COUNTED = 40_000;

/** Without a limit of length so far away that texts which differ before are enough. @param {Shape} s @returns {Shape} */
const withoutFar = (s) => (s.string.dfa && s.string.max >= FAR ? { ...s, string: { ...s.string, max: Infinity } } : s);

/** All values of a shape; null: too many, or not known. @param {Shape} s @returns {any[] | null} */
function valuesOf(s) {
  if (s.values) return [...s.values.values()];
  if (s.types.has('array') || s.types.has('object')) return null;
  const numbers = s.types.has('number') ? numberTexts(s.number, []) : null;
  const strings = s.types.has('string') ? stringDfa(withoutFar(s)) : null;
  if ((numbers && numbers.max < Infinity) || (s.types.has('string') && !strings)) return null;
  const found = [numbers?.texts, strings].map((dfa) => (dfa ? textsOf(dfa, MOST_LISTED) : []));
  return found[0] && found[1] && [null, true, false, ...found[0].map(Number), ...found[1]];
}

/** All values of a schema; null: too many. @param {Compiler} compiler @param {Sub} sub @returns {any[] | null} */
function allOf(compiler, sub) {
  /** @type {Map<string, any>} */
  const found = new Map();
  for (const s of compiler.shapesOf(sub)) {
    const values = valuesOf(s);
    if (!values) return null;
    for (const value of values) if (compiler.admission.admits(s, value)) found.set(canonical(value), value);
  }
  return found.size <= MOST_LISTED ? [...found.values()] : null;
}

/**
 * What `contains` asks of a list, where it says something: schemas of items, and how many items they must hold of. One that always holds
 * is a limit of length. Null: no list is so.
 * @param {Shape['array']} array @returns {Shape['array'] | null}
 */
function contained({ contains, ...array }) {
  let { min, max } = array;
  const counted = [];
  for (const one of contains) {
    if (one.min > one.max) return null;
    if (one.sub.pos.length || one.sub.neg.length) {
      if (one.min > 0 || one.max < Infinity) counted.push(one);
    } else [min, max] = [Math.max(min, one.min && one.from + one.min), Math.min(max, one.from + one.max)];
  }
  // As many items as it needs; of more than the list may have nothing must be said.
  for (const one of counted) if (one.min) min = Math.max(min, one.from + one.min);
  return min > max ? null : { ...array, min, max, contains: counted };
}

/** How far items of each kind are counted: to the least, or to one less than too many. @param {Shape['array']['contains']} contains */
const countsOf = (contains) => contains.map(({ min, max }) => (max < Infinity ? max : min));

/** Lists of values in the order they are listed in, each once. @param {Compiler} compiler @param {any[]} values @param {Shape['array']} array @param {number} from @param {number} to */
function writeInOrder({ rules, admission }, values, { min, max, contains }, from, to) {
  const most = Math.min(max, values.length);
  const limits = countsOf(contains);
  /** Of each value, which schemas of `contains` hold. */
  const holds = values.map((value) => contains.map(({ sub }) => admission.satisfies(sub, value)));
  /** Before value i, with n before it, and so many that each schema of `contains` holds of. @type {Map<string, number>} */
  const states = new Map();
  /** @type {{ i: number, n: number, counts: number[], state: number }[]} */
  const todo = [];
  const state = (/** @type {number} */ i, /** @type {number} */ n, /** @type {number[]} */ counts) => {
    const key = `${i} ${n} ${counts}`;
    let known = states.get(key);
    if (known === undefined) {
      known = rules.state();
      states.set(key, known);
      todo.push({ i, n, counts, state: known });
    }
    return known;
  };
  rules.literal(
    from,
    '[',
    state(
      0,
      0,
      limits.map(() => 0),
    ),
  );
  for (const { i, n, counts, state: at } of todo) {
    if (n >= min && contains.every((one, k) => counts[k] >= one.min)) rules.literal(at, ']', to);
    if (i === values.length) continue;
    rules.skip(at, state(i + 1, n, counts));
    if (n === most) continue;
    const next = counts.map((count, k) => count + (holds[i][k] && n >= contains[k].from ? 1 : 0));
    if (contains.some((one, k) => next[k] > one.max)) continue;
    const target = state(
      i + 1,
      n + 1,
      next.map((count, k) => Math.min(count, limits[k])),
    );
    rules.literal(at, `${n ? ', ' : ''}${jsonOf(values[i])}`, target);
  }
}

/** The one shape of items that are strings which can become longer, or are of any characters. @param {Compiler} compiler @param {Sub} sub @returns {Shape | null} */
function endless(compiler, sub) {
  const [s, ...others] = compiler.shapesOf(sub);
  if (!s || others.length || s.values || [...s.types].join() !== 'string') return null;
  const dfa = stringDfa(withoutFar(s));
  const goesOn = dfa ? dfa.every(({ accepts, edges }) => !accepts || edges.length) : s.string.max > 0;
  return goesOn ? s : null;
}

/** Lists of different strings: marks say where C compares them. @param {Compiler} compiler @param {Shape} s @param {Shape['array']} array @param {number} from @param {number} to */
function writeDifferent(compiler, s, { min, max }, from, to) {
  const { rules } = compiler;
  const item = rules.rule('an item');
  const inside = rules.marked(rules.start(item), '"', MARK.open);
  const end = rules.state();
  rules.marked(end, '"', MARK.close, rules.state(true));
  writeText(compiler, s, compiler.spelled(), inside, end);
  const more = rules.rule('an item');
  rules.call(rules.literal(rules.start(more), ', '), item, rules.state(true));

  const begun = rules.marked(from, '[', MARK.list);
  const close = rules.state();
  rules.marked(close, ']', MARK.shut, to);
  if (!min) rules.skip(begun, close);
  const first = rules.state();
  rules.call(begun, item, first);
  rules.call(first, more, close, Math.max(0, min - 1), Math.min(max, MOST_DIFFERENT) - 1);
  rules.slack += 1 + min * min;
}

/** @param {Compiler} compiler @param {Shape['array']} array @param {number} from @param {number} to */
function writeUnique(compiler, array, from, to) {
  const { prefix, rest, min, max } = array;
  const values = prefix.length ? null : allOf(compiler, rest);
  if (values) return writeInOrder(compiler, values, array, from, to);
  if (max <= 1) return writeSome(compiler, array, from, to);
  if (array.contains.length)
    throw refused(
      'contains beside uniqueItems is supported where items are of an enum, or at most one',
      'give the items an enum, or leave one of the two out',
    );
  const strings = prefix.length || min > MOST_NEEDED ? null : endless(compiler, rest);
  if (strings) return writeDifferent(compiler, strings, array, from, to);
  const each = prefix.map((sub) => allOf(compiler, sub));
  const lists = /** @type {any[][]} */ (each.filter(Boolean));
  const tuples = lists.reduce((product, list) => product * list.length, 1);
  if (!prefix.length || lists.length < prefix.length || tuples > MOST_TUPLES || min > prefix.length)
    throw refused(
      'uniqueItems is supported where items are of few values, strings that may be of any length, or at most one',
      'give the items an enum, or leave uniqueItems out and drop repetitions afterwards',
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
  compiler.writer.dfa(from, ofTexts(found.map(jsonOf)), to, false);
}

/** @param {Compiler} compiler @param {Shape['array']} array @param {number} from @param {number} to */
function writeItems(compiler, { prefix, rest, min, max }, from, to) {
  const { rules } = compiler;
  let at = rules.literal(from, '[');
  const close = rules.state();
  rules.literal(close, ']', to);
  prefix.forEach((sub, i) => {
    if (i >= min && i <= max) rules.skip(at, close);
    const next = rules.state();
    if (i < max) rules.call(i ? rules.literal(at, ', ') : at, compiler.rule(sub), next);
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
  const more = rules.rule('an item');
  rules.call(rules.literal(rules.start(more), ', '), compiler.rule(rest), rules.state(true));
  const had = Math.max(n, 1);
  rules.call(first, more, close, Math.max(0, min - had), max - had);
}

/**
 * Items of which so many must keep to a schema, wherever they lie: an item is taken as one that counts, or as any (one that doesn't,
 * where too many may come).
 * @param {Compiler} compiler @param {Shape['array']} array @param {number} from @param {number} to
 */
function writeCounted(compiler, { prefix, rest, min, max, contains }, from, to) {
  const { rules } = compiler;
  const limits = countsOf(contains);
  // Behind so many items all are alike.
  const last = max < Infinity ? max : Math.max(min, prefix.length, ...contains.map(({ from }) => from), 1);
  const most = (last + 1) * limits.reduce((product, limit) => product * (limit + 1), 1) * 2 ** contains.length;
  if (most > MOST_COUNTED) throw tooLarge('contains beside limits of the number of items');
  /** What item n is if it counts for some and not for others; null: nothing is. @param {number} n @param {boolean[]} counts @returns {Sub | null} */
  const itemOf = (n, counts) => {
    const sub = contains.reduce((all, one, k) => {
      if (counts[k]) return andSub(all, one.sub);
      if (n < one.from) return all;
      return one.max < Infinity ? andSub(all, { pos: one.sub.neg, neg: one.sub.pos }) : all;
    }, prefix[n] ?? rest);
    return compiler.hasShape(sub) ? sub : null;
  };
  const ways = Array.from({ length: 2 ** contains.length }, (_, bits) =>
    contains.map((_one, k) => ((bits >> k) & 1) === 1),
  );
  const close = rules.state();
  rules.literal(close, ']', to);
  /** Behind n items, with such counts. @type {Map<string, number>} */
  const states = new Map();
  /** @type {{ n: number, counts: number[], state: number }[]} */
  const todo = [];
  const state = (/** @type {number} */ n, /** @type {number[]} */ counts) => {
    const key = `${n} ${counts}`;
    let known = states.get(key);
    if (known === undefined) {
      known = rules.state();
      states.set(key, known);
      todo.push({ n, counts, state: known });
    }
    return known;
  };
  rules.literal(
    from,
    '[',
    state(
      0,
      limits.map(() => 0),
    ),
  );
  for (const { n, counts, state: at } of todo) {
    if (n >= min && contains.every((one, k) => counts[k] >= one.min)) rules.skip(at, close);
    if (n === max) continue;
    const before = n ? rules.literal(at, ', ') : at;
    for (const way of ways) {
      const next = counts.map((count, k) => count + (way[k] ? 1 : 0));
      // More than the least is counted only where there is a most.
      if (next.some((count, k) => count > limits[k])) continue;
      if (way.some((counted, k) => counted && n < contains[k].from)) continue;
      const sub = itemOf(n, way);
      if (sub) rules.call(before, compiler.rule(sub), state(Math.min(n + 1, last), next));
    }
  }
}

/** @param {Compiler} compiler @param {Shape['array']} array @param {number} from @param {number} to */
function writeSome(compiler, array, from, to) {
  if (array.contains.length) writeCounted(compiler, array, from, to);
  else writeItems(compiler, array, from, to);
}

/** @param {Compiler} compiler @param {Shape} s @param {number} from @param {number} to */
export function writeArray(compiler, s, from, to) {
  // An array that is excluded: none is written, as there is something else.
  if ([...s.excluded.values()].some(Array.isArray)) {
    if (s.types.size === 1) throw refused('not with an array in const or enum is not supported');
    return;
  }
  if (s.array.repeats) {
    if (s.array.unique) return;
    // Two items that are alike: the least that says so.
    const sub = s.array.prefix[0] ?? s.array.rest;
    const values =
      s.array.prefix.length || s.array.contains.length || s.array.min > 2 || s.array.max < 2
        ? null
        : allOf(compiler, sub);
    if (!values && sub !== TRUE) throw refused('not with uniqueItems is not supported');
    compiler.writer.dfa(from, ofTexts((values ?? [0, null, true]).map((v) => jsonOf([v, v]))), to, false);
    return;
  }
  const array = s.array.min <= s.array.max ? contained(s.array) : null;
  if (array?.unique) writeUnique(compiler, array, from, to);
  else if (array) writeSome(compiler, array, from, to);
}
