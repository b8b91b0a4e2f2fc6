// Tests of models that exceed their budget, read from the storage of each browser: the same tokens on isolated pages (the reading worker
// writes into the shared heap) and on others (it sends buffers), and a file that is removed meanwhile. Of a GGUF file the repacked copy is
// read.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { randomGguf, SMALL } from '../js/gguf-writer.mjs';
import { faultServer } from '../server/faults.mjs';
import { BROWSERS } from './browsers.mjs';
import { chromiumFirst, everyHost, start } from './every.mjs';
import { host } from './host.mjs';

const GGUF = randomGguf(SMALL);

/** A visit of a page that keeps what it loads, or why it can't load. @param {{ url: string, budgeted: boolean }} how @returns {Promise<any>} */
async function visit({ url, budgeted }) {
  const js = '/js/index.js';
  const { createWorkerEngine, fromUrl } = await import(js);
  const source = fromUrl(url, { retries: 0 });
  const options = { contextTokens: 64, kv: 'i8' };
  const engine = await createWorkerEngine({ cache: budgeted ? 'auto' : false });
  const { heapBytes, weightBytes } = await engine.plan(source, options);
  const budget = heapBytes - Math.floor(weightBytes * 0.4);
  const model = await engine
    .load(source, { ...options, ...(budgeted && { memoryBudget: budget }) })
    .catch((/** @type {any} */ e) => e);
  if (model.code) return { code: model.code, hint: model.hint };
  const session = await model.createSession();
  const { tokens: ids } = await session.generate('Once upon a time', { temperature: 0, maxTokens: 24 }).result;
  const { total } = await model.memory();
  const { residency, paging } = model.info;
  await engine.close();
  return { ids, residency, paging, total, budget };
}

await chromiumFirst((name) => {
  if (!BROWSERS[name].opfs)
    return test('without private files, a model larger than its budget is refused with the reason', async (t) => {
      const server = await faultServer({ '/model.gguf': GGUF });
      const { browser, site } = { browser: await start(name), site: await host() };
      t.after(() => Promise.all([server.close(), browser.close(), site.close()]));
      const page = await browser.open(site.url);
      const { code, hint } = await page.evaluate(visit, { url: server.at('/model.gguf'), budgeted: true });
      assert.equal(code, 'NOMEM');
      assert.match(String(hint), /repacked copy/);
      await page.close();
    });
  everyHost(name, ({ isolated, open }) => {
    test('a file in OPFS is paged with the same tokens; its removal is an error', async () => {
      const page = await open();
      const seen = await page.evaluate(async () => {
        const [js, fixture] = ['/js/index.js', '/tests/js/fixture.mjs'];
        const { createWorkerEngine, fromBlob, fromHandle } = await import(js);
        const { tinyModel } = await import(fixture);
        const bytes = await tinyModel({ config: { layers: 9, hidden: 96, ffn: 768 }, type: 'bq4_32' });
        const folder = await navigator.storage.getDirectory();
        const handle = await folder.getFileHandle('paged.bq4', { create: true });
        const write = async (/** @type {Uint8Array} */ data) => {
          const stream = await handle.createWritable();
          await stream.write(/** @type {any} */ (data));
          await stream.close();
        };
        await write(bytes);
        const source = fromBlob(await handle.getFile());
        const engine = await createWorkerEngine({ cache: false });
        const options = { contextTokens: 128, kv: 'i8' };
        const whole = await engine.plan(source, options);
        const budget = whole.heapBytes - Math.floor(whole.weightBytes * 0.4);
        const run = async (/** @type {any} */ model) => {
          const session = await model.createSession();
          return session.generate('Once upon a time', { seed: 3, temperature: 1, maxTokens: 40 }).result;
        };
        const resident = await engine.load(source, options);
        const wanted = await run(resident);
        await resident.close();
        const paged = await engine.load(source, { ...options, memoryBudget: budget });
        const got = await run(paged);
        const memory = await paged.memory();
        await paged.close();
        // By its handle: read-only handles, which others may have too, where the browser knows them.
        const [one, two] = await Promise.all(
          [1, 2].map(() => engine.load(fromHandle(handle), { ...options, memoryBudget: budget })),
        );
        const handles = (await Promise.all([run(one), run(two)])).map((result) => result.tokens);
        await Promise.all([one.close(), two.close()]);
        await write(new Uint8Array(10));
        const again = await engine
          .load(source, { ...options, memoryBudget: budget })
          .catch((/** @type {any} */ e) => e.code);
        // With the file open, then changed.
        await write(bytes);
        const open = await engine.load(fromBlob(await handle.getFile()), { ...options, memoryBudget: budget });
        const last = await open.createSession();
        await last.generate('Once', { maxTokens: 3 }).result;
        await write(new Uint8Array(10));
        const codes = [];
        for (let i = 0; i < 2; i++)
          codes.push(
            await last.generate('Twice upon', { maxTokens: 9 }).result.then(
              () => 'none',
              (/** @type {any} */ e) => e.code,
            ),
          );
        const stats = await last.stats();
        await engine.close();
        await folder.removeEntry('paged.bq4');
        return {
          wanted: wanted.tokens,
          got: got.tokens,
          handles,
          memory,
          budget,
          paging: paged.info.paging,
          again,
          codes,
          tokens: stats.tokens,
        };
      });
      for (const ids of [seen.got, ...seen.handles]) assert.deepEqual(ids, seen.wanted);
      assert.ok(seen.paging.streamedBytes > 0);
      assert.ok(seen.memory.total + seen.paging.besideBytes <= seen.budget, JSON.stringify(seen));
      assert.equal(seen.paging.besideBytes > 0, !isolated);
      assert.equal(seen.again, 'READ');
      assert.deepEqual(seen.codes, ['READ', 'READ']);
      assert.ok(seen.tokens > 0, 'the session still answers');
      assert.deepEqual(await page.trouble(), []);
      await page.close();
    });

    // What reads the copy is what reads .bq4 files: one kind of page is enough.
    if (!isolated) return;
    test('a GGUF file by its address: pages from its repacked copy, the same tokens; a second visit asks for nothing', async (t) => {
      const server = await faultServer({ '/model.gguf': GGUF });
      t.after(server.close);
      const url = server.at('/model.gguf');
      const page = await open();
      const whole = await page.evaluate(visit, { url, budgeted: false });
      assert.equal(whole.residency, 'resident');
      server.forget();
      const first = await page.evaluate(visit, { url, budgeted: true });
      assert.ok(server.asked().length > 0);
      server.faults = [{ refuse: true }];
      server.forget();
      await page.reload();
      const second = await page.evaluate(visit, { url, budgeted: true });
      assert.deepEqual(server.asked(), []);
      for (const { ids, residency, paging, total, budget } of [first, second]) {
        assert.deepEqual(ids, whole.ids);
        assert.equal(residency, 'paged');
        assert.ok(paging.streamedBytes > 0);
        assert.ok(total + paging.besideBytes <= budget, `${total} + ${paging.besideBytes} of ${budget}`);
      }
      assert.deepEqual(await page.trouble(), []);
      await page.close();
    });
  });
});
