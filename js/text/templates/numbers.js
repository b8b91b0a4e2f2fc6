/** Numbers as Python rounds and writes them: exactly, halves to the even neighbour. */
import { Float, templateError } from './values.js';

/** Most digits behind a point that are written. */
const MOST = 400;

/** x · 10^digits, rounded to a whole number. @param {number} x  not negative @param {number} digits @returns {bigint} */
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

/** @param {number} x  not negative @param {number} digits  behind the point */
export function fixed(x, digits) {
  if (digits > MOST) throw templateError(`${digits} digits behind a point are not supported`);
  const text = String(scaled(x, digits)).padStart(digits + 1, '0');
  return digits ? `${text.slice(0, -digits)}.${text.slice(-digits)}` : text;
}

/** Digits and exponent of ten. @param {number} x  not negative @param {number} digits  behind the first @returns {[string, number]} */
function decimal(x, digits) {
  if (digits > MOST) throw templateError(`${digits} digits behind a point are not supported`);
  if (x === 0) return ['0'.repeat(digits + 1), 0];
  let exponent = Number(x.toExponential().split('e')[1]);
  let text = String(scaled(x, digits - exponent));
  if (text.length > digits + 1) text = String(scaled(x, digits - ++exponent));
  return [text, exponent];
}

/** @param {string} digits @param {number} exponent */
const exponential = (digits, exponent) =>
  `${digits[0]}${digits.length > 1 ? `.${digits.slice(1)}` : ''}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;

/** Without the zeros at the end of what is behind the point. @param {string} text */
const bare = (text) => (text.includes('.') ? text.replace(/\.?0+$/, '') : text);

/** As Python's `%e`, `%f` and `%g`. @param {number} x  not negative, finite @param {string} kind @param {number} precision */
export function written(x, kind, precision) {
  if (kind === 'f') return fixed(x, precision);
  if (kind === 'e') return exponential(...decimal(x, precision));
  const most = precision || 1;
  const [digits, exponent] = decimal(x, most - 1);
  if (exponent < -4 || exponent >= most)
    return exponential(bare(`${digits[0]}.${digits.slice(1)}`).replace('.', ''), exponent);
  return bare(fixed(x, most - 1 - exponent));
}

/** Python's `round`. @param {number} x @param {number} digits */
export function rounded(x, digits) {
  if (!Number.isFinite(x) || digits > 330) return x;
  if (digits < -330) return Math.sign(x) < 0 ? -0 : 0;
  const size = Math.abs(x);
  const made = digits >= 0 ? Number(fixed(size, digits)) : Number(scaled(size, digits) * 10n ** BigInt(-digits));
  return Math.sign(x) < 0 || Object.is(x, -0) ? -made : made;
}

/** What a text says as Python's `float` reads it; NaN with `known` false: it is not a number. @param {string} text @returns {{ known: boolean, value: number }} */
export function floatOf(text) {
  const bare = text.trim().toLowerCase();
  if (/^[+-]?(?:(?:\d+_)*\d+\.?(?:(?:\d+_)*\d+)?|\.(?:\d+_)*\d+)(?:e[+-]?(?:\d+_)*\d+)?$/.test(bare))
    return { known: true, value: Number(bare.replaceAll('_', '')) };
  const named = /^([+-]?)(inf|infinity|nan)$/.exec(bare);
  if (named) return { known: true, value: named[2] === 'nan' ? NaN : named[1] === '-' ? -Infinity : Infinity };
  if (/\p{Nd}/u.test(bare.replace(/[0-9]/g, '')))
    throw templateError('digits of other scripts as a number, which is not supported');
  return { known: false, value: NaN };
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

/** With the sign of b. @param {number} a @param {number} b */
function modulo(a, b) {
  const rest = a % b;
  if (rest === 0) return b < 0 || Object.is(b, -0) ? -0 : 0;
  return rest < 0 === b < 0 ? rest : rest + b;
}

/** @param {number} a @param {number} b @param {boolean} float */
function power(a, b, float) {
  if (a === 0 && b < 0) throw templateError('a division by zero');
  if (b === 0) return 1;
  if (b === 0.5 && a >= 0) return Math.sqrt(a);
  if (float && b !== 1 && b !== 2) throw templateError('a power of numbers with a point, which is not supported');
  if (!Number.isInteger(a) || Math.abs(b) > 64) {
    if (b === 1) return a;
    if (b === 2) return a * a;
    if (a === 1 || a === 0) return a;
    if (a === -1) return b % 2 ? -1 : 1;
    throw templateError('a power beyond 2^53, which is not supported');
  }
  let made = 1;
  for (let i = 0; i < Math.abs(b); i++) made *= a;
  if (!Number.isSafeInteger(made) && !float) throw templateError('a whole number beyond 2^53, which is not supported');
  return b < 0 ? 1 / made : made;
}

/** @param {string} operator @param {any} a  a number @param {any} b  a number @param {(value: number) => number} whole  checks whole numbers */
export function arithmetic(operator, a, b, whole) {
  const number = (/** @type {any} */ value) => (value instanceof Float ? value.value : Number(value));
  const [x, y] = [number(a), number(b)];
  if (!Object.hasOwn(OPERATORS, operator)) throw templateError(`an operator "${operator}" that is not known`);
  if (y === 0 && ['/', '//', '%'].includes(operator)) throw templateError('a division by zero');
  const floats = a instanceof Float || b instanceof Float;
  const made = OPERATORS[operator](x, y, floats);
  if (!floats && operator !== '/' && !(operator === '**' && y < 0)) return whole(made);
  // Python refuses what overflows where infinities were not given.
  if (operator === '**' && !Number.isFinite(made) && Number.isFinite(x))
    throw templateError('a power that is too large');
  return new Float(made);
}
