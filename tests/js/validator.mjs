// What judges texts of schemas: ajv, with its formats.
import { createRequire } from 'node:module';

// CommonJS, whose types know no default import.
const require = createRequire(import.meta.url);
const [Ajv7, Ajv2019, Ajv2020, addFormats] = ['ajv', 'ajv/dist/2019', 'ajv/dist/2020', 'ajv-formats'].map(
  (name) => require(name).default,
);

/** A decimal as a whole number and how many digits of it lie behind the point. @param {number} x */
function decimalOf(x) {
  const [mantissa, exponent = '0'] = String(Math.abs(x)).split('e');
  const [whole, part = ''] = mantissa.split('.');
  const scale = part.length - Number(exponent);
  return { digits: BigInt(whole + part) * 10n ** BigInt(Math.max(0, -scale)), scale: Math.max(0, scale) };
}

/**
 * Whether a number is a multiple as JSON Schema defines it: what both say as decimals is divided. ajv divides doubles instead, for which
 * 4.35 is no multiple of 0.01.
 * @param {number} m @param {number} value
 */
function isMultiple(m, value) {
  const [a, b] = [decimalOf(value), decimalOf(m)];
  const scale = Math.max(a.scale, b.scale);
  const scaled = (/** @type {typeof a} */ x) => x.digits * 10n ** BigInt(scale - x.scale);
  return scaled(a) % scaled(b) === 0n;
}

/** @param {any} schema @returns {((value: any) => boolean) & { errors: any }} */
export function validator(schema) {
  const text = JSON.stringify(schema);
  const Ajv = text.includes('2020-12') ? Ajv2020 : text.includes('2019-09') ? Ajv2019 : Ajv7;
  // What every object of JavaScript has, as constructor, isn't a property of a value.
  const ajv = new Ajv({ strict: false, logger: false, ownProperties: true });
  ajv.removeKeyword('multipleOf');
  ajv.addKeyword({ keyword: 'multipleOf', type: 'number', schemaType: 'number', validate: isMultiple });
  addFormats(ajv);
  return ajv.compile(schema);
}
