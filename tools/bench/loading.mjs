#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/loading.mjs [rounds]`: measures loading a model of about 90 MB in Chromium with a profile on disk.
// Downloads over loopback, verified, with and without a cache, are compared with a bare fetch that discards the bytes. Loading from the
// cache is compared with a bare read of the same bytes from OPFS. Each round measures everything once; ratios are those of the medians of
// one run. Prints also the CPU time of browser and server, since they share the cores: no variant can be faster than their sum divided by
// the number of cores. The peak of memory while loading is printed relative to the heap.
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { PUBLIC, serve } from '../serve.mjs';
import { ROOT } from '../setup/setup.mjs';
import { processes, startPlain } from './plain-browser.mjs';
import { median } from './stats.mjs';

const rounds = Number(process.argv[2] ?? 5);
const cores = availableParallelism();
const ARMS = ['bare fetch', 'network to ready', 'network to ready, cached', 'warm start', 'bare read of OPFS'];
const path = 'build/bench/135m-bq4h.bq4';
if (!existsSync(join(ROOT, path))) {
  const { fileSink } = await import('../../js/format/output.js');
  const { makeRandom, SHAPES } = await import('../make_random.mjs');
  mkdirSync(join(ROOT, 'build/bench'), { recursive: true });
  await makeRandom(SHAPES['135m'], await fileSink(join(ROOT, path)), { quant: 'bq4h', embed: 'bq8', tokenizer: false });
}

const profile = mkdtempSync(join(tmpdir(), 'bq4-bench-'));
const site = await serve({ root: ROOT, folders: [...PUBLIC, 'tools/bench', 'build/bench'] });
const browser = await startPlain(profile);
const open = () => browser.open(`${site.url}tools/bench/loading.html`, 'globalThis.measure');
/** Returns the CPU milliseconds so far of the browser and of the server. */
const cpu = () => {
  const { user, system } = process.cpuUsage();
  return [processes(profile).reduce((sum, { cpu }) => sum + cpu, 0), (user + system) / 1000];
};

/** Returns memory in bytes: of the largest renderer process, and of all processes. @returns {Record<string, number>} */
function memory() {
  const all = processes(profile, true);
  const page = all.filter(({ renderer }) => renderer).sort((a, b) => b.rss - a.rss)[0];
  return {
    'RSS of the page': page.rss,
    'PSS of the page': page.pss,
    'PSS of all processes': all.reduce((sum, { pss }) => sum + pss, 0),
  };
}

/** Measures memory on a new page: idle, and its peak during a load; with ratios to the heap. @param {string} url */
async function memoryOfOneLoad(url) {
  const page = await open();
  await page.evaluate('engineWithCache()'); // the page is idle with its engine started
  await new Promise((resolve) => setTimeout(resolve, 4000)); // and the page before it is gone
  const idle = memory();
  const peak = { ...idle };
  const timer = setInterval(() => {
    for (const [name, bytes] of Object.entries(memory())) if (bytes > peak[name]) peak[name] = bytes;
  }, 10);
  const heap = await page.evaluate(`loadOnce(${JSON.stringify(url)})`);
  clearInterval(timer);
  await page.close();
  return Object.fromEntries(Object.keys(idle).map((name) => [name, (peak[name] - idle[name]) / heap]));
}

try {
  const page = await open();
  const url = `${site.url}${path}`;
  /** @type {Record<string, number>[]} */
  const all = [];
  /** @type {Record<string, number[]>[]} */
  const cpus = [];
  for (let round = -1; round < rounds; round++) {
    // the first one warms up
    /** @type {Record<string, number>} */
    const ms = {};
    /** @type {Record<string, number[]>} */
    const spent = {};
    for (const name of ARMS) {
      await page.evaluate(`prepare(${JSON.stringify({ name, url })})`);
      const before = cpu();
      ms[name] = await page.evaluate(`measure(${JSON.stringify({ name, url })})`);
      spent[name] = cpu().map((now, i) => now - before[i]);
      await page.evaluate('finish()');
    }
    if (round >= 0) {
      all.push(ms);
      cpus.push(spent);
    }
  }
  await page.close();
  const { size: bytes } = statSync(join(ROOT, path));
  const middle = (/** @type {string} */ name) => median(all.map((result) => result[name]));
  console.log(`Chromium ${browser.version}, ${(bytes / 1e6).toFixed(0)} MB, medians of ${rounds} rounds`);
  console.log(`${''.padEnd(26)}     ms   MB/s   CPU ms: browser  server  all ÷ ${cores} cores`);
  for (const name of ARMS) {
    const [own, server, sum] = [0, 1, 2].map((i) =>
      median(cpus.map(({ [name]: spent }) => spent[i] ?? spent[0] + spent[1])),
    );
    console.log(
      name.padEnd(26) +
        [middle(name), bytes / 1e3 / middle(name), own, server, sum / cores]
          .map((value, i) => value.toFixed(0).padStart([7, 7, 18, 8, 15][i]))
          .join(''),
    );
  }
  const ratios = Object.fromEntries(
    [
      ['network to ready', 'bare fetch'],
      ['network to ready, cached', 'bare fetch'],
      ['warm start', 'bare read of OPFS'],
    ].map(([name, bare]) => [`${name} ÷ ${bare}`, middle(bare) / middle(name)]),
  );
  const sizes = await memoryOfOneLoad(url);
  ratios['memory: (peak − idle) ÷ heap'] = sizes['RSS of the page'];
  for (const [name, ratio] of Object.entries(sizes)) ratios[`memory, ${name}: (peak − idle) ÷ heap`] = ratio;
  for (const [name, ratio] of Object.entries(ratios)) console.log(`${name.padEnd(60)}${ratio.toFixed(2)}`);
  writeFileSync(
    join(ROOT, 'build/bench/loading.json'),
    `${JSON.stringify({ bytes, rounds: all, cpu: cpus, ratios }, null, 2)}\n`,
  );
} catch (error) {
  browser.kill();
  throw error;
} finally {
  await browser.close();
  await site.close();
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
}
