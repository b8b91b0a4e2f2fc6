/** Finds which tool, and which part of its parameters, a grammar of calls was refused for. Loaded after such a refusal. */
import { compile, compileParts } from '../../text/grammar/index.js';
import { UNSATISFIABLE } from '../../text/grammar/ir.js';
import { BqError } from '../../shared/errors.js';

/** @import { Branch } from './tool-calls.js' */

/** Keywords whose value is a schema or a list of schemas, and those whose members are. */
const SCHEMAS = new Set(
  'items prefixItems additionalItems contains additionalProperties propertyNames unevaluatedItems unevaluatedProperties allOf anyOf oneOf not if then else'.split(
    ' ',
  ),
);
const NAMED_SCHEMAS = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']);
/** The most schemas that are compiled to find one. */
const MAX_TRIES = 200;

/** What compiling is refused for; '': nothing. @param {() => Promise<unknown>} work @returns {Promise<string>} */
const refusalOf = (work) =>
  work().then(
    () => '',
    (error) => String(error.message),
  );

/** The schemas right within one, with their place in it. @param {any} schema @returns {[path: string[], schema: any][]} */
const schemasIn = (schema) =>
  Object.entries(schema).flatMap(([name, value]) => {
    if (typeof value !== 'object' || value === null) return [];
    if (NAMED_SCHEMAS.has(name) || (SCHEMAS.has(name) && Array.isArray(value)))
      return Object.entries(value).map(([key, one]) => /** @type {[string[], any]} */ ([[name, key], one]));
    return SCHEMAS.has(name) ? [[[name], value]] : [];
  });

/** What a schema is refused for; '': nothing. @param {any} schema */
const refusalOfSchema = (schema) => refusalOf(() => compile({ type: 'json_schema', schema }));

/** The schema with `true` at a place within. @param {any} schema @param {string[]} path */
const withTrueAt = (schema, [name, key]) => {
  const value = key === undefined ? true : Object.assign(structuredClone(schema[name]), { [key]: true });
  return { ...schema, [name]: value };
};

/** The deepest schema that is refused for the same reason, as a JSON pointer. @param {any} root @param {string} reason @returns {Promise<string>} */
async function placeOf(root, reason) {
  // What references mostly lead to.
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
      if ((await refusalOfSchema(standalone(inner))) !== reason) continue;
      // What nothing satisfies is no fault by itself: a property may be left out.
      if (reason === UNSATISFIABLE && (await refusalOfSchema(standalone(withTrueAt(schema, path)))) === reason)
        continue;
      found = { at, inner };
      break;
    }
    if (!found) return pointer;
    pointer = found.at;
    schema = found.inner;
  }
}

/** The error, with the tool and the place of what was refused. @param {any} error @param {Branch[]} branches @returns {Promise<any>} */
export async function explainRefusedTool(error, branches) {
  if (!(error instanceof BqError) || error.code !== 'GRAMMAR') return error;
  for (const { tool, pieces } of branches)
    for (const { special, node } of pieces) {
      if (special !== null || (await refusalOf(() => compileParts(node))) !== error.message) continue;
      const { name, parameters } = tool;
      const place = parameters ? await placeOf({ type: 'object', ...parameters }, error.message) : '';
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
