/** Functions of the keywords of JSON Schema about the items of an array. */
import { isCount, lowerLimit, requireValid, oneShape, UNREACHABLE, upperLimit } from './keyword-factories.js';
import { shape, TRUE } from './shapes.js';

/** @import { Context } from './keyword-factories.js' */
/** @import { Shape } from './shapes.js' */

/**
 * Returns a new shape, and the schemas of the first items.
 * @param {string} name  keyword, for messages
 * @param {any} value @param {any} schema
 */
function arrayOf(name, value, schema) {
  const s = shape();
  const tuple = schema.prefixItems ?? (Array.isArray(schema.items) ? schema.items : []);
  requireValid(name, tuple, Array.isArray, 'a list');
  return { s, tuple };
}

/**
 * Returns the shape of arrays whose first items (prefix), or whose other items (rest), satisfy their schemas.
 * @param {string} name @param {any} value @param {Context} context @param {any} schema @param {'prefix' | 'rest'} part
 * @returns {Shape[]}
 */
export function itemShapes(name, value, context, schema, part) {
  const { s, tuple } = arrayOf(name, value, schema);
  if (part === 'prefix') [s.array.prefix, s.array.evaluated.count] = [tuple.map(context.sub), tuple.length];
  else [s.array.prefix, s.array.rest, s.array.evaluated.all] = [tuple.map(() => TRUE), context.sub(value), true];
  return [s];
}

/**
 * Returns the shapes of arrays with an item that does not satisfy its schema.
 * @param {any} value @param {Context} context @param {any} schema @param {'prefix' | 'rest'} part @returns {Shape[]}
 */
export function notItemShapes(value, context, schema, part) {
  const { tuple } = arrayOf('items', value, schema);
  if (part === 'prefix')
    return tuple.flatMap((/** @type {any} */ item, /** @type {number} */ i) =>
      oneShape(
        ['array'],
        (s) => ([s.array.prefix, s.array.min] = [[...Array(i).fill(TRUE), context.notSub(item)], i + 1]),
      ),
    );
  const wrong = { sub: context.notSub(value), from: tuple.length, min: 1, max: Infinity };
  return oneShape(['array'], (s) => (s.array.contains = [wrong]));
}

/** Returns the number of items that must satisfy the schema of `contains`. @param {any} schema */
export function containsLimits({ minContains = 1, maxContains = UNREACHABLE }) {
  requireValid('minContains', minContains, isCount, 'an integer, at least 0');
  requireValid('maxContains', maxContains, isCount, 'an integer, at least 0');
  return { min: lowerLimit('minContains', minContains), max: upperLimit(maxContains) };
}
