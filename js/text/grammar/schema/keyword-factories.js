/**
 * Types of the keywords of JSON Schema (keywords.js), functions that create keywords for limits of numbers and of
 * lengths, and checks of the values of keywords.
 */
import { grammarError, tooLargeError } from '../failure.js';
import { isRounded } from '../../../shared/rounded-number.js';
import { shape } from './shapes.js';

/** @import { Dfa } from '../dfa.js' */
/** @import { Shape, Sub } from './shapes.js' */

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
 * @property {boolean} excludesValues  whether a result of `yes` excludes values that satisfy its schema, because a `oneOf`
 *   has too many combinations (`exactlyOne`)
 * @property {boolean} containsEvaluates  whether `contains` evaluates items: false in draft 2019-09
 */

/** The function `yes` or `no` of a keyword. @typedef {(value: any, context: Context, schema: any) => Shape[]} Side */
/** A keyword and its functions. @typedef {[name: string, functions: { yes: Side, no: Side }]} Keyword */

/**
 * Returns a list of one new shape, changed by `set`.
 * @param {string[] | undefined} types @param {(s: Shape) => void} set @returns {Shape[]}
 */
export function oneShape(types, set) {
  const s = shape(types);
  set(s);
  return [s];
}

/**
 * Throws GRAMMAR if the value of a keyword is not valid.
 * @param {string} name  of the keyword
 * @param {any} value @param {(value: any) => boolean} isValid
 * @param {string} expected  noun phrase for the message
 */
export function requireValid(name, value, isValid, expected) {
  if (!isValid(value)) throw grammarError(`${name} must be ${expected}`);
}

export const isNumber = (/** @type {any} */ v) => typeof v === 'number' && Number.isFinite(v);
export const isCount = (/** @type {any} */ v) => isNumber(v) && v >= 0 && v % 1 === 0;
export const isNames = (/** @type {any} */ v) => Array.isArray(v) && v.every((name) => typeof name === 'string');
export const isList = (/** @type {any} */ v) => Array.isArray(v) && v.length > 0;

/** Limits from here on have no effect: no text can reach them. */
export const UNREACHABLE = 2 ** 32 - 1;
/** Returns a maximum, or Infinity if it has no effect. @param {number} v */
export const upperLimit = (v) => (v < UNREACHABLE ? v : Infinity);
/** Returns a minimum. Throws GRAMMAR if no text can be so long. @param {string} name @param {number} v */
export function lowerLimit(name, v) {
  if (v >= UNREACHABLE) throw tooLargeError(`${name} ${v}`);
  return v;
}

/**
 * Creates a keyword for the minimum or maximum length of values of one type.
 * @param {string} name @param {'string' | 'array' | 'object'} type @returns {Keyword}
 */
export const lengthKeyword = (name, type) =>
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
 * @returns {Keyword}
 */
export const limitKeyword = (name, type, yes, no, isValid = isCount) => [
  name,
  {
    yes: (v) => (
      requireValid(name, v, isValid, isValid === isCount ? 'an integer, at least 0' : 'a number'),
      oneShape(undefined, (s) => yes(s, v))
    ),
    no: (v) => oneShape([type], (s) => no(s, v)),
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
 * Creates the keywords of an inclusive and an exclusive limit of numbers. In draft 4 the exclusive keyword is a boolean
 * that makes the other one exclusive.
 * @param {string} name @param {string} exclusive
 * @param {{ in: 'min' | 'max', out: 'above' | 'below' }} inside  fields of the shape for the limit: inclusive (`in`),
 *   exclusive (`out`)
 * @param {{ in: 'min' | 'max', out: 'above' | 'below' }} beyond  the same fields for the negated limit
 * @returns {Keyword[]}
 */
export function boundKeywords(name, exclusive, inside, beyond) {
  const flag = (/** @type {any} */ schema) => schema[exclusive] === true;
  const isLarger = inside.in === 'min';
  const boolean = (/** @type {any} */ v) => typeof v === 'boolean';
  return [
    [
      name,
      {
        yes: (v, c, schema) => (
          requireValid(name, v, isNumber, 'a number'),
          oneShape(
            undefined,
            (s) => (s.number[flag(schema) ? inside.out : inside.in] = limitOf(name, v, isLarger, c, schema)),
          )
        ),
        no: (v, c, schema) =>
          oneShape(
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
          requireValid(exclusive, v, isNumber, 'a number');
          return oneShape(undefined, (s) => (s.number[inside.out] = limitOf(exclusive, v, isLarger, c, schema)));
        },
        no: (v, c, schema) =>
          boolean(v)
            ? []
            : oneShape(['number'], (s) => (s.number[beyond.in] = limitOf(exclusive, v, !isLarger, c, schema))),
      },
    ],
  ];
}
