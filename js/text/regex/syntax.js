/** Parts of the syntax of regular expressions that their dialects share. */

/** Control characters by the letters of their escapes. @type {Record<string, string>} */
export const CONTROLS = { n: '\n', r: '\r', t: '\t', f: '\f', v: '\v', 0: '\0' };

/** The quantifier that a text begins with: `*`, `+`, `?`, `{n}`, `{n,}` or `{n,m}`. Null: the text begins with something else. @param {string} text */
export function quantifierOf(text) {
  const found = /^(?:([*+?])|\{(\d+)(?:(,)(\d*))?\})/.exec(text);
  if (!found) return null;
  const [{ length }, sign, digits, comma, limit] = found;
  if (sign) return { min: sign === '+' ? 1 : 0, max: sign === '?' ? 1 : Infinity, length };
  const min = Number(digits);
  return { min, max: limit ? Number(limit) : comma ? Infinity : min, length };
}
