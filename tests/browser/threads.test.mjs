// Threads in browsers: workers within a worker, where the page is cross-origin isolated; the same bits on any number.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { convert } from '../../js/convert/index.js';
import { BROWSERS, start } from './browsers.mjs';
import { everyBrowser } from './every.mjs';
import { host, ISOLATED } from './host.mjs';
import { ROOT } from './site.mjs';

const golden = JSON.parse(readFileSync(join(ROOT, 'tests/golden/tiny.json'), 'utf8'));
const recorded = new Map(readFileSync(join(ROOT, 'tests/golden/logit_hashes.txt'), 'utf8').trim().split('\n').map((line) => /** @type {[string, string]} */ (line.split(' '))));
const folder = mkdtempSync(join(tmpdir(), 'bq4-threads-'));
after(() => rmSync(folder, { recursive: true }));

/** What an engine says about its threads, and what it writes. @param {{ worker: boolean, options: object }} how */
async function inPage({ worker, options }) {
  const [js, fixture] = ['/js/index.js', '/tests/js/fixture.mjs'];
  const { createEngine, createWorkerEngine, fromBytes } = await import(js);
  const { tinyModel } = await import(fixture);
  const engine = await (worker ? createWorkerEngine : createEngine)(options);
  const bytes = await tinyModel({ type: 'bq4' });
  const ids = [];
  const threads = [];
  // Workers are used again, and again.
  for (let round = 0; round < 6; round++) {
    const model = await engine.load(fromBytes(bytes));
    const session = await model.createSession();
    ids.push((await session.generate('Once upon a time', { temperature: 0, maxTokens: 10 }).done()).ids.join());
    threads.push(model.info.threads);
    await model.close();
  }
  await engine.close();
  return { info: engine.info, threads: [...new Set(threads)], ids: [...new Set(ids)] };
}

await everyBrowser((name) => {
  const builds = BROWSERS[name].relaxed ? ['relaxed', 'simd128'] : ['simd128'];
  /** @type {import('./browsers.mjs').Browser} */
  let browser;
  /** @type {Awaited<ReturnType<typeof host>>[]} */
  let sites;
  before(async () => {
    browser = await start(name);
    sites = [await host(), await host(ISOLATED)];
  });
  after(async () => {
    await browser?.close();
    for (const site of sites ?? []) await site.close();
  });

  test('where memory cannot be shared: one thread, and why', async () => {
    const page = await browser.open(sites[BROWSERS[name].sharedMemory ? 0 : 1].url);
    for (const worker of [false, true]) {
      const { info, threads } = await page.evaluate(inPage, { worker, options: { threads: 3 } });
      assert.deepEqual([info.threads, threads, info.timings], [1, [1], []]);
      assert.match(info.threadsReason, /isolated/);
    }
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  });
  if (!BROWSERS[name].sharedMemory) return;

  test('in an isolated page: as many threads as asked for, or as measured, and the same ids', async () => {
    const page = await browser.open(sites[1].url);
    const seen = new Set();
    for (const threads of [1, 2, 3]) {
      const got = await page.evaluate(inPage, { worker: true, options: { threads } });
      assert.deepEqual([got.info.threads, got.threads], [threads, [threads]], got.info.threadsReason);
      for (const ids of got.ids) seen.add(ids);
    }
    const auto = await page.evaluate(inPage, { worker: true, options: {} });
    for (const ids of auto.ids) seen.add(ids);
    assert.equal(seen.size, 1);
    assert.match(auto.info.threadsReason, /measure/);
    assert.deepEqual(auto.info.timings.map(({ threads }) => threads).slice(0, 2), [1, 2]);
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  });

  test('an engine in the page itself has one thread: a page must not wait', async () => {
    const page = await browser.open(sites[1].url);
    const { info, threads } = await page.evaluate(inPage, { worker: false, options: { threads: 2 } });
    assert.deepEqual([info.threads, threads], [1, [1]]);
    assert.match(info.threadsReason, /createWorkerEngine/);
    await page.close();
  });

  test('workers that cannot be had: one thread, and why', async () => {
    const page = await browser.open(sites[1].url);
    const { info, threads } = await page.evaluate(inPage, { worker: true, options: { threads: 2, threadUrl: '/nothing/here.js' } });
    assert.deepEqual([info.threads, threads], [1, [1]]);
    assert.match(info.threadsReason, /no threads could be started/);
    await page.close();
  });

  test('1 to 8 threads: the recorded hash of all logits', async () => {
    const to = join(folder, `${name}.bq4`);
    await convert(join(ROOT, 'tests/golden/tiny'), to, { quant: 'bq4', embed: 'bq4' });
    const page = await browser.open(sites[1].url);
    const hashes = await page.evaluate(async ([builds, model, prompt, follow]) => {
      const bytes = Uint8Array.from(atob(model), (c) => c.charCodeAt(0));
      const worker = new Worker('/tests/browser/shims/golden-worker.mjs', { type: 'module' });
      const run = (/** @type {any[]} */ ...args) => new Promise((resolve, reject) => {
        worker.onmessage = ({ data }) => (data.error ? reject(new Error(data.error)) : resolve(data.hash));
        worker.postMessage(args);
      });
      const all = [];
      for (const build of builds) for (let threads = 1; threads <= 8; threads++) all.push(await run(build, bytes, prompt, follow, threads));
      worker.terminate();
      return all;
    }, /** @type {[string[], string, number[], number[]]} */ ([builds, readFileSync(to).toString('base64'), golden.prompt_ids, golden.ids]));
    assert.deepEqual(hashes, hashes.map(() => recorded.get('bq4')));
    assert.equal(hashes.length, 8 * builds.length);
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  });
});
