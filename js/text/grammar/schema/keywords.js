/**
 * The keywords of JSON Schema. Each has two functions: `yes` returns the shapes of the values that satisfy it, `no` the
 * shapes of the values that do not. A value satisfies a schema if it satisfies all of its keywords.
 */
import { ANY, difference } from '../dfa.js';
import { grammarError } from '../failure.js';
import { shown } from '../../../shared/quote-value.js';
import { isInexact } from '../../../shared/rounded-number.js';
import { formatTexts, isFormat, otherTexts, NUMBER_FORMATS, SHOWN_FORMATS } from './formats.js';
import { containsLimits, itemShapes, notItemShapes } from './item-keywords.js';
import {
  boundKeywords,
  isList,
  isNames,
  isNumber,
  lengthKeyword,
  limitKeyword,
  requireValid,
  oneShape,
} from './keyword-factories.js';
import { declaredNames, dependencyKeyword, knownExclusions, knownValues } from './property-keywords.js';
import { isObject } from './registry.js';
import { andSub, canonical, checkAlternatives, cross, crossForbidding, merge, shape, TYPES, typeOf } from './shapes.js';

/** @import { Context, Keyword, Side } from './keyword-factories.js' */
/** @import { Shape } from './shapes.js' */

/**
 * Throws GRAMMAR if the values of `enum` or `const` contain an integer that may have been rounded.
 * @param {string} name @param {any} values
 */
function requireExact(name, values) {
  JSON.stringify(values, (_, v) => {
    if (!isInexact(v)) return v;
    throw grammarError(
      `${name} has the integer ${v}: beyond 2^53, where numbers of JavaScript are rounded, none is supported`,
      'use a string, or a pattern of digits',
    );
  });
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
  if (integers) shapes.push(...oneShape(['number'], (s) => (s.number[not ? 'fraction' : 'integer'] = true)));
  return shapes;
}

/**
 * Returns the shapes of the values that have a shape of each list. Throws GRAMMAR if there are too many.
 * @param {Shape[][]} lists @param {string} subject  keyword that combines them, for the message
 */
const crossAll = (lists, subject) => lists.reduce((all, list) => cross(all, list, subject), [shape()]);

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
 * Returns the shapes of the values that satisfy exactly one of the schemas. If there are too many, a schema that requires
 * a property is negated by forbidding this property, which excludes some values. Throws GRAMMAR if that is not possible.
 * @param {any[]} list @param {Context} context
 */
function exactlyOne(list, context) {
  const each = list.map(context.yes);
  // A schema that contradicts the chosen one, by its type or a property, fails in any case and needs no negation.
  const meets = (/** @type {Shape[]} */ a, /** @type {Shape[]} */ b) =>
    context.unevaluated || context.excludesValues || a.some((x) => b.some((y) => merge(x, y)));
  const negations = each.map((chosen, i) => list.filter((_, j) => i !== j && meets(chosen, each[j])).map(context.no));
  const combine = (/** @type {boolean} */ forbids) => {
    const shapes = each.flatMap((chosen, i) =>
      negations[i].reduce((all, negation) => {
        const forbidding = forbids ? crossForbidding(all, negation) : null;
        return forbidding ?? cross(all, negation, 'oneOf');
      }, chosen),
    );
    checkAlternatives(shapes.length, 'oneOf');
    return shapes;
  };
  try {
    return combine(false);
  } catch (error) {
    if (!list.some((schema) => schema.required?.length)) throw error;
    context.excludesValues = true;
    return combine(true);
  }
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
        requireValid('enum', v, Array.isArray, 'a list'),
        requireExact('enum', v),
        v.length
          ? oneShape(
              TYPES.filter((t) => v.some((/** @type {any} */ x) => typeOf(x) === t)),
              (s) => (s.values = byText(v)),
            )
          : []
      ),
      no: (v) => oneShape(undefined, (s) => (s.excluded = byText(v))),
    },
  ],
  [
    'const',
    {
      yes: (v) => (requireExact('const', v), oneShape([typeOf(v)], (s) => (s.values = byText([v])))),
      no: (v) => oneShape(undefined, (s) => (s.excluded = byText([v]))),
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
      yes: (v, c) => oneShape(undefined, (s) => (s.string = c.limitedPattern(v))),
      no: (v, c) => oneShape(['string'], (s) => (s.string.dfa = difference(ANY, c.pattern(v)))),
    },
  ],
  [
    'format',
    {
      yes: (v, c) =>
        oneShape(undefined, (s) => {
          requireValid('format', v, (name) => typeof name === 'string', 'a string');
          const range = NUMBER_FORMATS.get(v);
          if (range) [s.number.integer, s.number.min, s.number.max] = [true, ...range];
          const texts = formatTexts(v);
          if (texts) [s.string.dfa, s.string.max] = [texts.dfa, texts.max];
          else if (!isFormat(v)) c.warn(`"${v}" is not a format of JSON Schema: it was ignored`);
        }),
      no: (v, c) => {
        // Every value satisfies an ignored format, so none fails.
        const others = otherTexts(v);
        if (others) return oneShape(['string'], (s) => (s.string.dfa = others));
        if (isFormat(v) && !SHOWN_FORMATS.has(v)) throw grammarError(`"not" with the format "${v}" is not supported`);
        if (!isFormat(v)) c.warn(`"${v}" is not a format of JSON Schema: it was ignored`);
        return [];
      },
    },
  ],
  [
    'prefixItems',
    {
      yes: (v, c, schema) => itemShapes('prefixItems', v, c, schema, 'prefix'),
      no: (v, c, schema) => notItemShapes(v, c, schema, 'prefix'),
    },
  ],
  [
    'items',
    {
      yes: (v, c, schema) => itemShapes('items', v, c, schema, Array.isArray(v) ? 'prefix' : 'rest'),
      no: (v, c, schema) => notItemShapes(v, c, schema, Array.isArray(v) ? 'prefix' : 'rest'),
    },
  ],
  [
    'additionalItems',
    {
      yes: (v, c, schema) =>
        Array.isArray(schema.items) ? itemShapes('additionalItems', v, c, schema, 'rest') : [shape()],
      no: (v, c, schema) => (Array.isArray(schema.items) ? notItemShapes(v, c, schema, 'rest') : []),
    },
  ],
  lengthKeyword('maxItems', 'array'),
  lengthKeyword('minItems', 'array'),
  [
    'uniqueItems',
    {
      yes: (v) => oneShape(undefined, (s) => (s.array.unique = Boolean(v))),
      no: (v) => (v ? oneShape(['array'], (s) => (s.array.repeats = true)) : []),
    },
  ],
  [
    'contains',
    {
      yes: (v, c, schema) =>
        oneShape(undefined, (s) => {
          const { min, max } = containsLimits(schema);
          s.array.contains = [{ sub: c.sub(v), from: 0, min, max }];
          // With a minimum of 0, `contains` evaluates nothing in some validators.
          if (c.containsEvaluates && min > 0) s.array.evaluated.contains = [v];
        }),
      no: (v, c, schema) => {
        const { min, max } = containsLimits(schema);
        const times = (/** @type {number} */ from, /** @type {number} */ to) =>
          oneShape(['array'], (s) => (s.array.contains = [{ sub: c.sub(v), from: 0, min: from, max: to }]));
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
        requireValid('required', v, isNames, 'a list of names'),
        oneShape(undefined, (s) => (s.object.required = new Set(v)))
      ),
      no: (v) => v.flatMap((/** @type {string} */ name) => oneShape(['object'], (s) => s.object.forbidden.add(name))),
    },
  ],
  [
    'properties',
    {
      yes: (v, c) => (
        requireValid('properties', v, isObject, 'an object'),
        oneShape(undefined, (s) => {
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
          oneShape(['object'], (s) => {
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
        requireValid('patternProperties', v, isObject, 'an object'),
        oneShape(undefined, (s) => {
          s.object.patterns = new Map(Object.entries(v).map(([pattern, schema]) => [pattern, c.sub(schema)]));
          s.object.evaluated.patterns = new Set(Object.keys(v));
          s.object.open = true;
        })
      ),
      no: (v, c) =>
        Object.entries(v).flatMap(([pattern, schema]) =>
          oneShape(['object'], (s) =>
            s.object.witnesses.push({ sub: c.notSub(schema), names: [], patterns: [], pattern }),
          ),
        ),
    },
  ],
  [
    'additionalProperties',
    {
      yes: (v, c, schema) =>
        oneShape(undefined, (s) => {
          s.object.additional = [{ sub: c.sub(v), none: v === false, ...declaredNames(schema) }];
          s.object.evaluated.all = true;
          s.object.open = v !== false;
        }),
      no: (v, c, schema) =>
        oneShape(['object'], (s) =>
          s.object.witnesses.push({ sub: c.notSub(v), ...declaredNames(schema), pattern: null }),
        ),
    },
  ],
  [
    'propertyNames',
    {
      yes: (v, c) => oneShape(undefined, (s) => s.object.names.push(c.sub(v))),
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
    {
      yes: (v, c) => (requireValid('allOf', v, isList, 'a list'), crossAll(v.map(c.yes), 'allOf')),
      no: (v, c) => v.flatMap(c.no),
    },
  ],
  [
    'anyOf',
    {
      yes: (v, c) => (requireValid('anyOf', v, isList, 'a list'), v.flatMap(c.yes)),
      no: (v, c) => crossAll(v.map(c.no), '"not" with "anyOf"'),
    },
  ],
  [
    'oneOf',
    {
      yes: (v, c) => (requireValid('oneOf', v, isList, 'a list'), exactlyOne(v, c)),
      no: (v, c) => [
        ...crossAll(v.map(c.no), '"not" with "oneOf"'),
        ...v.flatMap((/** @type {any} */ a, /** @type {number} */ i) =>
          v.slice(i + 1).flatMap((/** @type {any} */ b) => cross(c.yes(a), c.yes(b), '"not" with "oneOf"')),
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
          : [
              ...cross(then === true ? unevaluated(c.yes(v)) : c.yes(v), c.yes(then), '"if" with "then"'),
              ...cross(c.no(v), c.yes(other), '"if" with "else"'),
            ],
      no: (v, c, { then = true, else: other = true }) => [
        ...cross(c.yes(v), c.no(then), '"not" with "if"'),
        ...cross(c.no(v), c.no(other), '"not" with "if"'),
      ],
    },
  ],
  ['$ref', { yes: (v, c, schema) => c.yes(c.target(v, schema)), no: (v, c, schema) => c.no(c.target(v, schema)) }],
  ...['$dynamicRef', '$recursiveRef'].map(
    (name) =>
      /** @type {Keyword} */ ([
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
