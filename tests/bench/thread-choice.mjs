// Checks the build and the number of threads that an engine chooses, in new visits of a page in Chromium, each with a new thread tuner.
//
//   node tests/bench/thread-choice.mjs [--visits 20] [--rounds 5] [--tokens 16] [--shape 135m] [--threads 2] [--tables relaxed,relaxed16,simd128] [--json FILE]
//
// A visit is a new page. Its engine ("auto") computes a prompt of 128 tokens and generates `--tokens`; its choices for prompts and for
// tokens are recorded. Then engines with fixed settings, each of `--tables` with 1 to `--threads`, and the first one take turns in the same
// page, `--rounds` times a new prompt of 128 tokens and 32 tokens after it. So other load of the machine affects all of them.
//
// It prints for each visit and kind: the choice, and the speed of the best fixed setting relative to the chosen one (1: they are the same)
// and relative to the "auto" engine with its trials, medians over the rounds; then the number of visits within 5 %. Without --tables, only
// the chosen build takes part. The model has random weights (tools/make_random.mjs: BQ4H, 8-bit head), written once to build/bench/.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { median } from '../../tools/bench/stats.mjs';
import { PUBLIC, serve } from '../../tools/serve.mjs';
import { ROOT } from '../../tools/setup/setup.mjs';
import { launch } from '../browser/launch.mjs';

const PROMPT = 128;
const TOKENS = 32;
const KINDS = /** @type {const} */ (['prefill', 'decode']);

const { values } = parseArgs({
  options: {
    visits: { type: 'string', default: '20' },
    rounds: { type: 'string', default: '5' },
    tokens: { type: 'string', default: '16' },
    shape: { type: 'string', default: '135m' },
    threads: { type: 'string', default: '2' },
    tables: { type: 'string', default: '' },
    json: { type: 'string' },
  },
});
const name = `choice-${values.shape}.bq4`;

/** Runs in the page. @param {any} o */
async function visit({ model: url, prompt, tokens, first, rounds, most, tables }) {
  const path = '/js/index.js';
  const { createWorkerEngine, fromUrl } = await import(path);
  let count = 0;
  const open = async (/** @type {number | 'auto'} */ threads, /** @type {string | undefined} */ build) => {
    const engine = await createWorkerEngine({ threads, build });
    const model = await engine.load(fromUrl(url), { contextTokens: 512 });
    const session = await model.createSession();
    /** Returns milliseconds per token of a new prompt and of the generated tokens. @param {number} maxTokens */
    const run = async (maxTokens) => {
      const begin = 300 + ++count;
      const ids = Array.from({ length: prompt }, (_, i) => (i ? 500 + ((i * 37) % 5000) : begin));
      const { timings, usage } = await session.generate(ids, {
        temperature: 0,
        maxTokens,
        stopTokens: [],
        speculate: false,
      }).result;
      return { prefill: timings.prefillMs / prompt, decode: timings.decodeMs / (usage.completionTokens - 1) };
    };
    return { engine, run };
  };
  const auto = await open('auto', undefined);
  await auto.run(first);
  const { learned, timings, threadsReason, build } = auto.engine.info;
  const all = [auto];
  const fixed = (tables.length ? tables : [build]).flatMap((/** @type {string} */ table) =>
    Array.from({ length: most }, (_, i) => ({ table, threads: i + 1 })),
  );
  for (const { table, threads } of fixed) all.push(await open(threads, table));
  const times = all.map(() => /** @type {{ prefill: number, decode: number }[]} */ ([]));
  for (const { run } of all.slice(1)) await run(tokens); // warms up: optimized code is compiled
  for (let round = 0; round < rounds; round++)
    for (let i = 0; i < all.length; i++) {
      const at = (i + round) % all.length;
      times[at].push(await all[at].run(tokens));
    }
  for (const { engine } of all) await engine.close();
  return { learned, timings, threadsReason, build, fixed, times };
}

const file = join(ROOT, 'build/bench', name);
if (!existsSync(file)) {
  mkdirSync(join(ROOT, 'build/bench'), { recursive: true });
  const modelOptions = ['--quant', 'bq4h', '--embed', 'bq8', '--context', '2048', '--no-tokenizer'];
  execFileSync(process.execPath, ['tools/make_random.mjs', values.shape, file, ...modelOptions], {
    cwd: ROOT,
    stdio: 'inherit',
  });
}
const site = await serve({ root: ROOT, folders: [...PUBLIC, 'build/bench'] });
const browser = await launch({ full: true });
const visits = [];
/** @type {Record<string, { chosen: number[], auto: number[] }>} */
const ratios = Object.fromEntries(KINDS.map((kind) => [kind, { chosen: [], auto: [] }]));
for (let visitNumber = 1; visitNumber <= Number(values.visits); visitNumber++) {
  const page = await browser.newPage();
  await page.goto(`${site.url}models/README.md`);
  const [tokens, first, rounds, most] = [TOKENS, ...[values.tokens, values.rounds, values.threads].map(Number)];
  const result = await page.evaluate(visit, {
    model: `/build/bench/${name}`,
    prompt: PROMPT,
    tokens,
    first,
    rounds,
    most,
    tables: values.tables.split(',').filter(Boolean),
  });
  await page.close();
  const lines = KINDS.map((kind) => {
    const [auto, ...fixed] = result.times.map((list) => median(list.map((one) => one[kind])));
    const best = Math.min(...fixed);
    // Before the tuner has chosen, the engine uses the number of threads that it measured at the start.
    const chosen = result.learned[kind]?.threads ?? Number(/^(\d+) of/.exec(result.threadsReason)?.[1]);
    const chosenMs =
      fixed[result.fixed.findIndex(({ table, threads }) => table === result.build && threads === chosen)];
    ratios[kind].chosen.push(chosenMs / best);
    ratios[kind].auto.push(auto / best);
    const rates = fixed.map((ms) => (1000 / ms).toFixed(0)).join(', ');
    return `${kind}: ${result.build} ${chosen} of ${rates} tokens/s, ${(chosenMs / best).toFixed(3)}, auto ${(auto / best).toFixed(3)}`;
  });
  visits.push(result);
  console.log(`visit ${visitNumber}: ${lines.join('; ')}`);
}
await browser.close();
await site.close();
for (const kind of KINDS)
  for (const [setting, list] of Object.entries(ratios[kind]))
    console.log(
      `${kind}, ${setting === 'auto' ? 'the engine with a tuner' : 'the chosen setting'}: ${list.filter((ratio) => ratio <= 1.05).length} of ${list.length} visits within 5 % of the best fixed setting, median ${median(list).toFixed(3)}, maximum ${Math.max(...list).toFixed(3)}`,
    );
if (values.json) writeFileSync(values.json, `${JSON.stringify({ options: values, ratios, visits }, null, 1)}\n`);
