// Time-outs of js/shared/timeouts.js, set by a test.

const PLACE = Symbol.for('bq4.timeouts');

/**
 * Sets time-outs for as long as a test runs, or until what is returned is called.
 * @param {{ after: (run: () => void) => void }} t
 * @param {import('../../js/shared/timeouts.js').Overrides} overrides
 */
export function setTimeouts(t, overrides) {
  const place = /** @type {any} */ (globalThis);
  const before = place[PLACE];
  const restore = () => (place[PLACE] = before);
  place[PLACE] = { ...before, ...overrides };
  t.after(restore);
  return restore;
}
