#!/usr/bin/env node
// Measures threads in Chromium: bytes and time to start, for this project's threads and emscripten's two kinds, and the time of a parallel
// region without work. Run it on an idle machine: node tests/bench/threads.mjs
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { median } from '../../tools/bench/stats.mjs';
import { runMake } from '../../tools/build.mjs';
import { serve } from '../../tools/serve.mjs';
import { command, ROOT, setUp } from '../../tools/setup/setup.mjs';

const RUNS = 9;
const MODES = {
  bare: ['build/wasm/bq4-relaxed-threads.wasm', 'js/wasm/threads.js', 'js/thread.js'],
  pthreads: ['build/bench-threads/pthreads.wasm', 'build/bench-threads/pthreads.mjs'],
  'wasm-workers': ['build/bench-threads/wasm-workers.wasm', 'build/bench-threads/wasm-workers.mjs'],
};

await command(async () => {
  const tools = await setUp({ tests: true });
  if (!(await runMake(tools, ['wasm', 'bench-threads']))) return;
  const { launch } = await import('../browser/launch.mjs');
  const site = await serve({ root: ROOT, folders: ['js', 'build', 'tests', 'models'] });
  const browser = await launch({ full: true });
  const page = await browser.newPage();
  await page.goto(`${site.url}models/README.md`);
  /** @type {Record<string, any[]>} */
  const results = { bare: [], pthreads: [], 'wasm-workers': [] };
  try {
    for (let run = -1; run < RUNS; run++)
      // The first run warms up.
      for (const mode of Object.keys(MODES)) {
        const result = await page.evaluate(
          async (data) => {
            const worker = new Worker('/tests/bench/threads-worker.js', { type: 'module' });
            const reply = await new Promise((resolve) => {
              worker.onmessage = (e) => resolve(e.data);
              worker.onerror = (e) => resolve({ error: e.message });
              worker.postMessage(data);
            });
            worker.terminate();
            return reply;
          },
          { way: mode, regions: mode === 'bare' ? 20000 : 0 },
        );
        if (result.error) throw new Error(`${mode}: ${result.error}`);
        if (run >= 0) results[mode].push(result);
      }
  } finally {
    await browser.close();
    await site.close();
  }
  for (const [mode, files] of Object.entries(MODES)) {
    const bytes = files.map((file) => gzipSync(readFileSync(join(ROOT, file)), { level: 9 }).length);
    const [wasm, js] = [bytes[0], bytes.slice(1).reduce((a, b) => a + b, 0)];
    console.log(
      `${mode.padEnd(13)} wasm ${wasm} + JavaScript ${js} bytes gzipped, ${median(results[mode].map((r) => r.start)).toFixed(1)} ms to the first region on 2 threads`,
    );
  }
  const formatMedian = (/** @type {string} */ name) => median(results.bare.map((r) => r[name])).toFixed(2);
  console.log(
    `2 threads: a region ${formatMedian('region')} µs, a barrier within one ${formatMedian('barrier')} µs, a region with a sleeping thread ${formatMedian('asleep')} µs`,
  );
});
