// Measures the gain of a second thread in checkouts, in turn. Each visit is a new process of Node, in which steps of a token with one
// thread and with two take turns.
//
//   npm run build    in both, then
//   node tests/bench/ab-share.mjs OLD NEW [--pairs 5] [--depth 128] [--turns 120] [--steps 4] [--busy 0] [--model FILE]
//
// It prints medians over the visits: milliseconds of a step with one and two threads, their ratio, and the ratio of the first
// checkout's time to each. A turn has `--steps` steps; the first is not counted. `--busy N`: with N other threads that keep cores busy;
// use longer turns then.
import { execFileSync } from 'node:child_process';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { median } from '../../tools/bench/stats.mjs';
import { ROOT } from '../../tools/setup/setup.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    pairs: { type: 'string', default: '5' },
    depth: { type: 'string', default: '128' },
    turns: { type: 'string', default: '120' },
    steps: { type: 'string', default: '4' },
    busy: { type: 'string', default: '0' },
    model: { type: 'string', default: join(ROOT, 'build/bench/135m-bq4h.bq4') },
    visit: { type: 'boolean', default: false },
  },
});
const [depth, turns, steps] = [Number(values.depth), Number(values.turns), Number(values.steps)];
const SPINS = 100_000;

/** Measures a checkout. @param {string} checkout @returns {Promise<number[]>} milliseconds of a step with one thread, with two */
async function visit(checkout) {
  const load = (/** @type {string} */ path) => import(pathToFileURL(resolve(checkout, path)).href);
  const [{ openLogits }, { fromFile }] = [await load('tests/js/logits.mjs'), await load('js/index.js')];
  const session = await openLogits(fromFile(values.model), { threads: 2, kv: 'i8', contextTokens: 2048 });
  const ids = Array.from({ length: depth }, (_, i) => 1 + ((i * 7919) % 300));
  const busy = Array.from({ length: Number(values.busy) }, () => new Worker('for (;;);', { eval: true }));
  await Promise.all(busy.map((worker) => new Promise((up) => worker.once('online', up))));
  session.start(ids);
  /** @type {number[][]} */
  const times = [[], []];
  for (let turn = -Math.floor(turns / 8); turn < turns; turn++)
    for (const [at, list] of times.entries()) {
      session.wasm.check('bqw_threads', at + 1, SPINS, 1);
      let sum = 0;
      // The first step wakes sleeping threads.
      for (let step = 0; step < steps; step++) {
        session.sync([...ids, ...Array(1 + step).fill(500 + 2 * turn + at)]);
        const start = performance.now();
        while (session.wasm.check('bqw_session_run', session.session, 0) !== 0);
        if (step > 0) sum += performance.now() - start;
      }
      if (turn >= 0) list.push(sum / (steps - 1));
    }
  return times.map(median);
}

if (values.visit) {
  console.log(JSON.stringify(await visit(positionals[0])));
  process.exit(0);
}
/** @type {number[][][]} */
const results = positionals.map(() => []);
for (let pair = 0; pair < Number(values.pairs); pair++)
  for (let i = 0; i < positionals.length; i++) {
    const at = (i + pair) % positionals.length;
    const args = [fileURLToPath(import.meta.url), positionals[at], '--visit'];
    for (const name of /** @type {const} */ (['depth', 'turns', 'steps', 'busy', 'model']))
      args.push(`--${name}`, values[name]);
    results[at].push(JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })));
  }
for (const [at, list] of results.entries()) {
  const formatMedian = (/** @type {(t: number[], i: number) => number} */ select) =>
    median(list.map(select)).toFixed(3);
  console.log(
    `${positionals[at]}: ${formatMedian(([one]) => one)} ms on one thread, ${formatMedian(([, two]) => two)} on two, ${formatMedian(([one, two]) => one / two)}; of the first one's ` +
      `${formatMedian(([one], i) => one / results[0][i][0])}, ${formatMedian(([, two], i) => two / results[0][i][1])}`,
  );
}
