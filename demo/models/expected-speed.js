/** What speed a person may expect of a model: what it did here, else the estimate by what others did of theirs, else a bound. */
import * as format from '../page/format.js';

/** @typedef {{ rate?: number, estimate?: number, at?: number }} Facts  tokens per second that came, that were estimated; when */

/** How much of what was estimated came, of the models that were used last; null: of none. @param {(Facts | null)[]} known */
export function paceOf(known) {
  const shares = known
    .filter((f) => Number(f?.rate) > 0 && Number(f?.estimate) > 0)
    .map((f) => /** @type {Required<Facts>} */ (f))
    .sort((a, b) => b.at - a.at)
    .slice(0, 3)
    .map((f) => f.rate / f.estimate);
  return shares.length ? shares.reduce((sum, share) => sum + share, 0) / shares.length : null;
}

/**
 * @param {number | null} estimate  tokens per second that the kernels alone would make
 * @param {number | null} before  when it was used last
 * @param {number | null} pace  share of their estimates that other models reached
 */
export function expectedSpeed(estimate, before, pace) {
  if (before) return `${format.speed(before)} when it was last used here`;
  if (!estimate) return '';
  if (pace) return `about ${format.speed(estimate * pace)}, by how fast models were here before`;
  return `at most ${format.speed(estimate)} on this machine`;
}
