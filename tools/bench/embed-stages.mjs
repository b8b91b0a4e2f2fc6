#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/embed-stages.mjs [rounds] [build]`: measures the stages of embedding a text
// with all-MiniLM-L6-v2 in Node, with one thread. Texts are embedded one by one as in embed.mjs, which makes the model. Prints for
// each stage its milliseconds per text and the rate of its products, and the rate of the bare instruction (tests/bench/dot.c, eight
// chains), measured in alternation. It also prints the time of a text if products ran at that rate, and if only products took time:
// limits for further improvements of kernels.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createEngine, fromFile } from '../../js/node.js';
import { command, ROOT } from '../setup/setup.mjs';
import { run } from '../setup/shell.mjs';
import { machine, relaxedModule } from './machine.mjs';
import { median } from './stats.mjs';

const MODEL = join(ROOT, 'build/bench/models/minilm-bq8.bq4');
const DOTS = join(ROOT, 'build/bench/dot.wasm');
const OPERATIONS = 2e6 * 64; // of one measurement; 16 products each
const rounds = Number(process.argv[2] ?? 5);
const build = /** @type {import('../../js/shared/types.js').Build} */ (process.argv[3] ?? relaxedModule(machine()));

/** Returns a function that measures the bare instruction, in 1e9 products per second. @returns {Promise<() => number>} */
async function bareDots() {
  const { instance } = await WebAssembly.instantiate(readFileSync(DOTS), {
    env: { memory: new WebAssembly.Memory({ initial: 16, maximum: 65536 }) },
  });
  const dots = /** @type {(times: number) => number} */ (instance.exports['dot_8']);
  return () => {
    const since = performance.now();
    dots(OPERATIONS / 64);
    return (OPERATIONS * 16) / (performance.now() - since) / 1e6;
  };
}

await command(async () => {
  if (!existsSync(MODEL)) throw new Error(`no ${MODEL}: run tools/bench/embed.mjs first, which makes it`);
  await run('make', ['-s', '-f', 'emscripten.mk', 'bench-token']);
  const { sentences } = JSON.parse(readFileSync(join(ROOT, 'tests/golden/embeddings/sentences.json'), 'utf8'));
  const texts = sentences.filter((/** @type {string} */ text) => text.length < 400);
  const bare = await bareDots();
  const engine = await createEngine({ threads: 1, build });
  const model = await engine.load(fromFile(MODEL));
  let tokens = 0;
  for (const text of texts) tokens += (await model.embed([text])).tokens[0];
  /** Milliseconds of each stage by round, and its products. @type {Map<string, { ms: number[], macs: number }>} */
  const stages = new Map();
  const [whole, peaks] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
  bare();
  for (let round = 0; round < rounds; round++) {
    peaks.push(bare());
    await model.trace({ on: true });
    const since = performance.now();
    for (const text of texts) await model.embed([text]);
    whole.push((performance.now() - since) / texts.length);
    for (const { stage, ms, macs } of await model.trace()) {
      const row = stages.get(stage) ?? { ms: [], macs: macs / texts.length };
      row.ms.push(ms / texts.length);
      stages.set(stage, row);
    }
  }
  await engine.close();
  const ms = median(whole);
  console.log(
    `${machine().cpu ?? ''}, ${build}, ${texts.length} texts of ${(tokens / texts.length).toFixed(1)} tokens, ${rounds} rounds, medians`,
  );
  console.log('| stage | ms a text | share | G products/s |\n|---|---|---|---|');
  let [products, macs] = [0, 0];
  for (const [stage, row] of stages) {
    const [took, multiplies] = [median(row.ms), row.macs > 0 && stage !== 'attend'];
    if (multiplies) {
      products += took;
      macs += row.macs;
    }
    const rate = multiplies ? (row.macs / took / 1e6).toFixed(1) : '';
    console.log(`| ${stage} | ${took.toFixed(3)} | ${((100 * took) / ms).toFixed(0)} % | ${rate} |`);
  }
  const least = macs / median(peaks) / 1e6;
  console.log(`| all | ${ms.toFixed(3)} | ${(1e3 / ms).toFixed(0)} texts/s | |`);
  console.log(
    `\nproducts: ${products.toFixed(3)} ms at ${(macs / products / 1e6).toFixed(1)} G/s; bare: ${median(peaks).toFixed(1)} G/s`,
  );
  console.log(
    `at the bare rate: products ${least.toFixed(3)} ms, a text ${(ms - products + least).toFixed(3)} ms (${(1e3 / (ms - products + least)).toFixed(0)} texts/s); products alone, nothing else: ${(1e3 / least).toFixed(0)} texts/s`,
  );
});
