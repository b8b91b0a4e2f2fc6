/**
 * Quotes a value of a file, a pickle or a caller in an error message, as shortened JSON. The work is bounded for any
 * value: one that contains itself, is nested 100,000 levels deep, or has shared parts that would make its text
 * exponentially long.
 */

/** Maximum number of levels of an object that are quoted, and of entries in each. */
const MAX_LEVELS = 3;
const MAX_ENTRIES = 8;
/** Maximum number of characters of a string that are quoted. */
const MAX_STRING = 200;

/** @param {any} value @param {number} levels  number of levels to quote @returns {string} */
function quoted(value, levels) {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, MAX_STRING));
  if (value === undefined) return 'missing';
  if (typeof value === 'function') return 'a function';
  // As JSON, numbers that aren't finite would be null.
  if (['bigint', 'symbol', 'number'].includes(typeof value)) return String(value);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (!levels) return Array.isArray(value) ? '[…]' : '{…}';
  const isArray = Array.isArray(value);
  const items = isArray ? value : Object.keys(value);
  const entries = items
    .slice(0, MAX_ENTRIES)
    .map((/** @type {any} */ item) =>
      isArray ? quoted(item, levels - 1) : `${quoted(item, 1)}:${quoted(value[item], levels - 1)}`,
    );
  if (items.length > MAX_ENTRIES) entries.push('…');
  return isArray ? `[${entries.join()}]` : `{${entries.join()}}`;
}

/** Returns a value as text for a message. @param {unknown} value @param {number} [maxLength]  in characters */
export function shown(value, maxLength = 60) {
  const text = quoted(value, MAX_LEVELS);
  return text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
}
