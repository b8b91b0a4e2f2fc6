// A model from a link in the demo: its plan, what is kept of it, and links that fail.
// Downloads beside a conversation, paused, cancelled and resumed, are in downloads.test.mjs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failOnFaults } from './console.mjs';
import { ready, say, texts, ui } from './site.mjs';
import { withLargeModel } from './large-model.mjs';

failOnFaults();

const here = withLargeModel('links');

/** @param {import('playwright-core').Page} page @param {string} url */
async function look(page, url) {
  await ui(page).models.click();
  await page.locator('#link').fill(url);
  await page.getByRole('button', { name: 'Find', exact: true }).click();
}

/** @param {import('playwright-core').Page} page @param {string} name */
const inUse = (page, name) => page.locator('#model-name', { hasText: name }).waitFor();

/** Bytes of the model that were sent. */
const sent = () => here.models.asked().reduce((sum, request) => sum + request.sent, 0);

test('the plan comes first, then the download; it is kept and used again', async () => {
  const page = await here.demo();
  await look(page, here.models.at('/large.bq4'));
  const plan = page.locator('#plan');
  await page.getByRole('button', { name: 'Download', exact: true }).waitFor();
  const text = (await plan.textContent()) ?? '';
  for (const part of [/CC0-1\.0/, /llama, 10 layers/, /\d+\.\d MB/, /per 1,000/, /yes/]) assert.match(text, part);
  assert.ok(sent() < 2e6, `${sent()} bytes for a plan`);

  await page.getByRole('button', { name: 'Download', exact: true }).click();
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'model-name', 'focus is back where it was');
  await inUse(page, 'large.bq4');
  await ready(page);
  assert.match(await say(page, 'Hello'), /./s);
  assert.deepEqual(page.trouble, []);

  // Another visit: it is used again, and nothing is fetched.
  const before = here.models.asked().length;
  await page.reload();
  await ready(page);
  await inUse(page, 'large.bq4');
  assert.equal(here.models.asked().length, before);
  assert.equal((await texts(page)).length, 2, 'the conversation is there too');
  await page.locator('#arriving').waitFor({ state: 'hidden' });
  await ui(page).models.click();
  await page.evaluate(() => {
    const { storage } = navigator;
    const persist = storage.persist.bind(storage);
    storage.persist = () => persist().finally(() => (document.body.dataset.asked = 'yes'));
  });
  await page.getByRole('button', { name: 'Keep: large.bq4' }).click();
  await page.getByRole('button', { name: 'Kept: large.bq4' }).waitFor();
  await page.locator('body[data-asked]').waitFor();
  await page.locator('#models-search').fill('large.bq4');
  assert.equal(await page.locator('#stored li:visible', { hasText: 'large.bq4' }).count(), 1);
});

test('a link to nothing, a page, a server that breaks: said, and the bundled model goes on', async () => {
  const page = await here.demo();
  await look(page, here.models.at('/nothing.bq4'));
  await ui(page).alert.waitFor();
  assert.match((await ui(page).alert.textContent()) ?? '', /HTTP_STATUS/);
  assert.match(await say(page, 'Hello!'), /\w/);
  here.models.faults = [{ html: true }];
  await look(page, here.models.at('/large.bq4'));
  await ui(page).alert.getByText("isn't a model").waitFor();
  assert.match((await ui(page).alert.textContent()) ?? '', /NOT_A_MODEL/);
  assert.match(await say(page, 'Hello!'), /\w/);
});
