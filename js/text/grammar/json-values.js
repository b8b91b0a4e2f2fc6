/**
 * Formats are values of JSON. What JSON would drop or write as another value (NaN as null, a Map as {}) is refused by its place, since
 * the text would keep to something else than what the caller wrote, and two formats would be taken for one.
 */
import { refused } from './failure.js';
import { shown } from '../../shared/quote-value.js';

/** What JSON writes for an object: its members, its items, or the value that it wraps. */
const PLAIN = new Set(['Object', 'Array', 'String', 'Number', 'Boolean']);

/** Whether JSON writes a value as it is. @param {any} value @returns {boolean} */
function isJson(value) {
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object') return ['string', 'boolean'].includes(typeof value);
  return value === null || PLAIN.has(Object.prototype.toString.call(value).slice(8, -1));
}

/** @param {any} value */
function quoted(value) {
  if (typeof value === 'bigint') return `${value}n`;
  if (value === undefined) return 'undefined';
  return typeof value === 'object' ? Object.prototype.toString.call(value) : shown(value);
}

/** A format as JSON; members that are undefined are left out. GRAMMAR: it has a value that JSON has no text for. @param {any} format @returns {string} */
function jsonOf(format) {
  try {
    return JSON.stringify(
      format,
      /** @this {any} */ function (name, value) {
        if (isJson(value) || (value === undefined && !Array.isArray(this))) return value;
        throw refused(`the format has ${quoted(value)} at "${name}": expected a value of JSON`);
      },
    );
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof RangeError)) throw error;
    const problem = error instanceof RangeError ? 'is nested too deep' : 'contains itself';
    throw refused(`the format ${problem}`, 'for a recursive schema, use $ref');
  }
}

/** @param {any} format */
const expressionOf = (format) => (format?.pattern instanceof RegExp ? format.pattern : null);

/** A text that identifies a format. GRAMMAR: it isn't JSON. @param {any} format */
export function keyOf(format) {
  const expression = expressionOf(format);
  // What follows the JSON tells /a/ from a pattern of the same text.
  return expression ? `${jsonOf({ ...format, pattern: '' })} ${expression}` : jsonOf(format);
}

/** The format as JSON has it, with its regular expression. GRAMMAR: it isn't JSON. @param {any} format @returns {any} */
export function plainFormat(format) {
  const expression = expressionOf(format);
  const plain = JSON.parse(jsonOf(expression ? { ...format, pattern: '' } : format));
  return expression ? { ...plain, pattern: expression } : plain;
}
