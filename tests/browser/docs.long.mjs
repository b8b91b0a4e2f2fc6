// Tests of the output of `npm run site` on a simple host: every link has a target, every document is readable on a narrow screen without
// scripts, and an example runs.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, normalize, relative, sep } from 'node:path';
import { after, before, describe, test } from 'node:test';
import axe from 'axe-core';
import { writeDocs } from '../../tools/docs/make.mjs';
import { testFolder } from '../js/folders.mjs';
import { failOnFaults } from './console.mjs';
import { launch, missing } from './launch.mjs';
import { folderHost } from './packed.mjs';
import { newPage, ROOT } from './site.mjs';

failOnFaults();

const BASE = 'some/project';
const { folder } = testFolder('docs');
const SITE = join(folder, BASE);
before(() => writeDocs(SITE));

/** Its pages, from the site's root. */
const pages = () =>
  readdirSync(SITE, { recursive: true, encoding: 'utf8' })
    .map((name) => name.split(sep).join('/'))
    .filter((name) => name.endsWith('.html') && !name.startsWith('node_modules/'));
const isDocument = (/** @type {string} */ name) => !/^(demo|examples\/.*index|examples\/extension\/panel)/.test(name);
const htmlOf = (/** @type {string} */ page) => readFileSync(join(SITE, page), 'utf8');

test('every link, image and anchor of the site leads to a part of it, by a relative address', () => {
  const broken = [];
  let links = 0;
  for (const page of pages())
    for (const [, found] of htmlOf(page).matchAll(/\s(?:href|src)="([^"]*)"/g)) {
      const href = found.replaceAll('&amp;', '&');
      if (/^(https?:|data:)/.test(href)) continue;
      links++;
      const [path, hash] = href.split('#');
      let target = path ? join(SITE, dirname(page), decodeURIComponent(path.split('?')[0])) : join(SITE, page);
      const inside = !relative(SITE, normalize(target)).startsWith('..') && !path.startsWith('/');
      if (existsSync(target) && statSync(target).isDirectory()) target = join(target, 'index.html');
      const there = inside && existsSync(target) && !target.endsWith('.md');
      if (!there || (hash && !readFileSync(target, 'utf8').includes(` id="${decodeURIComponent(hash)}"`)))
        broken.push(`${page}: ${href}`);
    }
  assert.deepEqual(broken, []);
  assert.ok(links > 500, `${links}`);
});

test('every document is in the navigation of every other; none has a script, each has a policy', () => {
  const docs = ['docs', 'docs/guides', 'docs/reference', 'docs/inside'].flatMap((path) =>
    readdirSync(join(ROOT, path))
      .filter((name) => name.endsWith('.md'))
      .map((name) => `${path}/${name.replace('.md', '.html')}`),
  );
  const wanted = ['index.html', 'CHANGELOG.html', ...docs];
  for (const page of pages().filter(isDocument)) {
    const html = htmlOf(page);
    assert.ok(!/<script|<[a-z][^<>]*\s(?:on\w+|style)=/.test(html), page);
    assert.ok(/http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'self';/.test(html), page);
    const [nav] = /<nav[^]*?<\/nav>/.exec(html) ?? [''];
    const linked = [...nav.matchAll(/href="([^"]+)"/g)].map(([, href]) => join(dirname(page), href));
    assert.deepEqual(
      wanted.filter((name) => !linked.includes(name)),
      [],
      page,
    );
  }
  for (const page of pages().filter((name) => /^examples\/.*index/.test(name)))
    assert.match(htmlOf(page), /http-equiv="Content-Security-Policy"[^>]*'wasm-unsafe-eval'/, page);
});

describe('in a browser', { skip: missing() }, () => {
  /** @type {import('playwright-core').Browser} */
  let browser;
  /** @type {Awaited<ReturnType<typeof folderHost>>} */
  let host;
  before(async () => {
    host = await folderHost(folder);
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await host?.close();
  });

  test('links lead from the first page to the reference and to an example that replies', async () => {
    const page = await newPage(browser);
    await page.goto(`${host.url}${BASE}/`);
    await page.getByRole('navigation').getByText('Reference', { exact: true }).click();
    await page.getByRole('navigation').getByRole('link', { name: 'Overview' }).click();
    await page.getByRole('heading', { level: 1, name: 'Reference' }).waitFor();
    await page.getByRole('main').getByRole('link', { name: 'load and engine' }).click();
    await page.getByRole('main').getByRole('link', { name: 'ports' }).first().click();
    await page.waitForURL(/\/docs\/reference\/load-and-engine\.html#ports$/);
    assert.ok(await page.locator('#ports').evaluate((heading) => heading.getBoundingClientRect().top < innerHeight));
    await page.getByRole('navigation').getByRole('link', { name: 'Examples' }).click();
    await page.getByRole('link', { name: 'Chat', exact: true }).click();
    await page.locator('#send:enabled').waitFor();
    await page.locator('#message').fill('Tell me a story.');
    await page.locator('#send').click();
    await page.waitForFunction(() => /tokens/.test(document.querySelector('#status')?.textContent ?? ''));
    assert.match(String(await page.locator('#log').textContent()), /Tell me a story\..{20}/s);
    assert.deepEqual(page.trouble, []);
    await page.context().close();
  });

  test('the navigation leads to the demo first, lists guides in their order, and leaves room for the text on a phone', async () => {
    const page = await newPage(browser, { viewport: { width: 390, height: 844 } });
    await page.goto(`${host.url}${BASE}/docs/guides/compare.html`);
    const links = await page.getByRole('navigation').getByRole('link').allTextContents();
    assert.deepEqual(links.slice(0, 3), ['bq4', 'The chat demo', 'Examples']);
    assert.deepEqual(
      (await page.locator('nav summary').allTextContents()).filter((title) => links.includes(title)),
      [],
      'no name twice',
    );
    const [first, second, last] = ['A first chat', 'Choose a model', 'Compare with other runtimes'].map((name) =>
      links.indexOf(name),
    );
    assert.ok(0 < first && first < second && second < last, links.join(', '));
    const top = await page.getByRole('heading', { level: 1 }).evaluate((title) => title.getBoundingClientRect().top);
    assert.ok(top < 844 / 3, `${top} pixels`);
    const cell = await page.getByRole('cell', { name: 'Chrome 100, Firefox 114, Safari 16.4' }).boundingBox();
    assert.ok(Number(cell?.width) >= 140, `a cell of ${cell?.width} pixels`);
    await page.context().close();
  });

  test('the demo and every example work on the site with the policy of the page', async () => {
    const shown = pages().filter((name) => /^(demo|examples\/\w+)\/index\.html$/.test(name));
    assert.ok(shown.length >= 8, shown.join());
    for (const name of shown) {
      const page = await newPage(browser);
      await page.goto(`${host.url}${BASE}/${name}`);
      await page
        .getByRole('status')
        .filter({ hasText: /^(Ready|This tab computes)/ })
        .first()
        .waitFor();
      assert.deepEqual(page.trouble, [], name);
      await page.context().close();
    }
  });

  for (const colorScheme of /** @type {const} */ (['light', 'dark']))
    test(`every document fits 320 pixels; axe finds nothing serious: ${colorScheme}`, async () => {
      const page = await newPage(browser, { viewport: { width: 320, height: 640 }, colorScheme });
      for (const name of pages().filter(isDocument)) {
        await page.goto(`${host.url}${BASE}/${name}`);
        const width = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(width <= 320, `${name}: ${width}`);
        if (!/^(index|docs\/(guides|reference|MODELS|benchmarks))/.test(name)) continue;
        await page.evaluate(axe.source);
        // In the dark only colours differ.
        const options = colorScheme === 'dark' ? { runOnly: ['color-contrast'] } : {};
        const { violations, passes } = await page.evaluate(
          (options) => /** @type {any} */ (globalThis).axe.run(options),
          options,
        );
        assert.ok(passes.length > (colorScheme === 'dark' ? 0 : 10), 'axe looked at the page');
        const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
        assert.deepEqual(
          serious.map(({ id, nodes }) => `${name} ${id}: ${nodes[0].html}`),
          [],
        );
      }
      assert.deepEqual(page.trouble, []);
      await page.context().close();
    });
});
