// Compares checkouts, each in its own browser: tokens per second of prefill and decode by number of threads.
//
//   node tests/bench/ab-pages.mjs OLD NEW … [--browser firefox] [--activations i8|i16] [--threads 1,2] [--rounds 5] [--model 135m-bq4h.bq4]
//
// Each argument is a built checkout with the model (tools/make_random.mjs) in build/bench/. They take turns, so that other load of the
// machine affects all of them. It prints medians, then all rounds.
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { median } from '../../tools/bench/stats.mjs';
import { PUBLIC, serve } from '../../tools/serve.mjs';
import { start } from '../browser/browsers.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    activations: { type: 'string', default: 'i8' },
    browser: { type: 'string', default: 'chromium' },
    threads: { type: 'string', default: '1,2' },
    rounds: { type: 'string', default: '5' },
    model: { type: 'string', default: '135m-bq4h.bq4' },
  },
});
const OPTIONS = {
  prompt: 128,
  tokens: 64,
  context: 2048,
  kv: 'i8',
  model: values.model,
  activations: values.activations,
};

/** Runs in the page: one generation with a new prompt. @param {any} o */
const measure = async (o) => {
  const page = /** @type {any} */ (globalThis);
  page.sessions ??= new Map();
  if (!page.sessions.has(o.threads)) {
    const path = '/js/index.js';
    const { createWorkerEngine, fromUrl } = await import(path);
    const engine = await createWorkerEngine({ threads: o.threads });
    page.built = engine.info.build;
    const model = await engine.load(fromUrl(`/build/bench/${o.model}`), {
      contextTokens: o.context,
      kv: o.kv,
      activations: o.activations,
    });
    page.sessions.set(o.threads, await model.createSession());
  }
  const ids = Array.from({ length: o.prompt }, (_, i) => (i ? 500 + ((i * 37) % 5000) : 300 + o.round));
  const { timings, usage } = await page.sessions
    .get(o.threads)
    .generate(ids, { temperature: 0, maxTokens: o.tokens, seed: 1, speculate: false }).result;
  return {
    build: page.built,
    prefill: (1000 * o.prompt) / timings.prefillMs,
    decode: (1000 * (usage.completionTokens - 1)) / timings.decodeMs,
  };
};

const browsers = [];
const cells = [];
const sites = [];
for (const name of positionals) {
  const site = await serve({ root: resolve(name), folders: [...PUBLIC, 'build/bench'] });
  sites.push(site);
  const browser = await start(/** @type {import('../browser/browsers.mjs').Name} */ (values.browser));
  browsers.push(browser);
  const page = await browser.open(`${site.url}models/README.md`);
  for (const threads of values.threads.split(',').map(Number))
    cells.push({
      name,
      page,
      threads,
      samples: /** @type {{ build: string, prefill: number, decode: number }[]} */ ([]),
    });
}
for (let round = -1; round < Number(values.rounds); round++)
  // The first round warms up.
  for (const { page, threads, samples } of cells) {
    const rates = await page.evaluate(measure, { ...OPTIONS, threads, round: round + 1 });
    if (round >= 0) samples.push(rates);
  }
for (const { name, threads, samples } of cells)
  console.log(
    `${name}, ${threads} thread(s), ${[...new Set(samples.map((s) => s.build))]}: prefill ${median(samples.map((s) => s.prefill)).toFixed(0)}, decode ${median(samples.map((s) => s.decode)).toFixed(0)} tokens/s (${samples.map((s) => `${s.prefill.toFixed(0)}/${s.decode.toFixed(0)}`).join(' ')})`,
  );
for (const browser of browsers) await browser.close();
for (const site of sites) await site.close();
