/** Syntax that all supported dialects of regular expressions share. */

/** Control characters by the letters of their escapes. @type {Record<string, string>} */
export const CONTROLS = { n: '\n', r: '\r', t: '\t', f: '\f', v: '\v', 0: '\0' };

/**
 * Parses a quantifier at the beginning of a string: `*`, `+`, `?`, `{n}`, `{n,}` or `{n,m}`. Returns null if there is
 * none.
 * @param {string} text
 */
export function quantifierOf(text) {
  const found = /^(?:([*+?])|\{(\d+)(?:(,)(\d*))?\})/.exec(text);
  if (!found) return null;
  const [{ length }, sign, digits, comma, limit] = found;
  if (sign) return { min: sign === '+' ? 1 : 0, max: sign === '?' ? 1 : Infinity, length };
  const min = Number(digits);
  return { min, max: limit ? Number(limit) : comma ? Infinity : min, length };
}
