/** Heads: small classifiers over a model's vectors, trained here, in Node or in a page. */
import { BqError } from '../../shared/errors.js';
import { readClassifier, scores, writeClassifier } from './classifier.js';
import { product, train } from './train.js';
import { bag, vocabulary } from './bag-of-words.js';

export { readClassifier, scores, writeClassifier };

/** @import { Head, ClassifierFile, Model, Pooling } from '../../shared/types.js' */

/** A text and what it is. @typedef {{ text: string, label: string }} Example */

/**
 * @typedef {object} TrainOptions
 * @property {string} [name]
 * @property {'bq4' | 'f32'} [type]   of the weights; default bq4
 * @property {readonly string[]} [labels]  in the order that they shall have; default: sorted
 * @property {Example[]} [test]       held out; default: each label's every fifth example
 * @property {Pooling} [pooling]      default: as the model's file says, else the mean
 * @property {number} [penalty]       on large weights; default 1
 * @property {number} [iterations]    at most; default 200
 * @property {AbortSignal} [signal]
 * @property {(progress: { phase: 'embed' | 'train', loaded: number, total: number }) => void} [onProgress]
 */

/**
 * @typedef {object} Trained
 * @property {ClassifierFile} file
 * @property {{ train: number, test: number, right: number, baseline: number, each: { label: string, test: number, right: number }[] }} report
 *   counts of texts: learned from, held out, and of these how many the head and a bag of words (`baseline`) get right
 */

/** Every fifth example of each label is held out. @param {Example[]} examples */
export function split(examples) {
  /** @type {Map<string, number>} */
  const seen = new Map();
  /** @type {{ train: Example[], test: Example[] }} */
  const parts = { train: [], test: [] };
  for (const example of examples) {
    const nth = (seen.get(example.label) ?? 0) + 1;
    seen.set(example.label, nth);
    (nth % 5 ? parts.train : parts.test).push(example);
  }
  return parts;
}

/** @param {import('./train.js').Features[]} rows @param {{ weights: Float32Array, bias: Float32Array }} made @param {number} width @returns {number[]} */
function guesses(rows, { weights, bias }, width) {
  return rows.map(({ index, value }) => {
    const logits = bias.map((b, c) => product(weights, c * width, index, value, b));
    return logits.indexOf(logits.reduce((a, b) => Math.max(a, b)));
  });
}

/**
 * Trains a head. ARGUMENT: too few examples, or a label that there is no example of.
 * @param {Pick<Model, 'embed' | 'info'>} model
 * @param {Example[]} examples
 * @param {TrainOptions} [options]
 * @returns {Promise<Trained>}
 */
export async function trainClassifier(
  model,
  examples,
  { name = '', type = 'bq4', labels: wanted, test: held, pooling, penalty, iterations, signal, onProgress } = {},
) {
  const parts = held ? { train: examples, test: held } : split(examples);
  const labels = wanted ? [...wanted] : [...new Set(examples.map(({ label }) => label))].sort();
  const classOf = new Map(labels.map((label, i) => [label, i]));
  const classes = Object.values(parts).map((part) => part.map(({ label }) => classOf.get(label) ?? -1));
  const strange = parts.train.concat(parts.test).find(({ label }) => !classOf.has(label));
  if (strange)
    throw new BqError('ARGUMENT', `"${strange.label}" is not one of the labels`, {
      hint: `labels are ${labels.slice(0, 20).join(', ')}`,
    });
  const lacking = labels.find((_, i) => !classes[0].includes(i));
  if (labels.length < 2 || lacking !== undefined)
    throw new BqError(
      'ARGUMENT',
      lacking ? `there is no example of "${lacking}" to learn from` : 'a head needs at least two labels',
    );
  const how = { pooling: pooling ?? model.info.embedding.pooling ?? 'mean', normalize: true };
  const texts = parts.train.concat(parts.test).map(({ text }) => text);
  const { vectors } = await model.embed(texts, { ...how, signal, onProgress });
  const rows = vectors.map((value) => ({ value }));
  const width = vectors[0].length;
  const learned = parts.train.length;
  const made = await train(rows.slice(0, learned), classes[0], labels.length, width, {
    penalty,
    iterations,
    signal,
    onProgress,
  });
  /** @type {Head} */
  const head = { name, labels, width, ...how, ...made };
  const file = writeClassifier(head, { type });
  // What is judged is what was written.
  const guessed = guesses(rows.slice(learned), readClassifier(file), width);
  const known = vocabulary(parts.train.map(({ text }) => text));
  const bags = texts.map((text) => bag(known, text));
  const plain = await train(bags.slice(0, learned), classes[0], labels.length, known.size, {
    penalty: 0.1,
    iterations,
    signal,
  });
  const count = (/** @type {number[]} */ found) => found.filter((c, i) => c === classes[1][i]).length;
  const report = {
    train: learned,
    test: parts.test.length,
    right: count(guessed),
    baseline: count(guesses(bags.slice(learned), plain, known.size)),
    each: labels.map((label, i) => ({
      label,
      test: classes[1].filter((c) => c === i).length,
      right: guessed.filter((c, n) => c === i && classes[1][n] === i).length,
    })),
  };
  file.facts = {
    model: model.info.name,
    train: report.train,
    test: report.test,
    right: report.right,
    bagOfWords: report.baseline,
  };
  return { file, report };
}
