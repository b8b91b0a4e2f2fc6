/**
 * Numbers within limits, as automata over their decimal digits. Limits are doubles. The automata compare decimals with
 * the shortest decimal of a limit. Parsing a decimal rounds, but keeps the order, so the parsed number keeps an
 * inclusive limit. For exclusive limits, numbers have so few digits that different decimals are different doubles. If
 * the limit itself has too many digits for that, it is replaced by an inclusive limit, the next double.
 */
import { intersection, union, explore, isEmpty, dfaOfTree, difference } from '../dfa.js';
import { grammarError } from '../failure.js';
import { parseRegex } from '../regex.js';

/** @import { Dfa } from '../dfa.js' */
/** @import { NumberShape } from './shapes.js' */

/** Number of significant digits up to which different decimals are different doubles. */
const EXACT_DIGITS = 15;
/** Maximum numbers of digits before (`whole`) and after (`part`) the decimal point. */
const DIGITS = { whole: 15, part: 15 };
/** The same for numbers with exclusive limits. */
const FEW_DIGITS = { whole: 9, part: 5 };
/** Number of remainders from which on the automaton does not limit the digits; C then counts the characters. */
const MANY_REMAINDERS = 32;
/** Maximum number of characters of such numbers. */
const MAX_CHARACTERS = 14;
/** Maximum product of the divisor's digits, read as an integer, and of the number of its digits after the point. */
const MAX_REMAINDERS = 4096;

/**
 * Limits this far from 0 are ignored if the opposite limit is not as far: the numbers that are written then have too
 * few digits to reach them.
 */
const FAR = 1e21;

/**
 * Limits closer to 0 than this would need too many states. They are replaced by 0 or by this distance from 0, whichever
 * is stricter.
 */
const TINY = 1e-40;
/** Doubles from here on are integers. */
const MIN_ONLY_INTEGERS = 2 ** 52;

/** @param {string} source */
const dfaOf = (source) => dfaOfTree(parseRegex(source).tree);
const ANY_NUMBER = '-?(0|[1-9]\\d{0,14})(\\.\\d{1,15})?([eE][+-]?\\d{1,2})?';
const NONE = dfaOf('[^\\s\\S]');

/**
 * Returns an expression of integers of 1 to 14 digits, each followed by the result of `fraction`.
 * @param {(n: number) => string} fraction  returns the expression of the fraction after n digits
 */
const eachLength = (fraction) =>
  Array.from({ length: EXACT_DIGITS - 1 }, (_, i) => `[1-9]\\d{${i}}${fraction(i + 1)}`).join('|');
/**
 * Decimals that are different doubles if their values differ, so that excluding the decimal of a number excludes the
 * number: numbers of 15 digits, and longer integers, because excluded integers are below 2^53.
 */
const DISTINCT = `-?(0(\\.0{0,${EXACT_DIGITS}}\\d{0,${EXACT_DIGITS}}0*)?|${eachLength((n) => `(\\.\\d{1,${EXACT_DIGITS - n}}0*)?`)}|[1-9]\\d{14,15}(\\.0+)?|[1-9]\\d{0,14}0{2,})`;
/** Decimals whose doubles are below 2^52 and not integers. */
const FRACTIONS = `-?(0\\.0{0,${EXACT_DIGITS}}\\d{0,${EXACT_DIGITS - 1}}[1-9]0*|${eachLength((n) => `\\.\\d{0,${EXACT_DIGITS - 1 - n}}[1-9]0*`)}|[1-9]\\d{14}\\.[1-9]0*|[1-9]\\d{15}\\.50*)`;

/**
 * Returns the digits before (`whole`) and after (`part`) the decimal point.
 * @param {number} x  not negative
 * @returns {{ whole: string, part: string }}
 */
function digitsOf(x) {
  const [mantissa, exponent = '0'] = String(x).split('e');
  const [a, b = ''] = mantissa.split('.');
  const shift = Number(exponent);
  const all = a + b;
  const point = a.length + shift;
  const whole = point > 0 ? all.slice(0, point).padEnd(point, '0') : '0';
  const part = point >= 0 ? all.slice(point) : '0'.repeat(-point) + all;
  return { whole: whole.replace(/^0+(?=\d)/, ''), part: part.replace(/0+$/, '') };
}

/** Returns the next larger or the next smaller double. @param {number} x  not 0 @param {boolean} larger */
function nextDouble(x, larger) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  view.setBigUint64(0, view.getBigUint64(0) + (x > 0 === larger ? 1n : -1n));
  return view.getFloat64(0);
}

/**
 * Returns an exclusive limit in the form that `magnitudes` expects: exclusive (`open`), or the next double as an
 * inclusive limit.
 * @param {number} limit @param {boolean} larger  whether larger numbers are allowed
 */
function exclusive(limit, larger) {
  if (Number.isFinite(limit)) {
    const { whole, part } = digitsOf(Math.abs(limit));
    const significant = `${whole}${part}`.replace(/^0+/, '').length;
    if (significant >= EXACT_DIGITS || whole.length + FEW_DIGITS.part > EXACT_DIGITS)
      return { limit: nextDouble(limit, larger), open: false };
  }
  return { limit, open: true };
}

/** Returns an expression of `min` to `max` digits. @param {number} min @param {number} max  may be Infinity */
const digitsBetween = (min, max) => `\\d{${min},${max === Infinity ? '' : max}}`;

/** Returns an expression of at most `max` digits that are not all 0. @param {number} max */
const notZero = (max) => `(${Array.from({ length: max }, (_, i) => `0{${i}}[1-9]\\d{0,${max - 1 - i}}`).join('|')})`;

/**
 * Returns an expression of one digit from `low` to `high`; if low > high, nothing matches it.
 * @param {number} low @param {number} high
 */
const digit = (low, high) => (low <= high ? `[${low}-${high}]` : '[^\\s\\S]');

/**
 * Returns expressions of the larger or the smaller numbers with the same number of digits.
 * @param {string} digits @param {boolean} larger
 * @param {boolean} first  whether numbers of several digits must not begin with 0
 */
function besideDigits(digits, larger, first) {
  return [...digits].map((c, i) => {
    const low = first && i === 0 && digits.length > 1 ? 1 : 0;
    return (
      digits.slice(0, i) +
      (larger ? digit(Number(c) + 1, 9) : digit(low, Number(c) - 1)) +
      (i + 1 < digits.length ? `\\d{${digits.length - i - 1}}` : '')
    );
  });
}

/**
 * Returns an expression of the integers larger or smaller than one.
 * @param {string} integer  its digits @param {boolean} larger @param {number} maxDigits
 */
function besideInteger(integer, larger, maxDigits) {
  const n = integer.length;
  const others = larger
    ? n < maxDigits
      ? [`[1-9]${digitsBetween(n, maxDigits - 1)}`]
      : []
    : n > 2
      ? ['0', `[1-9]\\d{0,${n - 2}}`]
      : n === 2
        ? ['\\d']
        : [];
  return `(${[...besideDigits(integer, larger, true), ...others].join('|')})`;
}

/**
 * Returns the non-negative numbers on one side of a limit.
 * @param {number} limit @param {boolean} larger @param {boolean} open  whether the limit itself is excluded
 * @param {{ whole: number, part: number }} digits  maximum numbers of digits @returns {Dfa}
 */
function oneSide(limit, larger, open, { whole: maxWhole, part: maxPart }) {
  if (limit === Infinity)
    return larger ? NONE : dfaOf(`(0|[1-9]${digitsBetween(0, maxWhole - 1)})(\\.\\d{1,${maxPart}})?`);
  const { whole, part } = digitsOf(limit);
  const width = Math.max(maxWhole, whole.length);
  const anyFraction = `(\\.\\d{1,${Math.max(maxPart, part.length + 1)}})?`;
  const sides = [`${besideInteger(whole, larger, width)}${anyFraction}`];
  const spare = Math.max(1, maxPart - part.length);
  if (larger) {
    // Equal before the point: the fraction is larger, or begins with the limit's digits and continues.
    if (!part && !open) sides.push(`${whole}${anyFraction}`);
    if (!part && open) sides.push(`${whole}\\.${notZero(maxPart)}`);
    if (part)
      sides.push(
        ...[...part].map((c, i) => `${whole}\\.${part.slice(0, i)}${digit(Number(c) + 1, 9)}\\d{0,${maxPart}}`),
        `${whole}\\.${part}${open ? notZero(spare) : `\\d{0,${spare}}`}`,
      );
  } else {
    if (!part && !open) sides.push(`${whole}(\\.0{1,${maxPart}})?`);
    if (part) {
      sides.push(whole);
      sides.push(
        ...[...part].map((c, i) => `${whole}\\.${part.slice(0, i)}${digit(0, Number(c) - 1)}\\d{0,${maxPart}}`),
      );
      for (let i = 1; i < part.length; i++) sides.push(`${whole}\\.${part.slice(0, i)}`);
      if (!open) sides.push(`${whole}\\.${part}0{0,${spare}}`);
    }
  }
  return dfaOf(sides.join('|'));
}

/**
 * Returns how the digits read so far compare with the first digits of a limit, after a further digit: a sign.
 * @param {number} before  result for the digits before it
 * @param {string} limit @param {number} n  number of digits before it
 * @param {number} digit
 */
const compareDigits = (before, limit, n, digit) =>
  n < limit.length ? before || Math.sign(digit - Number(limit[n])) : 1;

/**
 * Returns the integers from low to high, of at most `maxDigits` digits.
 * @param {{ limit: number, open: boolean }} low @param {{ limit: number, open: boolean }} high
 * @param {number} maxDigits
 * @returns {Dfa}
 */
function integersBetween(low, high, maxDigits) {
  const lowDigits = digitsOf(Math.max(low.limit, 0));
  const endless = high.limit === Infinity && maxDigits === Infinity;
  // Number of digits from which on the state no longer depends on it.
  const last = endless ? lowDigits.whole.length + 1 : Infinity;
  const { whole, part } =
    high.limit < Infinity ? digitsOf(high.limit) : { whole: '9'.repeat(endless ? last + 1 : maxDigits), part: '' };
  // A limit with a fraction is larger than the integer before its point.
  const above = low.limit >= 0 && (low.open || lowDigits.part) ? 1 : 0;
  const below = high.open && !part ? -1 : 0;
  return explore(
    'a limit of numbers',
    { n: 0, low: low.limit < 0 ? 1 : 0, high: high.limit < Infinity ? 0 : -1, zero: false },
    (at) => `${at.n} ${at.low} ${at.high} ${at.zero}`,
    (at) => ({
      accepts:
        at.n > 0 &&
        (at.n > lowDigits.whole.length || (at.n === lowDigits.whole.length && at.low >= above)) &&
        (at.n < whole.length || at.high <= below),
      edges: Array.from({ length: at.n < whole.length && !at.zero ? 10 : 0 }, (_, digit) => [
        48 + digit,
        48 + digit,
        {
          n: Math.min(at.n + 1, last),
          low: compareDigits(at.low, lowDigits.whole, at.n, digit),
          high: compareDigits(at.high, whole, at.n, digit),
          zero: at.n === 0 && digit === 0,
        },
      ]),
    }),
  );
}

/**
 * Returns the non-negative numbers from low to high.
 * @param {{ limit: number, open: boolean }} low @param {{ limit: number, open: boolean }} high
 * @param {{ whole: number, part: number }} digits @param {boolean} integer
 */
function magnitudes(low, high, digits, integer) {
  if (
    high.limit < 0 ||
    (high.limit === 0 && high.open) ||
    low.limit > high.limit ||
    (low.limit === high.limit && (low.open || high.open))
  )
    return NONE;
  if (integer) return integersBetween(low, high, digits.whole);
  const below = oneSide(high.limit, false, high.open, digits);
  return low.limit < 0 || (low.limit === 0 && !low.open)
    ? below
    : intersection(oneSide(low.limit, true, low.open, digits), below);
}

/** Returns an automaton with a minus sign before its texts. @param {Dfa} dfa @returns {Dfa} */
const negative = (dfa) => [
  { accepts: false, edges: [[45, 45, 1]] },
  ...dfa.map(({ accepts, edges }) => ({
    accepts,
    edges: edges.map(([a, b, to]) => /** @type {[number, number, number]} */ ([a, b, to + 1])),
  })),
];

/** Returns a positive number as digits × 10^-scale. @param {number} m */
function decimalOf(m) {
  const { whole, part } = digitsOf(m);
  return { digits: BigInt(whole + part), scale: part.length };
}

/**
 * Returns the non-negative decimals that are multiples of `m`. States hold the remainder of the digits read so far.
 * Zeros at the end of the divisor are required at the end of the decimal and counted, so that they add no remainders.
 * @param {number} m
 * @param {number} parts  maximum number of digits after the point. Infinity: after the divisor's digits, any number of
 *   zeros
 * @returns {Dfa}
 */
function multiples(m, parts) {
  let { digits, scale } = decimalOf(m);
  let zeros = 0;
  for (; digits % 10n === 0n; zeros++) digits /= 10n;
  const divisor = Number(digits);
  if (digits * BigInt(scale + zeros + 1) > MAX_REMAINDERS)
    throw grammarError(
      `multipleOf ${m} needs too many states`,
      `use a number with fewer digits: without its point at most ${MAX_REMAINDERS}, and less with digits after the point`,
    );
  const maxDigits = Math.min(scale, parts);
  /** Returns 10^n modulo the divisor. @param {number} n */
  const power = (n) => Number(10n ** BigInt(n) % digits);
  /**
   * `remainder`: remainder of the digits except for `zerosAtEnd` zeros at the end. `part`: number of digits after the
   * point, or -1 if there is no point yet. `read`: whether there is a digit.
   * @typedef {{ remainder: number, zerosAtEnd: number, part: number, read: boolean }} Read
   */
  /** @param {Read} at @param {number} digit @returns {Read} */
  const afterDigit = ({ remainder, zerosAtEnd, part }, digit) => {
    const next = part < 0 ? part : part + 1;
    if (digit === 0 && zerosAtEnd < zeros) return { remainder, zerosAtEnd: zerosAtEnd + 1, part: next, read: true };
    // Further zeros count as ordinary digits.
    const tens = digit === 0 ? 1 : zerosAtEnd + 1;
    return {
      remainder: (remainder * power(tens) + digit) % divisor,
      zerosAtEnd: digit === 0 || zeros === 0 ? zerosAtEnd : 0,
      part: next,
      read: true,
    };
  };
  return explore(
    `multipleOf ${m}`,
    // 0 is a multiple: the zeros at the end count as read.
    /** @type {Read} */ ({ remainder: 0, zerosAtEnd: zeros, part: -1, read: false }),
    ({ remainder, zerosAtEnd, part, read }) => `${remainder} ${zerosAtEnd} ${part} ${read}`,
    (at) => {
      const { remainder, zerosAtEnd, part, read } = at;
      const missing = Math.max(0, scale - Math.max(part, 0));
      const accepts = read && part !== 0 && zerosAtEnd === zeros && (remainder * power(missing)) % divisor === 0;
      /** @type {[number, number, Read][]} */
      const edges = [];
      if (read && part < 0 && (maxDigits > 0 || parts === Infinity)) edges.push([46, 46, { ...at, part: 0 }]);
      if (part < maxDigits)
        for (let digit = 0; digit < 10; digit++) edges.push([48 + digit, 48 + digit, afterDigit(at, digit)]);
      else if (parts === Infinity) edges.push([48, 48, { ...at, part: Math.max(part, 1) }]);
      return { accepts, edges };
    },
  );
}

/**
 * Whether a number is a multiple of another, computed exactly with their shortest decimals.
 * @param {number} value @param {number} m
 */
export function isMultiple(value, m) {
  const [a, b] = [decimalOf(Math.abs(value)), decimalOf(m)];
  const scale = Math.max(a.scale, b.scale);
  const scaled = (/** @type {typeof a} */ x) => x.digits * 10n ** BigInt(scale - x.scale);
  return scaled(a) % scaled(b) === 0n;
}

/** Returns a predicate for the numbers of a shape. @param {NumberShape} n @returns {(value: number) => boolean} */
export const numberAdmits = (n) => (v) =>
  v >= n.min &&
  v <= n.max &&
  v > n.above &&
  v < n.below &&
  (!n.integer || v % 1 === 0) &&
  (!n.fraction || v % 1 !== 0) &&
  n.multiples.every((m) => isMultiple(v, m)) &&
  n.notMultiples.every((m) => !isMultiple(v, m));

/**
 * Returns the limits, with stricter ones in place of limits closer to 0 than TINY.
 * @param {NumberShape} n @returns {NumberShape}
 */
function withoutTinyLimits(n) {
  const isTiny = (/** @type {number} */ limit) => limit !== 0 && Math.abs(limit) < TINY;
  if (![n.min, n.above, n.max, n.below].some(isTiny)) return n;
  const lowerLimit = (/** @type {number} */ limit) => (isTiny(limit) ? (limit > 0 ? TINY : 0) : limit);
  const upperLimit = (/** @type {number} */ limit) => (isTiny(limit) ? (limit < 0 ? -TINY : 0) : limit);
  const [low, high] = [n.above, n.below].map(isTiny);
  return {
    ...n,
    min: Math.max(lowerLimit(n.min), low ? lowerLimit(n.above) : -Infinity),
    above: low ? -Infinity : n.above,
    max: Math.min(upperLimit(n.max), high ? upperLimit(n.below) : Infinity),
    below: high ? Infinity : n.below,
  };
}

/**
 * Returns the limits without those that no written number reaches (FAR).
 * @param {NumberShape} n @returns {NumberShape}
 */
function withoutFarLimits(n) {
  const isLow = Math.max(n.min, n.above) < FAR;
  const isHigh = Math.min(n.max, n.below) > -FAR;
  const upperLimit = (/** @type {number} */ limit) => (isLow && limit >= FAR ? Infinity : limit);
  const lowerLimit = (/** @type {number} */ limit) => (isHigh && limit <= -FAR ? -Infinity : limit);
  return {
    ...n,
    max: upperLimit(n.max),
    below: upperLimit(n.below),
    min: lowerLimit(n.min),
    above: lowerLimit(n.above),
  };
}

/**
 * Returns the texts of a shape's numbers, and the maximum number of characters that C must enforce. Infinity: none,
 * because the automaton limits the length itself.
 * @param {NumberShape} given @param {number[]} excluded @returns {{ texts: Dfa, max: number }}
 */
export function numberTexts(given, excluded) {
  const n = withoutFarLimits(withoutTinyLimits(given));
  if (n.fraction && [n.min, n.above, n.max, n.below].some((x) => Number.isFinite(x) && Math.abs(x) >= 1e15))
    [n.above, n.below] = [Math.max(n.above, -MIN_ONLY_INTEGERS), Math.min(n.below, MIN_ONLY_INTEGERS)];
  const isUnlimited =
    [given.min, given.above].every((x) => x === -Infinity) && [given.max, given.below].every((x) => x === Infinity);
  const plain = !n.multiples.length && !n.notMultiples.length && !n.integer && !n.fraction;
  if (isUnlimited && plain && !excluded.length) return { texts: dfaOf(ANY_NUMBER), max: Infinity };
  const scale = Math.min(...n.multiples.map((m) => decimalOf(m).scale));
  const integer = n.integer || scale === 0;
  if (integer && n.fraction) return { texts: NONE, max: Infinity };
  const few = n.above > -Infinity || n.below < Infinity || excluded.length || n.fraction;
  const limits = [n.min, n.max, n.above, n.below].filter(Number.isFinite).map((x) => digitsOf(Math.abs(x)));
  const longest = Math.max(0, ...limits.map(({ whole }) => whole.length));
  const digits = { ...(few ? FEW_DIGITS : DIGITS) };
  // A multiple needs no more digits after the point than its divisor, and has at most 15 digits in total.
  if (scale < Infinity) {
    digits.part = Math.min(scale, DIGITS.part);
    digits.whole = Math.min(digits.whole, Math.max(1, DIGITS.whole - digits.part));
  }
  digits.whole = Math.max(longest, digits.whole);
  const low = n.above >= n.min ? exclusive(n.above, true) : { limit: n.min, open: false };
  const high = n.below <= n.max ? exclusive(n.below, false) : { limit: n.max, open: false };
  const remainders = [...n.multiples, ...n.notMultiples].reduce((all, m) => all * Number(decimalOf(m).digits), 1);
  const counted = remainders > MANY_REMAINDERS && (low.limit === -Infinity || high.limit === Infinity);
  const max = counted ? Math.max(MAX_CHARACTERS, longest + digits.part + 2) : Infinity;
  if (counted) digits.whole = Infinity;
  const mirrored = { limit: -high.limit, open: high.open };
  let plus = magnitudes(low, high, digits, integer);
  let minus = magnitudes(
    mirrored.limit >= 0 && !(mirrored.limit === 0 && !mirrored.open) ? mirrored : { limit: 0, open: true },
    { limit: -low.limit, open: low.open },
    digits,
    integer,
  );
  for (const m of n.multiples) {
    const dfa = multiples(m, integer ? 0 : digits.part);
    [plus, minus] = [intersection(plus, dfa), intersection(minus, dfa)];
  }
  for (const m of n.notMultiples) {
    const dfa = multiples(m, Infinity);
    [plus, minus] = [difference(plus, dfa), difference(minus, dfa)];
  }
  let texts = isEmpty(minus) ? plus : union(plus, negative(minus));
  if (n.fraction) texts = intersection(texts, dfaOf(FRACTIONS));
  if (excluded.length) texts = intersection(texts, dfaOf(DISTINCT));
  for (const value of excluded) {
    const { whole, part } = digitsOf(Math.abs(value));
    texts = difference(
      texts,
      dfaOf(`${value < 0 ? '-' : value === 0 ? '-?' : ''}${whole}(\\.${part}0*)${part ? '' : '?'}`),
    );
  }
  return { texts, max };
}
