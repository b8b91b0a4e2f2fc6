// Tests of the store and of engines with a cache in every browser, with its best backend. store.test.mjs and cached.test.mjs contain tests
// that need a driver of Chromium (quota, clearing, killing).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tinyModel } from '../js/fixture.mjs';
import { faultServer } from '../server/faults.mjs';
import { cases } from '../js/store-suite.mjs';
import { BROWSERS } from './browsers.mjs';
import { chromiumFirst, oneSite } from './every.mjs';

const MiB = 1 << 20;
const bytes = await tinyModel({ config: { layers: 8, hidden: 256, ffn: 1024, heads: 4, kv_heads: 2 } });
const prefix = Number(new DataView(bytes.buffer).getBigUint64(24, true));
const chunks = Math.ceil((bytes.length - prefix) / MiB);

/** @param {[string, any[]]} call  of tests/browser/store-ops.mjs */
const inWorker = ([name, args]) => /** @type {any} */ (globalThis).inWorker(name, args);

/** Loads in so many workers at once, each with an engine of its own, and says a few words. @param {{ url: string, engines?: number, paged?: boolean }} how */
async function load({ url, engines = 1, paged = false }) {
  const { createWorkerEngine, fromUrl } = await import(/** @type {string} */ ('/js/index.js'));
  const options = { contextTokens: 128, kv: 'i8' };
  const one = async () => {
    const engine = await createWorkerEngine({ threads: 1, build: 'simd128', cache: 'auto' });
    const source = fromUrl(url, { retries: 1, retryDelay: 1 });
    const plan = await engine.plan(source, options);
    let problem = '';
    const onProgress = (/** @type {any} */ now) => (problem = now.cacheProblem || problem);
    const budget = paged ? plan.heapBytes - Math.floor(plan.weightBytes * 0.3) : undefined;
    const model = await engine.load(source, { ...options, memoryBudget: budget, onProgress });
    const { tokens: ids } = await (await model.createSession()).generate('the quick', { temperature: 0, maxTokens: 6 })
      .result;
    await model.close();
    const list = await engine.store.list();
    const { backend } = engine.store;
    await engine.close();
    return {
      ids: ids.join(),
      problem,
      backend,
      residency: model.info.residency,
      cached: plan.cached.bytes,
      complete: list.some((/** @type {any} */ f) => f.url === url && f.complete),
    };
  };
  return Promise.all(Array.from({ length: engines }, one));
}

/** Chunks that were asked for, in order. @param {{ range?: string }[]} requests */
const asked = (requests) =>
  requests
    .flatMap(({ range }) => {
      const [from, to] = /=(\d+)-(\d+)/.exec(String(range))?.slice(1).map(Number) ?? [0, 0];
      return Array.from({ length: chunks }, (_, c) => c).filter(
        (c) => to > 65535 && from < prefix + (c + 1) * MiB && to >= prefix + c * MiB,
      );
    })
    .sort((a, b) => a - b);

await chromiumFirst((name) => {
  const { opfs } = BROWSERS[name];
  const here = oneSite(name);

  // Contexts of Chromium keep their storage in memory, as private windows do; its backends on disk: store.test.mjs.
  const backends = name === 'chromium' ? ['opfs'] : opfs ? ['opfs', 'cache', 'indexeddb'] : ['cache', 'indexeddb'];
  for (const backend of backends) {
    test(`the contract, ${backend} in a worker`, async (t) => {
      const page = await here.open('tests/browser/store.html');
      await page.until(() => /** @type {any} */ (globalThis).inWorker);
      for (const which of Object.keys(cases))
        await t.test(which, () =>
          page.evaluate(inWorker, /** @type {[string, any[]]} */ (['case', [which, { backend }]])),
        );
      await page.close();
    });
  }

  test('a model is fetched once; later loads send no request, also without a server', async (t) => {
    const server = await faultServer(bytes);
    t.after(server.close);
    const page = await here.open();
    const [first] = await page.evaluate(load, { url: server.url });
    assert.deepEqual(
      { ...first, ids: '' },
      { ids: '', problem: '', backend: opfs ? 'opfs' : 'cache', residency: 'resident', cached: 0, complete: true },
    );
    assert.deepEqual(
      asked(server.requests),
      Array.from({ length: chunks }, (_, c) => c),
    );
    server.forget();
    // WebKit under test is a private window, whose caches are gone with the worker that made them.
    if (name === 'webkit') return;
    await page.reload();
    const [second] = await page.evaluate(load, { url: server.url });
    assert.deepEqual([second.ids, second.cached, server.requests], [first.ids, bytes.length, []]);
    await server.close();
    const [third] = await page.evaluate(load, { url: server.url, paged: true });
    assert.deepEqual([third.ids, third.residency], [first.ids, 'paged']);
    await page.close();
  });

  test('two simultaneous loads of a file share one download', async () => {
    const server = await faultServer(bytes, { step: 16384 });
    const page = await here.open();
    const [one, two] = await page.evaluate(load, { url: server.url, engines: 2 });
    assert.equal(one.ids, two.ids);
    assert.deepEqual(
      asked(server.requests),
      Array.from({ length: chunks }, (_, c) => c),
    );
    // Each plans and loads from the first bytes, which are all that both fetch; who comes later finds them in the cache.
    assert.ok(server.requests.filter(({ range }) => range === 'bytes=0-65535').length <= 4);
    await page.close();
    await server.close();
  });

  if (opfs)
    test('two engines page one stored file at the same time', async (t) => {
      const server = await faultServer(bytes);
      t.after(server.close);
      const page = await here.open();
      const [{ ids }] = await page.evaluate(load, { url: server.url });
      server.forget();
      const seen = await page.evaluate(async (url) => {
        const { createWorkerEngine, fromUrl } = await import(/** @type {string} */ ('/js/index.js'));
        const engines = await Promise.all(
          [1, 2].map(() => createWorkerEngine({ threads: 1, build: 'simd128', cache: 'auto' })),
        );
        const options = { contextTokens: 128, kv: 'i8' };
        const { heapBytes, weightBytes } = await engines[0].plan(fromUrl(url), options);
        const budget = heapBytes - Math.floor(weightBytes * 0.3);
        // Both are loaded before either says a word, and both read for every token.
        const models = await Promise.all(
          engines.map((engine) => engine.load(fromUrl(url), { ...options, memoryBudget: budget })),
        );
        const sessions = await Promise.all(models.map((model) => model.createSession()));
        const results = await Promise.all(
          sessions.map((session) => session.generate('the quick', { temperature: 0, maxTokens: 6 }).result),
        );
        const paged = models.map(({ info }) => info.residency);
        await Promise.all(engines.map((engine) => engine.close()));
        return { ids: results.map((result) => result.tokens.join()), paged };
      }, server.url);
      assert.deepEqual(seen, { ids: [ids, ids], paged: ['paged', 'paged'] });
      assert.deepEqual(server.requests, []);
      await page.close();
    });

  test('two simultaneous loads of a file also share a long header', async (t) => {
    const file = await tinyModel({ card: `# Long\n${'Noise. '.repeat(60_000)}` });
    const server = await faultServer(file, { step: 16384 });
    t.after(server.close);
    const page = await here.open();
    const [one, two] = await page.evaluate(load, { url: server.url, engines: 2 });
    assert.equal(one.ids, two.ids);
    const twice = (server.sent - file.length) / 65536;
    assert.ok(
      [0, 1, 2, 3].includes(twice),
      `all once, but for the first bytes of two plans and two loads: ${twice} more`,
    );
    await page.close();
  });

  if (!opfs)
    test('a model that does not fit is refused, since files cannot be read in parts', async () => {
      const server = await faultServer(bytes);
      const page = await here.open();
      await assert.rejects(page.evaluate(load, { url: server.url, paged: true }), /BqError/);
      await page.close();
      await server.close();
    });
});
