/** Formatting of texts as in Python: the method `format` and the operator `%`. */
import { formatNumber } from './numbers.js';
import { concat, cut, isText, stringOf } from './template-texts.js';
import { characterOffset, lengthOf } from './text-operations.js';
import {
  requireDefined,
  Float,
  lookUp,
  trackCallerText,
  isNumber,
  joinTexts,
  numberOf,
  repr,
  toText,
  templateError,
  Tuple,
  typeOf,
} from './values.js';

/** @typedef {import('./values.js').Meter} Meter */
/** @typedef {string | import('./template-texts.js').Text} AnyText */
/** @typedef {import('./arguments.js').Args} Args */

/**
 * Evaluates `'{} and {name}'.format(…)`. Only names and numbers are supported in braces.
 * @param {AnyText} text @param {Args} args @param {Meter} meter
 */
export function format(text, { at, named }, meter) {
  const value = stringOf(text);
  meter.countItems(value.length);
  /** @type {AnyText[]} */
  const parts = [];
  let [next, done, numbered] = [0, 0, /** @type {boolean | null} */ (null)];
  for (const { 0: whole, 1: name, index } of value.matchAll(/\{\{|\}\}|\{(\w*)\}|[{}]/g)) {
    parts.push(cut(text, done, index));
    done = index + whole.length;
    if (whole === '{{' || whole === '}}') {
      parts.push(whole[0]);
      continue;
    }
    if (name === undefined)
      throw templateError('format() with anything but a name or number in braces is not supported');
    const digits = /^\d+$/.test(name);
    if (name === '' || digits) {
      if (numbered !== null && numbered !== digits)
        throw templateError('format() must not mix {} with numbers in braces');
      numbered = digits;
    }
    const argument = name === '' ? at[next++] : digits ? at[Number(name)] : named.get(name);
    if (argument === undefined) throw templateError(`format() has no argument for {${name}}`);
    parts.push(toText(argument, meter));
  }
  parts.push(cut(text, done));
  return joinTexts(parts, meter);
}

/**
 * Formats one value for a conversion `%…`.
 * @param {any} value @param {string} flags @param {number} width @param {number} precision  -1: none
 * @param {string} kind @param {Meter} meter @returns {AnyText}
 */
function formatConversion(value, flags, width, precision, kind, meter) {
  meter.countItems(16 * Math.max(precision, 0));
  if (flags.includes('#') || kind === 'a') throw templateError(`"%${flags}${kind}" in a format is not supported`);
  /** @type {AnyText} */
  let body;
  let sign = '';
  if (kind === 's' || kind === 'r') {
    body = kind === 's' ? toText(value, meter) : trackCallerText(meter, () => repr(value, meter));
    if (precision >= 0) body = cut(body, 0, characterOffset(stringOf(body), precision, meter));
  } else if (kind === 'c') {
    if (isText(value) ? lengthOf(stringOf(value), meter) !== 1 : typeof value !== 'number')
      throw templateError('"%c" expects a character or its number');
    body = isText(value) ? value : String.fromCodePoint(value);
  } else {
    if (!isNumber(value))
      throw templateError(`"%${kind}" expects a number, found a value of type ${typeOf(requireDefined(value))}`);
    const number = numberOf(value);
    const float = 'eEfFgG'.includes(kind);
    if (!float && value instanceof Float && ('xXo'.includes(kind) || !Number.isFinite(number)))
      throw templateError(`"%${kind}" can't format the number ${number}`);
    const negative = float ? number < 0 || Object.is(number, -0) : Math.trunc(number) < 0;
    sign = negative ? '-' : flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : '';
    const size = Math.abs(number);
    if (!Number.isFinite(number)) {
      if (flags.includes('0')) throw templateError('infinite numbers with leading zeros are not supported');
      body = Number.isNaN(number) ? 'nan' : 'inf';
    } else if (float) body = formatNumber(size, kind.toLowerCase(), precision < 0 ? 6 : precision);
    else
      body = BigInt(Math.trunc(size))
        .toString(kind === 'o' ? 8 : 'xX'.includes(kind) ? 16 : 10)
        .padStart(precision, '0');
    if ('EFGX'.includes(kind)) body = stringOf(body).toUpperCase();
  }
  const pad = Math.max(width - sign.length - lengthOf(stringOf(body), meter), 0);
  meter.countOutput(pad);
  if (flags.includes('-')) return concat([sign, body, ' '.repeat(pad)]);
  const zeros = flags.includes('0') && !'src'.includes(kind);
  return zeros ? concat([sign, '0'.repeat(pad), body]) : concat([' '.repeat(pad), sign, body]);
}

/** Evaluates `text % values`. @param {AnyText} text @param {any} values @param {Meter} meter */
export function formatPercent(text, values, meter) {
  const value = stringOf(text);
  meter.countItems(value.length);
  const all = values instanceof Tuple ? values : [values];
  /** @type {AnyText[]} */
  const parts = [];
  let [next, done] = [0, 0];
  for (const match of value.matchAll(/%(?:\(([^()]*)\))?([#0 +-]*)(\d*)(?:\.(\d*))?[hlL]?([^])?/g)) {
    const [whole, name, flags, width, precision, kind] = match;
    parts.push(cut(text, done, match.index));
    done = match.index + whole.length;
    if (kind === '%') {
      if (whole !== '%%') throw templateError(`${JSON.stringify(whole)} in a format is not supported`);
      parts.push('%');
      continue;
    }
    if (!kind || !'sdiuxXocrafFeEgG'.includes(kind))
      throw templateError(`${JSON.stringify(whole)} in a format is not supported`);
    let argument;
    if (name === undefined) argument = next < all.length ? all[next++] : undefined;
    else if (values instanceof Map) argument = lookUp(values, name);
    else throw templateError(`"%(${name})" expects a dict after the operator %`);
    if (argument === undefined) throw templateError(`"${whole}" has no value`);
    meter.count();
    parts.push(
      formatConversion(argument, flags, Number(width), precision === undefined ? -1 : Number(precision), kind, meter),
    );
  }
  if (next < all.length && !(values instanceof Map) && (values instanceof Tuple || !Array.isArray(values)))
    throw templateError(`the format has ${next} conversions, but there are ${all.length} values`);
  parts.push(cut(text, done));
  return joinTexts(parts, meter);
}
