// Timeouts of js/shared/timeouts.js with other values, for tests.

const KEY = Symbol.for('bq4.timeouts');

/**
 * Sets timeouts until the end of a test, or until the returned function is called.
 * @param {{ after: (run: () => void) => void }} t
 * @param {import('../../js/shared/timeouts.js').Overrides} overrides
 */
export function setTimeouts(t, overrides) {
  const scope = /** @type {any} */ (globalThis);
  const previous = scope[KEY];
  const restore = () => (scope[KEY] = previous);
  scope[KEY] = { ...previous, ...overrides };
  t.after(restore);
  return restore;
}
