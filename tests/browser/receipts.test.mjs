// Tests of receipts in browsers: each browser reproduces the receipt of Node, and Node those of browsers.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createEngine, fromFile } from '../../js/node.js';
import { ENGINE, loadOptions, readReceipt, replay } from '../../js/api/receipts/index.js';
import { chromiumFirst, oneSite } from './every.mjs';

const path = (/** @type {string} */ name) => fileURLToPath(new URL(`../../${name}`, import.meta.url));

await chromiumFirst((name) => {
  const here = oneSite(name);

  test('receipts of Node can be verified in a page, and those of a page in Node', async () => {
    const golden = await readReceipt(readFileSync(path('tests/golden/receipt.json'), 'utf8'));
    const page = await here.open();
    const { found, receipt } = await page.evaluate(
      async (/** @type {any} */ { golden, options }) => {
        const module = (/** @type {string} */ path) => import(new URL(path, location.href).href);
        const [{ createWorkerEngine }, { receiptOf, replay }] = await Promise.all([
          module('/js/index.js'),
          module('/js/api/receipts/index.js'),
        ]);
        const engine = await createWorkerEngine();
        const model = await engine.load('/models/chat.bq4', options);
        const found = await replay(model, golden);
        const session = await model.createSession();
        const chosen = { maxTokens: 30, temperature: 1.1, topK: 0, seed: 99 };
        const receipt = await receiptOf(model, session, await session.generate('The moon', chosen).result, chosen);
        await engine.close();
        return { found, receipt };
      },
      { golden, options: loadOptions(golden) },
    );
    assert.deepEqual(found, { equal: true, engine: ENGINE, tokens: golden.tokens, differences: [] });
    const engine = await createEngine({ build: 'simd128', threads: 1 });
    const again = await replay(
      await engine.load(fromFile(path('models/chat.bq4')), loadOptions(receipt)),
      await readReceipt(receipt),
    );
    assert.deepEqual(again, { equal: true, engine: ENGINE, tokens: receipt.tokens, differences: [] });
    await engine.close();
  });
});
