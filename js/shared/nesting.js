/** A limit of nesting for JSON of callers and files: a function that calls itself for each level would end in a RangeError. */

/** Maximum number of levels of arrays and objects in a request or a file. */
export const MAX_NESTING = 200;

/** Whether arrays and objects are nested more than MAX_NESTING levels deep. Instances of classes are not looked into. @param {unknown} value @param {number} [level] @returns {boolean} */
export function isNestedTooDeeply(value, level = 0) {
  if (typeof value !== 'object' || value === null) return false;
  if (!Array.isArray(value) && ![Object.prototype, null].includes(Object.getPrototypeOf(value))) return false;
  return level >= MAX_NESTING || Object.values(value).some((item) => isNestedTooDeeply(item, level + 1));
}
