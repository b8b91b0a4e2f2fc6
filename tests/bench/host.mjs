// Measures the time of JavaScript in a decode step, in Chromium: generations relative to the engine's calls alone, in turn.
//
//   npm run build && node tests/bench/host.mjs [CHECKOUT] [--rounds 20] [--threads 1] [--model 135m-bq4h.bq4]
//
// The model (tools/make_random.mjs) has to be in build/bench/. It prints microseconds per token: minimum, median, and the median of the
// differences to the calls alone in the same round.
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { median } from '../../tools/bench/stats.mjs';
import { PUBLIC, serve } from '../../tools/serve.mjs';
import { launch } from '../browser/launch.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '20' },
    threads: { type: 'string', default: '1' },
    model: { type: 'string', default: '135m-bq4h.bq4' },
  },
});
const site = await serve({ root: resolve(positionals[0] ?? '.'), folders: [...PUBLIC, 'build/bench', 'tests/bench'] });
const browser = await launch({ full: true });
const page = await browser.newPage();
await page.goto(`${site.url}models/README.md`);
/** @type {Record<string, number[]>} */
const timesByName = await page.evaluate(
  (order) =>
    new Promise((done, fail) => {
      const worker = new Worker('/tests/bench/host-worker.js', { type: 'module' });
      worker.onmessage = ({ data }) => done(data);
      worker.onerror = ({ message }) => fail(new Error(message));
      worker.postMessage(order);
    }),
  { rounds: Number(values.rounds), threads: Number(values.threads), model: `/build/bench/${values.model}` },
);
const [calls] = Object.values(timesByName);
for (const [name, list] of Object.entries(timesByName)) {
  const us = (/** @type {number} */ ms) => (ms * 1000).toFixed(0).padStart(6);
  console.log(
    `${name.padEnd(26)} minimum ${us(Math.min(...list))}, median ${us(median(list))}, more than the calls ${us(median(list.map((ms, i) => ms - calls[i])))}`,
  );
}
await browser.close();
await site.close();
