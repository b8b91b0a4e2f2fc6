/**
 * Expected speed of a model on this device: the last measured speed, else an estimate from other models, else an upper
 * bound.
 */
import * as format from '../page/format.js';

/**
 * @typedef {{ rate?: number, estimate?: number, at?: number }} Facts  measured and estimated tokens per second; time of
 *   the measurement
 */

/** English words per token. */
const WORDS_PER_TOKEN = 0.75;

/**
 * Returns the mean ratio of measured to estimated speed of the models used last; null if none was used.
 * @param {(Facts | null)[]} known
 */
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
export const words = (tokensPerSecond) => `${format.rounded(tokensPerSecond * WORDS_PER_TOKEN)} words/s`;

/**
 * Returns the expected speed in words; '' if nothing is known.
 * @param {number | null} estimate  tokens per second if only the kernels took time
 * @param {number | null} before  measured tokens per second of its last use
 * @param {number | null} pace  ratio of measured to estimated speed of other models
 */
export function expectedSpeed(estimate, before, pace) {
  if (before) return `${format.speed(before)} (about ${words(before)}) when you last used it here`;
  if (!estimate) return '';
  if (pace) return `about ${format.speed(estimate * pace)} (${words(estimate * pace)}), judging by models you used`;
  return `up to ${format.speed(estimate)} (about ${words(estimate)})`;
}
