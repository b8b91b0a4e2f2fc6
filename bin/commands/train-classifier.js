/** `bq4 train-classifier`: trains a classifier over the vectors of a model. */
import { stderr, stdout } from 'node:process';
import { trainClassifier } from '../../js/api/classifiers/index.js';
import { BqError } from '../../js/shared/errors.js';
import { flag, load, MODEL, numberOf, oneOf, readText, value, writeOutput } from '../options.js';

/** @type {import('../command.js').Command} */
export const command = {
  summary: 'trains a classifier over the vectors of a model',
  operands: 'FILE DATA.tsv CLASSIFIER.json',
  writesLast: true,
  about: 'Each line of DATA.tsv has a text, a tab and a label.',
  options: {
    test: value('FILE', 'test examples (default: every fifth text of each label, which is then not used for training)'),
    labels: value('A,B,C', 'order of the labels (default: sorted)'),
    type: value('TYPE', "bq4 (default) or f32: type of the classifier's weights"),
    penalty: value('NUMBER', 'strength of regularization (default 1)'),
    name: value('TEXT', 'name of the classifier'),
    json: flag('prints the report as one JSON object'),
    ...MODEL,
  },
  run: async ([file, data, out], options) => {
    const type = oneOf(options, 'type', 'bq4', 'f32');
    const { engine, model } = await load(file, options);
    await train(model, data, out, { ...options, type, penalty: numberOf(options, 'penalty') });
    await engine.close();
  },
};

/** @import { Model } from '../../js/shared/types.js' */

/** Reads examples. Throws FORMAT. @param {string} path */
async function readExamples(path) {
  const lines = (await readText(path)).split(/\r?\n/);
  return lines.flatMap((line, i) => {
    if (!line.trim()) return [];
    const tab = line.lastIndexOf('\t');
    const [text, label] = [line.slice(0, tab).trim(), line.slice(tab + 1).trim()];
    if (tab < 0 || !text || !label)
      throw new BqError('FORMAT', `line ${i + 1} of ${path}: expected a text, a tab and a label`);
    return [{ text, label }];
  });
}

/** @param {number} count @param {number} total */
const percent = (count, total) => `${((100 * count) / total).toFixed(1)} %`;

/**
 * Formats the report of a training as text.
 * @param {{ right: number, test: number, train: number, baseline: number,
 *   each: { label: string, test: number, right: number }[] }} report
 */
function format({ right, test, train, baseline, each }) {
  if (!test)
    return `trained on ${train} texts; no texts were left for a test: provide five examples of a label, or test examples with --test FILE`;
  const worst = [...each].sort((a, b) => a.right / a.test - b.right / b.test).slice(0, 10);
  return [
    `trained on ${train} texts; accuracy on ${test} held-out texts ${percent(right, test)}, of a bag-of-words baseline ${percent(baseline, test)}`,
    ...worst.map((row) => `  ${row.label}: ${row.right} of ${row.test}`),
  ].join('\n');
}

/**
 * @param {Model} model @param {string} data @param {string} out
 * @param {{ test?: string, name?: string, type?: string, labels?: string, penalty?: number, json?: boolean }} options
 */
async function train(model, data, out, { test, name, type, labels, penalty, json }) {
  let lastShown = 0;
  const onProgress = (/** @type {any} */ { phase, loaded, total }) => {
    if (!stderr.isTTY || Date.now() - lastShown < 100) return;
    lastShown = Date.now();
    stderr.write(`\r${phase === 'embed' ? 'vectors' : 'training'}: ${loaded} of ${total}   `);
  };
  const { file, report } = await trainClassifier(model, await readExamples(data), {
    name,
    penalty,
    type: /** @type {'bq4' | 'f32' | undefined} */ (type),
    labels: labels?.split(','),
    test: test === undefined ? undefined : await readExamples(test),
    onProgress,
  });
  if (stderr.isTTY) stderr.write('\r');
  await writeOutput(out, `${JSON.stringify(file)}\n`);
  stdout.write(json ? `${JSON.stringify(report)}\n` : `${format(report)}\n`);
}
