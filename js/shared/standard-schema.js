/** Schemas with the Standard JSON Schema interface (zod, ArkType, Valibot), converted to JSON Schema before they are posted. */
import { BqError } from './errors.js';

/** What the interface calls the version of JSON Schema. */
const TARGET = 'draft-2020-12';

/** The JSON Schema of a schema; others are returned as they are. UNSUPPORTED: the library can't convert it. @param {any} schema @returns {any} */
export function jsonSchemaOf(schema) {
  const standard = schema?.['~standard'];
  if (!standard) return schema;
  if (typeof standard.jsonSchema?.input !== 'function')
    throw new BqError('UNSUPPORTED', `this schema of ${standard.vendor} has no "~standard".jsonSchema`, {
      hint: 'update the library, or pass a JSON Schema',
    });
  return standard.jsonSchema.input({ target: TARGET });
}

/** A response format, ours or OpenAI's, or a schema in its place. @param {any} format @returns {any} */
export function plainFormat(format) {
  if (format?.['~standard']) return { type: 'json_schema', schema: jsonSchemaOf(format) };
  if (format?.schema?.['~standard']) return { ...format, schema: jsonSchemaOf(format.schema) };
  const named = format?.json_schema;
  return named?.schema?.['~standard']
    ? { ...format, json_schema: { ...named, schema: jsonSchemaOf(named.schema) } }
    : format;
}

/** @param {any} tools @returns {any} */
export const plainTools = (tools) =>
  Array.isArray(tools)
    ? tools.map((tool) =>
        tool?.function?.parameters?.['~standard']
          ? { ...tool, function: { ...tool.function, parameters: jsonSchemaOf(tool.function.parameters) } }
          : tool,
      )
    : tools;

/** A request in OpenAI's shape whose schemas are JSON Schemas. @param {any} request @returns {any} */
export function withPlainSchemas(request) {
  const { response_format: format, tools } = request;
  return {
    ...request,
    ...(format && { response_format: plainFormat(format) }),
    ...(tools && { tools: plainTools(tools) }),
  };
}
