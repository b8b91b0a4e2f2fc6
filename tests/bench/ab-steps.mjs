// Is NEW as fast as OLD? Decode and prefill of two checkouts in turn, each time in a fresh process of Node.
//
//   npm run build    in both, then
//   node_modules/.bin/node tests/bench/ab-steps.mjs OLD NEW [--pairs 15] [--models 15m,135m] [--tables simd128,relaxed]
//     [--threads 1,2] [--depths 128,1900] [--steps 24] [--prompts 4] [--kv i8] [--json FILE]
//
// A visit is one checkout, model and table: random weights (tools/make_random.mjs: BQ4H, 8-bit head), which this file's own
// checkout makes once, in build/bench/. In a visit the numbers of threads take turns: prompts of 128 tokens, then at each
// depth steps of one token, the first of which isn't counted. What counts of a visit is the median of its times.
// One thread is the build without threads, as an engine with one thread takes it.
//
// Printed for each: OLD's and NEW's median over the visits, and over the pairs NEW's speed / OLD's (above 1: NEW is faster):
// median, quartiles, least and most. Both are called through their own tests/js/logits.mjs, with context and KV type named.
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
    pairs: { type: 'string', default: '15' },
    models: { type: 'string', default: '15m,135m' },
    tables: { type: 'string', default: 'simd128,relaxed' },
    threads: { type: 'string', default: '1,2' },
    depths: { type: 'string', default: '128,1900' },
    steps: { type: 'string', default: '24' },
    prompts: { type: 'string', default: '4' },
    kv: { type: 'string', default: 'i8' },
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

/**
 * Milliseconds by name: of one step, of one prompt.
 * @param {string} checkout @param {string} shape @param {string} table @returns {Promise<Record<string, number>>}
 */
async function visit(checkout, shape, table) {
  const { openLogits } = await import(pathToFileURL(resolve(checkout, 'tests/js/logits.mjs')).href);
  const bytes = readFileSync(fileOf(shape));
  const sessions = [];
  for (const threads of teams) {
    const options = { threads: threads > 1 ? threads : 0, ...buildOf(table), kv: values.kv, context: CONTEXT };
    sessions.push({ threads, session: await openLogits({ kind: 'bytes', bytes }, options) });
  }
  /** @type {Record<string, number[]>} */
  const times = {};
  const timed = (/** @type {string} */ name, /** @type {boolean} */ counts, /** @type {() => void} */ work) => {
    const since = performance.now();
    work();
    if (counts) (times[name] ??= []).push(performance.now() - since);
  };
  for (let round = -1; round < prompts; round++)
    for (const { threads, session } of sessions) {
      session.sync(ids(PROMPT, 2 + round));
      timed(`prefill ${PROMPT}, ${threads}`, round >= 0, () => session.run());
    }
  for (const depth of depths) {
    for (const { session } of sessions) session.start(ids(depth, 1));
    // Four steps a turn, then the same positions again: what a step costs grows with its depth.
    for (let turn = -2; turn < steps / 3; turn++)
      for (const { threads, session } of sessions) {
        session.start([...ids(depth, 1), 7 + turn + 2]);
        for (let step = 0; step < 3; step++)
          timed(`decode at ${depth}, ${threads}`, turn >= 0, () => session.next(5 + step));
      }
  }
  return Object.fromEntries(Object.entries(times).map(([name, list]) => [name, median(list)]));
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

/** @param {string} checkout @param {string} what  model and table @returns {Record<string, number>} */
function visitApart(checkout, what) {
  const args = [fileURLToPath(import.meta.url), checkout, '--visit', what];
  for (const name of /** @type {const} */ (['threads', 'depths', 'steps', 'prompts', 'kv']))
    args.push(`--${name}`, values[name]);
  return JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' }));
}

if (values.visit) {
  const [shape, table] = values.visit.split('/');
  console.log(JSON.stringify(await visit(positionals[0], shape, table)));
  process.exit(0); // threads may still sleep
}
if (positionals.length !== 2) {
  console.error('usage: ab-steps.mjs OLD NEW [options]: see the top of this file');
  process.exit(2);
}
await makeModels();
const began = Date.now();
/** By model, table and name: milliseconds of OLD and NEW in each pair. @type {Map<string, { old: number, new: number }[]>} */
const results = new Map();
const kinds = values.models.split(',').flatMap((shape) => values.tables.split(',').map((table) => `${shape}/${table}`));
for (let pair = 0; pair < Number(values.pairs); pair++) {
  for (const kind of kinds) {
    const order = pair % 2 ? [1, 0] : [0, 1];
    /** @type {Record<string, number>[]} */
    const seen = [];
    for (const at of order) seen[at] = visitApart(positionals[at], kind);
    for (const name of Object.keys(seen[0])) {
      const all = results.get(`${kind} ${name}`) ?? [];
      results.set(`${kind} ${name}`, [...all, { old: seen[0][name], new: seen[1][name] }]);
    }
  }
  console.error(`pair ${pair + 1} of ${values.pairs}, ${((Date.now() - began) / 60000).toFixed(1)} min`);
}
console.log(
  'model/table, what, threads'.padEnd(38),
  'ms old'.padStart(9),
  'ms new'.padStart(9),
  '  new/old: median, quartiles, least and most',
);
const rows = [...results].map(([name, list]) => {
  const ratios = list.map((pair) => pair.old / pair.new);
  const [least, low, middle, high, most] = [0, 0.25, 0.5, 0.75, 1].map((part) => quantile(ratios, part));
  const [old, fresh] = [median(list.map((pair) => pair.old)), median(list.map((pair) => pair.new))];
  const spread = `${middle.toFixed(3)}  ${low.toFixed(3)} to ${high.toFixed(3)}  ${least.toFixed(3)} to ${most.toFixed(3)}`;
  console.log(name.padEnd(38), old.toFixed(3).padStart(9), fresh.toFixed(3).padStart(9), ' ', spread);
  return {
    name,
    pairs: list.length,
    oldMs: old,
    newMs: fresh,
    median: middle,
    quartiles: [low, high],
    least,
    most,
    list,
  };
});
const worst = rows.reduce((a, b) => (b.median < a.median ? b : a));
console.log(
  `\nworst median: ${worst.median.toFixed(3)}, ${worst.name}; ${rows[0].pairs} pairs in ${((Date.now() - began) / 60000).toFixed(1)} min`,
);
if (values.json)
  writeFileSync(values.json, `${JSON.stringify({ node: process.version, options: values, rows }, null, 1)}\n`);
