// A model from a link in the demo: its plan, the download that goes on beside a conversation, what is kept of it, and a
// tab that died while it loaded one.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failOnFaults } from './console.mjs';
import { ready, say, stat, texts, ui } from './site.mjs';
import { withLargeModel } from './large-model.mjs';

failOnFaults();

const here = withLargeModel('links');

/** @param {import('playwright-core').Page} page @param {string} url */
async function look(page, url) {
  await ui(page).models.click();
  await page.locator('#link').fill(url);
  await page.getByRole('button', { name: 'Check', exact: true }).click();
}

/** Bytes of the model that were sent. */
const sent = () => here.models.asked().reduce((sum, request) => sum + request.sent, 0);

test('the plan comes first, then the download beside a conversation; it is kept', async () => {
  const page = await here.demo();
  await look(page, here.models.at('/large.bq4'));
  const plan = page.locator('#plan');
  await page.getByRole('button', { name: 'Download and use' }).waitFor();
  const text = (await plan.textContent()) ?? '';
  for (const part of [/CC0-1\.0/, /llama, 10 layers/, /\d+\.\d MB/, /per 1,000/, /yes/, /at most [\d,]+ tokens\/s/])
    assert.match(text, part);
  assert.ok(sent() < 2e6, `${sent()} bytes for a plan`);

  // Slow enough that it is talked to before it is there.
  here.models.faults = [{ bytesPerSecond: 4e6 }];
  await page.getByRole('button', { name: 'Download and use' }).click();
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'model-name', 'focus is back where it was');
  await page.getByRole('button', { name: 'Pause' }).waitFor();
  await page.locator('#amount', { hasText: /^[\d.]+ .B of [\d.]+ MB, [\d.]+ .B\/s, .*\d m?s left$/ }).waitFor();
  await ready(page);
  await ui(page).message.fill('Hello');
  await ui(page).send.click();
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('Paused: a reply waits').waitFor();
  await page.locator('#amount', { hasText: /MB of .* MB, paused$/ }).waitFor();
  here.models.faults = [];
  await page.getByRole('button', { name: 'Resume', exact: true }).click();
  await page.locator('#arriving').waitFor({ state: 'hidden' });
  await ready(page);
  assert.match(await stat(page, 'tokens'), /^[1-9]/);
  await ui(page).models.click();
  await page.locator('#stored li', { hasText: 'large.bq4' }).filter({ hasText: 'in use' }).waitFor();
  assert.deepEqual(page.trouble, []);

  // Another visit: it is used again, and nothing is fetched.
  const before = here.models.asked().length;
  await page.reload();
  await ready(page);
  await page.locator('[data-stat="name"]', { hasText: 'random weights' }).waitFor();
  assert.equal(here.models.asked().length, before);
  assert.equal((await texts(page)).length, 2, 'the conversation is there too');
  await page.locator('#arriving').waitFor({ state: 'hidden' });
  await ui(page).models.click();
  await page.evaluate(() => {
    const { storage } = navigator;
    const persist = storage.persist.bind(storage);
    storage.persist = () => persist().finally(() => (document.body.dataset.asked = 'yes'));
  });
  await page.getByRole('button', { name: 'Pin: large.bq4' }).click();
  await page.getByRole('button', { name: 'Pinned: large.bq4' }).waitFor();
  await page.locator('body[data-asked]').waitFor();
  await page.getByRole('searchbox').fill('large');
  assert.equal(await page.locator('#stored li').count(), 1);
  await page.getByRole('searchbox').fill('');
  await page.getByRole('button', { name: 'Use Bundled model' }).click();
  await page.locator('[data-stat="name"]', { hasNotText: 'random weights' }).waitFor();
  await ready(page);
  await ui(page).models.click();
  await page.getByRole('button', { name: 'Use large.bq4' }).click();
  await page.locator('[data-stat="name"]', { hasText: 'random weights' }).waitFor();
  await ready(page);
  await page.locator('#arriving').waitFor({ state: 'hidden' });
  assert.equal(here.models.asked().length, before);
  assert.match(await stat(page, 'authenticity'), /^not known/);
  await ui(page).models.click();
  await page.getByRole('button', { name: 'Delete large.bq4' }).click();
  await page.locator('#stored li', { hasText: 'large.bq4' }).waitFor({ state: 'detached' });
  await page.waitForFunction(() => document.activeElement?.id === 'models-search');
  await page.getByRole('button', { name: 'Close' }).click();
  assert.match(await say(page, 'Hello again'), /./s);
});

test('a link to nothing, a page, a server that breaks: said, and the bundled model goes on', async () => {
  const page = await here.demo();
  await look(page, here.models.at('/nothing.bq4'));
  await ui(page).alert.waitFor();
  assert.match((await ui(page).alert.textContent()) ?? '', /HTTP_STATUS/);
  assert.match(await say(page, 'Hello!'), /\w/);
  here.models.faults = [{ html: true }];
  await look(page, here.models.at('/large.bq4'));
  await page.getByText('NOT_A_MODEL').waitFor();
  assert.match(await say(page, 'Hello!'), /\w/);
});

test('paused before there is a model, then given up, then downloaded after all', async () => {
  const page = await here.demo();
  const answered = async (/** @type {number} */ after) => {
    while (here.models.asked().length < after) await page.waitForTimeout(50);
  };
  await look(page, here.models.at('/large.bq4'));
  await page.getByRole('button', { name: 'Download and use' }).waitFor();
  // The first bytes take three seconds: only then is there a model.
  here.models.faults = [{ bytesPerSecond: 20_000 }];
  const [asked, before] = [here.models.asked().length, sent()];
  await page.getByRole('button', { name: 'Download and use' }).click();
  await answered(asked + 1);
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('Paused: a reply waits').waitFor();
  here.models.faults = [];
  await ready(page);
  await page.waitForTimeout(1000);
  assert.ok(sent() - before < 1e6, `${sent() - before} bytes came although it was paused`);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.locator('#arriving').waitFor({ state: 'hidden' });
  await ready(page);
  assert.match(await say(page, 'Hello!'), /\w/, 'the bundled model is back');

  await look(page, here.models.at('/large.bq4'));
  await page.getByRole('button', { name: 'Download and use' }).click();
  await page.locator('[data-stat="name"]', { hasText: 'random weights' }).waitFor();
  await page.locator('#arriving').waitFor({ state: 'hidden' });
  assert.deepEqual(page.trouble, []);
});

test('what is stored in part: said after a reload and in the plan, and Resume fetches only the rest', async () => {
  const page = await here.demo();
  await look(page, here.models.at('/large.bq4'));
  await page.getByRole('button', { name: 'Download and use' }).waitFor();
  here.models.faults = [{ hold: 5e6 }];
  await page.getByRole('button', { name: 'Download and use' }).click();
  await page.locator('[data-stat="name"]', { hasText: 'random weights' }).waitFor();
  // What has come is stored a moment later.
  await page.evaluate(async () => {
    const path = '/js/index.js';
    const { createWorkerEngine } = await import(path);
    const engine = await createWorkerEngine({ threads: 1, build: 'simd128', cache: 'auto' });
    const stored = async () =>
      (await engine.store.list()).find((/** @type {any} */ { url }) => url.endsWith('/large.bq4'))?.cachedBytes ?? 0;
    while ((await stored()) < 4e6) await new Promise((resolve) => setTimeout(resolve, 20));
    await engine.close();
  });
  await page.reload();
  await ui(page).alert.waitFor();
  const [, stored, all] =
    /large\.bq4 was in use: ([\d.]+) MB of ([\d.]+) MB are stored/.exec((await ui(page).alert.textContent()) ?? '') ??
    [];
  assert.ok(Number(stored) > 1 && Number(stored) <= 5, `${stored} MB of ${all} MB`);

  here.models.faults = [];
  const before = sent();
  await page.getByRole('button', { name: 'Resume', exact: true }).click();
  const start = page.getByRole('button', { name: 'Download and use' });
  await start.waitFor();
  const [, left] =
    /([\d.]+) MB of [\d.]+ MB to download; the rest is stored/.exec(
      (await page.locator('#plan').textContent()) ?? '',
    ) ?? [];
  assert.ok(Math.abs(Number(left) + Number(stored) - Number(all)) < 0.15, `${left} + ${stored} of ${all} MB`);
  await start.click();
  await page.locator('[data-stat="name"]', { hasText: 'random weights' }).waitFor();
  await page.locator('#arriving').waitFor({ state: 'hidden' });
  await ready(page);
  const came = (sent() - before) / 1e6;
  assert.ok(Math.abs(came - Number(left)) < 0.15, `${came} MB came, ${left} MB were to come`);
  assert.match(await say(page, 'Hello'), /./s);
  assert.deepEqual(page.trouble, []);
});

test('a tab that died while it loaded: less is offered, nothing is loaded by itself', async () => {
  const gone = await here.demo();
  // It dies with a model in use whose weights are still on their way.
  here.models.faults = [{ bytesPerSecond: 1.5e6 }];
  await look(gone, here.models.at('/large.bq4'));
  await gone.getByRole('button', { name: 'Download and use' }).click();
  await gone.locator('[data-stat="name"]', { hasText: 'random weights' }).waitFor();
  await gone.waitForFunction(() => /^1\d\.\d MB/.test(document.querySelector('#amount')?.textContent ?? ''));
  const page = await gone.context().newPage();
  await page.setViewportSize({ width: 390, height: 844 });
  const died = gone.waitForEvent('crash');
  gone
    .context()
    .newCDPSession(gone)
    .then((devtools) => devtools.send('Page.crash'))
    .catch(() => {});
  await died;
  await page.goto(here.site.url);
  await ui(page).alert.waitFor();
  assert.match((await ui(page).alert.textContent()) ?? '', /large\.bq4.*CRASHED/s);
  assert.equal(await ui(page).send.isDisabled(), true);
  here.models.faults = [];
  await page.getByRole('button', { name: 'Load with less memory' }).click();
  await page.getByRole('button', { name: 'Download and use' }).waitFor();
  assert.match((await page.locator('#plan').textContent()) ?? '', /context of 128 tokens/);
  assert.ok(
    await page.locator('#plan').evaluate((plan) => plan.getBoundingClientRect().bottom <= innerHeight),
    'it is seen on a phone',
  );
  await page.getByRole('button', { name: 'Cancel' }).click();

  // That is offered once: a reload says what was in use and how much of it is there.
  await page.reload();
  await ui(page).alert.waitFor();
  assert.match(
    (await ui(page).alert.textContent()) ?? '',
    /large\.bq4 was in use: [\d.]+ MB of 26\.\d MB are stored.*NOT_STORED/s,
  );
  await page.getByRole('button', { name: 'Dismiss this message' }).click();
  await page.getByText('No model is loaded', { exact: false }).first().waitFor();
  await page.getByRole('button', { name: 'Use the bundled model' }).click();
  await ready(page);
  assert.equal(await page.locator('#no-model').isVisible(), false);
});
