// Is NEW as fast as OLD? Decode and prefill of two checkouts, which take turns in one process.
//
//   npm run build    in both, then
//   node_modules/.bin/node tests/bench/ab-steps.mjs OLD NEW [--visits 15] [--models 15m,135m] [--tables simd128,relaxed]
//     [--threads 1,2] [--depths 128,1900] [--steps 24] [--prompts 8] [--kv i8] [--activations i8]
//     [--json FILE]
//
// A visit is a fresh process with both checkouts, one model and table: random weights (tools/make_random.mjs: BQ4H, 8-bit
// head), which this file's own checkout makes once, in build/bench/. OLD and NEW take turns prompt by prompt (128 tokens)
// and three steps of one token by three steps; who begins changes. So what else happens on the machine, which changes from
// second to second, falls on both. A table relaxed:relaxed16 is OLD's relaxed beside NEW's relaxed16, of one checkout too. One thread is the build without threads, as an engine with one thread takes it. V8 compiles
// everything optimized before it runs (--no-liftoff): what is compared is not who was compiled sooner, on the second core.
//
// What counts of a visit is the median over its turns of OLD's time / NEW's (above 1: NEW is faster). Printed for each: OLD's
// and NEW's median over all turns, and over the visits that ratio's median, quartiles, least and most. Both are called through
// their own tests/js/logits.mjs, with context, KV type and activations named.
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

const fileOf = (/** @type {string} */ shape) => join(ROOT, 'build/bench', `steps-${shape}.bq4`);
/** Ids that no two calls share. @param {number} n @param {number} seed */
const ids = (n, seed) => Uint32Array.from({ length: n }, (_, i) => 3 + ((i * 7919 + seed * 104729) % 30000));

/** The option by both its names, for checkouts from before it was called `build`. @param {string} build */
const buildOf = (build) => ({ build, variant: build });

/** Milliseconds of OLD and of NEW, turn by turn. @typedef {{ old: number[], fresh: number[] }} Turns */

/**
 * By name: of one step, of one prompt.
 * @param {string[]} checkouts @param {string} shape @param {string} table @returns {Promise<Record<string, Turns>>}
 */
async function visit(checkouts, shape, table) {
  const bytes = readFileSync(fileOf(shape));
  const [was, is = was] = table.split(':');
  const open = async (/** @type {string} */ checkout, /** @type {string} */ build, /** @type {number} */ threads) => {
    const { openLogits } = await import(pathToFileURL(resolve(checkout, 'tests/js/logits.mjs')).href);
    const { kv, activations } = values;
    const options = { threads: threads > 1 ? threads : 0, ...buildOf(build), kv, activations, contextTokens: CONTEXT };
    return openLogits({ kind: 'bytes', bytes }, options);
  };
  /** @type {Record<string, Turns>} */
  const times = {};
  for (const threads of teams) {
    const sessions = [await open(checkouts[0], was, threads), await open(checkouts[1], is, threads)];
    /** Both do `work`. @param {string} name @param {number} turn  below 0: to warm up @param {(session: any) => void} work */
    const inTurn = (name, turn, work) => {
      const took = [0, 0];
      for (const which of turn % 2 ? [1, 0] : [0, 1]) {
        const since = performance.now();
        work(sessions[which]);
        took[which] = performance.now() - since;
      }
      if (turn < 0) return;
      const { old, fresh } = (times[name] ??= { old: [], fresh: [] });
      old.push(took[0]);
      fresh.push(took[1]);
    };
    for (let turn = -2; turn < prompts; turn++) {
      for (const session of sessions) session.sync(ids(PROMPT, 2 + turn));
      inTurn(`prefill ${PROMPT}, ${threads}`, turn, (session) => session.run());
    }
    for (const depth of depths) {
      for (const session of sessions) session.start(ids(depth, 1));
      // Three steps a turn, then the same positions again: what a step costs grows with its depth.
      for (let turn = -2; turn < steps / 3; turn++) {
        for (const session of sessions) session.start([...ids(depth, 1), 7 + turn + 2]);
        inTurn(`decode at ${depth}, ${threads}`, turn, (session) => {
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
    if (existsSync(fileOf(shape))) continue;
    const args = [
      'tools/make_random.mjs',
      shape,
      fileOf(shape),
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

/** @param {string} what  model and table @returns {Record<string, Turns>} */
function visitApart(what) {
  const args = ['--no-liftoff', fileURLToPath(import.meta.url), ...positionals, '--visit', what];
  for (const name of /** @type {const} */ (['threads', 'depths', 'steps', 'prompts', 'kv', 'activations']))
    args.push(`--${name}`, values[name]);
  return JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' }));
}

if (values.visit) {
  const [shape, table] = values.visit.split('/');
  console.log(JSON.stringify(await visit(positionals, shape, table)));
  process.exit(0); // threads may still sleep
}
if (positionals.length !== 2) {
  console.error('usage: ab-steps.mjs OLD NEW [options]: see the top of this file');
  process.exit(2);
}
await makeModels();
const began = Date.now();
/** By model, table and name: each visit's turns. @type {Map<string, Turns[]>} */
const results = new Map();
const kinds = values.models.split(',').flatMap((shape) => values.tables.split(',').map((table) => `${shape}/${table}`));
for (let nth = 0; nth < Number(values.visits); nth++) {
  for (const kind of kinds)
    for (const [name, turns] of Object.entries(visitApart(kind)))
      results.set(`${kind} ${name}`, [...(results.get(`${kind} ${name}`) ?? []), turns]);
  console.error(`visit ${nth + 1} of ${values.visits}, ${((Date.now() - began) / 60000).toFixed(1)} min`);
}
console.log(
  'model/table, what, threads'.padEnd(38),
  'ms old'.padStart(9),
  'ms new'.padStart(9),
  '  new/old: median, quartiles, least and most',
);
const rows = [...results].map(([name, list]) => {
  const ratios = list.map(({ old, fresh }) => median(old.map((ms, turn) => ms / fresh[turn])));
  const [least, low, middle, high, most] = [0, 0.25, 0.5, 0.75, 1].map((part) => quantile(ratios, part));
  const per = name.includes('decode') ? 3 : 1;
  const [oldMs, newMs] = [
    median(list.flatMap(({ old }) => old)) / per,
    median(list.flatMap(({ fresh }) => fresh)) / per,
  ];
  const spread = `${middle.toFixed(3)}  ${low.toFixed(3)} to ${high.toFixed(3)}  ${least.toFixed(3)} to ${most.toFixed(3)}`;
  console.log(name.padEnd(38), oldMs.toFixed(3).padStart(9), newMs.toFixed(3).padStart(9), ' ', spread);
  return { name, visits: list.length, oldMs, newMs, median: middle, quartiles: [low, high], least, most, list };
});
const worst = rows.reduce((a, b) => (b.median < a.median ? b : a));
console.log(
  `\nworst median: ${worst.median.toFixed(3)}, ${worst.name}; ${rows[0].visits} visits in ${((Date.now() - began) / 60000).toFixed(1)} min`,
);
if (values.json)
  writeFileSync(values.json, `${JSON.stringify({ node: process.version, options: values, rows }, null, 1)}\n`);
