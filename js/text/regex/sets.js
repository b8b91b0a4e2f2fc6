/** Sets of characters (code points), as lists of ranges, for the regular expressions of grammars and of tokenizers. */

/**
 * First and last code points of ranges, in ascending order; no range touches the next one.
 * @typedef {[number, number][]} CharSet
 */

/** Last code point of Unicode. */
export const LAST = 0x10ffff;
/** All code points of a text: all except surrogates. @type {CharSet} */
export const TEXT = [
  [0, 0xd7ff],
  [0xe000, LAST],
];

/** Returns the set of ranges that may overlap and be in any order. @param {CharSet} ranges @returns {CharSet} */
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

/** Returns the code points that are in both sets. @param {CharSet} a @param {CharSet} b @returns {CharSet} */
export function intersect(a, b) {
  /** @type {CharSet} */
  const out = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    const first = Math.max(a[i][0], b[j][0]);
    const last = Math.min(a[i][1], b[j][1]);
    if (first <= last) out.push([first, last]);
    if (a[i][1] < b[j][1]) i++;
    else j++;
  }
  return out;
}

/** Returns all code points that are not in a set. @param {CharSet} set @returns {CharSet} */
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

/** Returns the set of the characters of a string. @param {string} text @returns {CharSet} */
export const charsOf = (text) =>
  unite(
    Array.from(text, (c) => {
      const code = Number(c.codePointAt(0));
      return /** @type {[number, number]} */ ([code, code]);
    }),
  );
