/**
 * Shapes: the normal form of a schema. A value satisfies the schema if it has one of its shapes; a shape states the conditions for values
 * of each type. A value has two shapes if it has their merger.
 */
import { both } from '../dfa.js';
import { tooLarge } from '../failure.js';

/** @import { Dfa } from '../dfa.js' */

/** A combination of schemas by their numbers: a value satisfies all of `pos` and none of `neg`. @typedef {{ pos: number[], neg: number[] }} Sub */
/**
 * What is seen of a property's value without asking what its schemas hold of: it is one of `only` (null: any), none of
 * `not`, as canonical texts. What tells alternatives apart (a kind, a type) is mostly written so.
 * @typedef {{ only: Set<string> | null, not: Set<string> }} Known
 */

/** A condition of `contains`: of the items from index `from` on, `min` to `max` satisfy a combination. @typedef {{ sub: Sub, from: number, min: number, max: number }} Contained */

/**
 * @typedef {object} Shape
 * @property {Set<string>} types
 * @property {Map<string, any> | null} values     it is one of these
 * @property {Map<string, any>} excluded          and none of these
 * @property {{ integer: boolean, fraction: boolean, min: number, max: number, above: number, below: number, multiples: number[], notMultiples: number[] }} number
 * @property {{ min: number, max: number, dfa: Dfa | null }} string
 * @property {{ prefix: Sub[], rest: Sub, min: number, max: number, contains: Contained[], unique: boolean, repeats: boolean,
 *   evaluated: { count: number, all: boolean, contains: any[] } }} array  evaluated: the first so many items, or all, and those that one of these schemas holds of
 * @property {{ properties: Map<string, Sub>, known: Map<string, Known>, patterns: Map<string, Sub>, additional: { sub: Sub, none: boolean, names: string[], patterns: string[] }[],
 *   names: Sub[], required: Set<string>, forbidden: Set<string>, min: number, max: number, some: { sub: Sub, names: string[], patterns: string[], inside: string | null }[],
 *   open: boolean, evaluated: { names: Set<string>, patterns: Set<string>, all: boolean } }} object
 *
 * `evaluated` is what keywords that hold have spoken of: the `unevaluated…` ones are about the rest.
 */

export const TYPES = ['null', 'boolean', 'number', 'string', 'array', 'object'];
/** @type {Sub} */
export const TRUE = { pos: [], neg: [] };
/** Maximum number of alternatives of a schema, and of a combination of schemas. */
const MAX_ALTERNATIVES = 512;

/** @param {number[]} a @param {number[]} b */
const merged = (a, b) => (a.length && b.length ? [...new Set([...a, ...b])].sort((x, y) => x - y) : a.length ? a : b);
/** @param {Sub} a @param {Sub} b @returns {Sub} */
export const andSub = (a, b) => ({ pos: merged(a.pos, b.pos), neg: merged(a.neg, b.neg) });
/** @param {Sub} sub */
export const keyOfSub = ({ pos, neg }) => `${pos.join()}!${neg.join()}`;

/** Anything, of some types. @param {string[]} [types] @returns {Shape} */
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
    some: [],
    open: false,
    evaluated: { names: new Set(), patterns: new Set(), all: false },
  },
});

/** What is merged with others first. */
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

/** Whether nothing can be an object of this kind, as far as is seen at once. @param {Shape['object']} o */
const noObject = ({ required, forbidden, known, additional, min, max }) =>
  min > max ||
  [...required].some((name) => {
    const { only, not } = known.get(name) ?? { only: null, not: new Set() };
    return (
      forbidden.has(name) ||
      (only && [...only].every((text) => not.has(text))) ||
      additional.some(({ none, names, patterns }) => none && !patterns.length && !names.includes(name))
    );
  });

/** @param {Shape['array']} a @param {Shape['array']} b @returns {Shape['array']} */
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

/** @param {Shape['object']} a @param {Shape['object']} b @returns {Shape['object']} */
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
  some: [...a.some, ...b.some],
  open: a.open || b.open,
  evaluated: {
    names: new Set([...a.evaluated.names, ...b.evaluated.names]),
    patterns: new Set([...a.evaluated.patterns, ...b.evaluated.patterns]),
    all: a.evaluated.all || b.evaluated.all,
  },
});

/** Both at once; null: no value has both. @param {Shape} a @param {Shape} b @returns {Shape | null} */
export function merge(a, b) {
  if (a === ANYTHING && !noObject(b.object)) return b;
  const types = new Set([...a.types].filter((type) => b.types.has(type)));
  if (!types.size) return null;
  const values =
    a.values && b.values ? new Map([...a.values].filter(([key]) => b.values?.has(key))) : (a.values ?? b.values);
  if (values && !values.size) return null;
  const object = mergeObjects(a.object, b.object);
  if (types.has('object') && noObject(object)) types.delete('object');
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
      dfa: a.string.dfa && b.string.dfa ? both(a.string.dfa, b.string.dfa) : (a.string.dfa ?? b.string.dfa),
    },
    array: mergeArrays(a.array, b.array),
    object,
  };
}

/** All pairs that can be. GRAMMAR: there are too many. @param {Shape[]} a @param {Shape[]} b */
export function cross(a, b) {
  if (a.length * b.length > MAX_ALTERNATIVES) throw tooLarge('the combination of alternatives in the schema');
  return a.flatMap((x) => b.flatMap((y) => merge(x, y) ?? []));
}

/** @param {any} value */
export const typeOf = (value) => (value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value);

/** One text for equal values. @param {any} value @returns {string} */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value === 'object' && value)
    return `{${Object.keys(value)
      .sort()
      .map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`)
      .join()}}`;
  return JSON.stringify(value === 0 ? 0 : value);
}
