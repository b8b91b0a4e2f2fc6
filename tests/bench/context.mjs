// Measures the cost of context: prefill of 512 tokens and decode at depths 128 and 2,016, by type of KV cache, in Node. Two sessions of
// one model, one at each depth, take a few steps in turn, so that other load of the machine affects both.
//
//   npm run build && node tests/bench/context.mjs [model.bq4] [--kv f32,f16,i8] [--build relaxed] [--threads 1]
//
// It prints one line of JSON per type: medians in milliseconds, and the median of the ratios. Without an argument, it writes a model of
// the 135m shape with random weights (tools/make_random.mjs).
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { fileSink } from '../../js/format/output.js';
import { fromFile } from '../../js/index.js';
import { median } from '../../tools/bench/stats.mjs';
import { makeRandom, SHAPES } from '../../tools/make_random.mjs';
import { ROOT } from '../../tools/setup/setup.mjs';
import { openLogits } from '../js/logits.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    kv: { type: 'string', default: 'f32,f16,i8' },
    build: { type: 'string', default: 'relaxed' },
    threads: { type: 'string', default: '1' },
    verbose: { type: 'boolean' },
  },
});
// The first turns are not counted.
const DEPTHS = [128, 2016],
  WARM_UP_TURNS = 2,
  TURNS = 15,
  STEPS = 5;

async function provideModel() {
  const path = join(ROOT, 'build/bench/135m-bq4h.bq4');
  if (!existsSync(path)) {
    mkdirSync(join(ROOT, 'build/bench'), { recursive: true });
    await makeRandom(SHAPES['135m'], await fileSink(path), { quant: 'bq4h', embed: 'bq8', tokenizer: false });
  }
  return path;
}

/** @param {() => void} run */
function time(run) {
  const start = performance.now();
  run();
  return performance.now() - start;
}

const path = positionals[0] ?? (await provideModel());
const ids = Uint32Array.from({ length: 2048 }, (_, i) => (i * 7919) % 300);
const threads = Number(values.threads);
for (const kv of /** @type {('f32' | 'f16' | 'i8')[]} */ (values.kv.split(','))) {
  const build = /** @type {'relaxed' | 'simd128'} */ (values.build);
  const deep = await openLogits(fromFile(path), {
    kv,
    build,
    threads: threads > 1 ? threads : 0,
    contextTokens: 2048,
    sessions: 2,
  });
  const shallow = deep.another();
  deep.start(ids.subarray(0, 16)); // warms up: code is compiled, memory is paged in
  const prefill = time(() => deep.start(ids.subarray(0, 512)));
  const longPrefill = time(() => deep.start(ids.subarray(0, DEPTHS[1])));
  shallow.start(ids.subarray(0, DEPTHS[0]));
  /** @type {number[][]} */
  const turns = [];
  for (let turn = -WARM_UP_TURNS; turn < TURNS; turn++) {
    // The same positions in each turn, since the time of a step depends on its position, with other tokens.
    const pair = [shallow, deep].map((session, at) => {
      session.start(ids.map((id, i) => (i === DEPTHS[at] ? 400 + turn : id)).subarray(0, DEPTHS[at] + 1));
      return median(Array.from({ length: STEPS }, (_, i) => time(() => session.next(ids[i]))));
    });
    if (turn >= 0) turns.push(pair);
  }
  if (values.verbose) console.error(turns.map((pair) => pair.map((ms) => ms.toFixed(2)).join(' ')).join('\n'));
  const formatMedian = (/** @type {(pair: number[]) => number} */ select) => +median(turns.map(select)).toFixed(3);
  console.log(
    JSON.stringify({
      kv,
      build,
      threads,
      prefill_512: +prefill.toFixed(1),
      prefill_512_to_2016: +longPrefill.toFixed(1),
      decode_128: formatMedian(([a]) => a),
      decode_2016: formatMedian(([, b]) => b),
      ratio: formatMedian(([a, b]) => b / a),
    }),
  );
  deep.close();
}
process.exit(0);
