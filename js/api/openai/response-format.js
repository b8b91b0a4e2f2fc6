/** Converts the field `response_format`, in the forms of OpenAI, llama.cpp and bq4, to the option `responseFormat`. */
import { flag, kind, object, oneOf, text } from '../../shared/checks.js';
import { wrong } from '../../shared/options.js';
import { membersOf, refuse } from './check-fields.js';

/** @import { ResponseFormat } from '../../shared/types.js' */
/** @import { Options } from '../../shared/checks.js' */

const schema = kind('a JSON Schema: an object, true or false', (v) => !object(v) || !flag(v));
const pattern = kind('a string or a RegExp', (v) => !text(v) || v instanceof RegExp);
const choices = kind('a list of strings', (v) => Array.isArray(v) && v.every((choice) => !text(choice)));

/** Members of each type of format, in addition to `type`. @type {Record<string, Options>} */
const MEMBERS = {
  text: {},
  json_object: { schema },
  json_schema: { schema, json_schema: object },
  regex: { pattern },
  grammar: { grammar: text },
  choice: { choices },
};

/** Converts a response format. Throws ARGUMENT. @param {any} value @returns {ResponseFormat} */
export function formatOf(value) {
  const at = 'response_format';
  const type = oneOf(...Object.keys(MEMBERS));
  const expectedType = type(value.type);
  if (expectedType) throw wrong(`${at}.type`, value.type, expectedType);
  const { json_schema: schemaMember, ...checked } = membersOf(at, { type, ...MEMBERS[value.type] }, value);
  if (checked.type === 'json_object')
    return checked.schema === undefined ? { type: 'json_object' } : { type: 'json_schema', schema: checked.schema };
  if (checked.type !== 'json_schema') return /** @type {ResponseFormat} */ (checked);
  const schemaFields = { name: text, description: text, strict: flag, schema };
  const nestedSchema = schemaMember && membersOf(`${at}.json_schema`, schemaFields, schemaMember).schema;
  if (nestedSchema !== undefined && checked.schema !== undefined)
    throw refuse(`${at}.schema`, `${at} has two schemas: schema and json_schema.schema`, 'omit one of them');
  if (nestedSchema === undefined && checked.schema === undefined)
    throw refuse(
      `${at}.json_schema`,
      `${at} of type "json_schema" has no schema`,
      'pass json_schema: { name, schema }',
    );
  return { type: 'json_schema', schema: nestedSchema ?? checked.schema };
}
