// Tests of the requests of a first visit of the demo, from the site and from the sources. tools/bench/visits.mjs measures its duration over
// a slow connection.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { makeSite, SITE } from '../../tools/site.mjs';
import { DEMO_LIMIT } from '../../tools/size.mjs';
import { serve } from '../../tools/serve.mjs';
import { pdfOf } from '../tools/pdf.mjs';
import { waitUntilOffline, newPage, oneHost, openDemo, plainHost, ready, ROOT, say, texts } from './site.mjs';

const here = oneHost({ sources: true });
before(() => makeSite());

/** A page with the demo's service worker. @param {import('playwright-core').BrowserContextOptions} [options] */
const visitor = (options) => newPage(here.browser, { serviceWorkers: 'allow', ...options });

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

test('the site sends few responses before the first word, and no unnecessary bytes', async (t) => {
  const site = await serve({ root: SITE });
  t.after(site.close);
  const page = await visitor();
  const all = asked(page);
  await openDemo(page, site.url);
  assert.match(await say(page, 'Hello!'), /\w/);
  // Scripts of service workers are fetched when all is stored, which may be before the reply has ended.
  const scripts = all
    .map(({ path }) => path.replace('demo/', ''))
    .filter((path) => path.endsWith('.js') && !['sw.js', 'root.js'].includes(path));
  // The page; the engine; each of its threads, whose script a busy driver may not see, or see late.
  const own = ['app.js', 'theme.js', 'worker.js', 'thread.js'];
  assert.deepEqual([...new Set([...scripts, 'thread.js'])].sort(), own.sort());
  const zipped = (/** @type {string} */ name) => gzipSync(readFileSync(join(SITE, 'demo', name)), { level: 9 }).length;
  assert.ok(zipped('theme.js') <= 30_000, 'all that the first paint waits for');
  const scriptBytes = own.reduce((sum, name) => sum + zipped(name), 0);
  assert.ok(scriptBytes <= 90_100, `${scriptBytes} bytes of scripts before the first message`);
  assert.ok(all.length <= 20, all.map(({ path }) => path).join(' '));
  const databases = await page.evaluate(async () => (await indexedDB.databases()).map(({ name }) => name));
  assert.deepEqual(databases, [], 'only a visit with a local file stores a handle');
  // The engine's module is compiled meanwhile, and the page is kept when all this is there.
  const order = all.map(({ path }) => path);
  assert.ok(
    order.indexOf('models/chat.bq4') < order.findIndex((path) => /-threads\.wasm$/.test(path)),
    order.join(' '),
  );
  const size = (/** @type {RegExp} */ of) =>
    all.filter(({ path }) => of.test(path)).reduce((sum, { bytes }) => sum + bytes, 0);
  const model = readFileSync(join(ROOT, 'models/chat.bq4')).length;
  assert.ok(size(/chat\.bq4$/) < 1.05 * model, `${size(/chat\.bq4$/)} bytes of a model of ${model}`);
  assert.ok(size(/^(?!models)/) < 620_000, `${size(/^(?!models)/)} bytes besides, not compressed`);
  assert.deepEqual(page.trouble, []);
  await page.context().close();
});

test('the site lists the requests of the page and of its workers', async (t) => {
  const site = await serve({ root: SITE });
  t.after(site.close);
  const page = await visitor();
  await openDemo(page, site.url);
  await page.getByRole('button', { name: 'Details' }).click();
  await page.getByRole('heading', { name: 'Network requests' }).click();
  for (const path of ['/demo/app.js', '/build/wasm/bq4-probe.wasm'])
    await page
      .getByRole('region', { name: 'Requests' })
      .getByRole('cell', { name: path, exact: true })
      .first()
      .waitFor();
  await page.context().close();
});

test('a page of the site that was left during its first download requests only the rest', async (t) => {
  const site = await serve({ root: SITE });
  t.after(site.close);
  const page = await visitor();
  const all = asked(page);
  await page.addInitScript(() => sessionStorage.setItem('bq4.isolating', 'yes'));
  /** @type {(value?: undefined) => void} */
  let free = () => {};
  const held = new Promise((resolve) => (free = resolve));
  await page.route('**/build/wasm/*.wasm', async (route) => {
    await held;
    await route.continue().catch(() => {}); // of the visit before
  });
  const requested = page.context().waitForEvent('request', (request) => request.url().includes('chat.bq4'));
  await page.goto(site.url);
  assert.equal((await requested).headers().range, undefined, 'whole, before the engine has its module');
  const later = page.context().waitForEvent('request', (request) => request.url().includes('chat.bq4'));
  free();
  await page.reload();
  assert.match(String((await later).headers().range), /^bytes=0-/);
  await ready(page);
  assert.match(await say(page, 'Hello!'), /\w/);
  assert.ok(all.length > 0);
  await page.context().close();
});

test('on a host without headers, the visit with shared memory waits only for necessary files', async (t) => {
  const host = await plainHost('/some/where');
  t.after(host.close);
  const page = await visitor();
  await page.goto(host.url);
  await page.waitForFunction(() => crossOriginIsolated);
  await ready(page);
  await waitUntilOffline(page);
  const [model, library] = ['models/chat.bq4', 'node_modules/temml/dist/temml.mjs'];
  const order = host.paths.filter((path) => path === model || path === library);
  assert.equal(order[0], model, host.paths.join(' '));
  assert.ok(order.includes(library));
  await page.context().close();
});

test('the site is stored completely, and starts and formats without a network', async (t) => {
  const site = await serve({ root: SITE });
  t.after(site.close);
  const page = await visitor();
  await openDemo(page, site.url);
  await waitUntilOffline(page);
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

test('the demo of the site links to the examples, and each of their pages starts', async (t) => {
  const site = await serve({ root: SITE });
  t.after(site.close);
  const page = await visitor();
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

test('nothing moves after the first paint, at a first visit and at a second (CLS below 0.02)', async () => {
  for (const viewport of [
    { width: 1400, height: 900 },
    { width: 1024, height: 700 },
    { width: 390, height: 844 },
  ]) {
    const page = await visitor({ viewport });
    await page.addInitScript(() => {
      const shifts = Object.assign(globalThis, { shifts: /** @type {any[]} */ ([]) }).shifts;
      new PerformanceObserver((list) => {
        for (const entry of /** @type {any[]} */ (list.getEntries())) if (!entry.hadRecentInput) shifts.push(entry);
      }).observe({ type: 'layout-shift', buffered: true });
      // A busy browser may give the page its size after the first paint: what moved for that does not count.
      addEventListener('resize', () => requestAnimationFrame(() => requestAnimationFrame(() => shifts.splice(0))));
    });
    const assertStill = async (/** @type {string} */ visit) => {
      await waitUntilOffline(page);
      const { sum, moved } = await page.evaluate(() => {
        const shifts = /** @type {any[]} */ (/** @type {any} */ (globalThis).shifts);
        /** @param {DOMRect} rect */
        const box = ({ x, y, width, height }) => `${x},${y} ${width}x${height}`;
        const moved = shifts.flatMap(({ startTime, sources }) =>
          sources.map(
            (/** @type {any} */ { node, previousRect, currentRect }) =>
              `${node?.id || node?.className || node?.nodeName} from ${box(previousRect)} to ${box(currentRect)} at ${Math.round(startTime)} ms`,
          ),
        );
        return { sum: shifts.reduce((all, { value }) => all + value, 0), moved };
      });
      assert.ok(sum < 0.02, `${visit} visit, ${viewport.width} pixels wide: ${sum} by ${moved.join('; ')}`);
    };
    await openDemo(page, here.site.url);
    await page.locator('#offer-cards', { hasText: ' here' }).waitFor({ state: 'attached' });
    await assertStill('first');
    await say(page, 'Hello!');
    await page.reload();
    await ready(page);
    await assertStill('second');
    await page.context().close();
  }
});

test(`of the sources: the demo's own scripts, as a browser asks for them, have at most ${DEMO_LIMIT} bytes gzipped`, async () => {
  const page = await visitor();
  const all = asked(page);
  await openDemo(page, here.site.url);
  assert.match(await say(page, 'Hello!'), /\w/);
  await waitUntilOffline(page);
  const own = new Set(all.map(({ path }) => path).filter((path) => /^demo\/.*\.js$/.test(path)));
  assert.ok(own.size > 30 && !own.has('demo/chat/markdown.js'), [...own].join(' '));
  const bytes = [...own, 'demo/sw.js']
    .map((path) => gzipSync(readFileSync(join(ROOT, path)), { level: 9 }).length)
    .reduce((sum, one) => sum + one, 0);
  assert.ok(bytes <= DEMO_LIMIT, `${bytes} bytes`);
  await page.context().close();
});
