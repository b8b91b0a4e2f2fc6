// Files that the demo attaches to a message: PDF files with their pages; unreadable files, with the reason; long files, of which the model
// receives passages that the page shows.
import assert from 'node:assert/strict';
import axe from 'axe-core';
import { afterEach, test } from 'node:test';
import { withoutPassages } from '../../demo/chat/composed.js';
import { japanesePdf, lockedPdf, pdfOf, scannedPdf } from '../tools/pdf.mjs';
import { waitUntilOffline, newPage, oneHost, openDemo, ready, setSampling, ui } from './site.mjs';

const here = oneHost();
/** @type {Awaited<ReturnType<typeof newPage>>} */
let page;

afterEach(async () => {
  const { trouble } = page;
  await page.context().close();
  assert.deepEqual(trouble, []);
});

/** @param {import('playwright-core').BrowserContextOptions} [options] */
async function demo(options) {
  page = await newPage(here.browser, options);
  await openDemo(page, here.site.url);
  await setSampling(page, { temperature: '0', maxTokens: '4' });
}

const chips = () => page.getByRole('list', { name: 'Attachments' }).getByRole('listitem');

/** @param {string} name @param {Buffer} buffer @param {string} [mimeType] */
async function attach(name, buffer, mimeType = 'application/pdf') {
  await page.locator('#attachment').setInputFiles({ name, mimeType, buffer });
}

/** Returns the first message of the open chat as it is stored. @param {string} part */
const stored = (part) =>
  page.evaluate((part) => {
    const key = Object.keys(localStorage).find((name) => name.startsWith('bq4.chat.')) ?? '';
    return JSON.parse(localStorage.getItem(key) ?? '').entries[0][part];
  }, part);

test('the text of a PDF is attached page by page, from the button and by a drop', async () => {
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

test('text in an old Japanese encoding is read', async () => {
  await demo();
  await attach('nihon.pdf', japanesePdf());
  await chips().first().waitFor();
  assert.match(String(await chips().first().getAttribute('title')), /^\[Page 1\]\n日本$/);
});

test('a PDF is read offline; one that needs a character table is refused, unless the table was fetched before', async () => {
  await demo({ serviceWorkers: 'allow' });
  await waitUntilOffline(page);
  await page.reload();
  await ready(page);
  await page.context().setOffline(true);
  await attach('nihon.pdf', japanesePdf());
  await page.locator('#notices').getByText('“nihon.pdf” needs a table of characters').waitFor();
  assert.equal(await chips().count(), 0);
  await attach('plain.pdf', pdfOf(['Plain.']));
  await chips().first().waitFor();
  await page.context().setOffline(false);
  await attach('nihon.pdf', japanesePdf());
  await chips().nth(1).waitFor();
  await page.context().setOffline(true);
  await attach('again.pdf', japanesePdf());
  await chips().nth(2).waitFor();
  assert.match(String(await chips().nth(2).getAttribute('title')), /^\[Page 1\]\n日本$/);
  // The browser logs each failed request.
  page.trouble = page.trouble.filter((line) => !/ERR_INTERNET_DISCONNECTED|ERR_FAILED/.test(line));
});

test('a PDF that is encrypted, damaged or scanned is not attached, and the page shows the reason', async () => {
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

test('a very long text is attached in part, and the page shows which part', async () => {
  await demo();
  await attach('long.txt', Buffer.from('0123456 8\n'.repeat(100_000)), 'text/plain');
  await page.locator('#notices').getByText('“long.txt” is very long: the first 50 % are attached.').waitFor();
  assert.equal(await chips().count(), 1);
});

test('a long text that is dropped or pasted into the message is attached, at most half a million characters; one of spaces is not', async () => {
  await demo();
  const devtools = await page.context().newCDPSession(page);
  const { x, y } = /** @type {{ x: number, y: number }} */ (await ui(page).message.boundingBox());
  const drop = async (/** @type {string} */ text) => {
    const data = { items: [{ mimeType: 'text/plain', data: text }], dragOperationsMask: 1 };
    for (const type of /** @type {const} */ (['dragEnter', 'dragOver', 'drop']))
      await devtools.send('Input.dispatchDragEvent', { type, x: x + 20, y: y + 10, data });
  };
  await drop('short');
  assert.equal(await ui(page).message.inputValue(), 'short');
  await drop(`1${'\n'.repeat(599_998)}2`);
  await page.locator('#notices').getByText('“Pasted text” is very long: the first 83 % are attached.').waitFor();
  assert.equal(await chips().count(), 1);
  assert.equal(await ui(page).message.inputValue(), 'short');
  await drop('\n'.repeat(3000));
  await page.locator('#notices').getByText('“Pasted text” is empty.').waitFor();
  assert.equal(await chips().count(), 1);
});

/** About 40 paragraphs without meaning, and one with the answer. @param {string} matter */
const longText = (matter) =>
  Array.from({ length: 40 }, (_, i) =>
    i === 30
      ? matter
      : `Paragraph ${i} speaks of rivers, hills and weather, as so many do. ${'The day went by. '.repeat(20)}`,
  ).join('\n\n');

const MATTER =
  'The boiler is serviced every October, and its filter, which is behind the left panel, is cleaned then, too.';

const excerpt = () => ui(page).messages.first().locator('.excerpt');

test('the model receives the passages of a long text with words of the question, and the page shows them', async () => {
  await demo();
  await attach('house.txt', Buffer.from(longText(MATTER)), 'text/plain');
  await chips().first().waitFor();
  await ui(page).message.fill('When is the service of the boiler?');
  await ui(page).send.click();
  await ready(page);
  const reads = await stored('reads');
  assert.equal(reads.by, 'words');
  const { file, place } = reads.passages.find((/** @type {any} */ one) => one.text.includes('boiler')) ?? {};
  assert.deepEqual([file, place], ['house.txt', 'line 61']);
  assert.match(
    reads.text,
    /^house\.txt, passages:\n```\n[^]*\[line 61\]\nThe boiler is serviced every October, [^]*\n```\n\nWhen is/,
  );
  await excerpt()
    .getByText(/^The model saw \d+ of \d+ passages$/)
    .click();
  await excerpt().getByText('those with the words of your question').waitFor();
  assert.equal(await excerpt().locator('li').count(), reads.passages.length);
  await excerpt().locator('li').filter({ hasText: 'house.txt, line 61' }).filter({ hasText: 'October' }).waitFor();
  assert.ok(await excerpt().getByRole('button', { name: 'Find passages by meaning (25 MB download)' }).isVisible());
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => /** @type {any} */ (globalThis).axe.run());
  assert.deepEqual(
    violations.map((/** @type {any} */ v) => v.id),
    [],
  );
  await ui(page).message.fill('And what about the boiler in October?');
  await ui(page).send.click();
  await ready(page);
  await ui(page).messages.nth(2).locator('.excerpt li').filter({ hasText: 'October' }).waitFor({ state: 'attached' });
  await page.reload();
  await ready(page);
  await excerpt().locator('li').filter({ hasText: 'October' }).waitFor({ state: 'attached' });
  // An edit does not change the file.
  await ui(page).messages.first().hover();
  await page.getByRole('button', { name: 'Edit your message' }).first().click();
  const field = page.getByRole('textbox', { name: 'Edit your message' });
  assert.equal(await field.inputValue(), 'When is the service of the boiler?');
  await field.fill('Hello!');
  await page.getByRole('button', { name: 'Send the edited message' }).click();
  await ready(page);
  await excerpt().getByText('the first ones, since none fits your message better').waitFor({ state: 'attached' });
  await excerpt().locator('li').filter({ hasText: 'Paragraph 0' }).waitFor({ state: 'attached' });
});

test('passages of a long PDF have their page', async () => {
  await demo();
  const filler = Array.from({ length: 40 }, (_, i) => `Line ${i} of nothing much, only words and words.`).join('\n');
  await attach('manual.pdf', pdfOf([filler, filler, `${filler}\nThe fuse is behind the left panel.`, filler]));
  await chips().first().waitFor();
  await ui(page).message.fill('Where is the fuse?');
  await ui(page).send.click();
  await ready(page);
  const reads = await stored('reads');
  const found = reads.passages.filter((/** @type {any} */ one) => one.text.includes('fuse'));
  assert.deepEqual(
    found.map((/** @type {any} */ one) => one.place),
    ['page 3'],
  );
});

/** Returns the text that the model read in place of the message with this index, as it is stored. @param {number} at */
const readsOf = (at) =>
  page.evaluate((at) => {
    const key = Object.keys(localStorage).find((name) => name.startsWith('bq4.chat.')) ?? '';
    return JSON.parse(localStorage.getItem(key) ?? '').entries[at].reads;
  }, at);

test('files with the same name in two messages are different: no passage is used twice, and a file that is attached twice counts once', async () => {
  await demo();
  const house = longText(MATTER);
  const texts = [house, longText(MATTER.replaceAll('boiler', 'furnace').replaceAll('October', 'May')), house];
  for (const text of texts) {
    await attach('notes.txt', Buffer.from(text), 'text/plain');
    await chips().first().waitFor();
    await ui(page).message.fill('When is the service of the boiler or the furnace?');
    await ui(page).send.click();
    await ready(page);
  }
  await ui(page).message.fill('Boiler, furnace?');
  await ui(page).send.click();
  await ready(page);
  const { text, passages } = await readsOf(6);
  const excerpts = passages.map((/** @type {any} */ passage) => passage.text);
  assert.ok(excerpts.length > 0 && new Set(excerpts).size === excerpts.length, excerpts.join('\n'));
  for (const passage of excerpts) assert.equal(text.split(passage).length - 1, 1, passage);
});

test('deleting a message removes the passages of its attachment from later messages, and Undo restores them', async () => {
  await demo();
  await attach('house.txt', Buffer.from(longText(MATTER)), 'text/plain');
  await chips().first().waitFor();
  for (const question of ['When is the service of the boiler?', 'Boiler?']) {
    await ui(page).message.fill(question);
    await ui(page).send.click();
    await ready(page);
  }
  const before = await readsOf(2);
  assert.match(before.text, /^house\.txt, passages:\n[^]*boiler is[^]*Boiler\?$/);
  const first = ui(page).messages.first();
  await first.hover();
  await first.getByLabel(/^More for/).click();
  await first.getByRole('button', { name: 'Delete this message and its reply' }).click();
  assert.equal(await readsOf(0), undefined);
  await page.locator('.excerpt').first().waitFor({ state: 'detached' });
  await page.locator('#notices').getByRole('button', { name: 'Undo' }).click();
  assert.deepEqual(await readsOf(2), before);
  await ui(page).messages.nth(2).locator('.excerpt').waitFor();
});

test('deleting one of two files removes its passages only', async () => {
  await demo();
  const text = (/** @type {string} */ name) => `${name}.txt:\n\`\`\`\nAll of the ${name}.\n\`\`\`\n\nWhat?`;
  const entry = (/** @type {string} */ id, /** @type {string | null} */ parent, /** @type {string} */ content) =>
    /** @type {const} */ ({ id, parent, role: 'user', content, note: '' });
  const passage = (/** @type {string} */ name, /** @type {number} */ document) => ({
    ...{ file: `${name}.txt`, place: 'line 1', text: `All of the ${name}.`, document },
  });
  const passages = [passage('house', 0), passage('garden', 1)];
  const reads = /** @type {const} */ ({ text: 'both', by: 'words', of: 9, offer: true, passages });
  const last = { ...entry('c', 'b', 'And?'), reads: { ...reads } };
  const house = entry('a', null, text('house'));
  const garden = entry('b', null, text('garden'));
  const [, left] = withoutPassages([garden, last], [house]);
  assert.deepEqual(left.reads?.passages, [passages[1]]);
  assert.equal(left.reads?.text, 'garden.txt, passages:\n```\n[line 1]\nAll of the garden.\n```\n\nAnd?');
  assert.equal(last.reads.passages.length, 2, 'for Undo');
  // The same text was attached twice, or the deleted message has no attachment.
  const again = { ...garden, content: text('house') + text('garden') };
  assert.equal(withoutPassages([again, last], [house])[1], last);
  assert.equal(withoutPassages([garden, last], [entry('a', null, 'What?')])[1], last);
});

test('a text that begins like a PDF has lines, not pages; a long first page is attached in part', async () => {
  await demo();
  await attach('odd.txt', Buffer.from(`[Page intentionally left blank]\n\n${longText(MATTER)}`), 'text/plain');
  await chips().first().waitFor();
  await ui(page).message.fill('When is the service of the boiler?');
  await ui(page).send.click();
  await ready(page);
  const { passages } = await readsOf(0);
  assert.ok(passages.some((/** @type {any} */ { place, text }) => place === 'line 63' && text.includes('boiler')));
  await attach('roll.pdf', pdfOf([Array(900).fill('0123456789 '.repeat(55)).join('\n')], 0.5));
  await page.locator('#notices').getByText('“roll.pdf” is very long: the beginning of its first page').waitFor();
  assert.deepEqual(await chips().locator('b').allTextContents(), ['roll.pdf']);
});

test('the title of a chat that begins with files is the question, or the name of the first file without a question', async () => {
  await demo();
  await attach('lease.pdf', pdfOf(['The rent is 840 euros.']));
  await attach('notes.md', Buffer.from('The key is under the pot.'), 'text/markdown');
  await chips().nth(1).waitFor();
  await ui(page).message.fill('How much is the rent?');
  await ui(page).send.click();
  await ready(page);
  assert.equal(await page.title(), 'How much is the rent? · bq4');
  await ui(page).newChat.click();
  await attach('lease.pdf', pdfOf(['The rent is 840 euros.']));
  await chips().first().waitFor();
  await ui(page).send.click();
  await ready(page);
  assert.equal(await page.title(), 'lease.pdf · bq4');
});

test('a passage is not selected because of words like "a", which a text of headings may have once', async () => {
  await demo();
  const scores = await page.evaluate(async () => {
    const { scoresByWords } = await import(/** @type {any} */ ('./chat/excerpts.js'));
    const texts = ['A ring was found.', ...Array(9).fill('Nothing was found.')];
    return [scoresByWords(texts, 'Write a function.')[0], scoresByWords(texts, 'Whose ring is it?')[0] > 0];
  });
  assert.deepEqual(scores, [0, true]);
});

test('a text that consists of backticks is attached, too', async () => {
  await demo();
  await attach('ticks.txt', Buffer.from('` '.repeat(249_000)), 'text/plain');
  await chips().first().waitFor();
  await ui(page).message.fill('What is this?');
  await page.reload();
  await chips().first().waitFor();
  assert.equal(await ui(page).message.inputValue(), 'What is this?');
});

test('passages of the last answer stay if another answer is stopped before its passages are found', async () => {
  await demo();
  const kept = await page.evaluate(async (text) => {
    const { chooseExcerpt } = await import(/** @type {any} */ ('./chat/excerpts.js'));
    const reads = { text: 'before' };
    const entry = { content: `house.txt:\n\`\`\`\n${text}\n\`\`\`\n\nWhen is the service of the boiler?`, reads };
    const host = { store: null, count: async (/** @type {any} */ [{ content }]) => content.length / 4 };
    const error = await chooseExcerpt([entry], { host, limit: 500, signal: AbortSignal.abort() }).catch((e) => e);
    return [error?.name, entry.reads];
  }, longText(MATTER));
  assert.deepEqual(kept, ['AbortError', { text: 'before' }]);
});

test('an edit changes only the edited text, for any line breaks', async () => {
  await demo();
  const all = {
    conversations: [
      { id: 'a', leaf: 'm', entries: [{ id: 'm', parent: null, role: 'user', content: 'one\r\ntwo\r\nthree' }] },
    ],
  };
  await page.locator('#chats').click();
  await page.locator('#chats-dialog[open]').waitFor();
  await page.locator('#chats-dialog [type=file]').setInputFiles({
    name: 'chats.json',
    mimeType: 'application/json',
    buffer: Buffer.from(JSON.stringify(all)),
  });
  await ui(page).messages.first().hover();
  await page.getByRole('button', { name: 'Edit your message' }).first().click();
  await page.getByRole('button', { name: 'Send the edited message' }).click();
  await ready(page);
  assert.equal((await ui(page).messages.first().locator('.text').textContent())?.trim(), 'one\ntwo\nthree');
});

test('a file that is being read belongs to its chat and message: sending waits for it, another chat and Stop cancel it', async () => {
  await demo();
  await page.setViewportSize({ width: 320, height: 640 });
  /** Lets the server send the library. @type {() => void} */
  let release = () => {};
  const held = new Promise((resolve) => (release = () => resolve(undefined)));
  await page.route('**/pdf-worker.js', async (route) => (await held, route.continue().catch(() => {})));
  const notice = page.locator('#notices');
  await attach('slow.pdf', pdfOf(['Private.']));
  await page.getByText('Reading slow.pdf').last().waitFor();
  await ui(page).message.fill('What does it say?');
  await ui(page).send.click();
  await notice.getByText('A file is still being read.').waitFor();
  assert.equal(await ui(page).messages.count(), 0);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await page.getByRole('button', { name: 'Stop reading slow.pdf' }).click();
  await notice.getByText('“slow.pdf” was not attached.').waitFor();
  await page.getByRole('button', { name: 'Dismiss this message' }).click();
  await attach('slow.pdf', pdfOf(['Private.']));
  await page.getByRole('button', { name: 'Stop reading slow.pdf' }).waitFor();
  await ui(page).newChat.click();
  await notice.getByText('“slow.pdf” was not attached.').waitFor();
  release();
  await attach('next.pdf', pdfOf(['Public.']));
  await chips().first().waitFor();
  assert.deepEqual(await chips().locator('b').allTextContents(), ['next.pdf']);
  assert.equal(await page.getByRole('button', { name: 'Stop reading next.pdf' }).count(), 0);
});

test('a suggested message does not remove attachments and typed text', async () => {
  await demo();
  await attach('mine.txt', Buffer.from('Something of mine.'), 'text/plain');
  await chips().first().waitFor();
  await ui(page).message.fill('A question of mine');
  await page.locator('#intro button').first().click();
  await ready(page);
  assert.equal(await ui(page).messages.count(), 2);
  assert.deepEqual(await chips().locator('b').allTextContents(), ['mine.txt']);
  assert.equal(await ui(page).message.inputValue(), 'A question of mine');
});

test('text files in other encodings are read; a file with bytes that are no text is refused', async () => {
  await demo();
  const utf16 = Buffer.from('\ufeffGrüße, 今日は', 'utf16le');
  await attach('a.txt', utf16, 'text/plain');
  await attach('b.txt', Buffer.from(utf16).swap16(), 'text/plain');
  await attach('c.txt', Buffer.from('Gr\u00fc\u00dfe', 'latin1'), 'text/plain');
  await chips().nth(2).waitFor();
  await attach('d.txt', Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0xff]), 'text/plain');
  await page.locator('#notices').getByText("“d.txt” isn't a text file").waitFor();
  assert.equal(await chips().count(), 3);
  await ui(page).message.fill('What is this?');
  await ui(page).send.click();
  await ready(page);
  const fences = ['a', 'b'].map((name) => `${name}.txt:\n\`\`\`\nGrüße, 今日は\n\`\`\`\n\n`).join('');
  assert.equal(await stored('content'), `${fences}c.txt:\n\`\`\`\nGrüße\n\`\`\`\n\nWhat is this?`);
});

test('all files that cannot be attached are named, until other files are attached', async () => {
  await demo();
  const photo = Buffer.from([0xff, 0xd8, 0xff, 0]);
  /** @param {string[]} names @param {Buffer} [buffer] */
  const choose = (names, buffer = photo) =>
    page.locator('#attachment').setInputFiles(names.map((name) => ({ name, mimeType: '', buffer })));
  const notice = page.locator('#notices .alert-text');
  const reason = (/** @type {string} */ name) => `“${name}” isn't a text file or PDF that can be attached.`;
  await choose(['a.jpg', 'b.jpg']);
  await page.waitForFunction(
    (text) => document.querySelector('#notices .alert-text')?.textContent === text,
    [reason('a.jpg'), reason('b.jpg')].join(' '),
  );
  await choose(['c.txt'], Buffer.from('words'));
  await chips().first().waitFor();
  assert.equal(await notice.count(), 0);

  await choose(['a.jpg', 'b.jpg', 'c.jpg', 'd.jpg', 'e.jpg']);
  await notice.getByText('2 more files could not be attached completely.').waitFor();
  assert.equal(await page.locator('#notices .alert').count(), 1);
  await page.evaluate(() => {
    const clipboardData = new DataTransfer();
    clipboardData.setData('text/plain', 'pasted '.repeat(400));
    document.querySelector('#message')?.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true }));
  });
  await chips().nth(1).waitFor();
  assert.equal(await notice.count(), 0);
});

test('all visible text of an HTML file is attached, and none of its styles', async () => {
  await demo();
  const html =
    '<style>p::before { content: "</div><b>hidden" }</style><div class="a"style="color: red" STYLE = x>The style = <i style=\'top: 0\'>plain</i></div><p>Set style="x" there.';
  await attach('page.html', Buffer.from(html), 'text/html');
  await chips().first().waitFor();
  assert.equal(await chips().first().getAttribute('title'), 'The style = plain\nSet style="x" there.');
  await attach('many.html', Buffer.from(`<p>Begin</p>${'<style '.repeat(200_000)}`), 'text/html');
  await chips().nth(1).waitFor();
  assert.equal(await chips().nth(1).getAttribute('title'), 'Begin');
});
