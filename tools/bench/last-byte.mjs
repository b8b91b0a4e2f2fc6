#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/last-byte.mjs [rounds]`: sends a prompt during the download of a model of about 90 MB, and
// measures the time from the last byte to the first token, in Chromium with one thread. The server delays the last byte until all
// layers except one are computed. For comparison it measures the remaining work, warm, in the same session: two decode steps and the LM
// head for short prompts, otherwise one layer's share of the prefill and the LM head. It also measures the time of the last byte to a page
// that discards it, which does not depend on bq4. Both ends are on the same machine, so their clocks are the same.
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { faultServer } from '../../tests/server/faults.mjs';
import { PUBLIC, serve } from '../serve.mjs';
import { ROOT } from '../setup/setup.mjs';
import { startPlain } from './plain-browser.mjs';
import { shown, summary } from './stats.mjs';

const rounds = Number(process.argv[2] ?? 5);
const LAYERS = 30;
/** Tokens per prompt, and the largest number of tokens that the engine computes in one batch. */
const [PROMPTS, BATCH] = [[16, 32, 128], 32];
const path = join(ROOT, 'build/bench/135m-bq4h.bq4');
if (!existsSync(path)) {
  const { fileSink } = await import('../../js/format/output.js');
  const { makeRandom, SHAPES } = await import('../make_random.mjs');
  mkdirSync(join(ROOT, 'build/bench'), { recursive: true });
  await makeRandom(SHAPES['135m'], await fileSink(path), { quant: 'bq4h', embed: 'bq8', tokenizer: false });
}
const { size } = statSync(path);
const now = () => performance.timeOrigin + performance.now();
const profile = mkdtempSync(join(tmpdir(), 'bq4-bench-'));
const site = await serve({ root: ROOT, folders: [...PUBLIC, 'tools/bench'], policy: false });
const models = await faultServer({ '/model.bq4': path });
const browser = await startPlain(profile);

/** @typedef {{ first: number, limit: number, way: number }} Early  milliseconds */

const open = () => browser.open(`${site.url}tools/bench/loading.html`, 'globalThis.sendEarly');
/** @returns {() => void}  releases the last byte */
function hold() {
  let release = () => {};
  models.faults = [{ stall: size - 1, until: new Promise((resolve) => (release = () => resolve(undefined))) }];
  return release;
}

/** Of the last byte to a page. */
async function mode() {
  const release = hold();
  const page = await open();
  const there = page.evaluate(`lastByte(${JSON.stringify({ url: models.at('/model.bq4'), size })})`);
  await new Promise((resolve) => setTimeout(resolve, 500));
  const since = now();
  release();
  const ms = (await there) - since;
  await page.close();
  return ms;
}

/** @param {number} tokens @returns {Promise<Early>} */
async function once(tokens) {
  const release = hold();
  const page = await open();
  await page.evaluate(`sendEarly(${JSON.stringify({ url: models.at('/model.bq4'), tokens })})`);
  const all = (LAYERS - 1) * Math.ceil(tokens / BATCH);
  for (let seen = -1; seen !== all; await new Promise((resolve) => setTimeout(resolve, 50))) {
    seen = await page.evaluate('slices()');
    if (seen > all) throw new Error(`${seen} slices of ${all} before the last byte`);
  }
  await new Promise((resolve) => setTimeout(resolve, 300));
  const since = now();
  release();
  const { at, step, prompt, head } = await page.evaluate('early()');
  await page.close();
  return {
    first: at - since,
    limit: tokens <= BATCH ? 2 * step + head : (prompt - head) / LAYERS + head,
    way: await mode(),
  };
}

try {
  console.log(
    `Chromium ${browser.version}, ${(size / 1e6).toFixed(0)} MB, medians (least–most) of ${rounds} rounds, milliseconds from the last byte to the first token`,
  );
  await once(16); // warms up
  /** @type {Record<number, Early[]>} */
  const all = Object.fromEntries(PROMPTS.map((tokens) => [tokens, []]));
  for (let round = 0; round < rounds; round++) for (const tokens of PROMPTS) all[tokens].push(await once(tokens));
  for (const tokens of PROMPTS) {
    const of = (/** @type {(one: Early) => number} */ what) => shown(summary(all[tokens].map(what)));
    console.log(
      `prompt of ${String(tokens).padStart(3)}: ${of(({ first }) => first)}, ${of(({ way: mode }) => mode)} of it the byte's own way`,
    );
    console.log(
      `  ${tokens <= BATCH ? 'two decode steps and the head' : 'its last layer and the head'}: ${of(({ limit }) => limit)}; ratio ${of(({ first, limit }) => first / limit)}, from the byte's arrival ${of(({ first, limit, way: mode }) => (first - mode) / limit)}`,
    );
  }
} catch (error) {
  browser.kill();
  throw error;
} finally {
  await browser.close();
  await Promise.all([site.close(), models.close()]);
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
}
