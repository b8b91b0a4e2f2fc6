// The functions of node:assert/strict that the suites in tests/js use, for a page.

/** A value as text for a message. @param {any} value */
const format = (value) => JSON.stringify(value, (_, v) => (v === undefined ? 'undefined' : v))?.slice(0, 500);

/** Whether two values are deeply equal. @param {any} a @param {any} b @returns {boolean} */
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

/** Throws unless the error is the expected one. @param {any} error @param {any} expected  as the argument of assert.throws */
function checkError(error, expected) {
  if (expected === undefined) return;
  if (typeof expected === 'function')
    return ok(expected(error) === true, `the check of the error failed; found ${error?.stack ?? error}`);
  if (expected instanceof RegExp)
    return ok(expected.test(String(error)), `expected an error that matches ${expected}, found ${error}`);
  const matches = (/** @type {any} */ value, /** @type {any} */ pattern) =>
    pattern instanceof RegExp ? pattern.test(String(value)) : same(value, pattern);
  for (const key of expected instanceof Error ? ['name', 'message'] : Object.keys(expected))
    ok(
      matches(error?.[key], expected[key]),
      `${key} of the error: expected ${format(expected[key])}, found ${format(error?.[key])}: ${error?.stack ?? error}`,
    );
}

export default Object.assign(ok, {
  ok,
  equal: (/** @type {any} */ a, /** @type {any} */ b, message = '') =>
    ok(Object.is(a, b), `${message} expected ${format(b)}, found ${format(a)}`),
  notEqual: (/** @type {any} */ a, /** @type {any} */ b) =>
    ok(!Object.is(a, b), `expected another value than ${format(b)}`),
  deepEqual: (/** @type {any} */ a, /** @type {any} */ b, message = '') =>
    ok(same(a, b), `${message} expected ${format(b)}, found ${format(a)}`),
  notDeepEqual: (/** @type {any} */ a, /** @type {any} */ b) =>
    ok(!same(a, b), `expected another value than ${format(b)}`),
  match: (/** @type {string} */ text, /** @type {RegExp} */ pattern) =>
    ok(pattern.test(text), `expected a match of ${pattern}, found ${text}`),
  doesNotMatch: (/** @type {string} */ text, /** @type {RegExp} */ pattern) =>
    ok(!pattern.test(text), `expected no match of ${pattern}, found ${text}`),
  async rejects(/** @type {any} */ promise, /** @type {any} */ expected, message = '') {
    try {
      await (typeof promise === 'function' ? promise() : promise);
    } catch (error) {
      return checkError(error, expected);
    }
    throw new Error(`expected a rejection, found none ${message}`);
  },
  throws(/** @type {() => any} */ body, /** @type {any} */ expected) {
    try {
      body();
    } catch (error) {
      return checkError(error, expected);
    }
    throw new Error('expected an error, found none');
  },
});
