// The demo in Chromium: the real page, engine and model.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import { WINDOW } from '../../js/shared/protocol.js';
import {
  resetPage,
  holdRequests,
  newPage,
  oneHost,
  openDemo,
  ready,
  repeatAtOnce,
  ROOT,
  setSampling,
  say,
  stat,
  texts,
  ui,
} from './site.mjs';

const here = oneHost();
/** Pages and servers of the current test. @type {Awaited<ReturnType<typeof newPage>> | undefined} */
let page;
/** Pages and servers of all tests. @type {Awaited<ReturnType<typeof newPage>> | undefined} */
let shared;

// No test leaves an error in the page.
afterEach(async () => {
  const trouble = [...(page?.trouble ?? []), ...(shared?.trouble.splice(0) ?? [])];
  await page?.context().close();
  page = undefined;
  assert.deepEqual(trouble, []);
});

/** The page that tests share, without a chat. */
async function demo() {
  if (shared) {
    await resetPage(shared);
    return shared;
  }
  const output = await newPage(here.browser);
  await openDemo(output, here.site.url);
  return (shared = output);
}

/** Opens a page for one test. @param {number} [context]  tokens of the built-in model */
async function ownDemo(context) {
  page = await newPage(here.browser);
  if (context)
    await page.addInitScript((tokens) => {
      const last = { kind: 'bundled', name: '', key: 'bundled', bytes: 0, context: tokens };
      if (location.protocol === 'http:') localStorage.setItem('bq4.model', JSON.stringify(last));
    }, context);
  await openDemo(page, here.site.url);
  return page;
}

/** Delivers the parts of an answer one at a time, each after the page has drawn the one before. */
function drawnOneByOne() {
  const onmessage = /** @type {any} */ (Object.getOwnPropertyDescriptor(Worker.prototype, 'onmessage'));
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  Object.defineProperty(Worker.prototype, 'onmessage', {
    ...onmessage,
    set(/** @type {(event: MessageEvent) => void} */ listener) {
      /** @type {Promise<unknown>} */
      let last = Promise.resolve();
      onmessage.set.call(this, (/** @type {MessageEvent} */ event) => {
        last = last.then(() => listener(event));
        if (event.data.part) last = last.then(frame).then(frame);
      });
    },
  });
}

test('a message is sent, the answer is streamed, and its figures are shown', async () => {
  page = await newPage(here.browser);
  await page.addInitScript(drawnOneByOne);
  await openDemo(page, here.site.url);
  // Every text of the answer that the page showed.
  await page.evaluate(() => {
    const log = /** @type {HTMLElement} */ (document.querySelector('[role=log]'));
    /** @type {any} */ (globalThis).seen = new Set();
    new MutationObserver(() =>
      /** @type {any} */ (globalThis).seen.add(log.querySelector('article:nth-child(2) .text')?.textContent),
    ).observe(log, { subtree: true, childList: true, characterData: true });
  });
  await setSampling(page, { temperature: '0' });
  const reply = await say(page, 'Tell me a story');
  assert.match(reply, /\w/);
  assert.deepEqual(await texts(page), ['Tell me a story', reply]);
  const seen = await page.evaluate(() => [.../** @type {any} */ (globalThis).seen].filter(Boolean));
  const tokens = Number(await stat(page, 'tokens'));
  assert.ok(tokens > 3, `${tokens} tokens`);
  assert.ok(seen.length >= 3 && seen.length <= tokens, `${seen.length} states of ${tokens} tokens`);
  for (const state of seen) assert.ok(reply.startsWith(state), state);

  assert.match(await stat(page, 'speed'), /^\d[\d.,]*$/);
  assert.match(await stat(page, 'ttft'), /^\d.* m?s$/);
  assert.match(await stat(page, 'memory'), /^\d.* MB/);
  assert.equal(await stat(page, 'build'), 'relaxed SIMD');
  assert.match(await stat(page, 'reason'), /relaxed SIMD is available|fastest of the builds tried here/);
  assert.match((await ui(page).status.textContent()) ?? '', /^Done\.$/);
});

test('the time of a token by its stages is measured only while the details are open', async () => {
  const page = await ownDemo();
  const asked = /** @type {string[]} */ ([]);
  page.context().on('request', (request) => request.serviceWorker() || asked.push(new URL(request.url()).pathname));
  await ui(page).details.click();
  const parts = page.locator('#parts');
  await say(page, 'Hello!');
  assert.equal(await parts.locator('tbody tr').count(), 0);
  assert.ok(!asked.some((path) => path.endsWith('trace.js')), `nobody looks: not even its code is there, ${asked}`);

  await parts.locator('summary').click();
  await setSampling(page, { temperature: '0' });
  await say(page, 'Tell me a story');
  await parts.locator('tbody tr').first().waitFor();
  const rows = await parts
    .locator('tbody tr')
    .evaluateAll((list) => list.map((row) => [...row.children].map((cell) => cell.textContent ?? '')));
  assert.deepEqual(
    rows.map(([name]) => name),
    ['Layer matrices', 'Output layer', 'Attention', 'Norms, rotation', 'Sampling', 'JavaScript'],
  );
  const lines = await parts.evaluate((parts) => {
    const table = /** @type {HTMLElement} */ (parts.querySelector('table'));
    const heads = [...table.querySelectorAll('th')].map((head) => {
      const text = document.createRange();
      text.selectNodeContents(head);
      return text.getClientRects().length;
    });
    return { heads: Math.max(...heads), out: table.scrollWidth - parts.clientWidth };
  });
  assert.ok(lines.heads === 1 && lines.out <= 0, `labels of one line, within the panel: ${JSON.stringify(lines)}`);
  const sum = (/** @type {number} */ column) => rows.reduce((total, row) => total + Number.parseFloat(row[column]), 0);
  const [, ms, tokens] =
    /^([\d.]+) ms per token: the mean of (\d+) tokens? of the last reply/.exec(
      (await parts.locator('.hint').textContent()) ?? '',
    ) ?? [];
  assert.ok(Number(ms) > 0 && Math.abs(sum(1) - Number(ms)) <= 0.0005 * rows.length + 0.0005, `${sum(1)} of ${ms} ms`);
  assert.ok(Math.abs(sum(2) - 100) <= 0.05 * rows.length, `${sum(2)} %`);
  // Attention over few tokens can take less than the resolution of the clock of a page that is not isolated.
  for (const [i, [name, time, , rate]] of rows.slice(0, 3).entries())
    assert.ok((Number(time) > 0 || i === 2) && Number(rate) > 0, `${name}: ${time} ms, ${rate} GB/s`);
  for (const [name, , , , limit] of rows)
    assert.equal(/^[\d.]+ %$/.test(limit), /matrices|layer$/.test(name), `${name}: ${limit} of the limit`);
  const written = Number(await stat(page, 'tokens'));
  // Tokens computed before the call of the page are not counted.
  assert.ok(Number(tokens) > 0 && Number(tokens) <= written, `${tokens} of ${written} tokens`);

  await parts.locator('summary').click();
  const shown = await parts.locator('.hint').textContent();
  await say(page, 'Tell me a joke');
  assert.equal(await parts.locator('.hint').textContent(), shown, 'not measured while it is closed');
});

test('Enter sends, Shift+Enter inserts a line break, blank text is not sent', async () => {
  const page = await demo();
  const { message } = ui(page);
  await message.press('Enter');
  await message.fill('  ');
  await message.press('Enter');
  assert.deepEqual(await texts(page), []);
  await message.fill('Hello');
  await message.press('Shift+Enter');
  await page.keyboard.type('there');
  assert.equal(await message.inputValue(), 'Hello\nthere');
  // Safari reports the Enter that accepts text of an input method after the end of its composition, as key 229.
  const accept = (/** @type {string} */ name) =>
    page
      .getByRole('textbox', { name })
      .evaluate((field) =>
        field.dispatchEvent(
          new KeyboardEvent('keydown', { key: 'Enter', keyCode: 229, bubbles: true, cancelable: true }),
        ),
      );
  assert.equal(await accept('Message'), true, 'left to the input method');
  assert.equal(await message.inputValue(), 'Hello\nthere');
  await message.press('Enter');
  await ready(page);
  assert.equal((await texts(page))[0], 'Hello\nthere');
  await message.press('ArrowUp');
  assert.equal(await accept('Edit your message'), true);
  const editor = page.getByRole('textbox', { name: 'Edit your message' });
  // Escape that ends a composition does not cancel the edit.
  await editor.evaluate((field) =>
    field.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', isComposing: true, bubbles: true })),
  );
  assert.ok(await editor.isVisible());
  await editor.press('Escape');
  assert.equal(await message.inputValue(), '');
});

test('Stop: at most one more token is shown after the click', async () => {
  const page = await demo();
  await setSampling(page, { temperature: '0' });
  const clicked = page.evaluate(
    () =>
      new Promise((resolve) => {
        const tokens = /** @type {HTMLElement} */ (document.querySelector('[data-stat=tokens]'));
        new MutationObserver((_, observer) => {
          if (Number(tokens.textContent) < 5) return;
          observer.disconnect();
          const stop = /** @type {HTMLElement} */ (document.querySelector('#stop'));
          stop.focus();
          stop.click();
          resolve([Number(tokens.textContent), document.querySelector('article:last-child .text')?.textContent]);
        }).observe(tokens, { childList: true });
      }),
  );
  const reply = await say(page, 'Tell me a story');
  const [shown, text] = /** @type {[number, string]} */ (await clicked);
  const written = Number(await stat(page, 'tokens'));
  assert.ok(written >= shown && written <= shown + 1, `${shown} tokens at the click, ${written} in the end`);
  assert.ok(reply.startsWith(text) && reply.slice(text.length).split(' ').length <= 2, `"${text}", then "${reply}"`);
  // The engine is ahead of the page by a limited number of tokens. The prompt has at least 9 tokens.
  const computed =
    Number((await stat(page, 'context')).split(' of ')[0]) - Number((await stat(page, 'reused')).split(' of ')[1]);
  assert.ok(computed <= shown + WINDOW + 1, `${computed} tokens computed`);
  assert.match((await ui(page).status.textContent()) ?? '', /^Stopped\.$/);
  assert.match((await ui(page).messages.last().textContent()) ?? '', /Stopped/);
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'message');
  assert.match(await say(page, 'Hello!'), /\w/, 'goes on after it');
});

test('Stop works immediately, with the button and with Escape', async () => {
  const page = await demo();
  for (const mode of ['button', 'Escape']) {
    await ui(page).message.fill('Tell me a story');
    await page.evaluate((method) => {
      /** @type {HTMLElement} */ (document.querySelector('#send')).click();
      if (method === 'button') /** @type {HTMLElement} */ (document.querySelector('#stop')).click();
      else document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
    }, mode);
    await ready(page);
    assert.match((await ui(page).status.textContent()) ?? '', /^Stopped/, mode);
    assert.equal((await texts(page)).join('').replace('Tell me a story', ''), '', mode);
  }
  assert.match(await say(page, 'Hello!'), /\w/);
});

test('the second message reuses the KV cache of the first', async () => {
  const page = await ownDemo();
  await setSampling(page, { temperature: '0' });
  await say(page, 'Hello!');
  assert.match(await stat(page, 'reused'), /^0 of \d+$/);
  const before = Number((await stat(page, 'reused')).split(' of ')[1]) + Number(await stat(page, 'tokens'));
  await say(page, 'Tell me a joke');
  const [reused, prompt] = (await stat(page, 'reused')).split(' of ').map(Number);
  // All tokens except the last one of the first answer, which was not computed.
  assert.ok(reused >= before - 1 && reused < prompt, `${reused} of ${prompt}, ${before} before`);
});

test('a reload keeps the conversation, which can be continued', async () => {
  const page = await demo();
  await say(page, 'Hello!');
  await say(page, 'Tell me a joke');
  const conversation = await texts(page);
  await page.reload();
  await ready(page);
  assert.deepEqual(await texts(page), conversation);
  await say(page, 'Thank you');
  assert.deepEqual((await texts(page)).slice(0, 4), conversation);
  const prompt = Number((await stat(page, 'reused')).split(' of ')[1]);
  assert.ok(prompt > 20, `the model was given ${prompt} tokens`);
});

test('a reload during an answer keeps and marks the received text, which can be continued', async () => {
  const page = await demo();
  // A high temperature avoids an early end.
  await setSampling(page, { temperature: '2', topK: '0', minP: '0', topP: '1', maxTokens: '400', seed: '3' });
  await ui(page).message.fill('Tell me a story');
  await page.evaluate(() => {
    const tokens = /** @type {HTMLElement} */ (document.querySelector('[data-stat=tokens]'));
    new MutationObserver((_, observer) => {
      if (Number(tokens.textContent) < 8) return;
      observer.disconnect();
      sessionStorage.setItem('written', document.querySelector('article:last-child .text')?.textContent ?? '');
      location.reload();
    }).observe(tokens, { childList: true });
    /** @type {HTMLElement} */ (document.querySelector('#send')).click();
  });
  await page.waitForFunction(
    () => sessionStorage.getItem('written') && document.querySelector('[data-stat=tokens]')?.textContent === '',
  );
  await ready(page);
  const [local, reply] = await texts(page);
  const written = await page.evaluate(() => sessionStorage.getItem('written') ?? '');
  assert.equal(local, 'Tell me a story');
  assert.ok(written.length > 8 && reply.startsWith(written), `"${reply}" after "${written}"`);
  assert.equal(await page.locator('.tools .end').last().textContent(), 'Interrupted');
  await setSampling(page, { temperature: '0' });
  await page.getByRole('button', { name: 'Continue the reply' }).click();
  await ready(page);
  const after = String((await texts(page)).at(-1));
  // The model may end a reply at once, depending on where the reload cut it.
  assert.ok(after.startsWith(reply), `"${after}" after "${reply}"`);
  // For the same reason it may also reach the limit of tokens.
  const end = String(await page.locator('.tools .end').last().textContent());
  assert.ok(['', 'Stopped at the length limit'].includes(end), end);
});

test('Continue of a reply to which the model adds nothing ends it', async () => {
  const page = await demo();
  await ui(page).message.fill('Tell me a story');
  await page.locator('#send').click();
  await ready(page);
  await page.evaluate(() => {
    const key = String(Object.keys(localStorage).find((name) => localStorage[name].includes('"entries":[{')));
    const conversation = JSON.parse(localStorage[key]);
    // After this text the model ends the reply with its first token.
    const { tokens: _, ...reply } = conversation.entries.pop();
    conversation.entries.push({ ...reply, content: 'Mavy mostly s car fiction and pictures.', end: 'interrupted' });
    localStorage[key] = JSON.stringify(conversation);
  });
  await page.reload();
  await ready(page);
  assert.equal(await page.locator('.tools .end').last().textContent(), 'Interrupted');
  await setSampling(page, { temperature: '0' });
  await page.getByRole('button', { name: 'Continue the reply' }).click();
  await ready(page);
  assert.equal((await texts(page)).at(-1), 'Mavy mostly s car fiction and pictures.');
  assert.equal(await page.locator('.tools .end').last().textContent(), '');
});

test('a reload before the first word leaves no empty answer, and the message is a draft again', async () => {
  const page = await demo();
  await page.evaluate(() => {
    const entries = [
      { id: 'a', parent: null, role: 'user', content: 'Hello!' },
      { id: 'b', parent: 'a', role: 'assistant', content: 'Hi.' },
      { id: 'c', parent: 'b', role: 'user', content: 'Tell me a joke' },
      { id: 'd', parent: 'c', role: 'assistant', content: '', end: 'writing' },
    ];
    localStorage.setItem('bq4.chat.x', JSON.stringify({ version: 2, entries, leaf: 'd' }));
    sessionStorage.setItem('bq4.open', 'x');
  });
  await page.reload();
  await ready(page);
  assert.deepEqual(await texts(page), ['Hello!', 'Hi.']);
  assert.equal(await ui(page).message.inputValue(), 'Tell me a joke');
});

test('a draft belongs to its chat, and a reload keeps it', async () => {
  const page = await demo();
  await say(page, 'Hello!');
  await ui(page).message.fill('half a thought');
  await page.reload();
  await ready(page);
  assert.equal(await ui(page).message.inputValue(), 'half a thought');
  await ui(page).newChat.click();
  await page.locator('[role=log] article').first().waitFor({ state: 'detached' });
  assert.equal(await ui(page).message.inputValue(), '');
  await ui(page).message.fill('another');
  await page.reload();
  await ready(page);
  assert.equal(await ui(page).message.inputValue(), 'another', 'also where nothing has been sent');
  await page.locator('.chat-name', { hasText: 'Hello!' }).click(); // in the sidebar, if the window has room for it
  await page.waitForFunction(() => document.querySelectorAll('[role=log] article').length === 2);
  assert.equal(await ui(page).message.inputValue(), 'half a thought');
});

test('Enter before the model is ready: the message is sent when it is ready', async () => {
  page = await newPage(here.browser);
  const release = await holdRequests(page, '**/chat.bq4*');
  await page.goto(here.site.url);
  // From here on, no other status replaces the expected one.
  await ui(page).status.filter({ hasText: 'Loading the built-in model' }).waitFor();
  assert.equal(await page.locator('#amount').textContent(), 'Loading…');
  await ui(page).message.fill('Hello!');
  await ui(page).message.press('Enter');
  await ui(page).status.filter({ hasText: 'as soon as the model is ready' }).waitFor();
  const shown = () =>
    page.locator('#amount').evaluate((amount) => getComputedStyle(amount, '::after').content.replace(/^none$/, ''));
  assert.match(await shown(), /Your message is sent then/);
  await ui(page).message.fill('Hello');
  assert.equal(await shown(), '', 'a changed message is not sent by itself');
  await ui(page).message.fill('Hello!');
  await ui(page).message.press('Enter');
  assert.match(await shown(), /Your message is sent then/);
  release();
  await page.waitForFunction(() => document.querySelectorAll('[role=log] article').length === 2);
  await ready(page);
  assert.equal((await texts(page))[0], 'Hello!');
  assert.equal(await page.locator('#amount').textContent(), '');
  assert.equal(await shown(), '');
});

test('a text file becomes part of the message', async () => {
  const page = await demo();
  await page.locator('#attachment').setInputFiles({
    name: 'notes.md',
    mimeType: 'text/markdown',
    buffer: Buffer.from('Milk.\n```js\n1\n```\n'),
  });
  await ui(page).status.filter({ hasText: 'notes.md is attached.' }).waitFor();
  const chips = page.getByRole('list', { name: 'Attachments' }).getByRole('listitem');
  assert.deepEqual(await chips.locator('b').allTextContents(), ['notes.md']);
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.items.add(new File(['Bread.'], 'more.txt'));
    document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await ui(page).status.filter({ hasText: 'more.txt is attached.' }).waitFor();
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.items.add(
      new File(['<style>p {}</style><p style="color: red">Salt</p><script>1</script><p>Oil</p>'], 'page.html', {
        type: 'text/html',
      }),
    );
    document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await ui(page).status.filter({ hasText: 'page.html is attached.' }).waitFor();
  assert.deepEqual(await chips.locator('b').allTextContents(), ['notes.md', 'more.txt', 'page.html']);
  await ui(page).message.fill('What shall I buy?');
  // A reload keeps the attachments of a draft.
  await page.reload();
  await ready(page);
  assert.deepEqual(await chips.locator('b').allTextContents(), ['notes.md', 'more.txt', 'page.html']);
  assert.equal(await ui(page).message.inputValue(), 'What shall I buy?');
  await page.getByRole('button', { name: 'Remove more.txt' }).click();
  await setSampling(page, { maxTokens: '4' });
  await ui(page).send.click();
  await ready(page);
  assert.equal(await chips.count(), 0);
  const sent = await page.evaluate(() => {
    const key = Object.keys(localStorage).find((name) => name.startsWith('bq4.chat.')) ?? '';
    return JSON.parse(localStorage.getItem(key) ?? '').entries[0].content;
  });
  assert.equal(
    sent,
    'notes.md:\n````\nMilk.\n```js\n1\n```\n````\n\npage.html:\n```\nSalt\nOil\n```\n\nWhat shall I buy?',
  );
  // Attachments without text are a message, too, and the button is enabled.
  const colour = () => ui(page).send.evaluate((send) => getComputedStyle(send).backgroundColor);
  const idle = await colour();
  await page.locator('#attachment').setInputFiles([
    { name: 'empty.txt', mimeType: 'text/plain', buffer: Buffer.from('') },
    { name: 'alone.txt', mimeType: 'text/plain', buffer: Buffer.from('Salt.') },
  ]);
  await chips.first().waitFor();
  assert.notEqual(await colour(), idle);
  await page.getByText('“empty.txt” is empty.').waitFor();
  await page.getByRole('button', { name: 'Remove alone.txt' }).click();
  assert.equal(await colour(), idle);
  const shown = ui(page).messages.first();
  assert.deepEqual(await shown.locator('details.attachment b').allTextContents(), ['notes.md', 'page.html']);
  await shown.getByText('notes.md').click();
  assert.equal(await shown.locator('pre').first().textContent(), 'Milk.\n```js\n1\n```');
});

test('pasted files and long texts are attached, short texts are inserted', async () => {
  const page = await demo();
  const paste = (/** @type {string} */ text) =>
    page.evaluate((text) => {
      const clipboardData = new DataTransfer();
      clipboardData.setData('text/plain', text);
      const event = new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true });
      return document.querySelector('#message')?.dispatchEvent(event);
    }, text);
  assert.equal(await paste('short'), true, 'the browser inserts it');
  assert.equal(await paste('A long text. '.repeat(200)), false);
  assert.equal(await paste('Another long text. '.repeat(200)), false);
  const chips = page.getByRole('list', { name: 'Attachments' }).getByRole('listitem');
  await chips.nth(1).waitFor();
  assert.deepEqual(await chips.locator('b').allTextContents(), ['Pasted text', 'Pasted text (2)']);
  assert.deepEqual(await chips.locator('small').allTextContents(), ['600 words', '600 words']);
  await page.getByRole('button', { name: 'Remove Pasted text (2)' }).click();
  await page.getByRole('button', { name: 'Remove Pasted text', exact: true }).click();
  assert.equal(await chips.count(), 0);
  const pasteFile = (/** @type {string} */ name, text = '') =>
    page.evaluate(
      ([name, text]) => {
        const clipboardData = new DataTransfer();
        clipboardData.items.add(new File(['x'], name));
        if (text) clipboardData.setData('text/plain', text);
        const event = new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true });
        return document.querySelector('#message')?.dispatchEvent(event);
      },
      [name, text],
    );
  assert.equal(await pasteFile('cells.png', 'Office programs add a picture of it'), true);
  assert.equal(await pasteFile('list.txt'), false);
  await page.getByRole('button', { name: 'Remove list.txt' }).click();
});

test('the up arrow in an empty field edits the last message', async () => {
  const page = await demo();
  await setSampling(page, { maxTokens: '8' });
  await say(page, 'Hello!');
  await ui(page).message.press('ArrowUp');
  const editor = page.getByRole('textbox', { name: 'Edit your message' });
  assert.equal(await editor.inputValue(), 'Hello!');
  const [cancel, send] = [page.locator('.edit button').first(), page.locator('.edit button').last()];
  const [left, right] = [await cancel.boundingBox(), await send.boundingBox()];
  assert.ok(left && right && left.x + left.width <= right.x && right.x - left.x - left.width < 20, 'side by side');
  await editor.press('Escape');
});

test('an edit that is sent during an answer stays in its field, and is sent after the answer', async () => {
  const page = await demo();
  await setSampling(page, { maxTokens: '8' });
  await say(page, 'Hello!');
  await ui(page).message.press('ArrowUp');
  const editor = page.getByRole('textbox', { name: 'Edit your message' });
  await editor.fill('Who are you?');
  await page.evaluate(() => {
    const press = (/** @type {string} */ selector) =>
      /** @type {HTMLElement} */ (document.querySelector(selector)).click();
    press('[aria-label="Regenerate the reply"]');
    press('[aria-label="Send the edited message"]');
  });
  await ready(page);
  assert.equal(await editor.inputValue(), 'Who are you?');
  await page.getByRole('button', { name: 'Send the edited message' }).click();
  await ready(page);
  assert.equal((await texts(page))[0], 'Who are you?');
  await editor.waitFor({ state: 'detached' });
});

test('an edit that is stopped before the first word restores the message and keeps the edit in the field', async () => {
  const page = await demo();
  await say(page, 'Hello!');
  await ui(page).message.press('ArrowUp');
  await page.getByRole('textbox', { name: 'Edit your message' }).fill('Who are you?');
  await page.evaluate(() => {
    for (const selector of ['[aria-label="Send the edited message"]', '#stop'])
      /** @type {HTMLElement} */ (document.querySelector(selector)).click();
  });
  await ready(page);
  assert.equal((await texts(page))[0], 'Hello!');
  assert.equal(await ui(page).message.inputValue(), 'Who are you?');
});

test('the details are closed at first, and a reload keeps their state', async () => {
  const page = await ownDemo();
  const details = page.locator('#details');
  assert.ok(!(await details.isVisible()));
  await ui(page).details.click();
  assert.ok(await details.isVisible());
  await page.reload();
  assert.ok(await details.isVisible(), 'before the page has done anything');
  await ready(page);
  await ui(page).details.click();
  await page.reload();
  await ready(page);
  assert.ok(!(await details.isVisible()));
});

test('New chat clears the conversation, also during an answer and after a reload', async () => {
  const page = await demo();
  await say(page, 'Hello!');
  const prompt = (await stat(page, 'reused')).split(' of ')[1];
  await ui(page).newChat.click();
  await page.locator('[role=log] article').first().waitFor({ state: 'detached' });
  await ready(page);
  assert.deepEqual(await texts(page), []);
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'message');
  await say(page, 'Hello!');
  assert.equal((await stat(page, 'reused')).split(' of ')[1], prompt, 'the model reads nothing of the old chat');
  await ui(page).message.fill('Tell me a story');
  await page.evaluate(() => {
    for (const id of ['#send', '#new-chat']) /** @type {HTMLElement} */ (document.querySelector(id)).click();
  });
  await page.locator('[role=log] article').first().waitFor({ state: 'detached' });
  await ready(page);
  assert.deepEqual(await texts(page), []);
  assert.equal(await ui(page).alert.count(), 0);
  await page.reload();
  await ready(page);
  assert.deepEqual(await texts(page), []);
  await page.getByRole('button', { name: 'Tell me a joke' }).click();
  await ready(page);
  assert.equal((await texts(page)).length, 2);
});

test('a chat that is deleted during an answer disappears with its draft; Undo restores both, and the received text', async () => {
  const page = await demo();
  await say(page, 'Hello!');
  await ui(page).message.fill('a secret');
  const deleteChat = () =>
    page.evaluate(async () => {
      const press = (/** @type {string} */ selector) =>
        /** @type {HTMLElement} */ (document.querySelector(selector)).click();
      press('[aria-label="Regenerate the reply"]');
      const log = /** @type {HTMLElement} */ (document.querySelector('#log'));
      await new Promise((resolve) => {
        new MutationObserver((_, observer) => {
          if (!document.querySelector('article.assistant .text')?.textContent) return;
          observer.disconnect();
          resolve(undefined);
        }).observe(log, { childList: true, characterData: true, subtree: true });
      });
      press('[aria-label="Delete Hello!"]');
    });
  const kept = () => page.evaluate(() => Object.keys(localStorage).filter((key) => /^bq4\.(chat|draft)\./.test(key)));
  // The list is drawn again.
  if (await page.locator('#chats-dialog').isVisible()) await page.locator('#chats-dialog [name=close]').click();
  await page.locator('#chats').click();
  await page.waitForFunction(() => document.querySelectorAll('#chats-dialog[open] .chat').length === 1);
  await deleteChat();
  await page.locator('.chat').waitFor({ state: 'detached' });
  await ready(page);
  assert.deepEqual(await kept(), []);
  assert.equal(await ui(page).message.inputValue(), '');
  await page.getByRole('button', { name: 'Undo: Deleted “Hello!”.' }).click();
  await page.locator('.chat').waitFor();
  assert.equal((await kept()).length, 2);
  assert.equal(await ui(page).message.inputValue(), 'a secret');
  assert.equal((await texts(page)).length, 2);
  await page.getByRole('log').getByText('Version 2 of 2', { exact: true }).waitFor();
});

test('Regenerate requests another answer to the same message', async () => {
  const page = await demo();
  await setSampling(page, { temperature: '1.5', topK: '0', minP: '0', seed: '1' });
  await say(page, 'Hello!');
  const first = await say(page, 'Tell me a story');
  const again = async () => {
    await ui(page).regenerate.click();
    await ready(page);
    const all = await texts(page);
    assert.equal(all.length, 4);
    assert.equal(all[2], 'Tell me a story');
    return all[3];
  };
  assert.equal(await again(), first, 'the same seed says the same');
  const [reused, prompt] = (await stat(page, 'reused')).split(' of ').map(Number);
  assert.ok(reused >= prompt - 1, `${reused} of ${prompt}`);
  await setSampling(page, { seed: '2' });
  assert.notEqual(await again(), first);
});

test('Regenerate of an earlier reply begins another version, which has its own later messages, like an edit', async () => {
  const page = await demo();
  await setSampling(page, { temperature: '1.5', topK: '0', minP: '0', seed: '1', maxTokens: '8' });
  await say(page, 'Hello!');
  await say(page, 'Tell me a story');
  const before = await texts(page);
  const earlier = ui(page).messages.nth(1).getByRole('button', { name: 'Regenerate the reply' });
  // Stopped before the first word: nothing has changed.
  await earlier.evaluate((again) => {
    /** @type {HTMLElement} */ (again).click();
    /** @type {HTMLElement} */ (document.querySelector('#stop')).click();
  });
  await ready(page);
  assert.deepEqual(await texts(page), before);
  await setSampling(page, { seed: '2' });
  await earlier.press('Enter');
  await ready(page);
  assert.equal(
    await page.evaluate(() => document.activeElement?.getAttribute('aria-label')),
    'Regenerate the reply',
    'the focus is on the new reply',
  );
  const after = await texts(page);
  assert.equal(after.length, 2);
  assert.equal(after[0], 'Hello!');
  assert.notEqual(after[1], before[1]);
  await page.getByRole('button', { name: 'Previous version' }).click();
  // Visible also while another message is in use.
  await page.mouse.move(0, 0);
  await ui(page).message.focus();
  await page.waitForFunction(() =>
    [...document.querySelectorAll('#log .message:nth-child(2) .tools > *')].every((part) => {
      const { opacity } = getComputedStyle(part);
      return opacity === (part.className === 'versions' ? '1' : '0');
    }),
  );
  assert.deepEqual(await texts(page), before, 'the earlier version, with the messages after it');
  await page.reload();
  await ready(page);
  await page.getByRole('button', { name: 'Next version' }).click();
  assert.deepEqual(await texts(page), after);
});

test('a new version of an earlier message hides the later ones: a notice shows them again, with the keyboard, also during the reply', async () => {
  const page = await demo();
  await setSampling(page, { temperature: '1.5', topK: '0', minP: '0', seed: '1', maxTokens: '8' });
  await say(page, 'Hello!');
  const notice = page.locator('#notices[aria-live="polite"]');
  await ui(page).regenerate.click();
  await ready(page);
  assert.equal(await notice.textContent(), '', 'no later message');
  await say(page, 'Tell me a story');
  const before = await texts(page);
  const reply = ui(page).messages.nth(1);
  const showThem = notice.getByRole('button', { name: 'Show them' });

  // Stopped before the first word: nothing is hidden.
  await reply.getByRole('button', { name: 'Regenerate the reply' }).evaluate((again) => {
    /** @type {HTMLElement} */ (again).click();
    /** @type {HTMLElement} */ (document.querySelector('#stop')).click();
  });
  await ready(page);
  assert.deepEqual(await texts(page), before);
  assert.equal(await notice.textContent(), '');

  await reply.getByRole('button', { name: 'Regenerate the reply' }).press('Enter');
  await notice.getByText('The later messages are kept with the earlier version.').waitFor();
  await ready(page);
  assert.equal((await texts(page)).length, 2);
  await page.getByRole('button', { name: 'Dismiss this message' }).focus();
  await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('Enter');
  await ui(page).status.filter({ hasText: 'The earlier version is shown.' }).waitFor();
  assert.deepEqual(await texts(page), before);
  assert.equal(await notice.textContent(), '');

  // An edit, during its reply.
  await setSampling(page, { maxTokens: '400' });
  const question = ui(page).messages.first();
  await question.getByRole('button', { name: 'Edit your message' }).press('Enter');
  await page.getByRole('textbox', { name: 'Edit your message' }).fill('Tell me a joke');
  await page.keyboard.press('Enter');
  await showThem.press('Enter');
  await ui(page).status.filter({ hasText: 'The earlier version is shown.' }).waitFor();
  await ready(page);
  assert.deepEqual(await texts(page), before);

  // The next message removes the notice.
  await setSampling(page, { maxTokens: '8' });
  await reply.getByRole('button', { name: 'Regenerate the reply' }).click();
  await showThem.waitFor();
  await ready(page);
  await say(page, 'Hello!');
  assert.equal(await notice.textContent(), '');

  // So does the step to another version.
  await question.getByRole('button', { name: 'Edit your message' }).press('Enter');
  await page.getByRole('textbox', { name: 'Edit your message' }).fill('Tell me a joke');
  await page.keyboard.press('Enter');
  await showThem.waitFor();
  await ready(page);
  await question.getByRole('button', { name: 'Previous version' }).click();
  assert.equal(await notice.textContent(), '');
});

test('Copy', async () => {
  const page = await demo();
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  const reply = await say(page, 'Hello!');
  await page.getByRole('button', { name: 'Copy the reply' }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), reply);
  await page.getByRole('button', { name: 'Copy your message' }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'Hello!');
  // The second press restores its name.
  const copy = page.getByRole('button', { name: 'Copy the reply' });
  await copy.dblclick();
  await copy.and(page.getByText('Copied ✓')).waitFor();
  await copy.and(page.getByText('Copy', { exact: true })).waitFor();
});

test('settings: temperature 0 repeats an answer, a reload keeps settings, Reset restores defaults, values have limits', async () => {
  const page = await demo();
  await setSampling(page, { temperature: '0', maxTokens: '7', topK: '99999' });
  const first = await say(page, 'Tell me a story');
  assert.equal(await stat(page, 'tokens'), '7');
  await page.reload();
  await ready(page);
  const value = (/** @type {string} */ name) => page.locator(`#sampling [name="${name}"]`).inputValue();
  assert.deepEqual([await value('temperature'), await value('maxTokens'), await value('topK')], ['0', '7', '1000']);
  await ui(page).newChat.click();
  await page.locator('[role=log] article').first().waitFor({ state: 'detached' });
  await ready(page);
  assert.equal(await say(page, 'Tell me a story'), first);
  await page.evaluate(() => /** @type {HTMLElement} */ (document.querySelector('#reset')).click());
  assert.notEqual(await value('maxTokens'), '7');
  assert.equal(await value('seed'), '');
});

test('a file that is no model: the page shows code, message and hint, and continues to work', async () => {
  const page = await demo();
  const { alert, status } = ui(page);
  await ui(page).file.setInputFiles({
    name: 'notes.bq4',
    mimeType: '',
    buffer: Buffer.from('these are my notes, not a model. '.repeat(9)),
  });
  await alert.waitFor();
  await ready(page);
  assert.match((await alert.locator('.what').textContent()) ?? '', /\w+ \w+/);
  assert.match((await alert.locator('.hint').textContent()) ?? '', /\w+ \w+/);
  assert.match((await alert.locator('code').textContent()) ?? '', /^(NOT_A_MODEL|FORMAT)( at byte \d+)?$/);
  assert.match((await status.textContent()) ?? '', /was not loaded\. Still using Tiny\./);
  assert.match(await say(page, 'Hello!'), /\w/);
  assert.equal(await alert.count(), 0, 'and the message has gone');
});

test('a model can be dropped on the page; a damaged one is refused with its offset', async () => {
  const page = await demo();
  const model = readFileSync(join(ROOT, 'models/chat.bq4'));
  const drop = (/** @type {string} */ name, /** @type {string} */ base64) =>
    page.evaluate(
      ([name, base64]) => {
        const data = new DataTransfer();
        data.items.add(new File([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))], name));
        for (const type of ['dragover', 'drop'])
          document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
      },
      [name, base64],
    );
  await drop('half.bq4', model.subarray(0, model.length >> 1).toString('base64'));
  await ui(page).alert.waitFor();
  await ready(page);
  assert.match((await ui(page).alert.locator('code').textContent()) ?? '', /^TRUNCATED( at byte \d+)?$/);
  assert.match(await say(page, 'Hello!'), /\w/);

  await drop('mine.bq4', model.toString('base64'));
  await ui(page).models.filter({ hasText: 'mine.bq4' }).waitFor();
  await ready(page);
  assert.equal((await texts(page)).length, 2, 'the conversation stays');
  assert.match(await say(page, 'Tell me a joke'), /\w/);
  await ui(page).models.click();
  await page.getByRole('button', { name: 'Use Tiny (built in)' }).click();
  await ui(page).models.filter({ hasText: 'Tiny (built in)' }).waitFor();
  await ready(page);
  assert.match(await say(page, 'Thank you'), /\w/);
});

test('the engine or the model cannot be loaded: the page shows an error with code and hint, and a button to retry', async () => {
  page = await newPage(here.browser);
  await repeatAtOnce(page);
  const { alert } = ui(page);
  await page.route('**/bq4-relaxed*.wasm', (route) => route.fulfill({ status: 404 }));
  await page.goto(here.site.url);
  await alert.waitFor();
  assert.match((await alert.locator('code').textContent()) ?? '', /^NO_ENGINE/);
  assert.match((await alert.locator('.hint').textContent()) ?? '', /build\/wasm/);
  await page.unroute('**/bq4-relaxed*.wasm');
  let status = 404;
  await page.route('**/chat.bq4*', (route) => route.fulfill({ status }));
  await alert.getByRole('button', { name: 'Reload the page' }).click();
  await alert.locator('code', { hasText: 'HTTP_STATUS' }).waitFor({ state: 'attached' });
  assert.ok(await ui(page).send.isDisabled());
  // A model from a file works, too.
  await ui(page).file.setInputFiles(join(ROOT, 'models/chat.bq4'));
  await ready(page);
  assert.match(await say(page, 'Hello!'), /\w/);
  // A page cannot open that file again without the user: it uses Tiny, and a card names the file.
  await page.reload();
  await alert.locator('code', { hasText: 'HTTP_STATUS' }).waitFor({ state: 'attached' });
  await page
    .locator('#notices', { hasText: 'To go on with “chat.bq4” (3.8 MB), open the file again.' })
    .getByRole('button', { name: 'Open…' })
    .waitFor();
  status = 503;
  await page.getByRole('button', { name: 'Use the built-in model' }).click();
  await alert.filter({ hasText: '503' }).locator('code', { hasText: 'HTTP_STATUS' }).waitFor({ state: 'attached' });
  await page.unroute('**/chat.bq4*');
  await alert.getByRole('button', { name: 'Try again' }).click();
  await ready(page);
  assert.match(await say(page, 'Hello!'), /\w/);
  page.trouble = page.trouble.filter((line) => !/status of (404|503)/.test(line));
});

test('a message that is too long is reported while it is typed and is not sent', async () => {
  const page = await ownDemo(512);
  const { alert, message } = ui(page);
  const notice = page.locator('#notices');
  const words = Array(600).fill('the').join(' ');
  await message.fill(words);
  await page.locator('#fine-text', { hasText: /^Too long: Tiny can read about 8[345] % of this message\.$/ }).waitFor();
  await message.press('Enter');
  await notice.getByText(/^Too long: Tiny can read about 8[345] % of this message\.$/).waitFor();
  assert.equal(await alert.count(), 0, 'it is no error');
  assert.deepEqual(await texts(page), []);
  assert.equal(await message.inputValue(), words, 'what was written is not lost');
  await message.fill('');
  await page.locator('#fine-text', { hasText: 'Can make mistakes' }).waitFor();
});

test('a conversation can exceed the context: the oldest messages are left out, above a separator', async () => {
  const page = await ownDemo(512);
  await setSampling(page, { temperature: '0', maxTokens: '60' });
  const words = Array(246).fill('the').join(' ');
  await say(page, words);
  assert.equal(await page.locator('.divider').count(), 0);
  assert.match(await say(page, 'Tell me a story'), /\w/);
  assert.equal(
    await page.locator('.divider + article .text').textContent(),
    'Tell me a story',
    'the page shows from where on the model reads',
  );
  const prompt = Number((await stat(page, 'reused')).split(' of ')[1]);
  assert.ok(prompt < 30, `the model read ${prompt} tokens`);
  assert.equal(await page.locator('#notices .notice').count(), 0, 'nothing is asked');
  assert.match(await say(page, 'Tell me a joke'), /\w/);
  await page.reload();
  await ready(page);
  assert.equal(await page.locator('.divider + article .text').textContent(), 'Tell me a story');
});

test('a truncated answer shows the reason, and Continue adds the rest, with the same text as without a limit', async () => {
  const page = await demo();
  await setSampling(page, { temperature: '0', repeatPenalty: '1' });
  const whole = await say(page, 'Tell me a story');
  assert.equal(await page.getByRole('button', { name: 'Continue the reply' }).count(), 0, 'it is complete');
  assert.equal(await page.locator('.tools .end').last().textContent(), '');
  await resetPage(page);
  await setSampling(page, { temperature: '0', repeatPenalty: '1', maxTokens: '20' });
  const cut = await say(page, 'Tell me a story');
  assert.ok(whole.startsWith(cut) && cut.length < whole.length, cut);
  assert.equal(await page.locator('.tools .end').last().textContent(), 'Stopped at the length limit');
  assert.doesNotMatch((await ui(page).status.textContent()) ?? '', /Done/);
  await page.reload();
  await ready(page);
  await setSampling(page, { temperature: '0', repeatPenalty: '1', maxTokens: '400' });
  await page.getByRole('button', { name: 'Continue the reply' }).click();
  await ready(page);
  const [local, all, ...more] = await texts(page);
  assert.deepEqual([local, more], ['Tell me a story', []]);
  assert.ok(all.startsWith(cut) && all.length > cut.length, all);
  // The tokens can differ from the truncated ones, and so can later words.
  assert.equal(all.slice(0, cut.length + 20), whole.slice(0, cut.length + 20));
  assert.equal(await page.getByRole('button', { name: 'Continue the reply' }).count(), 0);
});

test('an answer that was stopped, or ended by a full context, can be continued repeatedly', async () => {
  const page = await ownDemo(512);
  // A high temperature avoids an early end.
  await setSampling(page, { temperature: '2', topK: '0', minP: '0', topP: '1', seed: '1', repeatPenalty: '1.5' });
  await say(page, 'Tell me a story');
  assert.equal(await page.locator('.tools .end').last().textContent(), 'Stopped: too long for this model');
  for (let times = 0; times < 2; times++) {
    const before = String((await texts(page)).at(-1));
    await page.getByRole('button', { name: 'Continue the reply' }).click();
    await ready(page);
    const after = String((await texts(page)).at(-1));
    assert.ok(after.startsWith(before) && after.length > before.length + 100, `${after.length} of ${before.length}`);
  }
});

test("two tabs do not overwrite each other's messages, in one conversation or in two", async () => {
  const page = await ownDemo();
  await setSampling(page, { maxTokens: '8' });
  await say(page, 'Hello!');
  const tab = await page.context().newPage();
  await openDemo(tab, here.site.url);
  const before = await texts(page);
  assert.deepEqual(await texts(tab), before, 'the second begins with the same');
  await say(tab, 'Tell me a joke');
  const message = await texts(tab);
  await page.waitForFunction(
    (messageText) =>
      JSON.stringify([...document.querySelectorAll('[role=log] article .text')].map((one) => one.textContent)) ===
      JSON.stringify(messageText),
    message,
  );

  // Both at the same time: two branches of the same conversation.
  await Promise.all([say(page, 'Thank you'), say(tab, 'Good night')]);
  const stored = () =>
    page.evaluate(() =>
      Object.entries(localStorage)
        .filter(([key]) => key.startsWith('bq4.chat.'))
        .map(([, value]) => JSON.parse(value).entries.map((/** @type {any} */ one) => one.content)),
    );
  // Both tabs may have stored at the same time; then each stores again the message that the other has overwritten. Until then, a tab can
  // show the beginning of the other's message.
  const keepsAll = (/** @type {import('playwright-core').Page} */ one) =>
    one.waitForFunction((all) => {
      const [key] = Object.keys(localStorage).filter((key) => key.startsWith('bq4.chat.'));
      const kept = JSON.parse(localStorage[key]).entries.map((/** @type {any} */ one) => one.content);
      const shown = [...document.querySelectorAll('[role=log] article .text')].map((one) => one.textContent);
      return kept.length === all && shown.length > 4 && shown.every((text) => kept.includes(text));
    }, message.length + 4);
  await keepsAll(page);
  await keepsAll(tab);
  const local = await texts(page);
  assert.equal((await stored()).length, 1);
  // As written by a tab that has not read the last message.
  await tab.evaluate(() => {
    const [key, value] = Object.entries(localStorage).find(([key]) => key.startsWith('bq4.chat.')) ?? [];
    const { entries, ...rest } = JSON.parse(String(value));
    localStorage.setItem(String(key), JSON.stringify({ ...rest, entries: entries.slice(0, 2), leaf: entries[1].id }));
  });
  await keepsAll(tab);
  assert.deepEqual(await texts(page), local);

  await ui(tab).newChat.click();
  await tab.locator('[role=log] article').first().waitFor({ state: 'detached' });
  await say(tab, 'Tell me a story');
  await say(page, 'Hello again');
  const lists = await stored();
  assert.deepEqual(
    [lists.length, lists.flat().filter((text) => /^(Tell me a story|Hello again)$/.test(text)).length],
    [2, 2],
  );
  await page.reload();
  await ready(page);
  assert.ok((await texts(page)).includes('Hello again'), 'each tab stays with its own');
});

test('messages of another tab during an answer are shown after it', async () => {
  const page = await ownDemo();
  await setSampling(page, { maxTokens: '8' });
  await say(page, 'Hello!');
  const other = await page.context().newPage();
  await other.goto(new URL('icon.svg', page.url()).href);
  // As soon as the first words of an answer are stored, an earlier answer continues.
  await other.evaluate(() => {
    addEventListener('storage', ({ key, newValue }) => {
      if (!key?.startsWith('bq4.chat.')) return;
      const value = JSON.parse(String(newValue));
      if (value.entries.length < 4 || value.entries[1].content.endsWith(' And more.')) return;
      value.entries[1].content += ' And more.';
      localStorage.setItem(key, JSON.stringify(value));
    });
  });
  await setSampling(page, { maxTokens: '400', temperature: '2', topK: '0', minP: '0', topP: '1', seed: '3' });
  const last = await say(page, 'Tell me a story');
  await page.locator('[role=log] article .text', { hasText: / And more\.$/ }).waitFor();
  assert.equal((await texts(page)).at(-1), last, 'what came here is as it was');
});

test('stored data is not trusted, and is never inserted as markup', async () => {
  const strange = [
    { version: 2, entries: {} },
    { version: 2, entries: [null], leaf: 7 },
    { version: 99, entries: [{ id: 'a', parent: null, role: 'user', content: 'x' }], leaf: 'a' },
    { version: 2, entries: [{ id: 'a', parent: null, role: 'system', content: 'x' }], leaf: 'a' },
  ];
  const stored = ['{', '[]', ...strange.map((value) => JSON.stringify(value))];
  const fresh = await demo();
  const understood = await fresh.evaluate(async (stored) => {
    const path = '/demo/storage/local-storage.js';
    const { list, loadLooks, loadSettings } = await import(path);
    return stored.map((text) => {
      for (const key of ['bq4.chat.x', 'bq4.settings', 'bq4.looks', 'bq4.theme']) localStorage.setItem(key, text);
      return [
        list().flatMap(({ entries }) => entries).length,
        Object.keys(loadSettings()).length,
        loadLooks().plain ?? null,
      ];
    });
  }, stored);
  for (const [i, text] of stored.entries()) assert.deepEqual(understood[i], [0, 0, null], text);
  await fresh.reload();
  await ready(fresh);
  assert.deepEqual(await texts(fresh), []);
  await fresh.evaluate(() => localStorage.removeItem('bq4.theme'));
  page = await newPage(here.browser);
  const evil = '<img src=x onerror="document.title=1"><script>document.title=1</script>\n&amp; **bold**';
  await page.addInitScript(
    (content) =>
      localStorage.setItem(
        'bq4.chat.x',
        JSON.stringify({
          version: 2,
          leaf: 'b',
          title: content,
          entries: [
            { id: 'a', parent: null, role: 'user', content },
            { id: 'b', parent: 'a', role: 'assistant', content, note: content, reasoning: content },
          ],
        }),
      ),
    evil,
  );
  await openDemo(page, here.site.url);
  await page.locator('.formatted').waitFor();
  assert.deepEqual(await texts(page), [evil, evil.replace('**bold**', 'bold').replace('\n', '')]);
  assert.equal(await ui(page).log.locator('img, script').count(), 0);
});
