// Tests of the pages of examples/: each one performs its task.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { chromiumFirst, oneSite } from './every.mjs';
import { host, ISOLATED } from './host.mjs';
import { ROOT } from './site.mjs';
import { serve } from '../../tools/serve.mjs';
import { modelsFolder, realModel } from '../../tools/setup/models.mjs';
import { SCHEMA } from '../../examples/form/schema.js';
import { validator } from '../js/validator.mjs';

const FOLDER = join(ROOT, 'examples');
/** hosts/ is no page, but apps that show one (tests/js/hosts.long.mjs). */
const NAMES = readdirSync(FOLDER, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && entry.name !== 'hosts')
  .map(({ name }) => name);

test('each is on the page of examples, short, and every link there leads somewhere', () => {
  const index = readFileSync(join(FOLDER, 'index.html'), 'utf8');
  const links = [...index.matchAll(/href="([^"]+)"/g)].map(([, href]) => href).filter((href) => !href.includes(':'));
  for (const href of links) assert.ok(existsSync(join(FOLDER, href)), href);
  for (const name of NAMES) {
    assert.ok(links.includes(`${name}/`) || links.includes(`${name}/README.md`), name);
    const lines = readdirSync(join(FOLDER, name)).flatMap((file) =>
      readFileSync(join(FOLDER, name, file), 'utf8').split('\n'),
    );
    assert.ok(lines.length <= 300, `${name}: ${lines.length} lines`);
  }
});

await chromiumFirst((name) => {
  const here = oneSite(name, ISOLATED);

  test('no page is wider than a window of 320 pixels', async () => {
    for (const example of ['', ...NAMES.map((folder) => `${folder}/`)]) {
      if (!existsSync(join(FOLDER, example, 'index.html'))) continue;
      const page = await here.open(`examples/${example}`);
      await page.size(320, 600);
      // Windows of Firefox and WebKitGTK have a larger minimum width.
      const [width, windowWidth] = await page.evaluate(() => [document.scrollingElement?.scrollWidth, innerWidth]);
      assert.ok(width <= windowWidth && windowWidth < 600, `${example}: ${width} of ${windowWidth} pixels`);
      await page.close();
    }
  });

  /** @param {string} example @param {string} button  that can be pressed once its model is there */
  async function open(example, button) {
    const page = await here.open(`examples/${example}/`);
    await page.until((id) => /** @type {any} */ (document.querySelector(id))?.disabled === false, `#${button}`);
    return page;
  }
  /** @param {import('./browsers.mjs').Page} page @param {string} id */
  const textOf = (page, id) => page.evaluate((at) => document.querySelector(at)?.textContent ?? '', `#${id}`);
  /** @param {import('./browsers.mjs').Page} page */
  async function close(page) {
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  }

  test('chat: a reply streams, another one is stopped', async () => {
    const page = await open('chat', 'send');
    await page.type('#message', 'Tell me a story.');
    await page.click('#send');
    await page.until(() => /tokens/.test(document.querySelector('#status')?.textContent ?? ''));
    assert.match(await textOf(page, 'log'), /Tell me a story\.\S*.{20}/s);
    await page.type('#message', 'Another one.');
    await page.click('#send');
    await page.until(() => Boolean(document.querySelector('#log')?.lastElementChild?.textContent));
    await page.evaluate(() => document.getElementById('stop')?.click());
    await page.until(() => /** @type {any} */ (document.querySelector('#send')).disabled === false);
    await close(page);
  });

  test('react: a reply streams, another one takes its place, the next is stopped', async () => {
    const page = await open('react', 'send');
    await page.evaluate(() => {
      const all = Object.assign(globalThis, { replies: 0 });
      const status = /** @type {HTMLElement} */ (document.querySelector('#status'));
      const count = () => void (status.textContent === 'Writing…' && all.replies++);
      new MutationObserver(count).observe(status, { childList: true, characterData: true, subtree: true });
    });
    /** @param {number} replies @param {number} messages */
    const written = (replies, messages) =>
      page.until(
        (wanted) =>
          document.querySelector('#status')?.textContent === 'Ready.' &&
          `${/** @type {any} */ (globalThis).replies} ${document.querySelectorAll('#log p').length}` === wanted,
        `${replies} ${messages}`,
      );
    await page.type('#message', 'Tell me a story.');
    await page.click('#send');
    await written(1, 2);
    assert.match(await textOf(page, 'log'), /^Tell me a story\..{20}/s);
    await page.click('#again');
    await written(2, 2);
    await page.type('#message', 'Another one.');
    await page.click('#send');
    await page.until(() => Boolean(document.querySelectorAll('#log p')[3]?.textContent));
    await page.evaluate(() => document.getElementById('stop')?.click());
    await written(3, 4);
    await close(page);
  });

  test('form: the text is valid and fills the fields', async () => {
    const page = await open('form', 'fill');
    await page.click('#fill');
    await page.until(() => /Filled in/.test(document.querySelector('#status')?.textContent ?? ''));
    const value = JSON.parse(await textOf(page, 'json'));
    assert.ok(validator(SCHEMA)(value), JSON.stringify(value));
    const fields = await page.evaluate(() =>
      Object.fromEntries(new FormData(/** @type {any} */ (document.querySelector('#fields')))),
    );
    assert.deepEqual(fields, Object.fromEntries(Object.entries(value).map(([key, one]) => [key, String(one)])));
    await close(page);
  });

  test('form and search: a better local model fills in the right words and finds the right paragraph', async (t) => {
    if (!realModel('smollm2')) return t.skip('SmolLM2 is not on this machine');
    const site = await serve({ root: ROOT, models: modelsFolder() });
    /** @param {string} example @param {string} button  that shows what the model can do */
    async function openWithOffer(example, button) {
      const page = await here.browser.open(`${site.url}examples/${example}/`);
      await page.until(() => Boolean(document.querySelector('#offer button')));
      assert.match(await textOf(page, 'offer'), /on this machine$/);
      await page.click('#offer button');
      await page.until(() => /^Ready, with/.test(document.querySelector('#status')?.textContent ?? ''));
      await page.click(button);
      return page;
    }
    const form = await openWithOffer('form', '#fill');
    await form.until(() => Boolean(document.querySelector('#json')?.textContent));
    assert.deepEqual(JSON.parse(await textOf(form, 'json')), { name: 'Ann Lee', age: 34, tickets: 3, day: 'Friday' });
    await form.close();
    const [embedder] = await (await fetch(`${site.url}demo/local.json?embedders`)).json();
    if (embedder) {
      const search = await openWithOffer('search', '#find');
      await search.until(() => document.querySelectorAll('#found li').length === 3);
      assert.match(await search.evaluate(() => document.querySelector('#found li')?.textContent ?? ''), /^It rained/);
      await search.close();
    }
    await site.close();
  });

  test('choose: probabilities of the answers sum to one', async () => {
    const page = await open('choose', 'ask');
    await page.click('#ask');
    await page.until(() => document.querySelectorAll('#answer label').length === 2);
    const shares = [...(await textOf(page, 'answer')).matchAll(/([\d.]+) %/g)].map(([, share]) => Number(share));
    assert.ok(Math.abs(shares.reduce((a, b) => a + b) - 100) < 0.2, shares.join());
    await close(page);
  });

  test('search: the paragraph that equals the question is first', async () => {
    const page = await open('search', 'find');
    await page.evaluate(() => {
      const field = /** @type {HTMLInputElement} */ (document.querySelector('#question'));
      field.value = 'Mum made a cake with apples.';
    });
    await page.click('#find');
    await page.until(() => document.querySelectorAll('#found li').length === 3);
    const first = await page.evaluate(() => document.querySelector('#found li')?.textContent ?? '');
    assert.match(first, /cake with apples\. \(1\.000\)/);
    await close(page);
  });

  test('offline: from the second visit on the page writes a story without a network', async () => {
    const own = await host(ISOLATED);
    const page = await here.browser.open(`${own.url}examples/offline/`);
    /** @param {RegExp} says */
    const ready = (says) =>
      page.until(
        (pattern) => new RegExp(pattern).test(document.querySelector('#status')?.textContent ?? ''),
        says.source,
      );
    await ready(/^Ready/);
    await page.reload();
    await ready(/without a network/);
    await own.close();
    await page.reload();
    await ready(/without a network/);
    await page.click('#tell');
    await page.until(() => String(document.querySelector('#story')?.textContent).length > 40);
    await page.close();
  });

  test('tabs: the page computes for itself and for other tabs', async () => {
    const page = await open('tabs', 'tell');
    assert.match(await textOf(page, 'status'), /This tab computes/);
    await page.click('#tell');
    await page.until(
      () =>
        /** @type {any} */ (document.querySelector('#tell')).disabled === false &&
        String(document.querySelector('#story')?.textContent).length > 10,
    );
    await close(page);
  });
});
