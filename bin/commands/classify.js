/** `bq4 classify`: classifies texts with a classifier that `bq4 train-classifier` has written. */
import { stdout } from 'node:process';
import { BqError } from '../../js/shared/errors.js';
import { flag, load, MODEL, readText } from '../options.js';

/** @import { Model } from '../../js/shared/types.js' */

/** @type {import('../command.js').Command} */
export const command = {
  summary: 'classifies texts, with the probability of each label',
  operands: 'FILE CLASSIFIER.json TEXT...',
  options: { json: flag('prints a JSON object for each text'), ...MODEL },
  run: async ([file, classifierPath, ...texts], options) => {
    const { engine, model } = await load(file, options);
    await classify(model, classifierPath, texts, options.json);
    await engine.close();
  },
};

/** @param {Model} model @param {string} path  of the classifier @param {string[]} texts @param {boolean} json */
async function classify(model, path, texts, json) {
  let classifier;
  try {
    classifier = JSON.parse(await readText(path));
  } catch (cause) {
    if (cause instanceof BqError) throw cause;
    throw new BqError('FORMAT', `${path} is not valid JSON: ${/** @type {Error} */ (cause).message}`, {
      cause,
      hint: 'expected the JSON that bq4 train-classifier writes',
    });
  }
  for (const { label, score, scores } of await model.classify(texts, { classifier })) {
    const scoresByLabel = Object.fromEntries(
      classifier.labels.map((/** @type {string} */ name, /** @type {number} */ i) => [name, scores[i]]),
    );
    stdout.write(
      json ? `${JSON.stringify({ label, score, scores: scoresByLabel })}\n` : `${label}\t${score.toFixed(3)}\n`,
    );
  }
}
