// Tests of dictation in the demo, which requires speech recognition on the device. The tested browsers do not have it, so a class with the
// interface of the Web Speech API replaces the recognition; the test supplies the text.
import assert from 'node:assert/strict';
import axe from 'axe-core';
import { test } from 'node:test';
import { newPage, oneHost, openDemo, ready, texts, ui } from './site.mjs';

const here = oneHost();

/** @param {string | null} state  that `available` resolves to for recognition on the device; null: the browser's own */
async function demo(state, viewport = { width: 1280, height: 900 }) {
  const page = await newPage(here.browser, { viewport });
  if (state !== null)
    await page.addInitScript((state) => {
      class SpeechRecognition {
        static available = async (/** @type {any} */ { langs, processLocally }) =>
          processLocally && langs[0] === navigator.language ? state : 'available';
        #isLocal = false;
        get processLocally() {
          return this.#isLocal;
        }
        set processLocally(isLocal) {
          this.#isLocal = isLocal;
        }
        start() {
          Object.assign(globalThis, { recognition: this });
        }
        stop() {
          /** @type {any} */ (this).onend?.();
        }
        abort() {
          this.stop();
        }
      }
      for (const name of ['SpeechRecognition', 'webkitSpeechRecognition'])
        Object.defineProperty(globalThis, name, { value: SpeechRecognition, configurable: true });
    }, state);
  await openDemo(page, here.site.url);
  return page;
}

/** @param {import('playwright-core').Page} page @param {string[]} parts */
const speak = (page, ...parts) =>
  page.evaluate((parts) => {
    const results = parts.map((transcript) => [{ transcript }]);
    /** @type {any} */ (globalThis).recognition.onresult({ results });
  }, parts);

test('dictated text is inserted at the cursor and can be edited or sent', async () => {
  const page = await demo('available', { width: 320, height: 700 });
  const dictate = page.getByRole('button', { name: 'Dictate' });
  const box = await dictate.boundingBox();
  assert.ok(box && box.width >= 40 && box.height >= 40, JSON.stringify(box));
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => /** @type {any} */ (globalThis).axe.run());
  assert.deepEqual(
    violations.map((/** @type {any} */ { id, nodes }) => `${id}: ${nodes[0].html}`),
    [],
  );

  const { message } = ui(page);
  await message.fill('Dear all, yours');
  await page.evaluate(() => {
    /** @type {HTMLTextAreaElement} */ (document.querySelector('#message')).setSelectionRange(9, 9);
  });
  await dictate.click();
  assert.equal(await dictate.getAttribute('aria-pressed'), 'true');
  assert.equal(await page.evaluate(() => /** @type {any} */ (globalThis).recognition.processLocally), true);
  await speak(page, 'good');
  assert.equal(await message.inputValue(), 'Dear all, good yours');
  await speak(page, 'good morning', ' to you ');
  assert.equal(await message.inputValue(), 'Dear all, good morning to you yours');
  const draft = () => page.evaluate(() => Object.entries(localStorage).find(([key]) => /draft/.test(key))?.[1]);
  assert.equal(await draft(), 'Dear all, good morning to you yours');
  await dictate.click();
  assert.equal(await dictate.getAttribute('aria-pressed'), 'false');

  // Once the message is sent, nothing spoken comes into the next one.
  await message.fill('');
  await dictate.click();
  await speak(page, 'Hello');
  await message.press('Enter');
  await ready(page);
  await speak(page, 'Hello there');
  assert.equal(await message.inputValue(), '');
  assert.equal((await texts(page))[0], 'Hello');
  assert.equal(await dictate.getAttribute('aria-pressed'), 'false');

  await dictate.click();
  await page.evaluate(() => {
    const { recognition } = /** @type {any} */ (globalThis);
    recognition.onerror({ error: 'not-allowed' });
    recognition.onend();
  });
  await page.getByRole('alert').filter({ hasText: "The page can't hear you" }).waitFor();
  assert.deepEqual(page.trouble, []);
  await page.context().close();
});

for (const state of ['unavailable', 'downloadable', null])
  test(`without recognition on the device (${state ?? "the browser's own answer"}) there is no button`, async () => {
    const page = await demo(state);
    await page.evaluate(async () => {
      const { SpeechRecognition, webkitSpeechRecognition } = /** @type {any} */ (globalThis);
      const options = { langs: [navigator.language], processLocally: true };
      await (SpeechRecognition ?? webkitSpeechRecognition)?.available?.(options);
    });
    assert.equal(await page.getByRole('button', { name: 'Dictate' }).count(), 0);
    assert.ok(
      !(await page.evaluate(() =>
        performance.getEntriesByType('resource').some(({ name }) => name.includes('dictation')),
      )),
    );
    assert.deepEqual(page.trouble, []);
    await page.context().close();
  });
