/**
 * Searches for a string in another one in linear time. The time of JavaScript's `indexOf` may be proportional to the
 * product of both lengths, so it is used for short parts only. Longer ones are found by the algorithm of Knuth, Morris
 * and Pratt.
 */

/** Maximum length of parts that are found by `indexOf`. */
const MAX_SHORT = 32;

/**
 * Returns, for each prefix of `part`, the length of the longest proper prefix with which it ends.
 * @param {string} part
 */
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
const reverse = (text) => text.split('').reverse().join('');

/**
 * Returns the offsets of a non-empty part, from left to right, without overlaps.
 * @param {string} text @param {string} part @param {import('./values.js').Meter} meter
 * @param {number} [max]  maximum number of offsets; -1: all
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

/**
 * Like `findAll`, but searches from right to left. The offsets are still in ascending order.
 * @param {string} text @param {string} part @param {import('./values.js').Meter} meter @param {number} [max]
 */
export function findAllFromRight(text, part, meter, max = -1) {
  meter.countItems(text.length + part.length);
  return findAll(reverse(text), reverse(part), meter, max)
    .map((at) => text.length - at - part.length)
    .reverse();
}

/**
 * Returns the first offset of a part, or -1 if the text does not contain it.
 * @param {string} text @param {string} part @param {import('./values.js').Meter} meter @returns {number}
 */
export const findFirst = (text, part, meter) => (part ? (findAll(text, part, meter, 1)[0] ?? -1) : 0);
