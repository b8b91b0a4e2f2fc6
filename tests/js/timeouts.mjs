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

/**
 * Replaces setTimeout for the rest of a test. Returns a function that waits for a promise while time passes at once, for
 * libraries that wait between requests.
 * @param {import('node:test').TestContext} t
 * @returns {<T>(call: PromiseLike<T>) => Promise<T>}
 */
export function skipDelays(t) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  return async (call) => {
    let isSettled = false;
    const settle = () => void (isSettled = true);
    call.then(settle, settle);
    while (!isSettled) {
      await new Promise((resolve) => setImmediate(resolve));
      t.mock.timers.tick(10_000);
    }
    return call;
  };
}
