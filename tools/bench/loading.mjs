#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/loading.mjs [rounds]`: measures loading a model of about 90 MB in Chromium with a profile on disk.
// Downloads over loopback, verified, with and without a cache, are compared with a bare fetch that discards the bytes. Loading from the
// cache is compared with a bare read of the same bytes from OPFS. Each round measures everything once; ratios are those of the medians of
// one run. Prints also the CPU time of browser and server, since they share the cores: no variant can be faster than their sum divided by
// the number of cores. The peak of memory during the load is printed relative to the heap.
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { PUBLIC, serve } from '../serve.mjs';
import { ROOT } from '../setup/setup.mjs';
import { browserProcesses, startPlainBrowser } from './plain-browser.mjs';
import { median } from './stats.mjs';

const rounds = Number(process.argv[2] ?? 5);
const coreCount = availableParallelism();
/** Names of the measurements; loading-page.js runs them. */
const VARIANTS = ['bare fetch', 'network to ready', 'network to ready, cached', 'warm start', 'bare read of OPFS'];
const path = 'build/bench/135m-bq4h.bq4';
if (!existsSync(join(ROOT, path))) {
  const { fileSink } = await import('../../js/format/output.js');
  const { makeRandom, SHAPES } = await import('../make_random.mjs');
  mkdirSync(join(ROOT, 'build/bench'), { recursive: true });
  await makeRandom(SHAPES['135m'], await fileSink(join(ROOT, path)), { quant: 'bq4h', embed: 'bq8', tokenizer: false });
}

const profile = mkdtempSync(join(tmpdir(), 'bq4-bench-'));
const site = await serve({ root: ROOT, folders: [...PUBLIC, 'tools/bench', 'build/bench'] });
const browser = await startPlainBrowser(profile);
const openPage = () => browser.open(`${site.url}tools/bench/loading.html`, 'globalThis.measure');
/** Returns the CPU milliseconds that the browser and the server have used so far. */
const cpuTimes = () => {
  const { user, system } = process.cpuUsage();
  return [browserProcesses(profile).reduce((sum, { cpu }) => sum + cpu, 0), (user + system) / 1000];
};

/** Returns memory in bytes: of the largest renderer process, and of all processes. @returns {Record<string, number>} */
function memorySizes() {
  const allProcesses = browserProcesses(profile, true);
  const renderer = allProcesses.filter(({ renderer }) => renderer).sort((a, b) => b.rss - a.rss)[0];
  return {
    'RSS of the page': renderer.rss,
    'PSS of the page': renderer.pss,
    'PSS of all processes': allProcesses.reduce((sum, { pss }) => sum + pss, 0),
  };
}

/** Measures memory on a new page: idle, and its peak during a load; with ratios to the heap. @param {string} url */
async function measureMemory(url) {
  const page = await openPage();
  await page.evaluate('startCachingEngine()');
  // Afterwards the page is idle, and the browser has released the memory of the previous page.
  await new Promise((resolve) => setTimeout(resolve, 4000));
  const idleSizes = memorySizes();
  const peakSizes = { ...idleSizes };
  const timer = setInterval(() => {
    for (const [name, bytes] of Object.entries(memorySizes())) if (bytes > peakSizes[name]) peakSizes[name] = bytes;
  }, 10);
  const heap = await page.evaluate(`loadOnce(${JSON.stringify(url)})`);
  clearInterval(timer);
  await page.close();
  return Object.fromEntries(Object.keys(idleSizes).map((name) => [name, (peakSizes[name] - idleSizes[name]) / heap]));
}

try {
  const page = await openPage();
  const url = `${site.url}${path}`;
  /** @type {Record<string, number>[]} */
  const results = [];
  /** @type {Record<string, number[]>[]} */
  const cpus = [];
  for (let round = -1; round < rounds; round++) {
    // The first round is a warm-up.
    /** @type {Record<string, number>} */
    const ms = {};
    /** @type {Record<string, number[]>} */
    const cpuMs = {};
    for (const name of VARIANTS) {
      await page.evaluate(`prepare(${JSON.stringify({ name, url })})`);
      const cpuBefore = cpuTimes();
      ms[name] = await page.evaluate(`measure(${JSON.stringify({ name, url })})`);
      cpuMs[name] = cpuTimes().map((now, i) => now - cpuBefore[i]);
      await page.evaluate('closeEngine()');
    }
    if (round >= 0) {
      results.push(ms);
      cpus.push(cpuMs);
    }
  }
  await page.close();
  const { size: bytes } = statSync(join(ROOT, path));
  const medianOf = (/** @type {string} */ name) => median(results.map((result) => result[name]));
  console.log(`Chromium ${browser.version}, ${(bytes / 1e6).toFixed(0)} MB, medians of ${rounds} rounds`);
  console.log(`${''.padEnd(26)}     ms   MB/s   CPU ms: browser  server  all ÷ ${coreCount} cores`);
  for (const name of VARIANTS) {
    const [browserMs, serverMs, totalMs] = [0, 1, 2].map((i) =>
      median(cpus.map(({ [name]: spent }) => spent[i] ?? spent[0] + spent[1])),
    );
    console.log(
      name.padEnd(26) +
        [medianOf(name), bytes / 1e3 / medianOf(name), browserMs, serverMs, totalMs / coreCount]
          .map((value, i) => value.toFixed(0).padStart([7, 7, 18, 8, 15][i]))
          .join(''),
    );
  }
  const ratios = Object.fromEntries(
    [
      ['network to ready', 'bare fetch'],
      ['network to ready, cached', 'bare fetch'],
      ['warm start', 'bare read of OPFS'],
    ].map(([name, reference]) => [`${name} ÷ ${reference}`, medianOf(reference) / medianOf(name)]),
  );
  const memoryRatios = await measureMemory(url);
  ratios['memory: (peak − idle) ÷ heap'] = memoryRatios['RSS of the page'];
  for (const [name, ratio] of Object.entries(memoryRatios)) ratios[`memory, ${name}: (peak − idle) ÷ heap`] = ratio;
  for (const [name, ratio] of Object.entries(ratios)) console.log(`${name.padEnd(60)}${ratio.toFixed(2)}`);
  writeFileSync(
    join(ROOT, 'build/bench/loading.json'),
    `${JSON.stringify({ bytes, rounds: results, cpu: cpus, ratios }, null, 2)}\n`,
  );
} catch (error) {
  browser.kill();
  throw error;
} finally {
  await browser.close();
  await site.close();
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
}
