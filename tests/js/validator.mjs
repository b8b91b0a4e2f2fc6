// Validation of values against JSON Schemas, by ajv with its formats.
import { createRequire } from 'node:module';

// The packages are CommonJS, and their types have no default import.
const require = createRequire(import.meta.url);
const [Ajv7, Ajv2019, Ajv2020, addFormats] = ['ajv', 'ajv/dist/2019', 'ajv/dist/2020', 'ajv-formats'].map(
  (name) => require(name).default,
);

/** A number as an integer and the number of its digits after the decimal point. @param {number} x */
function decimalOf(x) {
  const [mantissa, exponent = '0'] = String(Math.abs(x)).split('e');
  const [whole, part = ''] = mantissa.split('.');
  const scale = part.length - Number(exponent);
  return { digits: BigInt(whole + part) * 10n ** BigInt(Math.max(0, -scale)), scale: Math.max(0, scale) };
}

/**
 * Whether a number is a multiple of another one as JSON Schema defines it, by division of the decimal numbers. ajv divides doubles, for which
 * 4.35 is no multiple of 0.01.
 * @param {number} m @param {number} value
 */
function isMultiple(m, value) {
  const [a, b] = [decimalOf(value), decimalOf(m)];
  const scale = Math.max(a.scale, b.scale);
  const digitsOf = (/** @type {typeof a} */ x) => x.digits * 10n ** BigInt(scale - x.scale);
  return digitsOf(a) % digitsOf(b) === 0n;
}

/** A function that validates values against a schema. @param {any} schema @returns {((value: any) => boolean) & { errors: any }} */
export function validator(schema) {
  const text = JSON.stringify(schema);
  const Ajv = text.includes('2020-12') ? Ajv2020 : text.includes('2019-09') ? Ajv2019 : Ajv7;
  // ownProperties: inherited properties such as `constructor` do not count.
  const ajv = new Ajv({ strict: false, logger: false, ownProperties: true });
  ajv.removeKeyword('multipleOf');
  ajv.addKeyword({ keyword: 'multipleOf', type: 'number', schemaType: 'number', validate: isMultiple });
  addFormats(ajv);
  return ajv.compile(schema);
}
