/**
 * Makes internal properties non-enumerable, so that consoles, JSON and spreads omit them.
 * @param {object} object @param {string[]} names
 */
export function hide(object, ...names) {
  for (const name of names) Object.defineProperty(object, name, { enumerable: false });
}
