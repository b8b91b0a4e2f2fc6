// Tests of conversations in the demo, in every browser: list, branches, Markdown, settings of each conversation.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { everyBrowser, oneSite } from './every.mjs';
import { waitForValue, press, ready, say, setFields, showConversation, texts } from './person.mjs';

/** @typedef {import('./browsers.mjs').Page} Page */

/** Names in the list of conversations. @param {Page} page @returns {Promise<string[]>} */
const listed = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('#chats-dialog .chat-name')].map((one) => one.firstChild?.textContent ?? ''),
  );

/** Presses a button in the menu of a chat. @param {Page} page @param {string} label */
const pressInMenu = (page, label) =>
  page.evaluate((label) => {
    const all = [...document.querySelectorAll('#chats-dialog .menu button')];
    const button = /** @type {HTMLElement} */ (all.find((one) => one.getAttribute('aria-label') === label));
    /** @type {HTMLDetailsElement} */ (button.closest('details')).open = true;
    button.focus();
    button.click();
  }, label);

/** @param {Page} page */
async function showList(page) {
  // Where there is room, it stays open.
  if (!(await page.evaluate(() => /** @type {HTMLDialogElement} */ (document.querySelector('#chats-dialog')).open)))
    await page.click('#chats');
  await page.until(() => /** @type {HTMLDialogElement} */ (document.querySelector('#chats-dialog')).open);
}

const MARKDOWN = [
  '## A plan',
  'Some **bold**, *slanted*, `code < > &` and ~~gone~~ words; a [link](https://example.org/a?b=1).\nA line of its own.',
  '- one\n- two\n  1. inner\n  2. more\n- [x] done',
  '> quoted\n> twice',
  '```js\nconst a = "<b>";\n\nrun(a);\n```',
  '| a | b |\n|---|--:|\n| 1 | *2* |',
  '---',
  'The end.',
].join('\n\n');

await everyBrowser((name) => {
  const here = oneSite(name);
  const open = async () => {
    const page = await here.open('demo/');
    await ready(page);
    return page;
  };
  const close = async (/** @type {Page} */ page) => {
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  };

  test('conversations of the list can be found, opened, renamed and deleted with Undo', async () => {
    const page = await open();
    await setFields(page, { maxTokens: '8' });
    const first = await say(page, 'Hello!');
    await press(page, 'New chat', '.bar');
    await ready(page);
    await waitForValue(() => texts(page), []);
    await say(page, 'Tell me a joke');
    await showList(page);
    await waitForValue(() => listed(page), ['Tell me a joke', 'Hello!']);
    await page.type('#chats-dialog [type=search]', 'hELLO');
    await waitForValue(() => listed(page), ['Hello!']);

    await pressInMenu(page, 'Rename Hello!');
    await page.evaluate(() => {
      const field = /** @type {HTMLInputElement} */ (document.querySelector('#chats-dialog li input'));
      field.value = 'A greeting';
      field.form?.requestSubmit();
    });
    await page.evaluate(() => {
      const search = /** @type {HTMLInputElement} */ (document.querySelector('#chats-dialog [type=search]'));
      search.value = '';
      search.dispatchEvent(new Event('input'));
    });
    await waitForValue(() => listed(page), ['Tell me a joke', 'A greeting'], 'a name is no change of what was said');

    await pressInMenu(page, 'Delete Tell me a joke');
    await waitForValue(() => listed(page), ['A greeting']);
    await waitForValue(() => texts(page), [], 'it was shown');
    assert.ok(await page.evaluate(() => document.querySelector('#chats-dialog')?.contains(document.activeElement)));
    await press(page, 'Undo: Deleted “Tell me a joke”.');
    await waitForValue(() => listed(page), ['Tell me a joke', 'A greeting']);
    assert.equal((await texts(page)).length, 2);
    await pressInMenu(page, 'Delete A greeting');
    await press(page, 'Close', '#chats-dialog');
    await page.until(() => document.querySelector('#notices button')); // the dialog says later that it is closed
    await press(page, 'Undo', '#notices');
    await showList(page);
    await waitForValue(() => listed(page), ['Tell me a joke', 'A greeting'], 'also when the list has been closed');
    await page.evaluate(() =>
      /** @type {HTMLElement} */ (document.querySelectorAll('#chats-dialog .chat-name')[1]).click(),
    );
    await waitForValue(() => texts(page), ['Hello!', first]);
    await page.reload();
    await ready(page);
    await waitForValue(() => texts(page), ['Hello!', first], 'a reload stays with it');
    await close(page);
  });

  test('export and import keep every branch in JSON, and the displayed messages in Markdown', async () => {
    const page = await open();
    await setFields(page, { maxTokens: '8' });
    await say(page, 'Hello!');
    await press(page, 'Regenerate the reply');
    await ready(page);
    const message = await texts(page);
    await page.evaluate(() => {
      const files = /** @type {any} */ (globalThis.files = /** @type {Promise<string>[]} */ ([]));
      URL.createObjectURL = (blob) => (files.push(/** @type {Blob} */ (blob).text()), `${location.href}#`);
      addEventListener('click', (event) => event.target instanceof HTMLAnchorElement && event.preventDefault(), true);
    });
    await showList(page);
    await press(page, 'Export all');
    await pressInMenu(page, 'Export Hello! as Markdown');
    const [json, markdown] = await page.evaluate(() => Promise.all(/** @type {any} */ (globalThis).files));
    assert.equal(JSON.parse(json).conversations[0].entries.length, 3);
    assert.equal(markdown, `# Hello!\n\n## You\n\nHello!\n\n## Model\n\n${message[1].trim()}\n`);

    const bring = (/** @type {string} */ file, /** @type {string} */ text) =>
      page.evaluate(
        ([file, text]) => {
          const field = /** @type {HTMLInputElement} */ (document.querySelector('#chats-dialog [type=file]'));
          const data = new DataTransfer();
          data.items.add(new File([text], file));
          field.files = data.files;
          field.dispatchEvent(new Event('change'));
        },
        [file, text],
      );
    await page.evaluate(() => localStorage.clear());
    await bring('all.json', json);
    await page.until(() =>
      [...document.querySelectorAll('.versions')].some((one) => one.textContent?.includes('2 of 2')),
    );
    await waitForValue(() => texts(page), message);
    await bring('one.md', markdown.replace('# Hello!', '# A greeting\n\n> Be kind.'));
    await page.until(
      () =>
        document.querySelector('.message') &&
        ![...document.querySelectorAll('.versions')].some((one) => one.textContent),
    );
    assert.deepEqual(
      await texts(page),
      message.map((text) => text.trim()),
    );
    assert.equal(
      await page.evaluate(() => /** @type {HTMLTextAreaElement} */ (document.querySelector('#system')).value),
      'Be kind.',
    );
    await showList(page);
    assert.deepEqual((await listed(page)).sort(), ['A greeting', 'Hello!']);
    for (const [file, text] of [
      ['notes.md', 'my notes'],
      ['x.json', '{"conversations":[{"entries":[{"role":"system"}]},7]}'],
    ]) {
      await bring(file, text);
      await page.until(() => document.querySelector('[role=alert] code')?.textContent === 'NO_CHATS');
      await press(page, 'Dismiss this message');
    }
    await close(page);
  });

  test('an edited message and another reply are branches next to the previous ones', async () => {
    const page = await open();
    await setFields(page, { maxTokens: '8' });
    await say(page, 'Hello!');
    const before = [...(await texts(page)), 'Tell me a joke', await say(page, 'Tell me a joke')];
    await page.evaluate(() =>
      /** @type {HTMLElement} */ (document.querySelector('[aria-label="Edit your message"]')).click(),
    );
    await page.until(() => document.querySelector('.edit'));
    await page.evaluate(() => {
      const field = /** @type {HTMLTextAreaElement} */ (document.querySelector('.edit textarea'));
      field.value = 'Good night!';
    });
    await press(page, 'Send the edited message');
    await page.until(() => document.querySelectorAll('[role=log] article').length === 2);
    await ready(page);
    const [local, reply] = await texts(page);
    assert.equal(local, 'Good night!');
    assert.match(reply, /\w/);
    await press(page, 'Previous version');
    await waitForValue(() => texts(page), before, 'with all that followed it');
    await page.reload();
    await ready(page);
    await waitForValue(() => texts(page), before);
    await press(page, 'Next version');
    await waitForValue(() => texts(page), ['Good night!', reply]);
    await press(page, 'Regenerate the reply');
    await ready(page);
    assert.equal((await texts(page)).length, 2);
    await press(page, 'Previous version');
    await waitForValue(() => texts(page), ['Good night!', reply], 'the reply before is not lost');
    await close(page);
  });

  test('Stop before the first word leaves no reply, also for an edit or another reply', async () => {
    const page = await open();
    await setFields(page, { maxTokens: '8' });
    await say(page, 'Hello!');
    const before = await texts(page);
    for (const mode of ['Send the edited message', 'Regenerate the reply']) {
      if (mode === 'Send the edited message') {
        await press(page, 'Edit your message');
        await page.until(() => document.querySelector('.edit'));
      }
      await page.evaluate((method) => {
        /** @type {HTMLElement} */ (document.querySelector(`[aria-label="${method}"]`)).click();
        /** @type {HTMLElement} */ (document.querySelector('#stop')).click();
      }, mode);
      await ready(page);
      await waitForValue(() => texts(page), before, mode);
      assert.equal(await page.evaluate(() => document.querySelectorAll('.versions button').length), 0, mode);
    }
    await page.reload();
    await ready(page);
    await waitForValue(() => texts(page), before);
    await close(page);
  });

  test('Markdown is loaded on demand and shown as elements; its source can be copied or shown', async () => {
    const page = await open();
    const loaded = () =>
      page.evaluate(
        () => performance.getEntriesByType('resource').filter(({ name }) => /marked|markdown/.test(name)).length,
      );
    await setFields(page, { maxTokens: '8' });
    await say(page, 'Hello!');
    assert.equal(await loaded(), 0, 'nobody needs it');
    await showConversation(page, [
      { content: '**mine** stays as it is' },
      { content: MARKDOWN, reasoning: 'I think.\nThen I write.' },
    ]);
    await page.until(() => document.querySelector('.formatted table'));
    const [local] = await texts(page);
    assert.equal(local, '**mine** stays as it is');
    const tags = await page.evaluate(() =>
      [...document.querySelectorAll('.formatted *')]
        .map(({ localName }) => localName)
        .filter((tag) => !['div', 'span', 'button'].includes(tag))
        .join(' '),
    );
    assert.equal(
      tags,
      'h4 p strong em code del a br ul li li ol li li li blockquote p br pre code table thead tr th th tbody tr td td em hr p',
    );
    assert.equal(
      await page.evaluate(() => document.querySelector('.formatted pre')?.textContent),
      'const a = "<b>";\n\nrun(a);',
    );
    const link = await page.evaluate(() =>
      Object.fromEntries(
        ['href', 'rel', 'target'].map((key) => [key, document.querySelector('.formatted a')?.getAttribute(key)]),
      ),
    );
    assert.deepEqual(link, { href: 'https://example.org/a?b=1', rel: 'noopener noreferrer', target: '_blank' });
    const folded = await page.evaluate(() =>
      [...document.querySelectorAll('.thoughts')].map((one) => [
        /** @type {HTMLDetailsElement} */ (one).open,
        one.querySelector('.thought')?.textContent,
      ]),
    );
    assert.deepEqual(folded, [[false, 'I think.\nThen I write.']]);

    await page.evaluate(() => {
      const copied = /** @type {any} */ (globalThis.copied = /** @type {string[]} */ ([]));
      Object.defineProperty(navigator, 'clipboard', {
        value: { writeText: async (/** @type {string} */ text) => void copied.push(text) },
      });
    });
    await press(page, 'Copy the code');
    await press(page, 'Copy the reply');
    assert.deepEqual(await page.evaluate(() => /** @type {any} */ (globalThis).copied), [
      'const a = "<b>";\n\nrun(a);',
      MARKDOWN,
    ]);

    await page.evaluate(() => /** @type {HTMLElement} */ (document.querySelector('#plain')).click());
    assert.deepEqual((await texts(page))[1], MARKDOWN);
    await page.reload();
    await ready(page);
    assert.deepEqual((await texts(page))[1], MARKDOWN, 'and it stays plain');
    await close(page);
  });

  test('streamed Markdown keeps the elements of complete blocks, and ends like Markdown that is parsed at once', async () => {
    const page = await open();
    const { replaced, same, grown } = await page.evaluate(async (text) => {
      const path = '/demo/chat/markdown.js';
      const { Renderer } = await import(path);
      const place = document.createElement('div');
      const renderer = new Renderer(place);
      let replaced = 0;
      let grown = 0;
      for (let end = 1; end <= text.length; end++) {
        const before = [...place.children];
        const code = place.querySelector('pre');
        renderer.show(text.slice(0, end));
        replaced += before.slice(0, -1).filter((one, i) => place.children[i] !== one).length;
        if (code && place.contains(code)) grown++;
      }
      const whole = document.createElement('div');
      new Renderer(whole).show(text);
      return { replaced, same: place.innerHTML === whole.innerHTML, grown };
    }, MARKDOWN);
    // A line under a paragraph, or a row of dashes, may turn what stood before it into something else.
    assert.ok(replaced <= 2, `${replaced} finished blocks were replaced`);
    assert.ok(same);
    assert.ok(grown > 20, 'code that is written stays the same element');
    await close(page);
  });

  test(
    'Markdown of the hostile: no markup, no scripts, no addresses but those of the web, no depth',
    { timeout: 180_000 },
    async () => {
      const page = await open();
      const evil = [
        '<img src=x onerror="document.title=1"> <script>document.title=1</script> <b>b</b>',
        '<div onclick="x()">\n\nin a block\n\n</div>',
        '[a](javascript:document.title=1) [b](data:text/html,x) [c](//elsewhere.invalid) ![d](https://elsewhere.invalid/x.png)',
        '<javascript:x> <https://example.org/>',
        `${'> '.repeat(5000)}deep`,
        `${'- '.repeat(3000)}deep`,
        '[a]: javascript:x\n\n[a] **end**',
        `${'*a '.repeat(5000)}`,
        `${'['.repeat(3000)}`,
        `|${'a|'.repeat(2000)}\n|${'-|'.repeat(2000)}`,
      ];
      // All in one conversation, which shows them at once.
      await showConversation(
        page,
        evil.flatMap((content) => [{ content: 'x' }, { content: `**x** ${content}\n\n${content}` }]),
      );
      await page.until((all) => document.querySelectorAll('.formatted').length === all, evil.length);
      const found = await page.evaluate(() =>
        [...document.querySelectorAll('.formatted')].map((reply) =>
          [...reply.querySelectorAll('img, script, iframe, b, div[onclick], [onerror], a')].map(
            (one) => one.getAttribute('href') ?? one.localName,
          ),
        ),
      );
      for (const [i, content] of evil.entries())
        assert.ok(
          found[i].every((href) => /^https:\/\/(example\.org|elsewhere\.invalid)\//.test(href)),
          `${content.slice(0, 60)}: ${found[i]}`,
        );
      assert.doesNotMatch(await page.evaluate(() => document.title), /^1$/);
      await close(page);
    },
  );

  test('the memory of a selected context length is shown before; the model has it, also after a reload and in the conversation', async () => {
    const page = await open();
    await setFields(page, { maxTokens: '8' });
    const reply = await say(page, 'Hello!');
    /** Tokens, and megabytes, of each that is offered. */
    const offered = await page.evaluate(() =>
      [.../** @type {HTMLSelectElement} */ (document.querySelector('#context-size')).options].map(
        ({ text, selected }) => ({
          tokens: Number(/^[\d,]+/.exec(text)?.[0].replaceAll(',', '')),
          memory: Number(/([\d.]+) MB$/.exec(text)?.[1]),
          selected,
        }),
      ),
    );
    const [small, large] = offered;
    assert.deepEqual(
      offered.map(({ tokens, selected }) => [tokens, selected]),
      [
        [256, false],
        [512, false],
        [1024, true],
      ],
    );
    assert.ok(small.memory < large.memory, `${small.memory} MB and ${large.memory} MB`);
    await page.evaluate(() => {
      const size = /** @type {HTMLSelectElement} */ (document.querySelector('#context-size'));
      size.value = '256';
      size.dispatchEvent(new Event('change'));
    });
    const smaller = () =>
      page.until(() => / of 256 tokens$/.test(document.querySelector('[data-stat=context]')?.textContent ?? ''));
    await smaller();
    const memory = await page.evaluate(() => document.querySelector('[data-stat=memory]')?.textContent ?? '');
    assert.ok(
      Math.abs(Number.parseFloat(memory) - small.memory) <= 0.1 * small.memory,
      `${memory}, ${small.memory} said`,
    );
    await page.reload();
    await ready(page);
    await smaller();
    await waitForValue(() => texts(page), ['Hello!', reply]);
    await close(page);
  });

  test('older turns are summarized by the model if the user enables it; the summary is marked and can be undone; messages stay', async () => {
    const page = await open();
    const much = 'The dog went to the park and the cat went to the house. '.repeat(18).trim();
    const turns = ['a', 'b', 'c'].flatMap((name) => [{ content: `Tell me of ${name}.` }, { content: much }]);
    await showConversation(page, turns);
    await setFields(page, { maxTokens: '8', temperature: '0' });
    await say(page, 'Hello!');
    const message = await texts(page);
    const used = () =>
      page.evaluate(() => Number.parseInt(document.querySelector('[data-stat=context]')?.textContent ?? ''));
    const offered = () =>
      page.evaluate(() => /** @type {HTMLElement} */ (document.querySelector('.divider button')).checkVisibility());
    assert.equal(await offered(), false, 'the built-in model is too small for that');
    await page.until(() => Number.parseInt(document.querySelector('[data-stat=context]')?.textContent ?? '') > 0);
    const before = await used();
    await page.evaluate(() => {
      /** @type {HTMLElement} */ (document.querySelector('.divider button')).hidden = false;
    });
    await press(page, 'Summarize the messages above for the model');
    await page.until(() => document.querySelector('.summary:not(.writing)'));
    await ready(page);
    const summary = () => page.evaluate(() => document.querySelector('.summary .text')?.textContent ?? '');
    const text = await summary();
    assert.match(text, /\w/);
    assert.deepEqual(await texts(page), message);
    // The panel counts the tokens again once the page is ready.
    await page.until(
      (tokens) => Number.parseInt(document.querySelector('[data-stat=context]')?.textContent ?? '') > tokens,
      before,
    );
    await page.reload();
    await ready(page);
    assert.equal(await summary(), text);
    await press(page, 'Undo the summary');
    assert.equal(await page.evaluate(() => document.querySelectorAll('.summary').length), 0);
    assert.equal(await page.evaluate(() => document.activeElement?.id), 'message');
    await close(page);
  });

  test('each conversation has its own settings and presets; a chat format without a system prompt is reported', async () => {
    const page = await open();
    await setFields(page, { maxTokens: '8', temperature: '0.3', system: 'Be kind.' });
    await say(page, 'Hello!');
    await press(page, 'New chat', '.bar');
    const values = () =>
      page.evaluate(() =>
        ['temperature', 'preset', 'system'].map(
          (name) =>
            /** @type {HTMLInputElement} */ (document.querySelector(`#sampling [name="${name}"], #${name}`)).value,
        ),
      );
    await waitForValue(values, ['0.3', '', ''], 'a new one begins with what was chosen last');
    await page.evaluate(() => {
      const preset = /** @type {HTMLSelectElement} */ (document.querySelector('#preset'));
      preset.value = 'Brief answers';
      preset.dispatchEvent(new Event('change'));
    });
    await waitForValue(values, ['0.4', 'Brief answers', 'Answer in one or two short sentences.']);
    await setFields(page, { maxTokens: '8' });
    await say(page, 'Tell me a joke');
    await showList(page);
    await page.evaluate(() =>
      /** @type {HTMLElement} */ (document.querySelectorAll('#chats-dialog .chat-name')[1]).click(),
    );
    await waitForValue(values, ['0.3', '', 'Be kind.']);
    await page.reload();
    await ready(page);
    await waitForValue(values, ['0.3', '', 'Be kind.']);
    assert.ok(
      await page.evaluate(
        () =>
          document.querySelector('#system-note')?.checkVisibility() ||
          /** @type {HTMLElement} */ (document.querySelector('#system-note')).hidden === false,
      ),
    );
    await close(page);
  });
});
