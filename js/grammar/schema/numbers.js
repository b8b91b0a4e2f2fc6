/**
 * Numbers within limits, as automata over their digits. What is written is decimal, limits are doubles: a text no larger
 * than the shortest decimal of a limit is read as no larger than the limit, as reading rounds and keeps the order. Where a
 * limit itself must not be met, digits are so few that different texts are different doubles.
 */
import { both, either, explore, isNone, ofTexts, ofTree, without } from '../dfa.js';
import { refused } from '../failure.js';
import { parseRegex } from '../regex.js';

/** @import { Dfa } from '../dfa.js' */
/** @import { Shape } from './shapes.js' */

/** Digits before and behind the point; fewer where a limit is excluded; multiples are counted up to so many. */
const DIGITS = { whole: 15, part: 15 };
const FEW = { whole: 9, part: 5 };
const MOST_MULTIPLES = 1000;
const MOST_STATES = 4096;

/** @param {string} source */
const dfa = (source) => ofTree(parseRegex(source).tree);
const ANY_NUMBER = '-?(0|[1-9]\\d{0,14})(\\.\\d{1,15})?([eE][+-]?\\d{1,2})?';
const NONE = dfa('[^\\s\\S]');

/** A decimal's digits around the point. @param {number} x  not negative @returns {{ whole: string, part: string }} */
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

/** One digit of some, or nothing. @param {number} low @param {number} high */
const digit = (low, high) => (low <= high ? `[${low}-${high}]` : '[^\\s\\S]');

/** Texts of as many digits that are larger, or smaller. @param {string} digits @param {boolean} larger @param {boolean} first  none begins with 0 */
function beside(digits, larger, first) {
  return [...digits].map((c, i) => {
    const low = first && i === 0 && digits.length > 1 ? 1 : 0;
    return (
      digits.slice(0, i) +
      (larger ? digit(Number(c) + 1, 9) : digit(low, Number(c) - 1)) +
      (i + 1 < digits.length ? `\\d{${digits.length - i - 1}}` : '')
    );
  });
}

/** Whole numbers larger or smaller. @param {string} whole @param {boolean} larger @param {number} most  digits */
function wholeBeside(whole, larger, most) {
  const n = whole.length;
  const others = larger
    ? n < most
      ? [`[1-9]\\d{${n},${most - 1}}`]
      : []
    : n > 2
      ? ['0', `[1-9]\\d{0,${n - 2}}`]
      : n === 2
        ? ['\\d']
        : [];
  return `(${[...beside(whole, larger, true), ...others].join('|')})`;
}

/** Numbers, not negative, on one side of a limit. @param {number} limit @param {boolean} larger @param {boolean} open  the limit itself isn't one @param {{ whole: number, part: number }} digits @returns {Dfa} */
function half(limit, larger, open, { whole: most, part: parts }) {
  if (limit === Infinity) return larger ? NONE : dfa(`(0|[1-9]\\d{0,${most - 1}})(\\.\\d{1,${parts}})?`);
  const { whole, part } = digitsOf(limit);
  const width = Math.max(most, whole.length);
  const rest = `(\\.\\d{1,${Math.max(parts, part.length + 1)}})?`;
  const sides = [`${wholeBeside(whole, larger, width)}${rest}`];
  const spare = Math.max(1, parts - part.length);
  if (larger) {
    // Equal before the point: what follows is larger, or as large with more behind it.
    if (!part && !open) sides.push(`${whole}${rest}`);
    if (!part && open) sides.push(`${whole}\\.\\d{0,${parts - 1}}[1-9]`);
    if (part)
      sides.push(
        ...[...part].map((c, i) => `${whole}\\.${part.slice(0, i)}${digit(Number(c) + 1, 9)}\\d{0,${parts}}`),
        `${whole}\\.${part}${open ? `\\d{0,${spare}}[1-9]` : `\\d{0,${spare}}`}`,
      );
  } else {
    if (!part && !open) sides.push(`${whole}(\\.0{1,${parts}})?`);
    if (part) {
      sides.push(whole);
      sides.push(...[...part].map((c, i) => `${whole}\\.${part.slice(0, i)}${digit(0, Number(c) - 1)}\\d{0,${parts}}`));
      for (let i = 1; i < part.length; i++) sides.push(`${whole}\\.${part.slice(0, i)}`);
      if (!open) sides.push(`${whole}\\.${part}0{0,${spare}}`);
    }
  }
  return dfa(sides.join('|'));
}

/** How a text's first digits compare with a limit's, where one more comes. @param {number} before @param {string} limit @param {number} n  digits so far @param {number} digit */
const compared = (before, limit, n, digit) => (n < limit.length ? before || Math.sign(digit - Number(limit[n])) : 1);

/** Whole numbers from low to high, of at most so many digits. @param {{ limit: number, open: boolean }} low @param {{ limit: number, open: boolean }} high @param {number} most @returns {Dfa} */
function wholes(low, high, most) {
  const least = digitsOf(Math.max(low.limit, 0));
  const { whole, part } = high.limit < Infinity ? digitsOf(high.limit) : { whole: '9'.repeat(most), part: '' };
  // A limit that isn't whole is more than its digits before the point.
  const above = low.limit >= 0 && (low.open || least.part) ? 1 : 0;
  const below = high.open && !part ? -1 : 0;
  return explore(
    'a limit of numbers',
    { n: 0, low: low.limit < 0 ? 1 : 0, high: high.limit < Infinity ? 0 : -1, zero: false },
    (at) => `${at.n} ${at.low} ${at.high} ${at.zero}`,
    (at) => ({
      accepts:
        at.n > 0 &&
        (at.n > least.whole.length || (at.n === least.whole.length && at.low >= above)) &&
        (at.n < whole.length || at.high <= below),
      edges: Array.from({ length: at.n < whole.length && !at.zero ? 10 : 0 }, (_, digit) => [
        48 + digit,
        48 + digit,
        {
          n: at.n + 1,
          low: compared(at.low, least.whole, at.n, digit),
          high: compared(at.high, whole, at.n, digit),
          zero: at.n === 0 && digit === 0,
        },
      ]),
    }),
  );
}

/** Sizes from low to high. @param {{ limit: number, open: boolean }} low @param {{ limit: number, open: boolean }} high @param {{ whole: number, part: number }} digits @param {boolean} integer */
function sizes(low, high, digits, integer) {
  if (
    high.limit < 0 ||
    (high.limit === 0 && high.open) ||
    low.limit > high.limit ||
    (low.limit === high.limit && (low.open || high.open))
  )
    return NONE;
  if (integer) return wholes(low, high, digits.whole);
  const down = half(high.limit, false, high.open, digits);
  return low.limit < 0 || (low.limit === 0 && !low.open) ? down : both(half(low.limit, true, low.open, digits), down);
}

/** With a sign in front. @param {Dfa} of @returns {Dfa} */
const negative = (of) => [
  { accepts: false, edges: [[45, 45, 1]] },
  ...of.map(({ accepts, edges }) => ({
    accepts,
    edges: edges.map(([a, b, to]) => /** @type {[number, number, number]} */ ([a, b, to + 1])),
  })),
];

/** Whole numbers, not negative, that are multiples of one. @param {number} m @param {boolean} not @returns {Dfa} */
function multiples(m, not) {
  if (m > MOST_STATES) throw refused(`multipleOf ${m} is larger than is supported`);
  return Array.from({ length: m + 1 }, (_, i) => ({
    accepts: i > 0 && (i - 1 === 0) !== not,
    edges: Array.from(
      { length: 10 },
      (_d, d) => /** @type {[number, number, number]} */ ([48 + d, 48 + d, 1 + (((i ? i - 1 : 0) * 10 + d) % m)]),
    ),
  }));
}

/** As validators have it: what doubles say. @param {number} value @param {number} m */
const isMultiple = (value, m) => value / m === parseInt(String(value / m), 10);

/** @param {Shape['number']} n @returns {(value: number) => boolean} */
export const numberAdmits = (n) => (v) =>
  v >= n.min &&
  v <= n.max &&
  v > n.above &&
  v < n.below &&
  (!n.integer || v % 1 === 0) &&
  (!n.fraction || v % 1 !== 0) &&
  n.multiples.every((m) => isMultiple(v, m)) &&
  n.notMultiples.every((m) => !isMultiple(v, m));

/** Multiples of what isn't whole: so many, that are multiples in doubles too. @param {Shape['number']} n */
function listed(n) {
  const step = Math.max(...n.multiples);
  const from = Math.max(n.min, n.above);
  const to = Math.min(n.max, n.below);
  const first =
    from > -Infinity
      ? Math.ceil(from / step)
      : to < Infinity
        ? Math.floor(to / step) - MOST_MULTIPLES
        : -MOST_MULTIPLES / 2;
  const admits = numberAdmits(n);
  const values = [];
  for (let i = 0; i <= MOST_MULTIPLES; i++) {
    const { whole, part } = digitsOf(Math.abs((first + i) * step));
    const text = `${first + i < 0 ? '-' : ''}${whole}${part ? `.${part.slice(0, 12)}` : ''}`
      .replace(/(\.\d*?)0+$/, '$1')
      .replace(/\.$/, '')
      .replace(/^-0$/, '0');
    if (admits(Number(text))) values.push(text);
  }
  return ofTexts(values);
}

/** Texts of a shape's numbers. @param {Shape['number']} n @param {number[]} excluded @returns {Dfa} */
export function numberDfa(n, excluded) {
  const free = n.min === -Infinity && n.max === Infinity && n.above === -Infinity && n.below === Infinity;
  const plain = !n.multiples.length && !n.notMultiples.length && !n.integer && !n.fraction;
  if (free && plain && !excluded.length) return dfa(ANY_NUMBER);
  if (n.multiples.some((m) => m % 1 !== 0)) return listed(n);
  const integer = n.integer || n.multiples.length > 0;
  if (integer && n.fraction) return NONE;
  const few = n.above > -Infinity || n.below < Infinity || excluded.length || n.fraction;
  const longest = Math.max(
    ...[n.min, n.max, n.above, n.below].map((x) => (Number.isFinite(x) ? digitsOf(Math.abs(x)).whole.length : 0)),
  );
  const digits = { ...(few ? FEW : DIGITS), whole: Math.max(longest, (few ? FEW : DIGITS).whole) };
  const low = n.above >= n.min ? { limit: n.above, open: true } : { limit: n.min, open: false };
  const high = n.below <= n.max ? { limit: n.below, open: true } : { limit: n.max, open: false };
  const mirrored = { limit: -high.limit, open: high.open };
  let size = sizes(low, high, digits, integer);
  let minus = sizes(
    mirrored.limit >= 0 && !(mirrored.limit === 0 && !mirrored.open) ? mirrored : { limit: 0, open: true },
    { limit: -low.limit, open: low.open },
    digits,
    integer,
  );
  for (const m of n.multiples) [size, minus] = [both(size, multiples(m, false)), both(minus, multiples(m, false))];
  if (n.notMultiples.some((m) => m % 1 !== 0))
    throw refused(`not with multipleOf ${n.notMultiples.join(', ')} is not supported`);
  for (const m of n.notMultiples) {
    const others = integer ? multiples(m, true) : either(multiples(m, true), dfa('\\d+\\.\\d*[1-9]\\d*'));
    [size, minus] = [both(size, others), both(minus, others)];
  }
  let out = isNone(minus) ? size : either(size, negative(minus));
  if (n.fraction) out = both(out, dfa('-?\\d+\\.\\d*[1-9]\\d*'));
  for (const value of excluded) {
    const { whole, part } = digitsOf(Math.abs(value));
    out = without(out, dfa(`${value < 0 ? '-' : value === 0 ? '-?' : ''}${whole}(\\.${part}0*)${part ? '' : '?'}`));
  }
  return out;
}
