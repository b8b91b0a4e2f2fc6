// Tests of the store in Chromium: the contract of each backend, then events that only a real browser can cause.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { PUBLIC, serve } from '../../tools/serve.mjs';
import { cases } from '../js/store-suite.mjs';
import { inTime } from '../waiting.mjs';
import { failOnFaults } from './console.mjs';
import { launch, launchProcess, launchPersistent } from './launch.mjs';
import { takeNotes } from './notes.mjs';
import { newPage, ROOT } from './site.mjs';

failOnFaults();

/** @typedef {import('playwright-core').Page} Page */

/** @type {Awaited<ReturnType<typeof launch>>} */
let browser;
/** @type {Awaited<ReturnType<typeof serve>>} */
let site;
/** A profile on disk: contexts of `browser` keep their storage in memory, as private windows do.
 * @type {import('playwright-core').BrowserContext} */
let lasting;
/** @type {string} */
let profile;

before(async () => {
  site = await serve({ root: ROOT, folders: [...PUBLIC, 'tests'], hosts: ['insecure.test'], policy: false });
  browser = await launch({ args: ['--host-resolver-rules=MAP insecure.test 127.0.0.1'] });
  profile = mkdtempSync(join(tmpdir(), 'bq4-profile-'));
  lasting = await launchPersistent(join(profile, 'lasting'));
});
after(async () => {
  await lasting?.close();
  await browser?.close();
  await site?.close();
  if (profile) rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
});

const address = (/** @type {string} */ url = site.url) => `${url}tests/browser/store.html`;

/** @template {Page} P @param {P} page @param {string} [url] */
async function ready(page, url) {
  await page.goto(address(url));
  await page.waitForFunction('globalThis.inWorker');
  return page;
}
/** A page whose storage is on disk. In memory: stores.test.mjs. */
const lastingPage = async () => ready(await lasting.newPage());

/** @param {Page} page @param {string} name @param {...any} args @returns {Promise<any>} */
const inWorker = (page, name, ...args) =>
  inTime(
    `${name} in a worker`,
    page.evaluate(
      ([name, args]) => /** @type {any} */ (globalThis).inWorker(name, args),
      /** @type {const} */ ([name, args]),
    ),
  );
/** @param {Page} page @param {string} name @param {...any} args @returns {Promise<any>} */
const inPage = (page, name, ...args) =>
  inTime(
    `${name} in a page`,
    page.evaluate(
      ([name, args]) => /** @type {any} */ (globalThis).ops[name](...args),
      /** @type {const} */ ([name, args]),
    ),
  );

const range = (/** @type {number} */ from, /** @type {number} */ to) =>
  Array.from({ length: to - from }, (_, i) => from + i);

for (const backend of ['opfs', 'cache', 'indexeddb', 'memory']) {
  test(`the contract, ${backend} in a worker`, async (t) => {
    const page = await lastingPage();
    for (const name of Object.keys(cases)) await t.test(name, () => inWorker(page, 'case', name, { backend }));
    await page.close();
  });
}

test('the contract, opfs on a page', async (t) => {
  const page = await lastingPage();
  for (const name of Object.keys(cases)) await t.test(name, () => inPage(page, 'case', name, { backend: 'opfs' }));
  await page.close();
});

test('without a secure context the store uses IndexedDB and reports the reason', async () => {
  const page = await ready(await newPage(browser), site.url.replace('localhost', 'insecure.test'));
  assert.equal(await page.evaluate(() => isSecureContext || 'storage' in navigator || 'locks' in navigator), false);
  const { backend, reason } = await inWorker(page, 'open', 1, 2, { backend: 'auto' });
  assert.equal(backend, 'indexeddb');
  assert.match(reason, /^opfs: not available in this browser.*cache: /);
  await inWorker(page, 'close');
  for (const name of Object.keys(cases)) await inWorker(page, 'case', name, { backend: 'indexeddb' });
  await page.context().close();
});

test('if all storage is refused, nothing is stored, the reason is reported and nothing throws', async () => {
  // No switch of Chromium refuses all three, so they are taken away.
  const page = await ready(await newPage(browser));
  const seen = await page.evaluate(async () => {
    const { openStore } = await import(/** @type {string} */ ('/js/storage/cache/index.js'));
    const { makeFile } = await import(/** @type {string} */ ('/tests/js/store-suite.mjs'));
    for (const name of ['storage', 'locks']) Object.defineProperty(navigator, name, { value: undefined });
    for (const name of ['caches', 'indexedDB']) Object.defineProperty(globalThis, name, { value: undefined });
    // Firefox refuses the channel, too.
    globalThis.BroadcastChannel = /** @type {any} */ (
      class {
        constructor() {
          throw new DOMException('refused', 'SecurityError');
        }
      }
    );
    const store = await openStore();
    const file = makeFile(1, 2);
    const entry = await store.open(file.options);
    const kept = await entry.write(0, file.data[0]);
    const { code, message } = entry.problem;
    return {
      backend: store.backend,
      code,
      message,
      kept,
      list: await store.list(),
      found: await store.find(file.options.url),
      waited: await entry.waitFor(1),
    };
  });
  assert.match(seen.message, /nothing is stored: opfs: .*cache: .*indexeddb: /);
  assert.deepEqual(
    { ...seen, message: '' },
    { backend: 'memory', code: 'STORAGE', message: '', kept: false, list: [], found: null, waited: false },
  );
  await page.context().close();
});

test('files larger than a segment are stored in several segments', async () => {
  const page = await lastingPage();
  await inWorker(page, 'open', 20, 130, { name: 'segments' });
  await inWorker(page, 'prefix');
  assert.equal((await inWorker(page, 'write', range(0, 130))).complete, true);
  const { bad, range: whole } = await inWorker(page, 'verify');
  assert.deepEqual([bad, whole], [[], true]);
  assert.deepEqual(
    (await inWorker(page, 'files', 'segments')).filter((/** @type {string} */ name) => !name.startsWith('at-')),
    ['about', 'journal', 'prefix', 's0', 's1', 's2', 'used'],
  );
  await inWorker(page, 'close');
  await inWorker(page, 'open', 20, 130, { name: 'segments' });
  assert.equal((await inWorker(page, 'verify')).complete, true);
  await inWorker(page, 'close');
  await page.close();
});

test('only damaged chunks of a cache are fetched again', async () => {
  const page = await lastingPage();
  const name = 'damaged';
  const open = () => inWorker(page, 'open', 21, 70, { name });
  await open();
  await inWorker(page, 'prefix');
  await inWorker(page, 'write', range(0, 70));
  await inWorker(page, 'close');

  await inWorker(page, 'cutJournal', name, 5); // a kill in the middle of a record
  let seen = await open();
  assert.deepEqual(seen.have, range(0, 69), 'one record is torn');
  seen = await inWorker(page, 'heal');
  assert.deepEqual([seen.fetched, seen.complete], [[69], true]);
  await inWorker(page, 'close');

  await inWorker(page, 'harm', name, 's0', { at: 5 * 2 ** 20 + 77, bytes: 2000 }); // within chunk 5
  await inWorker(page, 'harm', name, 's1', { at: 2 * 2 ** 20 + 9 }); // truncated: 66 is torn, the rest is gone
  seen = await open();
  assert.deepEqual(seen.have, range(0, 66), 'chunks beyond the end of a segment are not there');
  seen = await inWorker(page, 'verify');
  assert.deepEqual([seen.bad, seen.complete], [[5], false]);
  seen = await inWorker(page, 'heal');
  assert.deepEqual([seen.fetched, seen.complete, seen.problem], [[5, 66, 67, 68, 69], true, null]);
  await inWorker(page, 'close');

  await inWorker(page, 'harm', name, 'journal', { at: 24 * 11 + 9, bytes: 1 }); // 0 is the prefix, 11 is chunk 10
  seen = await open();
  assert.deepEqual(
    seen.have,
    range(0, 70).filter((c) => c !== 10),
  );
  await inWorker(page, 'heal');
  assert.equal((await inWorker(page, 'verify')).complete, true);
  await inWorker(page, 'close');

  // No `about`: nothing is known of the rest, it goes.
  await inWorker(page, 'harm', name, 'about', { at: 0, bytes: 4 });
  seen = await open();
  assert.deepEqual([seen.have, seen.problem], [[], null]);
  await inWorker(page, 'close');
  await page.close();
});

test('two tabs share a download, also when one is closed; both run the cached file', async () => {
  const [a, b] = [await lastingPage(), await lastingPage()];
  const options = { name: 'tabs' };
  assert.equal((await inWorker(a, 'open', 22, 12, options)).role, 'writer');
  assert.equal((await inWorker(b, 'open', 22, 12, options)).role, 'reader');
  await inWorker(a, 'prefix');
  const arriving = Promise.all(range(0, 6).map((c) => inWorker(b, 'waitFor', c)));
  await inWorker(a, 'write', range(0, 6));
  assert.deepEqual(
    await arriving,
    range(0, 6).map(() => ({ there: true, role: 'reader', right: true })),
  );
  const next = inWorker(b, 'waitFor', 6);
  await a.close(); // without a word: the lock ends with the tab
  assert.deepEqual(await next, { there: false, role: 'writer', right: false });
  const { fetched, complete } = await inWorker(b, 'heal');
  assert.deepEqual([fetched, complete], [range(6, 12), true], 'nothing is fetched twice');
  const c = await lastingPage();
  await inWorker(c, 'open', 22, 12, options);
  for (const page of [b, c, b, c]) assert.deepEqual((await inWorker(page, 'verify')).bad, []);
  await assert.rejects(inWorker(c, 'clear'), /in use/);
  await inWorker(b, 'close');
  await inWorker(c, 'close');
  await inPage(c, 'open', 22, 12, options);
  assert.equal((await inPage(c, 'verify')).complete, true, 'a page reads what a worker wrote');
  await inPage(c, 'close');
  await b.close();
  await c.close();
});

/** When the browser is killed: after so many whole chunks of a round, as the next one begins or ends. */
const KILLS = [
  { chunks: 0, at: 'begin', hold: true },
  { chunks: 1, at: 'begin', hold: false },
  { chunks: 5, at: 'done', hold: true },
  { chunks: 9, at: 'begin', hold: false },
  { chunks: 14, at: 'begin', hold: false },
];

test('killing the browser at any moment loses at most the chunk in progress', async (t) => {
  const folder = join(profile, 'killed');
  const chunks = 60;
  const options = { name: 'killed' };
  const notes = await takeNotes(t);
  /** @type {number[]} */
  let done = [];
  /** Begun, and not said to be done. @type {number[]} */
  let underWay = [];
  const start = async () => {
    const own = await launchProcess(folder);
    t.after(() => own.kill().catch(() => {}));
    const page = await ready(await own.page());
    return { own, page, opened: await inWorker(page, 'open', 23, chunks, options) };
  };
  for (const [round, { chunks: whole, at, hold }] of KILLS.entries()) {
    const { own, page, opened } = await start();
    assert.deepEqual(
      done.filter((c) => !opened.have.includes(c)),
      [],
      `round ${round}: lost`,
    );
    const more = opened.have.filter((/** @type {number} */ c) => !done.includes(c));
    assert.ok(
      more.every((/** @type {number} */ c) => underWay.includes(c)),
      `round ${round}: ${more} there, of which only ${underWay} was begun`,
    );
    assert.deepEqual((await inWorker(page, 'verify')).bad, [], `round ${round}: trusted, but never verified`);
    done = opened.have;
    await inWorker(page, 'prefix');
    notes.reset();
    let count = 0;
    const kill = notes.waitForLast(
      `'${at}' of chunk ${whole} of round ${round}`,
      (text) => text.startsWith(at) && count++ === whole,
      hold,
    );
    const missing = range(0, chunks).filter((c) => !done.includes(c));
    const failed = inWorker(page, 'write', missing, notes.url).then(() => Promise.reject(new Error('all was written')));
    failed.catch(() => {});
    await Promise.race([kill, failed]);
    await own.kill();
    const noted = (/** @type {string} */ word) =>
      notes.all.filter((text) => text.startsWith(word)).map((text) => Number(text.split(' ')[1]));
    done = [...done, ...noted('done')];
    underWay = noted('begin').filter((c) => !done.includes(c));
    assert.ok(underWay.length <= 1, `one chunk at a time, not ${underWay}`);
  }
  assert.ok(done.length >= 29 && done.length < chunks - 1, `${done.length} chunks`);
  const { own, page } = await start();
  const { fetched, complete } = await inWorker(page, 'heal');
  assert.equal(complete, true);
  assert.deepEqual(
    fetched.filter((/** @type {number} */ c) => done.includes(c)),
    [],
    'no verified chunk is fetched again',
  );
  assert.deepEqual((await inWorker(page, 'verify')).bad, []);
  await own.kill();
});

for (const backend of ['opfs', 'cache']) {
  test(`${backend}: storage that is full`, async () => {
    const page = await lastingPage();
    const devtools = await lasting.newCDPSession(page);
    const origin = new URL(site.url).origin;
    const name = `quota-${backend}`;
    // An older model, which may go; then room for it and a little more.
    await inWorker(page, 'open', 24, 8, { name, backend });
    await inWorker(page, 'another', 25, 6);
    const { usage } = await inWorker(page, 'usage');
    await devtools.send('Storage.overrideQuotaForOrigin', { origin, quotaSize: usage + 4 * 2 ** 20 });
    await inWorker(page, 'prefix');
    const first = await inWorker(page, 'write', range(0, 8));
    assert.deepEqual([first.complete, first.problem], [true, null], 'the older one made room');
    assert.deepEqual(await inWorker(page, 'list'), [[24, true]]);
    await inWorker(page, 'close');
    // Now nothing may go for the next one.
    await inWorker(page, 'open', 24, 8, { name, backend });
    const second = await ready(await lasting.newPage());
    await inWorker(second, 'open', 26, 40, { name, backend });
    await devtools.send('Storage.overrideQuotaForOrigin', {
      origin,
      quotaSize: (await inWorker(page, 'usage')).usage + 3 * 2 ** 20,
    });
    const stopped = await inWorker(second, 'write', range(0, 40));
    assert.equal(stopped.problem?.code, 'QUOTA', JSON.stringify(stopped));
    assert.ok(stopped.have.length < 40);
    assert.deepEqual((await inWorker(second, 'verify')).bad, [], 'what was kept is good');
    assert.equal((await inWorker(page, 'verify')).complete, true, 'the other is whole');
    await devtools.send('Storage.overrideQuotaForOrigin', { origin });
    for (const each of [page, second]) {
      await inWorker(each, 'close');
      await each.close();
    }
  });
}

test('opfs: files in full storage are used by the next visit', async () => {
  const page = await lastingPage();
  const devtools = await lasting.newCDPSession(page);
  const { origin } = new URL(site.url);
  await inWorker(page, 'open', 30, 8, { name: 'full' });
  await inWorker(page, 'prefix');
  assert.equal((await inWorker(page, 'write', range(0, 8))).complete, true);
  await inWorker(page, 'close');
  await devtools.send('Storage.overrideQuotaForOrigin', { origin, quotaSize: 1000 });
  const larger = await inWorker(page, 'open', 31, 9, { name: 'full', backend: 'auto' });
  assert.deepEqual([larger.backend, larger.problem?.code], ['opfs', 'QUOTA']);
  await inWorker(page, 'close');
  const opened = await inWorker(page, 'open', 30, 8, { name: 'full', backend: 'auto' });
  assert.deepEqual([opened.backend, opened.complete, opened.problem], ['opfs', true, null]);
  assert.deepEqual((await inWorker(page, 'verify')).bad, []);
  await devtools.send('Storage.overrideQuotaForOrigin', { origin });
  await inWorker(page, 'close');
  await page.close();
});

test('opfs: after a script has removed the folders, the open store stores files again', async () => {
  const page = await lastingPage();
  await inWorker(page, 'open', 32, 2, { name: 'removed' });
  await inWorker(page, 'prefix');
  assert.equal((await inWorker(page, 'write', range(0, 2))).complete, true);
  await inWorker(page, 'removeFolders');
  assert.deepEqual(await inWorker(page, 'list'), []);
  await inWorker(page, 'another', 33, 2);
  assert.deepEqual(await inWorker(page, 'list'), [[33, true]]);
  await inWorker(page, 'close');
  await page.close();
});

test('opfs: folders in place of files are replaced by the next download', async () => {
  const page = await lastingPage();
  for (const [i, name] of ['about', 'journal', 'prefix', 's0', 'used'].entries()) {
    const store = { name: `folder-${name}` };
    await inWorker(page, 'open', 40 + i, 2, store);
    await inWorker(page, 'prefix');
    assert.equal((await inWorker(page, 'write', range(0, 2))).complete, true);
    await inWorker(page, 'close');
    await inWorker(page, 'putFolder', store.name, name);
    assert.equal((await inWorker(page, 'open', 40 + i, 2, store)).problem, null, name);
    await inWorker(page, 'verify');
    await inWorker(page, 'prefix');
    const { complete, problem } = await inWorker(page, 'write', range(0, 2));
    assert.deepEqual([complete, problem], [true, null], name);
    assert.deepEqual(await inWorker(page, 'list'), [[40 + i, true]], name);
    await inWorker(page, 'close');
  }
  await page.close();
});

test('a browser that never answers about its storage holds up neither usage() nor a download', async () => {
  const page = await lastingPage();
  await inWorker(page, 'open', 50, 2, { name: 'silent' });
  await inWorker(page, 'silenceStorage');
  await inWorker(page, 'prefix');
  assert.equal((await inWorker(page, 'write', range(0, 2))).complete, true);
  const { files, usage, quota, persisted } = await inWorker(page, 'usage');
  assert.deepEqual({ files, usage, quota, persisted }, { files: 1, usage: 0, quota: 0, persisted: false });
  await inWorker(page, 'close');
  await page.close();
});

test('indexeddb: full storage is reported', async () => {
  // Chromium asks for the quota of IndexedDB only now and then: it must be small before the first write.
  const page = await ready(await newPage(browser));
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Storage.overrideQuotaForOrigin', { origin: new URL(site.url).origin, quotaSize: 12 * 2 ** 20 });
  await inWorker(page, 'open', 24, 40, { name: 'quota', backend: 'indexeddb' });
  const stopped = await inWorker(page, 'write', range(0, 40));
  assert.equal(stopped.problem?.code, 'QUOTA', JSON.stringify(stopped));
  assert.deepEqual((await inWorker(page, 'verify')).bad, [], 'what was kept is good');
  await inWorker(page, 'close');
  await page.context().close();
});

for (const backend of ['opfs', 'cache', 'indexeddb']) {
  test(`${backend}: storage cleared while running`, async () => {
    const page = await lastingPage();
    const devtools = await lasting.newCDPSession(page);
    const options = { name: `cleared-${backend}`, backend };
    await inWorker(page, 'open', 27, 70, options);
    await inWorker(page, 'prefix');
    await inWorker(page, 'write', range(0, 3));
    await devtools.send('Storage.clearDataForOrigin', { origin: new URL(site.url).origin, storageTypes: 'all' });
    // Open files, and for a while caches, can be read although they were deleted.
    const { bad } = await inWorker(page, 'verify');
    if (backend === 'indexeddb') assert.deepEqual(bad, [0, 1, 2]);
    const after = await inWorker(page, 'write', range(3, 70));
    if (backend !== 'cache') assert.deepEqual([after.complete, after.problem?.code], [false, 'STORAGE']);
    await inWorker(page, 'verify');
    await inWorker(page, 'close');
    await page.close();
    // And the next visit begins anew.
    const next = await lastingPage();
    const opened = await inWorker(next, 'open', 28, 4, { ...options, backend: 'auto' });
    assert.deepEqual([opened.have, opened.problem], [[], null]);
    await inWorker(next, 'prefix');
    assert.equal((await inWorker(next, 'write', range(0, 4))).complete, true);
    await inWorker(next, 'close');
    await next.close();
  });
}
