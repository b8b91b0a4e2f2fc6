/** Nesting limit for JSON of callers and files. Without it, recursive functions would fail with a RangeError. */

/** Maximum number of levels of arrays and objects in a request or a file. */
export const MAX_NESTING = 200;

/**
 * Whether arrays and objects are nested more than MAX_NESTING levels deep. Contents of class instances are not counted.
 * @param {unknown} value
 * @param {number} [level]  level of the value itself
 * @returns {boolean}
 */
export function isNestedTooDeeply(value, level = 0) {
  if (typeof value !== 'object' || value === null) return false;
  if (!Array.isArray(value) && ![Object.prototype, null].includes(Object.getPrototypeOf(value))) return false;
  return level >= MAX_NESTING || Object.values(value).some((item) => isNestedTooDeeply(item, level + 1));
}
