/** Where a text has another one: in time that grows with both, whatever they are. */

/** Up to this length a search costs at most so many comparisons for a character. */
const SHORT = 32;

/** Where texts that begin as `part` go on when the next character differs. @param {string} part */
function fallbacks(part) {
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
 * Places of a part that isn't empty, from left to right, apart from each other.
 * @param {string} text @param {string} part @param {import('./values.js').Meter} meter
 * @param {number} [most]  as many as that; -1: all
 * @returns {number[]}
 */
export function places(text, part, meter, most = -1) {
  /** @type {number[]} */
  const found = [];
  if (part.length > text.length || most === 0) return found;
  if (part.length <= SHORT) {
    meter.spend(1 + (text.length * (1 + part.length / 8)) / 64);
    for (let at = text.indexOf(part); at >= 0 && found.length !== most; at = text.indexOf(part, at + part.length))
      found.push(at);
  } else {
    meter.items(text.length + part.length);
    const table = fallbacks(part);
    for (let i = 0, n = 0; i < text.length && found.length !== most; i++) {
      while (n && text[i] !== part[n]) n = table[n - 1];
      if (text[i] === part[n]) n++;
      if (n === part.length) {
        found.push(i + 1 - n);
        n = 0;
      }
    }
  }
  meter.items(found.length);
  return found;
}

/** The same from right to left; the places come in the order of the text. @param {string} text @param {string} part @param {import('./values.js').Meter} meter @param {number} [most] */
export function placesFromRight(text, part, meter, most = -1) {
  meter.items(text.length + part.length);
  return places(reversed(text), reversed(part), meter, most)
    .map((at) => text.length - at - part.length)
    .reverse();
}

/** @param {string} text @param {string} part @param {import('./values.js').Meter} meter @returns {number} -1: nowhere */
export const placeOf = (text, part, meter) => (part ? (places(text, part, meter, 1)[0] ?? -1) : 0);
