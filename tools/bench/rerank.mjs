#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/rerank.mjs [rounds]`: compares a cross-encoder of MiniLM's shape with random weights in bq4 and in
// transformers.js on its wasm device, in one page of Chromium with one thread each: f32 in both, then `bq8` and int8 ONNX. Prints the
// differences of tokens and logits, and pairs per second, measured in alternation. Ends with 1 if tokens differ, or logits in f32 by
// more than 0.001.
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { launch } from '../../tests/browser/launch.mjs';
import { convert } from '../../js/convert/index.js';
import { PUBLIC, serve } from '../serve.mjs';
import { provideModels, realModel } from '../setup/models.mjs';
import { command, ROOT, setUp } from '../setup/setup.mjs';
import { run, step } from '../setup/shell.mjs';
import { benchPython, providePeers } from './install.mjs';
import { readMachine } from './machine.mjs';
import { formatSummary, median, summary } from './stats.mjs';

const FOLDER = 'build/bench/models/minilm-reranker';
const DOCUMENTS = 32;
/** Largest difference of logits in f32. */
const TOLERANCE = 1e-3;
/** Types of bq4, and data types of transformers.js. */
const TYPES = /** @type {const} */ ([
  ['f32', 'fp32'],
  ['bq8', 'q8'],
]);
const rounds = Number(process.argv[2] ?? 5);

await command(async () => {
  const tools = await setUp({ tests: true });
  await providePeers();
  const python = await benchPython(tools);
  await provideModels(python);
  const encoder = /** @type {string} */ (realModel('minilm'));
  mkdirSync(join(ROOT, FOLDER), { recursive: true });
  if (!existsSync(join(ROOT, FOLDER, 'onnx/model_quantized.onnx')))
    await step(`writing ${FOLDER}`, () =>
      run(python, [join(ROOT, 'tools/bench/make_minilm.py'), encoder, join(ROOT, FOLDER), '--reranker']),
    );
  for (const [quant] of TYPES) {
    const path = `${FOLDER}-${quant}.bq4`;
    if (!existsSync(join(ROOT, path)))
      await step(`writing ${path}`, () => convert(join(ROOT, FOLDER), join(ROOT, path), { quant }));
  }
  const { sentences } = JSON.parse(readFileSync(join(ROOT, 'tests/golden/embeddings/sentences.json'), 'utf8'));
  const [query, ...documents] = sentences.slice(0, DOCUMENTS + 1);
  // Peers start workers from blob: URLs, which the policy of bq4's server forbids.
  const site = await serve({ root: ROOT, folders: [...PUBLIC, 'tools/bench/pages', 'build/bench'], policy: false });
  const browser = await launch({ full: true });
  try {
    console.log(
      `${readMachine().cpu}, Chromium ${browser.version()}, ${DOCUMENTS} pairs, ${rounds} rounds: pairs per second, median (smallest–largest)`,
    );
    for (const [quant, dtype] of TYPES) {
      const page = await browser.newPage();
      await page.goto(`${site.url}tools/bench/pages/page.html`);
      await page.waitForFunction('globalThis.benchReady');
      const bq4Url = `/${FOLDER}-${quant}.bq4`;
      const options = { runtime: 'rerank', bq4Url, onnxFolder: `/${FOLDER}`, dtype, query, documents, rounds };
      await page.evaluate(`prepare(${JSON.stringify(options)})`);
      const { rates, version, differentTexts, differentLengths, largestDifference, largestLogit } =
        await page.evaluate('run([])');
      const ratio = median(
        rates.bq4.map((/** @type {number} */ rate, /** @type {number} */ i) => rate / rates.peer[i]),
      );
      console.log(
        `${quant} and ${dtype}: bq4 ${formatSummary(summary(rates.bq4))}   transformers.js ${version} ${formatSummary(summary(rates.peer))}   ratio ${ratio.toFixed(2)}`,
      );
      console.log(
        `  texts with different tokens: ${differentTexts}, pairs of different length: ${differentLengths}, largest difference of a logit: ${largestDifference.toExponential(1)} (logits up to ${largestLogit.toFixed(2)})`,
      );
      const isDifferent = quant === 'f32' && largestDifference > TOLERANCE;
      if (isDifferent || differentTexts || differentLengths) process.exitCode = 1;
      await page.close();
    }
  } finally {
    await browser.close();
    await site.close();
  }
});
