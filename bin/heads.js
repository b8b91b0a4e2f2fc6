// Commands of heads: train-head and classify.
import { writeFile } from 'node:fs/promises';
import { stderr, stdout } from 'node:process';
import { trainHead } from '../js/api/classifiers/index.js';
import { BqError } from '../js/shared/errors.js';
import { readText } from './options.js';

/** @import { Model } from '../js/shared/types.js' */

/** Lines of a text, a tab and a label. FORMAT. @param {string} path */
async function examples(path) {
  const lines = (await readText(path)).split(/\r?\n/);
  return lines.flatMap((line, i) => {
    if (!line.trim()) return [];
    const tab = line.lastIndexOf('\t');
    const [text, label] = [line.slice(0, tab).trim(), line.slice(tab + 1).trim()];
    if (tab < 0 || !text || !label)
      throw new BqError('FORMAT', `line ${i + 1} of ${path} is no text, a tab and a label`);
    return [{ text, label }];
  });
}

/** @param {number} part @param {number} whole */
const percent = (part, whole) => `${((100 * part) / whole).toFixed(1)} %`;

/** @param {{ right: number, test: number, train: number, baseline: number, each: { label: string, test: number, right: number }[] }} report */
function shown({ right, test, train, baseline, each }) {
  const worst = [...each].sort((a, b) => a.right / a.test - b.right / b.test).slice(0, 10);
  return [
    `learned from ${train} texts; of ${test} held out ${percent(right, test)} are right, by a bag of words ${percent(baseline, test)}`,
    ...worst.map((one) => `  ${one.label}: ${one.right} of ${one.test}`),
  ].join('\n');
}

/** @param {Model} model @param {string} data @param {string} out @param {{ test?: string, name?: string, type?: string, labels?: string, penalty?: number, json?: boolean }} options */
export async function train(model, data, out, { test, name, type, labels, penalty, json }) {
  let at = 0;
  const onProgress = (/** @type {any} */ { phase, loaded, total }) => {
    if (!stderr.isTTY || Date.now() - at < 100) return;
    at = Date.now();
    stderr.write(`\r${phase === 'embed' ? 'vectors' : 'training'}: ${loaded} of ${total}   `);
  };
  const { file, report } = await trainHead(model, await examples(data), {
    name,
    penalty,
    type: /** @type {'bq4' | 'f32' | undefined} */ (type),
    labels: labels?.split(','),
    test: test === undefined ? undefined : await examples(test),
    onProgress,
  });
  if (stderr.isTTY) stderr.write('\r');
  await writeFile(out, `${JSON.stringify(file)}\n`);
  stdout.write(json ? `${JSON.stringify(report)}\n` : `${shown(report)}\n`);
}

/** @param {Model} model @param {string} path  of the head @param {string[]} texts @param {boolean} json */
export async function classify(model, path, texts, json) {
  let head;
  try {
    head = JSON.parse(await readText(path));
  } catch (cause) {
    if (cause instanceof BqError) throw cause;
    throw new BqError('FORMAT', `${path} is no JSON: ${/** @type {Error} */ (cause).message}`, {
      cause,
      hint: 'a head is the JSON that `bq4 train-head` writes',
    });
  }
  for (const { label, score, scores } of await model.classify(texts, { head })) {
    const all = Object.fromEntries(
      head.labels.map((/** @type {string} */ one, /** @type {number} */ i) => [one, scores[i]]),
    );
    stdout.write(json ? `${JSON.stringify({ label, score, scores: all })}\n` : `${label}\t${score.toFixed(3)}\n`);
  }
}
