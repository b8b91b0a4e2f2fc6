/** Leaves members that other modules need out of what consoles, JSON and spreads show of an object. @param {object} object @param {string[]} names */
export function hide(object, ...names) {
  for (const name of names) Object.defineProperty(object, name, { enumerable: false });
}
