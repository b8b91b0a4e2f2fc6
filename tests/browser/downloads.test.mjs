// Tests of downloads in the demo while the built-in model replies: offers of the first screen, Hugging Face by name, reloads.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { PUBLIC, serve } from '../../tools/serve.mjs';
import { faultServer } from '../server/faults.mjs';
import { withLargeModel } from './large-model.mjs';
import { newPage, openDemo, ready, ROOT, setSampling, say, texts, ui } from './site.mjs';

const here = withLargeModel('downloads');

/** @typedef {Awaited<ReturnType<typeof newPage>>} Page */

/** @type {Awaited<ReturnType<typeof faultServer>>} */
let hub;
/** @type {Awaited<ReturnType<typeof serve>>} */
let site;

const FILES = '/api/models/owner/small-GGUF/tree/main';
const FILE = '/owner/small-GGUF/resolve/main/small-Q4_K_M.gguf';

/** The files of the repository, as the hub lists them. @param {string} [oid]  of the file that exists */
function listed(oid = createHash('sha256').update(readFileSync(here.large)).digest('hex')) {
  const { length } = readFileSync(here.large);
  const lfs = (/** @type {string} */ path, /** @type {number} */ size, /** @type {string} */ oid) => ({
    ...{ type: 'file', path, size, oid: 'a'.repeat(40), lfs: { oid, size, pointerSize: 130 } },
  });
  return Buffer.from(
    JSON.stringify([
      { type: 'file', path: 'README.md', size: 100, oid: 'a'.repeat(40) },
      lfs('small-Q8_0.gguf', 2 * length, 'b'.repeat(64)),
      lfs('small-Q4_K_M.gguf', length, oid),
      lfs('mmproj-small.gguf', 1000, 'c'.repeat(64)),
    ]),
  );
}

/** Once the large model is there. */
async function begin() {
  hub = await faultServer({ [FILES]: listed(), [FILE]: here.large });
  hub.files['/api/models'] = Buffer.from(JSON.stringify([{ id: 'owner/small-GGUF' }, { id: 'not a name' }]));
  // The site, whose hub is another.
  const root = mkdtempSync(join(here.folder, 'site-'));
  for (const one of PUBLIC) {
    mkdirSync(join(root, dirname(one)), { recursive: true });
    if (one === 'demo') cpSync(join(ROOT, one), join(root, one), { recursive: true });
    else symlinkSync(join(ROOT, one), join(root, one));
  }
  const catalogue = join(root, 'demo/models/catalogue.js');
  const text = readFileSync(catalogue, 'utf8');
  const moved = text
    .replaceAll('https://huggingface.co', hub.origin)
    .replace("repo: 'unsloth/gemma-3-270m-it-GGUF'", "repo: 'owner/small-GGUF'")
    .replace("file: 'gemma-3-270m-it-Q8_0.gguf'", "file: 'small-Q4_K_M.gguf'");
  assert.notEqual(moved, text);
  writeFileSync(catalogue, moved);
  site = await serve({ root });
}
after(async () => {
  await Promise.all([hub?.close(), site?.close()]);
});

/** The demo with the hub of this file. */
async function demo() {
  if (!site) await begin();
  hub.faults = [];
  hub.files[FILES] = listed();
  const page = await newPage(here.browser);
  here.cleanup.push(() => page.context().close());
  await openDemo(page, site.url);
  return page;
}

/** @param {Page} page */
const card = (page) => page.locator('#arriving');
/** @param {Page} page @param {string} name */
const inUse = (page, name) => page.locator('#model-name', { hasText: name }).waitFor();
/** @param {Page} page @param {string} text */
async function find(page, text) {
  await ui(page).models.click();
  await page.locator('#link').fill(text);
  await page.getByRole('button', { name: 'Find' }).click();
}

test('the first screen offers better models: one click starts the download, Tiny replies meanwhile, then Switch', async () => {
  const page = await demo();
  const offer = page.locator('.offer', { hasText: 'Gemma 3 270M' });
  await offer.waitFor();
  assert.match((await offer.textContent()) ?? '', /292 MB · needs 372 MB of memory.*Gemma terms/);
  assert.equal(await page.locator('.offer').count(), 3);
  hub.faults = [{ path: FILE, bytesPerSecond: 4e6 }];
  await offer.getByRole('button').click();
  await card(page).getByText('Downloading: Gemma 3 270M').waitFor();
  assert.ok(!(await page.locator('#plan').isVisible()), 'the card has said what it takes');
  assert.match(await say(page, 'Hello!'), /\w/);
  assert.equal(await ui(page).models.textContent(), 'Tiny (built in)');
  await page.getByRole('button', { name: 'Pause' }).click();
  await card(page).getByText('Paused: Gemma 3 270M').waitFor();
  assert.match(await say(page, 'Tell me a joke'), /\w/);
  hub.faults = [];
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.locator('#notices').getByText('Gemma 3 270M is ready.').waitFor();
  assert.ok(!(await card(page).isVisible()));
  assert.equal(await ui(page).models.textContent(), 'Tiny (built in)', 'nobody is interrupted');
  await page.locator('#notices').getByRole('button', { name: 'Switch' }).click();
  await inUse(page, 'Gemma 3 270M');
  assert.equal(await page.locator('#message').getAttribute('placeholder'), 'Message Gemma 3 270M…');
  assert.equal(await page.locator('#sampling [name="topK"]').inputValue(), '64', 'sampled as its card says');
  assert.equal((await texts(page)).length, 4, 'the conversation stays');
  await setSampling(page, { maxTokens: '3' });
  await say(page, 'Hello');
  assert.equal((await texts(page)).length, 6, 'it answers, though it has another vocabulary');
  await page.reload();
  await inUse(page, 'Gemma 3 270M');
  await ready(page);
  assert.deepEqual(page.trouble, []);
});

test('without messages a ready model is used automatically', async () => {
  const page = await demo();
  await page.locator('.offer', { hasText: 'Gemma 3 270M' }).getByRole('button').click();
  await inUse(page, 'Gemma 3 270M');
  await ready(page);
  assert.equal(await page.locator('#notices .notice').count(), 0);
  assert.ok(!(await page.locator('#offers').isVisible()));
});

test('after a reload during a download, Tiny replies, the download continues and the draft is kept', async () => {
  const page = await demo();
  hub.faults = [{ path: FILE, bytesPerSecond: 3e6 }];
  await page.locator('.offer', { hasText: 'Gemma 3 270M' }).getByRole('button').click();
  await page.locator('#arriving-amount', { hasText: /^([4-9]|\d\d)\.\d MB of/ }).waitFor();
  await ui(page).message.fill('half a thought');
  const before = hub.requests.length;
  await page.reload();
  await ready(page);
  assert.equal(await page.getByRole('alert').count(), 0, 'it is no error');
  assert.equal(await ui(page).models.textContent(), 'Tiny (built in)');
  assert.equal(await ui(page).message.inputValue(), 'half a thought');
  await card(page).getByText('Downloading: Gemma 3 270M').waitFor();
  hub.faults = [];
  await page.locator('#notices').getByText('Gemma 3 270M is ready.').waitFor();
  const starts = hub.requests.slice(before).flatMap(({ path, from }) => (path === FILE ? [from ?? 0] : []));
  assert.ok(starts.length && starts.every((from) => from > 1e6), `stored bytes are not requested again: ${starts}`);
  assert.deepEqual(page.trouble, []);
});

test('a download that the hub ends is shown with Resume; after Cancel a reload does not restore it', async () => {
  const page = await demo();
  hub.faults = [{ path: FILE, bytesPerSecond: 3e6 }];
  await page.locator('.offer', { hasText: 'Gemma 3 270M' }).getByRole('button').click();
  await card(page).getByText('Downloading: Gemma 3 270M').waitFor();
  await card(page).getByRole('button', { name: 'Cancel' }).click();
  await card(page).waitFor({ state: 'hidden' });
  assert.match((await ui(page).status.textContent()) ?? '', /Cancelled\. You can resume later\./);
  await page.reload();
  await ready(page);
  await page
    .locator('.offer', { hasText: 'Gemma 3 270M' })
    .getByRole('button', { name: /Resume|Download/ })
    .waitFor();
  assert.ok(!(await card(page).isVisible()));
  assert.match(await say(page, 'Hello!'), /\w/);
});

test('if the last model is no longer stored, Tiny replies and one card offers the download with its context', async () => {
  const page = await demo();
  await page.evaluate((key) => {
    const last = { kind: 'link', name: 'Gemma 3 270M', key, bytes: 0, context: 128 };
    localStorage.setItem('bq4.model', JSON.stringify(last));
  }, hub.at(FILE));
  await page.reload();
  await ready(page);
  assert.equal(await page.getByRole('alert').count(), 0);
  const notice = page.locator('#notices', { hasText: 'Gemma 3 270M is not stored in this browser any more.' });
  await notice.getByRole('button', { name: 'Download' }).waitFor();
  assert.match(await say(page, 'Hello!'), /\w/);
  await notice.getByRole('button', { name: 'Download' }).click();
  await page.locator('#plan-start').click();
  await page.locator('#notices').getByRole('button', { name: 'Switch' }).click();
  await inUse(page, 'Gemma 3 270M');
  await page.locator('[data-stat="context"]', { hasText: 'of 128 tokens' }).waitFor({ state: 'attached' });
});

test('a Hugging Face repository by name lists its files and marks the best; the checksum is verified', async () => {
  const page = await demo();
  await find(page, 'hf:owner/small-GGUF');
  const rows = page.locator('#hub li');
  await rows.nth(1).waitFor();
  assert.deepEqual(await page.locator('#hub .stored-name').allTextContents(), [
    `small-Q4_K_M.gguf${'26.5 MB'} · Fits this device best`.replace('26.5 MB', size(1)),
    `small-Q8_0.gguf${size(2)}`,
  ]);
  await rows.first().getByRole('button').click();
  await page.locator('#plan-start').click();
  await inUse(page, 'small-Q4_K_M.gguf');
  await ready(page);
  assert.equal(await page.locator('[data-stat="authenticity"]').textContent(), 'checksum matches');
  assert.deepEqual(page.trouble, []);
});

test('Hugging Face search by words and by the page of a file; unknown names and files with another checksum are reported', async () => {
  const page = await demo();
  await find(page, 'small chat');
  await page.locator('#hub').getByText('owner/small-GGUF').waitFor();
  assert.equal(await page.locator('#hub li').count(), 1);
  await page.getByRole('button', { name: 'Show the files of owner/small-GGUF' }).click();
  await page.locator('#hub').getByText('small-Q8_0.gguf').waitFor();
  // A search in the list of the page shows that list.
  await page.locator('#models-search').fill('nothing of this name');
  assert.ok(await page.locator('#hub').isHidden());
  await page.getByText('No models found in this list. The field above searches Hugging Face.').waitFor();
  await page.locator('#models-close').click();

  await find(page, `${hub.origin}/owner/small-GGUF/blob/main/small-Q4_K_M.gguf`);
  await page.locator('#hub .best').waitFor();
  assert.equal(await page.locator('#hub li').count(), 1);
  await page.locator('#models-close').click();

  await find(page, 'nobody/nothing');
  await page.locator('#hub').getByText('There is no such public model on Hugging Face').waitFor();
  await page.locator('#models-close').click();
  page.trouble = page.trouble.filter((line) => !/status of 404/.test(line));

  hub.files[FILES] = listed('d'.repeat(64));
  await find(page, 'owner/small-GGUF');
  await page.locator('#hub .best button').click();
  await page.locator('#plan-start').click();
  await ui(page).alert.locator('code', { hasText: 'INTEGRITY' }).waitFor({ state: 'attached' });
  assert.equal(await ui(page).models.textContent(), 'Tiny (built in)');
  assert.match(await say(page, 'Hello!'), /\w/);
  assert.deepEqual(page.trouble, []);
});

/** As the page shows it. @param {number} times */
function size(times) {
  const bytes = times * readFileSync(here.large).length;
  return `${(bytes / 1e6).toFixed(bytes < 1e8 ? 1 : 0)} MB`;
}
