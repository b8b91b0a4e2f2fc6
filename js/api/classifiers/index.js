/** `bq4/classifiers`: small classifiers over embeddings, trained in Node or in a page. */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { readClassifier, scores, writeClassifier } from './classifier.js';
import { product, train } from './train.js';
import { bag, vocabulary } from './bag-of-words.js';

export { readClassifier, scores, writeClassifier };

/** @import { Head, ClassifierFile, Model, Pooling } from '../../shared/types.js' */

/** A text and its label. @typedef {{ text: string, label: string }} Example */

/**
 * @typedef {object} TrainOptions
 * @property {string} [name]
 * @property {'bq4' | 'f32'} [type]   type of the weights. Default bq4
 * @property {readonly string[]} [labels]  labels in the order of the classifier. Default: sorted
 * @property {Example[]} [test]  examples that are used for the report, not for training. Default: every fifth example
 *   of each label
 * @property {Pooling} [pooling]      default: as specified by the model's file, else the mean
 * @property {number} [penalty]       penalty on large weights. Default 1
 * @property {number} [iterations]    largest number of iterations. Default 200
 * @property {AbortSignal} [signal]
 * @property {(progress: { phase: 'embed' | 'train', loaded: number, total: number }) => void} [onProgress]
 */

/**
 * @typedef {object} TrainingResult
 * @property {ClassifierFile} file
 * @property {{ train: number, test: number, right: number, baseline: number, each: { label: string, test: number, right: number }[] }} report
 *   numbers of texts: those for training (`train`), those for testing (`test`), and the test texts that are labelled
 *   correctly by the classifier (`right`) and by a bag of words (`baseline`); `each`: the same for each label
 */

/**
 * Options of training with their checks. Null: the option is checked where it is used.
 * @type {Record<string, [expected: string, isValid: (value: any) => boolean] | null>}
 */
const OPTIONS = {
  name: null,
  type: null,
  labels: ['a list of different strings', (v) => Array.isArray(v) && new Set(v).size === v.length],
  test: null,
  pooling: null,
  penalty: ['a number of at least 0', (v) => Number.isFinite(v) && v >= 0],
  iterations: ['an integer of at least 1', (v) => Number.isInteger(v) && v >= 1],
  signal: null,
  onProgress: null,
};

/** Creates the error ARGUMENT. @param {string} param @param {string} expected @param {unknown} found */
const wrong = (param, expected, found) =>
  new BqError('ARGUMENT', `${param}: expected ${expected}, found ${shown(found)}`, { details: { param } });

/** Checks a list of examples. Throws ARGUMENT. @param {string} param @param {unknown} examples */
function checkExamples(param, examples) {
  if (!Array.isArray(examples)) throw wrong(param, 'a list of { text, label }', examples);
  const at = examples.findIndex(
    (example) => ![example?.text, example?.label].every((text) => typeof text === 'string'),
  );
  if (at >= 0) throw wrong(`${param}[${at}]`, '{ text, label }', examples[at]);
}

/** Checks the options of training. Throws ARGUMENT. @param {unknown} options */
function checkTrainOptions(options) {
  if (typeof options !== 'object' || options === null) throw wrong('the last argument', 'an options object', options);
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(OPTIONS, name))
      throw new BqError('ARGUMENT', `trainClassifier: unknown option "${name}"`, {
        hint: `options of trainClassifier: ${Object.keys(OPTIONS).join(', ')}`,
        details: { param: name },
      });
    const [expected, isValid] = OPTIONS[name] ?? [];
    if (expected && value !== undefined && !isValid?.(value)) throw wrong(name, expected, value);
  }
}

/**
 * Splits examples into parts for training and for testing. The latter is every fifth example of each label.
 * @param {Example[]} examples
 */
export function split(examples) {
  checkExamples('examples', examples);
  /** @type {Map<string, number>} */
  const counts = new Map();
  /** @type {{ train: Example[], test: Example[] }} */
  const parts = { train: [], test: [] };
  for (const example of examples) {
    const nth = (counts.get(example.label) ?? 0) + 1;
    counts.set(example.label, nth);
    (nth % 5 ? parts.train : parts.test).push(example);
  }
  return parts;
}

/**
 * @param {import('./train.js').Features[]} rows
 * @param {{ weights: Float32Array, bias: Float32Array }} classifier
 * @param {number} width
 * @returns {number[]}
 */
function predictLabels(rows, { weights, bias }, width) {
  return rows.map(({ index, value }) => {
    const logits = bias.map((b, c) => product(weights, c * width, index, value, b));
    return logits.indexOf(logits.reduce((a, b) => Math.max(a, b)));
  });
}

/**
 * Returns the number of the label of each example. Throws ARGUMENT if an example has an
 * unknown label or a label has no training example.
 * @param {{ train: Example[], test: Example[] }} parts @param {readonly string[]} labels
 */
function numberLabels(parts, labels) {
  const classOf = new Map(labels.map((label, i) => [label, i]));
  const unlabelled = parts.train.concat(parts.test).find(({ label }) => !classOf.has(label));
  if (unlabelled)
    throw new BqError('ARGUMENT', `unknown label "${unlabelled.label}" of an example`, {
      hint: `expected one of ${labels.slice(0, 20).join(', ')}`,
    });
  const [trainClasses, testClasses] = [parts.train, parts.test].map((examples) =>
    examples.map(({ label }) => /** @type {number} */ (classOf.get(label))),
  );
  const missingLabel = labels.find((_, i) => !trainClasses.includes(i));
  if (labels.length < 2 || missingLabel !== undefined)
    throw new BqError(
      'ARGUMENT',
      missingLabel !== undefined
        ? `the label "${missingLabel}" has no training example`
        : 'expected at least two labels, found fewer',
    );
  return { trainClasses, testClasses };
}

/**
 * Trains a classifier. Throws ARGUMENT if an example or an option is invalid, if there are fewer than two labels, or if
 * a label has no example.
 * @param {Pick<Model, 'embed' | 'info'>} model
 * @param {Example[]} examples
 * @param {TrainOptions} [options]
 * @returns {Promise<TrainingResult>}
 */
export async function trainClassifier(model, examples, options = {}) {
  checkTrainOptions(options);
  const { name = '', type = 'bq4', test: testExamples, pooling, penalty, iterations, signal, onProgress } = options;
  checkExamples('examples', examples);
  if (testExamples) checkExamples('test', testExamples);
  const parts = testExamples ? { train: examples, test: testExamples } : split(examples);
  const labels = [...(options.labels ?? [...new Set(examples.map(({ label }) => label))].sort())];
  const { trainClasses, testClasses } = numberLabels(parts, labels);
  const embedOptions = { pooling: pooling ?? model.info.embedding.pooling ?? 'mean', normalize: true };
  const texts = parts.train.concat(parts.test).map(({ text }) => text);
  const { vectors } = await model.embed(texts, { ...embedOptions, signal, onProgress });
  const rows = vectors.map((value) => ({ value }));
  const width = vectors[0].length;
  const trainCount = parts.train.length;
  const trained = await train(rows.slice(0, trainCount), trainClasses, labels.length, width, {
    penalty,
    iterations,
    signal,
    onProgress,
  });
  /** @type {Head} */
  const head = { name, labels, width, ...embedOptions, ...trained };
  const file = writeClassifier(head, { type });
  // The report is computed from the file, because packing changes the weights.
  const predicted = predictLabels(rows.slice(trainCount), readClassifier(file), width);
  const words = vocabulary(parts.train.map(({ text }) => text));
  const bags = texts.map((text) => bag(words, text));
  const baselineModel = await train(bags.slice(0, trainCount), trainClasses, labels.length, words.size, {
    penalty: 0.1,
    iterations,
    signal,
  });
  const countRight = (/** @type {number[]} */ predictions) => predictions.filter((c, i) => c === testClasses[i]).length;
  const report = {
    train: trainCount,
    test: parts.test.length,
    right: countRight(predicted),
    baseline: countRight(predictLabels(bags.slice(trainCount), baselineModel, words.size)),
    each: labels.map((label, i) => ({
      label,
      test: testClasses.filter((c) => c === i).length,
      right: predicted.filter((c, n) => c === i && testClasses[n] === i).length,
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
