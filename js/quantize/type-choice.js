/**
 * Which type each matrix gets, so that a file is at most so large, or predicts at most so much worse: by what rounding each one alone
 * costs the model's predictions.
 */
import { isSearched, runLayout, typeNamed, weightBytes } from '../format/bq4/weight-types.js';
import { matrixOf } from '../format/bq4/write-v2.js';
import { BqError } from '../shared/errors.js';
import { inputOf } from './calibration-model.js';
import { cutsOf, Tally } from './tensors.js';

/** @import { Match } from '../format/bq4/encode-tensor.js' */
/** @import { AnyHand } from './worker-pool.js' */
/** @import { Calibrator } from './calibrate.js' */
/** @import { Tensors } from './tensors.js' */
/** @import { WeightType } from '../format/bq4/weight-types.js' */

/** Types to choose from, smallest first. */
const ALL = ['bq2a', 'bq3a', 'bq4h', 'bq4a', 'bq8'].map(typeNamed);
/** Where all matrices may have this type nothing smaller is tried: what a type costs is measured with the smallest. */
const USUAL = 2;
/** The smallest that is tried for a perplexity, and from which percents on. @type {[number, number]} */
const SMALLER = [1, 10];
/** Files that are tried for a perplexity, at most; the share of what it may grow by that is near enough. */
const [TRIES, NEAR] = [6, 0.8];
/** Tokens on which a matrix's part is measured. */
const TOKENS = 128;

/** What each step up the ladder takes and leaves. @typedef {{ name: string, bytes: number[], loss: number[] }} Choice */

/**
 * From the smallest types on, the step that takes away most for its bytes, as long as there is room.
 * ARGUMENT: the smallest are too large.
 * @param {readonly Choice[]} choices
 * @param {number} room  bytes for all of them
 * @returns {Map<string, number>}  steps of the ladder by name
 */
export function spend(choices, room) {
  const at = new Map(choices.map(({ name }) => [name, 0]));
  let left = room - choices.reduce((sum, { bytes }) => sum + bytes[0], 0);
  if (left < 0)
    throw new BqError('ARGUMENT', `the target is ${Math.ceil(-left)} bytes less than the smallest types take`);
  for (;;) {
    let best = { gain: 0, name: '', step: 0, bytes: 0 };
    for (const { name, bytes, loss } of choices) {
      const now = at.get(name) ?? 0;
      for (let step = now + 1; step < bytes.length; step++) {
        const more = bytes[step] - bytes[now];
        const gain = (loss[now] - loss[step]) / Math.max(more, 1);
        if (more <= left && gain > best.gain) best = { gain, name, step, bytes: more };
      }
    }
    if (!best.name) return at;
    at.set(best.name, best.step);
    left -= best.bytes;
  }
}

/**
 * What rounding a matrix to each type of a ladder errs, and what it is in the first one: as it will be computed with.
 * @param {Tensors<Calibrator>} tensors @param {AnyHand} hand @param {Match} match @param {readonly WeightType[]} ladder
 */
async function triedOn(tensors, hand, match, ladder) {
  const { rows, cols } = matrixOf(match.slot.dims);
  const by = inputOf(match.slot.name) !== null;
  const values = new Float32Array(rows * cols);
  /** @type {number[]} */
  const errors = [];
  for (const [i, type] of ladder.entries()) {
    const tally = new Tally();
    const layout = runLayout(type);
    for (const { row, n } of cutsOf(match)) {
      const piece = await tensors.piece(hand, match, { type, layout, by: by && isSearched(type) }, { row, n });
      tally.add(n * cols, piece);
      if (i === 0) values.set(await hand.dequantize(type, layout, piece.bytes, n, cols), row * cols);
    }
    const { product, rms } = tally.figures;
    errors.push(product === undefined ? rms ** 2 : product ** 2);
    // What a byte leaves of a weight is not measured by products: as much less as its squares are.
    if (by && type.bits === 8) errors[i] = errors[i - 1] / 256;
  }
  return { errors, values };
}

/** From the largest type on that leaves room when all have it. @param {Match[]} matches @param {number} room */
function ladderFor(matches, room) {
  const bytesOf = (/** @type {WeightType} */ type) =>
    matches.reduce((sum, { slot: { dims } }) => {
      const { rows, cols } = matrixOf(dims);
      return sum + weightBytes(type, runLayout(type), rows, cols);
    }, 0);
  const first = ALL.slice(0, USUAL + 1).findLastIndex((type) => bytesOf(type) <= room);
  return ALL.slice(Math.max(first, 0));
}

/** Mean of the divergences. @param {Float32Array[]} theirs @param {Float32Array[]} ours  log probabilities */
function divergence(theirs, ours) {
  let sum = 0;
  theirs.forEach((p, i) => p.forEach((log, j) => (sum += Math.exp(log) * (log - ours[i][j]))));
  return sum / theirs.length;
}

/**
 * What each matrix takes and loses in each type of a ladder.
 * @param {Match[]} matches  matrices, embedding and head @param {readonly WeightType[]} ladder
 * @param {{ tensors: Tensors<Calibrator>, onTensor: (done: number, total: number) => void }} with_
 */
async function choicesOf(matches, ladder, { tensors, onTensor }) {
  const reference = await tensors.alone((calibrator) => calibrator.predictions(TOKENS));
  const tried = tensors.ahead(
    matches.map((match) => {
      const { rows, cols } = matrixOf(match.slot.dims);
      return {
        key: tensors.keyOf(match, true),
        bytes: 4 * rows * cols,
        run: (/** @type {AnyHand} */ hand) => triedOn(tensors, hand, match, ladder),
      };
    }),
  );
  /** @type {Choice[]} */
  const choices = [];
  for (const [i, match] of matches.entries()) {
    const { name, dims } = match.slot;
    const { rows, cols } = matrixOf(dims);
    const { errors, values } = await tried[i]();
    const cost = await tensors.alone((calibrator) =>
      calibrator.withWeights(name, values, async () => divergence(reference, await calibrator.predictions(TOKENS))),
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
 * Types with which all matrices take at most `room` bytes.
 * @param {Match[]} matches @param {number} room @param {Parameters<typeof choicesOf>[2]} with_
 */
export async function typesInRoom(matches, room, with_) {
  const ladder = ladderFor(matches, room);
  return typesOf(spend(await choicesOf(matches, ladder, with_), room), ladder);
}

/** Of the smallest steps that lose no more than this. @param {readonly Choice[]} choices @param {number} most */
export function stepsThatLose(choices, most) {
  const sum = (/** @type {(choice: Choice) => number} */ of) => choices.reduce((all, choice) => all + of(choice), 0);
  let [low, high] = [sum(({ bytes }) => bytes[0]), sum(({ bytes }) => Math.max(...bytes))];
  const lost = (/** @type {Map<string, number>} */ steps) => sum(({ name, loss }) => loss[steps.get(name) ?? 0]);
  while (high - low > 1) {
    const room = Math.floor((low + high) / 2);
    if (lost(spend(choices, room)) > most) low = room;
    else high = room;
  }
  return spend(choices, high);
}

/**
 * The smallest types of those tried with which perplexity grows by at most `target` percent. What matrices lose one by one says in
 * which order they need bits, and roughly how much all of them lose together: how much they do is measured.
 * ARGUMENT: it grows more with the largest.
 * @param {readonly Choice[]} choices @param {number} target
 * @param {(steps: Map<string, number>) => Promise<number>} measure  percents that perplexity has grown by
 * @returns {Promise<Map<string, number>>}
 */
export async function stepsWithin(choices, target, measure) {
  const bytesOf = (/** @type {Map<string, number>} */ steps) =>
    choices.reduce((sum, { name, bytes }) => sum + bytes[steps.get(name) ?? 0], 0);
  const aim = Math.log1p(target / 100);
  /** @type {{ steps: Map<string, number>, bytes: number } | null} */
  let best = null;
  // What may be lost: this much is known to be right, this much to be too much.
  let [right, wrong, may] = [0, Infinity, aim];
  const seen = new Set();
  for (let tried = 0; tried < TRIES; tried++) {
    // The last one, if all were too small: the largest types.
    const steps = stepsThatLose(choices, !best && tried === TRIES - 1 ? 0 : may);
    if (seen.has(bytesOf(steps))) {
      if (best) break;
      [wrong, may] = [may, may / 4];
      continue;
    }
    seen.add(bytesOf(steps));
    const grown = await measure(steps);
    if (grown <= target) {
      right = may;
      if (!best || bytesOf(steps) < best.bytes) best = { steps, bytes: bytesOf(steps) };
      if (grown >= NEAR * target) break;
    } else wrong = may;
    const guess = may * Math.min(Math.max(aim / Math.log1p(Math.max(grown, 0) / 100), 1 / 8), 8);
    may =
      guess > right && guess < wrong
        ? guess
        : wrong === Infinity
          ? 8 * right
          : Math.sqrt(Math.max(right, wrong / 64) * wrong);
  }
  if (!best)
    throw new BqError('ARGUMENT', `with none of the types tried perplexity grows by ${target} % or less`, {
      hint: 'allow more, or keep the types that the model has',
    });
  return best.steps;
}

/**
 * Types with which perplexity grows by at most `target` percent.
 * @param {Match[]} matches @param {number} target @param {Parameters<typeof choicesOf>[2]} with_
 * @param {(types: Types) => Promise<number>} measure  percents that perplexity has grown by
 */
export async function typesWithin(matches, target, with_, measure) {
  const [smaller, from] = SMALLER;
  const ladder = ALL.slice(target < from ? USUAL : smaller);
  const choices = await choicesOf(matches, ladder, with_);
  return typesOf(await stepsWithin(choices, target, (steps) => measure(typesOf(steps, ladder))), ladder);
}
