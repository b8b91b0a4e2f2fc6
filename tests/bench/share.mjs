// Measures the gain of threads in Node: the same session computes every step with one thread and with `--threads`, in turn, so that other
// load of the machine affects both.
//
//   npm run build && node tests/bench/share.mjs [model.bq4] [--threads 2] [--kv i8] [--depth 128] [--turns 60] [--prompts 9]
//
// It prints medians per stage in microseconds of the calling thread, with waits at the barrier after a stage, and their ratio; complete
// steps are last. build/native/bench-read measures the memory bandwidth of the machine.
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { fromFile } from '../../js/index.js';
import { readTrace } from '../../js/engine/model/trace.js';
import { median } from '../../tools/bench/stats.mjs';
import { ROOT } from '../../tools/setup/setup.mjs';
import { openLogits } from '../js/logits.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    threads: { type: 'string', default: '2' },
    kv: { type: 'string', default: 'i8' },
    depth: { type: 'string', default: '128' },
    turns: { type: 'string', default: '60' },
    prompts: { type: 'string', default: '9' },
    build: { type: 'string', default: 'relaxed' },
    spins: { type: 'string', default: '100000' },
  },
});
const threads = Number(values.threads);
const depth = Number(values.depth);
const path = positionals[0] ?? join(ROOT, 'build/bench/135m-bq4h.bq4');
const session = await openLogits(fromFile(path), {
  threads,
  kv: /** @type {any} */ (values.kv),
  build: /** @type {any} */ (values.build),
  contextTokens: 2048,
});
const ids = Uint32Array.from({ length: 2048 }, (_, i) => 1 + ((i * 7919) % 300));

/** @typedef {Map<string, number[]>} Times */

/** Runs `work` with n threads and adds the times of its stages. @param {number} n @param {Times} times @param {() => void} work */
function measureStages(n, times, work) {
  session.wasm.check('bqw_threads', n, Number(values.spins), 0);
  readTrace(session.wasm, session.session, session.layers, { on: true });
  const since = performance.now();
  work();
  const total = performance.now() - since;
  const trace = readTrace(session.wasm, session.session, session.layers, { on: false });
  for (const { stage, ms } of [...trace, { stage: 'all', ms: total }]) {
    times.set(stage, [...(times.get(stage) ?? []), ms * 1e3]);
  }
}

/** @param {string} title @param {Times} one @param {Times} several */
function print(title, one, several) {
  for (const [stage, list] of several) {
    const [a, b] = [median(one.get(stage) ?? [0]), median(list)];
    if (a >= 5)
      console.log(
        `${title.padEnd(12)} ${stage.padEnd(10)} ${a.toFixed(0).padStart(8)} us on 1, ${b.toFixed(0).padStart(8)} on ${threads}: ${(a / b).toFixed(2)}`,
      );
  }
}

/** @type {Times[]} */
const decode = [new Map(), new Map()];
/** @type {Times[]} */
const prefill = [new Map(), new Map()];
session.start(ids.subarray(0, depth));
for (let i = -8; i < Number(values.turns); i++)
  for (const [at, n] of [1, threads].entries()) {
    // The same positions in each turn, since the time of a step grows with its position; the first step wakes sleeping threads.
    for (let step = 0; step < 4; step++) {
      session.sync(Uint32Array.from({ length: depth + 1 + step }, (_, j) => (j < depth ? ids[j] : 500 + 2 * i + at)));
      measureStages(n, i < 0 || step === 0 ? new Map() : decode[at], () => session.run());
    }
  }
for (let i = -2; i < Number(values.prompts); i++)
  for (const [at, n] of [1, threads].entries()) {
    const prompt = ids.slice(0, 128).fill(1000 + 2 * i + at, 0, 1);
    session.sync(prompt);
    measureStages(n, i < 0 ? new Map() : prefill[at], () => session.run());
  }
print(`decode ${depth}`, decode[0], decode[1]);
print('prefill 128', prefill[0], prefill[1]);
session.close();
process.exit(0);
