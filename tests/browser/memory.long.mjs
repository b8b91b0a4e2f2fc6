// Tests of the memory of a model with the 135M shape in a browser: the heap equals the plan, is little more than weights and KV cache, and
// the complete context can be used. Also tests a browser that provides no more memory.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileSink } from '../../js/format/output.js';
import { makeRandom, SHAPES } from '../../tools/make_random.mjs';
import { PUBLIC, serve } from '../../tools/serve.mjs';
import { tinyModel } from '../js/fixture.mjs';
import { faultServer } from '../server/faults.mjs';
import { failOnFaults } from './console.mjs';
import { launch } from './launch.mjs';
import { ROOT } from './site.mjs';

failOnFaults();

const FILE = 'build/bench/135m-bq4h.bq4';
const CONTEXT = 2048;

/** @type {import('playwright-core').Browser} */
let browser;
/** @type {Awaited<ReturnType<typeof serve>>} */
let site;

before(async () => {
  if (!existsSync(join(ROOT, FILE))) {
    mkdirSync(join(ROOT, 'build', 'bench'), { recursive: true });
    await makeRandom(SHAPES['135m'], await fileSink(join(ROOT, FILE)), {
      quant: 'bq4h',
      embed: 'bq8',
      tokenizer: false,
    });
  }
  site = await serve({ root: ROOT, folders: [...PUBLIC, 'build/bench'], policy: false });
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
    const seen = await page.evaluate(
      async ({ url, js, context, kv, prompt }) => {
        const { createWorkerEngine, fromUrl } = await import(js);
        // The long prompt leaves room for eight tokens, the last of which needs no position of its own.
        const engine = await createWorkerEngine({ cache: false });
        const plan = await engine.plan(fromUrl(url), { contextTokens: context, kv });
        const model = await engine.load(fromUrl(url), { contextTokens: context, kv });
        const session = await model.createSession();
        const ids = Array.from({ length: prompt }, (_, i) => 100 + ((i * 7919) % 40000));
        const result = await session.generate(ids, { temperature: 0, maxTokens: prompt > 100 ? 100 : 8 }).result;
        const memory = await model.memory();
        await engine.close();
        return { plan, memory, generated: result.tokens.length, reason: result.finishReason };
      },
      { url: `${site.url}${FILE}`, js: `${site.url}js/index.js`, context: CONTEXT, kv, prompt },
    );
    const { plan, memory } = seen;
    const least = plan.weightBytes + plan.kvBytes;
    assert.equal(plan.kvBytes, 30 * 2 * 3 * 64 * CONTEXT * (kv === 'f16' ? 2 : 4));
    assert.ok(plan.heapBytes <= 1.1 * least, `heap ${plan.heapBytes}, weights and KV ${least}`);
    assert.ok(
      memory.total <= Math.ceil(plan.heapBytes / 65536) * 65536,
      `${memory.total} bytes, planned ${plan.heapBytes}`,
    );
    assert.ok(memory.peak <= memory.heap);
    assert.equal(seen.generated, 8);
    assert.equal(seen.reason, prompt > 100 ? 'context' : 'length'); // the long one fills the context to the last position
    await page.close();
  });
}

test('if the browser provides no more memory, the error is NOMEM with numbers, nothing is downloaded, and the loaded model stays', async (t) => {
  const server = await faultServer({
    '/model.bq4': await tinyModel({ config: { layers: 4, hidden: 256, ffn: 1024, heads: 4, kv_heads: 2 } }),
  });
  t.after(server.close);
  const page = await browser.newPage();
  await page.goto(`${site.url}models/README.md`);
  const seen = await page.evaluate(
    async ({ url, js }) => {
      const { createWorkerEngine, fromUrl } = await import(js);
      const engine = await createWorkerEngine({ threads: 1, cache: false });
      const model = await engine.load(fromUrl(url));
      const say = async (/** @type {any} */ model) => {
        const session = await model.createSession();
        const { tokens: ids } = await session.generate('the quick', { temperature: 0, maxTokens: 6 }).result;
        await session.close();
        return ids.join();
      };
      const first = await say(model);
      const here = /** @type {any} */ (globalThis);
      here.taken = [];
      // Chromium gives a process so many heaps, however small; what the engine has dropped is collected when it needs one.
      const take = () => {
        try {
          for (;;) here.taken.push(new WebAssembly.Memory({ initial: 1, maximum: 1 }));
        } catch {}
      };
      const failure = (/** @type {any} */ { code, message, hint, details }) => ({
        code,
        message,
        hint,
        bytes: details?.bytes,
      });
      const errors = [];
      while (!errors.length) {
        take();
        await engine.load(fromUrl(url)).then(
          (/** @type {any} */ more) => here.taken.push(more),
          (/** @type {any} */ error) => errors.push(failure(error)),
        );
      }
      await createWorkerEngine({ threads: 1, cache: false }).catch((/** @type {any} */ error) =>
        errors.push(failure(error)),
      );
      const again = await say(model);
      Object.assign(here, { engine, fromUrl, say });
      return { first, again, errors };
    },
    { url: server.at('/model.bq4'), js: `${site.url}js/index.js` },
  );
  assert.equal(seen.again, seen.first);
  assert.equal(seen.errors.length, 2);
  for (const { code, message, hint, bytes } of seen.errors) {
    assert.equal(code, 'NOMEM');
    assert.match(message, /^can't allocate \d+ MB of memory/);
    assert.match(hint, /\w \w/);
    assert.ok(bytes > 0);
  }
  const refused = server.asked().at(-1);
  assert.equal(refused?.range, 'bytes=0-65535', 'what a plan reads, and no more');
  await page.evaluate(() => void delete (/** @type {any} */ (globalThis).taken));
  await (await page.context().newCDPSession(page)).send('HeapProfiler.collectGarbage');
  const after = await page.evaluate(async (url) => {
    const { engine, fromUrl, say } = /** @type {any} */ (globalThis);
    return say(await engine.load(fromUrl(url)));
  }, server.at('/model.bq4'));
  assert.equal(after, seen.first);
  await page.close();
});
