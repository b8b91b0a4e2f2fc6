#!/usr/bin/env node
// `node_modules/.bin/node tools/bench/last-byte.mjs [rounds]`: sends a prompt during the download of a model of about 90 MB, and
// measures the time from the last byte to the first token, in Chromium with one thread. The server delays the last byte until all
// layers except one are computed. For comparison it measures the remaining work, warm, in the same session: two decode steps and the LM
// head for short prompts, otherwise one layer's share of the prefill and the LM head. It also measures the transfer of the last byte to a
// page that discards it, which does not depend on bq4. Server and browser are on the same machine, so their clocks agree.
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { faultServer } from '../../tests/server/faults.mjs';
import { PUBLIC, serve } from '../serve.mjs';
import { ROOT } from '../setup/setup.mjs';
import { startPlainBrowser } from './plain-browser.mjs';
import { formatSummary, summary } from './stats.mjs';

const rounds = Number(process.argv[2] ?? 5);
const LAYERS = 30;
/** Numbers of tokens of the prompts, and the largest number of tokens that the engine computes in one batch. */
const [PROMPT_TOKENS, BATCH_TOKENS] = [[16, 32, 128], 32];
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
const browser = await startPlainBrowser(profile);

/**
 * Milliseconds from the last byte to the first token, of the work that remains then, and of the transfer of the last byte.
 * @typedef {{ first: number, limit: number, transfer: number }} Measurement
 */

const openPage = () => browser.open(`${site.url}tools/bench/loading.html`, 'globalThis.sendEarly');
/** Delays the last byte of the file. @returns {() => void}  function that sends it */
function delayLastByte() {
  let release = () => {};
  models.faults = [{ stall: size - 1, until: new Promise((resolve) => (release = () => resolve(undefined))) }];
  return release;
}

/** Returns the milliseconds of the transfer of the last byte to a page. */
async function measureTransfer() {
  const release = delayLastByte();
  const page = await openPage();
  const arrival = page.evaluate(`measureLastByte(${JSON.stringify({ url: models.at('/model.bq4'), size })})`);
  await new Promise((resolve) => setTimeout(resolve, 500));
  const start = now();
  release();
  const ms = (await arrival) - start;
  await page.close();
  return ms;
}

/** Measures one prompt in a new page. @param {number} tokens @returns {Promise<Measurement>} */
async function measureOnce(tokens) {
  const release = delayLastByte();
  const page = await openPage();
  await page.evaluate(`sendEarly(${JSON.stringify({ url: models.at('/model.bq4'), tokens })})`);
  const workUnits = (LAYERS - 1) * Math.ceil(tokens / BATCH_TOKENS);
  for (let computed = -1; computed !== workUnits; await new Promise((resolve) => setTimeout(resolve, 50))) {
    computed = await page.evaluate('countWorkUnits()');
    if (computed > workUnits)
      throw new Error(`expected ${workUnits} work units before the last byte, found ${computed}`);
  }
  await new Promise((resolve) => setTimeout(resolve, 300));
  const start = now();
  release();
  const { at, step, prompt, head } = await page.evaluate('measureEarlyPrompt()');
  await page.close();
  return {
    first: at - start,
    limit: tokens <= BATCH_TOKENS ? 2 * step + head : (prompt - head) / LAYERS + head,
    transfer: await measureTransfer(),
  };
}

try {
  console.log(
    `Chromium ${browser.version}, ${(size / 1e6).toFixed(0)} MB, medians (smallest–largest) of ${rounds} rounds, milliseconds from the last byte to the first token`,
  );
  await measureOnce(16); // warm-up
  /** @type {Record<number, Measurement[]>} */
  const results = Object.fromEntries(PROMPT_TOKENS.map((tokens) => [tokens, []]));
  for (let round = 0; round < rounds; round++)
    for (const tokens of PROMPT_TOKENS) results[tokens].push(await measureOnce(tokens));
  for (const tokens of PROMPT_TOKENS) {
    const format = (/** @type {(measurement: Measurement) => number} */ select) =>
      formatSummary(summary(results[tokens].map(select)));
    console.log(
      `prompt of ${String(tokens).padStart(3)}: ${format(({ first }) => first)}, of these ${format(({ transfer }) => transfer)} for the transfer`,
    );
    console.log(
      `  ${tokens <= BATCH_TOKENS ? 'two decode steps and the LM head' : 'the last layer and the LM head'}: ${format(({ limit }) => limit)}; ratio ${format(({ first, limit }) => first / limit)}, without the transfer ${format(({ first, limit, transfer }) => (first - transfer) / limit)}`,
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
