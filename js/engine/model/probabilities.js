/** Probabilities of tokens, of logits. */

/** Eight digits: what browsers' own logarithms differ in is not told. @param {number} x */
export const round = (x) => Math.round(x * 1e8) / 1e8;

/** The logarithm of the sum of their exponentials: a logit less this is a log probability. @param {ArrayLike<number>} logits */
export function logSum(logits) {
  let most = -Infinity;
  for (let i = 0; i < logits.length; i++) if (logits[i] > most) most = logits[i];
  let sum = 0;
  for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i] - most);
  return most + Math.log(sum);
}

/** The first of the largest. @param {Float32Array} logits */
export function argmax(logits) {
  let best = 0;
  for (let i = 1; i < logits.length; i++) if (logits[i] > logits[best]) best = i;
  return best;
}
