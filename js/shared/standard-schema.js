/**
 * Schemas with the Standard JSON Schema interface (zod, ArkType, Valibot), converted to JSON Schema before they are
 * posted.
 */
import { BqError } from './errors.js';

/**
 * Converts a schema of such a library to JSON Schema. Other values are returned unchanged. Throws UNSUPPORTED if the
 * library can't convert it.
 * @param {any} schema
 * @returns {any}
 */
export function jsonSchemaOf(schema) {
  const standard = schema?.['~standard'];
  if (!standard) return schema;
  const { jsonSchema, vendor } = standard;
  if (jsonSchema) return jsonSchema.input({ target: 'draft-2020-12' });
  throw new BqError('UNSUPPORTED', `this schema of ${vendor} has no "~standard".jsonSchema`);
}

/**
 * Returns a copy of an object with one of its properties converted to JSON Schema.
 * @param {any} object
 * @param {string} name
 * @returns {any}
 */
const withPlain = (object, name) => (object?.[name] ? { ...object, [name]: jsonSchemaOf(object[name]) } : object);

/**
 * Converts the schemas of a response format in bq4's or OpenAI's form, or a schema in its place.
 * @param {any} format
 * @returns {any}
 */
export const plainFormat = (format) =>
  format['~standard']
    ? { type: 'json_schema', schema: jsonSchemaOf(format) }
    : format.json_schema
      ? { ...format, json_schema: withPlain(format.json_schema, 'schema') }
      : withPlain(format, 'schema');

/** @param {any} tools @returns {any} */
export const plainTools = (tools) =>
  Array.isArray(tools)
    ? tools.map((tool) => (tool?.function ? { ...tool, function: withPlain(tool.function, 'parameters') } : tool))
    : tools;

/**
 * Returns a copy of a request in OpenAI's shape with its schemas converted to JSON Schema.
 * @param {any} request
 * @returns {any}
 */
export function withPlainSchemas(request) {
  const { response_format: format, tools } = request;
  return {
    ...request,
    ...(format && { response_format: plainFormat(format) }),
    ...(tools && { tools: plainTools(tools) }),
  };
}
