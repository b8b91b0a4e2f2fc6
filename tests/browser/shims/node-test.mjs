// As much of node:test as the suites in tests/js use, for a page. `run()` runs what was declared.
/** @typedef {{ name: string, before: Function[], after: Function[], tests: { name: string, body: Function }[] }} Group */

/** @type {Group[]} */
const groups = [];
/** @type {Group} */
let current;

/** @param {string} name @param {() => void} body */
export function describe(name, body) {
  current = { name, before: [], after: [], tests: [] };
  groups.push(current);
  body();
}
/** @param {string} name @param {Function} body */
export const test = (name, body) => current.tests.push({ name, body });
/** @param {Function} body */
export const before = (body) => current.before.push(body);
/** @param {Function} body */
export const after = (body) => current.after.push(body);

/** @returns {Promise<{ name: string, error: string | null }[]>} */
export async function run() {
  const results = [];
  for (const group of groups.splice(0)) {
    for (const body of group.before) await body();
    for (const { name, body } of group.tests) {
      const full = `${group.name}: ${name}`;
      try {
        await body({ after() {} });
        results.push({ name: full, error: null });
      } catch (error) {
        results.push({ name: full, error: String(/** @type {any} */ (error)?.stack ?? error) });
      }
    }
    for (const body of group.after) await body();
  }
  return results;
}
