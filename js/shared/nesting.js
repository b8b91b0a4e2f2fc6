/** JSON that is nested deeper than what walks it can go: functions that call themselves for each level end in a RangeError. */

/** Levels of lists and objects that a request or a file may have: what walks them calls itself for each. */
export const MOST_NESTED = 200;

/** Whether JSON holds lists and objects more than MOST_NESTED levels deep. Looks at no object of a class. @param {unknown} value @param {number} [level] @returns {boolean} */
export function isNestedTooDeeply(value, level = 0) {
  if (typeof value !== 'object' || value === null) return false;
  if (!Array.isArray(value) && ![Object.prototype, null].includes(Object.getPrototypeOf(value))) return false;
  return level >= MOST_NESTED || Object.values(value).some((one) => isNestedTooDeeply(one, level + 1));
}
