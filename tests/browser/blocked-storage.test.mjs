// Tests of the demo in a browser that blocks cookies, and so refuses storage and locks, and with stored settings that are invalid.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newPage, oneHost, openDemo, ready, say, ui } from './site.mjs';

const here = oneHost();

/** Refuses storage, locks and channels, as Chromium and Firefox do if cookies are blocked: no switch of the headless shell does that. */
function refuse() {
  const denied = () => {
    throw new DOMException('denied in this context', 'SecurityError');
  };
  for (const name of ['localStorage', 'sessionStorage', 'indexedDB', 'caches'])
    Object.defineProperty(globalThis, name, { get: denied });
  globalThis.BroadcastChannel = /** @type {any} */ (denied);
  StorageManager.prototype.getDirectory = async () => denied();
  LockManager.prototype.request = async () => denied();
  LockManager.prototype.query = async () => denied();
}

test('if the browser blocks cookies, the demo replies and the search page starts', async () => {
  const page = await newPage(here.browser);
  await page.addInitScript(refuse);
  await openDemo(page, here.site.url);
  assert.match(await say(page, 'Hello!'), /\w/);
  assert.deepEqual(await ui(page).alert.allTextContents(), []);
  await page.goto(`${here.site.url}demo/search.html`);
  await page.locator('#status', { hasText: 'Download the search model' }).waitFor();
  assert.equal(await page.locator('#alerts').textContent(), '');
  assert.deepEqual(page.trouble, []);
  await page.context().close();
});

test('a stored context that is impossible counts as absent', async () => {
  const page = await newPage(here.browser);
  await openDemo(page, here.site.url);
  for (const context of [-1, 1e15]) {
    await page.evaluate((last) => localStorage.setItem('bq4.model', JSON.stringify(last)), {
      ...{ kind: 'bundled', name: 'n', key: '', bytes: 0 },
      context,
    });
    await page.reload();
    await ready(page);
    assert.deepEqual(await ui(page).alert.allTextContents(), []);
  }
  await page.context().close();
});
