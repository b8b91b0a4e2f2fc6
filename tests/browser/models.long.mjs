// Tests of models in the demo: progress is shown, a chat format can be selected and is stored, a file is loaded again after a reload.
import assert from 'node:assert/strict';
import axe from 'axe-core';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { failOnFaults } from './console.mjs';
import { newPage, openDemo, plainHost, ready, ROOT, setSampling, say, stat, texts, ui, useFile } from './site.mjs';
import { makeLarge, withLargeModel } from './large-model.mjs';

failOnFaults();

const here = withLargeModel('models');
const long = join(here.folder, 'long.bq4');
before(() => makeLarge(long, { layers: 4, context: 2048 }));

test('a long prompt shows its progress and remaining time, and Stop ends it immediately', async () => {
  const page = await here.demo();
  await useFile(page, long);
  await ui(page).message.fill('the '.repeat(450));
  // A fast machine reads it in less than a second: Stop is clicked in the page, on the first line that says how long it takes.
  await page.evaluate(() => {
    const [amount, status, stop] = ['amount', 'status', 'stop'].map((id) => document.getElementById(id));
    /** @type {any} */ (globalThis).stoppedAt = new Promise((resolve) =>
      new MutationObserver((_, observer) => {
        if (!/^Reading: \d+ %, about \d.* left$/.test(amount?.textContent ?? '')) return;
        observer.disconnect();
        stop?.click();
        resolve(status?.textContent);
      }).observe(/** @type {Node} */ (amount), { childList: true }),
    );
  });
  await ui(page).send.click();
  assert.match(await page.evaluate(() => /** @type {any} */ (globalThis).stoppedAt), /^Reading a long text…$/);
  await ready(page);
  assert.equal(await page.locator('#amount').textContent(), '');
  assert.deepEqual(await texts(page), []);
});

test('for a model without a chat format, the page asks for one with a preview, and stores it', async () => {
  const page = await here.demo();
  await ui(page).file.setInputFiles(long);
  const card = page.getByRole('region', { name: 'Chat template' });
  await card.waitFor();
  const choice = card.getByRole('combobox');
  assert.deepEqual((await choice.locator('option').allTextContents()).slice(0, 2), [
    'None (continue my text)',
    'ChatML',
  ]);
  await choice.selectOption('llama-3');
  assert.match(
    (await page.locator('#format-preview').textContent()) ?? '',
    /^<\|start_header_id\|>user<\|end_header_id\|>\n\nHello!<\|eot_id\|>/,
  );
  await ready(page);
  await setSampling(page, { maxTokens: '2' });
  await say(page, 'Hello');
  assert.ok(await card.isVisible(), 'a message does not take it away');
  const plain = Number((await stat(page, 'reused')).split(' of ')[1]);
  await card.getByRole('button', { name: 'Use template' }).click();
  await card.waitFor({ state: 'hidden' });
  await ui(page).newChat.click();
  await page.locator('[role=log] article').first().waitFor({ state: 'detached' });
  await ready(page);
  await say(page, 'Hello');
  const wrapped = Number((await stat(page, 'reused')).split(' of ')[1]);
  assert.ok(wrapped > plain + 10, `${wrapped} tokens in the form, ${plain} without`);
  await page.reload();
  await page.locator('#notices').getByText('To go on with “long.bq4”').waitFor();
  await useFile(page, long);
  await ui(page).details.click();
  await page.locator('[data-stat="format"]', { hasText: 'Llama 3' }).waitFor();
  assert.equal(await card.isVisible(), false);
  await page.getByRole('button', { name: 'Change…' }).click();
  await card.waitFor();
  assert.equal(await choice.inputValue(), 'llama-3');
  assert.deepEqual(page.trouble, []);
});

test('a file with a readable handle is loaded again automatically, with its conversation', async () => {
  const page = await here.demo();
  // A picker can't be operated by a script: it gives a handle of the browser's own file system.
  await page.evaluate(
    async (base64) => {
      const handle = await (await navigator.storage.getDirectory()).getFileHandle('mine.bq4', { create: true });
      const writer = await handle.createWritable();
      await writer.write(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)));
      await writer.close();
      Object.assign(globalThis, { showOpenFilePicker: async () => [handle] });
    },
    readFileSync(join(ROOT, 'models/chat.bq4')).toString('base64'),
  );
  await ui(page).models.click();
  await page.getByRole('button', { name: 'Open a .gguf or .bq4 file…' }).click();
  await ui(page).models.filter({ hasText: 'mine.bq4' }).waitFor();
  await ready(page);
  const reply = await say(page, 'Hello!');
  await page.reload();
  await ready(page);
  assert.match((await ui(page).models.textContent()) ?? '', /mine\.bq4/);
  assert.deepEqual(await texts(page), ['Hello!', reply]);
  assert.match(await say(page, 'Thank you'), /\w/);
  // The file has gone: said, with a way on.
  await page.evaluate(async () => (await navigator.storage.getDirectory()).removeEntry('mine.bq4'));
  await page.reload();
  await page
    .locator('#notices')
    .getByText(/^“mine\.bq4” can't be read any more/)
    .waitFor();
  assert.equal(await ui(page).models.textContent(), 'Tiny (built in)');
  await ready(page);
  assert.deepEqual((await texts(page)).slice(0, 2), ['Hello!', reply]);
});

test('a site without CORS: the error comes after two requests, with a remedy', async () => {
  const page = await here.demo();
  const host = await plainHost('/elsewhere');
  here.cleanup.push(host.close);
  await ui(page).models.click();
  await page.locator('#link').fill(host.url.replace('demo/', 'models/chat.bq4'));
  await page.getByRole('button', { name: 'Find', exact: true }).click();
  await ui(page).alert.waitFor();
  assert.match(
    (await ui(page).alert.textContent()) ?? '',
    /could not be reached.*CORS.*download the file there and open it here.*NETWORK/s,
  );
  assert.equal(host.paths.length, 2);
  assert.match((await ui(page).status.textContent()) ?? '', /Still using Tiny\./);
  assert.match(await say(page, 'Hello!'), /\w/);
});

test('list of models, plan and chat format: axe finds nothing, and everything is visible at 320 pixels', async () => {
  for (const width of [1280, 320]) {
    const page = await newPage(here.browser, { viewport: { width, height: 700 } });
    here.cleanup.push(() => page.context().close());
    await openDemo(page, here.site.url);
    const look = async (/** @type {string} */ state) => {
      await page.evaluate(axe.source);
      const { violations } = await page.evaluate(() => /** @type {any} */ (globalThis).axe.run());
      assert.deepEqual(
        violations.map((/** @type {any} */ v) => `${v.id}: ${v.nodes.map((/** @type {any} */ n) => n.html).join(' ')}`),
        [],
        `${state}, ${width}`,
      );
      assert.equal(await page.evaluate(() => document.scrollingElement?.scrollWidth), width, `${state}, ${width}`);
    };
    await ui(page).models.click();
    await page.locator('#stored li').nth(1).waitFor();
    await look('models');
    await ui(page).file.setInputFiles(here.large);
    await page.getByRole('button', { name: 'Load and use' }).waitFor();
    await look('plan');
    await page.getByRole('button', { name: 'Load and use' }).click();
    await page.getByRole('region', { name: 'Chat template' }).waitFor();
    await ready(page);
    await look('form');
    assert.ok(await ui(page).message.isVisible());
  }
});
