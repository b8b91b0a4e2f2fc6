/** Log probabilities from logits. */

/** Rounds to eight digits, because logarithms differ between browsers beyond that. @param {number} x */
export const roundLogprob = (x) => Math.round(x * 1e8) / 1e8;

/** The logarithm of the sum of exponentials of logits; a logit minus this is a log probability. @param {ArrayLike<number>} logits */
export function logSum(logits) {
  let maximum = -Infinity;
  for (let i = 0; i < logits.length; i++) if (logits[i] > maximum) maximum = logits[i];
  let sum = 0;
  for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i] - maximum);
  return maximum + Math.log(sum);
}

/** Index of the largest logit, the first one of equals. @param {Float32Array} logits */
export function argmax(logits) {
  let best = 0;
  for (let i = 1; i < logits.length; i++) if (logits[i] > logits[best]) best = i;
  return best;
}
