// What judges texts of schemas: ajv, with its formats.
import { createRequire } from 'node:module';

// CommonJS, whose types know no default import.
const require = createRequire(import.meta.url);
const [Ajv7, Ajv2019, Ajv2020, addFormats] = ['ajv', 'ajv/dist/2019', 'ajv/dist/2020', 'ajv-formats'].map(
  (name) => require(name).default,
);

/** @param {any} schema @returns {((value: any) => boolean) & { errors: any }} */
export function validator(schema) {
  const text = JSON.stringify(schema);
  const Ajv = text.includes('2020-12') ? Ajv2020 : text.includes('2019-09') ? Ajv2019 : Ajv7;
  const ajv = new Ajv({ strict: false, logger: false });
  addFormats(ajv);
  return ajv.compile(schema);
}
