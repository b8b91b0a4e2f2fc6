// Tests of user actions in the demo during a download and before a switch of the model: deleting, pausing, selecting another model, sending
// a message.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../waiting.mjs';
import { failOnFaults } from './console.mjs';
import { makeLarge, withLargeModel } from './large-model.mjs';
import { join } from 'node:path';
import { holdRequests, newPage, ready, say, texts, ui } from './site.mjs';

failOnFaults();
const here = withLargeModel('download-walk');

/** @typedef {import('playwright-core').Page} Page */

/** @param {Page} page @param {string} [path]  of a server that sends the first half, and the rest once it is released */
async function download(page, path = '/large.bq4') {
  await ui(page).models.click();
  await page.locator('#link').fill(here.models.at(path));
  await page.getByRole('button', { name: 'Find', exact: true }).click();
  await page.locator('#plan-start').click();
}
/** The server sends no more than this of the file. */
const HALF = 13e6;
/** @param {Page} page @param {string} text */
const strip = (page, text) => page.locator('#arriving-words', { hasText: text }).waitFor();
/** @param {Page} page @param {string} name */
const row = (page, name) => page.locator('#stored li', { hasText: name });
/** @param {Page} page @param {string} text */
const notice = (page, text) => page.locator('#notices .notice', { hasText: text });
/** The first half is stored. @param {Page} page @param {string} [path] */
async function halved(page, path) {
  here.models.faults = [{ hold: HALF }];
  await download(page, path);
  await page.locator('#arriving-amount', { hasText: /^(9|1\d)\.\d MB of/ }).waitFor();
}

test('deleting a model during its download ends the download, and the model is not used', async () => {
  const page = await here.demo();
  await halved(page);
  await ui(page).models.click();
  await row(page, 'large.bq4').getByText('Downloading').waitFor();
  assert.ok(await row(page, 'large.bq4').getByRole('button', { name: 'large.bq4 is being downloaded' }).isDisabled());
  await page.getByRole('button', { name: 'Delete large.bq4' }).click();
  await page.locator('#models-deleted', { hasText: 'large.bq4 deleted' }).waitFor();
  await page.locator('#arriving').waitFor({ state: 'hidden' });
  assert.deepEqual(await page.evaluate(() => localStorage.getItem('bq4.download')), '{}');
  await page.locator('#models-close').click();
  await page.locator('#offers').waitFor();
  await until('no request is open', () => here.models.requests.every(({ end }) => end !== 'open'));
  assert.equal(await ui(page).models.textContent(), 'Tiny (built in)');
});

test('a paused download stays paused after a reload and can be resumed', async () => {
  const page = await here.demo();
  await halved(page);
  await page.getByRole('button', { name: 'Pause' }).click();
  await strip(page, 'Paused: large.bq4');
  here.models.faults = [];
  here.models.forget();
  await page.reload();
  await ready(page);
  await notice(page, 'of 26.6 MB downloaded.').waitFor();
  assert.ok(!(await page.locator('#arriving').isVisible()));
  assert.deepEqual(here.models.asked(), []);
  await notice(page, 'large.bq4').getByRole('button', { name: 'Resume' }).click();
  await page.locator('#model-name', { hasText: 'large.bq4' }).waitFor();
});

/** A page in which the model was downloaded beside the one in use, with the list of models open. */
async function listBesideReadyModel() {
  const page = await here.demo();
  await say(page, 'Hello!');
  await download(page);
  await notice(page, 'large.bq4 is ready.').waitFor();
  await ui(page).models.click();
  return page;
}

test('a ready model can be selected from the list, and is then no longer offered', async () => {
  const page = await listBesideReadyModel();
  await page.getByRole('button', { name: 'Use large.bq4' }).click();
  await page.locator('#model-name', { hasText: 'large.bq4' }).waitFor();
  await ready(page);
  assert.equal(await notice(page, 'is ready').count(), 0);
  await page.reload();
  await page.locator('#model-name', { hasText: 'large.bq4' }).waitFor();
  await ready(page);
  assert.equal(await notice(page, 'is ready').count(), 0);
});

test('a ready model is offered after each reload until it is used or its notice is dismissed', async () => {
  const page = await here.demo();
  await say(page, 'Hello!');
  await download(page);
  const offer = notice(page, 'large.bq4 is ready.');
  await offer.waitFor();
  for (let i = 0; i < 2; i++) {
    await page.reload();
    await ready(page);
    await offer.waitFor();
  }
  await offer.getByRole('button', { name: 'Dismiss' }).click();
  await page.reload();
  await page.locator('#offers:not([hidden])').waitFor({ state: 'attached' });
  assert.equal(await offer.count(), 0);
  assert.deepEqual(await page.evaluate(() => localStorage.getItem('bq4.download')), '{}');
});

for (const visit of ['at once', 'after a reload'])
  test(`a ready model that is deleted is no longer offered: ${visit}`, async () => {
    const page = await listBesideReadyModel();
    if (visit === 'after a reload') await reopen(page, 'large.bq4 is ready.');
    await page.getByRole('button', { name: 'Delete large.bq4' }).click();
    await page.locator('#models-deleted', { hasText: 'large.bq4 deleted' }).waitFor();
    assert.equal(await notice(page, 'is ready').count(), 0);
  });

/** Reloads the page, waits for a notice and opens the list of models. @param {Page} page @param {string} text */
async function reopen(page, text) {
  await page.reload();
  await ready(page);
  await notice(page, text).waitFor();
  await ui(page).models.click();
}

test('after a reload, a model that is used from the list is no longer offered: of a paused download, a ready one', async () => {
  const page = await here.demo();
  await say(page, 'Hello!');
  await halved(page);
  await page.getByRole('button', { name: 'Pause' }).click();
  await strip(page, 'Paused: large.bq4');
  here.models.faults = [];
  here.models.forget();
  await reopen(page, 'of 26.6 MB downloaded.');
  await row(page, 'large.bq4').getByRole('button').last().click();
  await notice(page, 'large.bq4 is ready.').waitFor();
  assert.equal(await notice(page, 'downloaded').count(), 0);

  await reopen(page, 'large.bq4 is ready.');
  await page.getByRole('button', { name: 'Use large.bq4' }).click();
  await page.locator('#model-name', { hasText: 'large.bq4' }).waitFor();
  await ready(page);
  assert.equal(await notice(page, 'is ready').count(), 0);
});

test('a model that is selected before the engine starts is planned afterwards, and the built-in one replies meanwhile', async () => {
  const page = await newPage(here.browser);
  here.cleanup.push(() => page.context().close());
  const release = await holdRequests(page, '**/*.wasm');
  await page.goto(here.site.url);
  await ui(page).models.click();
  await page.locator('#link').fill(here.models.at('/large.bq4'));
  await page.getByRole('button', { name: 'Find', exact: true }).click();
  await strip(page, 'Checking large.bq4');
  release();
  await page.locator('#plan-start').waitFor();
  await page.locator('#model-name', { hasText: 'Tiny' }).waitFor();
  await ready(page);
  await page.locator('#plan-start').click();
  await page.locator('#model-name', { hasText: 'large.bq4' }).waitFor();
  assert.deepEqual(page.trouble, []);
});

test('selecting another model during a download reports that the first download has ended', async () => {
  const page = await here.demo();
  const other = join(here.folder, 'other.bq4');
  await makeLarge(other, { context: 128 });
  here.models.files['/other.bq4'] = other;
  await halved(page);
  await download(page, '/other.bq4');
  await strip(page, 'Downloading: other.bq4');
  await notice(page, 'The download of large.bq4 was stopped. You can resume it later.').waitFor();
});

test('a connection that breaks permanently shows the reason in plain words and a button Resume', async () => {
  const page = await here.demo();
  await say(page, 'Hello!');
  here.models.faults = [{ drop: HALF }];
  await download(page);
  const alert = page.getByRole('alert');
  await alert.getByText('The connection broke while “large.bq4” was downloaded.').waitFor();
  assert.match((await alert.textContent()) ?? '', /What was downloaded is kept\./);
  here.models.faults = [];
  await alert.getByRole('button', { name: 'Resume' }).click();
  await notice(page, 'large.bq4 is ready.').waitFor();
});

test('during a slow request the page shows it, and Cancel ends it', async () => {
  const page = await here.demo();
  here.models.faults = [{ silent: true }];
  await ui(page).models.click();
  await page.locator('#link').fill(here.models.at('/large.bq4'));
  await page.getByRole('button', { name: 'Find', exact: true }).click();
  await strip(page, 'Checking large.bq4');
  await page.locator('#arriving-cancel').click();
  await page.locator('#arriving').waitFor({ state: 'hidden' });
  assert.equal(await page.locator('#status').textContent(), 'Cancelled. Still using Tiny.');
  assert.equal(await page.getByRole('alert').count(), 0);
});

test('a message sent just before a switch of the model is answered by the new model', async () => {
  const page = await here.demo();
  await download(page);
  await page.locator('#model-name', { hasText: 'large.bq4' }).waitFor();
  await ready(page);
  await page.locator('#arriving').waitFor({ state: 'hidden' });
  // The message is read for so long that the other model is there before the first word.
  const words = 'a word and '.repeat(18);
  await ui(page).models.click();
  await page.evaluate((words) => {
    const press = (/** @type {string} */ one) => /** @type {HTMLElement} */ (document.querySelector(one)).click();
    const field = /** @type {HTMLTextAreaElement} */ (document.querySelector('#message'));
    field.value = words;
    field.dispatchEvent(new Event('input', { bubbles: true }));
    press('#send');
    press('[aria-label="Use Tiny (built in)"]');
  }, words);
  await page.locator('#model-name', { hasText: 'Tiny' }).waitFor();
  await page.waitForFunction(() => document.querySelectorAll('[role=log] article').length === 2);
  await ready(page);
  assert.equal((await texts(page))[0], words);
  assert.equal(await ui(page).message.inputValue(), '');
});
