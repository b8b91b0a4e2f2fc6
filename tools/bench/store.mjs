#!/usr/bin/env node
// `node tools/bench/store.mjs [rounds]`: compares the cache of model files with bare OPFS files of the same size (100 MB), in
// Chromium with a profile on disk. Each round measures everything once; ratios are those of the medians of one run.
// Reads include opening the store and the file, reading the journal, and closing. Writes include a flush of each chunk.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { PUBLIC, serve } from '../serve.mjs';
import { ROOT } from '../setup/setup.mjs';
import { findChromium } from '../setup/system.mjs';
import { median } from './stats.mjs';

const rounds = Number(process.argv[2] ?? 5);
const { FLAGS } = await import('../../tests/browser/launch.mjs');
const profile = mkdtempSync(join(tmpdir(), 'bq4-bench-'));
const site = await serve({ root: ROOT, folders: [...PUBLIC, 'tools/bench'] });
const context = await chromium.launchPersistentContext(profile, {
  executablePath: findChromium(),
  headless: true,
  args: FLAGS,
});
try {
  const page = await context.newPage();
  await page.goto(`${site.url}tools/bench/store.html`);
  await page.waitForFunction('globalThis.measure');
  /** @type {Record<string, number>[]} */
  const results = [];
  for (let round = -1; round < rounds; round++) {
    // The first round is a warm-up.
    const result = /** @type {Record<string, number>} */ (await page.evaluate('measure()'));
    if (round >= 0) results.push(result);
  }
  const medianOf = (/** @type {string} */ name) => median(results.map((result) => result[name]));
  console.log(`Chromium ${context.browser()?.version() ?? ''}, medians of ${rounds} rounds, MiB/s`);
  for (const name of Object.keys(results[0])) console.log(`${name.padEnd(26)}${medianOf(name).toFixed(0).padStart(7)}`);
  for (const [name, reference] of [
    ['store read', 'bare read'],
    ['store read, file open', 'bare read'],
    ['store read, new buffers', 'bare read, new buffers'],
    ['store write', 'bare write, flushed'],
    ['store write', 'bare write'],
    ['bare write, flushed', 'bare write'],
    ['bare write, reopened', 'bare write, flushed'],
    ['bare read, new buffers', 'bare read'],
  ]) {
    console.log(`${`${name} ÷ ${reference}`.padEnd(50)}${(medianOf(name) / medianOf(reference)).toFixed(2)}`);
  }
} finally {
  await context.close();
  await site.close();
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
}
