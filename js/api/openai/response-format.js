/** `response_format` of a request, in OpenAI's form, llama.cpp's and ours, as the `responseFormat` of a generation. */
import { flag, kind, object, oneOf, text, wrong } from '../../shared/options.js';
import { membersOf, refuse } from './check-fields.js';

/** @import { ResponseFormat } from '../../shared/types.js' */
/** @import { Options } from '../../shared/options.js' */

const schema = kind('a JSON Schema: an object, true or false', (v) => !object(v) || !flag(v));
const pattern = kind('a text or a RegExp', (v) => !text(v) || v instanceof RegExp);
const choices = kind('a list of texts', (v) => Array.isArray(v) && v.every((one) => !text(one)));

/** What each kind has besides its type. @type {Record<string, Options>} */
const MEMBERS = {
  text: {},
  json_object: { schema },
  json_schema: { schema, json_schema: object },
  regex: { pattern },
  grammar: { grammar: text },
  choice: { choices },
};

/** ARGUMENT. @param {any} given @returns {ResponseFormat} */
export function formatOf(given) {
  const at = 'response_format';
  const type = oneOf(...Object.keys(MEMBERS));
  const wanted = type(given.type);
  if (wanted) throw wrong(`${at}.type`, given.type, wanted);
  const { json_schema: named, ...format } = membersOf(at, { type, ...MEMBERS[given.type] }, given);
  if (format.type === 'json_object')
    return format.schema === undefined ? { type: 'json_object' } : { type: 'json_schema', schema: format.schema };
  if (format.type !== 'json_schema') return /** @type {ResponseFormat} */ (format);
  const members = { name: text, description: text, strict: flag, schema };
  const found = named && membersOf(`${at}.json_schema`, members, named).schema;
  if (found !== undefined && format.schema !== undefined)
    throw refuse(`${at}.schema`, `${at} has two schemas: schema and json_schema.schema`, 'leave one out');
  if (found === undefined && format.schema === undefined)
    throw refuse(
      `${at}.json_schema`,
      `${at} of type "json_schema" has no schema`,
      'pass json_schema: { name, schema }',
    );
  return { type: 'json_schema', schema: found ?? format.schema };
}
