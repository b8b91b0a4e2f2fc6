/** Finds the tool, and the part of its parameters, that made a grammar of calls fail. Loaded after such an error. */
import { compile, compileParts } from '../../text/grammar/index.js';
import { UNSATISFIABLE } from '../../text/grammar/ir.js';
import { BqError } from '../../shared/errors.js';

/** @import { Branch } from './tool-calls.js' */

/** Keywords whose value is a schema or a list of schemas, and keywords whose value is an object of schemas. */
const SCHEMAS = new Set(
  'items prefixItems additionalItems contains additionalProperties propertyNames unevaluatedItems unevaluatedProperties allOf anyOf oneOf not if then else'.split(
    ' ',
  ),
);
const NAMED_SCHEMAS = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']);
/** Largest number of schemas that are compiled to find the failing one. */
const MAX_TRIES = 200;

/**
 * Returns the message of the error that compiling throws; '' if it succeeds.
 * @param {() => Promise<unknown>} compileGrammar
 * @returns {Promise<string>}
 */
const compileError = (compileGrammar) =>
  compileGrammar().then(
    () => '',
    (error) => String(error.message),
  );

/**
 * Returns the direct subschemas of a schema, with their paths.
 * @param {any} schema
 * @returns {[path: string[], schema: any][]}
 */
const schemasIn = (schema) =>
  Object.entries(schema).flatMap(([name, value]) => {
    if (typeof value !== 'object' || value === null) return [];
    if (NAMED_SCHEMAS.has(name) || (SCHEMAS.has(name) && Array.isArray(value)))
      return Object.entries(value).map(([key, inner]) => /** @type {[string[], any]} */ ([[name, key], inner]));
    return SCHEMAS.has(name) ? [[[name], value]] : [];
  });

/** Returns the message of the error for a schema; '' if it compiles. @param {any} schema */
const schemaError = (schema) => compileError(() => compile({ type: 'json_schema', schema }));

/**
 * Returns a copy of a schema with `true` instead of the subschema at a path.
 * @param {any} schema @param {string[]} path
 */
const withTrueAt = (schema, [name, key]) => {
  const value = key === undefined ? true : Object.assign(structuredClone(schema[name]), { [key]: true });
  return { ...schema, [name]: value };
};

/**
 * Finds the deepest schema that fails with the same message, and returns it as a JSON pointer.
 * @param {any} root @param {string} message @returns {Promise<string>}
 */
async function findFailingSchema(root, message) {
  // References mostly point to these definitions, so each subschema is compiled with them.
  const { $defs, definitions } = root;
  let pointer = '';
  let tries = 0;
  const standalone = (/** @type {any} */ schema) => ({
    ...($defs && { $defs }),
    ...(definitions && { definitions }),
    ...schema,
  });
  for (let schema = root; ;) {
    let found = null;
    for (const [path, inner] of schemasIn(schema)) {
      if (typeof inner !== 'object' || inner === null || ++tries > MAX_TRIES) continue;
      const at = `${pointer}/${path.map((key) => key.replaceAll('~', '~0').replaceAll('/', '~1')).join('/')}`;
      if ((await schemaError(standalone(inner))) !== message) continue;
      // An unsatisfiable subschema is not necessarily the cause: a property may be omitted.
      if (message === UNSATISFIABLE && (await schemaError(standalone(withTrueAt(schema, path)))) === message) continue;
      found = { at, inner };
      break;
    }
    if (!found) return pointer;
    pointer = found.at;
    schema = found.inner;
  }
}

/**
 * Returns the error with the failing tool, and the JSON pointer of the failing schema.
 * @param {any} error @param {Branch[]} branches
 * @returns {Promise<any>}
 */
export async function explainRefusedTool(error, branches) {
  if (!(error instanceof BqError) || error.code !== 'GRAMMAR') return error;
  for (const { tool, pieces } of branches)
    for (const { special, node } of pieces) {
      if (special !== null || (await compileError(() => compileParts(node))) !== error.message) continue;
      const { name, parameters } = tool;
      const place = parameters ? await findFailingSchema({ type: 'object', ...parameters }, error.message) : '';
      return new BqError(
        'GRAMMAR',
        `the parameters of the tool "${name}"${place && `, at ${place}`}: ${error.message}`,
        {
          hint: error.hint,
          cause: error,
          details: { param: 'tools', tool: name, place },
        },
      );
    }
  return error;
}
