#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/embed.mjs [rounds]`: compares all-MiniLM-L6-v2 in 8 bits in bq4 with an int8 ONNX file of
// the same model, which this program writes, in transformers.js on its wasm device. Both run in one page of Chromium with one thread. Prints texts per second in batches
// of 1 and 32, measured in alternation, and cosine similarities of the vectors. The texts are the sentences that tests compare with
// sentence-transformers, without those of 400 characters or more.
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
import { median, formatSummary, summary } from './stats.mjs';

const FOLDER = 'build/bench/models';
const BQ4_MODEL = `${FOLDER}/minilm-bq8.bq4`;
const ONNX_FOLDER = `${FOLDER}/minilm`;
const BATCH_SIZES = [1, 32];
const rounds = Number(process.argv[2] ?? 5);

await command(async () => {
  const tools = await setUp({ tests: true });
  await providePeers();
  const python = await benchPython(tools);
  await provideModels(python);
  const model = /** @type {string} */ (realModel('minilm'));
  mkdirSync(join(ROOT, FOLDER), { recursive: true });
  if (!existsSync(join(ROOT, BQ4_MODEL)))
    await step(`writing ${BQ4_MODEL}`, () => convert(model, join(ROOT, BQ4_MODEL), { quant: 'bq8' }));
  if (!existsSync(join(ROOT, ONNX_FOLDER, 'onnx/model_quantized.onnx')))
    await step(`writing ${ONNX_FOLDER}`, () =>
      run(python, [join(ROOT, 'tools/bench/make_minilm.py'), model, join(ROOT, ONNX_FOLDER)]),
    );
  const { sentences } = JSON.parse(readFileSync(join(ROOT, 'tests/golden/embeddings/sentences.json'), 'utf8'));
  const texts = sentences.filter((/** @type {string} */ text) => text.length < 400);
  // Peers start workers from blob: URLs, which the policy of bq4's server forbids.
  const site = await serve({ root: ROOT, folders: [...PUBLIC, 'tools/bench/pages', 'build/bench'], policy: false });
  const browser = await launch({ full: true });
  try {
    console.log(
      `${readMachine().cpu ?? ''}, Chromium ${browser.version()}, ${texts.length} texts, ${rounds} rounds: texts per second, median (smallest–largest)`,
    );
    for (const build of ['relaxed', 'relaxed16', 'simd128']) {
      const page = await browser.newPage();
      await page.goto(`${site.url}tools/bench/pages/page.html`);
      await page.waitForFunction('globalThis.benchReady');
      const options = {
        runtime: 'embed',
        bq4Url: `/${BQ4_MODEL}`,
        onnxFolder: `/${ONNX_FOLDER}`,
        build,
        texts,
        batches: BATCH_SIZES,
        rounds,
      };
      await page.evaluate(`prepare(${JSON.stringify(options)})`);
      const { rates, version, leastCosine, meanCosine } = await page.evaluate('run([])');
      for (const batch of BATCH_SIZES) {
        const { bq4, peer } = rates[batch];
        const ratio = median(bq4.map((/** @type {number} */ rate, /** @type {number} */ i) => rate / peer[i]));
        console.log(
          `${build.padEnd(9)} batches of ${String(batch).padEnd(3)} bq4 ${formatSummary(summary(bq4))}   transformers.js ${version} ${formatSummary(summary(peer))}   ratio ${ratio.toFixed(2)}`,
        );
      }
      console.log(
        `${build.padEnd(9)} cosine similarity of the vectors: at least ${leastCosine.toFixed(4)}, ${meanCosine.toFixed(4)} on average`,
      );
      await page.close();
    }
  } finally {
    await browser.close();
    await site.close();
  }
});
