// What judges texts of schemas: ajv, with its formats.
import { createRequire } from 'node:module';

// CommonJS, whose types know no default import.
const require = createRequire(import.meta.url);
const [Ajv7, Ajv2020, addFormats] = ['ajv', 'ajv/dist/2020', 'ajv-formats'].map((name) => require(name).default);

/** @param {any} schema @returns {((value: any) => boolean) & { errors: any }} */
export function validator(schema) {
  const ajv = new (JSON.stringify(schema).includes('2020-12') ? Ajv2020 : Ajv7)({ strict: false, logger: false });
  addFormats(ajv);
  return ajv.compile(schema);
}
