/**
 * Multinomial logistic regression with an L2 penalty, by L-BFGS (Nocedal and Wright, Numerical Optimization, algorithm 7.4).
 * It uses no random numbers: the same rows give the same weights.
 */

/** Features of a text, dense (no `index`) or sparse. @typedef {{ index?: Uint32Array, value: ArrayLike<number> }} Features */

/**
 * @typedef {object} Training
 * @property {number} [penalty]     on squared weights, default 1: half of it, divided by the number of rows, times their sum is added to the mean loss
 * @property {number} [iterations]  at most; default 200
 * @property {AbortSignal} [signal]
 * @property {(progress: { phase: 'train', loaded: number, total: number, loss: number }) => void} [onProgress]
 */

/** Earlier steps from which L-BFGS estimates curvature. */
const MEMORY = 8;
/** Training ends when a step reduces the loss by less than this share. */
const MIN_IMPROVEMENT = 1e-6;

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/**
 * `sum` plus the dot product of a row and the weights that start at `at`.
 * @param {ArrayLike<number>} weights @param {number} at @param {Uint32Array | undefined} index @param {ArrayLike<number>} value @param {number} [sum]
 */
export function product(weights, at, index, value, sum = 0) {
  if (index) for (let i = 0; i < index.length; i++) sum += weights[at + index[i]] * value[i];
  else for (let i = 0; i < value.length; i++) sum += weights[at + i] * value[i];
  return sum;
}

/** Adds `times` the row to the numbers of `target` that start at `at`. @param {Float64Array} target @param {number} at @param {Uint32Array | undefined} index @param {ArrayLike<number>} value @param {number} times */
function addTimes(target, at, index, value, times) {
  if (index) for (let i = 0; i < index.length; i++) target[at + index[i]] += times * value[i];
  else for (let i = 0; i < value.length; i++) target[at + i] += times * value[i];
}

/** The mean loss of the weights (classes x (width + 1), the bias last), and its gradient. */
class Loss {
  /** @param {Features[]} rows @param {ArrayLike<number>} classes  of the rows @param {number} count  of classes @param {number} width @param {number} penalty */
  constructor(rows, classes, count, width, penalty) {
    this.rows = rows;
    this.classes = classes;
    this.count = count;
    this.width = width;
    this.penalty = penalty / rows.length;
    this.logits = new Float64Array(count);
  }

  /** @param {Float64Array} weights @param {Float64Array} gradient  is written @returns {number} */
  at(weights, gradient) {
    gradient.fill(0);
    let loss = 0;
    this.rows.forEach((row, i) => (loss += this.#add(row, this.classes[i], weights, gradient)));
    const stride = this.width + 1;
    for (let i = 0; i < weights.length; i++) {
      gradient[i] /= this.rows.length;
      if (i % stride === this.width) continue; // a bias costs nothing
      gradient[i] += this.penalty * weights[i];
      loss += (this.penalty * this.rows.length * weights[i] ** 2) / 2;
    }
    return loss / this.rows.length;
  }

  /** @param {Features} row @param {number} right @param {Float64Array} weights @param {Float64Array} gradient */
  #add({ index, value }, right, weights, gradient) {
    const { logits, count, width } = this;
    const stride = width + 1;
    for (let c = 0; c < count; c++)
      logits[c] = weights[c * stride + width] + product(weights, c * stride, index, value);
    const maximum = logits.reduce((a, b) => Math.max(a, b), -Infinity);
    let total = 0;
    for (const logit of logits) total += Math.exp(logit - maximum);
    for (let c = 0; c < count; c++) {
      const excess = Math.exp(logits[c] - maximum) / total - Number(c === right);
      addTimes(gradient, c * stride, index, value, excess);
      gradient[c * stride + width] += excess;
    }
    return maximum + Math.log(total) - logits[right];
  }
}

/** The search direction of L-BFGS. @param {Float64Array} gradient @param {{ step: Float64Array, change: Float64Array }[]} past  newest last */
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
 * @param {Features[]} rows
 * @param {ArrayLike<number>} classes  of the rows, from 0 on
 * @param {number} count  of classes
 * @param {number} width  of a row
 * @param {Training} [how]
 * @returns {Promise<{ weights: Float32Array, bias: Float32Array }>}  count x width, and count
 */
export async function train(rows, classes, count, width, { penalty = 1, iterations = 200, signal, onProgress } = {}) {
  const loss = new Loss(rows, classes, count, width, penalty);
  const size = count * (width + 1);
  let weights = new Float64Array(size);
  let gradient = new Float64Array(size);
  let currentLoss = loss.at(weights, gradient);
  /** @type {{ step: Float64Array, change: Float64Array }[]} */
  const past = [];
  for (let iteration = 0; iteration < iterations; iteration++) {
    await new Promise((resolve) => setTimeout(resolve)); // a page goes on meanwhile, and may abort
    signal?.throwIfAborted();
    onProgress?.({ phase: 'train', loaded: iteration, total: iterations, loss: currentLoss });
    const searchDirection = direction(gradient, past);
    const slope = dot(searchDirection, gradient);
    const [nextWeights, nextGradient] = [new Float64Array(size), new Float64Array(size)];
    let nextLoss = Infinity;
    for (let length = 1; length > 1e-10; length /= 2) {
      // Halves the step until it meets Armijo's condition.
      for (let i = 0; i < size; i++) nextWeights[i] = weights[i] + length * searchDirection[i];
      nextLoss = loss.at(nextWeights, nextGradient);
      if (nextLoss <= currentLoss + 1e-4 * length * slope) break;
    }
    if (!(nextLoss < currentLoss)) break;
    past.push({ step: nextWeights.map((w, i) => w - weights[i]), change: nextGradient.map((g, i) => g - gradient[i]) });
    if (past.length > MEMORY || dot(past[past.length - 1].step, past[past.length - 1].change) <= 0) past.shift();
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
