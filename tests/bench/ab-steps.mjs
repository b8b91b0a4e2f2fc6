// Compares decode and prefill of two checkouts, OLD and NEW, which take turns in one process.
//
//   npm run build    in both, then
//   node_modules/.bin/node tests/bench/ab-steps.mjs OLD NEW [--visits 15] [--models 15m,135m] [--tables simd128,relaxed]
//     [--threads 1,2] [--depths 128,1900] [--steps 24] [--prompts 8] [--kv i8] [--activations i8]
//     [--json FILE]
//
// A visit is a new process with both checkouts, one model and one table. The model has random weights (tools/make_random.mjs: BQ4H,
// 8-bit head) and is written once to build/bench/ of this checkout. A turn is a prompt of 128 tokens or three steps of one token; the
// order changes, so that other load of the machine affects both. The table relaxed:relaxed16 compares OLD with relaxed and NEW with
// relaxed16, also of the same checkout. One thread means the build without threads, as in an engine with one thread. V8 compiles all
// code with the optimizing compiler before it runs (--no-liftoff), so that the time of compilation has no influence.
//
// The result of a visit is the median over its turns of OLD's time / NEW's (above 1: NEW is faster). It prints the medians of OLD and
// NEW over all turns, and the median, quartiles, minimum and maximum of that ratio over the visits. Each checkout is called through its
// own tests/js/logits.mjs, with explicit context, KV type and activations.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { median } from '../../tools/bench/stats.mjs';
import { ROOT } from '../../tools/setup/setup.mjs';

const CONTEXT = 2048;
const PROMPT = 128;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    visits: { type: 'string', default: '15' },
    models: { type: 'string', default: '15m,135m' },
    tables: { type: 'string', default: 'simd128,relaxed' },
    threads: { type: 'string', default: '1,2' },
    depths: { type: 'string', default: '128,1900' },
    steps: { type: 'string', default: '24' },
    prompts: { type: 'string', default: '8' },
    kv: { type: 'string', default: 'i8' },
    activations: { type: 'string', default: 'i8' },
    json: { type: 'string' },
    visit: { type: 'string' },
  },
});
const [teams, depths] = [values.threads, values.depths].map((list) => list.split(',').map(Number));
const [steps, prompts] = [Number(values.steps), Number(values.prompts)];

const modelPath = (/** @type {string} */ shape) => join(ROOT, 'build/bench', `steps-${shape}.bq4`);
/** Returns different tokens for each seed. @param {number} n @param {number} seed */
const ids = (n, seed) => Uint32Array.from({ length: n }, (_, i) => 3 + ((i * 7919 + seed * 104729) % 30000));

/** Returns the option `build` with its name in older checkouts, too. @param {string} build */
const buildOptions = (build) => ({ build, variant: build });

/** Milliseconds of OLD and of NEW, turn by turn. @typedef {{ old: number[], newer: number[] }} Turns */

/**
 * Measures both checkouts. Returns times by the name of the measurement.
 * @param {string[]} checkouts @param {string} shape @param {string} table @returns {Promise<Record<string, Turns>>}
 */
async function visit(checkouts, shape, table) {
  const bytes = readFileSync(modelPath(shape));
  const [oldBuild, newBuild = oldBuild] = table.split(':');
  const open = async (/** @type {string} */ checkout, /** @type {string} */ build, /** @type {number} */ threads) => {
    const { openLogits } = await import(pathToFileURL(resolve(checkout, 'tests/js/logits.mjs')).href);
    const { kv, activations } = values;
    const options = {
      threads: threads > 1 ? threads : 0,
      ...buildOptions(build),
      kv,
      activations,
      contextTokens: CONTEXT,
    };
    return openLogits({ kind: 'bytes', bytes }, options);
  };
  /** @type {Record<string, Turns>} */
  const times = {};
  for (const threads of teams) {
    const sessions = [await open(checkouts[0], oldBuild, threads), await open(checkouts[1], newBuild, threads)];
    /** Runs `work` with both sessions. @param {string} name @param {number} turn  below 0: to warm up @param {(session: any) => void} work */
    const measureTurn = (name, turn, work) => {
      const durations = [0, 0];
      for (const index of turn % 2 ? [1, 0] : [0, 1]) {
        const since = performance.now();
        work(sessions[index]);
        durations[index] = performance.now() - since;
      }
      if (turn < 0) return;
      const { old, newer } = (times[name] ??= { old: [], newer: [] });
      old.push(durations[0]);
      newer.push(durations[1]);
    };
    for (let turn = -2; turn < prompts; turn++) {
      for (const session of sessions) session.sync(ids(PROMPT, 2 + turn));
      measureTurn(`prefill ${PROMPT}, ${threads}`, turn, (session) => session.run());
    }
    for (const depth of depths) {
      for (const session of sessions) session.start(ids(depth, 1));
      // Each turn computes the same three positions, since the time of a step grows with its position.
      for (let turn = -2; turn < steps / 3; turn++) {
        for (const session of sessions) session.start([...ids(depth, 1), 7 + turn + 2]);
        measureTurn(`decode at ${depth}, ${threads}`, turn, (session) => {
          for (let step = 0; step < 3; step++) session.next(5 + step);
        });
      }
    }
    for (const session of sessions) session.close();
  }
  return times;
}

/** @param {number[]} list @param {number} part  0 to 1 */
function quantile(list, part) {
  const sorted = [...list].sort((a, b) => a - b);
  const at = part * (sorted.length - 1);
  const [low, high] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]];
  return low + (high - low) * (at - Math.floor(at));
}

async function makeModels() {
  mkdirSync(join(ROOT, 'build/bench'), { recursive: true });
  for (const shape of values.models.split(',')) {
    if (existsSync(modelPath(shape))) continue;
    const args = [
      'tools/make_random.mjs',
      shape,
      modelPath(shape),
      '--quant',
      'bq4h',
      '--embed',
      'bq8',
      '--context',
      String(CONTEXT),
      '--no-tokenizer',
    ];
    execFileSync(process.execPath, args, { cwd: ROOT, stdio: 'inherit' });
  }
}

/** @param {string} modelAndTable  model and table @returns {Record<string, Turns>} */
function runVisit(modelAndTable) {
  const args = ['--no-liftoff', fileURLToPath(import.meta.url), ...positionals, '--visit', modelAndTable];
  for (const name of /** @type {const} */ (['threads', 'depths', 'steps', 'prompts', 'kv', 'activations']))
    args.push(`--${name}`, values[name]);
  return JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' }));
}

if (values.visit) {
  const [shape, table] = values.visit.split('/');
  console.log(JSON.stringify(await visit(positionals, shape, table)));
  process.exit(0); // threads can still be asleep
}
if (positionals.length !== 2) {
  console.error('usage: ab-steps.mjs OLD NEW [options]: see the top of this file');
  process.exit(2);
}
await makeModels();
const startTime = Date.now();
/** Turns of each visit by model, table and name. @type {Map<string, Turns[]>} */
const results = new Map();
const kinds = values.models.split(',').flatMap((shape) => values.tables.split(',').map((table) => `${shape}/${table}`));
for (let visitNumber = 0; visitNumber < Number(values.visits); visitNumber++) {
  for (const kind of kinds)
    for (const [name, turns] of Object.entries(runVisit(kind)))
      results.set(`${kind} ${name}`, [...(results.get(`${kind} ${name}`) ?? []), turns]);
  console.error(`visit ${visitNumber + 1} of ${values.visits}, ${((Date.now() - startTime) / 60000).toFixed(1)} min`);
}
console.log(
  'model/table, work, threads'.padEnd(38),
  'ms old'.padStart(9),
  'ms new'.padStart(9),
  '  old/new: median, quartiles, minimum and maximum',
);
const rows = [...results].map(([name, list]) => {
  const ratios = list.map(({ old, newer }) => median(old.map((ms, turn) => ms / newer[turn])));
  const [minimum, low, middle, high, maximum] = [0, 0.25, 0.5, 0.75, 1].map((part) => quantile(ratios, part));
  const per = name.includes('decode') ? 3 : 1;
  const [oldMs, newMs] = [
    median(list.flatMap(({ old }) => old)) / per,
    median(list.flatMap(({ newer }) => newer)) / per,
  ];
  const spread = `${middle.toFixed(3)}  ${low.toFixed(3)} to ${high.toFixed(3)}  ${minimum.toFixed(3)} to ${maximum.toFixed(3)}`;
  console.log(name.padEnd(38), oldMs.toFixed(3).padStart(9), newMs.toFixed(3).padStart(9), ' ', spread);
  return {
    name,
    visits: list.length,
    oldMs,
    newMs,
    median: middle,
    quartiles: [low, high],
    least: minimum,
    most: maximum,
    list,
  };
});
const slowest = rows.reduce((a, b) => (b.median < a.median ? b : a));
console.log(
  `\nsmallest median: ${slowest.median.toFixed(3)}, ${slowest.name}; ${rows[0].visits} visits in ${((Date.now() - startTime) / 60000).toFixed(1)} min`,
);
if (values.json)
  writeFileSync(values.json, `${JSON.stringify({ node: process.version, options: values, rows }, null, 1)}\n`);
