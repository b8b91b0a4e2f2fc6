/**
 * The keywords of JSON Schema. Each has two functions: `yes` returns the shapes of the values that satisfy it, `no` the
 * shapes of the values that do not. A value satisfies a schema if it satisfies all of its keywords.
 */
import { ANY, intersection, dfaOfTree, difference } from '../dfa.js';
import { grammarError, tooLargeError } from '../failure.js';
import { dfaOfRegex } from '../lookaheads.js';
import { shown } from '../../../shared/quote-value.js';
import { isInexact, isRounded } from '../../../shared/rounded-number.js';
import { parseRegex } from '../regex.js';
import { formatTexts, isFormat, otherTexts, NUMBER_FORMATS, SHOWN_FORMATS } from './formats.js';
import { isObject } from './registry.js';
import { andSub, canonical, cross, merge, shape, TRUE, TYPES, typeOf } from './shapes.js';

/** @import { CharSet } from '../../regex/sets.js' */
/** @import { Dfa } from '../dfa.js' */
/** @import { Ahead } from '../regex.js' */
/** @import { Known, Shape, Sub } from './shapes.js' */

/**
 * Services of the compiler for keywords.
 * @typedef {object} Context
 * @property {(schema: any) => Shape[]} yes  returns the shapes of the values that satisfy a schema
 * @property {(schema: any) => Shape[]} no  returns the shapes of the values that do not satisfy a schema
 * @property {(schema: any) => Sub} sub  returns a schema as a combination
 * @property {(schema: any) => Sub} notSub  returns the negation of a schema as a combination
 * @property {(ref: string, from: any) => any} target  returns the schema that a `$ref` of the schema `from` refers to
 * @property {(ref: string, from: any) => any} dynamicTarget  the same for `$dynamicRef`
 * @property {(pattern: any) => Dfa} pattern  returns the strings that contain a match
 * @property {(pattern: any) => { dfa: Dfa, min: number, max: number }} limitedPattern  returns such strings, with
 *   limits of length as numbers
 * @property {(warning: string) => void} warn  reports an ignored part of the schema
 * @property {boolean} unevaluated  whether the schema has an `unevaluated…` keyword somewhere. If so, the result of
 *   `yes` may exclude values that satisfy a schema
 * @property {boolean} containsEvaluates  whether `contains` evaluates items: false in draft 2019-09
 */

/** The function `yes` or `no` of a keyword. @typedef {(value: any, context: Context, schema: any) => Shape[]} Side */

/**
 * Returns a list of one new shape, changed by `set`.
 * @param {string[] | undefined} types @param {(s: Shape) => void} set @returns {Shape[]}
 */
function one(types, set) {
  const s = shape(types);
  set(s);
  return [s];
}

/** @param {string} name @param {any} value @param {(value: any) => boolean} isValid @param {string} expected */
function must(name, value, isValid, expected) {
  if (!isValid(value)) throw grammarError(`${name} must be ${expected}`);
}

const isNumber = (/** @type {any} */ v) => typeof v === 'number' && Number.isFinite(v);
const isCount = (/** @type {any} */ v) => isNumber(v) && v >= 0 && v % 1 === 0;
const isNames = (/** @type {any} */ v) => Array.isArray(v) && v.every((name) => typeof name === 'string');
const isList = (/** @type {any} */ v) => Array.isArray(v) && v.length > 0;

/** Smallest maximum of a lookahead such as (?=.{1,253}$) that is enforced by counting instead of by states. */
const MIN_COUNTED = 64;
/** Limits from here on have no effect: no text can reach them. */
const UNREACHABLE = 2 ** 32 - 1;
/** Returns a maximum, or Infinity if it has no effect. @param {number} v */
const upperLimit = (v) => (v < UNREACHABLE ? v : Infinity);
/** Returns a minimum. Throws GRAMMAR if no text can be so long. @param {string} name @param {number} v */
function lowerLimit(name, v) {
  if (v >= UNREACHABLE) throw tooLargeError(`${name} ${v}`);
  return v;
}

/**
 * Creates a keyword for the minimum or maximum length of values of one type.
 * @param {string} name @param {'string' | 'array' | 'object'} type @returns {[string, { yes: Side, no: Side }]}
 */
const lengthKeyword = (name, type) =>
  limitKeyword(
    name,
    type,
    name.startsWith('max') ? (s, v) => (s[type].max = upperLimit(v)) : (s, v) => (s[type].min = lowerLimit(name, v)),
    name.startsWith('max')
      ? (s, v) => (s[type].min = lowerLimit(name, v) + 1)
      : (s, v) => (s[type].max = upperLimit(v) - 1),
  );

/**
 * Creates a keyword that limits values of one type by a number.
 * @param {string} name @param {string} type @param {(s: Shape, v: number) => void} yes
 * @param {(s: Shape, v: number) => void} no @param {(v: any) => boolean} [isValid]
 * @returns {[string, { yes: Side, no: Side }]}
 */
const limitKeyword = (name, type, yes, no, isValid = isCount) => [
  name,
  {
    yes: (v) => (
      must(name, v, isValid, isValid === isCount ? 'an integer, at least 0' : 'a number'),
      one(undefined, (s) => yes(s, v))
    ),
    no: (v) => one([type], (s) => no(s, v)),
  },
];

/**
 * Returns a limit of numbers. A limit of integers beyond 2^53 may have been rounded when the schema was parsed. It is
 * then made stricter by the rounding error, so that written values keep the intended limit.
 * @param {string} name @param {any} v @param {boolean} isLarger  whether larger values are allowed
 * @param {Context} context @param {any} schema
 */
function limitOf(name, v, isLarger, context, schema) {
  if (!isRounded(v) || ![schema.type].flat().includes('integer')) return v;
  const nearest = v * (1 + (v > 0 === isLarger ? Number.EPSILON : -Number.EPSILON));
  context.warn(`"${name}" is ${v}, beyond 2^53, where numbers are rounded: the limit is ${nearest}`);
  return nearest;
}

/**
 * Throws GRAMMAR if the values of `enum` or `const` contain an integer that may have been rounded.
 * @param {string} name @param {any} values
 */
function mustBeExact(name, values) {
  JSON.stringify(values, (_, v) => {
    if (!isInexact(v)) return v;
    throw grammarError(
      `${name} has the integer ${v}: beyond 2^53, where numbers of JavaScript are rounded, none is supported`,
      'use a string, or a pattern of digits',
    );
  });
}

/**
 * Creates the keywords of an inclusive and an exclusive limit of numbers. In draft 4 the exclusive keyword is a boolean
 * that makes the other one exclusive.
 * @param {string} name @param {string} exclusive
 * @param {{ in: 'min' | 'max', out: 'above' | 'below' }} inside  fields of the shape for the limit: inclusive (`in`),
 *   exclusive (`out`)
 * @param {{ in: 'min' | 'max', out: 'above' | 'below' }} beyond  the same fields for the negated limit
 * @returns {[string, { yes: Side, no: Side }][]}
 */
function boundKeywords(name, exclusive, inside, beyond) {
  const flag = (/** @type {any} */ schema) => schema[exclusive] === true;
  const isLarger = inside.in === 'min';
  const boolean = (/** @type {any} */ v) => typeof v === 'boolean';
  return [
    [
      name,
      {
        yes: (v, c, schema) => (
          must(name, v, isNumber, 'a number'),
          one(
            undefined,
            (s) => (s.number[flag(schema) ? inside.out : inside.in] = limitOf(name, v, isLarger, c, schema)),
          )
        ),
        no: (v, c, schema) =>
          one(
            ['number'],
            (s) => (s.number[flag(schema) ? beyond.in : beyond.out] = limitOf(name, v, !isLarger, c, schema)),
          ),
      },
    ],
    [
      exclusive,
      {
        yes: (v, c, schema) => {
          if (boolean(v)) return [shape()];
          must(exclusive, v, isNumber, 'a number');
          return one(undefined, (s) => (s.number[inside.out] = limitOf(exclusive, v, isLarger, c, schema)));
        },
        no: (v, c, schema) =>
          boolean(v) ? [] : one(['number'], (s) => (s.number[beyond.in] = limitOf(exclusive, v, !isLarger, c, schema))),
      },
    ],
  ];
}

/** @param {any[]} values */
const byText = (values) => new Map(values.map((value) => [canonical(value), value]));

/**
 * Returns the types of a schema, and null in addition if OpenAPI's `nullable` is set.
 * @param {any} type @param {any} schema
 */
const typesOf = (type, schema) => (schema.nullable === true ? [type, 'null'].flat() : type);

/**
 * Returns the shapes of some types, or of all other types.
 * @param {any} names @param {boolean} not  whether of the others
 */
function ofTypes(names, not) {
  const all = [names].flat();
  for (const name of all)
    if (![...TYPES, 'integer'].includes(name)) throw grammarError(`expected the name of a type, found ${shown(name)}`);
  const plain = TYPES.filter(
    (type) => all.includes(type) !== not && !(not && type === 'number' && all.includes('integer')),
  );
  const shapes = plain.length ? [shape(plain)] : [];
  const integers = all.includes('integer') && !all.includes('number');
  if (integers) shapes.push(...one(['number'], (s) => (s.number[not ? 'fraction' : 'integer'] = true)));
  return shapes;
}

/** Returns the strings that contain a match of a pattern. @param {any} pattern */
export function patternDfa(pattern) {
  must('a pattern', pattern, (v) => typeof v === 'string', 'a string');
  return dfaOfRegex(parseRegex(pattern), { search: true });
}

/**
 * Returns the length that a lookahead such as (?=.{1,253}$) requires of the complete string, and the set of its
 * characters. Optional parts after the counted characters are ignored. Returns null for other lookaheads.
 * @param {Ahead} ahead @returns {{ min: number, max: number, set: CharSet } | null}
 */
function lengthOf({ ahead, not }) {
  const [first, ...rest] = 'all' in ahead ? ahead.all : [ahead];
  const end = rest.pop();
  const isLimit =
    first && 'repeat' in first && 'set' in first.repeat && first.max >= MIN_COUNTED && end && 'assert' in end;
  if (not || !isLimit || end.assert !== '$' || !rest.every((part) => 'repeat' in part && part.min === 0)) return null;
  return { min: first.min, max: first.max, set: /** @type {{ set: CharSet }} */ (first.repeat).set };
}

/**
 * Returns the strings that contain a match of a pattern, and limits of length that its lookaheads require. The
 * automaton does not contain these limits, because it would have too many states: C counts the characters instead.
 * @param {string} pattern
 * @returns {{ dfa: Dfa, min: number, max: number } | null}  null if no lookahead limits the length
 */
export function limitedPattern(pattern) {
  const { tree, lookaheads } = parseRegex(pattern);
  const begins = 'all' in tree && tree.all[0] && 'assert' in tree.all[0] && tree.all[0].assert === '^';
  const limits = begins ? lookaheads.flatMap((ahead) => lengthOf(ahead) ?? []) : [];
  if (!limits.length) return null;
  const others = lookaheads.filter((ahead) => !lengthOf(ahead));
  return {
    dfa: limits.reduce(
      (dfa, { set }) => intersection(dfa, dfaOfTree({ repeat: { set }, min: 0, max: Infinity })),
      dfaOfRegex({ tree, lookaheads: others }, { search: true }),
    ),
    min: Math.max(...limits.map(({ min }) => min)),
    max: Math.min(...limits.map(({ max }) => max)),
  };
}

/**
 * Returns a new shape, and the schemas of the first items.
 * @param {string} name  keyword, for messages
 * @param {any} value @param {any} schema
 */
function arrayOf(name, value, schema) {
  const s = shape();
  const tuple = schema.prefixItems ?? (Array.isArray(schema.items) ? schema.items : []);
  must(name, tuple, Array.isArray, 'a list');
  return { s, tuple };
}

/**
 * Returns the shape of arrays whose first items (prefix), or whose other items (rest), satisfy their schemas.
 * @param {string} name @param {any} value @param {Context} context @param {any} schema @param {'prefix' | 'rest'} part
 * @returns {Shape[]}
 */
function items(name, value, context, schema, part) {
  const { s, tuple } = arrayOf(name, value, schema);
  if (part === 'prefix') [s.array.prefix, s.array.evaluated.count] = [tuple.map(context.sub), tuple.length];
  else [s.array.prefix, s.array.rest, s.array.evaluated.all] = [tuple.map(() => TRUE), context.sub(value), true];
  return [s];
}

/**
 * Returns the shapes of arrays with an item that does not satisfy its schema.
 * @param {any} value @param {Context} context @param {any} schema @param {'prefix' | 'rest'} part @returns {Shape[]}
 */
function notItems(value, context, schema, part) {
  const { tuple } = arrayOf('items', value, schema);
  if (part === 'prefix')
    return tuple.flatMap((/** @type {any} */ item, /** @type {number} */ i) =>
      one(['array'], (s) => ([s.array.prefix, s.array.min] = [[...Array(i).fill(TRUE), context.notSub(item)], i + 1])),
    );
  const wrong = { sub: context.notSub(value), from: tuple.length, min: 1, max: Infinity };
  return one(['array'], (s) => (s.array.contains = [wrong]));
}

/** Returns the number of items that must satisfy the schema of `contains`. @param {any} schema */
function timesOf({ minContains = 1, maxContains = UNREACHABLE }) {
  must('minContains', minContains, isCount, 'an integer, at least 0');
  must('maxContains', maxContains, isCount, 'an integer, at least 0');
  return { min: lowerLimit('minContains', minContains), max: upperLimit(maxContains) };
}

/** Returns the names and patterns whose properties `additionalProperties` does not concern. @param {any} schema */
const declaredNames = (schema) => ({
  names: Object.keys(schema.properties ?? {}),
  patterns: Object.keys(schema.patternProperties ?? {}),
});

/** Returns the values of `enum` or `const`, or null. @param {any} schema @returns {any[] | null} */
const listedValues = (schema) => (Array.isArray(schema.enum) ? schema.enum : 'const' in schema ? [schema.const] : null);

/**
 * Returns the values that the schema of a property lists itself or through a chain of references.
 * @param {any} schema @param {Context} context @returns {Known | null}
 */
function knownValues(schema, context) {
  for (let hops = 0; hops < 8 && isObject(schema); hops++) {
    const values = listedValues(schema);
    if (values) return { only: new Set(values.map(canonical)), not: new Set() };
    if (typeof schema.$ref !== 'string') return null;
    schema = context.target(schema.$ref, schema);
  }
  return null;
}

/**
 * Returns the values that a property must not have, so that it does not satisfy a schema with `enum` or `const` alone.
 * @param {any} schema @returns {Known | null}
 */
function knownExclusions(schema) {
  const values = isObject(schema) && Object.keys(schema).length === 1 ? listedValues(schema) : null;
  return values && { only: null, not: new Set(values.map(canonical)) };
}

/**
 * Returns the shapes for a dependency: objects with the property `name` must satisfy a schema or have certain
 * properties.
 * @param {string} name @param {any} requirement  a schema or a list of names
 * @param {Context} context @param {boolean} not  whether the dependency is negated
 */
function dependency(name, requirement, context, not) {
  const with_ = one(['object'], (s) => s.object.required.add(name));
  const schema = Array.isArray(requirement) ? { required: requirement } : requirement;
  if (not) return cross(with_, context.no(schema));
  const without_ = one(undefined, (s) => s.object.forbidden.add(name));
  return [...without_, ...cross(with_, context.yes(schema))];
}

/** @param {string} name @returns {[string, { yes: Side, no: Side }]} */
const dependencyKeyword = (name) => [
  name,
  {
    yes: (v, context) =>
      Object.entries(v).reduce(
        (/** @type {Shape[]} */ all, [p, requirement]) => cross(all, dependency(p, requirement, context, false)),
        [shape()],
      ),
    no: (v, context) => Object.entries(v).flatMap(([p, requirement]) => dependency(p, requirement, context, true)),
  },
];

/** Returns the shapes of the values that have a shape of each list. @param {Shape[][]} lists */
const crossAll = (lists) => lists.reduce(cross, [shape()]);

/**
 * Returns the shapes without evaluated properties and items. A schema that fails evaluates nothing, and some validators
 * ignore what the schema of `if` evaluates.
 * @param {Shape[]} shapes @returns {Shape[]}
 */
export function unevaluated(shapes) {
  const { array, object } = shape();
  return shapes.map((s) => ({
    ...s,
    array: { ...s.array, evaluated: array.evaluated },
    object: { ...s.object, evaluated: object.evaluated },
  }));
}

/**
 * Returns the shapes of the values that satisfy exactly one of the schemas.
 * @param {any[]} list @param {Context} context
 */
function exactlyOne(list, context) {
  const each = list.map(context.yes);
  // A schema that contradicts the chosen one, by its type or a property, fails in any case and needs no negation.
  const meets = (/** @type {Shape[]} */ a, /** @type {Shape[]} */ b) =>
    context.unevaluated || a.some((x) => b.some((y) => merge(x, y)));
  return each.flatMap((chosen, i) =>
    crossAll([chosen, ...list.filter((_, j) => i !== j && meets(chosen, each[j])).map(context.no)]),
  );
}

/** @type {Map<string, { yes: Side, no: Side }>} */
export const KEYWORDS = new Map([
  [
    'type',
    {
      yes: (v, c, schema) => ofTypes(typesOf(v, schema), false),
      no: (v, c, schema) => ofTypes(typesOf(v, schema), true),
    },
  ],
  [
    'enum',
    {
      yes: (v) => (
        must('enum', v, Array.isArray, 'a list'),
        mustBeExact('enum', v),
        v.length
          ? one(
              TYPES.filter((t) => v.some((/** @type {any} */ x) => typeOf(x) === t)),
              (s) => (s.values = byText(v)),
            )
          : []
      ),
      no: (v) => one(undefined, (s) => (s.excluded = byText(v))),
    },
  ],
  [
    'const',
    {
      yes: (v) => (mustBeExact('const', v), one([typeOf(v)], (s) => (s.values = byText([v])))),
      no: (v) => one(undefined, (s) => (s.excluded = byText([v]))),
    },
  ],
  limitKeyword(
    'multipleOf',
    'number',
    (s, v) => (s.number.multiples = [v]),
    (s, v) => (s.number.notMultiples = [v]),
    (v) => isNumber(v) && v > 0,
  ),
  ...boundKeywords('maximum', 'exclusiveMaximum', { in: 'max', out: 'below' }, { in: 'min', out: 'above' }),
  ...boundKeywords('minimum', 'exclusiveMinimum', { in: 'min', out: 'above' }, { in: 'max', out: 'below' }),
  lengthKeyword('maxLength', 'string'),
  lengthKeyword('minLength', 'string'),
  [
    'pattern',
    {
      yes: (v, c) => one(undefined, (s) => (s.string = c.limitedPattern(v))),
      no: (v, c) => one(['string'], (s) => (s.string.dfa = difference(ANY, c.pattern(v)))),
    },
  ],
  [
    'format',
    {
      yes: (v, c) =>
        one(undefined, (s) => {
          must('format', v, (name) => typeof name === 'string', 'a string');
          const range = NUMBER_FORMATS.get(v);
          if (range) [s.number.integer, s.number.min, s.number.max] = [true, ...range];
          const texts = formatTexts(v);
          if (texts) [s.string.dfa, s.string.max] = [texts.dfa, texts.max];
          else if (!isFormat(v)) c.warn(`"${v}" is not a format of JSON Schema: it was ignored`);
        }),
      no: (v, c) => {
        // Every value satisfies an ignored format, so none fails.
        const others = otherTexts(v);
        if (others) return one(['string'], (s) => (s.string.dfa = others));
        if (isFormat(v) && !SHOWN_FORMATS.has(v)) throw grammarError(`"not" with the format "${v}" is not supported`);
        if (!isFormat(v)) c.warn(`"${v}" is not a format of JSON Schema: it was ignored`);
        return [];
      },
    },
  ],
  [
    'prefixItems',
    {
      yes: (v, c, schema) => items('prefixItems', v, c, schema, 'prefix'),
      no: (v, c, schema) => notItems(v, c, schema, 'prefix'),
    },
  ],
  [
    'items',
    {
      yes: (v, c, schema) => items('items', v, c, schema, Array.isArray(v) ? 'prefix' : 'rest'),
      no: (v, c, schema) => notItems(v, c, schema, Array.isArray(v) ? 'prefix' : 'rest'),
    },
  ],
  [
    'additionalItems',
    {
      yes: (v, c, schema) => (Array.isArray(schema.items) ? items('additionalItems', v, c, schema, 'rest') : [shape()]),
      no: (v, c, schema) => (Array.isArray(schema.items) ? notItems(v, c, schema, 'rest') : []),
    },
  ],
  lengthKeyword('maxItems', 'array'),
  lengthKeyword('minItems', 'array'),
  [
    'uniqueItems',
    {
      yes: (v) => one(undefined, (s) => (s.array.unique = Boolean(v))),
      no: (v) => (v ? one(['array'], (s) => (s.array.repeats = true)) : []),
    },
  ],
  [
    'contains',
    {
      yes: (v, c, schema) =>
        one(undefined, (s) => {
          const { min, max } = timesOf(schema);
          s.array.contains = [{ sub: c.sub(v), from: 0, min, max }];
          // With a minimum of 0, `contains` evaluates nothing in some validators.
          if (c.containsEvaluates && min > 0) s.array.evaluated.contains = [v];
        }),
      no: (v, c, schema) => {
        const { min, max } = timesOf(schema);
        const times = (/** @type {number} */ from, /** @type {number} */ to) =>
          one(['array'], (s) => (s.array.contains = [{ sub: c.sub(v), from: 0, min: from, max: to }]));
        return [...(min > 0 ? times(0, min - 1) : []), ...(max < Infinity ? times(max + 1, Infinity) : [])];
      },
    },
  ],
  lengthKeyword('maxProperties', 'object'),
  lengthKeyword('minProperties', 'object'),
  [
    'required',
    {
      yes: (v) => (
        must('required', v, isNames, 'a list of names'),
        one(undefined, (s) => (s.object.required = new Set(v)))
      ),
      no: (v) => v.flatMap((/** @type {string} */ name) => one(['object'], (s) => s.object.forbidden.add(name))),
    },
  ],
  [
    'properties',
    {
      yes: (v, c) => (
        must('properties', v, isObject, 'an object'),
        one(undefined, (s) => {
          for (const [name, schema] of Object.entries(v)) {
            s.object.properties.set(name, c.sub(schema));
            s.object.evaluated.names.add(name);
            const known = knownValues(schema, c);
            if (known) s.object.known.set(name, known);
          }
        })
      ),
      no: (v, c) =>
        Object.entries(v).flatMap(([name, schema]) =>
          one(['object'], (s) => {
            s.object.properties.set(name, c.notSub(schema));
            s.object.required.add(name);
            const known = knownExclusions(schema);
            if (known) s.object.known.set(name, known);
          }),
        ),
    },
  ],
  [
    'patternProperties',
    {
      yes: (v, c) => (
        must('patternProperties', v, isObject, 'an object'),
        one(undefined, (s) => {
          s.object.patterns = new Map(Object.entries(v).map(([pattern, schema]) => [pattern, c.sub(schema)]));
          s.object.evaluated.patterns = new Set(Object.keys(v));
          s.object.open = true;
        })
      ),
      no: (v, c) =>
        Object.entries(v).flatMap(([pattern, schema]) =>
          one(['object'], (s) => s.object.witnesses.push({ sub: c.notSub(schema), names: [], patterns: [], pattern })),
        ),
    },
  ],
  [
    'additionalProperties',
    {
      yes: (v, c, schema) =>
        one(undefined, (s) => {
          s.object.additional = [{ sub: c.sub(v), none: v === false, ...declaredNames(schema) }];
          s.object.evaluated.all = true;
          s.object.open = v !== false;
        }),
      no: (v, c, schema) =>
        one(['object'], (s) => s.object.witnesses.push({ sub: c.notSub(v), ...declaredNames(schema), pattern: null })),
    },
  ],
  [
    'propertyNames',
    {
      yes: (v, c) => one(undefined, (s) => s.object.names.push(c.sub(v))),
      no: () => {
        throw grammarError('"not" with "propertyNames" is not supported');
      },
    },
  ],
  dependencyKeyword('dependencies'),
  dependencyKeyword('dependentRequired'),
  dependencyKeyword('dependentSchemas'),
  [
    'allOf',
    { yes: (v, c) => (must('allOf', v, isList, 'a list'), crossAll(v.map(c.yes))), no: (v, c) => v.flatMap(c.no) },
  ],
  [
    'anyOf',
    { yes: (v, c) => (must('anyOf', v, isList, 'a list'), v.flatMap(c.yes)), no: (v, c) => crossAll(v.map(c.no)) },
  ],
  [
    'oneOf',
    {
      yes: (v, c) => (must('oneOf', v, isList, 'a list'), exactlyOne(v, c)),
      no: (v, c) => [
        ...crossAll(v.map(c.no)),
        ...v.flatMap((/** @type {any} */ a, /** @type {number} */ i) =>
          v.slice(i + 1).flatMap((/** @type {any} */ b) => cross(c.yes(a), c.yes(b))),
        ),
      ],
    },
  ],
  ['not', { yes: (v, c) => c.no(v), no: (v, c) => c.yes(v) }],
  [
    'if',
    {
      yes: (v, c, { then = true, else: other = true }) =>
        then === true && other === true
          ? [shape()]
          : [...cross(then === true ? unevaluated(c.yes(v)) : c.yes(v), c.yes(then)), ...cross(c.no(v), c.yes(other))],
      no: (v, c, { then = true, else: other = true }) => [
        ...cross(c.yes(v), c.no(then)),
        ...cross(c.no(v), c.no(other)),
      ],
    },
  ],
  ['$ref', { yes: (v, c, schema) => c.yes(c.target(v, schema)), no: (v, c, schema) => c.no(c.target(v, schema)) }],
  ...['$dynamicRef', '$recursiveRef'].map(
    (name) =>
      /** @type {[string, { yes: Side, no: Side }]} */ ([
        name,
        {
          yes: (v, c, schema) => c.yes(c.dynamicTarget(v, schema)),
          no: (v, c, schema) => c.no(c.dynamicTarget(v, schema)),
        },
      ]),
  ),
]);

/**
 * Keywords about the properties and items that no other keyword of the schema has evaluated. Each function returns a
 * shape of the other keywords with this condition added.
 * @type {Map<string, (s: Shape, value: any, context: Context) => Shape>}
 */
export const UNEVALUATED = new Map([
  [
    'unevaluatedProperties',
    (s, value, context) => {
      const { evaluated, additional } = s.object;
      if (evaluated.all) return s;
      const [names, patterns] = [[...evaluated.names], [...evaluated.patterns]];
      return {
        ...s,
        object: {
          ...s.object,
          additional: [...additional, { sub: context.sub(value), none: value === false, names, patterns }],
          open: s.object.open || isObject(value),
          evaluated: { ...evaluated, all: true },
        },
      };
    },
  ],
  [
    'unevaluatedItems',
    (s, value, context) => {
      const { evaluated, prefix, rest } = s.array;
      if (evaluated.all) return s;
      const sub = context.sub(evaluated.contains.length ? { anyOf: [value, ...evaluated.contains] } : value);
      const { count } = evaluated;
      const items = Array.from({ length: Math.max(prefix.length, count) }, (_, i) => prefix[i] ?? rest);
      return {
        ...s,
        array: {
          ...s.array,
          prefix: items.map((item, i) => (i < count ? item : andSub(item, sub))),
          rest: andSub(rest, sub),
          evaluated: { ...evaluated, all: true },
        },
      };
    },
  ],
]);

/** Keywords of other drafts that constrain values and are not supported. */
export const ASSERTIONS = new Set(['disallow', 'divisibleBy', 'extends', 'propertyDependencies']);

/** Keywords that don't constrain values, or that are read together with another keyword. */
const SILENT = new Set([
  ...['$schema', '$id', 'id', '$anchor', '$dynamicAnchor', '$recursiveAnchor', '$comment', '$vocabulary'],
  ...['$defs', 'definitions'],
  ...['title', 'description', 'default', 'examples', 'readOnly', 'writeOnly', 'deprecated'],
  ...['contentEncoding', 'contentMediaType', 'contentSchema'],
  ...['then', 'else', 'minContains', 'maxContains'],
  // Keywords of editors, forms and OpenAPI.
  ...[
    'example',
    'externalDocs',
    'nullable',
    'xml',
    'discriminator',
    '$default',
    'propertyOrder',
    'preferredOrder',
    'options',
  ],
  ...['enumNames', 'enumDescriptions', 'markdownEnumDescriptions', 'markdownDescription', 'deprecationMessage'],
  ...['errorMessage', 'patternErrorMessage', 'defaultSnippets', 'doNotSuggest', 'suggestSortText', 'scope', 'order'],
  ...['allowComments', 'allowTrailingCommas', 'fileMatch', 'tsType', 'tsEnumNames', 'javaType', 'meta:enum', 'version'],
]);

/**
 * Whether a keyword has no effect of its own on values. Keywords that begin with x- are extensions.
 * @param {string} name
 */
export const isSilent = (name) => SILENT.has(name) || name.startsWith('x-');
