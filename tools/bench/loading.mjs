#!/usr/bin/env node
// `node tools/bench/loading.mjs [rounds]`: how fast a model of some 90 MB gets into the engine, in Chromium with a profile
// on disk: over loopback beside a bare fetch that throws the bytes away, verified and with or without keeping them; and
// from the cache beside a bare read of the same bytes from OPFS. Each round measures everything once; ratios are of
// medians of one run. Also: the most memory that the browser's processes took while loading, beside the heap.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { fileSink } from '../../js/convert/output.js';
import { makeRandom, SHAPES } from '../make_random.mjs';
import { PUBLIC, serve } from '../serve.mjs';
import { ROOT } from '../setup/setup.mjs';
import { findChromium } from '../setup/system.mjs';

const rounds = Number(process.argv[2] ?? 5);
const { FLAGS } = await import('../../tests/browser/launch.mjs');
const path = 'build/bench/135m-bq4h.bq4';
if (!existsSync(join(ROOT, path))) {
  mkdirSync(join(ROOT, 'build/bench'), { recursive: true });
  await makeRandom(SHAPES['135m'], await fileSink(join(ROOT, path)), { quant: 'bq4h', embed: 'bq8', tokenizer: false });
}

/** Resident bytes of this browser's processes: those that were given its profile, and what they started. @param {string} profile */
function residentBytes(profile) {
  /** @type {Map<number, { parent: number, bytes: number, ours: boolean }>} */
  const all = new Map();
  for (const pid of readdirSync('/proc').map(Number).filter(Boolean)) {
    try {
      const [, parent, pages] = [readFileSync(`/proc/${pid}/cmdline`, 'utf8'), Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')[1]), Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1])];
      all.set(pid, { parent, bytes: pages * 4096, ours: readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(profile) });
    } catch {
      // It has ended meanwhile.
    }
  }
  const ours = (/** @type {number} */ pid) => {
    for (let at = all.get(pid); at; at = all.get(at.parent)) if (at.ours) return true;
    return false;
  };
  return [...all.keys()].filter(ours).reduce((sum, pid) => sum + (all.get(pid)?.bytes ?? 0), 0);
}

const profile = mkdtempSync(join(tmpdir(), 'bq4-bench-'));
const site = await serve({ root: ROOT, folders: [...PUBLIC, 'tools/bench', 'build/bench'] });
const context = await chromium.launchPersistentContext(profile, { executablePath: findChromium(), headless: true, args: FLAGS });
try {
  const page = await context.newPage();
  await page.goto(`${site.url}tools/bench/loading.html`);
  await page.waitForFunction('globalThis.measure');
  const url = `${site.url}${path}`;
  /** @type {Record<string, number>[]} */
  const all = [];
  for (let round = -1; round < rounds; round++) { // the first one warms up
    const result = /** @type {Record<string, number>} */ (await page.evaluate(`measure(${JSON.stringify({ url })})`));
    if (round >= 0) all.push(result);
  }
  // Memory, on a page of its own: idle, then with the most while one load goes on.
  await page.goto(`${site.url}tools/bench/loading.html`);
  await page.waitForFunction('globalThis.measure');
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const idle = residentBytes(profile);
  let peak = 0;
  const timer = setInterval(() => (peak = Math.max(peak, residentBytes(profile))), 20);
  const heap = /** @type {number} */ (await page.evaluate(`(async () => {
    const { createWorkerEngine } = await import('../../js/index.js');
    globalThis.engine = await createWorkerEngine({ threads: 1, cache: 'auto' });
    await engine.store.clear();
    const model = await engine.load(${JSON.stringify(url)}, { context: 128 });
    return (await model.memory()).total;
  })()`));
  clearInterval(timer);

  const bytes = readFileSync(join(ROOT, path)).length;
  const median = (/** @type {string} */ name) => all.map((result) => result[name]).sort((a, b) => a - b)[Math.floor(all.length / 2)];
  console.log(`Chromium ${context.browser()?.version() ?? ''}, ${(bytes / 1e6).toFixed(0)} MB, medians of ${rounds} rounds`);
  for (const name of Object.keys(all[0])) console.log(`${name.padEnd(30)}${median(name).toFixed(0).padStart(7)} ms ${(bytes / 1e3 / median(name)).toFixed(0).padStart(6)} MB/s`);
  const ratios = Object.fromEntries([['network to ready', 'bare fetch'], ['network to ready, cached', 'bare fetch'], ['warm start', 'bare read of OPFS']].map(([name, bare]) => [`${name} ÷ ${bare}`, median(bare) / median(name)]));
  ratios['memory: (peak − idle) ÷ heap'] = (peak - idle) / heap;
  for (const [name, ratio] of Object.entries(ratios)) console.log(`${name.padEnd(50)}${ratio.toFixed(2)}`);
  writeFileSync(join(ROOT, 'build/bench/loading.json'), `${JSON.stringify({ bytes, rounds: all, ratios }, null, 2)}\n`);
} finally {
  await context.close();
  await site.close();
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
}
