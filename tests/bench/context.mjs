// What context costs: prefill of 512 tokens and decode at depths 128 and 2,032, per type of KV cache, in Node.
//
//   npm run build && node tests/bench/context.mjs [model.bq4] [--kv f32,f16,i8] [--variant relaxed]
//
// One line of JSON per type: medians, in milliseconds, and ratios. Without a model one of the 135m shape with random
// weights is made (tools/make_random.mjs).
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { fileSink } from '../../js/convert/output.js';
import { fromFile } from '../../js/index.js';
import { makeRandom, SHAPES } from '../../tools/make_random.mjs';
import { ROOT } from '../../tools/setup/setup.mjs';
import { openLogits } from '../js/logits.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { kv: { type: 'string', default: 'f32,f16,i8' }, variant: { type: 'string', default: 'relaxed' }, verbose: { type: 'boolean' } },
});
// The first steps after a prefill vary most: not counted.
const DEPTHS = [128, 2032], WARM = 8, STEPS = 15;

async function model() {
  const path = join(ROOT, 'build/bench/135m-bq4h.bq4');
  if (!existsSync(path)) {
    mkdirSync(join(ROOT, 'build/bench'), { recursive: true });
    await makeRandom(SHAPES['135m'], await fileSink(path), { quant: 'bq4h', embed: 'bq8', tokenizer: false });
  }
  return path;
}

/** @param {number[]} list */
const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];
/** @param {() => void} run */
function time(run) {
  const start = performance.now();
  run();
  return performance.now() - start;
}

const path = positionals[0] ?? (await model());
const ids = Uint32Array.from({ length: 2048 }, (_, i) => (i * 7919) % 300);
for (const kv of /** @type {('f32' | 'f16' | 'i8')[]} */ (values.kv.split(','))) {
  const session = await openLogits(fromFile(path), { kv, variant: /** @type {'relaxed' | 'simd128'} */ (values.variant), context: 2048 });
  session.start(ids.subarray(0, 16)); // compiled, pages touched
  const prefill = time(() => session.start(ids.subarray(0, 512)));
  const rest = time(() => session.start(ids.subarray(0, DEPTHS[1])));
  /** @type {number[][]} */
  const steps = DEPTHS.map(() => []);
  // The far end first: syncing to the near one forgets what lies behind it.
  for (const d of [1, 0]) {
    session.start(ids.subarray(0, DEPTHS[d] - WARM));
    for (let i = DEPTHS[d] - WARM; i < DEPTHS[d]; i++) session.next(ids[i]);
    for (let i = 0; i < STEPS; i++) steps[d].push(time(() => session.next(ids[DEPTHS[d] + i])));
  }
  if (values.verbose) console.error(steps.map((list) => list.map((ms) => ms.toFixed(1)).join(' ')).join('\n'));
  const [near, far] = steps.map(median);
  console.log(JSON.stringify({ kv, variant: values.variant, prefill_512: +prefill.toFixed(1), prefill_512_to_2032: +rest.toFixed(1),
    decode_128: +near.toFixed(2), decode_2032: +far.toFixed(2), ratio: +(far / near).toFixed(3) }));
}
