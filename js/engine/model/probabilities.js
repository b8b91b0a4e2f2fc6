/** Log probabilities from logits. */

/** Rounds to eight decimal places, because logarithms differ between browsers in later ones. @param {number} x */
export const roundLogprob = (x) => Math.round(x * 1e8) / 1e8;

/**
 * Returns the logarithm of the sum of the exponentials of logits. A logit minus this value is a log probability.
 * @param {ArrayLike<number>} logits
 */
export function logSum(logits) {
  let maximum = -Infinity;
  for (let i = 0; i < logits.length; i++) if (logits[i] > maximum) maximum = logits[i];
  let sum = 0;
  for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i] - maximum);
  return maximum + Math.log(sum);
}

/** Returns the index of the largest logit, the first one among equals. @param {Float32Array} logits */
export function argmax(logits) {
  let best = 0;
  for (let i = 1; i < logits.length; i++) if (logits[i] > logits[best]) best = i;
  return best;
}
