// The appearance and accessibility of the demo: light and dark, phone width, keyboard, screen readers.
import assert from 'node:assert/strict';
import axe from 'axe-core';
import { test } from 'node:test';
import { PNG } from 'pngjs';
import { waitForValue } from './person.mjs';
import { resetPage, newPage, oneHost, openDemo, ready, setSampling, say, ui } from './site.mjs';

/** @typedef {import('./site.mjs').Page} Page */
const here = oneHost();

/** @type {Awaited<ReturnType<typeof newPage>> | undefined} */
let shared;

/**
 * The page that tests share, without a chat.
 * @param {{ colorScheme?: 'light' | 'dark', reducedMotion?: 'reduce' | 'no-preference', viewport?: { width: number, height: number } }} [looks]
 */
async function demo({ colorScheme = 'light', reducedMotion = 'no-preference', viewport } = {}) {
  const page = (shared ??= await ownDemo());
  await page.emulateMedia({ colorScheme, reducedMotion });
  await page.setViewportSize(viewport ?? { width: 1280, height: 900 });
  await resetPage(page);
  return page;
}

/** @param {import('playwright-core').BrowserContextOptions} [options] */
async function ownDemo(options) {
  const page = await newPage(here.browser, options);
  await openDemo(page, here.site.url);
  return page;
}

/** States of the page with different appearance. @param {Page} page @param {(state: string) => Promise<void>} look */
async function everyState(page, look) {
  await look('empty');
  await ui(page).message.fill(`Hello! ${'endless'.repeat(60)}\n\nnew lines`);
  await ui(page).send.click();
  await ready(page);
  await say(page, 'Tell me a joke');
  await look('conversation');
  await ui(page).file.setInputFiles({
    name: 'notes.bq4',
    mimeType: '',
    buffer: Buffer.from('not a model '.repeat(30)),
  });
  await ui(page).alert.waitFor();
  await ready(page);
  await look('error');
  await ui(page).details.click();
  await look('details');
  await ui(page).details.click();
  for (const [button, dialog] of [
    ['#settings-open', '#settings'],
    ['#model-name', '#models'],
    ['#chats', '#chats-dialog'],
  ]) {
    await page.click(button);
    await page.locator(`${dialog}[open]`).waitFor();
    await look(dialog);
    await page
      .locator(`${dialog} button`)
      .filter({ hasText: /^Close$/ })
      .or(page.locator(`${dialog} [aria-label="Close"]`))
      .first()
      .click();
  }
}

for (const colorScheme of /** @type {const} */ (['light', 'dark'])) {
  test(`axe finds nothing serious: ${colorScheme}`, async () => {
    for (const width of [1280, 390]) {
      // Fading elements have no contrast for a moment.
      const page = await demo({ colorScheme, reducedMotion: 'reduce', viewport: { width, height: 844 } });
      await everyState(page, async (state) => {
        await page.evaluate(axe.source);
        const { violations, passes } = await page.evaluate(() => /** @type {any} */ (globalThis).axe.run());
        assert.ok(passes.length > 20, 'axe looked at the page');
        const serious = violations.filter((/** @type {any} */ v) => ['serious', 'critical'].includes(v.impact));
        assert.deepEqual(
          serious.map((/** @type {any} */ v) => `${v.id}: ${v.nodes.map((/** @type {any} */ n) => n.html).join(' ')}`),
          [],
          `${state}, ${width}`,
        );
      });
    }
  });
}

/** A font of every machine with wide spacing, since widths of letters differ between machines. */
const WIDE = '* { font-family: "DejaVu Sans", Verdana, sans-serif !important; letter-spacing: 0.14em !important; }';

test('no horizontal scrolling at 390 and 320 pixels, with any font', async () => {
  for (const [width, font] of /** @type {const} */ ([
    [390, ''],
    [320, ''],
    [320, WIDE],
  ])) {
    const page = await ownDemo({ viewport: { width, height: 700 }, isMobile: true, hasTouch: true });
    await page.evaluate((css) => {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(css);
      document.adoptedStyleSheets = [sheet];
    }, font);
    await everyState(page, async (state) => {
      const wide = await page.evaluate(() => {
        const limit = document.documentElement.clientWidth;
        const out = [...document.querySelectorAll('body *')].filter((e) => {
          const box = e.getBoundingClientRect();
          const outside = box.right > limit + 0.5 || box.left < -0.5;
          // Text that is wider than its box is truncated or overflows.
          const cut =
            e.scrollWidth > e.clientWidth + 1 && e.matches('.text, .log, .details, .alert-text, .dock, .intro');
          return box.width > 1 && (outside || cut);
        });
        return { limit, scroll: document.scrollingElement?.scrollWidth, out: out.map((e) => e.outerHTML.slice(0, 80)) };
      });
      assert.deepEqual(wide, { limit: width, scroll: width, out: [] }, `${state}, ${width}${font && ', a wide font'}`);
    });
    await page.context().close();
  }
});

test('in right-to-left text, code is left-to-right, and each line of a message has its own direction', async () => {
  const page = await demo();
  await page.evaluate(() => {
    const entries = [
      { id: 'a', parent: null, role: 'user', note: '', content: 'English.\nמה כתוב כאן? bq4.' },
      { id: 'b', parent: 'a', role: 'assistant', note: '', content: 'זה קוד: `x = 1 +` וזה **מודגש**.' },
    ];
    localStorage.setItem('bq4.chat.x', JSON.stringify({ version: 2, entries, leaf: 'b', at: 1 }));
    const other = { ...entries[0], content: 'מה כתוב כאן? bq4.' };
    localStorage.setItem('bq4.chat.y', JSON.stringify({ version: 2, entries: [other], leaf: 'a', at: 2 }));
    sessionStorage.setItem('bq4.open', 'x');
  });
  await page.reload();
  await ready(page);
  await page.locator('.formatted code').waitFor();
  const placesOf = (/** @type {string} */ selector, /** @type {string[]} */ parts) =>
    page.evaluate(
      ([selector, parts]) => {
        const text = /** @type {Text} */ (document.querySelector(String(selector))?.firstChild);
        return /** @type {string[]} */ (parts).map((part) => {
          const range = document.createRange();
          range.setStart(text, text.data.indexOf(part));
          range.setEnd(text, text.data.indexOf(part) + part.length);
          return range.getBoundingClientRect().x;
        });
      },
      [selector, parts],
    );
  const [x, plus] = await placesOf('.formatted code', ['x', '+']);
  assert.ok(x < plus, `x at ${x}, + at ${plus}`);
  const [hebrew, latin] = await placesOf('.message.user .text', ['מה', 'bq4']);
  assert.ok(hebrew > latin, `Hebrew at ${hebrew}, after it Latin at ${latin}`);
  // Lines that are being streamed have it, too.
  await ui(page).message.press('ArrowUp');
  for (const name of ['Message', 'Edit your message'])
    assert.equal(
      await page.getByRole('textbox', { name, exact: true }).evaluate((field) => getComputedStyle(field).unicodeBidi),
      'plaintext',
      name,
    );
  // The end of a long title is cut off. WebKit cuts by the direction of the element, not by that of its text.
  if (!(await page.evaluate(() => document.documentElement.hasAttribute('data-sidebar')))) await page.click('#chats');
  const nameOf = (/** @type {string} */ id) => page.locator(`#chats-dialog .chat[data-id=${id}] .chat-name`);
  for (const [id, direction] of [
    ['y', 'rtl'],
    ['x', 'ltr'],
  ])
    assert.equal(await nameOf(id).evaluate((name) => getComputedStyle(name).direction), direction);
});

// Chromium's layout of a word of 2 million characters takes half a minute if each of its lines could have its own direction.
test('a very long text has one direction wherever it is shown or edited, from before it is first laid out', async () => {
  const page = await demo();
  const bidiOf = (/** @type {import('playwright-core').Locator} */ place) =>
    place.evaluate((element) => getComputedStyle(element).unicodeBidi);
  const field = ui(page).message;
  await field.focus();
  await page.evaluate(() =>
    document.addEventListener(
      'beforeinput',
      ({ target }) => (document.title = getComputedStyle(/** @type {Element} */ (target)).unicodeBidi),
      { once: true },
    ),
  );
  await page.keyboard.insertText('a'.repeat(100_001));
  assert.equal(await page.title(), 'isolate', 'before the text is in the field');
  assert.equal(await bidiOf(field), 'isolate');
  await field.fill('a');
  assert.equal(await bidiOf(field), 'plaintext', 'a short text again');
  await field.fill('');
  for (const before of ['', 'notes:\n```\ntext\n```\n\n']) {
    await page.evaluate((before) => {
      const entry = { id: 'a', parent: null, role: 'user', note: '', content: before + 'a'.repeat(100_001) };
      localStorage.setItem('bq4.chat.z', JSON.stringify({ version: 2, entries: [entry], leaf: 'a', at: 1 }));
      sessionStorage.setItem('bq4.open', 'z');
    }, before);
    await page.reload();
    await ready(page);
    const text = page.locator('.message.user .text', { hasText: 'aaaa' });
    await text.waitFor();
    assert.equal(await bidiOf(text), 'isolate', `in the log, after ${JSON.stringify(before)}`);
    await field.press('ArrowUp');
    const edit = page.getByRole('textbox', { name: 'Edit your message', exact: true });
    assert.equal(await bidiOf(edit), 'isolate', `edited, after ${JSON.stringify(before)}`);
    await edit.press('Escape');
  }
});

test('the headings of the table of requests are in one line, and so are the buttons of the list of models on a phone', async () => {
  const page = await demo();
  await ui(page).details.click();
  await page.locator('#requests > summary').click();
  await page.locator('#requests tbody tr').first().waitFor();
  const heads = await page.locator('#requests thead th').evaluateAll((cells) =>
    cells.map((cell) => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      return Math.round(range.getBoundingClientRect().y);
    }),
  );
  assert.equal(new Set(heads).size, 1, heads.join(', '));
  await page.locator('#requests > summary').click();
  await page.setViewportSize({ width: 440, height: 900 });
  await page.keyboard.press('Escape');
  await ui(page).models.click();
  await page.locator('#stored .stored').nth(3).waitFor();
  const ends = await page
    .locator('#stored .row')
    .evaluateAll((rows) => rows.map((row) => Math.round(row.getBoundingClientRect().right)));
  assert.equal(new Set(ends).size, 1, ends.join(', '));
});

test("the theme follows the system, then the user's choice, also after a reload", async () => {
  const page = await ownDemo({ colorScheme: 'dark' });
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const theme = page.getByRole('button', { name: /^Theme/ });
  const dark = await background();
  await page.emulateMedia({ colorScheme: 'light' });
  await page.waitForFunction((dark) => getComputedStyle(document.body).backgroundColor !== dark, dark);
  const light = await background();
  await theme.click();
  assert.equal(await theme.getAttribute('aria-label'), 'Theme: light');
  await theme.click();
  assert.equal(await theme.getAttribute('aria-label'), 'Theme: dark');
  assert.equal(await background(), dark);
  await page.reload();
  assert.equal(await background(), dark, 'before the page has done anything');
  await theme.click();
  assert.equal(await background(), light);
  await page.context().close();
});

test('all functions work with the keyboard alone', async () => {
  const page = await demo();
  const focused = () =>
    page.evaluate(() => {
      const e = document.activeElement;
      return e?.getAttribute('aria-label') || e?.id || e?.textContent;
    });
  assert.equal(await focused(), 'message');
  await page.keyboard.type('Hello!');
  await page.keyboard.press('Tab');
  assert.equal(await focused(), 'Attach a text file or PDF');
  await page.keyboard.press('Tab');
  assert.equal(await focused(), 'Send');
  await page.keyboard.press('Enter');
  assert.equal(await focused(), 'message');
  await ready(page);
  /** @type {unknown[]} */
  const order = [];
  for (let i = 0; i < 13; i++) {
    await page.keyboard.press('Shift+Tab');
    order.push(await focused());
  }
  assert.deepEqual(order, [
    'More for the reply',
    'Regenerate the reply',
    'Copy the reply',
    'More for your message',
    'Edit your message',
    'Copy your message',
    'Conversation',
    'Details',
    'Theme: system',
    'Settings',
    'new-chat',
    'model-name',
    'Chats',
  ]);
  // The focus is visible.
  await ui(page).newChat.focus();
  await page.keyboard.press('Tab');
  assert.notEqual(
    await page.evaluate(() => getComputedStyle(/** @type {Element} */ (document.activeElement)).outlineStyle),
    'none',
  );
});

test('on a phone the details replace the conversation, and Escape closes them', async () => {
  const page = await demo({ viewport: { width: 390, height: 844 } });
  const { details, log } = ui(page);
  // With letters of twice the size, all buttons are visible.
  for (const [width, size] of /** @type {const} */ ([
    [390, '200%'],
    [320, '200%'],
    [390, ''],
  ])) {
    await page.setViewportSize({ width, height: 844 });
    const outside = await page.evaluate((size) => {
      document.documentElement.style.fontSize = size;
      return [...document.querySelectorAll('.bar button')]
        .filter((one) => one.getBoundingClientRect().right > innerWidth)
        .map((one) => one.id);
    }, size);
    assert.deepEqual(outside, [], `${width} ${size}`);
  }
  assert.equal(await details.getAttribute('aria-expanded'), 'false');
  await details.click();
  assert.equal(await details.getAttribute('aria-expanded'), 'true');
  assert.equal(await log.isVisible(), false);
  assert.equal(await page.locator('#intro').isVisible(), false);
  assert.ok(await ui(page).message.isVisible());
  await page.keyboard.press('Escape');
  assert.equal(await details.getAttribute('aria-expanded'), 'false');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'details-toggle');
});

test('on a phone, text in a wide table is not a column of single words, and all of it can be reached', async () => {
  for (const width of [320, 390]) {
    const page = await demo({ viewport: { width, height: 700 } });
    await page.evaluate(() => {
      const content =
        '| Language | Year | Typing | Use |\n|---|--:|---|---|\n' +
        '| JavaScript | 1995 | dynamic | web pages and everything else that one can imagine |';
      const entries = [
        { id: 'a', parent: null, role: 'user', note: '', content: 'A table' },
        { id: 'b', parent: 'a', role: 'assistant', note: '', content },
      ];
      localStorage.setItem('bq4.chat.table', JSON.stringify({ version: 2, entries, leaf: 'b', at: 1 }));
      sessionStorage.setItem('bq4.open', 'table');
    });
    await page.reload();
    await ready(page);
    const table = page.locator('.formatted .table');
    await table.waitFor();
    const cell = await table.locator('td').last().boundingBox();
    assert.ok(Number(cell?.width) >= 140, `${cell?.width} pixels at ${width}`);
    assert.ok(await table.evaluate((place) => place.scrollWidth > place.clientWidth && place.scrollWidth < 640));
    // A shade, which scrolls with the table and covers that of its side at the end, shows that there is more.
    assert.match(await table.evaluate((place) => getComputedStyle(place).backgroundAttachment), /local.*scroll/);
  }
});

test('a long name of a model leaves the sign of its menu in view, and on a phone the line below the field is short', async () => {
  const page = await demo({ viewport: { width: 320, height: 640 } });
  await say(page, 'Hello!');
  const name = page.locator('#model-name');
  const sign = await name.evaluate((button) => {
    const { position, insetInlineEnd, width } = getComputedStyle(button, '::after');
    const room = parseFloat(getComputedStyle(button).paddingInlineEnd) - parseFloat(insetInlineEnd) - parseFloat(width);
    return { isPlaced: position === 'absolute', hasRoom: room > 0, isCut: button.scrollWidth > button.clientWidth };
  });
  assert.deepEqual(sign, { isPlaced: true, hasRoom: true, isCut: true });
  const better = page.locator('#better');
  assert.ok(Number((await better.boundingBox())?.height) < 30);
  assert.equal((await better.innerText()).trim(), 'Get a better model');
});

test('in short windows (a phone on its side, 200 % and 400 % zoom) the message field stays usable with attachments, prompts and notices', async () => {
  for (const [width, height] of /** @type {const} */ ([
    [844, 390],
    [640, 400],
    [320, 256],
  ])) {
    const page = await demo({ viewport: { width, height } });
    // What can be said first is in view.
    const chip = await page.locator('.chip').first().boundingBox();
    const dock = await page.locator('.dock').boundingBox();
    assert.ok(chip && dock && chip.y + chip.height <= dock.y, `the first chip, ${width}`);
    await say(page, 'Hello!');
    /** Sizes of the field, and how far the buttons are outside of the window. */
    const measured = () =>
      page.evaluate(() => {
        const box = (/** @type {string} */ selector) =>
          /** @type {HTMLElement} */ (document.querySelector(selector)).getBoundingClientRect();
        const [message, send, attach] = [box('#message'), box('#send'), box('#attach')];
        return {
          outside: [send, attach].filter(({ right, bottom }) => right > innerWidth || bottom > innerHeight),
          wide: message.width > innerWidth / 3,
          visible: message.bottom <= innerHeight + 1 && message.top >= 0,
        };
      });
    const good = { outside: [], wide: true, visible: true };
    const files = ['notes.txt', 'data.csv', 'more.txt'].map((name) => ({
      name,
      mimeType: '',
      buffer: Buffer.from('a b'),
    }));
    await page
      .locator('#attachment')
      .setInputFiles([...files, { name: 'a.jpg', mimeType: '', buffer: Buffer.from([0]) }]);
    await page.locator('#notices .alert').waitFor();
    assert.deepEqual(await measured(), good, `attachments, ${width}`);
    for (const { name } of files) await page.getByRole('button', { name: `Remove ${name}` }).press('Enter');
    await ui(page).message.pressSequentially('/');
    await page.locator('.prompts li').first().waitFor();
    assert.deepEqual(await measured(), good, `prompts, ${width}`);
    await ui(page).message.fill('');
    await page.click('#chats');
    // The list is not a scrolling strip of less than two rows: there, all of the drawer scrolls.
    const isReadable = () =>
      page.evaluate(() => {
        const list = document.querySelector('#chats-dialog[open] ul');
        return list !== null && list.clientHeight >= Math.min(80, list.scrollHeight - 1);
      });
    await waitForValue(isReadable, true, `the list of chats, ${width}`);
  }
});

test('the cross that empties a search field has a colour of the page', async () => {
  for (const colorScheme of /** @type {const} */ (['light', 'dark'])) {
    const page = await demo({ colorScheme });
    await page.click('#chats');
    const field = page.getByRole('searchbox', { name: 'Search chats' });
    await field.fill('Hello');
    const { data } = PNG.sync.read(await field.screenshot());
    let blue = 0;
    for (let i = 0; i < data.length; i += 4) if (data[i + 2] > Math.max(data[i], data[i + 1]) + 30) blue++;
    assert.equal(blue, 0, `blue pixels, ${colorScheme}`);
    const { width, height } = (await field.boundingBox()) ?? { width: 0, height: 0 };
    await field.click({ position: { x: width - 16, y: height / 2 } });
    assert.equal(await field.inputValue(), '', 'the cross is there');
  }
});

test('the log scrolls to new text, unless the user has scrolled up', async () => {
  const page = await newPage(here.browser);
  await page.addInitScript(() => {
    const entries = Array.from({ length: 20 }, (_, i) => ({
      id: `m${i}`,
      parent: i ? `m${i - 1}` : null,
      role: i % 2 ? 'assistant' : 'user',
      content: `word ${i}\n\n.`,
    }));
    localStorage.setItem('bq4.chat.x', JSON.stringify({ version: 2, entries, leaf: 'm19' }));
  });
  await openDemo(page, here.site.url);
  await setSampling(page, { temperature: '2', topK: '0', minP: '0', topP: '1', maxTokens: '200', seed: '3' });
  // Distance in pixels from the end of the log when the page does not scroll any more.
  const away = () =>
    page.evaluate(async () => {
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      const log = /** @type {HTMLElement} */ (document.querySelector('[role=log]'));
      return Math.round(log.scrollHeight - log.scrollTop - log.clientHeight);
    });
  await waitForValue(away, 0, 'after loading');
  await say(page, 'Tell me a story');
  await waitForValue(away, 0, 'after a reply');
  // The browser reports late that the page has scrolled, after more text was added; then the log becomes smaller.
  await page.evaluate(() => {
    const log = /** @type {HTMLElement} */ (document.querySelector('[role=log]'));
    /** @type {HTMLElement} */ (log.lastElementChild).style.paddingBottom = '500px';
    log.dispatchEvent(new Event('scroll'));
  });
  await page.setViewportSize({ width: 1280, height: 600 });
  await page.waitForFunction(() => innerHeight === 600);
  await waitForValue(away, 0, 'after more than a page was written at once');
  await page.evaluate(() => document.querySelector('[role=log] > [style]')?.removeAttribute('style'));
  await page.evaluate(() => {
    const tokens = /** @type {HTMLElement} */ (document.querySelector('[data-stat=tokens]'));
    new MutationObserver((_, observer) => {
      if (Number(tokens.textContent) < 4) return;
      observer.disconnect();
      document.querySelector('[role=log]')?.scrollTo(0, 0);
    }).observe(tokens, { childList: true });
  });
  await say(page, 'Tell me a story');
  assert.ok((await away()) > 500, 'it stays where the person is reading');
  // Printed pages show all of it, dark on white, and nothing else.
  await page.locator('#details-toggle').click();
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  const paper = await page.evaluate(() => {
    const log = /** @type {HTMLElement} */ (document.querySelector('[role=log]'));
    const [{ bottom }] = [log.lastElementChild?.getBoundingClientRect() ?? { bottom: Infinity }];
    const others = '.bar, .dock, .details, .tools, .chats, .latest';
    return {
      hidden: log.scrollHeight - log.clientHeight,
      cut: bottom > document.documentElement.scrollHeight - scrollY,
      others: [...document.querySelectorAll(others)].filter((one) => one.checkVisibility()).length,
      ink: getComputedStyle(log).color,
    };
  });
  assert.deepEqual(paper, { hidden: 0, cut: false, others: 0, ink: 'rgb(0, 0, 0)' });
  assert.deepEqual(page.trouble, []);
  await page.context().close();
});

test('the log scrolls to a reply also if all of it is visible again when the message field becomes empty', async () => {
  const page = await newPage(here.browser, { viewport: { width: 390, height: 600 } });
  await page.addInitScript(() => {
    const entries = [
      { id: 'a', parent: null, role: 'user', content: 'Hello!' },
      { id: 'b', parent: 'a', role: 'assistant', content: 'Hi there!\n\nHow are you?\n\nThe end.' },
    ];
    localStorage.setItem('bq4.chat.x', JSON.stringify({ version: 2, entries, leaf: 'b' }));
    sessionStorage.setItem('bq4.open', 'x');
  });
  await openDemo(page, here.site.url);
  const { message } = ui(page);
  await message.fill(`Tell me${'\n'.repeat(12)}a story`);
  await page.waitForFunction(() => Number(document.querySelector('[role=log]')?.scrollTop) > 0);
  // The page has received the event of that.
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  await message.press('Enter');
  await ready(page);
  const away = () =>
    page.evaluate(() => {
      const log = /** @type {HTMLElement} */ (document.querySelector('[role=log]'));
      return Math.round(log.scrollHeight - log.scrollTop - log.clientHeight);
    });
  await waitForValue(away, 0, 'after the reply');
  assert.ok(await page.locator('#latest').isHidden());
  await page.context().close();
});

test('screen readers receive an answer in complete sentences, and its end', async () => {
  const page = await demo();
  await setSampling(page, { temperature: '0' });
  await page.evaluate(() => {
    const status = /** @type {HTMLElement} */ (document.querySelector('[role=status]'));
    const events = { status: /** @type {(string | null)[]} */ ([]), sentences: /** @type {(string | null)[]} */ ([]) };
    Object.assign(globalThis, { heard: events });
    new MutationObserver(() => events.status.push(status.textContent)).observe(status, {
      childList: true,
      characterData: true,
      subtree: true,
    });
    new MutationObserver((all) =>
      all.forEach(({ addedNodes }) => addedNodes.forEach((node) => events.sentences.push(node.textContent))),
    ).observe(/** @type {Node} */ (document.querySelector('#heard')), { childList: true, subtree: true });
  });
  const reply = await say(page, 'Tell me a story');
  const { status, sentences } = await page.evaluate(() => /** @type {any} */ (globalThis).heard);
  assert.ok(status.length <= 4, status.join(' | '));
  assert.match(status.at(-1), /^Done\.$/);
  assert.ok(sentences.length >= 3, `${sentences.length} sentences`);
  for (const sentence of sentences) assert.match(sentence, /[.!?…"]$/);
  const bare = (/** @type {string} */ text) => text.replace(/\s+/g, '');
  assert.equal(bare(sentences.join('')), bare(reply), 'each once, none missing');
  const live = await page.evaluate(() =>
    ['#log', '#heard'].map((id) => document.querySelector(id)?.getAttribute('aria-live')),
  );
  assert.deepEqual(live, ['off', 'polite'], 'tokens are not spoken');
});

test('the keyboard focus stays in the page: after Regenerate, an edit, Undo, a dismissed message', async () => {
  const page = await demo();
  const focused = () =>
    page.evaluate(() => document.activeElement !== document.body && document.activeElement?.checkVisibility());
  await say(page, 'Hello!');
  // The focused element at the moment when an answer is complete.
  await page.evaluate(() => {
    const stop = /** @type {HTMLElement} */ (document.querySelector('#stop'));
    const done = () => {
      const { activeElement: at } = document;
      if (stop.hidden) document.body.dataset.keyboard = at?.getAttribute('aria-label') ?? at?.id;
    };
    new MutationObserver(done).observe(stop, { attributeFilter: ['hidden'] });
  });
  const atTheEnd = () => page.evaluate(() => document.body.dataset.keyboard);
  await ui(page).regenerate.press('Enter');
  assert.ok(await focused(), 'while it is written');
  await ready(page);
  assert.equal(await atTheEnd(), 'Regenerate the reply');
  await ui(page).regenerate.evaluate((/** @type {HTMLElement} */ again) => {
    again.focus();
    again.click();
    /** @type {HTMLElement} */ (document.querySelector('#message')).focus();
  });
  await ready(page);
  assert.equal(await atTheEnd(), 'message', 'who has gone elsewhere stays there');
  await page.getByRole('button', { name: 'Edit your message' }).press('Enter');
  await page.locator('.edit textarea:focus').waitFor();
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('aria-label')), 'Edit your message');
  await page.keyboard.press('Enter');
  await page.locator('.edit textarea:focus').waitFor();
  await page.keyboard.type(' Who are you?');
  await page.keyboard.press('Enter');
  assert.ok(await focused(), 'while an edit is answered');
  await ready(page);
  assert.ok(await focused());
  await page.getByRole('button', { name: 'Previous version' }).press('Enter');
  assert.ok(await focused(), 'another version');
  await ui(page).file.setInputFiles({
    name: 'notes.bq4',
    mimeType: '',
    buffer: Buffer.from('not a model '.repeat(30)),
  });
  await ui(page).alert.getByRole('button', { name: 'Dismiss' }).press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'message');
  await page.setViewportSize({ width: 1000, height: 900 });
  await page.locator('#chats').press('Enter');
  await page.locator('#chats-dialog').waitFor();
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'chats');
});

test('nothing moves with reduced motion', async () => {
  for (const [reducedMotion, least, most] of /** @type {const} */ ([
    ['no-preference', 1, 9],
    ['reduce', 0, 0],
  ])) {
    const page = await demo({ reducedMotion });
    await ui(page).message.fill('Tell me a story');
    const moving = await page.evaluate(() => {
      /** @type {HTMLElement} */ (document.querySelector('#send')).click();
      return document.getAnimations().length;
    });
    assert.ok(moving >= least && moving <= most, `${reducedMotion}: ${moving}`);
  }
});
