// Writing and sending messages in the demo: keys of a touch screen, the list of chats while the first reply is written, unsent edits,
// and what the page says when nothing can be exported or downloaded.
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { newPage, oneHost, openDemo, ready, setSampling, say, texts, ui } from './site.mjs';

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
  await setSampling(page, { temperature: '0', maxTokens: '8' });
}

const editor = () => page.getByRole('textbox', { name: 'Edit your message' });
const chatNames = () => page.locator('.chat-name').allTextContents();

/** Clicks elements one after another, before the page does anything else, and returns the names in the list of chats. @param {string[]} selectors */
const clickAtOnce = (selectors) =>
  page.evaluate((all) => {
    for (const one of all) /** @type {HTMLElement} */ (document.querySelector(one)).click();
    return Array.from(document.querySelectorAll('.chat-name'), ({ textContent }) => textContent);
  }, selectors);

test('on a touch screen Enter inserts a line break; the button and Ctrl+Enter send', async () => {
  await demo({ hasTouch: true, isMobile: true, viewport: { width: 390, height: 800 } });
  const { message, send } = ui(page);
  await message.fill('Hello!');
  await message.press('Enter');
  await message.pressSequentially('How are you?');
  assert.equal(await message.inputValue(), 'Hello!\nHow are you?');
  assert.deepEqual(await texts(page), []);
  assert.equal(await message.getAttribute('enterkeyhint'), 'enter');
  await send.click();
  await ready(page);
  assert.equal((await texts(page))[0], 'Hello!\nHow are you?');
  await message.fill('Bye');
  await message.press('Control+Enter');
  await ready(page);
  assert.equal((await texts(page))[2], 'Bye');
  await ui(page).messages.nth(2).getByRole('button', { name: 'Edit your message' }).click();
  await editor().press('End');
  await editor().press('Enter');
  assert.equal(await editor().inputValue(), 'Bye\n');
});

test('a chat is listed when its first message is sent, and not if that is stopped before the first word', async () => {
  await demo({ viewport: { width: 1400, height: 800 } });
  await page.locator('#chats').click();
  await page.locator('#chats-dialog[open]').waitFor();
  await ui(page).message.fill('Tell me a story');
  assert.deepEqual(await clickAtOnce(['#send']), ['Tell me a story']);
  await ready(page);
  await ui(page).newChat.click();
  await page.locator('[role=log] article').first().waitFor({ state: 'detached' });
  await ui(page).message.fill('Hello!');
  await clickAtOnce(['#send', '#stop']);
  await ready(page);
  await page.waitForFunction(() => document.querySelectorAll('.chat-name').length === 1);
  assert.deepEqual(await chatNames(), ['Tell me a story']);
  assert.equal(await ui(page).message.inputValue(), 'Hello!');
  const stored = await page.evaluate(() => Object.keys(localStorage).filter((key) => key.startsWith('bq4.chat.')));
  assert.equal(stored.length, 1);
  await clickAtOnce(['#send', '[aria-label="Delete Hello!"]']);
  await page.waitForFunction(() => document.querySelectorAll('.chat-name').length === 1);
  await ready(page);
  assert.deepEqual(await chatNames(), ['Tell me a story']);
});

test('a reload before the first word of another version shows the previous version', async () => {
  await demo();
  for (const [entry, draft] of /** @type {const} */ ([
    [{ id: 'c', parent: 'a', role: 'assistant', content: '', end: 'writing' }, ''],
    [{ id: 'c', parent: 'x', role: 'assistant', content: '', end: 'writing' }, 'Hi!'],
  ])) {
    await page.evaluate((blank) => {
      const entries = [
        { id: 'a', parent: null, role: 'user', content: 'Hello!' },
        { id: 'b', parent: 'a', role: 'assistant', content: 'Hello, how are you?' },
        { id: 'x', parent: null, role: 'user', content: 'Hi!' },
        blank,
      ].filter(({ id }) => id !== 'x' || blank.parent === 'x');
      localStorage.setItem('bq4.chat.y', JSON.stringify({ version: 2, entries, leaf: 'c' }));
      sessionStorage.setItem('bq4.open', 'y');
    }, entry);
    await page.reload();
    await ready(page);
    assert.deepEqual(await texts(page), ['Hello!', 'Hello, how are you?']);
    assert.equal(await ui(page).message.inputValue(), draft);
  }
});

test('a reload before the first word keeps the message although another one has been typed meanwhile', async () => {
  await demo();
  await page.evaluate(() => {
    const entries = [
      { id: 'a', parent: null, role: 'user', content: 'Hello!' },
      { id: 'b', parent: 'a', role: 'assistant', content: '', end: 'writing' },
    ];
    localStorage.setItem('bq4.chat.y', JSON.stringify({ version: 2, entries, leaf: 'b' }));
    localStorage.setItem('bq4.draft.y', 'And then?');
    sessionStorage.setItem('bq4.open', 'y');
  });
  await page.reload();
  await ready(page);
  assert.equal((await texts(page))[0], 'Hello!');
  assert.equal(await ui(page).message.inputValue(), 'And then?');
  await page.getByRole('button', { name: 'Regenerate the reply' }).click();
  await ready(page);
  assert.equal((await texts(page)).length, 2);
});

test('a turn that another tab has undone before the first word is not stored again', async () => {
  await demo();
  await page.evaluate(() => {
    /** @param {string[]} contents */
    const put = (...contents) => {
      const entries = contents.map((content, i) => ({
        id: `${i}`,
        parent: i ? `${i - 1}` : null,
        role: i % 2 ? 'assistant' : 'user',
        content,
        ...(!content && { end: 'writing' }),
      }));
      localStorage.setItem('bq4.chat.y', JSON.stringify({ version: 2, entries, leaf: `${contents.length - 1}` }));
    };
    Object.assign(globalThis, { put });
    put('Hello!', 'Hi.');
  });
  const other = await page.context().newPage();
  await openDemo(other, here.site.url);
  assert.deepEqual(await texts(other), ['Hello!', 'Hi.']);
  const shows = (/** @type {number} */ n) =>
    other.waitForFunction((n) => document.querySelectorAll('[role=log] article').length === n, n);
  await page.evaluate("put('Hello!', 'Hi.', 'Bye', '')");
  await shows(4);
  await page.evaluate("put('Hello!', 'Hi.')");
  await shows(2);
  assert.doesNotMatch(String(await page.evaluate(() => localStorage.getItem('bq4.chat.y'))), /Bye/);
});

test('without chats the export is disabled', async () => {
  await demo();
  await page.locator('#chats').click();
  const exportAll = page.getByRole('button', { name: 'Export all' });
  assert.ok(await exportAll.isDisabled());
  await page.getByRole('button', { name: 'Close' }).first().click();
  await say(page, 'Hello!');
  await page.locator('#chats').click();
  assert.ok(await exportAll.isEnabled());
});

test('an edit that was not sent is kept: after a reload, and in its chat', async () => {
  await demo();
  await say(page, 'Hello!');
  await ui(page).message.press('ArrowUp');
  await editor().fill('Who are you?');
  await page.reload();
  await ready(page);
  await editor().waitFor();
  assert.equal(await editor().inputValue(), 'Who are you?');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'message');
  await editor().fill('Who am I?');
  await ui(page).newChat.click();
  await editor().waitFor({ state: 'detached' });
  await page.locator('.chat-name', { hasText: 'Hello!' }).click();
  await editor().waitFor();
  assert.equal(await editor().inputValue(), 'Who am I?');
  await clickAtOnce(['[aria-label="Delete Hello!"]']);
  await editor().waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Undo: Deleted “Hello!”.' }).click();
  await editor().waitFor();
  assert.equal(await editor().inputValue(), 'Who am I?');
  await editor().press('Escape');
  await page.reload();
  await ready(page);
  assert.deepEqual((await texts(page))[0], 'Hello!');
  assert.equal(await editor().count(), 0);
});

test('the status reports that a model could not be found offline', async () => {
  await demo();
  await page.context().route('https://huggingface.co/**', (route) => route.abort());
  await page.getByRole('button', { name: 'Download Gemma 3 270M' }).click();
  await ui(page).alert.waitFor();
  assert.equal(await ui(page).status.textContent(), 'Gemma 3 270M was not loaded. Still using Tiny.');
  page.trouble = page.trouble.filter((text) => !text.includes('huggingface.co'));
});

test('the field of an edit grows with its text', async () => {
  await demo();
  await say(page, 'Hello!');
  await ui(page).message.press('ArrowUp');
  const heightOf = async () => (await editor().boundingBox())?.height ?? 0;
  await editor().fill('Hello!');
  const oneLine = await heightOf();
  await editor().fill('one\ntwo\nthree\nfour');
  assert.ok((await heightOf()) > 1.5 * oneLine, `${await heightOf()} pixels`);
  assert.equal(
    await editor().evaluate((field) => field.scrollHeight > field.clientHeight),
    false,
    'all lines are visible',
  );
});

test('the menu of a chat is closed by a click outside and by Escape, and another chat is listed meanwhile', async () => {
  await demo({ viewport: { width: 1400, height: 800 } });
  await say(page, 'Hello!');
  await page.locator('#chats').click();
  const menuButton = page.locator('.chat').first().locator('summary');
  const isOpen = () => page.locator('.chat-tools[open]').count();
  await menuButton.click();
  assert.equal(await isOpen(), 1);
  await page.keyboard.press('Escape');
  assert.equal(await isOpen(), 0);
  assert.equal(await page.locator('#chats-dialog').isVisible(), true);
  assert.equal(await menuButton.evaluate((button) => button === document.activeElement), true);
  await menuButton.click();
  await ui(page).log.click();
  assert.equal(await isOpen(), 0);
  await menuButton.click();
  await ui(page).newChat.click();
  await page.locator('[role=log] article').first().waitFor({ state: 'detached' });
  await say(page, 'Tell me a joke');
  assert.deepEqual(await chatNames(), ['Tell me a joke', 'Hello!']);
});

test('a chat is renamed: all buttons are inside the list, Cancel changes nothing, the focus goes to the chat', async () => {
  await demo({ viewport: { width: 1400, height: 800 } });
  await say(page, 'Hello!');
  await ui(page).newChat.click();
  await page.locator('[role=log] article').first().waitFor({ state: 'detached' });
  await say(page, 'Tell me a joke');
  const list = page.locator('#chats-dialog');
  const field = page.getByRole('textbox', { name: 'Name of the conversation' });
  const rename = async () => {
    await page.locator('.chat').nth(1).hover();
    await page.locator('.chat').nth(1).locator('summary').click();
    await page.getByRole('button', { name: 'Rename Hello!' }).click();
    await field.waitFor();
  };
  const focused = () => page.evaluate(() => document.activeElement?.textContent);
  for (const width of [1400, 390]) {
    // If the window becomes too narrow for a sidebar, the list is closed.
    await page.setViewportSize({ width, height: 800 });
    await list.waitFor({ state: 'hidden' });
    await page.locator('#chats').click();
    await rename();
    const outside = await list.evaluate((list) =>
      [...list.querySelectorAll('.chat form :is(input, button)')]
        .filter((one) => one.getBoundingClientRect().right > list.getBoundingClientRect().right - 8)
        .map((one) => one.textContent),
    );
    assert.deepEqual(outside, [], `${width} pixels`);
    await field.fill('Something else');
    await page.locator('.chat').getByRole('button', { name: 'Cancel' }).click();
    assert.deepEqual(await chatNames(), ['Tell me a joke', 'Hello!']);
    assert.equal(await focused(), 'Hello!');
  }
  await rename();
  await field.fill('A greeting');
  await field.press('Enter');
  assert.deepEqual(await chatNames(), ['Tell me a joke', 'A greeting']);
  assert.equal(await focused(), 'A greeting');
  // What Undo does is announced.
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Delete A greeting' }).click();
  await page.getByRole('button', { name: /^Undo/ }).click();
  await page.locator('#status', { hasText: 'Restored.' }).waitFor({ state: 'attached' });
  assert.deepEqual(await chatNames(), ['Tell me a joke', 'A greeting']);
});

test('on a phone a tapped button does not stay highlighted, and Close stays in view in a scrolled dialog', async () => {
  await demo({ hasTouch: true, isMobile: true, viewport: { width: 390, height: 700 } });
  const details = page.getByRole('button', { name: 'Details' });
  const background = () => details.evaluate((button) => getComputedStyle(button).backgroundColor);
  const before = await background();
  await details.tap();
  await details.tap();
  assert.equal(await background(), before);
  await page.getByRole('button', { name: 'Settings' }).tap();
  const dialog = page.getByRole('dialog', { name: 'Settings' });
  await dialog.evaluate((element) => (element.scrollTop = element.scrollHeight));
  assert.ok(await dialog.evaluate((element) => element.scrollTop > 0));
  await dialog.getByRole('button', { name: 'Close' }).tap({ timeout: 5000 });
  await dialog.waitFor({ state: 'hidden' });
  await page.getByRole('button', { name: 'Settings' }).tap();
  await dialog.evaluate((element) => (element.scrollTop = element.scrollHeight));
  const [close, window] = [
    await dialog.getByRole('button', { name: 'Close' }).boundingBox(),
    await dialog.boundingBox(),
  ];
  assert.ok(close && window && close.y >= window.y, `${close?.y} in ${window?.y}`);
});

test('on a phone sending, a new chat and a suggested message do not leave the keyboard open', async () => {
  await demo({ hasTouch: true, isMobile: true, viewport: { width: 390, height: 700 } });
  const focused = () => page.evaluate(() => document.activeElement?.id);
  await ui(page).message.tap();
  assert.equal(await focused(), 'message');
  await ui(page).message.fill('Hello!');
  await ui(page).send.tap();
  await ready(page);
  assert.notEqual(await focused(), 'message');
  await ui(page).newChat.tap();
  await page.locator('[role=log] article').first().waitFor({ state: 'detached' });
  assert.notEqual(await focused(), 'message');
  await page.getByRole('button', { name: 'Tell me a joke' }).tap();
  await ready(page);
  assert.equal((await texts(page)).length, 2);
  assert.notEqual(await focused(), 'message');
});

test('the search page disables functions that need texts or a model until they exist', async () => {
  page = await newPage(here.browser);
  await page.goto(new URL('search.html', new URL('demo/', here.site.url)).href);
  await page.locator('#status', { hasText: 'to begin' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Remove all texts' }).count(), 0);
  const colorOf = (/** @type {string} */ selector) =>
    page.locator(selector).evaluate((element) => getComputedStyle(element).color);
  assert.notEqual(await colorOf('.file:has(#files)'), await colorOf('.file:has(#model)'), 'as disabled buttons are');
});
