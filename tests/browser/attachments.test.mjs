// Files that the demo attaches to a message: PDF files, with their pages; what can't be read, and why; long ones, of which the model
// gets passages that the person sees.
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { japanesePdf, lockedPdf, pdfOf, scannedPdf } from '../tools/pdf.mjs';
import { newPage, oneHost, openDemo, ready, sample, ui } from './site.mjs';

const here = oneHost();
/** @type {Awaited<ReturnType<typeof newPage>>} */
let page;

afterEach(async () => {
  const { trouble } = page;
  await page.context().close();
  assert.deepEqual(trouble, []);
});

async function demo() {
  page = await newPage(here.browser);
  await openDemo(page, here.site.url);
  await sample(page, { temperature: '0', maxTokens: '4' });
}

const chips = () => page.getByRole('list', { name: 'Attachments' }).getByRole('listitem');

/** @param {string} name @param {Buffer} buffer @param {string} [mimeType] */
async function attach(name, buffer, mimeType = 'application/pdf') {
  await page.locator('#attachment').setInputFiles({ name, mimeType, buffer });
}

/** What the first message of the open chat is, as it is stored. @param {string} part */
const stored = (part) =>
  page.evaluate((part) => {
    const key = Object.keys(localStorage).find((name) => name.startsWith('bq4.chat.')) ?? '';
    return JSON.parse(localStorage.getItem(key) ?? '').entries[0][part];
  }, part);

test('of a PDF the text is attached, page by page, from the button and by a drop', async () => {
  await demo();
  await attach('report.pdf', pdfOf(['The cat (Tom) sleeps.\nIt is old.', 'Page two: 50 % \\ more.']));
  await chips().first().waitFor();
  assert.deepEqual(await chips().locator('b').allTextContents(), ['report.pdf']);
  const dropped = [...pdfOf(['Dropped.'])];
  await page.evaluate((bytes) => {
    const data = new DataTransfer();
    data.items.add(new File([new Uint8Array(bytes)], 'dropped.pdf', { type: 'application/pdf' }));
    document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
  }, dropped);
  await chips().nth(1).waitFor();
  await ui(page).message.fill('Who sleeps?');
  await ui(page).send.click();
  await ready(page);
  assert.equal(
    await stored('content'),
    'report.pdf:\n```\n[Page 1]\nThe cat (Tom) sleeps.\nIt is old.\n\n[Page 2]\nPage two: 50 % \\ more.\n```\n\n' +
      'dropped.pdf:\n```\n[Page 1]\nDropped.\n```\n\nWho sleeps?',
  );
});

test('letters of an old Japanese encoding are read', async () => {
  await demo();
  await attach('nihon.pdf', japanesePdf());
  await chips().first().waitFor();
  assert.match(String(await chips().first().getAttribute('title')), /^\[Page 1\]\n日本$/);
});

test('a PDF that is locked, damaged or scanned is not attached, and the page says why', async () => {
  await demo();
  const notice = page.locator('#notices');
  for (const [name, bytes, words] of /** @type {const} */ ([
    ['locked.pdf', lockedPdf(), '“locked.pdf” is protected by a password. Save a copy without the password'],
    ['broken.pdf', Buffer.from('%PDF-1.4\nnothing else'), "“broken.pdf” can't be read: it is damaged, or no PDF."],
    ['scan.pdf', scannedPdf(), '“scan.pdf” has no text, only pictures of pages'],
    ['photo.pdf', Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0, 16]), "“photo.pdf” can't be read"],
  ])) {
    await attach(name, bytes);
    await notice.getByText(words).waitFor();
  }
  await attach('notes.bin', Buffer.from([0, 1, 2, 3]), 'application/octet-stream');
  await notice.getByText("“notes.bin” isn't a text file or PDF that can be attached.").waitFor();
  assert.equal(await chips().count(), 0);
});

test('a very long text is attached in part, and the page says which', async () => {
  await demo();
  await attach('long.txt', Buffer.from('0123456 8\n'.repeat(100_000)), 'text/plain');
  await page.locator('#notices').getByText('“long.txt” is very long: the first 50 % are attached.').waitFor();
  assert.equal(await chips().count(), 1);
});
