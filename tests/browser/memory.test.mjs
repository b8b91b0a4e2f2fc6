// A model of the 135M shape in the browser: the heap is what was planned and little more than weights and KV cache,
// and the whole context can be used.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileSink } from '../../js/convert/output.js';
import { makeRandom, SHAPES } from '../../tools/make_random.mjs';
import { PUBLIC, serve } from '../../tools/serve.mjs';
import { launch } from './launch.mjs';
import { ROOT } from './site.mjs';

const FILE = 'build/bench/135m-bq4h.bq4';
const CONTEXT = 2048;

/** @type {import('playwright-core').Browser} */
let browser;
/** @type {Awaited<ReturnType<typeof serve>>} */
let site;

before(async () => {
  if (!existsSync(join(ROOT, FILE))) {
    mkdirSync(join(ROOT, 'build', 'bench'), { recursive: true });
    await makeRandom(SHAPES['135m'], await fileSink(join(ROOT, FILE)), { quant: 'bq4h', embed: 'bq8', tokenizer: false });
  }
  site = await serve({ root: ROOT, folders: [...PUBLIC, 'build/bench'] });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await site?.close();
});

for (const kv of /** @type {const} */ (['f32', 'f16'])) {
  test(`135M shape, context ${CONTEXT}, KV cache in ${kv}: heap at most weights + KV + 10 %`, async () => {
    const page = await browser.newPage();
    await page.goto(`${site.url}models/README.md`); // any page of the origin
    const prompt = kv === 'f16' ? CONTEXT - 7 : 24;
    const seen = await page.evaluate(async ({ url, js, context, kv, prompt }) => {
      const { createWorkerEngine, fromUrl } = await import(js);
      // The long prompt leaves room for eight tokens, the last of which needs no position of its own.
      const engine = await createWorkerEngine();
      const plan = await engine.plan(fromUrl(url), { context, kv });
      const model = await engine.load(fromUrl(url), { context, kv });
      const session = await model.createSession();
      const ids = Array.from({ length: prompt }, (_, i) => 100 + ((i * 7919) % 40000));
      const result = await session.generate(ids, { temperature: 0, maxTokens: prompt > 100 ? 100 : 8 }).done();
      const memory = await model.memory();
      await engine.close();
      return { plan, memory, generated: result.ids.length, reason: result.reason };
    }, { url: `${site.url}${FILE}`, js: `${site.url}js/index.js`, context: CONTEXT, kv, prompt });
    const { plan, memory } = seen;
    const least = plan.weightBytes + plan.kvBytes;
    assert.equal(plan.kvBytes, 30 * 2 * 3 * 64 * CONTEXT * (kv === 'f16' ? 2 : 4));
    assert.ok(plan.heapBytes <= 1.1 * least, `heap ${plan.heapBytes}, weights and KV ${least}`);
    assert.ok(memory.total <= Math.ceil(plan.heapBytes / 65536) * 65536, `${memory.total} bytes, planned ${plan.heapBytes}`);
    assert.ok(memory.peak <= memory.heap);
    assert.equal(seen.generated, 8);
    assert.equal(seen.reason, prompt > 100 ? 'context' : 'length'); // the long one fills the context to the last position
    await page.close();
  });
}
