// Tests of a GGUF file that is dropped on the demo, in every browser.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { chromiumFirst, oneSite } from './every.mjs';
import { ISOLATED, REAL } from './host.mjs';

/** @param {import('./browsers.mjs').Page} page */
const ready = (page) =>
  page.until(() => {
    const send = /** @type {HTMLButtonElement | null} */ (document.querySelector('#send'));
    return send && !send.disabled && !send.hidden && !document.querySelector('#arriving')?.checkVisibility();
  });

await chromiumFirst((name) => {
  const here = oneSite(name, ISOLATED);

  test(
    'SmolLM2 dropped as GGUF: asked for the capital of France it says Paris',
    { skip: realModel('smollm2') ? false : NO_REAL_MODEL, timeout: 240_000 },
    async () => {
      const page = await here.open('demo/');
      await ready(page);
      await page.evaluate(async (address) => {
        const temperature = /** @type {HTMLInputElement} */ (document.querySelector('#sampling [name="temperature"]'));
        temperature.value = '0';
        temperature.dispatchEvent(new Event('input', { bubbles: true }));
        temperature.dispatchEvent(new Event('change', { bubbles: true }));
        const data = new DataTransfer();
        data.items.add(new File([await (await fetch(address)).blob()], 'SmolLM2-135M-Instruct.Q4_1.gguf'));
        for (const type of ['dragover', 'drop'])
          document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
      }, REAL);
      // What it takes is said first.
      await page.until(() => /** @type {HTMLDialogElement | null} */ (document.querySelector('#plan'))?.open);
      assert.match(
        await page.evaluate(() => document.querySelector('#plan')?.textContent ?? ''),
        /98\.4 MB, read from your file.*\d+ MB with a context of 4,096 tokens/s,
      );
      await page.click('#plan-start');
      await page.until(() => /SmolLM2/i.test(document.querySelector('#model-name')?.textContent ?? ''));
      await ready(page);
      await page.type('#message', 'What is the capital of France?');
      await page.click('#send');
      await ready(page);
      const message = await page.evaluate(
        () => [...document.querySelectorAll('[role=log] article .text')].at(-1)?.textContent ?? '',
      );
      assert.match(message, /The capital of France is Paris/);
      assert.deepEqual(await page.trouble(), []);
      await page.close();
    },
  );
});
