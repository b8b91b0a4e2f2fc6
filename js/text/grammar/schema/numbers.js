/**
 * Numbers within limits, as automata over their decimal digits. Limits are doubles: a text that is at most the shortest decimal of a limit
 * is parsed as at most the limit, as parsing rounds and keeps the order. For exclusive limits the number of digits is so small that
 * different texts are different doubles; where the limit itself has too many digits for that, the next double is an inclusive limit.
 */
import { both, either, explore, isNone, ofTree, without } from '../dfa.js';
import { refused } from '../failure.js';
import { parseRegex } from '../regex.js';

/** @import { Dfa } from '../dfa.js' */
/** @import { Shape } from './shapes.js' */

/** Decimals of so many digits are different doubles. */
const EXACT = 15;
/** Maximum number of digits before and after the decimal point; fewer for exclusive limits. */
const DIGITS = { whole: 15, part: 15 };
const FEW = { whole: 9, part: 5 };
/** Remainders from which on digits aren't counted by the automaton, and how many characters its numbers have then at most. */
const MANY_REMAINDERS = 32;
const MAX_CHARACTERS = 14;
/** Remainders that multiples are told by, times the digits behind the point. */
const MAX_REMAINDERS = 4096;

/** A limit this far from 0 is beyond all numbers that are written within one on the other side, which has fewer digits. */
const FAR = 1e21;

/** Limits nearer to 0 than this have more digits than an automaton has states; what is written is on their side of 0, or as far from it as this. */
const TINY = 1e-40;
/** From here on doubles are whole. */
const WHOLE = 2 ** 52;

/** @param {string} source */
const dfa = (source) => ofTree(parseRegex(source).tree);
const ANY_NUMBER = '-?(0|[1-9]\\d{0,14})(\\.\\d{1,15})?([eE][+-]?\\d{1,2})?';
const NONE = dfa('[^\\s\\S]');

/** @param {(whole: number) => string} part  what follows so many digits, behind which those of the part are told by doubles */
const eachLength = (part) => Array.from({ length: EXACT - 1 }, (_, i) => `[1-9]\\d{${i}}${part(i + 1)}`).join('|');
/** Texts that are parsed as different doubles where they are different decimals: of 15 digits, or whole and below 2^53 as those that are left out. */
const DISTINCT = `-?(0(\\.0{0,${EXACT}}\\d{0,${EXACT}}0*)?|${eachLength((n) => `(\\.\\d{1,${EXACT - n}}0*)?`)}|[1-9]\\d{14,15}(\\.0+)?|[1-9]\\d{0,14}0{2,})`;
/** Texts that are parsed as doubles below 2^52 that are not whole. */
const FRACTIONS = `-?(0\\.0{0,${EXACT}}\\d{0,${EXACT - 1}}[1-9]0*|${eachLength((n) => `\\.\\d{0,${EXACT - 1 - n}}[1-9]0*`)}|[1-9]\\d{14}\\.[1-9]0*|[1-9]\\d{15}\\.50*)`;

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

/** The next larger double, or the next smaller one. @param {number} x  not 0 @param {boolean} larger */
function nextDouble(x, larger) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  view.setBigUint64(0, view.getBigUint64(0) + (x > 0 === larger ? 1n : -1n));
  return view.getFloat64(0);
}

/** An exclusive limit, as `half` takes it. @param {number} limit @param {boolean} larger  what it allows */
function exclusive(limit, larger) {
  if (Number.isFinite(limit)) {
    const { whole, part } = digitsOf(Math.abs(limit));
    const significant = `${whole}${part}`.replace(/^0+/, '').length;
    if (significant >= EXACT || whole.length + FEW.part > EXACT)
      return { limit: nextDouble(limit, larger), open: false };
  }
  return { limit, open: true };
}

/** So many digits. @param {number} least @param {number} most  Infinity: no limit */
const digitsBetween = (least, most) => `\\d{${least},${most === Infinity ? '' : most}}`;

/** At most so many digits, of which one isn't 0. @param {number} most */
const notZero = (most) => `(${Array.from({ length: most }, (_, i) => `0{${i}}[1-9]\\d{0,${most - 1 - i}}`).join('|')})`;

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
      ? [`[1-9]${digitsBetween(n, most - 1)}`]
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
  if (limit === Infinity) return larger ? NONE : dfa(`(0|[1-9]${digitsBetween(0, most - 1)})(\\.\\d{1,${parts}})?`);
  const { whole, part } = digitsOf(limit);
  const width = Math.max(most, whole.length);
  const rest = `(\\.\\d{1,${Math.max(parts, part.length + 1)}})?`;
  const sides = [`${wholeBeside(whole, larger, width)}${rest}`];
  const spare = Math.max(1, parts - part.length);
  if (larger) {
    // Equal before the point: what follows is larger, or as large with more behind it.
    if (!part && !open) sides.push(`${whole}${rest}`);
    if (!part && open) sides.push(`${whole}\\.${notZero(parts)}`);
    if (part)
      sides.push(
        ...[...part].map((c, i) => `${whole}\\.${part.slice(0, i)}${digit(Number(c) + 1, 9)}\\d{0,${parts}}`),
        `${whole}\\.${part}${open ? notZero(spare) : `\\d{0,${spare}}`}`,
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
  const endless = high.limit === Infinity && most === Infinity;
  // Behind so many digits all are alike.
  const last = endless ? least.whole.length + 1 : Infinity;
  const { whole, part } =
    high.limit < Infinity ? digitsOf(high.limit) : { whole: '9'.repeat(endless ? last + 1 : most), part: '' };
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
          n: Math.min(at.n + 1, last),
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

/** A positive decimal as digits × 10^-scale. @param {number} m */
function decimalOf(m) {
  const { whole, part } = digitsOf(m);
  return { digits: BigInt(whole + part), scale: part.length };
}

/**
 * Decimals, not negative, that are multiples of one: by the remainder of what was read. A divisor that ends in zeros asks for as many at
 * the end, which are counted instead.
 * @param {number} m @param {number} parts  digits behind the point at most; more may be zeros where it is Infinity @returns {Dfa}
 */
function multiples(m, parts) {
  let { digits, scale } = decimalOf(m);
  let zeros = 0;
  for (; digits % 10n === 0n; zeros++) digits /= 10n;
  const divisor = Number(digits);
  if (digits * BigInt(scale + zeros + 1) > MAX_REMAINDERS)
    throw refused(
      `multipleOf ${m} takes too many states`,
      `its digits are a number up to ${MAX_REMAINDERS}, less with more of them behind the point`,
    );
  const most = Math.min(scale, parts);
  /** 10 to some power, of which only the remainder counts. @param {number} n */
  const power = (n) => Number(10n ** BigInt(n) % digits);
  /**
   * `rest`: remainder of the digits but for `ended` zeros at the end; `part`: digits behind the point, -1: it has not come.
   * @typedef {{ rest: number, ended: number, part: number, read: boolean }} Read
   */
  /** @param {Read} at @param {number} digit @returns {Read} */
  const behind = ({ rest, ended, part }, digit) => {
    const next = part < 0 ? part : part + 1;
    if (digit === 0 && ended < zeros) return { rest, ended: ended + 1, part: next, read: true };
    // Zeros that were enough are digits like others.
    const tens = digit === 0 ? 1 : ended + 1;
    return {
      rest: (rest * power(tens) + digit) % divisor,
      ended: digit === 0 || zeros === 0 ? ended : 0,
      part: next,
      read: true,
    };
  };
  return explore(
    `multipleOf ${m}`,
    // Nothing but zeros is a multiple: as if enough had come.
    /** @type {Read} */ ({ rest: 0, ended: zeros, part: -1, read: false }),
    ({ rest, ended, part, read }) => `${rest} ${ended} ${part} ${read}`,
    (at) => {
      const { rest, ended, part, read } = at;
      const left = Math.max(0, scale - Math.max(part, 0));
      const accepts = read && part !== 0 && ended === zeros && (rest * power(left)) % divisor === 0;
      /** @type {[number, number, Read][]} */
      const edges = [];
      if (read && part < 0 && (most > 0 || parts === Infinity)) edges.push([46, 46, { ...at, part: 0 }]);
      if (part < most) for (let digit = 0; digit < 10; digit++) edges.push([48 + digit, 48 + digit, behind(at, digit)]);
      else if (parts === Infinity) edges.push([48, 48, { ...at, part: Math.max(part, 1) }]);
      return { accepts, edges };
    },
  );
}

/** Whether a decimal is a multiple of another, as they are written. @param {number} value @param {number} m */
export function isMultiple(value, m) {
  const [a, b] = [decimalOf(Math.abs(value)), decimalOf(m)];
  const scale = Math.max(a.scale, b.scale);
  const scaled = (/** @type {typeof a} */ x) => x.digits * 10n ** BigInt(scale - x.scale);
  return scaled(a) % scaled(b) === 0n;
}

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

/** The limits, those that are nearly 0 being moved to where numbers have few digits. @param {Shape['number']} n @returns {Shape['number']} */
function moved(n) {
  const isTiny = (/** @type {number} */ limit) => limit !== 0 && Math.abs(limit) < TINY;
  if (![n.min, n.above, n.max, n.below].some(isTiny)) return n;
  const least = (/** @type {number} */ limit) => (isTiny(limit) ? (limit > 0 ? TINY : 0) : limit);
  const most = (/** @type {number} */ limit) => (isTiny(limit) ? (limit < 0 ? -TINY : 0) : limit);
  const [low, high] = [n.above, n.below].map(isTiny);
  return {
    ...n,
    min: Math.max(least(n.min), low ? least(n.above) : -Infinity),
    above: low ? -Infinity : n.above,
    max: Math.min(most(n.max), high ? most(n.below) : Infinity),
    below: high ? Infinity : n.below,
  };
}

/** The limits without those that no number reaches. @param {Shape['number']} n @returns {Shape['number']} */
function reached(n) {
  const isLow = Math.max(n.min, n.above) < FAR;
  const isHigh = Math.min(n.max, n.below) > -FAR;
  const most = (/** @type {number} */ limit) => (isLow && limit >= FAR ? Infinity : limit);
  const least = (/** @type {number} */ limit) => (isHigh && limit <= -FAR ? -Infinity : limit);
  return { ...n, max: most(n.max), below: most(n.below), min: least(n.min), above: least(n.above) };
}

/**
 * Texts of a shape's numbers, and how many characters they may have: Infinity where the automaton says so itself.
 * @param {Shape['number']} given @param {number[]} excluded @returns {{ texts: Dfa, max: number }}
 */
export function numberTexts(given, excluded) {
  const n = reached(moved(given));
  if (n.fraction && [n.min, n.above, n.max, n.below].some((x) => Number.isFinite(x) && Math.abs(x) >= 1e15))
    [n.above, n.below] = [Math.max(n.above, -WHOLE), Math.min(n.below, WHOLE)];
  const free =
    [given.min, given.above].every((x) => x === -Infinity) && [given.max, given.below].every((x) => x === Infinity);
  const plain = !n.multiples.length && !n.notMultiples.length && !n.integer && !n.fraction;
  if (free && plain && !excluded.length) return { texts: dfa(ANY_NUMBER), max: Infinity };
  const scale = Math.min(...n.multiples.map((m) => decimalOf(m).scale));
  const integer = n.integer || scale === 0;
  if (integer && n.fraction) return { texts: NONE, max: Infinity };
  const few = n.above > -Infinity || n.below < Infinity || excluded.length || n.fraction;
  const limits = [n.min, n.max, n.above, n.below].filter(Number.isFinite).map((x) => digitsOf(Math.abs(x)));
  const longest = Math.max(0, ...limits.map(({ whole }) => whole.length));
  const digits = { ...(few ? FEW : DIGITS) };
  // A multiple has as many digits behind the point as its divisor, and in all as many as doubles tell apart.
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
  let size = sizes(low, high, digits, integer);
  let minus = sizes(
    mirrored.limit >= 0 && !(mirrored.limit === 0 && !mirrored.open) ? mirrored : { limit: 0, open: true },
    { limit: -low.limit, open: low.open },
    digits,
    integer,
  );
  for (const m of n.multiples) {
    const these = multiples(m, integer ? 0 : digits.part);
    [size, minus] = [both(size, these), both(minus, these)];
  }
  for (const m of n.notMultiples) {
    const these = multiples(m, Infinity);
    [size, minus] = [without(size, these), without(minus, these)];
  }
  let texts = isNone(minus) ? size : either(size, negative(minus));
  if (n.fraction) texts = both(texts, dfa(FRACTIONS));
  if (excluded.length) texts = both(texts, dfa(DISTINCT));
  for (const value of excluded) {
    const { whole, part } = digitsOf(Math.abs(value));
    texts = without(texts, dfa(`${value < 0 ? '-' : value === 0 ? '-?' : ''}${whole}(\\.${part}0*)${part ? '' : '?'}`));
  }
  return { texts, max };
}
