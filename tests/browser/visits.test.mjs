// What a first visit of the demo asks for, of the site that is made and of the sources. How long that takes over a slow
// line, tools/bench/visits.mjs measures.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { makeSite, SITE } from '../../tools/site.mjs';
import { DEMO_LIMIT } from '../../tools/size.mjs';
import { serve } from '../../tools/serve.mjs';
import { pdfOf } from '../tools/pdf.mjs';
import { kept, newPage, oneHost, openDemo, ready, ROOT, say, texts } from './site.mjs';

const here = oneHost();
before(() => makeSite());

/** What the page and its workers ask for. @param {import('playwright-core').Page} page */
function asked(page) {
  /** @type {{ path: string, bytes: number }[]} */
  const all = [];
  page.context().on('response', (response) => {
    if (response.request().serviceWorker() || !response.ok()) return;
    const bytes = Number(response.headers()['content-length']);
    all.push({ path: new URL(response.url()).pathname.slice(1), bytes });
  });
  return all;
}

test('of the site: few responses before the first word, no more bytes than it takes', async (t) => {
  const site = await serve({ root: SITE });
  t.after(site.close);
  const page = await newPage(here.browser);
  const all = asked(page);
  await openDemo(page, site.url);
  assert.match(await say(page, 'Hello!'), /\w/);
  const scripts = all.filter(({ path }) => path.endsWith('.js')).map(({ path }) => path.replace('demo/', ''));
  // The page; the engine, and what it guesses with, which comes while the prompt is computed; each of its threads.
  const own = ['app.js', 'theme.js', 'worker.js', 'worker-more.js', 'worker-prompt-lookup.js', 'thread.js'];
  assert.deepEqual([...new Set(scripts)].sort(), own.sort());
  assert.ok(all.length <= 20, all.map(({ path }) => path).join(' '));
  const size = (/** @type {RegExp} */ of) =>
    all.filter(({ path }) => of.test(path)).reduce((sum, { bytes }) => sum + bytes, 0);
  const model = readFileSync(join(ROOT, 'models/chat.bq4')).length;
  assert.ok(size(/chat\.bq4$/) < 1.05 * model, `${size(/chat\.bq4$/)} bytes of a model of ${model}`);
  assert.ok(size(/^(?!models)/) < 620_000, `${size(/^(?!models)/)} bytes besides, not compressed`);
  assert.deepEqual(page.trouble, []);
  await page.context().close();
});

test('of the site: all parts are kept, and it starts and formats without a network', async (t) => {
  const site = await serve({ root: SITE });
  t.after(site.close);
  const page = await newPage(here.browser);
  await openDemo(page, site.url);
  await kept(page);
  await site.close();
  const stored = await page.evaluate(async () => {
    const name = (await caches.keys()).find((one) => /-[0-9a-f]{16}$/.test(one));
    const all = await (await caches.open(String(name))).keys();
    return all.map(({ url }) => new URL(url).pathname.replace('/demo/', ''));
  });
  const needed = readdirSync(join(SITE, 'demo')).filter((name) => name.endsWith('.js') && name !== 'sw.js');
  assert.deepEqual(
    needed.filter((name) => !stored.includes(name)),
    [],
  );
  const turns = [
    { id: 'a', parent: null, role: 'user', content: 'Hello!' },
    { id: 'b', parent: 'a', role: 'assistant', content: '**Hello** there.' },
  ];
  await page.evaluate((entries) => {
    localStorage.setItem('bq4.chat.x', JSON.stringify({ version: 2, entries, leaf: 'b' }));
    sessionStorage.setItem('bq4.open', 'x');
  }, turns);
  await page.reload();
  await ready(page);
  await page.locator('.formatted strong').waitFor();
  assert.match(await say(page, 'Tell me a joke'), /\w/);
  assert.equal((await texts(page)).length, 4);
  const buffer = pdfOf(['A page without a network.']);
  await page.locator('#attachment').setInputFiles({ name: 'page.pdf', mimeType: 'application/pdf', buffer });
  const chip = page.getByRole('list', { name: 'Attachments' }).getByRole('listitem');
  assert.equal(await chip.getAttribute('title'), '[Page 1]\nA page without a network.');
  await page.context().close();
});

test('of the site: the demo leads to the examples, and each page of them begins', async (t) => {
  const site = await serve({ root: SITE });
  t.after(site.close);
  const page = await newPage(here.browser);
  await openDemo(page, site.url);
  const examples = await page.locator('a[href="../examples/"]').evaluate((link) => /** @type {any} */ (link).href);
  await page.goto(examples);
  const links = await page
    .locator('a[href]')
    .evaluateAll((all) => all.map((link) => /** @type {any} */ (link).href).filter((url) => !url.includes('/demo/')));
  const pages = links.filter((url) => url.endsWith('/'));
  assert.ok(pages.length >= 7, `${links}`);
  for (const url of links) {
    assert.equal((await fetch(url)).status, 200, url);
    if (!pages.includes(url)) continue;
    await page.goto(url);
    await page.locator('button:enabled').first().waitFor();
  }
  assert.deepEqual(page.trouble, []);
  await page.context().close();
});

test(`of the sources: the demo's own scripts, as a browser asks for them, have at most ${DEMO_LIMIT} bytes gzipped`, async () => {
  const page = await newPage(here.browser);
  const all = asked(page);
  await openDemo(page, here.site.url);
  assert.match(await say(page, 'Hello!'), /\w/);
  await kept(page);
  const own = new Set(all.map(({ path }) => path).filter((path) => /^demo\/.*\.js$/.test(path)));
  assert.ok(own.size > 30 && !own.has('demo/chat/markdown.js'), [...own].join(' '));
  const bytes = [...own, 'demo/sw.js']
    .map((path) => gzipSync(readFileSync(join(ROOT, path)), { level: 9 }).length)
    .reduce((sum, one) => sum + one, 0);
  assert.ok(bytes <= DEMO_LIMIT, `${bytes} bytes`);
  await page.context().close();
});
