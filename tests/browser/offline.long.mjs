// Tests of the demo without a network after a first visit, and on different hosts.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { serve } from '../../tools/serve.mjs';
import { expectFaults, failOnFaults } from './console.mjs';
import { launch } from './launch.mjs';
import { waitUntilOffline, newPage, openDemo, plainHost, ready, ROOT, say, texts, ui } from './site.mjs';
import { until } from '../waiting.mjs';

failOnFaults();

/** @type {import('playwright-core').Browser} */
let browser;
/** @type {(() => Promise<unknown>)[]} */
const cleanup = [];

before(async () => {
  browser = await launch();
});
after(() => browser?.close());
afterEach(async () => {
  for (const work of cleanup.splice(0).reverse()) await work();
});

/** @param {import('playwright-core').BrowserContextOptions} [options] */
async function watched(options) {
  const page = await newPage(browser, { serviceWorkers: 'allow', ...options });
  cleanup.push(() => page.context().close());
  return page;
}

/** Counts the loads of a page. @param {import('playwright-core').Page} page */
function visits(page) {
  let n = 0;
  page.on('domcontentloaded', () => n++);
  return () => n;
}

/** Returns the number of stored versions, complete or not. @param {import('playwright-core').Page} page */
const countVersions = (page) =>
  page.evaluate(async () => (await caches.keys()).filter((name) => /-[0-9a-f]{16}$/.test(name)).length);

/** Opens the demo on a host without headers and waits for the visit that shares memory. @param {import('playwright-core').Page} page @param {string} url */
async function isolatedDemo(page, url) {
  await page.goto(url);
  await page.waitForFunction(() => crossOriginIsolated);
  await ready(page);
}

/**
 * Opens the demo on a host without headers and waits until it is stored.
 * @param {string} base @param {Record<string, string>} [prefixes]  as of plainHost
 */
async function storedDemo(base, prefixes) {
  const host = await plainHost(base, prefixes);
  cleanup.push(host.close);
  const page = await watched();
  await isolatedDemo(page, host.url);
  await waitUntilOffline(page);
  return { host, page };
}

test('without a network the demo continues and starts again', async () => {
  const site = await serve({ root: ROOT });
  cleanup.push(site.close);
  const page = await watched();
  await openDemo(page, site.url);
  await waitUntilOffline(page);
  await page.waitForFunction(
    async () => (await navigator.serviceWorker.getRegistration('/'))?.active?.state === 'activated',
  );
  await page.context().setOffline(true);
  await site.close();
  cleanup.shift();
  const reply = await say(page, 'Hello!');
  assert.match(reply, /\w/);
  await page.reload();
  await ready(page);
  assert.deepEqual(await texts(page), ['Hello!', reply]);
  assert.match(await say(page, 'Tell me a joke'), /\w/);
  // A second tab, with a query, as from a link.
  const tab = await page.context().newPage();
  await openDemo(tab, `${site.url}demo/?from=elsewhere`);
  assert.match(await say(tab, 'Hello!'), /\w/);
  // The server's root address, which only leads to the page.
  const root = await page.context().newPage();
  await openDemo(root, `${site.url}?from=elsewhere`);
  assert.equal(root.url(), `${site.url}demo/?from=elsewhere`);
  await root.close();
  // Threads too come out of what was stored.
  const threads = await tab.evaluate(async () => {
    const js = '/js/index.js';
    const { createWorkerEngine } = await import(js);
    const worker = new Worker('/demo/worker.js', { type: 'module' });
    const { info, close } = await createWorkerEngine({ worker, threads: 2, threadUrl: '/demo/thread.js' });
    await close();
    return info;
  });
  assert.equal(threads.threads, 2, threads.threadsReason);
  // What could not be asked for anew is noise of the network, not of the page.
  assert.deepEqual(
    page.trouble.filter((line) => !/ERR_(INTERNET_DISCONNECTED|CONNECTION_REFUSED|FAILED)/.test(line)),
    [],
  );
});

test('on a host without headers, in a subfolder, the policy applies and the demo works offline', async () => {
  const host = await plainHost('/some/where');
  cleanup.push(host.close);
  const page = await watched();
  const loads = visits(page);
  await isolatedDemo(page, host.url);
  assert.equal(loads(), 2, 'the page reloads itself once');
  assert.match(await say(page, 'Hello!'), /\w/);
  await waitUntilOffline(page);
  assert.deepEqual(page.trouble, []);

  expectFaults(/^policy: /);
  const violated = await page.evaluate(async () => {
    /** @type {string[]} */
    const directives = [];
    addEventListener('securitypolicyviolation', (e) => directives.push(e.effectiveDirective));
    document.body.append(Object.assign(document.createElement('script'), { textContent: 'document.title = "inline"' }));
    document.body.setAttribute('onclick', 'document.title = "handler"');
    document.body.click();
    document.body.append(Object.assign(document.createElement('img'), { src: 'https://elsewhere.invalid/x.png' }));
    document.body.append(Object.assign(document.createElement('style'), { textContent: 'body { color: red }' }));
    await fetch('https://elsewhere.invalid/').catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 100));
    return { directives, title: document.title };
  });
  assert.deepEqual(violated.directives.sort(), [
    'connect-src',
    'img-src',
    'script-src-attr',
    'script-src-elem',
    'style-src-elem',
  ]);
  assert.match(violated.title, / · bq4$/);

  await host.close();
  cleanup.splice(0, 1);
  await page.reload();
  await ready(page);
  assert.match(await say(page, 'Hello!'), /\w/);
});

test('without headers and without a service worker: one thread, no reload', async () => {
  const host = await plainHost('/y');
  cleanup.push(host.close);
  const refused = await watched({ serviceWorkers: 'block' });
  const once = visits(refused);
  await openDemo(refused, host.url);
  assert.match(await say(refused, 'Hello!'), /\w/);
  assert.equal(await refused.evaluate(() => crossOriginIsolated), false);
  assert.equal(once(), 1);

  // A service worker that runs, but whose headers come to nothing: after one reload it gives up.
  const page = await watched();
  await page.addInitScript(() => Object.defineProperty(globalThis, 'crossOriginIsolated', { value: false }));
  const loads = visits(page);
  await openDemo(page, host.url);
  await waitUntilOffline(page);
  await page.reload();
  await ready(page);
  assert.match(await say(page, 'Hello!'), /\w/);
  assert.equal(loads(), 3, 'the first, the one it asked for itself, the one asked for here');
});

test('the bundled model is fetched once, and its address names its file', async () => {
  const id = readFileSync(join(ROOT, 'models/chat.bq4')).subarray(40, 44).toString('hex');
  const { host, page } = await storedDemo('/m');
  const fetched = () => host.paths.filter((path) => path === 'models/chat.bq4').length;
  const before = fetched();
  await page.reload();
  await ready(page);
  assert.match(await say(page, 'Hello!'), /\w/);
  await waitUntilOffline(page);
  assert.equal(fetched(), before + 1, 'but for a glimpse, on a host that knows no ranges');
  await ui(page).models.click();
  await page.locator('#stored li[data-url]').waitFor();
  const stored = await page
    .locator('#stored li[data-url]')
    .evaluateAll((rows) => rows.map((row) => /** @type {HTMLElement} */ (row).dataset.url));
  assert.deepEqual(stored, [`${host.url.replace('demo/', '')}models/chat.bq4?${id}`]);
  assert.equal(await page.getByRole('button', { name: 'Kept: Tiny (built in)' }).getAttribute('aria-pressed'), 'true');
});

test('the service worker stores exactly the files that visits need', async () => {
  const { host, page } = await storedDemo('/x');
  const stored = await page.evaluate(async () => {
    const requests = await Promise.all(
      (await caches.keys())
        .filter((name) => /-[0-9a-f]{16}$/.test(name))
        .map(async (name) => (await caches.open(name)).keys()),
    );
    return requests.flat().map((request) => new URL(request.url).pathname.replace('/x/', ''));
  });
  // What a visit asks for, then what the browser asks for when it imports everything that is stored.
  const plain = await watched({ serviceWorkers: 'block' });
  host.paths.length = 0;
  await openDemo(plain, host.url);
  const modules = stored.filter((path) => path.startsWith('js/') && !/thread\.js$|worker\.js$/.test(path));
  await plain.evaluate((paths) => Promise.all(paths.map((path) => import(`/x/${path}`))), modules);
  const needed = new Set(host.paths);
  needed.delete('demo/sw.js');
  needed.delete('models/chat.bq4'); // in the engine's store
  needed.delete('demo/local.json'); // of this machine, not of the page
  assert.deepEqual(
    [...needed].filter((path) => !stored.includes(path)),
    [],
  );
  // Some of what is imported on demand: files of version 1, traces, other stores; the other builds.
  for (const path of [
    'js/format/bq4/companion.js',
    'js/engine/model/trace.js',
    'js/storage/cache/cache-api.js',
    'js/storage/sources/retry.js',
    'demo/thread.js',
    'js/io-worker.js',
  ])
    assert.ok(stored.includes(path), path);
  assert.equal(
    stored.filter((path) => path.endsWith('.wasm')).length,
    15,
    'six builds, kernels of rare types for each, the probe, grammars, converters',
  );
  assert.deepEqual(
    stored.filter(
      (path) =>
        !/^(demo|js|classifiers|build\/wasm|node_modules\/@huggingface\/jinja\/dist|node_modules\/(marked\/lib|temml\/dist|@highlightjs\/cdn-assets\/es|pdfjs-dist\/legacy\/build))\//.test(
          path,
        ),
    ),
    [],
  );
});

test('the service worker responds with the stored version, and ignores ranges and other files', async () => {
  const site = await serve({ root: ROOT });
  cleanup.push(site.close);
  const page = await watched();
  await openDemo(page, site.url);
  await waitUntilOffline(page);
  await page.reload();
  await ready(page);
  assert.ok(await page.evaluate(() => Boolean(navigator.serviceWorker.controller)));
  assert.deepEqual(page.trouble, []);
  const get = (/** @type {string} */ path, /** @type {Record<string, string>} */ headers = {}) =>
    page.evaluate(
      async ([path, headers]) => {
        try {
          const response = await fetch(/** @type {string} */ (path), { headers: /** @type {any} */ (headers) });
          return `${response.status}: ${(await response.text()).slice(0, 5)}`;
        } catch {
          return 'failed';
        }
      },
      [path, headers],
    );
  // What is kept is what comes, whatever the network has.
  await page.evaluate(async () => {
    const cache = await caches.open((await caches.keys()).find((name) => /-[0-9a-f]{16}$/.test(name)) ?? '');
    await cache.put(
      new URL('style.css', location.href).href,
      new Response('stale', { headers: { 'content-type': 'text/css' } }),
    );
  });
  assert.equal(await get('style.css'), '200: stale');
  assert.equal(await get('../models/chat.bq4', { Range: 'bytes=0-3' }), '206: BQ4F');
  await site.close();
  cleanup.shift();
  assert.equal(await get('style.css'), '200: stale');
  assert.equal(await get('../models/chat.bq4'), 'failed', 'models are none of its business');
  assert.equal(await get('../models/README.md'), 'failed');
});

test('a second visit starts without the network; a new version is stored completely, offered and used completely', async () => {
  /** @type {Record<string, string>} */
  const changes = {};
  const { host, page } = await storedDemo('/v', changes);
  // Everything but the look behind is silent: nothing that the start waits for comes from there.
  host.hold = true;
  await page.reload();
  await ready(page);
  assert.match(await say(page, 'Hello!'), /\w/);
  host.release();

  const other = await page.context().newPage();
  await isolatedDemo(other, host.url);
  // Two files that belong together change: neither is seen alone.
  changes['demo/style.css'] = ':root { --version: 2 }\n';
  changes['demo/page/format.js'] = 'document.documentElement.dataset.version = 2;\n';
  const seen = () =>
    page.evaluate(() => [
      getComputedStyle(document.documentElement).getPropertyValue('--version').trim(),
      document.documentElement.dataset.version ?? '',
    ]);
  await page.reload();
  await ready(page);
  assert.deepEqual(await seen(), ['', '']);
  await page.getByText('A new version of this page is ready.').waitFor();
  await page.getByRole('button', { name: 'Reload', exact: true }).click();
  await page.getByText('Close the other tabs of this page to get the new version.').waitFor();
  assert.deepEqual(await seen(), ['', '']);
  await other.close();
  await page.evaluate(() => navigator.serviceWorker.controller?.postMessage('take'));
  await page.waitForFunction(() => document.documentElement.dataset.version === '2');
  await ready(page);
  assert.deepEqual(await seen(), ['2', '2']);
  assert.match(await say(page, 'Hello!'), /\w/);
  assert.equal(await countVersions(page), 1, 'the old version is gone');
  assert.deepEqual(
    page.trouble.filter((line) => !/ERR_/.test(line)),
    [],
  );
});

test('a page that a host sends in place of a script, or of all files, never replaces the stored version', async () => {
  const { host, page } = await storedDemo('/h');
  for (const path of ['demo/worker.js', 'demo/']) {
    host.isReplaced = (other) => path === 'demo/' || other === path;
    const count = () => host.paths.filter((other) => other === path).length;
    for (let visit = 0; visit < 3; visit++) {
      const before = count();
      await page.reload();
      await ready(page);
      await until(`a request for ${path}`, () => count() > before);
    }
  }
  assert.equal(await countVersions(page), 1);
});

test('a new version that does not fit into storage takes no space', async () => {
  /** @type {Record<string, string>} */
  const changes = {};
  const { host, page } = await storedDemo('/q', changes);
  const devtools = await page.context().newCDPSession(page);
  const { usage } = await page.evaluate(() => navigator.storage.estimate());
  const { origin } = new URL(host.url);
  await devtools.send('Storage.overrideQuotaForOrigin', { origin, quotaSize: Number(usage) + 1e6 });
  changes['demo/style.css'] = ':root { --version: 2 }\n';
  const count = () => host.paths.filter((path) => path === 'demo/').length;
  const before = count();
  await page.reload();
  await ready(page);
  await until('the files to be fetched twice', () => count() === before + 2);
  // The next check begins when this one has ended.
  await page.reload();
  await ready(page);
  await until('the next check', () => count() === before + 3);
  host.isReplaced = () => true; // so that it stores nothing
  assert.equal(await countVersions(page), 1);
});

test('the demo works in a browser that refuses service workers', async () => {
  const site = await serve({ root: ROOT });
  cleanup.push(site.close);
  const page = await watched({ serviceWorkers: 'block' });
  await page.addInitScript(() => {
    navigator.serviceWorker.register = () => Promise.reject(new DOMException('refused', 'SecurityError'));
  });
  await openDemo(page, site.url);
  await page
    .locator('[data-stat="offline"]', { hasText: 'no: the page could not be stored' })
    .waitFor({ state: 'attached' });
  assert.match(await say(page, 'Hello!'), /\w/);
  assert.deepEqual(page.trouble, []);
  assert.equal(await ui(page).alert.count(), 0);
});

test('a service worker that does not load delays nothing else', async () => {
  const site = await serve({ root: ROOT });
  cleanup.push(site.close);
  const page = await watched({ serviceWorkers: 'block' });
  await page.addInitScript(() => {
    navigator.serviceWorker.register = () => new Promise(() => {});
  });
  await openDemo(page, site.url);
  await page
    .locator('[data-stat="offline"]', { hasText: 'Saving the page and the model…' })
    .waitFor({ state: 'attached' });
  await page.locator('[data-stat="context"]', { hasText: 'of 1,024 tokens' }).waitFor({ state: 'attached' });
  await ui(page).models.click();
  await page.waitForFunction(() => document.querySelectorAll('#stored li').length > 1);
  await page.keyboard.press('Escape');
  assert.match(await say(page, 'Hello!'), /\w/);
  assert.deepEqual(page.trouble, []);
});

test('a reply continues when the service worker is killed', async () => {
  const { page } = await storedDemo('/k');
  await ui(page).message.fill('Tell me a story');
  await ui(page).send.click();
  await page.waitForFunction(() => document.querySelectorAll('[role=log] article').length === 2);
  const devtools = await page.context().newCDPSession(page);
  /** @type {Set<string>} */
  const states = new Set();
  devtools.on('ServiceWorker.workerVersionUpdated', ({ versions }) =>
    versions.forEach(({ runningStatus }) => states.add(runningStatus)),
  );
  await devtools.send('ServiceWorker.enable');
  await devtools.send('ServiceWorker.stopAllWorkers');
  await ready(page);
  assert.ok(states.has('stopped'), [...states].join());
  assert.match(String((await texts(page)).at(-1)), /\w/);
  assert.match(await say(page, 'Hello!'), /\w/);
  await page.reload();
  await ready(page);
  assert.equal(await page.evaluate(() => crossOriginIsolated), true, 'it has come back');
  assert.match(await say(page, 'Hello!'), /\w/);
  assert.deepEqual(page.trouble, []);
});

test('if the service worker loses its storage, files come from the network', async () => {
  const lost =
    "addEventListener('activate', () => { CacheStorage.prototype.open = () => Promise.reject(new DOMException('gone', 'UnknownError')); });\n";
  const host = await plainHost('/z', { 'demo/sw.js': lost });
  cleanup.push(host.close);
  const page = await watched();
  await isolatedDemo(page, host.url);
  assert.ok(await page.evaluate(() => Boolean(navigator.serviceWorker.controller)));
  assert.match(await say(page, 'Hello!'), /\w/);
  assert.deepEqual(page.trouble, []);
});

test('the start does not wait for a network that does not respond', async () => {
  const host = await plainHost('/s');
  cleanup.push(host.close);
  const page = await watched();
  await isolatedDemo(page, host.url);
  await waitUntilOffline(page);
  host.hold = true;
  await page.reload();
  await ready(page);
  assert.match(await say(page, 'Hello!'), /\w/);
});
