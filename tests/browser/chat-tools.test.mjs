// Functions for messages and chats of the demo: deleting, rating, reading aloud, saved prompts, links; and shortcuts.
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { waitUntilOffline, newPage, oneHost, openDemo, ready, setSampling, say, texts, ui } from './site.mjs';

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

/** Opens the menu of a message and presses a button in it. @param {number} at @param {string} name */
async function press(at, name) {
  // A tab in the background draws one frame per second, and each press waits for some frames.
  await page.bringToFront();
  const message = ui(page).messages.nth(at);
  await message.hover();
  if (
    !(await message
      .locator('.message-menu')
      .getAttribute('open')
      .then((open) => open !== null))
  )
    await message.getByLabel(/^More for/).click();
  await message.getByRole('button', { name }).click();
}

test('a message is deleted with its answer, later messages stay, and Undo restores it', async () => {
  await demo();
  const first = await say(page, 'Hello');
  const second = await say(page, 'Tell me a story');
  assert.deepEqual(await texts(page), ['Hello', first, 'Tell me a story', second]);
  await press(0, 'Delete this message and its reply');
  assert.deepEqual(await texts(page), ['Tell me a story', second]);
  await page.getByRole('button', { name: 'Undo' }).click();
  assert.deepEqual(await texts(page), ['Hello', first, 'Tell me a story', second]);
  await press(3, 'Delete this reply');
  assert.deepEqual(await texts(page), ['Hello', first]);
  await page.reload();
  await ready(page);
  assert.deepEqual(await texts(page), ['Hello', first]);
  await press(1, 'Delete this reply');
  assert.deepEqual(await texts(page), []);
  assert.ok(await page.locator('#intro').isVisible());
  await page.reload();
  await ready(page);
  assert.deepEqual(await texts(page), [], 'the last one stays away, too');
});

test('deleting one of two versions of an answer shows the other', async () => {
  await demo();
  await setSampling(page, { temperature: '1', seed: '1' });
  const first = await say(page, 'Hello');
  await setSampling(page, { seed: '2' });
  await ui(page).messages.last().hover();
  await ui(page).regenerate.click();
  await page.getByRole('log').getByText('Version 2 of 2', { exact: true }).waitFor();
  await ready(page);
  await press(1, 'Delete this reply');
  assert.deepEqual(await texts(page), ['Hello', first]);
  assert.equal(await page.getByRole('log').getByText('Version 2 of 2', { exact: true }).count(), 0);
});

test('a menu is closed by a click outside, by Escape with the focus on its button, and by another menu', async () => {
  await demo({ viewport: { width: 1400, height: 800 } });
  await say(page, 'Hello');
  const menuOf = (/** @type {number} */ at) => ui(page).messages.nth(at).locator('.message-menu');
  const button = (/** @type {number} */ at) => menuOf(at).locator('summary');
  const open = async (/** @type {number} */ at) => {
    await ui(page).messages.nth(at).hover();
    await button(at).click();
    await menuOf(at)
      .getByRole('button', { name: /^Delete/ })
      .waitFor();
  };
  const opened = () => page.locator('details[open] > .menu').count();
  await open(1);
  await ui(page).log.click({ position: { x: 9, y: 400 } });
  assert.equal(await opened(), 0, 'a click outside');
  await open(1);
  await page.keyboard.press('Escape');
  assert.equal(await opened(), 0, 'Escape');
  assert.equal(await button(1).evaluate((summary) => summary === document.activeElement), true);
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Escape');
  assert.equal(await opened(), 0, 'Escape on a button of the menu');
  assert.equal(await button(1).evaluate((summary) => summary === document.activeElement), true);
  await open(1);
  await open(0);
  assert.equal(await opened(), 1, 'another message');
  await page.locator('#chats').click();
  await page.locator('.chat').hover();
  await page.locator('.chat summary').click();
  assert.equal(await opened(), 1, 'a chat');
  await open(1);
  assert.equal(await page.locator('.chat-tools[open]').count(), 0);
  // A click in the menu does not close it.
  await menuOf(1).getByRole('button', { name: 'Mark as a bad reply' }).click();
  assert.equal(await opened(), 1);
  // The user types elsewhere: the focus stays there.
  await ui(page).message.focus();
  await page.keyboard.press('Escape');
  assert.equal(await opened(), 0);
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'message');

  // In the drawer, Escape closes first the menu, then the drawer.
  await page.setViewportSize({ width: 700, height: 800 });
  await page.locator('#chats').click();
  await page.locator('.chat').hover();
  await page.locator('.chat summary').click();
  assert.equal(await opened(), 1);
  await page.keyboard.press('Escape');
  assert.equal(await opened(), 0);
  assert.ok(await page.locator('#chats-dialog').isVisible());
  await page.keyboard.press('Escape');
  await page.locator('#chats-dialog').waitFor({ state: 'hidden' });

  // The list of models is a dialog with the same behaviour.
  await ui(page).models.click();
  await page.locator('#models').waitFor();
  await page.mouse.click(5, 400);
  await page.locator('#models').waitFor({ state: 'hidden' });
  await ui(page).models.click();
  await page.locator('#models').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('#models').waitFor({ state: 'hidden' });
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'model-name');
});

test('a rating of an answer is stored on the device', async () => {
  await demo();
  await say(page, 'Hello');
  await press(1, 'Mark as a bad reply, on this device only');
  await page.reload();
  await ready(page);
  const menu = ui(page).messages.nth(1);
  await menu.hover();
  await menu.getByLabel(/^More for/).click();
  const rate = menu.getByRole('button', { name: 'Mark as a bad reply' });
  assert.equal(await rate.getAttribute('aria-pressed'), 'true');
  await rate.click();
  assert.equal(await rate.getAttribute('aria-pressed'), 'false');
});

test('text to read aloud: sentences without code and marks', async () => {
  await demo();
  const pieces = await page.evaluate(async () => {
    const { spokenPieces } = await import(/** @type {any} */ ('/demo/chat/message-menu.js'));
    return spokenPieces(
      `# Title\n\nA **bold** word, [a link](https://x.example/y) and \`code\`. ${'One more sentence. '.repeat(20)}\n\n- an item\n\n\`\`\`js\nlet x = 1;\n\`\`\`\n\nThe end`,
    );
  });
  assert.equal(pieces[0].startsWith('Title A bold word, a link and code. One more sentence.'), true, pieces[0]);
  assert.ok(
    pieces.every((/** @type {string} */ piece) => piece.length <= 210),
    String(pieces),
  );
  assert.ok(!pieces.join(' ').includes('let x'));
  assert.ok(pieces.at(-1).endsWith('The end'), pieces.at(-1));
  // Another chat: nothing on the page could stop the speech.
  await say(page, 'Hello');
  await page.evaluate(() => {
    Object.assign(globalThis, { canceled: 0 });
    speechSynthesis.cancel = () => void (/** @type {any} */ (globalThis).canceled++);
  });
  await ui(page).newChat.click();
  await page.waitForFunction(() => /** @type {any} */ (globalThis).canceled > 0);
});

test('a chat as a link: the page that opens it has the same messages, and no request contains them', async () => {
  await demo({ permissions: ['clipboard-read', 'clipboard-write'] });
  const reply = await say(page, 'Hello “wörld” 👋');
  await page.getByRole('button', { name: 'Chats' }).first().click();
  const row = page.locator('.chat').first();
  await row.hover();
  await row.locator('summary').click();
  await row.getByRole('button', { name: /^Copy a link/ }).click();
  await row.getByText('Copied ✓').waitFor();
  const link = await page.evaluate(() => navigator.clipboard.readText());
  await page.context().close();
  page = await newPage(here.browser);
  /** @type {string[]} */
  const requests = [];
  page.on('request', (request) => requests.push(request.url()));
  await page.goto(link);
  await ready(page);
  assert.deepEqual(await texts(page), ['Hello “wörld” 👋', reply]);
  assert.ok(
    requests.every((url) => !url.includes('chat=')),
    requests.join('\n'),
  );
  assert.ok(!page.url().includes('#chat='));
  await page.reload();
  await ready(page);
  assert.deepEqual(await texts(page), ['Hello “wörld” 👋', reply]);
  await page.evaluate((hash) => (location.hash = hash), new URL(link).hash);
  await page.locator('#notices').getByText('This chat is already stored').waitFor();
  assert.equal(await page.evaluate(() => Object.keys(localStorage).filter((key) => /^bq4\.chat/.test(key)).length), 1);
  assert.deepEqual(await texts(page), ['Hello “wörld” 👋', reply]);
  for (const [i, broken] of [link.slice(0, -9), `${here.site.url}#chat=`, `${here.site.url}#chat=%00`].entries()) {
    await page.evaluate((hash) => (location.hash = hash), new URL(broken).hash);
    await page.getByRole('alert').filter({ hasText: 'the link contains no readable chat' }).waitFor({ timeout: 30000 });
    await page.getByRole('button', { name: 'Dismiss this message' }).first().click();
    assert.equal((await texts(page)).length, 2, String(i));
  }
  await say(page, 'Hello');
});

test('? lists the shortcuts; / inserts a prompt, of the page or of the user', async () => {
  await demo();
  await page.getByRole('log').focus();
  await page.keyboard.press('?');
  const shortcuts = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  await shortcuts.waitFor();
  await page.keyboard.press('Escape');
  await shortcuts.waitFor({ state: 'hidden' });

  const { message } = ui(page);
  await message.pressSequentially('/');
  const prompts = page.getByRole('list', { name: 'Prompts' });
  await prompts.waitFor();
  await message.pressSequentially('sto');
  assert.equal(await prompts.getByRole('listitem').count(), 1);
  await page.keyboard.press('Enter');
  assert.equal(await message.inputValue(), 'Tell me a short story about ');
  assert.ok(!(await prompts.isVisible()));
  await message.pressSequentially('rain');
  await page.keyboard.press('Enter');
  await ready(page);
  await press(0, 'Save this message as a prompt: type / to insert it');
  await page.getByText('Saved as a prompt: type / in an empty message to insert it.').waitFor();
  await message.fill('');
  await message.pressSequentially('/tell');
  assert.equal(
    await prompts.getByRole('listitem').first().locator('b').textContent(),
    'Tell me a short story about rain',
  );
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Tab');
  assert.equal(await message.inputValue(), 'Tell me a short story about rain');
  await message.fill('/tell');
  await prompts.getByRole('button', { name: /^Remove the prompt/ }).click();
  await prompts.waitFor({ state: 'hidden' });
  await page.evaluate(() => {
    Storage.prototype.setItem = () => {
      throw new DOMException('full', 'QuotaExceededError');
    };
  });
  await press(0, 'Save this message as a prompt: type / to insert it');
  await page.getByText('The prompt could not be saved').waitFor();
  // A path is no prompt: Enter sends it.
  await message.fill('/usr/bin');
  await page.keyboard.press('Enter');
  await ready(page);
  assert.equal((await texts(page)).at(-2), '/usr/bin');
});

test('Ctrl+Shift+O begins a chat, Ctrl+K searches the chats; both are in the list of shortcuts', async () => {
  await demo();
  await say(page, 'Hello');
  const { message } = ui(page);
  await message.press('Control+Shift+O');
  await ui(page).messages.first().waitFor({ state: 'detached' });
  await page.locator('#message:focus').waitFor();
  // In a dialog, which it closes; on a Mac with the other key.
  await page.locator('#settings-open').click();
  await page.locator('#settings').waitFor();
  await page.keyboard.press('Meta+Shift+O');
  await page.locator('#settings').waitFor({ state: 'hidden' });
  await page.locator('#message:focus').waitFor();
  await message.fill('keys of an editor stay');
  await message.press('Control+Alt+Shift+O');
  assert.equal(await message.inputValue(), 'keys of an editor stay');

  const search = page.getByRole('searchbox', { name: 'Search chats' });
  for (const width of [1280, 700]) {
    await page.setViewportSize({ width, height: 900 });
    await page.keyboard.press('Control+k');
    await search.and(page.locator(':focus')).waitFor();
    // A second press does not close the list.
    await page.keyboard.press('Control+k');
    await search.and(page.locator(':focus')).waitFor();
    await page.locator('#chats-dialog').getByRole('button', { name: 'Close' }).click();
  }
  await page.locator('#settings-open').click();
  await page.getByRole('button', { name: 'Keyboard shortcuts' }).click();
  const shortcuts = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  for (const keys of ['Ctrl + Shift + O', 'Ctrl + K']) await shortcuts.getByText(keys, { exact: true }).waitFor();
});

test('on a touch screen the list of shortcuts is not offered', async () => {
  await demo({ hasTouch: true, isMobile: true, viewport: { width: 390, height: 844 } });
  await page.locator('#settings-open').click();
  await page.getByLabel('Text size').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Keyboard shortcuts' }).count(), 0);
});

test('all chats are deleted after a confirmation, with their unsent messages; Undo restores them', async () => {
  await demo();
  const first = await say(page, 'Hello');
  await ui(page).message.fill('unsent');
  await ui(page).newChat.click();
  await ui(page).messages.first().waitFor({ state: 'detached' });
  await say(page, 'Tell me a story');
  await page.locator('#chats').click();
  await page.locator('.chat').nth(1).waitFor();
  const kept = () => page.evaluate(() => Object.keys(localStorage).filter((key) => /^bq4\.(chat|draft)\./.test(key)));
  const stored = await kept();
  assert.equal(stored.length, 3);
  const ask = async () => {
    await page.locator('#settings-open').click();
    await page.getByRole('button', { name: 'Delete all chats…' }).click();
  };
  const dialog = page.getByRole('dialog', { name: 'Delete all chats?' });
  await ask();
  await dialog.getByText(/^2 chats will be deleted/).waitFor();
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'detached' });
  assert.equal((await kept()).length, 3, 'Cancel has the focus');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'delete-chats');
  await page.keyboard.press('Escape');

  await ask();
  await dialog.getByRole('button', { name: 'Delete all chats' }).click();
  await page.getByText('Deleted 2 chats.').last().waitFor();
  assert.deepEqual(await kept(), []);
  assert.deepEqual(await texts(page), []);
  assert.equal(await page.locator('.chat').count(), 0);
  await page.locator('#message:focus').waitFor();
  // The notice stays while a new chat is written.
  await say(page, 'Good night!');
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.locator('.chat').nth(2).waitFor();
  assert.deepEqual((await kept()).filter((key) => stored.includes(key)).sort(), stored.sort());
  assert.equal((await texts(page))[0], 'Good night!', 'the chat in use stays');
  await page.locator('.chat').filter({ hasText: 'Hello' }).locator('.chat-name').click();
  await page.getByRole('log').getByText(first).waitFor();
  assert.equal(await ui(page).message.inputValue(), 'unsent');

  // Undo shows the chat again that was shown, unless another one has begun.
  await ask();
  await dialog.getByRole('button', { name: 'Delete all chats' }).click();
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByRole('log').getByText(first).waitFor();
  await ui(page).newChat.click();
  await page.evaluate(() => {
    for (const key of Object.keys(localStorage)) if (key.startsWith('bq4.chat.')) localStorage.removeItem(key);
  });
  await ask();
  await page.getByRole('dialog', { name: 'There are no chats to delete.' }).waitFor();
});

test('formulas are rendered and code is highlighted on demand; invalid formulas stay text', async () => {
  await demo();
  const text = [
    'Energy: $E = mc^2$, but $5 and $10 are prices.',
    '$$\\frac{a}{b} = \\sqrt{2}$$',
    '$\\frac{a$ is broken, $\\href{javascript:alert(1)}{x}$ is no link.',
    '```js\nconst answer = "<b>42</b>"; // why\n```',
    '```nonsense\nplain $x$\n```',
  ].join('\n\n');
  await page.evaluate((content) => {
    const entry = (
      /** @type {any} */ id,
      /** @type {any} */ parent,
      /** @type {string} */ role,
      /** @type {string} */ content,
    ) => ({
      id,
      parent,
      role,
      content,
      note: '',
    });
    const entries = [entry('a', null, 'user', 'Show me'), entry('b', 'a', 'assistant', content)];
    const chat = { version: 2, id: 'drawn', title: 'Drawn', at: 1, entries, leaf: 'b' };
    localStorage.setItem('bq4.chat.drawn', JSON.stringify(chat));
    sessionStorage.setItem('bq4.open', 'drawn');
  }, text);
  await page.reload();
  await page.locator('.formula math').nth(1).waitFor();
  await page.locator('.code-block .code-string').waitFor();
  assert.equal(await page.locator('.formula math').count(), 2);
  assert.equal(await page.locator('.formula math mfrac').count(), 1);
  assert.ok((await texts(page))[1].includes('$5 and $10 are prices'));
  assert.ok((await texts(page))[1].includes('$\\frac{a$ is broken'));
  assert.equal(await page.locator('.formula a').count(), 0);
  const code = page.locator('.code-block code');
  assert.equal(await code.first().textContent(), 'const answer = "<b>42</b>"; // why');
  assert.equal(await code.first().locator('b').count(), 0);
  assert.equal(await code.first().locator('.code-keyword').textContent(), 'const');
  assert.equal(await code.last().locator('span').count(), 0);
});

test('the page lists every request of itself and its workers; an answer sends none', async () => {
  page = await newPage(here.browser, { serviceWorkers: 'allow' });
  /** @type {string[]} */
  const seen = [];
  page.context().on('request', (request) => request.serviceWorker() || seen.push(request.url()));
  await openDemo(page, here.site.url);
  await ui(page).details.click();
  await page.locator('#requests summary').click();
  const rows = page.locator('#requests tbody tr');
  const listed = () =>
    rows.locator('td:first-child').evaluateAll((cells) => cells.map((cell) => cell.getAttribute('title')));
  await rows.first().waitFor();
  assert.ok(
    (await listed()).some((url) => url?.includes('/models/chat.bq4')),
    'of the worker, too',
  );
  await say(page, 'Hello');
  // The page is cached when its model is loaded, and at last the root of the site.
  const root = page.context().waitForEvent('request', (request) => request.url().endsWith('/root.js'));
  if (!seen.some((url) => url.endsWith('/root.js'))) await root;
  root.catch(() => {});
  await waitUntilOffline(page);
  const before = seen.length;
  await say(page, 'Tell me a story');
  assert.equal(seen.length, before, seen.slice(before).join());
  await page.locator('#requests summary').click();
  await page.locator('#requests summary').click();
  await page.waitForFunction(
    (urls) => {
      const all = [...document.querySelectorAll('#requests td:first-child')].map((cell) => cell.getAttribute('title'));
      return urls.every((url) => all.includes(url));
    },
    // The first one leads to the page.
    [...new Set(seen)].filter((url) => /^http/.test(url) && new URL(url).pathname !== '/'),
  );
  assert.match(
    (await page.locator('.request-summary').textContent()) ?? '',
    /^\d+ requests: \d+ to this site, 0 to others\.$/,
  );
});

test('without keyboard focus, the list of chats does not take it', async () => {
  await demo({ hasTouch: true, isMobile: true, viewport: { width: 1400, height: 800 } });
  await say(page, 'Hello');
  await page.reload();
  await ready(page);
  await page.locator('#chats-dialog[open]').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement === document.body), true);
  // If the window becomes too narrow, the list is hidden, and shown again later.
  const list = page.locator('#chats-dialog');
  // All buttons of a chat are inside the list, and truncated titles have a tooltip.
  await list.locator('.chat summary').click();
  const outside = await list.evaluate((list) =>
    [...list.querySelectorAll('.chat .menu button')]
      .filter((one) => one.getBoundingClientRect().right > list.getBoundingClientRect().right - 8)
      .map((one) => one.textContent),
  );
  assert.deepEqual(outside, []);
  assert.equal(await list.locator('.chat-name').getAttribute('title'), 'Hello');
  await page.setViewportSize({ width: 600, height: 800 });
  await list.waitFor({ state: 'hidden' });
  await page.setViewportSize({ width: 1400, height: 800 });
  await list.waitFor();
  // The search page has no such list, and no space for one.
  await page.goto(`${here.site.url}demo/search.html`);
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).paddingInlineStart), '0px');
});

test('an import leaves Undo of a deleted chat in the list', async () => {
  await demo();
  await say(page, 'Hello');
  await ui(page).newChat.click();
  await say(page, 'Good morning');
  await page.getByRole('button', { name: 'Chats', exact: true }).click();
  const list = page.locator('#chats-dialog');
  await list.locator('.chat', { hasText: 'Hello' }).hover();
  await list.getByLabel('Rename, share, export or delete Hello').click();
  await list.getByRole('button', { name: 'Delete Hello' }).click();
  await list.locator('[type=file]').setInputFiles(
    ['One', 'Two'].map((name) => ({
      name: `${name}.md`,
      mimeType: 'text/markdown',
      buffer: Buffer.from(`## You\n\n${name}\n\n## Model\n\nYes.\n`),
    })),
  );
  await list.getByText('2 chats imported.').waitFor();
  const wrong = { name: 'wrong.json', mimeType: 'application/json', buffer: Buffer.from('{}') };
  await list.locator('[type=file]').setInputFiles(wrong);
  await page.getByRole('alert').filter({ hasText: "“wrong.json” isn't an exported chat" }).waitFor();
  assert.equal(await list.getByText('2 chats imported.').count(), 0, 'the note about the import before');
  await list.getByRole('button', { name: 'Undo: Deleted “Hello”.' }).click();
  await list.locator('.chat', { hasText: 'Hello' }).waitFor();
  assert.equal(await list.locator('.chat').count(), 4);
  await list.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('button', { name: 'Chats', exact: true }).click();

  // In a sidebar, which stays open, the next message removes the note, as above the message field.
  await list.locator('.chat', { hasText: 'One' }).hover();
  await list.getByLabel('Rename, share, export or delete One').click();
  await list.getByRole('button', { name: 'Delete One' }).click();
  const undo = list.getByRole('button', { name: 'Undo: Deleted “One”.' });
  await undo.waitFor();
  await say(page, 'Hello');
  assert.ok(await list.isVisible());
  assert.equal(await undo.count(), 0);
});

test('a menu is completely visible once it is opened: of a chat at the end of the list, of the last reply', async () => {
  page = await newPage(here.browser, { viewport: { width: 320, height: 600 } });
  await page.addInitScript(() => {
    for (let i = 0; i < 30; i++) {
      const entries = [
        { id: 'a', parent: null, role: 'user', content: `Question ${i}` },
        { id: 'b', parent: 'a', role: 'assistant', content: 'A line\n\n'.repeat(20) },
      ];
      localStorage.setItem(`bq4.chat.${i}`, JSON.stringify({ version: 2, entries, leaf: 'b', at: 1e12 - i }));
    }
    sessionStorage.setItem('bq4.open', '0');
  });
  await openDemo(page, here.site.url);
  /** Waits until an element is inside the visible part of the list that contains it. @param {import('playwright-core').Locator} inner @param {string} list */
  const isInside = async (inner, list) =>
    page.waitForFunction(
      ({ inner, list }) =>
        Number(inner?.getBoundingClientRect().bottom) <=
        1 + Number(inner?.closest(list)?.getBoundingClientRect().bottom),
      { inner: await inner.elementHandle(), list },
    );
  for (const _ of ['filled', 'opened again']) {
    const more = page.getByLabel('More for the reply');
    await more.click();
    await isInside(page.getByRole('button', { name: 'Delete this reply' }), '#log');
    await more.click();
  }
  await page.getByRole('button', { name: 'Chats', exact: true }).click();
  const rows = page.locator('#chats-dialog .chat');
  await rows.first().waitFor();
  const lastVisible = await rows.evaluateAll((rows) => {
    const bottom = Number(rows[0].closest('ul')?.getBoundingClientRect().bottom);
    return rows.findLastIndex((row) => row.getBoundingClientRect().bottom <= bottom);
  });
  const row = rows.nth(lastVisible);
  await row.hover();
  await row.locator('summary').click();
  await isInside(row.getByRole('button', { name: /^Delete/ }), 'ul');
});

test('addresses of requests are shown completely with their sizes and times; shortcuts take one line each', async () => {
  await demo();
  await page.getByRole('button', { name: 'Details' }).click();
  await page.getByRole('heading', { name: 'Network requests' }).click();
  const table = page.getByRole('region', { name: 'Requests', exact: true });
  await table.getByRole('cell').first().waitFor();
  assert.ok(await table.evaluate((place) => place.scrollWidth <= place.clientWidth), 'nothing lies beside it');
  await page.evaluate(() => /** @type {HTMLElement} */ (document.activeElement).blur());
  await page.keyboard.press('?');
  await page.locator('.shortcuts[open]').waitFor();
  const heights = await page.locator('.shortcuts dl > div').evaluateAll((rows) => rows.map((row) => row.clientHeight));
  assert.equal(new Set(heights).size, 1, heights.join(' '));
});

test('a dialog is closed by a press outside, and not by one on its edge or one that began inside', async () => {
  await demo();
  await ui(page).models.click();
  const dialog = page.locator('#models');
  await dialog.waitFor();
  const box = /** @type {{ x: number, y: number, width: number, height: number }} */ (await dialog.boundingBox());
  const [inside, edge, beside] = [box.x + 200, box.x + 4, box.x - 40];
  const y = box.y + box.height / 2;
  await page.mouse.click(edge, y);
  await page.locator('#link').fill('owner/name');
  const input = /** @type {typeof box} */ (await page.locator('#link').boundingBox());
  await page.mouse.move(inside, input.y + input.height / 2);
  await page.mouse.down();
  await page.mouse.move(beside, input.y + input.height / 2);
  await page.mouse.up();
  assert.equal(await dialog.getAttribute('open'), '');
  await page.mouse.click(beside, y);
  await dialog.waitFor({ state: 'hidden' });
});

test('the path of a file on the computer is not searched on Hugging Face', async () => {
  await demo();
  await ui(page).models.click();
  for (const path of ['C:\\Users\\me\\model.gguf', '/home/me/model.gguf', '~/model.gguf', 'file:///model.gguf']) {
    await page.locator('#link').fill('');
    await page.locator('#hub').evaluate((list) => list.replaceChildren());
    await page.locator('#link').fill(path);
    await page.getByRole('button', { name: 'Find', exact: true }).click();
    await page.locator('#hub', { hasText: /this is the path of a file on your computer: press/i }).waitFor();
  }
});

test('the list of models does not move a button that is about to be pressed after it is read', async () => {
  await demo();
  const moves = await page.evaluate(async () => {
    const button = /** @type {HTMLElement} */ (document.querySelector('#from-link button'));
    const places = new Set();
    /** @type {HTMLElement} */ (document.querySelector('#model-name')).click();
    for (let frame = 0; frame < 2000 && !document.querySelector('#stored-note')?.textContent; frame++)
      await new Promise((resolve) => {
        requestAnimationFrame(resolve);
        const { top } = button.getBoundingClientRect();
        if (top) places.add(top);
      });
    await new Promise(requestAnimationFrame);
    places.add(button.getBoundingClientRect().top);
    return [...places];
  });
  assert.equal(moves.length, 1, moves.join(' '));
});

test('two tabs: a message deleted in one disappears in the other, permanently, also while the other writes; Undo restores it in both', async () => {
  await demo();
  const first = await say(page, 'Hello');
  await say(page, 'Tell me a story');
  const tab = await page.context().newPage();
  await openDemo(tab, here.site.url);
  const both = await texts(tab);
  assert.equal(both.length, 4);
  const shows = (/** @type {import('playwright-core').Page} */ one, /** @type {string[]} */ expected) =>
    one.waitForFunction(
      (expected) =>
        JSON.stringify([...document.querySelectorAll('[role=log] article .text')].map((text) => text.textContent)) ===
        expected,
      JSON.stringify(expected),
    );
  await press(0, 'Delete this message and its reply');
  await shows(tab, both.slice(2));
  await page.getByRole('button', { name: 'Undo' }).click();
  await shows(tab, both);
  // A tab that has not read a deletion may write its messages: localStorage reaches other tabs later.
  const stored = () =>
    page.evaluate(
      () => /** @type {[string, string]} */ (Object.entries(localStorage).find(([, value]) => value.includes('Hello'))),
    );
  const overwrite = (/** @type {[string, string]} */ entry) =>
    tab.evaluate(([key, value]) => localStorage.setItem(key, value), entry);
  const before = await stored();
  await press(2, 'Delete this message and its reply');
  await shows(tab, ['Hello', first]);
  const after = await stored();
  await overwrite(before);
  await shows(page, ['Hello', first]);
  await shows(tab, ['Hello', first]);
  await page.getByRole('button', { name: 'Undo' }).click();
  await shows(tab, both);
  await overwrite(after);
  await shows(page, both);
  await shows(tab, both);
  await press(2, 'Delete this message and its reply');
  await shows(tab, ['Hello', first]);
  const joke = await say(tab, 'Tell me a joke');
  await shows(page, ['Hello', first, 'Tell me a joke', joke]);
  // During an answer of the other tab, which stores its messages continually.
  await setSampling(tab, { maxTokens: '300', temperature: '2', topK: '0', minP: '0', topP: '1', seed: '3' });
  await ui(tab).message.fill('Another one');
  await ui(tab).send.click();
  await page.waitForFunction(() => Object.values(localStorage).some((value) => value.includes('Another one')));
  await press(0, 'Delete this message and its reply');
  await ready(tab);
  for (const one of [page, tab]) {
    await one.reload();
    await ready(one);
    const shown = await texts(one);
    assert.deepEqual(shown.slice(0, 3), ['Tell me a joke', joke, 'Another one']);
  }
});

test('a chat that was found by its words opens at the message that contains them, also in another version, and they are marked', async () => {
  await demo();
  await page.evaluate(() => {
    const words = Array.from({ length: 30 }, (_, i) => `Message ${i}: ${'a word '.repeat(40)}`);
    words[3] = `Here is **a list**:\n\n- ${'long '.repeat(80)}\n- the blue Teapot of my aunt`;
    const entries = words.map((content, i) => ({
      id: `m${i}`,
      parent: i ? `m${i - 1}` : null,
      role: i % 2 ? 'assistant' : 'user',
      note: '',
      content,
    }));
    const other = { ...entries[9], id: 'other', content: 'An earlier version about a walrus.' };
    const chat = { version: 2, entries: [other, ...entries], leaf: 'm29', at: 1 };
    localStorage.setItem('bq4.chat.found', JSON.stringify(chat));
  });
  const find = async (/** @type {string} */ words) => {
    await page.keyboard.press('Control+k');
    await page.locator('#chats-dialog [type=search]').fill(words);
    const row = page.locator('.chat[data-id=found] .chat-name', { hasText: new RegExp(words, 'i') });
    const isShown = await row
      .locator('b')
      .evaluate(
        (found) => found.getBoundingClientRect().right <= found.closest('button').getBoundingClientRect().right,
      );
    assert.ok(isShown, 'the list shows the words');
    await row.click();
    const message = ui(page).messages.filter({ hasText: new RegExp(words, 'i') });
    await page.waitForFunction((words) => {
      const range = [...(CSS.highlights.get('found') ?? [])][0];
      return (
        range?.toString().toLowerCase() === words && document.activeElement?.textContent?.includes(range.toString())
      );
    }, words);
    assert.ok(await message.evaluate((one) => one === document.activeElement));
    const isVisible = await page.evaluate(() => {
      const [range] = /** @type {Range[]} */ ([...(CSS.highlights.get('found') ?? [])]);
      const [box, log] = [range, /** @type {Element} */ (document.querySelector('#log'))].map((one) =>
        one.getBoundingClientRect(),
      );
      return box.top >= log.top && box.bottom <= log.bottom;
    });
    assert.ok(isVisible, words);
  };
  await find('teapot');
  assert.equal(await ui(page).messages.count(), 30);
  assert.ok(await page.locator('#latest').isVisible(), 'the log does not scroll on to its end');
  await ui(page).message.fill('More');
  assert.equal(await page.evaluate(() => CSS.highlights.has('found')), false);
  await find('walrus');
  assert.equal(await ui(page).messages.count(), 10);
  await page.mouse.click(2, 500);
  assert.equal(await page.evaluate(() => CSS.highlights.has('found')), false);
});
