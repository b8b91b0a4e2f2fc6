// Tests of switching models in the demo: if memory is short, the old model is freed before the new one is loaded, otherwise it stays until
// the new one is ready.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tinyModel } from '../js/fixture.mjs';
import { faultServer } from '../server/faults.mjs';
import { until } from '../waiting.mjs';
import { chromiumFirst, start } from './every.mjs';
import { host } from './host.mjs';

/** Larger than what a plan reads. */
const SIZES = { layers: 2, hidden: 256, ffn: 512, heads: 4, kv_heads: 2 };
const FIRST = await tinyModel({ config: { ...SIZES, context: 64 } });
const SECOND = await tinyModel({ config: { ...SIZES, context: 128 }, seed: 2 });

await chromiumFirst((name) => {
  for (const [what, gigabytes, held] of /** @type {[string, number, boolean][]} */ ([
    ['much memory: the old model stays until the other is there', 8, true],
    ['little memory: the old model is gone while the other comes', 2 ** -12, false],
  ]))
    test(what, { timeout: 120_000 }, async () => {
      const models = await faultServer({ '/first.bq4': FIRST, '/second.bq4': SECOND });
      const site = await host();
      const browser = await start(name);
      let release = () => {};
      /** @type {Promise<void>} */
      const released = new Promise((resolve) => (release = resolve));
      models.faults = [{ path: '/second.bq4', hold: SECOND.length - 1, until: released }];
      try {
        const page = await browser.open(site.url);
        const ask = (/** @type {string} */ address) =>
          page.evaluate(async (url) => {
            const { own } = /** @type {any} */ (globalThis);
            const { signal } = new AbortController();
            return (await own.load(url, { kv: 'f32' }, () => {}, signal)).contextTokens;
          }, address);
        const inUse = () => page.evaluate(() => /** @type {any} */ (globalThis).own.info?.contextTokens ?? null);
        await page.evaluate(async (memory) => {
          Object.defineProperty(navigator, 'deviceMemory', { value: memory });
          const module = '/demo/models/engine-host.js';
          const { Host } = await import(module);
          const own = new Host();
          await own.start(() => {});
          Object.assign(globalThis, { own });
        }, gigabytes);
        assert.equal(await ask(models.at('/first.bq4')), 64);
        const loading = ask(models.at('/second.bq4'));
        await until('all but the last byte', () =>
          models.requests.some(({ path, from, sent }) => path === '/second.bq4' && from + sent >= SECOND.length - 1),
        );
        assert.equal(await inUse(), held ? 64 : null);
        release();
        assert.equal(await loading, 128);
        assert.equal(await inUse(), 128);
        await page.close();
      } finally {
        release();
        await browser.close();
        await Promise.all([site.close(), models.close()]);
      }
    });
});
