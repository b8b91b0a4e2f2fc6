// Engines with a cache in Chromium: tests that need a real browser. Servers count requests.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { PUBLIC, serve as serveSite } from '../../tools/serve.mjs';
import { tinyModel } from '../js/fixture.mjs';
import { faultServer } from '../server/faults.mjs';
import { failOnFaults } from './console.mjs';
import { launch, launchProcess, launchPersistent } from './launch.mjs';
import { takeNotes } from './notes.mjs';
import { newPage, ROOT } from './site.mjs';
import { inTime, until } from '../waiting.mjs';

failOnFaults();

/** @typedef {import('playwright-core').Page} Page */

const MiB = 1 << 20;
const LAYERS = 8;
const bytes = await tinyModel({ config: { layers: LAYERS, hidden: 256, ffn: 1024, heads: 4, kv_heads: 2 } });
const prefix = Number(new DataView(bytes.buffer).getBigUint64(24, true));
const chunks = Math.ceil((bytes.length - prefix) / MiB);

/** @type {Awaited<ReturnType<typeof serveSite>>} */
let site;
/** A profile on disk. @type {import('playwright-core').BrowserContext} */
let lasting;
/** @type {string} */
let profile;

before(async () => {
  site = await serveSite({ root: ROOT, folders: [...PUBLIC, 'tests'], policy: false });
  profile = mkdtempSync(join(tmpdir(), 'bq4-profile-'));
  lasting = await launchPersistent(join(profile, 'lasting'));
});
after(async () => {
  await lasting?.close();
  await site?.close();
  if (profile) rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
});

/** @template {Page} P @param {P} page */
async function ready(page) {
  await page.goto(`${site.url}tests/browser/blank.html`);
  return page;
}
const newTab = async () => ready(await lasting.newPage());
/** The file is known by its id, also at another address: the files of earlier tests are removed. @param {Page} page */
const forget = (page) =>
  page.evaluate(async () => {
    const { openStore } = await import(/** @type {string} */ ('/js/storage/cache/index.js'));
    const store = await openStore();
    await store.clear();
    await store.close();
  });

/** Returns the number of stored bytes of all files. @param {Page} page */
const keptBytes = (page) =>
  page.evaluate(async () => {
    const { openStore } = await import(/** @type {string} */ ('/js/storage/cache/index.js'));
    const store = await openStore();
    const { cachedBytes } = await store.usage();
    await store.close();
    return /** @type {number} */ (cachedBytes);
  });

/** Loads in a new worker and generates some tokens. @param {Page} page @param {string} url @param {object} [options] */
const load = (page, url, options = {}) =>
  inTime(
    `a load of ${url}`,
    page.evaluate(async ([url, options]) => {
      const { createWorkerEngine, fromUrl } = await import(/** @type {string} */ ('/js/index.js'));
      const engine = await createWorkerEngine({ threads: 1, build: 'simd128', cache: 'auto' });
      let problem = '';
      const onProgress = (/** @type {any} */ now) => {
        problem = now.cacheProblem || problem;
      };
      const source = fromUrl(url, { retries: 1, retryDelay: 1 });
      const plan = await engine.plan(source);
      const model = await engine.load(source, { ...options, onProgress });
      const session = await model.createSession();
      const { tokens: ids } = await session.generate('the quick', { temperature: 0, maxTokens: 6 }).result;
      await model.close();
      const list = await engine.store.list().catch(() => null);
      const { backend } = engine.store;
      await engine.close();
      return {
        ids: ids.join(),
        problem,
        backend,
        residency: model.info.residency,
        cached: plan.cached.bytes,
        complete: list?.some((/** @type {any} */ f) => f.url === url && f.complete),
      };
    }, /** @type {const} */ ([url, options])),
    { state: () => keptBytes(page).then((n) => `${n} bytes in the store`) },
  );

/** Returns the requested chunks. @param {{ range?: string }[]} requests */
function asked(requests) {
  const all = [];
  for (const { range } of requests) {
    const [from, to] = (/=(\d+)-(\d+)/.exec(String(range)) ?? []).slice(1).map(Number);
    for (let c = 0; c < chunks; c++)
      if (from < Math.min(prefix + (c + 1) * MiB, bytes.length) && to >= prefix + c * MiB && to > 65535) all.push(c);
  }
  return all.sort((a, b) => a - b);
}
const all = Array.from({ length: chunks }, (_, c) => c);

test('a model is fetched once, then loaded without requests, also without a server', async () => {
  const server = await faultServer(bytes);
  const page = await newTab();
  const first = await load(page, server.url);
  assert.deepEqual(
    { ...first, ids: '' },
    { ids: '', problem: '', backend: 'opfs', residency: 'resident', cached: 0, complete: true },
  );
  assert.deepEqual(asked(server.requests), all);
  server.forget();
  const second = await load(page, server.url);
  assert.deepEqual([second.ids, second.cached], [first.ids, bytes.length]);
  assert.deepEqual(server.requests, []);
  await server.close();
  assert.equal((await load(page, server.url)).ids, first.ids);
  await page.close();
});

test('two tabs share one download', async () => {
  const server = await faultServer(bytes, { step: 16384 });
  const tabs = [await newTab(), await newTab()];
  await forget(tabs[0]);
  const [one, two] = await Promise.all(tabs.map((page) => load(page, server.url)));
  assert.equal(one.ids, two.ids);
  assert.deepEqual(asked(server.requests), all);
  // Both fetch the first bytes, which a plan and a load need; the later tab finds the rest in the cache.
  assert.ok(server.requests.filter(({ range }) => range === 'bytes=0-65535').length <= 4);
  for (const page of tabs) await page.close();
  await server.close();
});

test('two tabs also share a header that is longer than the bytes a plan reads', async (t) => {
  const file = await tinyModel({ card: `# Long\n${'Noise. '.repeat(60_000)}` });
  const server = await faultServer(file, { step: 16384 });
  t.after(server.close);
  const tabs = [await newTab(), await newTab()];
  const [one, two] = await Promise.all(tabs.map((page) => load(page, server.url)));
  assert.equal(one.ids, two.ids);
  const twice = (server.sent - file.length) / 65536;
  assert.ok(
    [0, 1, 2, 3].includes(twice),
    `all once, but for the first bytes of two plans and two loads: ${twice} more`,
  );
  for (const page of tabs) await page.close();
});

test('a damaged file in the cache: only damaged chunks are fetched again', async () => {
  const server = await faultServer(bytes);
  const page = await newTab();
  await forget(page);
  const first = await load(page, server.url);
  server.forget();
  await page.evaluate(
    async (at) => {
      let folder = await (await navigator.storage.getDirectory()).getDirectoryHandle('bq4');
      for (const name of ['models', '']) {
        const names = [];
        for await (const [key, handle] of /** @type {any} */ (folder).entries())
          if (handle.kind === 'directory' && (!name || key === name)) names.push(key);
        folder = await folder.getDirectoryHandle(names[0]);
      }
      const out = await (await folder.getFileHandle('s0')).createWritable({ keepExistingData: true });
      await out.write({ type: 'write', position: at, data: new Uint8Array(100) });
      await out.close();
    },
    5 * MiB + 77,
  );
  const second = await load(page, server.url);
  assert.deepEqual([second.ids, second.problem, second.complete], [first.ids, '', true]);
  assert.deepEqual(asked(server.requests), [5]);
  server.forget();
  assert.equal((await load(page, server.url)).ids, first.ids);
  assert.deepEqual(server.requests, [], 'it has healed');
  await page.close();
  await server.close();
});

test('a load is aborted during the download and while it reads the cache; the next one continues', async () => {
  const server = await faultServer(bytes, { hold: prefix + 7.5 * MiB });
  const page = await newTab();
  await forget(page);
  /** Aborts when this number of bytes is cached; returns the cached bytes. @param {number} least */
  const aborted = (least) =>
    page.evaluate(async ([url, least]) => {
      const { createWorkerEngine, fromUrl } = await import(/** @type {string} */ ('/js/index.js'));
      const engine = await createWorkerEngine({ threads: 1, build: 'simd128', cache: 'auto' });
      const controller = new AbortController();
      const onProgress = async (/** @type {any} */ { loaded }) => {
        if (!loaded) return;
        for (let looks = 0; looks < 2000 && ((await engine.store.list())[0]?.cachedBytes ?? 0) < least; looks++)
          await new Promise((resolve) => setTimeout(resolve, 20));
        controller.abort();
      };
      const name = await engine
        .load(fromUrl(/** @type {string} */ (url)), { signal: controller.signal, onProgress })
        .catch((/** @type {any} */ error) => error.name);
      const [{ cachedBytes, complete }] = await engine.store.list();
      await engine.close();
      return { name, cachedBytes, complete };
    }, /** @type {const} */ ([server.url, least]));
  const first = await aborted(prefix + 7 * MiB);
  assert.deepEqual(first, { name: 'AbortError', cachedBytes: prefix + 7 * MiB, complete: false });
  server.forget();
  assert.deepEqual(await aborted(1), first, 'amid what is kept');
  server.faults = [];
  server.forget();
  const { complete } = await load(page, server.url);
  const fetched = asked(server.requests);
  assert.equal(complete, true);
  assert.deepEqual(fetched, all.slice((first.cachedBytes - prefix) / MiB), 'what was kept is not fetched again');
  await page.close();
  await server.close();
});

test('the browser is killed during a download: no verified chunk is fetched again', async (t) => {
  const server = await faultServer(bytes, { hold: prefix + 9.5 * MiB });
  const folder = join(profile, 'killed');
  const own = await launchProcess(folder);
  t.after(() => own.kill().catch(() => {}));
  const page = await ready(await own.page());
  const ended = load(page, server.url).then(() => 'it ended', String);
  // All complete chunks that arrive, by the stored bytes.
  await until('nine chunks in the store', async () => (await keptBytes(page)) === prefix + 9 * MiB, {
    every: 50,
    state: async () =>
      `${await keptBytes(page)} bytes there; of the load: ${await Promise.race([ended, 'it goes on'])}`,
  });
  await own.kill();
  server.faults = [];
  server.forget();
  const again = await launchProcess(folder);
  t.after(() => again.kill().catch(() => {}));
  const seen = await load(await ready(await again.page()), server.url);
  const fetched = asked(server.requests);
  assert.equal(seen.cached, prefix + 9 * MiB);
  assert.deepEqual(fetched, all.slice(9));
  assert.equal(seen.complete, true);
  await server.close();
});

/**
 * Loads in a browser whose storage is slow and which logs its operations; after `word` was logged this number of times, it is killed, and
 * another one loads with the same storage.
 * @param {import('node:test').TestContext} t @param {string} name  of a profile @param {Awaited<ReturnType<typeof faultServer>>} server @param {string} word @param {number} times
 */
async function killedAndAgain(t, name, server, word, times) {
  const folder = join(profile, name);
  const own = await launchProcess(folder);
  t.after(() => own.kill().catch(() => {}));
  const page = await ready(await own.page());
  const notes = await takeNotes(t);
  let n = 0;
  const last = notes.waitForLast(`${word} ${times} times`, (text) => text.startsWith(word) && ++n === times, true);
  await page.evaluate(([url, notes]) => {
    const worker = new Worker('/tests/browser/slow-store-worker.mjs', { type: 'module' });
    worker.onerror = ({ message }) => fetch(notes + encodeURIComponent(`failed: ${message}`));
    worker.postMessage([url, notes]);
  }, /** @type {const} */ ([server.url, notes.url]));
  await last;
  await own.kill();
  /** @type {Record<string, number[]>} */
  const report = { verified: [], kept: [], ahead: [], stored: [] };
  let most = 0;
  for (const text of notes.all) {
    const [what, c] = text.split(' ');
    report[what].push(Number(c));
    most = Math.max(most, report.verified.length - report.kept.length);
  }
  server.forget();
  server.faults = [];
  const again = await launchProcess(folder);
  t.after(() => again.kill().catch(() => {}));
  const { complete } = await load(await ready(await again.page()), server.url);
  const fetched = asked(server.requests);
  assert.equal(new Set(fetched).size, fetched.length, 'nothing twice');
  assert.equal(complete, true);
  return { said: report, most, fetched };
}

test('the browser is killed while storage is slower than the network: at most one verified chunk is fetched again', async (t) => {
  const server = await faultServer(bytes);
  const { said: message, most, fetched } = await killedAndAgain(t, 'slow', server, 'verified', 7);
  assert.equal(most, 1, 'verified and not yet kept');
  const twice = message.verified.filter((c) => fetched.includes(c));
  assert.ok(twice.length <= 1, `${twice} were verified and fetched again`);
  assert.deepEqual(
    message.kept.filter((c) => fetched.includes(c)),
    [],
  );
  await server.close();
});

test('the browser is killed while chunks are stored out of order: at most one is fetched again', async (t) => {
  // The first range stops in the third chunk; later ranges come completely.
  const server = await faultServer(bytes, ({ from }) => (from === 65536 ? { hold: prefix + 2.5 * MiB } : undefined));
  const { said: message, fetched } = await killedAndAgain(t, 'ahead', server, 'ahead', 5);
  assert.deepEqual(
    [message.kept, message.stored.length],
    [[0, 1], 4],
    'four whole ahead of their turn, the fifth under way',
  );
  assert.ok(message.stored.every((c) => c > 2));
  assert.deepEqual(
    [...message.kept, ...message.stored].filter((c) => fetched.includes(c)),
    [],
    'what was kept is not fetched again',
  );
  const twice = [...message.verified, ...message.ahead].filter((c) => fetched.includes(c));
  assert.ok(twice.length <= 1, `${twice} were good and fetched again`);
  assert.equal(fetched.length, chunks - 6 - (1 - twice.length));
  await server.close();
});

test('a prompt waits while the file is loaded and cached: at the last byte all layers but one are computed', async () => {
  let release = () => {};
  const hold = new Promise((resolve) => (release = () => resolve(undefined)));
  const server = await faultServer(bytes, { hold: bytes.length - 1, until: hold });
  const page = await newTab();
  await forget(page);
  await page.evaluate(async (url) => {
    const { createWorkerEngine, fromUrl } = await import(/** @type {string} */ ('/js/index.js'));
    const engine = await createWorkerEngine({ threads: 1, build: 'simd128', cache: 'auto' });
    const model = await engine.load(fromUrl(url), { streaming: true });
    const session = await model.createSession();
    const reply = session.generate('x'.repeat(20), { temperature: 0, maxTokens: 1 }).result;
    reply.catch(() => {});
    Object.assign(globalThis, { engine, model, session, reply });
  }, server.url);
  const workUnits = () => page.evaluate(async () => (await /** @type {any} */ (globalThis).session.stats()).workUnits);
  await until('all layers but one', async () => (await workUnits()) >= LAYERS - 1, { every: 50, state: workUnits });
  assert.equal(
    await workUnits(),
    LAYERS - 1,
    'one work unit per layer for so short a prompt; the last one waits for its last byte',
  );
  release();
  const [ids, complete] = await page.evaluate(async () => {
    const { engine, model, reply } = /** @type {any} */ (globalThis);
    const { tokens: ids } = await reply;
    await model.loaded;
    await model.close();
    const [{ complete }] = await engine.store.list();
    await engine.close();
    return [ids.length, complete];
  });
  assert.deepEqual([ids, complete], [1, true]);
  await page.close();
  await server.close();
});

test('a model from an address that exceeds the budget is read from OPFS and gives the same tokens', async () => {
  const server = await faultServer(bytes);
  const page = await newTab();
  const options = { contextTokens: 128, kv: 'i8' };
  const whole = await load(page, server.url, options);
  assert.equal(whole.residency, 'resident');
  const budget = bytes.length - 4 * MiB;
  const paged = await load(page, server.url, { ...options, memoryBudget: budget });
  assert.deepEqual([paged.residency, paged.ids], ['paged', whole.ids]);
  await forget(page);
  const fresh = await faultServer(bytes);
  const again = await load(page, fresh.url, { ...options, memoryBudget: budget });
  assert.deepEqual([again.residency, again.ids, again.cached], ['paged', whole.ids, 0], 'downloaded first, then read');
  await page.close();
  await server.close();
  await fresh.close();
});

// After this test, OPFS of the origin can fail until the browser is closed (Chromium).
test('storage that is full, or cleared during a load: the model works, and reports that it is not cached', async () => {
  const server = await faultServer(bytes, { step: 16384 });
  const page = await newTab();
  const devtools = await lasting.newCDPSession(page);
  const { origin } = new URL(site.url);
  await devtools.send('Storage.clearDataForOrigin', { origin, storageTypes: 'all' });
  const { usage } = await page.evaluate(() => navigator.storage.estimate());
  await devtools.send('Storage.overrideQuotaForOrigin', { origin, quotaSize: Number(usage) + 5 * MiB });
  const full = await load(page, server.url);
  assert.match(full.problem, /storage is full/);
  assert.equal(full.complete, false);
  await devtools.send('Storage.overrideQuotaForOrigin', { origin });
  await devtools.send('Storage.clearDataForOrigin', { origin, storageTypes: 'all' });
  // Cleared when six chunks are stored and the rest does not come.
  let release = () => {};
  const step = { step: 16384 };
  server.faults = [
    step,
    { hold: prefix + 6.5 * MiB, until: new Promise((resolve) => (release = () => resolve(undefined))) },
  ];
  const loading = load(page, server.url);
  const tab = await newTab();
  await until('six chunks in the store', async () => (await keptBytes(tab)) === prefix + 6 * MiB, {
    every: 50,
    state: () => keptBytes(tab),
  });
  await tab.close();
  await devtools.send('Storage.clearDataForOrigin', { origin, storageTypes: 'all' });
  release();
  server.faults = step;
  const other = await loading;
  assert.equal(other.ids, full.ids);
  server.forget();
  assert.deepEqual([(await load(page, server.url)).ids, (await load(page, server.url)).complete], [full.ids, true]);
  await page.close();
  await server.close();
});

test('a private window keeps a model while it is open', async () => {
  const server = await faultServer(bytes);
  const browser = await launch();
  const page = await ready(await newPage(browser));
  const first = await load(page, server.url);
  server.forget();
  assert.deepEqual([(await load(page, server.url)).ids, server.requests.length], [first.ids, 0]);
  assert.deepEqual(page.trouble, []);
  await browser.close();
  await server.close();
});
