// What a second thread brings: every step is run with one thread and with `--threads`, in turn, by the same session of the
// same instance, so that what the machine does meanwhile meets both. In Node.
//
//   npm run build && node tests/bench/share.mjs [model.bq4] [--threads 2] [--kv i8] [--depth 128] [--turns 60] [--prompts 9]
//
// Medians per stage in microseconds as the calling thread sees them, waits at the barrier behind a stage included; their
// ratio; whole steps last. What the machine gives: build/native/bench-read.
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

/** Runs `work` with so many threads and adds its stages' times. @param {number} n @param {Times} times @param {() => void} work */
function stages(n, times, work) {
  session.wasm.check('bqw_threads', n, Number(values.spins), 0);
  readTrace(session.wasm, session.session, session.layers, { on: true });
  const since = performance.now();
  work();
  const whole = performance.now() - since;
  const seen = readTrace(session.wasm, session.session, session.layers, { on: false });
  for (const { stage, ms } of [...seen, { stage: 'all', ms: whole }]) {
    times.set(stage, [...(times.get(stage) ?? []), ms * 1e3]);
  }
}

/** @param {string} what @param {Times} one @param {Times} many */
function print(what, one, many) {
  for (const [stage, list] of many) {
    const [a, b] = [median(one.get(stage) ?? [0]), median(list)];
    if (a >= 5)
      console.log(
        `${what.padEnd(12)} ${stage.padEnd(10)} ${a.toFixed(0).padStart(8)} us on 1, ${b.toFixed(0).padStart(8)} on ${threads}: ${(a / b).toFixed(2)}`,
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
    // The same positions again, a step's work grows with its depth; the first of them wakes who is asleep.
    for (let step = 0; step < 4; step++) {
      session.sync(Uint32Array.from({ length: depth + 1 + step }, (_, j) => (j < depth ? ids[j] : 500 + 2 * i + at)));
      stages(n, i < 0 || step === 0 ? new Map() : decode[at], () => session.run());
    }
  }
for (let i = -2; i < Number(values.prompts); i++)
  for (const [at, n] of [1, threads].entries()) {
    const prompt = ids.slice(0, 128).fill(1000 + 2 * i + at, 0, 1);
    session.sync(prompt);
    stages(n, i < 0 ? new Map() : prefill[at], () => session.run());
  }
print(`decode ${depth}`, decode[0], decode[1]);
print('prefill 128', prefill[0], prefill[1]);
session.close();
process.exit(0);
