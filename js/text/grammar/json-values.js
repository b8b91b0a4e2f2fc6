/**
 * Checks that formats are JSON values. Values that JSON.stringify drops or changes (NaN becomes null, a Map becomes {})
 * are an error that gives their place. Otherwise the grammar would differ from what the caller wrote, and two different
 * formats would have the same key.
 */
import { grammarError } from './failure.js';
import { shown } from '../../shared/quote-value.js';

/** Tags of objects that JSON.stringify writes completely: by their members, their items or the wrapped value. */
const PLAIN_TAGS = new Set(['Object', 'Array', 'String', 'Number', 'Boolean']);

/** Whether JSON represents a value unchanged. @param {any} value @returns {boolean} */
function isJson(value) {
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object') return ['string', 'boolean'].includes(typeof value);
  return value === null || PLAIN_TAGS.has(Object.prototype.toString.call(value).slice(8, -1));
}

/** @param {any} value */
function describe(value) {
  if (typeof value === 'bigint') return `${value}n`;
  if (value === undefined) return 'undefined';
  return typeof value === 'object' ? Object.prototype.toString.call(value) : shown(value);
}

/**
 * Returns a format as JSON, without undefined members. Throws GRAMMAR for a value that JSON cannot represent.
 * @param {any} format @returns {string}
 */
function jsonOf(format) {
  try {
    return JSON.stringify(
      format,
      /** @this {any} */ function (name, value) {
        if (isJson(value) || (value === undefined && !Array.isArray(this))) return value;
        throw grammarError(`the format has ${describe(value)} at "${name}": expected a value of JSON`);
      },
    );
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
    const problem = error instanceof RangeError ? 'is nested too deep' : 'contains itself';
    throw grammarError(`the format ${problem}`, 'for a recursive schema, use $ref');
  }
}

/** @param {any} format */
const expressionOf = (format) => (format?.pattern instanceof RegExp ? format.pattern : null);

/** Returns a key that identifies a format. Throws GRAMMAR if the format is not JSON. @param {any} format */
export function keyOf(format) {
  const expression = expressionOf(format);
  // The suffix distinguishes the RegExp /a/ from the pattern "a".
  return expression ? `${jsonOf({ ...format, pattern: '' })} ${expression}` : jsonOf(format);
}

/**
 * Returns a copy of the format as JSON represents it; a RegExp is kept. Throws GRAMMAR if the format is not JSON.
 * @param {any} format @returns {any}
 */
export function plainFormat(format) {
  const expression = expressionOf(format);
  const plain = JSON.parse(jsonOf(expression ? { ...format, pattern: '' } : format));
  return expression ? { ...plain, pattern: expression } : plain;
}
