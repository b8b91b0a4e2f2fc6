// Tests of twenty loads and closes in Chromium, with threads, cache and paging: memory, workers, open files and storage are the same
// afterwards.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { tinyModel } from '../js/fixture.mjs';
import { faultServer } from '../server/faults.mjs';
import { failOnFaults } from './console.mjs';
import { host, ISOLATED } from './host.mjs';
import { launch } from './launch.mjs';
import { newPage } from './site.mjs';
import { until } from '../waiting.mjs';

failOnFaults();

const ROUNDS = 20;
const bytes = await tinyModel({ config: { layers: 4, hidden: 256, ffn: 1024, heads: 4, kv_heads: 2 } });

/** @type {Awaited<ReturnType<typeof launch>>} */
let browser;
/** @type {Awaited<ReturnType<typeof host>>} */
let site;
/** @type {Awaited<ReturnType<typeof faultServer>>} */
let server;
before(async () => {
  browser = await launch();
  site = await host(ISOLATED);
  server = await faultServer(bytes, { headers: { 'cross-origin-resource-policy': 'cross-origin' } });
});
after(async () => {
  await browser?.close();
  await site?.close();
  await server?.close();
});

/** Loads a model and says a word; every second is paged, every fifth load aborted. @param {{ url: string, rounds: number, anew: boolean }} how */
async function cycle({ url, rounds, anew }) {
  const { createWorkerEngine, fromUrl } = await import(/** @type {string} */ ('/js/index.js'));
  const here = /** @type {any} */ (globalThis);
  const open = () => createWorkerEngine({ threads: 2, build: 'simd128', cache: 'auto' });
  const source = fromUrl(url, { retries: 1, retryDelay: 1 });
  const options = { contextTokens: 128, kv: 'i8' };
  const seen = [];
  let heap = 0;
  for (let round = 0; round < rounds; round++) {
    const engine = anew ? await open() : (here.engine ??= await open());
    const plan = await engine.plan(source, options);
    heap = plan.heapBytes;
    const budget = round % 2 ? plan.heapBytes - Math.floor(plan.weightBytes * 0.4) : undefined;
    const controller = new AbortController();
    if (round % 5 === 4) setTimeout(() => controller.abort(), round);
    const model = await engine
      .load(source, { ...options, memoryBudget: budget, signal: controller.signal })
      .catch((/** @type {any} */ error) => {
        if (error.name !== 'AbortError') throw error;
      });
    if (model) {
      seen.push(model.info.residency, model.info.threads);
      await (await model.createSession()).generate('the quick', { maxTokens: 4 }).result;
      await model.close();
    }
    if (anew) await engine.close();
  }
  return { seen: [...new Set(seen)], heap };
}

/** What the page has. @param {Awaited<ReturnType<typeof newPage>>} page */
async function count(page) {
  const devtools = await browser.newBrowserCDPSession();
  const { targetInfos } = await devtools.send('Target.getTargets', { filter: [{ type: 'worker' }] });
  const { processInfo } = await devtools.send('SystemInfo.getProcessInfo');
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  let rss = 0;
  for (const { id, type } of processInfo) {
    const file = `/proc/${id}/statm`;
    if (type === 'renderer' && existsSync(file)) rss += 4096 * Number(readFileSync(file, 'utf8').split(' ')[1]);
  }
  const { usage } = await page.evaluate(() => navigator.storage.estimate());
  await devtools.detach();
  return { workers: targetInfos.map(({ url }) => url.split('/').pop()).sort(), rss, usage: Number(usage) };
}

for (const anew of [false, true]) {
  test(anew ? `${ROUNDS} engines, each with a model` : `${ROUNDS} models in one engine`, async (t) => {
    const page = await newPage(browser);
    t.after(() => page.context().close());
    await page.goto(site.url);
    const url = server.url;
    await page.evaluate(cycle, { url, rounds: 4, anew });
    // Workers end, and garbage is collected, when the browser gets to it.
    const workers = String(anew ? [] : ['thread.js', 'worker.js']);
    /** @param {string} what @param {(seen: Awaited<ReturnType<typeof count>>) => boolean} [enough] */
    const settled = async (what, enough = () => true) => {
      /** @type {Awaited<ReturnType<typeof count>> | undefined} */
      let seen;
      await until(
        `${what}, the workers [${workers}]`,
        async () => {
          seen = await count(page);
          return String(seen.workers) === workers && enough(seen);
        },
        { every: 500, state: () => seen },
      );
      return /** @type {Awaited<ReturnType<typeof count>>} */ (seen);
    };
    const before = await settled('before');
    const { seen, heap } = await page.evaluate(cycle, { url, rounds: ROUNDS, anew });
    assert.deepEqual(seen.sort(), [2, 'paged', 'resident']);
    const now = await settled('at most three heaps more', ({ rss }) => rss - before.rss < 3 * heap);
    assert.ok(Math.abs(now.usage - before.usage) < 65536, `${before.usage} bytes stored before, ${now.usage} after`);
    const grown = now.rss - before.rss;
    t.diagnostic(`${Math.round(grown / 2 ** 20)} MiB more after ${ROUNDS} heaps of ${Math.round(heap / 2 ** 20)} MiB`);
    // Nobody has a file open: all can go, while the engine is still there.
    const left = await page.evaluate(async () => {
      const top = await navigator.storage.getDirectory();
      await top.removeEntry('bq4', { recursive: true });
      const names = [];
      for await (const name of /** @type {any} */ (top).keys()) names.push(name);
      await /** @type {any} */ (globalThis).engine?.close();
      return names;
    });
    assert.deepEqual(left, []);
    assert.deepEqual(page.trouble, []);
  });
}
