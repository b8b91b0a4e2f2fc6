/** Sets of characters, and what characters become, from the tables of unicode-data.js. */
import * as data from './unicode-data.js';

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ*+-=';
export const LAST = 0x10ffff;

/** A set of characters: first and last of its ranges, rising, none touching the next. @typedef {[number, number][]} CharSet */

const number = (/** @type {string} */ digits) => parseInt(digits, 36);

/** @param {CharSet} ranges  in any order @returns {CharSet} */
export function unite(ranges) {
  /** @type {CharSet} */
  const out = [];
  for (const [first, last] of [...ranges].sort((a, b) => a[0] - b[0])) {
    const end = out.at(-1);
    if (end && first <= end[1] + 1) end[1] = Math.max(end[1], last);
    else out.push([first, last]);
  }
  return out;
}

/** @param {CharSet} set @returns {CharSet} */
export function complement(set) {
  /** @type {CharSet} */
  const out = [];
  let next = 0;
  for (const [first, last] of set) {
    if (first > next) out.push([next, first - 1]);
    next = last + 1;
  }
  if (next <= LAST) out.push([next, LAST]);
  return out;
}

/** @param {CharSet} a @param {CharSet} b @returns {CharSet} */
export const intersect = (a, b) => complement(unite([...complement(a), ...complement(b)]));

/** @type {Map<string, CharSet> | undefined} */
let known;

/** Sets by name: general categories. */
function categories() {
  if (known) return known;
  known = new Map(data.CATEGORY_NAMES.split(' ').map((name) => [name, /** @type {CharSet} */ ([])]));
  const sets = [...known.values()];
  let at = 0;
  for (const [, length, letter] of data.CATEGORIES.matchAll(/([0-9a-z]+)(.)/g)) {
    sets[LETTERS.indexOf(letter)].push([at, at + number(length) - 1]);
    at += number(length);
  }
  return known;
}

/** Ranges as distance and length. @param {string} text @returns {CharSet} */
function readRanges(text) {
  /** @type {CharSet} */
  const out = [];
  const numbers = text.split(' ').map(number);
  let end = 0;
  for (let i = 0; i < numbers.length; i += 2) {
    const first = end + numbers[i];
    end = first + numbers[i + 1];
    out.push([first, end - 1]);
  }
  return out;
}

/** Names of groups of categories that people write out. @type {Record<string, string>} */
const LONG_NAMES = { Letter: 'L', Number: 'N', Punctuation: 'P', Symbol: 'S', Mark: 'M', Separator: 'Z', Other: 'C' };

/**
 * The set that `\p{name}` stands for: a category, a group of them, a script, Any, White_Space. Undefined: no such.
 * @param {string} name
 * @returns {CharSet | undefined}
 */
export function property(name) {
  if (name === 'Any') return [[0, LAST]];
  if (name === 'White_Space') return readRanges(data.WHITE_SPACE);
  const script = name.replace(/^(?:Script|sc)=|^Is/, '');
  if (Object.hasOwn(data.SCRIPTS, script)) return readRanges(data.SCRIPTS[script]);
  const short = LONG_NAMES[name] ?? name;
  const parts = [...categories()].filter(
    ([category]) => category === short || (short.length === 1 && category[0] === short),
  );
  return parts.length ? unite(parts.flatMap(([, set]) => set)) : undefined;
}

/** @param {...string} names @returns {CharSet} */
export const properties = (...names) => unite(names.flatMap((name) => property(name) ?? []));

/** Small letters by large ones, where that is one character. @returns {Map<number, number>} */
export function lowerCase() {
  /** @type {Map<number, number>} */
  const out = new Map();
  let first = 0;
  for (const run of data.LOWER_CASE.split(' ')) {
    const [distance, n, step, difference] = run.split(',').map(number);
    first += distance;
    for (let i = 0; i < n; i++) out.set(first + i * step, first + i * step + difference);
  }
  return out;
}

/**
 * Canonical decompositions in full, but of Hangul; `excluded`: those that composing doesn't make.
 * @returns {{ of: Map<number, number[]>, excluded: Set<number> }}
 */
export function decompositions() {
  /** @type {Map<number, number[]>} */
  const of = new Map();
  /** @type {Set<number>} */
  const excluded = new Set();
  let last = 0;
  for (const entry of data.DECOMPOSITIONS.split(' ')) {
    const [distance, to] = entry.split(':');
    last += number(distance);
    of.set(last, to.split(',').map(number));
    if (to.endsWith('!')) excluded.add(last);
  }
  return { of, excluded };
}

/** Runs of marks that are sorted: first, number, rank of their class. @returns {[first: number, n: number, rank: number][]} */
export function combining() {
  let end = 0;
  return data.COMBINING.split(' ').map((run) => {
    const [distance, n, rank] = run.split(',').map(number);
    const first = end + distance;
    end = first + n;
    return [first, n, rank];
  });
}
