// Tests of the search page with the real all-MiniLM-L6-v2: texts are found by meaning, the nearest sentence is marked, unrelated texts are
// not shown, and a reload keeps model and texts.
import assert from 'node:assert/strict';
import axe from 'axe-core';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { convert } from '../../js/convert/index.js';
import { createEngine, fromFile } from '../../js/node.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { serve } from '../../tools/serve.mjs';
import { pdfOf, scannedPdf } from '../tools/pdf.mjs';
import { newPage, oneHost, openDemo, ready, ROOT, setSampling, say, ui } from './site.mjs';

const here = oneHost();
const folder = mkdtempSync(join(tmpdir(), 'bq4-search-'));
after(() => rmSync(folder, { recursive: true }));
const minilm = realModel('minilm');

const NOTES = `The boiler is serviced every October. Its filter is behind the left panel.

Our cat likes fish, but not the tinned kind.

Trains to the coast leave at seven and at nine; buy the ticket before.`;

/** Adds the notes and finds a passage of them. @param {import('./site.mjs').Page} page */
async function findInNotes(page) {
  await page
    .locator('#files')
    .setInputFiles([{ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from(NOTES) }]);
  await page.locator('#status', { hasText: /^notes\.txt is read\.$/ }).waitFor();
  await page.locator('#ask').fill('when does the railway go to the sea');
  await page.locator('#found li').first().filter({ hasText: 'Trains to the coast' }).waitFor();
}

/** The hub has the model. @param {import('./site.mjs').Page} page @returns {Promise<string[]>}  what is asked of it */
async function serveHub(page) {
  /** @type {string[]} */
  const asked = [];
  const file = join(folder, 'hub.bq4');
  await convert(String(minilm), file, { quant: 'bq8' });
  const all = readFileSync(file);
  const path = '/second-state/All-MiniLM-L6-v2-Embedding-GGUF/resolve/main/all-MiniLM-L6-v2-Q8_0.gguf';
  await page.context().route('https://huggingface.co/**', async (route) => {
    const request = route.request();
    const { pathname } = new URL(request.url());
    asked.push(pathname);
    const headers = {
      'access-control-allow-origin': '*',
      'access-control-allow-headers': '*',
      'access-control-expose-headers': '*',
    };
    if (request.method() === 'OPTIONS') return route.fulfill({ status: 204, headers });
    if (pathname !== path) return route.fulfill({ status: 404, headers });
    const [, from = '0', to = ''] = /^bytes=(\d+)-(\d*)$/.exec(request.headers().range ?? '') ?? [];
    const end = Math.min(to ? Number(to) : Infinity, all.length - 1);
    const range = { 'content-range': `bytes ${from}-${end}/${all.length}`, etag: '"minilm"' };
    return route.fulfill({
      status: 206,
      body: all.subarray(Number(from), end + 1),
      headers: { ...headers, ...range },
    });
  });
  return asked;
}

test(
  'texts are found by what they mean; model and texts are there again',
  {
    skip: minilm ? false : NO_REAL_MODEL,
  },
  async () => {
    const file = join(folder, 'minilm.bq4');
    await convert(String(minilm), file, { quant: 'bq8' });
    const page = await newPage(here.browser);
    await page.goto(`${here.site.url}demo/`);
    await page.goto(
      String(
        await page
          .getByRole('link', { name: 'Search your own texts by meaning', includeHidden: true })
          .evaluate((link) => /** @type {HTMLAnchorElement} */ (link).href),
      ),
    );
    const status = (/** @type {RegExp} */ words) => page.locator('#status', { hasText: words }).waitFor();
    await status(/^Download the search model, or open its file/);

    await page.locator('#model').setInputFiles(join(ROOT, 'models/chat.bq4'));
    await page.getByRole('alert').getByText('The search needs an embedding model').waitFor();
    await page.locator('#model').setInputFiles(file);
    await status(/^Ready: add a text to search in\.$/);
    const photo = { name: 'photo.jpg', mimeType: 'image/jpeg', buffer: Buffer.from([0xff, 0xd8, 0, 1]) };
    await page.locator('#files').setInputFiles(photo);
    await page.getByRole('alert').getByText("“photo.jpg” isn't a text file or PDF").waitFor();
    await page.locator('#files').setInputFiles([
      {
        name: 'notes.txt',
        mimeType: 'text/plain',
        buffer: Buffer.from(NOTES.replaceAll('\n\n', `\n\n${' '.repeat(3)}`)),
      },
      {
        name: 'soup.md',
        mimeType: 'text/markdown',
        buffer: Buffer.from('# Soup\n\nLeeks, potatoes and cream; twenty minutes on the stove.'),
      },
    ]);
    await status(/^soup\.md is read\.$/);
    const first = page.locator('#found li').first();
    const ask = async (/** @type {string} */ text, /** @type {string} */ part) => {
      await page.locator('#ask').fill(text);
      await first.filter({ hasText: part }).waitFor();
    };
    await ask('What can I cook for dinner?', 'Leeks');
    await ask('when does the railway go to the sea', 'Trains to the coast');
    assert.equal(
      await first.locator('mark').textContent(),
      'Trains to the coast leave at seven and at nine; buy the ticket before.',
    );
    await ask('maintenance of the heating', 'boiler');
    assert.equal(await first.locator('mark').textContent(), 'The boiler is serviced every October.');
    await ask('quantum chromodynamics', 'Nothing in your texts is about this.');
    assert.equal(await page.locator('#found li').count(), 1);

    await page.evaluate(axe.source);
    const { violations } = await page.evaluate(() => /** @type {any} */ (globalThis).axe.run());
    assert.deepEqual(
      violations.map((/** @type {any} */ v) => `${v.id}: ${v.nodes.map((/** @type {any} */ n) => n.html).join(' ')}`),
      [],
    );
    await page.reload();
    await status(/^Ready/);
    await ask('something warm to eat', 'Leeks');
    await page.getByRole('button', { name: 'Remove all texts' }).click();
    await status(/removed/);
    assert.equal(await page.locator('#found li').count(), 0);
    assert.deepEqual(page.trouble, []);
    await page.context().close();
  },
);

const MIXED = `The stapler is in the top drawer. Our landlord lives in Porto. Tuesday is the day for paper and glass. The password of the printer is on its back. Grandmother was born in a lighthouse. The car takes diesel. Ferns want shade and damp soil.`;

test(
  'a passage of many things is found by one of its sentences; a second model sorts what is found, at the next visit, too',
  { skip: minilm ? false : NO_REAL_MODEL },
  async (t) => {
    const file = join(folder, 'minilm-sorted.bq4');
    await convert(String(minilm), file, { quant: 'bq8' });
    // It sorts by random weights: what matters is that the order is its own.
    const second = join(folder, 'second.bq4');
    await convert(join(ROOT, 'tests/golden/rerankers/bert'), second, { quant: 'f32' });
    const page = await newPage(here.browser, { viewport: { width: 320, height: 800 } });
    t.after(() => page.context().close());
    await page.goto(`${here.site.url}demo/search.html`);
    const status = (/** @type {RegExp} */ words) => page.locator('#status', { hasText: words }).waitFor();
    await status(/^Download the search model, or open its file/);
    await page.locator('#model').setInputFiles(file);
    await status(/^Ready/);
    await findInNotes(page);
    await page
      .locator('#files')
      .setInputFiles([{ name: 'mixed.txt', mimeType: 'text/plain', buffer: Buffer.from(MIXED) }]);
    await status(/^mixed\.txt is read/);
    const found = page.locator('#found li');
    const question = 'how do I care for plants';
    await page.locator('#ask').fill('where is grandma from');
    await found.filter({ hasText: 'Ferns' }).waitFor();
    assert.equal(await found.first().locator('mark').textContent(), 'Grandmother was born in a lighthouse.');
    await page.locator('#ask').fill(question);

    await page.locator('#files').setInputFiles([
      {
        name: 'garden.txt',
        mimeType: 'text/plain',
        buffer: Buffer.from(
          ['Water the roses at dawn.', 'Tomatoes need six hours of sun.', 'Cut the hedge in autumn, never in spring.']
            .map((text) => `${text} ${text.toLowerCase()} So says the book about gardens.`)
            .join('\n\n'),
        ),
      },
    ]);
    await status(/^garden\.txt is read/);
    await found.nth(3).waitFor();
    const shown = () => found.locator('p').allTextContents();
    const bySimilarity = await shown();
    // Neither is kept for the next visit.
    const kinds = join(folder, 'kinds.bq4');
    await convert(join(ROOT, 'tests/golden/rerankers/distilbert'), kinds, { quant: 'f32' });
    for (const [wrong, words] of [
      [join(ROOT, 'models/chat.bq4'), 'This model writes'],
      [kinds, 'This model only classifies texts'],
    ]) {
      await page.locator('#reranker').setInputFiles(wrong);
      await page.getByRole('alert').getByText(words).waitFor();
    }
    await page.locator('#reranker').setInputFiles(second);
    await found
      .filter({ hasText: /fits \d+ %/ })
      .first()
      .waitFor();
    const engine = await createEngine({ threads: 1 });
    t.after(() => engine.close());
    const ranked = await (await engine.load(fromFile(second))).rerank(question, bySimilarity);
    const byReranker = ranked.map(({ document }) => document);
    assert.notDeepEqual(byReranker, bySimilarity);
    assert.deepEqual(await shown(), byReranker);
    await page.getByText('The second model, second.bq4, puts the best results first.').waitFor();
    await page.locator('#ask').fill('quantum chromodynamics');
    await found.filter({ hasText: 'Nothing in your texts is about this.' }).waitFor();

    await page.evaluate(axe.source);
    const { violations } = await page.evaluate(() => /** @type {any} */ (globalThis).axe.run());
    assert.deepEqual(
      violations.map((/** @type {any} */ { id, nodes }) => `${id}: ${nodes[0].html}`),
      [],
    );
    const small = await page.evaluate(() =>
      [...document.querySelectorAll('main button, main .file')]
        .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 40)
        .map((one) => one.textContent),
    );
    assert.deepEqual(small, []);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));

    await page.reload();
    await page.getByText('puts the best results first').waitFor();
    await page.locator('#ask').fill(question);
    await found
      .filter({ hasText: /fits \d+ %/ })
      .first()
      .waitFor();
    assert.deepEqual(await shown(), byReranker);
    await page.getByRole('button', { name: 'Stop using it' }).click();
    await status(/no longer used/);
    assert.deepEqual(await shown(), bySimilarity);
    await page.reload();
    await status(/^Ready/);
    await page.locator('#ask').fill(question);
    await found.nth(3).waitFor();
    assert.deepEqual(await shown(), bySimilarity);
    assert.deepEqual(page.trouble, []);
  },
);

test(
  'what `npm start` has made of it is used by a press, stays, and is offered to no chat',
  { skip: minilm ? false : NO_REAL_MODEL },
  async (t) => {
    // As `npm start` calls it, in a cache folder that has nothing but the model.
    const cache = join(folder, 'cache');
    mkdirSync(join(cache, 'models'), { recursive: true });
    symlinkSync(String(minilm), join(cache, 'models/minilm'));
    const script = `import('${new URL('../../tools/setup/embedder.mjs', import.meta.url)}').then((m) => m.provideEmbedder())`;
    execFileSync(process.execPath, ['-e', script], { env: { ...process.env, BQ4_CACHE: cache } });
    const site = await serve({ root: ROOT, models: join(cache, 'models') });
    t.after(site.close);
    const page = await newPage(here.browser);
    await page.goto(`${site.url}demo/search.html`);
    await page.getByRole('button', { name: /^Use all-MiniLM-L6-v2 of this machine \(24\.\d MB\)$/ }).click();
    const status = (/** @type {RegExp} */ words) => page.locator('#status', { hasText: words }).waitFor();
    await status(/^Ready/);
    await findInNotes(page);

    await page.waitForFunction(async () => {
      const folder = await navigator.storage.getDirectory();
      const file = await folder.getFileHandle('bq4-search-model').catch(() => null);
      return ((await file?.getFile())?.size ?? 0) > 0;
    });
    /** @type {string[]} */
    const asked = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.reload();
    await status(/^Ready/);
    assert.ok(asked.length && !asked.some((url) => url.includes('/local/')), asked.join('\n'));
    await page.goto(`${site.url}demo/`);
    await ui(page).models.click();
    await page.locator('#stored', { hasText: 'SmolLM2' }).waitFor();
    assert.doesNotMatch(String(await page.locator('#stored').textContent()), /MiniLM/);
    assert.deepEqual(page.trouble, []);
    await page.context().close();
  },
);

test(
  'the model is downloaded from the hub by a button, and is there again without a request',
  { skip: minilm ? false : NO_REAL_MODEL },
  async () => {
    const page = await newPage(here.browser);
    await page.context().route('https://huggingface.co/**', (route) => route.abort());
    await page.goto(`${here.site.url}demo/search.html`);
    const download = page.getByRole('button', { name: 'Download the model (25 MB, once)' });
    await download.click();
    const status = (/** @type {RegExp} */ words) => page.locator('#status', { hasText: words }).waitFor();
    await page.getByRole('alert').getByText('The model could not be downloaded.').waitFor();
    await status(/ was not loaded\.$/);
    await page.context().unroute('https://huggingface.co/**');
    const asked = await serveHub(page);
    await download.click();
    await status(/^Ready/);
    assert.equal(await page.getByRole('alert').textContent(), '');
    await findInNotes(page);
    assert.ok(asked.length > 0);
    const pdf = (/** @type {Uint8Array} */ bytes) => ({
      name: 'ferry.pdf',
      mimeType: 'application/pdf',
      buffer: Buffer.from(bytes),
    });
    await page.locator('#files').setInputFiles(pdf(scannedPdf()));
    await page.getByRole('alert').getByText('“ferry.pdf” has no text, only pictures of pages').waitFor();
    await page.locator('#files').setInputFiles(pdf(pdfOf(['The ferry to the island leaves at nine.'])));
    await status(/^ferry\.pdf is read/);
    await page.context().route('https://huggingface.co/**', (route) => route.abort());
    await page.reload();
    await status(/^Ready/);
    await page.context().close();
  },
);

test(
  'in a chat the passages of a long text are found by their meaning, once the search model is downloaded',
  { skip: minilm ? false : NO_REAL_MODEL },
  async () => {
    const page = await newPage(here.browser);
    await openDemo(page, here.site.url);
    await setSampling(page, { temperature: '0', maxTokens: '4' });
    const asked = await serveHub(page);
    const filler =
      'Hills, rivers and weather are what this paragraph speaks of, as so many others of this text do. '.repeat(4);
    const text = [filler, filler, NOTES, filler, filler, filler].join('\n\n').repeat(3);
    await page
      .locator('#attachment')
      .setInputFiles([{ name: 'house.txt', mimeType: 'text/plain', buffer: Buffer.from(text) }]);
    await page.getByRole('list', { name: 'Attachments' }).getByRole('listitem').waitFor();
    await say(page, 'maintenance of the heating');
    const excerpt = ui(page).messages.first().locator('.excerpt');
    await excerpt.locator('summary').click();
    await excerpt.getByText(/the words of your question|the first ones/).waitFor();
    assert.equal(asked.length, 0);
    await excerpt.getByRole('button', { name: /^Find passages by meaning/ }).click();
    await page.getByText('The search model is ready').waitFor();
    await page.getByRole('button', { name: 'Regenerate the reply' }).first().click();
    await ready(page);
    await excerpt.getByText('those nearest to your question in meaning').waitFor({ state: 'attached' });
    await excerpt.locator('li').filter({ hasText: 'boiler' }).first().waitFor({ state: 'attached' });
    assert.ok(asked.length > 0);
    assert.deepEqual(page.trouble, []);
    await page.context().close();
  },
);
