/**
 * Chooses a type for each matrix so that the file has at most a given size, or so that perplexity grows by at most a
 * given percentage. The choice is based on the KL divergence that rounding each matrix alone causes in the model's
 * predictions.
 */
import { isSearched, runLayout, typeNamed, weightBytes } from '../format/bq4/weight-types.js';
import { matrixOf } from '../format/bq4/write-v2.js';
import { BqError } from '../shared/errors.js';
import { inputOf } from './calibration-model.js';
import { ErrorTally, piecesOf } from './tensors.js';

/** @import { Match } from '../format/bq4/encode-tensor.js' */
/** @import { AnyWorker } from './worker-pool.js' */
/** @import { Calibrator } from './calibrate.js' */
/** @import { Tensors } from './tensors.js' */
/** @import { WeightType } from '../format/bq4/weight-types.js' */

/** Types to choose from, smallest first. */
const CANDIDATES = ['bq2a', 'bq3a', 'bq4h', 'bq4a', 'bq8'].map(typeNamed);
/**
 * Index of the smallest type that is tried, if the matrices fit with this type. Costs are measured with the smallest
 * type that is tried, so smaller types are tried only if they are needed.
 */
const DEFAULT_SMALLEST = 2;
/**
 * For a target perplexity: index of the smallest type, and the growth in percent from which on that type is tried.
 * @type {[number, number]}
 */
const SMALLER_FROM_PERCENT = [1, 10];
/**
 * For a target perplexity: largest number of files that are tried, and the share of the target that ends the search.
 */
const [MAX_TRIES, CLOSE_ENOUGH] = [6, 0.8];
/** Tokens on which the cost of a matrix is measured. */
const COST_TOKENS = 128;

/**
 * A matrix with its bytes and its loss (KL divergence) for each type of a ladder.
 * @typedef {{ name: string, bytes: number[], loss: number[] }} Choice
 */

/**
 * Chooses types greedily: starts with the smallest types, then repeatedly takes the step with the largest gain per byte
 * that still fits. Throws ARGUMENT if the smallest types don't fit.
 * @param {readonly Choice[]} choices
 * @param {number} room  bytes for all of them
 * @returns {Map<string, number>}  index of the type in the ladder, by name
 */
export function spend(choices, room) {
  const at = new Map(choices.map(({ name }) => [name, 0]));
  let available = room - choices.reduce((sum, { bytes }) => sum + bytes[0], 0);
  if (available < 0)
    throw new BqError('ARGUMENT', `the target size is ${Math.ceil(-available)} bytes too small for the smallest types`);
  for (;;) {
    let best = { gain: 0, name: '', step: 0, bytes: 0 };
    for (const { name, bytes, loss } of choices) {
      const current = at.get(name) ?? 0;
      for (let step = current + 1; step < bytes.length; step++) {
        const added = bytes[step] - bytes[current];
        const gain = (loss[current] - loss[step]) / Math.max(added, 1);
        if (added <= available && gain > best.gain) best = { gain, name, step, bytes: added };
      }
    }
    if (!best.name) return at;
    at.set(best.name, best.step);
    available -= best.bytes;
  }
}

/**
 * Rounds a matrix to each type of a ladder. Returns the squared errors, and the weights in the first type.
 * @param {Tensors<Calibrator>} tensors @param {AnyWorker} worker @param {Match} match
 * @param {readonly WeightType[]} ladder
 */
async function tryTypes(tensors, worker, match, ladder) {
  const { rows, cols } = matrixOf(match.slot.dims);
  const hasInput = inputOf(match.slot.name) !== null;
  const values = new Float32Array(rows * cols);
  /** @type {number[]} */
  const errors = [];
  for (const [i, type] of ladder.entries()) {
    const tally = new ErrorTally();
    const layout = runLayout(type);
    for (const { row, n } of piecesOf(match)) {
      const piece = await tensors.piece(
        worker,
        match,
        { type, layout, byMoments: hasInput && isSearched(type) },
        { row, n },
      );
      tally.add(n * cols, piece);
      if (i === 0) values.set(await worker.dequantize(type, layout, piece.bytes, n, cols), row * cols);
    }
    const { product, rms } = tally.figures;
    errors.push(product === undefined ? rms ** 2 : product ** 2);
    // 8-bit types are not rounded by moments, so their product error is estimated: 4 more bits reduce the squares by
    // 256.
    if (hasInput && type.bits === 8) errors[i] = errors[i - 1] / 256;
  }
  return { errors, values };
}

/**
 * Returns the types to try. The smallest of them is the largest with which all matrices fit, but no larger than
 * DEFAULT_SMALLEST.
 * @param {Match[]} matches @param {number} room
 */
function ladderFor(matches, room) {
  const bytesOf = (/** @type {WeightType} */ type) =>
    matches.reduce((sum, { slot: { dims } }) => {
      const { rows, cols } = matrixOf(dims);
      return sum + weightBytes(type, runLayout(type), rows, cols);
    }, 0);
  const first = CANDIDATES.slice(0, DEFAULT_SMALLEST + 1).findLastIndex((type) => bytesOf(type) <= room);
  return CANDIDATES.slice(Math.max(first, 0));
}

/**
 * Returns the mean KL divergence.
 * @param {Float32Array[]} reference  log probabilities @param {Float32Array[]} changed
 */
function divergence(reference, changed) {
  let sum = 0;
  reference.forEach((p, i) => p.forEach((log, j) => (sum += Math.exp(log) * (log - changed[i][j]))));
  return sum / reference.length;
}

/**
 * Measures bytes and losses of each matrix for each type of a ladder.
 * @param {Match[]} matches  matrices, embedding and LM head @param {readonly WeightType[]} ladder
 * @param {{ tensors: Tensors<Calibrator>, onTensor: (done: number, total: number) => void }} tools
 */
async function choicesOf(matches, ladder, { tensors, onTensor }) {
  const reference = await tensors.runAlone((calibrator) => calibrator.predictions(COST_TOKENS));
  const attempts = tensors.startAhead(
    matches.map((match) => {
      const { rows, cols } = matrixOf(match.slot.dims);
      return {
        key: tensors.keyOf(match, true),
        bytes: 4 * rows * cols,
        run: (/** @type {AnyWorker} */ worker) => tryTypes(tensors, worker, match, ladder),
      };
    }),
  );
  /** @type {Choice[]} */
  const choices = [];
  for (const [i, match] of matches.entries()) {
    const { name, dims } = match.slot;
    const { rows, cols } = matrixOf(dims);
    const { errors, values } = await attempts[i]();
    const cost = await tensors.runAlone((calibrator) =>
      calibrator.withWeights(name, values, async () =>
        divergence(reference, await calibrator.predictions(COST_TOKENS)),
      ),
    );
    choices.push({
      name,
      bytes: ladder.map((type) => weightBytes(type, runLayout(type), rows, cols)),
      loss: errors.map((error) => (Math.max(cost, 0) * error) / errors[0]),
    });
    onTensor(choices.length, matches.length);
  }
  return choices;
}

/** @typedef {Map<string, WeightType>} Types  by names of matrices */
/** @param {Map<string, number>} steps @param {readonly WeightType[]} ladder @returns {Types} */
const typesOf = (steps, ladder) => new Map([...steps].map(([name, step]) => [name, ladder[step]]));

/**
 * Chooses types with which all matrices take at most `room` bytes.
 * @param {Match[]} matches @param {number} room @param {Parameters<typeof choicesOf>[2]} tools
 */
export async function typesInRoom(matches, room, tools) {
  const ladder = ladderFor(matches, room);
  return typesOf(spend(await choicesOf(matches, ladder, tools), room), ladder);
}

/**
 * Returns the smallest choice with at most this loss, found by bisection of its size.
 * @param {readonly Choice[]} choices @param {number} maxLoss
 */
export function stepsWithinLoss(choices, maxLoss) {
  const sum = (/** @type {(choice: Choice) => number} */ of) => choices.reduce((all, choice) => all + of(choice), 0);
  let [low, high] = [sum(({ bytes }) => bytes[0]), sum(({ bytes }) => Math.max(...bytes))];
  const lossOf = (/** @type {Map<string, number>} */ steps) => sum(({ name, loss }) => loss[steps.get(name) ?? 0]);
  while (high - low > 1) {
    const room = Math.floor((low + high) / 2);
    if (lossOf(spend(choices, room)) > maxLoss) low = room;
    else high = room;
  }
  return spend(choices, high);
}

/**
 * Returns the smallest choice among those tried with which perplexity grows by at most `target` percent. The losses of
 * single matrices determine the order in which matrices get more bits, and estimate the growth; the actual growth of
 * each candidate is measured. Throws ARGUMENT if even the largest types exceed the target.
 * @param {readonly Choice[]} choices @param {number} target
 * @param {(steps: Map<string, number>) => Promise<number>} measure  measures the growth of perplexity in percent
 * @returns {Promise<Map<string, number>>}
 */
export async function stepsWithin(choices, target, measure) {
  const bytesOf = (/** @type {Map<string, number>} */ steps) =>
    choices.reduce((sum, { name, bytes }) => sum + bytes[steps.get(name) ?? 0], 0);
  const targetLoss = Math.log1p(target / 100);
  /** @type {{ steps: Map<string, number>, bytes: number } | null} */
  let best = null;
  // Limits of the summed loss: the largest that met the target, the smallest that exceeded it, the next to try.
  let [accepted, rejected, limit] = [0, Infinity, targetLoss];
  const triedSizes = new Set();
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    // The last try, if all choices were too small, has the largest types.
    const steps = stepsWithinLoss(choices, !best && tries === MAX_TRIES - 1 ? 0 : limit);
    if (triedSizes.has(bytesOf(steps))) {
      if (best) break;
      [rejected, limit] = [limit, limit / 4];
      continue;
    }
    triedSizes.add(bytesOf(steps));
    const growth = await measure(steps);
    if (growth <= target) {
      accepted = limit;
      if (!best || bytesOf(steps) < best.bytes) best = { steps, bytes: bytesOf(steps) };
      if (growth >= CLOSE_ENOUGH * target) break;
    } else rejected = limit;
    const guess = limit * Math.min(Math.max(targetLoss / Math.log1p(Math.max(growth, 0) / 100), 1 / 8), 8);
    limit =
      guess > accepted && guess < rejected
        ? guess
        : rejected === Infinity
          ? 8 * accepted
          : Math.sqrt(Math.max(accepted, rejected / 64) * rejected);
  }
  if (!best)
    throw new BqError('ARGUMENT', `perplexity grows by more than ${target} % with all types that were tried`, {
      hint: 'pass a larger --target-ppl, or keep the types of the model',
    });
  return best.steps;
}

/**
 * Chooses types with which perplexity grows by at most `target` percent.
 * @param {Match[]} matches @param {number} target @param {Parameters<typeof choicesOf>[2]} tools
 * @param {(types: Types) => Promise<number>} measure  measures the growth of perplexity in percent
 */
export async function typesWithin(matches, target, tools, measure) {
  const [smaller, from] = SMALLER_FROM_PERCENT;
  const ladder = CANDIDATES.slice(target < from ? DEFAULT_SMALLEST : smaller);
  const choices = await choicesOf(matches, ladder, tools);
  return typesOf(await stepsWithin(choices, target, (steps) => measure(typesOf(steps, ladder))), ladder);
}
