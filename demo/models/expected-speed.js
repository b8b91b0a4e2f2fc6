/** How fast a model may be here: as it was when it was last used, else an estimate from the speeds of other models, else an upper bound. */
import * as format from '../page/format.js';

/** @typedef {{ rate?: number, estimate?: number, at?: number }} Facts  tokens per second as measured, as estimated; when */

/** Words that a token is, in English. */
const WORDS = 0.75;

/** The mean share of their estimates that the models used last have reached; null: none was used. @param {(Facts | null)[]} known */
export function paceOf(known) {
  const shares = known
    .filter((f) => Number(f?.rate) > 0 && Number(f?.estimate) > 0)
    .map((f) => /** @type {Required<Facts>} */ (f))
    .sort((a, b) => b.at - a.at)
    .slice(0, 3)
    .map((f) => f.rate / f.estimate);
  return shares.length ? shares.reduce((sum, share) => sum + share, 0) / shares.length : null;
}

/** "about 60 words/s" @param {number} tokensPerSecond */
export const words = (tokensPerSecond) => `${format.rounded(tokensPerSecond * WORDS)} words/s`;

/**
 * @param {number | null} estimate  tokens per second that the kernels alone would make
 * @param {number | null} before  when it was used last
 * @param {number | null} pace  share of their estimates that other models reached
 */
export function expectedSpeed(estimate, before, pace) {
  if (before) return `${format.speed(before)} (about ${words(before)}) when you last used it here`;
  if (!estimate) return '';
  if (pace) return `about ${format.speed(estimate * pace)} (${words(estimate * pace)}), judging by models you used`;
  return `up to ${format.speed(estimate)} (about ${words(estimate)})`;
}
