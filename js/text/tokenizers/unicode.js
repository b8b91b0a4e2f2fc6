/**
 * Reads the tables of unicode-data.js: sets of characters by their properties, lower case, decompositions, and
 * combining marks. They are of one version of Unicode, so that a converted tokenizer has the same bytes on every
 * runtime.
 */
import { LAST, unite } from '../regex/sets.js';
import * as data from './unicode-data.js';

/** @import { CharSet } from '../regex/sets.js' */

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ*+-=';

/** Parses a number of the tables, in base 36. @param {string} digits */
const number = (digits) => parseInt(digits, 36);

/** @type {Map<string, CharSet> | undefined} */
let categorySets;

/** Returns the sets of general categories by name. */
function categories() {
  if (categorySets) return categorySets;
  categorySets = new Map(data.CATEGORY_NAMES.split(' ').map((name) => [name, /** @type {CharSet} */ ([])]));
  const sets = [...categorySets.values()];
  let at = 0;
  for (const [, length, letter] of data.CATEGORIES.matchAll(/([0-9a-z]+)(.)/g)) {
    sets[LETTERS.indexOf(letter)].push([at, at + number(length) - 1]);
    at += number(length);
  }
  return categorySets;
}

/**
 * Reads ranges that are written as the distance from the previous one and the length.
 * @param {string} text @returns {CharSet}
 */
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

/** Long names of groups of categories. @type {Record<string, string>} */
const LONG_NAMES = { Letter: 'L', Number: 'N', Punctuation: 'P', Symbol: 'S', Mark: 'M', Separator: 'Z', Other: 'C' };

/**
 * Returns the set of `\p{name}`: a category, a group of categories, a script, Any, or White_Space. Returns undefined
 * for other names.
 * @param {string} name @returns {CharSet | undefined}
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

/** Returns the characters that have at least one of the properties. @param {...string} names @returns {CharSet} */
export const properties = (...names) => unite(names.flatMap((name) => property(name) ?? []));

/**
 * Returns lower case by upper case, for characters whose lower case is a single character.
 * @returns {Map<number, number>}
 */
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
 * Returns full canonical decompositions, except those of Hangul. `excluded`: characters that composition never creates.
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

/**
 * Returns runs of combining marks, which normalization sorts: first mark, number of marks, and rank of their class.
 * @returns {[first: number, n: number, rank: number][]}
 */
export function combining() {
  let end = 0;
  return data.COMBINING.split(' ').map((run) => {
    const [distance, n, rank] = run.split(',').map(number);
    const first = end + distance;
    end = first + n;
    return [first, n, rank];
  });
}
