#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/first-word.mjs [--model FILE.gguf] [--rounds 5] [--threads auto] [--compare CHECKOUT]
// [--system FILE.txt]`: measures the time from the selection of a model to the first word of its reply, in Chromium with a profile on
// disk, and the time of each phase. The cold visit downloads the model and stores it in the cache, the warm visit loads it from the
// cache; each visit has its own page. The same rounds measure a bare fetch of the model's bytes, and a bare read of as many bytes from OPFS
// into one buffer and into new memory.
//
//   --model    default: SmolLM2-135M-Instruct Q4_1
//   --compare  another checkout of bq4, which is built and contains this benchmark; it is measured in the same rounds, in alternating order
//   --system   file with a system prompt; adds a third visit of this checkout, which loads a prompt cache with the model
//
// Prints milliseconds: medians (smallest–largest). Ratios are medians of the ratios within a round.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { PUBLIC, serve } from '../serve.mjs';
import { NO_REAL_MODEL, realModel } from '../setup/models.mjs';
import { command, ROOT } from '../setup/setup.mjs';
import { SetupError } from '../setup/shell.mjs';
import { readMachine } from './machine.mjs';
import { startPlainBrowser } from './plain-browser.mjs';
import { median, formatSummary, summary } from './stats.mjs';

const TEXT = 'Which city is the capital of France?';
const { values: options } = parseArgs({
  options: {
    model: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    threads: { type: 'string', default: 'auto' },
    compare: { type: 'string' },
    system: { type: 'string' },
  },
});
const rounds = Number(options.rounds);
const threads = options.threads === 'auto' ? 'auto' : Number(options.threads);

/** Name of the visit that loads a prompt cache. */
const PROMPT_CACHE = 'warm with prompt cache';

/** Creates a folder with the model and the prompt cache of a system prompt. @param {string} file @param {string} system */
function makeModelFolder(file, system) {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-bench-model-'));
  const copy = join(folder, basename(file));
  copyFileSync(file, copy);
  const args = ['prompt-cache', copy, '--system', system, '--context', '1024'];
  const { status, stderr } = spawnSync(process.execPath, [join(ROOT, 'bin/bq4.js'), ...args], { encoding: 'utf8' });
  if (status) throw new SetupError(stderr);
  console.log(stderr.trim());
  return folder;
}

/**
 * A server of the files of one checkout. It is an origin with its own cache.
 * @typedef {{ name: string, url: string, close: () => Promise<void> }} Site
 */

await command(async () => {
  const file = options.model ? resolve(options.model) : realModel('smollm2');
  if (!file) throw new SetupError(NO_REAL_MODEL);
  const system = options.system && readFileSync(resolve(options.system), 'utf8').trim();
  const models = system ? makeModelFolder(file, system) : dirname(file);
  const roots = [ROOT, ...(options.compare ? [resolve(options.compare)] : [])];
  /** @type {Site[]} */
  const sites = await Promise.all(
    roots.map(async (root) => ({
      name: root === ROOT ? '' : `${basename(root)}: `,
      ...(await serve({ root, folders: [...PUBLIC, 'dist', 'tools/bench'], models })),
    })),
  );
  const profile = mkdtempSync(join(tmpdir(), 'bq4-bench-'));
  const browser = await startPlainBrowser(profile);
  /** Calls a function of a new page. @param {Site} site @param {string} expression @returns {Promise<any>} */
  const evaluateInPage = async ({ url }, expression) => {
    const page = await browser.open(`${url}tools/bench/first-word.html`, 'globalThis.measureVisit');
    try {
      return await page.evaluate(expression);
    } finally {
      await page.close();
    }
  };
  try {
    const { size: fileBytes } = statSync(file);
    const model = `local/${basename(file)}`;
    const visit = (/** @type {Site} */ site, promptCache = false) =>
      evaluateInPage(
        site,
        `measureVisit(${JSON.stringify({ url: site.url + model, threads, text: TEXT, system, promptCache })})`,
      );
    let storedBytes = 0;
    /** @type {Record<string, number>[]} */
    const results = [];
    // The first round is not counted: it fills the caches, including the browser's cache of compiled code.
    for (let round = -1; round < rounds; round++) {
      /** @type {Record<string, number>} */
      const ms = {};
      for (const site of round % 2 ? [...sites].reverse() : sites) {
        await evaluateInPage(site, 'clearCache()');
        for (const kind of ['cold', 'warm', ...(system && !site.name ? [PROMPT_CACHE] : [])]) {
          const { cachedBytes, ...phases } = await visit(site, kind === PROMPT_CACHE);
          if (kind === 'warm' && phases['weights: write'])
            throw new Error('expected a warm load that only reads the cache: it wrote to the cache');
          storedBytes = cachedBytes;
          for (const [phase, value] of Object.entries(phases)) ms[`${site.name}${kind}, ${phase}`] = value;
        }
      }
      if (round < 0)
        await evaluateInPage(sites[0], `makeBareFile(${JSON.stringify(sites[0].url + model)}, ${storedBytes})`);
      ms['bare fetch'] = await evaluateInPage(sites[0], `measureBareFetch(${JSON.stringify(sites[0].url + model)})`);
      ms['bare read'] = await evaluateInPage(sites[0], 'measureBareRead(false)');
      ms['bare read into new memory'] = await evaluateInPage(sites[0], 'measureBareRead(true)');
      if (round >= 0) results.push(ms);
    }
    const machineInfo = readMachine();
    console.log(
      `${basename(file)}, ${(fileBytes / 1e6).toFixed(0)} MB (${(storedBytes / 1e6).toFixed(0)} MB in the cache), threads ${threads}; ${machineInfo.cpu}; Chromium ${browser.version}; ${rounds} rounds`,
    );
    for (const name of Object.keys(results[0]))
      console.log(name.padEnd(60) + formatSummary(summary(results.map((result) => result[name]))));
    for (const { name } of sites)
      for (const [numerator, denominator] of [
        [`${name}warm, load`, 'bare read'],
        [`${name}warm, load`, 'bare read into new memory'],
        [`${name}warm, weights`, 'bare read into new memory'],
        [`${name}cold, load`, 'bare fetch'],
        [`${name}cold, weights`, 'bare fetch'],
      ])
        console.log(
          `${numerator} ÷ ${denominator}`.padEnd(60) +
            median(results.map((ms) => ms[numerator] / ms[denominator])).toFixed(2),
        );
  } finally {
    await browser.close();
    for (const site of sites) await site.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    if (system) rmSync(models, { recursive: true, force: true });
  }
});
