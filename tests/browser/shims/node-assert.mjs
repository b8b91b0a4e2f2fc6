// As much of node:assert/strict as the suites in tests/js use, for a page.

/** @param {any} value */
const show = (value) => JSON.stringify(value, (_, v) => (v === undefined ? 'undefined' : v))?.slice(0, 500);

/** @param {any} a @param {any} b @returns {boolean} */
function same(a, b) {
  if (Object.is(a, b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || !a || !b) return false;
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && same(a[key], b[key]));
}

/** @param {any} condition @param {string} [message] */
function ok(condition, message = 'not true') {
  if (!condition) throw new Error(message);
}

/** Does the error fit? @param {any} error @param {any} expected */
function fits(error, expected) {
  if (expected === undefined) return;
  if (typeof expected === 'function')
    return ok(expected(error) === true, `not the expected error: ${error?.stack ?? error}`);
  if (expected instanceof RegExp) return ok(expected.test(String(error)), `not the expected error: ${error}`);
  const meets = (/** @type {any} */ value, /** @type {any} */ wanted) =>
    wanted instanceof RegExp ? wanted.test(String(value)) : same(value, wanted);
  for (const key of expected instanceof Error ? ['name', 'message'] : Object.keys(expected))
    ok(
      meets(error?.[key], expected[key]),
      `${key} of the error is ${show(error?.[key])}, not ${show(expected[key])}: ${error?.stack ?? error}`,
    );
}

export default Object.assign(ok, {
  ok,
  equal: (/** @type {any} */ a, /** @type {any} */ b, message = '') =>
    ok(Object.is(a, b), `${message} ${show(a)} is not ${show(b)}`),
  notEqual: (/** @type {any} */ a, /** @type {any} */ b) => ok(!Object.is(a, b), `both are ${show(a)}`),
  deepEqual: (/** @type {any} */ a, /** @type {any} */ b, message = '') =>
    ok(same(a, b), `${message} ${show(a)} is not ${show(b)}`),
  notDeepEqual: (/** @type {any} */ a, /** @type {any} */ b) => ok(!same(a, b), `both are ${show(a)}`),
  match: (/** @type {string} */ text, /** @type {RegExp} */ pattern) =>
    ok(pattern.test(text), `${text} does not match ${pattern}`),
  doesNotMatch: (/** @type {string} */ text, /** @type {RegExp} */ pattern) =>
    ok(!pattern.test(text), `${text} matches ${pattern}`),
  async rejects(/** @type {any} */ promise, /** @type {any} */ expected, message = '') {
    try {
      await (typeof promise === 'function' ? promise() : promise);
    } catch (error) {
      return fits(error, expected);
    }
    throw new Error(`nothing was thrown ${message}`);
  },
  throws(/** @type {() => any} */ body, /** @type {any} */ expected) {
    try {
      body();
    } catch (error) {
      return fits(error, expected);
    }
    throw new Error('nothing was thrown');
  },
});
