#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/first-word.mjs [--model FILE.gguf] [--rounds 5] [--threads auto] [--beside CHECKOUT]
// [--system FILE.txt]`: measures the time from the selection of a model to the first word of its reply, in Chromium with a profile on
// disk, and the time of each phase. The cold visit downloads the model and stores it in the cache, the warm one loads it from the
// cache; each has its own page. The same rounds measure a bare fetch of the model's bytes, and a bare read of as many bytes from OPFS
// into one buffer and into new memory.
//
//   --model    default: SmolLM2-135M-Instruct Q4_1
//   --beside   another checkout of bq4, built, with these files of the benchmark; it is measured in the same rounds, in changing order
//   --system   a system prompt; adds a third visit of this checkout, which finds the prompt cache next to the model
//
// Prints milliseconds: medians (least–most). Ratios are medians of the ratios within a round.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { PUBLIC, serve } from '../serve.mjs';
import { NO_REAL_MODEL, realModel } from '../setup/models.mjs';
import { command, ROOT } from '../setup/setup.mjs';
import { SetupError } from '../setup/shell.mjs';
import { machine } from './machine.mjs';
import { startPlain } from './plain-browser.mjs';
import { median, shown, summary } from './stats.mjs';

const TEXT = 'Which city is the capital of France?';
const { values: given } = parseArgs({
  options: {
    model: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    threads: { type: 'string', default: 'auto' },
    beside: { type: 'string' },
    system: { type: 'string' },
  },
});
const rounds = Number(given.rounds);
const threads = given.threads === 'auto' ? 'auto' : Number(given.threads);

/** Name of the visit that finds a prompt cache. */
const PROMPT_CACHE = 'warm with prompt cache';

/** Makes a folder with the model and the prompt cache of a system prompt. @param {string} file @param {string} system */
function withPromptCache(file, system) {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-bench-model-'));
  const copy = join(folder, basename(file));
  copyFileSync(file, copy);
  const words = ['prompt-state', copy, '--system', system, '--context', '1024'];
  const { status, stderr } = spawnSync(process.execPath, [join(ROOT, 'bin/bq4.js'), ...words], { encoding: 'utf8' });
  if (status) throw new SetupError(stderr);
  console.log(stderr.trim());
  return folder;
}

/**
 * A server of the files of one checkout, which is an origin with its own cache.
 * @typedef {{ name: string, url: string, close: () => Promise<void> }} Site
 */

await command(async () => {
  const file = given.model ? resolve(given.model) : realModel('smollm2');
  if (!file) throw new SetupError(NO_REAL_MODEL);
  const system = given.system && readFileSync(resolve(given.system), 'utf8').trim();
  const models = system ? withPromptCache(file, system) : dirname(file);
  const roots = [ROOT, ...(given.beside ? [resolve(given.beside)] : [])];
  /** @type {Site[]} */
  const sites = await Promise.all(
    roots.map(async (root) => ({
      name: root === ROOT ? '' : `${basename(root)}: `,
      ...(await serve({ root, folders: [...PUBLIC, 'dist', 'tools/bench'], models })),
    })),
  );
  const profile = mkdtempSync(join(tmpdir(), 'bq4-bench-'));
  const browser = await startPlain(profile);
  /** Calls a function of a new page. @param {Site} site @param {string} expression @returns {Promise<any>} */
  const inPage = async ({ url }, expression) => {
    const page = await browser.open(`${url}tools/bench/first-word.html`, 'globalThis.visit');
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
      inPage(site, `visit(${JSON.stringify({ url: site.url + model, threads, text: TEXT, system, promptCache })})`);
    let keptBytes = 0;
    /** @type {Record<string, number>[]} */
    const all = [];
    // The first round is not counted: it fills the caches, also the browser's cache of compiled code.
    for (let round = -1; round < rounds; round++) {
      /** @type {Record<string, number>} */
      const ms = {};
      for (const site of round % 2 ? [...sites].reverse() : sites) {
        await inPage(site, 'clear()');
        for (const kind of ['cold', 'warm', ...(system && !site.name ? [PROMPT_CACHE] : [])]) {
          const { keptBytes: bytes, ...phases } = await visit(site, kind === PROMPT_CACHE);
          if (kind === 'warm' && phases['weights: write']) throw new Error('the warm load wrote to the cache');
          keptBytes = bytes;
          for (const [phase, value] of Object.entries(phases)) ms[`${site.name}${kind}, ${phase}`] = value;
        }
      }
      if (round < 0) await inPage(sites[0], `makeBareFile(${JSON.stringify(sites[0].url + model)}, ${keptBytes})`);
      ms['bare fetch'] = await inPage(sites[0], `bareFetch(${JSON.stringify(sites[0].url + model)})`);
      ms['bare read'] = await inPage(sites[0], 'bareRead(false)');
      ms['bare read into new memory'] = await inPage(sites[0], 'bareRead(true)');
      if (round >= 0) all.push(ms);
    }
    const here = machine();
    console.log(
      `${basename(file)}, ${(fileBytes / 1e6).toFixed(0)} MB (${(keptBytes / 1e6).toFixed(0)} MB kept), threads ${threads}; ${here.cpu}; Chromium ${browser.version}; ${rounds} rounds`,
    );
    for (const name of Object.keys(all[0]))
      console.log(name.padEnd(60) + shown(summary(all.map((result) => result[name]))));
    for (const { name } of sites)
      for (const [above, below] of [
        [`${name}warm, load`, 'bare read'],
        [`${name}warm, load`, 'bare read into new memory'],
        [`${name}warm, weights`, 'bare read into new memory'],
        [`${name}cold, load`, 'bare fetch'],
        [`${name}cold, weights`, 'bare fetch'],
      ])
        console.log(`${above} ÷ ${below}`.padEnd(60) + median(all.map((ms) => ms[above] / ms[below])).toFixed(2));
  } finally {
    await browser.close();
    for (const site of sites) await site.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    if (system) rmSync(models, { recursive: true, force: true });
  }
});
