// Tests of the options `background` and `pressure`, in a page that another page hides and on a machine that reports CPU pressure. They use
// puppeteer, since pages that Playwright controls always count as visible.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import puppeteer from 'puppeteer-core';
import { findChromium } from '../../tools/setup/system.mjs';
import { until } from '../waiting.mjs';
import { spawnChromium } from './chromium.mjs';
import { failOnFaults, watchPage } from './console.mjs';
import { host } from './host.mjs';
import { missing } from './launch.mjs';

failOnFaults();

/** Begins a reply without end, whose tokens and paces the page counts. @param {{ background: string, pressure?: string }} manners */
async function begin(manners) {
  const js = '/js/index.js';
  const { createWorkerEngine } = await import(js);
  const engine = await createWorkerEngine({ threads: 1, ...manners });
  const seen = { tokens: 0, paces: /** @type {string[]} */ ([]) };
  Object.assign(window, { seen });
  engine.events.addEventListener('pace', (/** @type {any} */ { detail }) => seen.paces.push(detail.pace));
  const model = await engine.load('/models/chat.bq4', { contextTokens: 256 });
  Object.assign(window, { model });
  const text = async () => {
    for (;;) for await (const _ of model.generate('Once', { contextPolicy: 'shift' })) seen.tokens++;
  };
  void text();
}

describe('a polite engine in a real page', { skip: missing() }, () => {
  const profile = mkdtempSync(join(tmpdir(), 'bq4-polite-'));
  /** @type {Awaited<ReturnType<typeof spawnChromium>>} */
  let own;
  /** @type {Awaited<ReturnType<typeof host>>} */
  let site;
  /** @type {import('puppeteer-core').Browser} */
  let browser;
  /** @type {import('puppeteer-core').Page} */
  let page;
  /** @type {import('puppeteer-core').CDPSession} */
  let protocol;
  before(async () => {
    own = await spawnChromium(String(findChromium()), profile);
    site = await host();
    browser = await puppeteer.connect({ browserWSEndpoint: own.endpoint, defaultViewport: null });
    page = await browser.newPage();
    watchPage(page);
    await page.goto(site.url);
    // Before the engine begins to watch it.
    protocol = await page.createCDPSession();
    await protocol.send('Emulation.setPressureSourceOverrideEnabled', {
      enabled: true,
      source: 'cpu',
      metadata: { available: true },
    });
    await page.evaluate(begin, { background: 'pause', pressure: 'slow' });
  });
  after(async () => {
    await browser?.disconnect();
    own?.program.kill('SIGKILL');
    await own?.exit;
    await site?.close();
    rmSync(profile, { recursive: true, force: true });
  });

  const seen = (of = page) => of.evaluate(() => /** @type {any} */ (window).seen);
  const continues = async (of = page) => {
    const { tokens } = await seen(of);
    await until('more tokens', async () => (await seen(of)).tokens > tokens + 2);
  };

  test('an engine pauses while its page is hidden and continues when it is visible', async () => {
    await continues();
    const other = await browser.newPage();
    await other.bringToFront();
    await until('the pause', async () => (await seen()).paces.at(-1) === 'pause');
    assert.equal(await page.evaluate(() => document.visibilityState), 'hidden');
    const { tokens } = await seen();
    // The engine has answered: what it had computed before would have come before that.
    for (let trip = 0; trip < 3; trip++) await page.evaluate(() => /** @type {any} */ (window).model.memory());
    assert.equal((await seen()).tokens, tokens, 'nothing comes in a pause');
    await page.bringToFront();
    await until('the end of the pause', async () => (await seen()).paces.at(-1) === 'full');
    await continues();
    await other.close();
  });

  test('an engine is slow under CPU pressure, and then as fast as before', async () => {
    await page.bringToFront();
    for (const [state, pace] of /** @type {const} */ ([
      ['critical', 'slow'],
      ['nominal', 'full'],
    ])) {
      await protocol.send('Emulation.setPressureStateOverride', { source: 'cpu', state });
      await until(`${state}: ${pace}`, async () => (await seen()).paces.at(-1) === pace);
    }
    await continues();
  });

  test("with background: 'slow' a hidden page is slow and does not stop", async () => {
    const one = await browser.newPage();
    watchPage(one);
    await one.goto(site.url);
    await one.evaluate(begin, { background: 'slow' });
    await continues(one);
    await page.bringToFront();
    await until('the slow pace', async () => (await seen(one)).paces.at(-1) === 'slow');
    assert.equal(await one.evaluate(() => document.visibilityState), 'hidden');
    await continues(one);
    await one.bringToFront();
    await until('the end of it', async () => (await seen(one)).paces.at(-1) === 'full');
    assert.deepEqual((await seen(one)).paces, ['slow', 'full']);
    await continues(one);
    await one.close();
  });
});
