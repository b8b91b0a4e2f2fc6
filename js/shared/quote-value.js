/**
 * A value of a file, a pickle or a caller as a message quotes it: as JSON has it, cut short. The work is bounded whatever the value
 * is: one that holds itself, one that is nested 100,000 deep, one whose parts are shared until it is exponentially long.
 */

/** Levels and entries of an object that are quoted. */
const MOST_LEVELS = 3;
const MOST_ENTRIES = 8;

/** @param {any} value @param {number} levels @returns {string} */
function quoted(value, levels) {
  if (typeof value === 'string') return JSON.stringify(value.length > 200 ? value.slice(0, 200) : value);
  if (value === undefined) return 'missing';
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'bigint' || typeof value === 'symbol') return String(value);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (!levels) return Array.isArray(value) ? '[…]' : '{…}';
  const open = Array.isArray(value) ? value : Object.keys(value);
  const entries = open.slice(0, MOST_ENTRIES).map((/** @type {any} */ one) => {
    if (open === value) return quoted(one, levels - 1);
    return `${quoted(one, 1)}:${quoted(value[one], levels - 1)}`;
  });
  if (open.length > MOST_ENTRIES) entries.push('…');
  return Array.isArray(value) ? `[${entries.join()}]` : `{${entries.join()}}`;
}

/** @param {unknown} value @param {number} [most]  characters */
export function shown(value, most = 60) {
  const text = quoted(value, MOST_LEVELS);
  return text.length > most ? `${text.slice(0, most)}…` : text;
}
