// Tests of models from links in the demo: the plan, storage, links that fail, and a tab that crashed while loading. downloads.test.mjs
// tests downloads during a conversation.
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

test('a link is planned first, then downloaded; the model is stored, used again and deleted', async () => {
  const page = await here.demo();
  await look(page, here.models.at('/large.bq4'));
  const plan = page.locator('#plan');
  await page.getByRole('button', { name: 'Download', exact: true }).waitFor();
  const text = (await plan.textContent()) ?? '';
  for (const part of [/CC0-1\.0/, /llama, 10 layers/, /\d+\.\d MB/, /per 1,000/, /yes/, /up to [\d,]+ tokens\/s/])
    assert.match(text, part);
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
  await page.locator('#models-search').fill('');
  await page.getByRole('button', { name: 'Use Tiny (built in)' }).click();
  await inUse(page, 'Tiny');
  await ready(page);
  await ui(page).models.click();
  await page.getByRole('button', { name: 'Use large.bq4' }).click();
  await inUse(page, 'large.bq4');
  await ready(page);
  await page.locator('#arriving').waitFor({ state: 'hidden' });
  assert.equal(here.models.asked().length, before);
  await page
    .locator('[data-stat="authenticity"]', { hasText: /^no checksum published/ })
    .waitFor({ state: 'attached' });
  await ui(page).models.click();
  await page.getByRole('button', { name: 'Delete large.bq4' }).click();
  await page.locator('#stored li', { hasText: 'large.bq4' }).waitFor({ state: 'detached' });
  await page.waitForFunction(() => document.activeElement?.id === 'models-search');
  await page.locator('#models-close').click();
  assert.match(await say(page, 'Hello again'), /./s);
});

test('a link to nothing, to a page or to a failing server is reported, and the bundled model stays', async () => {
  const page = await here.demo();
  await look(page, here.models.at('/nothing.bq4'));
  await ui(page).alert.waitFor();
  assert.match((await ui(page).alert.textContent()) ?? '', /HTTP_STATUS/);
  assert.match(await say(page, 'Hello!'), /\w/);
  here.models.faults = [{ html: true }];
  await look(page, here.models.at('/large.bq4'));
  await ui(page).alert.getByText("isn't a model").waitFor();
  assert.match((await ui(page).alert.textContent()) ?? '', /NOT_A_MODEL/);
  await page.getByRole('button', { name: 'Try again' }).waitFor();
  assert.match(await say(page, 'Hello!'), /\w/);
  here.models.faults = [];
  await look(page, here.models.at('/picture.gguf'));
  await ui(page).alert.getByText("“picture.gguf” isn't a model").waitFor();
  assert.equal(await page.getByRole('button', { name: 'Try again' }).count(), 0);
});

test('after a tab crashed while loading, less memory is offered and nothing is loaded automatically', async () => {
  const isGone = await here.demo();
  here.models.faults = [{ bytesPerSecond: 1.5e6 }];
  await look(isGone, here.models.at('/large.bq4'));
  await isGone.getByRole('button', { name: 'Download', exact: true }).click();
  await isGone.waitForFunction(() => /^1\d\.\d MB/.test(document.querySelector('#arriving-amount')?.textContent ?? ''));
  const page = await isGone.context().newPage();
  await page.setViewportSize({ width: 390, height: 844 });
  const died = isGone.waitForEvent('crash');
  isGone
    .context()
    .newCDPSession(isGone)
    .then((devtools) => devtools.send('Page.crash'))
    .catch(() => {});
  await died;
  await page.goto(here.site.url);
  await ui(page).alert.waitFor();
  assert.match((await ui(page).alert.textContent()) ?? '', /large\.bq4.*CRASHED/s);
  await ready(page);
  assert.equal(await ui(page).models.textContent(), 'Tiny (built in)');
  assert.ok(!(await page.locator('#arriving').isVisible()), 'the download does not go on by itself');
  here.models.faults = [];
  await page.getByRole('button', { name: 'Load with less memory' }).click();
  await page.getByRole('button', { name: 'Download', exact: true }).waitFor();
  assert.match((await page.locator('#plan').textContent()) ?? '', /context of 128 tokens/);
  assert.ok(
    await page.locator('#plan').evaluate((plan) => plan.getBoundingClientRect().bottom <= innerHeight),
    'it is seen on a phone',
  );
  await page.getByRole('button', { name: 'Cancel' }).click();

  // That is offered once.
  await page.reload();
  await ready(page);
  assert.equal(await page.getByRole('alert').count(), 0);
  assert.match(await say(page, 'Hello!'), /\w/);
});
