/** Arrays of a shape, as rules. */
import { ofTexts } from '../dfa.js';
import { refused } from '../failure.js';
import { MARK } from '../ir.js';
import { jsonOf, stringDfa } from './scalars.js';
import { andSub, canonical, TRUE } from './shapes.js';

/** @import { Compiler } from './index.js' */
/** @import { Shape, Sub } from './shapes.js' */

const MOST_LISTED = 64;
const MOST_TUPLES = 4096;
/** Items of a list of different strings, at most, and at least where it must have some. */
const MOST_DIFFERENT = 1000;
const MOST_NEEDED = 16;

/** All values of a schema; null: too many. @param {Compiler} compiler @param {Sub} sub @returns {any[] | null} */
function allOf(compiler, sub) {
  /** @type {Map<string, any>} */
  const found = new Map();
  for (const s of compiler.shapesOf(sub)) {
    const few = !['number', 'string', 'array', 'object'].some((type) => s.types.has(type));
    if (!s.values && !few) return null;
    for (const value of s.values?.values() ?? [null, true, false])
      if (compiler.admission.admits(s, value)) found.set(canonical(value), value);
  }
  return found.size <= MOST_LISTED ? [...found.values()] : null;
}

/** Where what `contains` asks for may lie: ways to say it by items. @param {Shape['array']} array @returns {Shape['array'][]} */
function spelled({ contains: [first, ...others], ...array }) {
  if (!first) return [{ ...array, contains: [] }];
  const { sub, min, max } = first;
  const no = max < Infinity;
  /** Items that are none of those asked for. @type {(item: Sub) => Sub} */
  const other = (item) =>
    no && sub.pos.length === 1 && !sub.neg.length ? andSub(item, { pos: [], neg: sub.pos }) : item;
  if (no && (sub.pos.length !== 1 || sub.neg.length))
    throw refused('contains with a limit and a schema that is always true is not supported');
  if (max < min) return [];
  const prefix = array.prefix.map(other);
  const rest = other(array.rest);
  const wanted = Array.from({ length: min }, () => andSub(array.rest, sub));
  const ways = [
    { ...array, prefix: [...prefix, ...wanted], rest, min: Math.max(array.min, prefix.length + min), contains: others },
  ];
  if (min === 1)
    array.prefix.forEach((item, i) =>
      ways.push({
        ...array,
        prefix: prefix.with(i, andSub(item, sub)),
        rest,
        min: Math.max(array.min, i + 1),
        contains: others,
      }),
    );
  return ways.flatMap(spelled);
}

/** Lists of values in the order they are listed in, each once. @param {Compiler} compiler @param {any[]} values @param {Shape['array']} array @param {number} from @param {number} to */
function writeInOrder({ rules }, values, { min, max }, from, to) {
  const most = Math.min(max, values.length);
  /** Behind value i, with n before it. @type {Map<string, number>} */
  const states = new Map();
  const state = (/** @type {number} */ i, /** @type {number} */ n) => {
    const key = `${i} ${n}`;
    const known = states.get(key) ?? rules.state();
    states.set(key, known);
    return known;
  };
  rules.literal(from, '[', state(0, 0));
  for (let i = 0; i <= values.length; i++)
    for (let n = 0; n <= Math.min(i, most); n++) {
      if (n >= min) rules.literal(state(i, n), ']', to);
      if (i === values.length) continue;
      rules.skip(state(i, n), state(i + 1, n));
      if (n < most) rules.literal(state(i, n), `${n ? ', ' : ''}${jsonOf(values[i])}`, state(i + 1, n + 1));
    }
}

/** The one shape of items that are strings which can always become longer. @param {Compiler} compiler @param {Sub} sub @returns {Shape | null} */
function endless(compiler, sub) {
  const [s, ...others] = compiler.shapesOf(sub);
  if (!s || others.length || s.values || [...s.types].join() !== 'string') return null;
  const dfa = stringDfa(s);
  const goesOn = dfa ? dfa.every(({ accepts, edges }) => !accepts || edges.length) : s.string.max > 0;
  return goesOn ? s : null;
}

/** Lists of different strings: marks say where C compares them. @param {Compiler} compiler @param {Shape} s @param {Shape['array']} array @param {number} from @param {number} to */
function writeDifferent(compiler, s, { min, max }, from, to) {
  const { rules, writer } = compiler;
  const item = rules.rule('an item');
  const inside = rules.marked(rules.start(item), '"', MARK.open);
  const end = rules.state();
  rules.marked(end, '"', MARK.close, rules.state(true));
  const dfa = stringDfa(s);
  if (dfa) writer.dfa(inside, dfa, end, true);
  else rules.call(inside, compiler.spelled(), end, s.string.min, s.string.max);
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
  if (max <= 1) return writeItems(compiler, array, from, to);
  const strings = prefix.length || min > MOST_NEEDED ? null : endless(compiler, rest);
  if (strings) return writeDifferent(compiler, strings, array, from, to);
  const each = prefix.map((sub) => allOf(compiler, sub));
  const lists = /** @type {any[][]} */ (each.filter(Boolean));
  const tuples = lists.reduce((product, list) => product * list.length, 1);
  if (!prefix.length || lists.length < prefix.length || tuples > MOST_TUPLES || min > prefix.length)
    throw refused(
      'uniqueItems is supported where items are of an enum, strings that may be of any length, or at most one',
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
  for (const array of spelled(s.array)) {
    if (array.min > array.max) continue;
    if (array.unique) writeUnique(compiler, array, from, to);
    else writeItems(compiler, array, from, to);
  }
}
