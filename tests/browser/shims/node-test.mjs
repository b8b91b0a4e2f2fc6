// The functions of node:test that the suites in tests/js use, for a page. The page lists the tests and runs each one by its number.
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

/** @typedef {{ group: Group, name: string, body: Function }} Test */
/** All tests, in the order of their declarations. @type {Test[]} */
let order = [];

/** Names of all tests, in order. Called before `run`. */
export function testNames() {
  order = groups.flatMap((group) => group.tests.map((entry) => ({ group, ...entry })));
  return order.map(({ group, name }) => `${group.name}: ${name}`);
}

/**
 * Runs a test; `before` hooks of its group run before the first test of the group, `after` hooks after the last one.
 * @param {number} i  its place in `testNames` @returns {Promise<string | null>}  the stack of its error; null: the test has passed
 */
export async function run(i) {
  const { group, body } = order[i];
  try {
    if (order[i - 1]?.group !== group) for (const hook of group.before) await hook();
    await body({ after() {} });
    return null;
  } catch (error) {
    return String(/** @type {any} */ (error)?.stack ?? error);
  } finally {
    if (order[i + 1]?.group !== group) for (const hook of group.after) await hook();
  }
}
