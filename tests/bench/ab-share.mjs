// What a second thread brings, in two checkouts in turn: a fresh process of Node each, in which steps of a token with one
// thread and with two take turns.
//
//   npm run build    in both, then
//   node tests/bench/ab-share.mjs OLD NEW [--pairs 5] [--depth 128] [--turns 120] [--steps 4] [--busy 0] [--model FILE]
//
// Prints medians over the visits: milliseconds a step on one and on two threads, their ratio, and each checkout's steps
// beside those of the first. A turn is so many steps, of which the first isn't counted. `--busy N`: beside so many threads that
// do nothing but keep cores busy; take longer turns then.
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

/** @param {string} checkout @returns {Promise<number[]>} milliseconds a step on one thread, on two */
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
      // The first of them wakes who is asleep.
      for (let step = 0; step < steps; step++) {
        session.sync([...ids, ...Array(1 + step).fill(500 + 2 * turn + at)]);
        const since = performance.now();
        while (session.wasm.check('bqw_session_run', session.session, 0) !== 0);
        if (step > 0) sum += performance.now() - since;
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
const seen = positionals.map(() => []);
for (let pair = 0; pair < Number(values.pairs); pair++)
  for (let i = 0; i < positionals.length; i++) {
    const at = (i + pair) % positionals.length;
    const args = [fileURLToPath(import.meta.url), positionals[at], '--visit'];
    for (const name of /** @type {const} */ (['depth', 'turns', 'steps', 'busy', 'model']))
      args.push(`--${name}`, values[name]);
    seen[at].push(JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })));
  }
for (const [at, list] of seen.entries()) {
  const of = (/** @type {(t: number[], i: number) => number} */ figure) => median(list.map(figure)).toFixed(3);
  console.log(
    `${positionals[at]}: ${of(([one]) => one)} ms on one thread, ${of(([, two]) => two)} on two, ${of(([one, two]) => one / two)}; of the first one's ` +
      `${of(([one], i) => one / seen[0][i][0])}, ${of(([, two], i) => two / seen[0][i][1])}`,
  );
}
