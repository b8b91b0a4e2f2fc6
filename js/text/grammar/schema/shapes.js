/**
 * Shapes: the normal form of a schema. A schema becomes a list of shapes, and a value satisfies it if it has one of
 * them. A shape has conditions for values of each type. A value has two shapes exactly if it has their merger
 * (`merge`).
 */
import { intersection } from '../dfa.js';
import { grammarError } from '../failure.js';

/** @import { Dfa } from '../dfa.js' */

/**
 * A combination of schemas, by their numbers: values must satisfy all of `pos` and none of `neg`.
 * @typedef {{ pos: number[], neg: number[] }} Sub
 */
/**
 * Values that a property may have, as far as its schema lists values itself: one of `only` (null: any) and none of
 * `not`, as canonical texts. Properties that distinguish alternatives (a kind, a type) are mostly written so.
 * Contradicting alternatives are detected by it without computing the shapes of the property.
 * @typedef {{ only: Set<string> | null, not: Set<string> }} Known
 */

/**
 * A condition of `contains`: from index `from` on, `min` to `max` items satisfy a combination.
 * @typedef {{ sub: Sub, from: number, min: number, max: number }} Contained
 */

/**
 * A property that an object must have, not further determined: its name is none of `names`, matches none of `patterns`
 * and matches `pattern` (null: any name), and its value satisfies a combination.
 * @typedef {{ sub: Sub, names: string[], patterns: string[], pattern: string | null }} Witness
 */

/**
 * Conditions for numbers. `min` and `max` are inclusive limits, `above` and `below` exclusive ones.
 * @typedef {object} NumberShape
 * @property {boolean} integer   whether the number must be an integer
 * @property {boolean} fraction  whether the number must not be an integer
 * @property {number} min
 * @property {number} max
 * @property {number} above
 * @property {number} below
 * @property {number[]} multiples     numbers of which it must be a multiple
 * @property {number[]} notMultiples  numbers of which it must not be a multiple
 */

/**
 * Conditions for strings: limits of length, in characters, and an automaton (null: any string).
 * @typedef {{ min: number, max: number, dfa: Dfa | null }} StringShape
 */

/**
 * Conditions for arrays.
 * @typedef {object} ArrayShape
 * @property {Sub[]} prefix  conditions for the first items
 * @property {Sub} rest      condition for the other items
 * @property {number} min    number of items
 * @property {number} max
 * @property {Contained[]} contains
 * @property {boolean} unique   whether all items must be different
 * @property {boolean} repeats  whether two items must be equal
 * @property {{ count: number, all: boolean, contains: any[] }} evaluated  items that keywords have evaluated: the first
 *   `count` ones, or all, and those that satisfy a schema in `contains`. `unevaluatedItems` concerns the others
 */

/**
 * A condition for the properties whose names are none of `names` and match none of `patterns`. `none`: there must be no
 * such property.
 * @typedef {{ sub: Sub, none: boolean, names: string[], patterns: string[] }} Additional
 */

/**
 * Conditions for objects.
 * @typedef {object} ObjectShape
 * @property {Map<string, Sub>} properties  by name
 * @property {Map<string, Known>} known     by name
 * @property {Map<string, Sub>} patterns    by a pattern of names
 * @property {Additional[]} additional
 * @property {Sub[]} names  conditions for all names
 * @property {Set<string>} required
 * @property {Set<string>} forbidden
 * @property {number} min   number of properties
 * @property {number} max
 * @property {Witness[]} witnesses
 * @property {boolean} open  whether the schema describes unnamed properties, so that they are written
 * @property {{ names: Set<string>, patterns: Set<string>, all: boolean }} evaluated  properties that keywords have
 *   evaluated: by name, by pattern, or all. `unevaluatedProperties` concerns the others
 */

/**
 * Conditions for a value. `number`, `string`, `array` and `object` apply to values of that type only.
 * @typedef {object} Shape
 * @property {Set<string>} types
 * @property {Map<string, any> | null} values  allowed values, by canonical text; null: all
 * @property {Map<string, any>} excluded       excluded values, by canonical text
 * @property {NumberShape} number
 * @property {StringShape} string
 * @property {ArrayShape} array
 * @property {ObjectShape} object
 */

export const TYPES = ['null', 'boolean', 'number', 'string', 'array', 'object'];
/** @type {Sub} */
export const TRUE = { pos: [], neg: [] };
/** Maximum number of alternatives of a schema, and of a combination of schemas. */
const MAX_ALTERNATIVES = 512;

/** @param {number[]} a @param {number[]} b */
const mergeNumbers = (a, b) =>
  a.length && b.length ? [...new Set([...a, ...b])].sort((x, y) => x - y) : a.length ? a : b;
/** @param {Sub} a @param {Sub} b @returns {Sub} */
export const andSub = (a, b) => ({ pos: mergeNumbers(a.pos, b.pos), neg: mergeNumbers(a.neg, b.neg) });
/** @param {Sub} sub */
export const keyOfSub = ({ pos, neg }) => `${pos.join()}!${neg.join()}`;

/** Returns the shape of all values of some types. @param {string[]} [types] @returns {Shape} */
export const shape = (types = TYPES) => ({
  types: new Set(types),
  values: null,
  excluded: new Map(),
  number: {
    integer: false,
    fraction: false,
    min: -Infinity,
    max: Infinity,
    above: -Infinity,
    below: Infinity,
    multiples: [],
    notMultiples: [],
  },
  string: { min: 0, max: Infinity, dfa: null },
  array: {
    prefix: [],
    rest: TRUE,
    min: 0,
    max: Infinity,
    contains: [],
    unique: false,
    repeats: false,
    evaluated: { count: 0, all: false, contains: [] },
  },
  object: {
    properties: new Map(),
    known: new Map(),
    patterns: new Map(),
    additional: [],
    names: [],
    required: new Set(),
    forbidden: new Set(),
    min: 0,
    max: Infinity,
    witnesses: [],
    open: false,
    evaluated: { names: new Set(), patterns: new Set(), all: false },
  },
});

/** Shape of all values; the neutral element of `merge`. */
export const ANYTHING = shape();

/** @param {Map<string, Sub>} a @param {Map<string, Sub>} b */
function mergeSubs(a, b) {
  const all = new Map(a);
  for (const [name, sub] of b) all.set(name, andSub(all.get(name) ?? TRUE, sub));
  return all;
}

/** @param {Map<string, Known>} a @param {Map<string, Known>} b */
function mergeKnown(a, b) {
  const all = new Map(a);
  for (const [name, { only, not }] of b) {
    const other = all.get(name);
    const common = other?.only && only ? new Set([...only].filter((text) => other.only?.has(text))) : null;
    all.set(name, {
      only: common ?? other?.only ?? only,
      not: other ? new Set([...other.not, ...not]) : not,
    });
  }
  return all;
}

/** Whether no object can have a shape, as far as this is visible without its subschemas. @param {ObjectShape} o */
const isImpossibleObject = ({ required, forbidden, known, additional, min, max }) =>
  min > max ||
  [...required].some((name) => {
    const { only, not } = known.get(name) ?? { only: null, not: new Set() };
    return (
      forbidden.has(name) ||
      (only && [...only].every((text) => not.has(text))) ||
      additional.some(({ none, names, patterns }) => none && !patterns.length && !names.includes(name))
    );
  });

/** @param {ArrayShape} a @param {ArrayShape} b @returns {ArrayShape} */
const mergeArrays = (a, b) => ({
  prefix: Array.from({ length: Math.max(a.prefix.length, b.prefix.length) }, (_, i) =>
    andSub(a.prefix[i] ?? a.rest, b.prefix[i] ?? b.rest),
  ),
  rest: andSub(a.rest, b.rest),
  min: Math.max(a.min, b.min),
  max: Math.min(a.max, b.max),
  contains: [...a.contains, ...b.contains],
  unique: a.unique || b.unique,
  repeats: a.repeats || b.repeats,
  evaluated: {
    count: Math.max(a.evaluated.count, b.evaluated.count),
    all: a.evaluated.all || b.evaluated.all,
    contains: [...a.evaluated.contains, ...b.evaluated.contains],
  },
});

/** @param {ObjectShape} a @param {ObjectShape} b @returns {ObjectShape} */
const mergeObjects = (a, b) => ({
  properties: mergeSubs(a.properties, b.properties),
  known: mergeKnown(a.known, b.known),
  patterns: mergeSubs(a.patterns, b.patterns),
  additional: [...a.additional, ...b.additional],
  names: [...a.names, ...b.names],
  required: new Set([...a.required, ...b.required]),
  forbidden: new Set([...a.forbidden, ...b.forbidden]),
  min: Math.max(a.min, b.min),
  max: Math.min(a.max, b.max),
  witnesses: [...a.witnesses, ...b.witnesses],
  open: a.open || b.open,
  evaluated: {
    names: new Set([...a.evaluated.names, ...b.evaluated.names]),
    patterns: new Set([...a.evaluated.patterns, ...b.evaluated.patterns]),
    all: a.evaluated.all || b.evaluated.all,
  },
});

/**
 * Returns the shape of the values that have both shapes, or null if there are none.
 * @param {Shape} a @param {Shape} b @returns {Shape | null}
 */
export function merge(a, b) {
  if (a === ANYTHING && !isImpossibleObject(b.object)) return b;
  const types = new Set([...a.types].filter((type) => b.types.has(type)));
  if (!types.size) return null;
  const values =
    a.values && b.values ? new Map([...a.values].filter(([key]) => b.values?.has(key))) : (a.values ?? b.values);
  if (values && !values.size) return null;
  const object = mergeObjects(a.object, b.object);
  if (types.has('object') && isImpossibleObject(object)) types.delete('object');
  if (!types.size) return null;
  const [n, m] = [a.number, b.number];
  return {
    types,
    values,
    excluded: new Map([...a.excluded, ...b.excluded]),
    number: {
      integer: n.integer || m.integer,
      fraction: n.fraction || m.fraction,
      min: Math.max(n.min, m.min),
      max: Math.min(n.max, m.max),
      above: Math.max(n.above, m.above),
      below: Math.min(n.below, m.below),
      multiples: [...n.multiples, ...m.multiples],
      notMultiples: [...n.notMultiples, ...m.notMultiples],
    },
    string: {
      min: Math.max(a.string.min, b.string.min),
      max: Math.min(a.string.max, b.string.max),
      dfa: a.string.dfa && b.string.dfa ? intersection(a.string.dfa, b.string.dfa) : (a.string.dfa ?? b.string.dfa),
    },
    array: mergeArrays(a.array, b.array),
    object,
  };
}

/**
 * Throws GRAMMAR if a keyword makes too many alternatives.
 * @param {number} count @param {string} subject  what makes them, for the message
 */
export function checkAlternatives(count, subject) {
  if (count <= MAX_ALTERNATIVES) return;
  const hint = subject.startsWith('oneOf')
    ? 'give each alternative a required property of its own, or one with a different const in each, or use anyOf'
    : 'use fewer alternatives in anyOf, oneOf, if and dependencies, or fewer of these keywords in one place';
  throw grammarError(
    `${subject}: ${count} combinations of alternatives; at most ${MAX_ALTERNATIVES} are supported`,
    hint,
  );
}

/**
 * Returns the mergers of all pairs that do not contradict. Throws GRAMMAR if there are too many pairs.
 * @param {Shape[]} a @param {Shape[]} b @param {string} subject  what is combined, for the message
 */
export function cross(a, b, subject) {
  checkAlternatives(a.length * b.length, subject);
  return a.flatMap((x) => b.flatMap((y) => merge(x, y) ?? []));
}

/** Whether a shape only forbids properties. @param {Shape} s */
const onlyForbids = ({ types, values, object }) =>
  !values && types.size === 1 && types.has('object') && object.forbidden.size > 0 && !object.properties.size;

/**
 * Merges each shape with only one part of the negation of a schema, which forbids a property that the schema requires.
 * Returns null if the negation has no such part for a shape. The result excludes some values that have both shapes.
 * @param {Shape[]} all @param {Shape[]} negation
 * @returns {Shape[] | null}
 */
export function crossForbidding(all, negation) {
  const parts = negation.filter(onlyForbids);
  const shapes = all.map((x) => parts.map((part) => merge(x, part)).find(Boolean));
  return shapes.every(Boolean) ? /** @type {Shape[]} */ (shapes) : null;
}

/** @param {any} value */
export const typeOf = (value) => (value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value);

/** Returns a text that is the same for equal values. @param {any} value @returns {string} */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value === 'object' && value)
    return `{${Object.keys(value)
      .sort()
      .map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`)
      .join()}}`;
  return JSON.stringify(value === 0 ? 0 : value);
}
