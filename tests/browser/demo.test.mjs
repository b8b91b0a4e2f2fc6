// Tests of the demo in every browser: it loads, streams a reply, refuses an invalid file and reports no errors. chat.test.mjs tests all
// functions, in Chromium.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { BROWSERS } from './browsers.mjs';
import { chromiumFirst, oneSite } from './every.mjs';
import { ISOLATED } from './host.mjs';

/** @param {import('./browsers.mjs').Page} page */
const ready = (page) =>
  page.until(() => {
    const send = /** @type {HTMLButtonElement | null} */ (document.querySelector('#send'));
    return send && !send.disabled && !send.hidden;
  });

/** Says it, and gives back every state that the reply went through. @param {import('./browsers.mjs').Page} page @param {string} text */
async function say(page, text) {
  await page.evaluate(() => {
    const seen = /** @type {any} */ (globalThis.seen = /** @type {string[]} */ ([]));
    new MutationObserver(() => {
      const now = [...document.querySelectorAll('[role=log] article .text')].at(-1)?.textContent ?? '';
      if (now !== seen.at(-1)) seen.push(now);
    }).observe(/** @type {Node} */ (document.querySelector('[role=log]')), {
      subtree: true,
      childList: true,
      characterData: true,
    });
  });
  await page.type('#message', text);
  await page.click('#send');
  await ready(page);
  return page.evaluate(() => /** @type {string[]} */ (/** @type {any} */ (globalThis).seen));
}

await chromiumFirst((name) => {
  for (const [kind, headers] of Object.entries({ 'any host': {}, 'an isolating host': ISOLATED })) {
    describe(`from ${kind}`, () => {
      const here = oneSite(name, headers);

      test('the demo loads, streams a reply, and continues after an invalid file and after a reload', async () => {
        const page = await here.open('demo/');
        await ready(page);
        const states = (await say(page, 'Tell me a story')).filter((state) => state && state !== 'Tell me a story');
        assert.ok(states.length >= 3, `${states.length} states`);
        for (const state of states)
          assert.ok(String(states.at(-1)).startsWith(state), `"${state}" in "${states.at(-1)}"`);
        const stat = (/** @type {string} */ what) =>
          page.evaluate((what) => document.querySelector(`[data-stat="${what}"]`)?.textContent, what);
        // Where there are both kernels, a measurement says which are faster on this machine.
        assert.match(String(await stat('build')), BROWSERS[name].relaxed ? /^(relaxed SIMD|SIMD128)/i : /^SIMD128/i);
        assert.match(String(await stat('speed')), /^\d/);
        // No browser here recognises speech on the device.
        assert.equal(await page.evaluate(() => document.querySelector('#dictate')?.checkVisibility()), false);

        await page.evaluate(() => {
          const data = new DataTransfer();
          data.items.add(new File(['these are my notes, not a model. '.repeat(9)], 'notes.bq4'));
          for (const type of ['dragover', 'drop'])
            document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
        });
        await page.until(() => document.querySelector('[role=alert] code'));
        assert.match(
          await page.evaluate(() => document.querySelector('[role=alert] code')?.textContent ?? ''),
          /^(NOT_A_MODEL|FORMAT)/,
        );
        await ready(page);
        assert.match(String((await say(page, 'Hello!')).at(-1)), /\w/);

        await page.reload();
        await ready(page);
        assert.equal(
          await page.evaluate(() => document.querySelectorAll('[role=log] article').length),
          4,
          'the conversation is there',
        );
        assert.match(String((await say(page, 'Thank you')).at(-1)), /\w/);
        assert.deepEqual(await page.trouble(), []);
        await page.close();
      });
    });
  }
});
