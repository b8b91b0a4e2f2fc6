/** Sets of code points: sorted, disjoint ranges in one flat list, [low, high, low, high, …]. */

/** @typedef {number[]} CodePoints */

/** What text can consist of: all but surrogates. @type {CodePoints} */
export const ALL = [0, 0xd7ff, 0xe000, 0x10ffff];

/** Any ranges, in any order, as a set. @param {[number, number][]} ranges @returns {CodePoints} */
export function setOf(ranges) {
  /** @type {CodePoints} */
  const out = [];
  for (const [low, high] of [...ranges].sort((a, b) => a[0] - b[0])) {
    const last = out.length - 1;
    if (last > 0 && low <= out[last] + 1) out[last] = Math.max(out[last], high);
    else out.push(low, high);
  }
  return out;
}

/** @param {CodePoints} set @returns {[number, number][]} */
export const rangesOf = (set) => Array.from({ length: set.length / 2 }, (_, i) => [set[2 * i], set[2 * i + 1]]);

/** @param {CodePoints[]} sets */
export const union = (...sets) => unionOf(sets);

/** The same of however many. @param {CodePoints[]} sets @returns {CodePoints} */
export const unionOf = (sets) => setOf(sets.flatMap(rangesOf));

/** @param {CodePoints} a @param {CodePoints} b @returns {CodePoints} */
export function intersect(a, b) {
  /** @type {CodePoints} */
  const out = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    const low = Math.max(a[i], b[j]);
    const high = Math.min(a[i + 1], b[j + 1]);
    if (low <= high) out.push(low, high);
    if (a[i + 1] < b[j + 1]) i += 2;
    else j += 2;
  }
  return out;
}

/** All others. @param {CodePoints} set */
export function complement(set) {
  /** @type {[number, number][]} */
  const gaps = [];
  let from = 0;
  for (const [low, high] of rangesOf(set)) {
    if (low > from) gaps.push([from, low - 1]);
    from = high + 1;
  }
  if (from <= 0x10ffff) gaps.push([from, 0x10ffff]);
  return intersect(setOf(gaps), ALL);
}

/** Those of a text. @param {string} text */
export const charsOf = (text) => {
  const codes = [...text].map((c) => Number(c.codePointAt(0)));
  return codes.length === 1 ? [codes[0], codes[0]] : setOf(codes.map((c) => [c, c]));
};
