// Tests of receipts with a real model, SmolLM2's GGUF file: each browser reproduces the receipt of Node, and Node those of browsers.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEngine, fromFile } from '../../js/node.js';
import { loadOptions, readReceipt, receiptOf, replay } from '../../js/api/receipts/index.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { everyBrowser, oneSite } from './every.mjs';
import { REAL } from './host.mjs';

const real = realModel('smollm2');
const PROMPT = 'The capital of France is';
const LOAD = { contextTokens: 256 };
const CHOSEN = { maxTokens: 16, temperature: 0.9, seed: 7 };

await everyBrowser((name) => {
  const here = oneSite(name);

  test(
    "SmolLM2's GGUF: a receipt from Node is equal in the page, one from the page in Node",
    { skip: real ? false : NO_REAL_MODEL },
    async (t) => {
      const engine = await createEngine({ build: 'simd128', threads: 1 });
      t.after(() => engine.close());
      const model = await engine.load(fromFile(/** @type {string} */ (real)), LOAD);
      const session = await model.createSession();
      const own = await receiptOf(model, session, await session.generate(PROMPT, CHOSEN).result, CHOSEN);
      await session.close();
      const page = await here.open();
      const { found, receipt } = await page.evaluate(
        async (/** @type {any} */ { own, path, prompt, load, chosen }) => {
          const module = (/** @type {string} */ path) => import(new URL(path, location.href).href);
          const [{ createWorkerEngine }, { receiptOf, replay }] = await Promise.all([
            module('/js/index.js'),
            module('/js/api/receipts/index.js'),
          ]);
          const engine = await createWorkerEngine();
          const model = await engine.load(path, load);
          const found = await replay(model, own);
          const session = await model.createSession();
          const receipt = await receiptOf(model, session, await session.generate(prompt, chosen).result, chosen);
          await engine.close();
          return { found, receipt };
        },
        { own, path: REAL, prompt: PROMPT, load: loadOptions(own), chosen: { ...CHOSEN, seed: 8 } },
      );
      const equal = { equal: true, engine: own.engine, differences: [] };
      assert.deepEqual(found, { ...equal, tokens: own.tokens });
      assert.equal(receipt.model.file, own.model.file);
      assert.notDeepEqual(receipt.tokens, own.tokens, 'another seed, another text');
      assert.deepEqual(await replay(model, await readReceipt(receipt)), { ...equal, tokens: receipt.tokens });
      assert.deepEqual(await page.trouble(), []);
      await page.close();
    },
  );
});
