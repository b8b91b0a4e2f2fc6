#!/usr/bin/env node
// `node tests/golden/vary_options.mjs FOLDER`: converts the variants of vary_options.py and compares their logits with those of transformers.
// Prints the variants that are refused, and those whose logits differ; ends with 1 if there are any that differ.
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { convert } from '../../js/convert/index.js';
import { fromFile } from '../../js/index.js';
import { openLogits } from '../js/logits.mjs';

/** Largest difference of a logit, relative to logits of magnitude 8. */
const TOLERANCE = 1e-3;

const [folder] = process.argv.slice(2);
const file = join(folder, 'variant.bq4');
const counts = { equal: 0, refused: 0, different: 0, 'refused by transformers': 0 };

/** Returns the largest difference of the logits of a variant. @param {string} path @param {any} expected */
async function differenceOf(path, { ids, vocab, logits }) {
  const wanted = new Float32Array(Uint8Array.from(Buffer.from(logits, 'base64')).buffer);
  await convert(path, file, { quant: 'f32' });
  const model = await openLogits(fromFile(file), { build: 'relaxed' });
  let [difference, magnitude] = [0, 8];
  for (const [i, id] of ids.entries()) {
    const found = i ? model.next(id) : model.start([id]);
    for (let k = 0; k < vocab; k++) {
      const value = wanted[i * vocab + k];
      difference = Math.max(difference, Math.abs(found[k] - value));
      magnitude = Math.max(magnitude, Math.abs(value));
    }
  }
  model.close();
  return (difference / magnitude) * 8;
}

for (const name of readdirSync(folder).sort()) {
  if (name === 'variant.bq4') continue;
  const expected = JSON.parse(readFileSync(join(folder, name, 'expected.json'), 'utf8'));
  const title = `${name} ${JSON.stringify(expected.change)}`;
  if (expected.refused) {
    counts['refused by transformers'] += 1;
    continue;
  }
  try {
    const difference = await differenceOf(join(folder, name), expected);
    if (difference < TOLERANCE) counts.equal += 1;
    else {
      counts.different += 1;
      console.log(`DIFFERENT ${title}: by ${difference}`);
    }
  } catch (error) {
    const { code, message } = /** @type {any} */ (error);
    if (!['UNSUPPORTED', 'FORMAT', 'SHAPE'].includes(code)) throw error;
    counts.refused += 1;
    console.log(`refused ${title}: ${message}`);
  } finally {
    rmSync(file, { force: true });
  }
}
console.log(counts);
process.exitCode = Number(counts.different > 0);
