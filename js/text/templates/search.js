/**
 * Searches for a text in another one in linear time. JavaScript's `indexOf` may take the product of both lengths: it is used for short
 * parts only, and the algorithm of Knuth, Morris and Pratt for longer ones.
 */

/** Maximum length of a part that `indexOf` searches for. */
const MAX_SHORT = 32;

/** The failure table: for each prefix of `part`, the length of the longest proper prefix that it ends with. @param {string} part */
function failureTable(part) {
  const table = new Int32Array(part.length);
  for (let i = 1, n = 0; i < part.length; i++) {
    while (n && part[i] !== part[n]) n = table[n - 1];
    if (part[i] === part[n]) n++;
    table[i] = n;
  }
  return table;
}

/** @param {string} text */
const reversed = (text) => text.split('').reverse().join('');

/**
 * Offsets of a part that isn't empty, from left to right, without overlaps.
 * @param {string} text @param {string} part @param {import('./values.js').Meter} meter
 * @param {number} [max]  number of offsets; -1: all
 * @returns {number[]}
 */
export function findAll(text, part, meter, max = -1) {
  /** @type {number[]} */
  const found = [];
  if (part.length > text.length || max === 0) return found;
  if (part.length <= MAX_SHORT) {
    meter.count(1 + (text.length * (1 + part.length / 8)) / 64);
    for (let at = text.indexOf(part); at >= 0 && found.length !== max; at = text.indexOf(part, at + part.length))
      found.push(at);
  } else {
    meter.countItems(text.length + part.length);
    const table = failureTable(part);
    for (let i = 0, n = 0; i < text.length && found.length !== max; i++) {
      while (n && text[i] !== part[n]) n = table[n - 1];
      if (text[i] === part[n]) n++;
      if (n === part.length) {
        found.push(i + 1 - n);
        n = 0;
      }
    }
  }
  meter.countItems(found.length);
  return found;
}

/** The same from right to left; the offsets are still rising. @param {string} text @param {string} part @param {import('./values.js').Meter} meter @param {number} [max] */
export function findAllFromRight(text, part, meter, max = -1) {
  meter.countItems(text.length + part.length);
  return findAll(reversed(text), reversed(part), meter, max)
    .map((at) => text.length - at - part.length)
    .reverse();
}

/** The first offset; -1: the text doesn't contain the part. @param {string} text @param {string} part @param {import('./values.js').Meter} meter @returns {number} */
export const findFirst = (text, part, meter) => (part ? (findAll(text, part, meter, 1)[0] ?? -1) : 0);
