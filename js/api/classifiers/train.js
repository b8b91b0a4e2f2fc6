/**
 * Multinomial logistic regression with an L2 penalty, by L-BFGS (Nocedal and Wright, Numerical Optimization, algorithm
 * 7.4). It uses no random numbers: the same rows give the same weights.
 */

/**
 * Features of a text, dense (no `index`) or sparse.
 * @typedef {{ index?: Uint32Array, value: ArrayLike<number> }} Features
 */

/**
 * @typedef {object} Training
 * @property {number} [penalty]  penalty on the sum of squared weights. Half of it, divided by the number of rows, is
 *   the factor of that sum in the mean loss. Default 1
 * @property {number} [iterations]  largest number of iterations. Default 200
 * @property {AbortSignal} [signal]
 * @property {(progress: { phase: 'train', loaded: number, total: number, loss: number }) => void} [onProgress]
 */

/** Number of earlier steps from which L-BFGS estimates curvature. */
const HISTORY_STEPS = 8;
/** Training ends when a step reduces the loss by less than this share. */
const MIN_IMPROVEMENT = 1e-6;

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/**
 * Adds the dot product of a row and the weights that start at `at` to `sum`.
 * @param {ArrayLike<number>} weights
 * @param {number} at
 * @param {Uint32Array | undefined} index  columns of the row's values; undefined: all columns
 * @param {ArrayLike<number>} value
 * @param {number} [sum]
 */
export function product(weights, at, index, value, sum = 0) {
  if (index) for (let i = 0; i < index.length; i++) sum += weights[at + index[i]] * value[i];
  else for (let i = 0; i < value.length; i++) sum += weights[at + i] * value[i];
  return sum;
}

/**
 * Adds a row times `factor` to the numbers of `target` that start at `at`.
 * @param {Float64Array} target
 * @param {number} at
 * @param {Uint32Array | undefined} index  columns of the row's values; undefined: all columns
 * @param {ArrayLike<number>} value
 * @param {number} factor
 */
function addScaled(target, at, index, value, factor) {
  if (index) for (let i = 0; i < index.length; i++) target[at + index[i]] += factor * value[i];
  else for (let i = 0; i < value.length; i++) target[at + i] += factor * value[i];
}

/** The mean loss as a function of the weights (classes x (width + 1), the bias last), and its gradient. */
class Loss {
  /**
   * @param {Features[]} rows
   * @param {ArrayLike<number>} classes  class of each row
   * @param {number} count  number of classes
   * @param {number} width  length of a row
   * @param {number} penalty
   */
  constructor(rows, classes, count, width, penalty) {
    this.rows = rows;
    this.classes = classes;
    this.count = count;
    this.width = width;
    this.penalty = penalty / rows.length;
    this.logits = new Float64Array(count);
  }

  /**
   * Returns the loss and writes the gradient.
   * @param {Float64Array} weights
   * @param {Float64Array} gradient
   * @returns {number}
   */
  compute(weights, gradient) {
    gradient.fill(0);
    let loss = 0;
    this.rows.forEach((row, i) => (loss += this.#add(row, this.classes[i], weights, gradient)));
    const stride = this.width + 1;
    for (let i = 0; i < weights.length; i++) {
      gradient[i] /= this.rows.length;
      if (i % stride === this.width) continue; // a bias has no penalty
      gradient[i] += this.penalty * weights[i];
      loss += (this.penalty * this.rows.length * weights[i] ** 2) / 2;
    }
    return loss / this.rows.length;
  }

  /**
   * Returns the loss of a row and adds its gradient.
   * @param {Features} row
   * @param {number} correctClass
   * @param {Float64Array} weights
   * @param {Float64Array} gradient
   */
  #add({ index, value }, correctClass, weights, gradient) {
    const { logits, count, width } = this;
    const stride = width + 1;
    for (let c = 0; c < count; c++)
      logits[c] = weights[c * stride + width] + product(weights, c * stride, index, value);
    const maximum = logits.reduce((a, b) => Math.max(a, b), -Infinity);
    let total = 0;
    for (const logit of logits) total += Math.exp(logit - maximum);
    for (let c = 0; c < count; c++) {
      const excess = Math.exp(logits[c] - maximum) / total - Number(c === correctClass);
      addScaled(gradient, c * stride, index, value, excess);
      gradient[c * stride + width] += excess;
    }
    return maximum + Math.log(total) - logits[correctClass];
  }
}

/**
 * Returns the search direction of L-BFGS.
 * @param {Float64Array} gradient
 * @param {{ step: Float64Array, change: Float64Array }[]} past  newest last
 */
function direction(gradient, past) {
  const result = gradient.map((value) => -value);
  const shares = past.map(() => 0);
  for (let k = past.length - 1; k >= 0; k--) {
    const { step, change } = past[k];
    shares[k] = dot(step, result) / dot(step, change);
    for (let i = 0; i < result.length; i++) result[i] -= shares[k] * change[i];
  }
  const last = past.at(-1);
  const scale = last ? dot(last.step, last.change) / dot(last.change, last.change) : 1;
  for (let i = 0; i < result.length; i++) result[i] *= scale;
  past.forEach(({ step, change }, k) => {
    const projection = dot(change, result) / dot(step, change);
    for (let i = 0; i < result.length; i++) result[i] += (shares[k] - projection) * step[i];
  });
  return result;
}

/**
 * Trains the weights of a classifier.
 * @param {Features[]} rows
 * @param {ArrayLike<number>} classes  class of each row, from 0
 * @param {number} count  number of classes
 * @param {number} width  length of a row
 * @param {Training} [options]
 * @returns {Promise<{ weights: Float32Array, bias: Float32Array }>}  count x width, and count
 */
export async function train(rows, classes, count, width, { penalty = 1, iterations = 200, signal, onProgress } = {}) {
  const loss = new Loss(rows, classes, count, width, penalty);
  const size = count * (width + 1);
  let weights = new Float64Array(size);
  let gradient = new Float64Array(size);
  let currentLoss = loss.compute(weights, gradient);
  /** @type {{ step: Float64Array, change: Float64Array }[]} */
  const past = [];
  for (let iteration = 0; iteration < iterations; iteration++) {
    await new Promise((resolve) => setTimeout(resolve)); // lets a page continue, and abort
    signal?.throwIfAborted();
    onProgress?.({ phase: 'train', loaded: iteration, total: iterations, loss: currentLoss });
    const searchDirection = direction(gradient, past);
    const slope = dot(searchDirection, gradient);
    const [nextWeights, nextGradient] = [new Float64Array(size), new Float64Array(size)];
    let nextLoss = Infinity;
    for (let length = 1; length > 1e-10; length /= 2) {
      // Halves the step until Armijo's condition is met.
      for (let i = 0; i < size; i++) nextWeights[i] = weights[i] + length * searchDirection[i];
      nextLoss = loss.compute(nextWeights, nextGradient);
      if (nextLoss <= currentLoss + 1e-4 * length * slope) break;
    }
    if (!(nextLoss < currentLoss)) break;
    const step = nextWeights.map((w, i) => w - weights[i]);
    const change = nextGradient.map((g, i) => g - gradient[i]);
    // `direction` divides by the curvature. Where the loss is linear, within rounding, there is none.
    if (dot(step, change) > 0) past.push({ step, change });
    if (past.length > HISTORY_STEPS) past.shift();
    const improvement = currentLoss - nextLoss;
    [weights, gradient, currentLoss] = [nextWeights, nextGradient, nextLoss];
    if (improvement < MIN_IMPROVEMENT * currentLoss) break;
  }
  onProgress?.({ phase: 'train', loaded: iterations, total: iterations, loss: currentLoss });
  const columnOf = (/** @type {number} */ i) => i % (width + 1);
  return {
    weights: Float32Array.from(weights.filter((_, i) => columnOf(i) < width)),
    bias: Float32Array.from(weights.filter((_, i) => columnOf(i) === width)),
  };
}
