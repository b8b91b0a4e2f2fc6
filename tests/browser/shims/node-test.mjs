// As much of node:test as the suites in tests/js use, for a page, which runs what was declared one by one.
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

/** @typedef {{ group: Group, name: string, body: Function }} Declared */
/** @type {Declared[]} */
let order = [];

/** Names of all that was declared, in order. */
export function declared() {
  order = groups.flatMap((group) => group.tests.map((one) => ({ group, ...one })));
  return order.map(({ group, name }) => `${group.name}: ${name}`);
}

/** Runs one of them, with its group's hooks around the first and the last. @param {number} i @returns {Promise<string | null>}  what went wrong */
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
