#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/embed-stages.mjs [rounds] [build]`: measures the stages of embedding a text
// with all-MiniLM-L6-v2 in Node, with one thread. Texts are embedded one by one as in embed.mjs, which converts the model. Prints
// for each stage its milliseconds per text and the rate of its products, and the rate of the bare dot product instruction
// (tests/bench/dot.c, eight chains), measured in alternation. It also prints two limits for further improvements of kernels: the time of
// a text if products ran at that rate, and the rate of texts if only products took time.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createEngine, fromFile } from '../../js/node.js';
import { command, ROOT } from '../setup/setup.mjs';
import { run } from '../setup/shell.mjs';
import { readMachine, relaxedModule } from './machine.mjs';
import { median } from './stats.mjs';

const MODEL = join(ROOT, 'build/bench/models/minilm-bq8.bq4');
const DOT_MODULE = join(ROOT, 'build/bench/dot.wasm');
/** Number of instructions of one measurement. Each multiplies 16 pairs of bytes. */
const OPERATION_COUNT = 2e6 * 64;
const rounds = Number(process.argv[2] ?? 5);
const build = /** @type {import('../../js/shared/types.js').Build} */ (process.argv[3] ?? relaxedModule(readMachine()));

/** Returns a function that measures the bare instruction, in 1e9 products per second. @returns {Promise<() => number>} */
async function loadBareDot() {
  const { instance } = await WebAssembly.instantiate(readFileSync(DOT_MODULE), {
    env: { memory: new WebAssembly.Memory({ initial: 16, maximum: 65536 }) },
  });
  const runDots = /** @type {(times: number) => number} */ (instance.exports['dot_8']);
  return () => {
    const start = performance.now();
    runDots(OPERATION_COUNT / 64);
    return (OPERATION_COUNT * 16) / (performance.now() - start) / 1e6;
  };
}

await command(async () => {
  if (!existsSync(MODEL))
    throw new Error(`expected ${MODEL}, found no such file: run tools/bench/embed.mjs, which writes it`);
  await run('make', ['-s', '-f', 'emscripten.mk', 'bench-token']);
  const { sentences } = JSON.parse(readFileSync(join(ROOT, 'tests/golden/embeddings/sentences.json'), 'utf8'));
  const texts = sentences.filter((/** @type {string} */ text) => text.length < 400);
  const measureBareDot = await loadBareDot();
  const engine = await createEngine({ threads: 1, build });
  const model = await engine.load(fromFile(MODEL));
  let tokens = 0;
  for (const text of texts) tokens += (await model.embed([text])).tokens[0];
  /** Milliseconds of each stage by round, and its products. @type {Map<string, { ms: number[], macs: number }>} */
  const stages = new Map();
  const [textMs, bareRates] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
  measureBareDot();
  for (let round = 0; round < rounds; round++) {
    bareRates.push(measureBareDot());
    await model.trace({ on: true });
    const start = performance.now();
    for (const text of texts) await model.embed([text]);
    textMs.push((performance.now() - start) / texts.length);
    for (const { stage, ms, macs } of await model.trace()) {
      const row = stages.get(stage) ?? { ms: [], macs: macs / texts.length };
      row.ms.push(ms / texts.length);
      stages.set(stage, row);
    }
  }
  await engine.close();
  const medianMs = median(textMs);
  console.log(
    `${readMachine().cpu ?? ''}, ${build}, ${texts.length} texts of ${(tokens / texts.length).toFixed(1)} tokens, ${rounds} rounds, medians`,
  );
  console.log('| stage | ms per text | share | G products/s |\n|---|---|---|---|');
  let [productMs, macs] = [0, 0];
  for (const [stage, row] of stages) {
    const [stageMs, isProduct] = [median(row.ms), row.macs > 0 && stage !== 'attend'];
    if (isProduct) {
      productMs += stageMs;
      macs += row.macs;
    }
    const rate = isProduct ? (row.macs / stageMs / 1e6).toFixed(1) : '';
    console.log(`| ${stage} | ${stageMs.toFixed(3)} | ${((100 * stageMs) / medianMs).toFixed(0)} % | ${rate} |`);
  }
  const minimumMs = macs / median(bareRates) / 1e6;
  console.log(`| all | ${medianMs.toFixed(3)} | ${(1e3 / medianMs).toFixed(0)} texts/s | |`);
  console.log(
    `\nproducts: ${productMs.toFixed(3)} ms at ${(macs / productMs / 1e6).toFixed(1)} G/s; bare instruction: ${median(bareRates).toFixed(1)} G/s`,
  );
  console.log(
    `at the bare rate: products ${minimumMs.toFixed(3)} ms, a text ${(medianMs - productMs + minimumMs).toFixed(3)} ms (${(1e3 / (medianMs - productMs + minimumMs)).toFixed(0)} texts/s); if only products took time: ${(1e3 / minimumMs).toFixed(0)} texts/s`,
  );
});
