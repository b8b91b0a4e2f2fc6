/**
 * Arithmetic, rounding and formatting of numbers as in Python: decimal results are exact, halves are rounded to even.
 */
import { Float, templateError } from './values.js';

/** Maximum number of digits after the decimal point. */
const MAX_DECIMALS = 400;

/** @param {number} digits */
function checkDecimals(digits) {
  if (digits > MAX_DECIMALS)
    throw templateError(`${digits} digits after the decimal point are not supported; at most ${MAX_DECIMALS} are`);
}

/**
 * Returns x · 10^digits, rounded to an integer.
 * @param {number} x  not negative
 * @param {number} digits @returns {bigint}
 */
function scaled(x, digits) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  const bits = view.getBigUint64(0);
  const field = Number(bits >> 52n);
  const mantissa = (bits & (2n ** 52n - 1n)) | (field ? 2n ** 52n : 0n);
  const exponent = Math.max(field, 1) - 1075;
  let [above, below] = [mantissa, 1n];
  if (exponent >= 0) above <<= BigInt(exponent);
  else below <<= BigInt(-exponent);
  if (digits >= 0) above *= 10n ** BigInt(digits);
  else below *= 10n ** BigInt(-digits);
  const [whole, rest] = [above / below, 2n * (above % below)];
  return rest > below || (rest === below && whole % 2n) ? whole + 1n : whole;
}

/**
 * Formats a number with a fixed number of digits after the decimal point.
 * @param {number} x  not negative
 * @param {number} digits
 */
export function fixed(x, digits) {
  checkDecimals(digits);
  const text = String(scaled(x, digits)).padStart(digits + 1, '0');
  return digits ? `${text.slice(0, -digits)}.${text.slice(-digits)}` : text;
}

/**
 * Returns the digits and the exponent of ten of a number.
 * @param {number} x  not negative
 * @param {number} digits  number of digits after the first one
 * @returns {[string, number]}
 */
function decimal(x, digits) {
  checkDecimals(digits);
  if (x === 0) return ['0'.repeat(digits + 1), 0];
  let exponent = Number(x.toExponential().split('e')[1]);
  let text = String(scaled(x, digits - exponent));
  if (text.length > digits + 1) text = String(scaled(x, digits - ++exponent));
  return [text, exponent];
}

/** @param {string} digits @param {number} exponent */
const exponential = (digits, exponent) =>
  `${digits[0]}${digits.length > 1 ? `.${digits.slice(1)}` : ''}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;

/** Removes zeros at the end of a number's decimals. @param {string} text */
const withoutZeros = (text) => (text.includes('.') ? text.replace(/\.?0+$/, '') : text);

/**
 * Formats a number like Python's `%e`, `%f` and `%g`.
 * @param {number} x  not negative, finite
 * @param {string} kind @param {number} precision
 */
export function formatNumber(x, kind, precision) {
  if (kind === 'f') return fixed(x, precision);
  if (kind === 'e') return exponential(...decimal(x, precision));
  const most = precision || 1;
  const [digits, exponent] = decimal(x, most - 1);
  if (exponent < -4 || exponent >= most)
    return exponential(withoutZeros(`${digits[0]}.${digits.slice(1)}`).replace('.', ''), exponent);
  return withoutZeros(fixed(x, most - 1 - exponent));
}

/** Python's `round`. @param {number} x @param {number} digits */
export function roundNumber(x, digits) {
  if (!Number.isFinite(x) || digits > 330) return x;
  if (digits < -330) return Math.sign(x) < 0 ? -0 : 0;
  const size = Math.abs(x);
  const result = digits >= 0 ? Number(fixed(size, digits)) : Number(scaled(size, digits) * 10n ** BigInt(-digits));
  return Math.sign(x) < 0 || Object.is(x, -0) ? -result : result;
}

/**
 * Parses a number as Python's `float` does. `isNumber` is false if the text is not a number.
 * @param {string} text @returns {{ isNumber: boolean, value: number }}
 */
export function floatOf(text) {
  const bare = text.trim().toLowerCase();
  if (/^[+-]?(?:(?:\d+_)*\d+\.?(?:(?:\d+_)*\d+)?|\.(?:\d+_)*\d+)(?:e[+-]?(?:\d+_)*\d+)?$/.test(bare))
    return { isNumber: true, value: Number(bare.replaceAll('_', '')) };
  const named = /^([+-]?)(inf|infinity|nan)$/.exec(bare);
  if (named) return { isNumber: true, value: named[2] === 'nan' ? NaN : named[1] === '-' ? -Infinity : Infinity };
  if (/\p{Nd}/u.test(bare.replace(/[0-9]/g, '')))
    throw templateError('numbers in digits other than 0 to 9 are not supported');
  return { isNumber: false, value: NaN };
}

/** @type {Record<string, (a: number, b: number, float: boolean) => number>} */
const OPERATORS = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
  '//': (a, b, float) => {
    const rest = modulo(a, b);
    const quotient = (a - rest) / b;
    if (!float) return quotient;
    if (quotient === 0) return a / b < 0 || Object.is(a / b, -0) ? -0 : 0;
    const floor = Math.floor(quotient);
    return quotient - floor > 0.5 ? floor + 1 : floor;
  },
  '%': modulo,
  '**': power,
};

/** Python's `%`: the result has the sign of b. @param {number} a @param {number} b */
function modulo(a, b) {
  const rest = a % b;
  if (rest === 0) return b < 0 || Object.is(b, -0) ? -0 : 0;
  return rest < 0 === b < 0 ? rest : rest + b;
}

/** @param {number} a @param {number} b @param {boolean} float */
function power(a, b, float) {
  if (a === 0 && b < 0) throw templateError('division by zero');
  if (b === 0) return 1;
  if (b === 0.5 && a >= 0) return Math.sqrt(a);
  if (float && b !== 1 && b !== 2) throw templateError('this power of floats is not supported');
  if (!Number.isInteger(a) || Math.abs(b) > 64) {
    if (b === 1) return a;
    if (b === 2) return a * a;
    if (a === 1 || a === 0) return a;
    if (a === -1) return b % 2 ? -1 : 1;
    throw templateError('powers beyond 2^53 are not supported');
  }
  let result = 1;
  for (let i = 0; i < Math.abs(b); i++) result *= a;
  if (!Number.isSafeInteger(result) && !float) throw templateError('integers beyond 2^53 are not supported');
  return b < 0 ? 1 / result : result;
}

/**
 * Evaluates an operation on two numbers.
 * @param {string} operator @param {any} a  a number @param {any} b  a number
 * @param {(value: number) => number} checkInteger  throws if an integer may be inexact
 */
export function arithmetic(operator, a, b, checkInteger) {
  const number = (/** @type {any} */ value) => (value instanceof Float ? value.value : Number(value));
  const [x, y] = [number(a), number(b)];
  if (!Object.hasOwn(OPERATORS, operator)) throw templateError(`unknown operator "${operator}"`);
  if (y === 0 && ['/', '//', '%'].includes(operator)) throw templateError('division by zero');
  const floats = a instanceof Float || b instanceof Float;
  const result = OPERATORS[operator](x, y, floats);
  if (!floats && operator !== '/' && !(operator === '**' && y < 0)) return checkInteger(result);
  // In Python, a power that overflows is an error, unless an operand is infinite.
  if (operator === '**' && !Number.isFinite(result) && Number.isFinite(x))
    throw templateError('the result of ** is too large');
  return new Float(result);
}
