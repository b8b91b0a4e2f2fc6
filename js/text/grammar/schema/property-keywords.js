/** Functions of the keywords of JSON Schema about the properties of an object. */
import { oneShape } from './keyword-factories.js';
import { isObject } from './registry.js';
import { canonical, cross, shape } from './shapes.js';

/** @import { Context, Keyword } from './keyword-factories.js' */
/** @import { Known, Shape } from './shapes.js' */

/** Returns the names and patterns whose properties `additionalProperties` does not concern. @param {any} schema */
export const declaredNames = (schema) => ({
  names: Object.keys(schema.properties ?? {}),
  patterns: Object.keys(schema.patternProperties ?? {}),
});

/** Returns the values of `enum` or `const`, or null. @param {any} schema @returns {any[] | null} */
const listedValues = (schema) => (Array.isArray(schema.enum) ? schema.enum : 'const' in schema ? [schema.const] : null);

/**
 * Returns the values that the schema of a property lists itself or through a chain of references.
 * @param {any} schema @param {Context} context @returns {Known | null}
 */
export function knownValues(schema, context) {
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
export function knownExclusions(schema) {
  const values = isObject(schema) && Object.keys(schema).length === 1 ? listedValues(schema) : null;
  return values && { only: null, not: new Set(values.map(canonical)) };
}

/**
 * Returns the shapes for a dependency: objects with the property `name` must satisfy a schema or have certain
 * properties.
 * @param {string} keyword @param {string} name @param {any} requirement  a schema or a list of names
 * @param {Context} context @param {boolean} not  whether the dependency is negated
 */
function dependency(keyword, name, requirement, context, not) {
  const with_ = oneShape(['object'], (s) => s.object.required.add(name));
  const schema = Array.isArray(requirement) ? { required: requirement } : requirement;
  if (not) return cross(with_, context.no(schema), keyword);
  const without_ = oneShape(undefined, (s) => s.object.forbidden.add(name));
  return [...without_, ...cross(with_, context.yes(schema), keyword)];
}

/**
 * Creates a keyword whose value has a dependency for each of some properties.
 * @param {string} name @returns {Keyword}
 */
export const dependencyKeyword = (name) => [
  name,
  {
    yes: (v, context) =>
      Object.entries(v).reduce(
        (/** @type {Shape[]} */ all, [p, requirement]) =>
          cross(all, dependency(name, p, requirement, context, false), name),
        [shape()],
      ),
    no: (v, context) =>
      Object.entries(v).flatMap(([p, requirement]) => dependency(name, p, requirement, context, true)),
  },
];
