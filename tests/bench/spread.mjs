// Measures tensor parallelism without shared memory (docs/decisions/0016): the same prompts and tokens with one thread, with workers that
// compute parts of the products, and with the engine's choice, in turn, in pages that are not isolated.
//
//   npm run build && node tests/bench/spread.mjs [chromium firefox …] [--shapes 135m,500m] [--rounds 5] [--threads 2] [--batch 32]
//
// It writes models with random weights (tools/make_random.mjs) to build/bench/, and prints milliseconds of a prompt of 256 tokens and of
// a token after it (medians of the rounds), and the medians of the speedups over one thread.
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { fileSink } from '../../js/format/output.js';
import { median } from '../../tools/bench/stats.mjs';
import { makeRandom, SHAPES } from '../../tools/make_random.mjs';
import { ROOT } from '../../tools/setup/setup.mjs';
import { start } from '../browser/browsers.mjs';
import { host } from '../browser/host.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    shapes: { type: 'string', default: '135m,500m' },
    rounds: { type: 'string', default: '5' },
    threads: { type: 'string', default: '2' },
    batch: { type: 'string', default: '32' },
  },
});
const names = /** @type {import('../browser/browsers.mjs').Name[]} */ (positionals.length ? positionals : ['chromium']);

/** Runs in the page. @param {{ url: string, rounds: number, threads: number, batch: number }} o */
const measure = async ({ url, rounds, threads, batch }) => {
  const { createWorkerEngine, fromUrl } = await import(/** @type {any} */ ('/js/index.js'));
  const modes = { one: { threads: 1 }, always: { threads }, chosen: {} };
  /** @type {Record<string, any>} */
  const results = {};
  /** @type {Record<string, any>} */
  const sessions = {};
  for (const [mode, options] of Object.entries(modes)) {
    const engine = await createWorkerEngine(options);
    const model = await engine.load(fromUrl(url), { contextTokens: 1024, sessions: 1, prefillBatch: batch });
    sessions[mode] = await model.createSession();
    results[mode] = { spread: model.info.tensorParallel, prefill: [], decode: [] };
  }
  for (let round = -1; round < rounds; round++)
    for (const mode of Object.keys(modes)) {
      const ids = Array.from({ length: 256 }, (_, i) => (i ? 500 + ((i * 37) % 5000) : 300 + round));
      const { timings } = await sessions[mode].generate(ids, { temperature: 0, maxTokens: 25, speculate: false })
        .result;
      if (round < 0) continue;
      results[mode].prefill.push(timings.prefillMs);
      results[mode].decode.push(timings.decodeMs / 24);
    }
  return results;
};

mkdirSync(join(ROOT, 'build/bench'), { recursive: true });
const site = await host();
for (const shape of values.shapes.split(',')) {
  const path = join(ROOT, `build/bench/${shape}-bq4h.bq4`);
  if (!existsSync(path)) await makeRandom(SHAPES[shape], await fileSink(path), { quant: 'bq4h', embed: 'bq8' });
  for (const name of names) {
    const browser = await start(name);
    const page = await browser.open(site.url);
    const results = await page.evaluate(measure, {
      url: `/build/bench/${shape}-bq4h.bq4`,
      rounds: Number(values.rounds),
      threads: Number(values.threads),
      batch: Number(values.batch),
    });
    for (const [kind, { spread, prefill, decode }] of Object.entries(results)) {
      const ratio = (/** @type {'prefill' | 'decode'} */ what) =>
        median(
          results[kind][what].map((/** @type {number} */ ms, /** @type {number} */ i) => results.one[what][i] / ms),
        );
      console.log(
        `${shape} ${name} ${kind.padEnd(7)} prefill ${median(prefill).toFixed(0).padStart(6)} (${ratio('prefill').toFixed(2)})  ` +
          `decode ${median(decode).toFixed(2).padStart(6)} (${ratio('decode').toFixed(2)})  ` +
          (spread ? `${spread.parts} parts from ${spread.tokens} tokens on` : 'one worker'),
      );
    }
    await browser.close();
  }
}
await site.close();
