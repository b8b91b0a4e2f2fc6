// Tests of deleting a model in the demo's list: it disappears from the list immediately, Undo restores it without a download, and its files
// are deleted when the notice disappears, when the page is hidden, or at the next visit.
import assert from 'node:assert/strict';
import axe from 'axe-core';
import { test } from 'node:test';
import { failOnFaults } from './console.mjs';
import { withLargeModel } from './large-model.mjs';
import { openDemo, ready, ui } from './site.mjs';
import { until } from '../waiting.mjs';

failOnFaults();
const here = withLargeModel('deletion');

/** The large model is stored, and the list is open. */
async function demo() {
  const page = await here.demo();
  await ui(page).models.click();
  await page.locator('#link').fill(here.models.at('/large.bq4'));
  await page.getByRole('button', { name: 'Find', exact: true }).click();
  await page.getByRole('button', { name: 'Download', exact: true }).click();
  await page.locator('#model-name', { hasText: 'large.bq4' }).waitFor();
  await ready(page);
  await page.locator('#arriving').waitFor({ state: 'hidden' });
  await ui(page).models.click();
  return page;
}

/** @param {import('playwright-core').Page} page */
const row = (page) => page.locator('#stored li', { hasText: 'large.bq4' });
/** @param {import('playwright-core').Page} page */
async function press(page) {
  await page.getByRole('button', { name: 'Delete large.bq4' }).click();
  await row(page).waitFor({ state: 'detached' });
}

/** Keys of the large model in the store of the page. @param {import('playwright-core').Page} page @returns {Promise<string[]>} */
const stored = (page) =>
  page.evaluate(async () => {
    const { openStore } = await import(/** @type {any} */ ('/js/storage/cache/index.js'));
    const store = await openStore();
    const files = await store.list();
    await store.close?.();
    return files.filter((/** @type {any} */ { name }) => name === 'large.bq4').map((/** @type {any} */ { key }) => key);
  });
/** Waits until the files are deleted. @param {import('playwright-core').Page} page */
async function deletionEnd(page) {
  await until('the files are deleted', async () => !(await stored(page)).length);
  await settled(page);
}
/** Waits until no deletion is recorded. @param {import('playwright-core').Page} page */
const settled = (page) => page.waitForFunction(() => !JSON.parse(localStorage.getItem('bq4.deleted') ?? '[]').length);

test('a deleted model disappears immediately, and Undo restores it, in the dialog and on the page', async () => {
  const page = await demo();
  await press(page);
  const note = page.locator('#models-deleted');
  assert.match((await note.textContent()) ?? '', /^large\.bq4 deleted \(2\d(\.\d)? MB freed\)\.Undo$/);
  assert.equal((await stored(page)).length, 1, 'until the notice is gone');
  for (const width of [1280, 320]) {
    await page.setViewportSize({ width, height: 900 });
    const box = await note.getByRole('button').boundingBox();
    assert.ok(box && box.height >= 40 && box.height < 44 && box.x + box.width <= width, JSON.stringify(box));
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  }
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => /** @type {any} */ (globalThis).axe.run('#models'));
  assert.deepEqual(
    violations.map((/** @type {any} */ { id, nodes }) => `${id}: ${nodes[0].html}`),
    [],
  );
  await note.getByRole('button', { name: /^Undo/ }).click();
  await row(page).waitFor();
  assert.equal(await note.textContent(), '');

  await press(page);
  await page.locator('#models-close').click();
  const notice = page.locator('#notices .notice');
  await notice.filter({ hasText: 'large.bq4 deleted' }).waitFor();
  await notice.getByRole('button', { name: 'Undo' }).click();
  await notice.waitFor({ state: 'detached' });
  assert.equal((await stored(page)).length, 1);
  await settled(page);
  await ui(page).models.click();
  await row(page).waitFor();
  assert.deepEqual(page.trouble, []);
});

test('the files are deleted when the notice disappears; selecting the model before restores it', async () => {
  const page = await demo();
  const asked = here.models.asked().length;
  await press(page);
  await page.locator('#link').fill(here.models.at('/large.bq4'));
  await page.getByRole('button', { name: 'Find', exact: true }).click();
  await page.locator('#models').waitFor({ state: 'hidden' });
  await ready(page);
  await page.locator('#arriving').waitFor({ state: 'hidden' });
  assert.equal(await page.locator('#notices .notice').count(), 0);
  await ui(page).models.click();
  await row(page).waitFor();
  assert.equal(here.models.asked().length, asked, 'no byte again');

  await press(page);
  await page.locator('#models-close').click();
  await page.getByRole('button', { name: 'Dismiss this message' }).click();
  await deletionEnd(page);
  assert.deepEqual(page.trouble, []);
});

/** A visit begins with the built-in model and says nothing of the one that was deleted. @param {import('playwright-core').Page} page */
async function notOffered(page) {
  await page.locator('#offers:not([hidden])').waitFor({ state: 'attached' });
  assert.equal(await ui(page).models.textContent(), 'Tiny (built in)');
  assert.deepEqual(await page.locator('#notices .notice').allTextContents(), []);
}

test('another tab deletes nothing that can be undone; files that a page could not delete are deleted at the next visit', async () => {
  const page = await demo();
  await press(page);
  await page.waitForFunction(() => JSON.parse(localStorage.getItem('bq4.deleted') ?? '[]').length === 1);
  const other = await page.context().newPage();
  await openDemo(other, here.site.url);
  const [key, ...more] = await stored(other);
  assert.ok(key && !more.length, 'still there');
  await other.close();
  await page.locator('#models-deleted button').click();
  await row(page).waitFor();
  await settled(page);

  await page.evaluate((key) => localStorage.setItem('bq4.deleted', JSON.stringify([key])), key);
  await page.reload();
  await ready(page);
  await deletionEnd(page);
  await notOffered(page);

  // Of a page that is left, its visit or the next one completes it.
  const again = await demo();
  await press(again);
  await again.goto('about:blank');
  await openDemo(again, here.site.url);
  await deletionEnd(again);
  await notOffered(again);
});
