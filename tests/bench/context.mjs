// What context costs: prefill of 512 tokens and decode at depths 128 and 2,032, per type of KV cache, in Node. Two sessions
// of one model take a few steps in turn, one at either depth, so that what the machine does meanwhile meets both.
//
//   npm run build && node tests/bench/context.mjs [model.bq4] [--kv f32,f16,i8] [--build relaxed] [--threads 1]
//
// One line of JSON per type: medians, in milliseconds, and the median of the turns' ratios. Without a model one of the 135m shape with random
// weights is made (tools/make_random.mjs).
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
// The first turns are not counted, nor a turn's first step, which finds the other's data in the caches.
const DEPTHS = [128, 2016],
  WARM = 2,
  TURNS = 15,
  STEPS = 5;

async function model() {
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

const path = positionals[0] ?? (await model());
const ids = Uint32Array.from({ length: 2048 }, (_, i) => (i * 7919) % 300);
const threads = Number(values.threads);
for (const kv of /** @type {('f32' | 'f16' | 'i8')[]} */ (values.kv.split(','))) {
  const build = /** @type {'relaxed' | 'simd128'} */ (values.build);
  const far = await openLogits(fromFile(path), {
    kv,
    build,
    threads: threads > 1 ? threads : 0,
    contextTokens: 2048,
    sessions: 2,
  });
  const near = far.another();
  far.start(ids.subarray(0, 16)); // compiled, pages touched
  const prefill = time(() => far.start(ids.subarray(0, 512)));
  const rest = time(() => far.start(ids.subarray(0, DEPTHS[1])));
  near.start(ids.subarray(0, DEPTHS[0]));
  /** @type {number[][]} */
  const turns = [];
  for (let turn = -WARM; turn < TURNS; turn++) {
    // The same positions each turn, with other tokens: what a step costs depends on where it stands.
    const pair = [near, far].map((session, at) => {
      session.start(ids.map((id, i) => (i === DEPTHS[at] ? 400 + turn : id)).subarray(0, DEPTHS[at] + 1));
      return median(Array.from({ length: STEPS }, (_, i) => time(() => session.next(ids[i]))));
    });
    if (turn >= 0) turns.push(pair);
  }
  if (values.verbose) console.error(turns.map((pair) => pair.map((ms) => ms.toFixed(2)).join(' ')).join('\n'));
  const of = (/** @type {(pair: number[]) => number} */ what) => +median(turns.map(what)).toFixed(3);
  console.log(
    JSON.stringify({
      kv,
      build,
      threads,
      prefill_512: +prefill.toFixed(1),
      prefill_512_to_2016: +rest.toFixed(1),
      decode_128: of(([a]) => a),
      decode_2016: of(([, b]) => b),
      ratio: of(([a, b]) => b / a),
    }),
  );
  far.close();
}
process.exit(0);
