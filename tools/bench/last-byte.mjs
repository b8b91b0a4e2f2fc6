#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/last-byte.mjs [rounds]`: a prompt was sent while a model of some 90 MB was on its way; how long
// after the last byte its first token comes, in Chromium, one thread. The server holds the last byte back until all layers but one
// are computed. Beside it what should be left to do, measured warm in the same session: two decode steps and the head for short
// prompts, else a layer's share of the prompt's prefill and the head; and how long the byte itself is on its way to a page that
// throws it away, which is no time of ours. Both ends are read off the same machine's clock.
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
/** Tokens per prompt; the engine computes at most so many at once. */
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
/** @returns {() => void}  lets the last byte go */
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
