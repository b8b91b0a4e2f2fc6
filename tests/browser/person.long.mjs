// Tests of the use of the demo, in every browser: waiting for a model and for a long prompt, a model without a chat format, a model that is
// loaded again after a reload, no network, keyboard, screen readers, two tabs, appearance.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { serve } from '../../tools/serve.mjs';
import { makeSite, SITE } from '../../tools/site.mjs';
import { faultServer } from '../server/faults.mjs';
import { everyBrowser, start } from './every.mjs';
import { makeLarge } from './large-model.mjs';
import {
  openFile,
  waitForValue,
  renderedTexts,
  press,
  ready,
  say,
  waitUntilVisible,
  setFields,
  textOf,
  texts,
} from './person.mjs';
import { plainHost, ROOT } from './site.mjs';

/** @typedef {import('./browsers.mjs').Page} Page */

const folder = mkdtempSync(join(tmpdir(), 'bq4-person-'));
const [LARGE, LONG] = [join(folder, 'large.bq4'), join(folder, 'long.bq4')];
after(() => rmSync(folder, { recursive: true }));

before(async () => {
  await makeLarge(LARGE, { context: 256 });
  await makeLarge(LONG, { layers: 4, context: 2048 });
  await makeSite();
});

/** @param {Page} page @param {string} selector @param {RegExp} words  that its text comes to have */
const says = (page, selector, words) =>
  page.until(
    ([selector, words]) => new RegExp(words).test(document.querySelector(selector)?.textContent ?? ''),
    [selector, words.source],
  );
/** Where the keyboard is: a label, or an id. @param {Page} page @returns {Promise<string>} */
const focus = (page) =>
  page.evaluate(() => {
    const at = document.activeElement;
    return at && at !== document.body ? at.getAttribute('aria-label') || at.id || at.textContent || '?' : 'nowhere';
  });
/** As a keyboard does, from where it is. @param {Page} page @param {string} label @param {string} [within] */
const pressHere = (page, label, within = 'body') =>
  page.evaluate(
    ([label, within]) => {
      const all = [...document.querySelectorAll(`${within} button`)].filter(
        (one) => (one.getAttribute('aria-label') ?? one.textContent?.trim()) === label && one.checkVisibility(),
      );
      const one = /** @type {HTMLElement} */ (all.at(-1));
      one.focus();
      one.click();
    },
    [label, within],
  );
/** Puts a text where messages are written, and sends it. @param {Page} page @param {string} text */
const send = (page, text) =>
  page.evaluate((text) => {
    const field = /** @type {HTMLTextAreaElement} */ (document.querySelector('#message'));
    field.value = text;
    field.dispatchEvent(new Event('input', { bubbles: true }));
    /** @type {HTMLElement} */ (document.querySelector('#send')).click();
  }, text);

await everyBrowser((name) => {
  const here = {
    browser: /** @type {import('./browsers.mjs').Browser} */ (/** @type {any} */ (null)),
    site: /** @type {Awaited<ReturnType<typeof serve>>} */ (/** @type {any} */ (null)),
    models: /** @type {Awaited<ReturnType<typeof faultServer>>} */ (/** @type {any} */ (null)),
  };
  before(async () => {
    here.browser = await start(name);
    here.site = await serve({ root: ROOT });
    here.models = await faultServer({ '/large.bq4': LARGE, '/long.bq4': LONG });
  });
  after(async () => {
    await here.browser?.close();
    await Promise.all([here.site?.close(), here.models?.close()]);
  });
  const demo = async () => {
    const page = await here.browser.open(`${here.site.url}demo/`);
    await ready(page);
    return page;
  };
  /** @param {Page} page @param {string} path */
  const look = async (page, path, models = here.models) => {
    await page.click('#model-name');
    await page.evaluate((url) => {
      /** @type {HTMLInputElement} */ (document.querySelector('#link')).value = url;
    }, models.at(path));
    await press(page, 'Find', '#from-link');
  };
  /** Of a large one the plan is shown. @param {Page} page @param {string} path */
  const check = async (page, path) => {
    await look(page, path);
    await waitUntilVisible(page, '#plan-start');
  };
  /** A small one is loaded at once. @param {Page} page */
  const useLong = async (page, models = here.models) => {
    await look(page, '/long.bq4', models);
    await says(page, '#model-name', /^long\.bq4$/);
    await waitUntilVisible(page, '#arriving', false);
    await ready(page);
  };

  test('the plan is a visible dialog that takes the keyboard focus and returns it', async () => {
    const page = await demo();
    await page.size(390, 700);
    await check(page, '/large.bq4');
    const [inside, bottom, height, filled] = await page.evaluate(() => {
      const plan = /** @type {HTMLElement} */ (document.querySelector('#plan'));
      const button = /** @type {HTMLElement} */ (document.querySelector('#plan-start'));
      return [
        plan.contains(document.activeElement),
        plan.getBoundingClientRect().bottom,
        innerHeight,
        getComputedStyle(button).backgroundColor !== getComputedStyle(plan).backgroundColor,
      ];
    });
    assert.ok(inside, 'the keyboard is in it');
    assert.ok(bottom <= height, `it ends at ${bottom} of ${height}`);
    assert.ok(filled, 'what goes on is filled');
    for (const words of [/CC0-1\.0/, /26\.\d MB to download/, /tokens\/s/]) await says(page, '#plan', words);
    await press(page, 'Cancel', '#plan');
    await waitUntilVisible(page, '#plan-start', false);
    assert.equal(await focus(page), await page.evaluate(() => 'model-name'));
    await page.close();
  });

  // The worker of the built site loads the readers of GGUF as chunks, which import its script.
  test('a GGUF file in the built site is used, and the model list works', async (t) => {
    const site = await serve({ root: SITE });
    t.after(site.close);
    const page = await here.browser.open(`${site.url}demo/`);
    t.after(page.close);
    await ready(page);
    await openFile(page, 'small.gguf', readFileSync(join(ROOT, 'tests/golden/gguf/qwen2.gguf')));
    await says(page, '#model-name', /^small\.gguf$/);
    await ready(page);
    await page.click('#model-name');
    await says(page, '#stored', /Tiny \(built in\)/);
    assert.equal(await textOf(page, '#alerts'), '');
    assert.deepEqual(await page.trouble(), []);
  });

  test('during a download the current model replies; the download can be paused and resumed, then Switch', async () => {
    const page = await demo();
    await check(page, '/large.bq4');
    here.models.faults = [{ bytesPerSecond: 0.6e6 }];
    await press(page, 'Download', '#plan');
    await says(page, '[role=status]', /^Downloading large\.bq4\. You can already send a message\.$/);
    await say(page, 'Hello');
    assert.equal((await texts(page)).length, 2);
    await press(page, 'Pause');
    await says(page, '[role=status]', /^Download paused\.$/);
    await says(page, '#arriving-words', /^Paused: large\.bq4$/);
    here.models.faults = [];
    await press(page, 'Resume');
    await says(page, '#notices', /large\.bq4 is ready\./);
    await waitUntilVisible(page, '#arriving', false);
    await press(page, 'Switch', '#notices');
    await says(page, '#model-name', /^large\.bq4$/);
    await ready(page);
    await setFields(page, { maxTokens: '2' });
    await send(page, 'Hello');
    await waitForValue(async () => (await texts(page)).length, 4);
    await page.close();
  });

  test('a long prompt shows its progress and remaining time, and Stop ends it immediately', async () => {
    const page = await demo();
    await useLong(page);
    // A fast machine reads it in less than a second: Stop is clicked in the page, on the first line that says how long it takes.
    await page.evaluate(() => {
      const reports = /** @type {any} */ (globalThis.reports = []);
      const stop = document.getElementById('stop');
      let isStopped = false;
      for (const id of ['amount', 'status']) {
        const place = /** @type {Node} */ (document.getElementById(id));
        new MutationObserver(() => {
          const text = place.textContent ?? '';
          reports.push(text);
          if (isStopped || !/^Reading: \d+ %, about \d.* left$/.test(text)) return;
          isStopped = true;
          stop?.click();
        }).observe(place, { childList: true });
      }
    });
    await send(page, 'the '.repeat(450));
    await page.until(() =>
      /** @type {any} */ (globalThis).reports.some((/** @type {string} */ text) => /about \d.* left$/.test(text)),
    );
    await ready(page);
    await waitForValue(() => textOf(page, '#amount'), '');
    await waitForValue(() => texts(page), []);
    const reports = await page.evaluate(() => /** @type {any} */ (globalThis).reports);
    assert.ok(
      reports.some((/** @type {string} */ text) => /^Reading a long text…$/.test(text)),
      `${reports}`,
    );
    await page.close();
  });

  test('for a model without a chat format, the page asks for one with a preview and stores it; a reload restores model and conversation', async () => {
    const page = await demo();
    await useLong(page);
    await waitUntilVisible(page, '#format-preview');
    await setFields(page, { maxTokens: '2' });
    await say(page, 'Hello');
    await waitUntilVisible(page, '#format-preview');
    await page.evaluate(() => {
      const choice = /** @type {HTMLSelectElement} */ (
        document.querySelector('#format-preview')?.closest('section')?.querySelector('select')
      );
      choice.value = 'llama-3';
      choice.dispatchEvent(new Event('change', { bubbles: true }));
    });
    await says(page, '#format-preview', /^<\|start_header_id\|>user<\|end_header_id\|>\n\nHello!<\|eot_id\|>/);
    await press(page, 'Use template');
    await waitUntilVisible(page, '#format-preview', false);
    const message = await renderedTexts(page);
    await page.reload();
    await says(page, '#model-name', /long\.bq4/);
    await ready(page);
    await says(page, '[data-stat="format"]', /Llama 3/);
    await waitForValue(() => texts(page), message);
    await waitUntilVisible(page, '#format-preview', false);
    await page.close();
  });

  test('without a network the demo continues, and starts again without requests', async () => {
    for (const chosen of [false, true]) {
      const [host, models] = [await plainHost('/away'), await faultServer({ '/long.bq4': LONG })];
      const page = await here.browser.open(host.url);
      await ready(page);
      await says(page, '[data-stat="offline"]', /^yes/);
      if (chosen) {
        await useLong(page, models);
        await setFields(page, { maxTokens: '2' });
        await says(page, '[data-stat="offline"]', /2 models/);
      }
      await send(page, 'Hello!');
      await waitForValue(async () => (await texts(page)).length, 2);
      await ready(page);
      const message = await renderedTexts(page);
      await Promise.all([host.close(), models.close()]);
      await page.reload();
      await ready(page);
      await says(page, '#model-name', chosen ? /^long\.bq4$/ : /^Tiny \(built in\)$/);
      await waitForValue(() => texts(page), message);
      // By its own words: what appears above the field may move it away from a pointer.
      await send(page, 'Tell me a joke');
      await waitForValue(async () => (await texts(page)).length, 4);
      await ready(page);
      assert.ok((await texts(page)).includes('Tell me a joke'));
      await page.close();
    }
  });

  test('a new version of the page is stored completely, offered and used completely', async () => {
    /** @type {Record<string, string>} */
    const changes = {};
    const host = await plainHost('/version', changes);
    const page = await here.browser.open(host.url);
    await ready(page);
    await says(page, '[data-stat="offline"]', /^yes/);
    // Two files that belong together change: neither is seen alone.
    changes['demo/style.css'] = ':root { --version: 2 }\n';
    changes['demo/page/format.js'] = 'document.documentElement.dataset.version = 2;\n';
    const versions = () =>
      page.evaluate(() => [
        getComputedStyle(document.documentElement).getPropertyValue('--version').trim(),
        document.documentElement.dataset.version ?? '',
      ]);
    await page.reload();
    await ready(page);
    assert.deepEqual(await versions(), ['', '']);
    await says(page, 'body', /A new version of this page is ready\./);
    await press(page, 'Reload');
    await page.until(() => document.documentElement.dataset.version === '2');
    await ready(page);
    assert.deepEqual(await versions(), ['2', '2']);
    assert.match(await say(page, 'Hello!'), /\w/);
    await page.close();
    await host.close();
  });

  test('the dialog of models at the top has a search, files and addresses; on a phone its button shows the name', async () => {
    const page = await demo();
    await page.size(390, 700);
    await waitUntilVisible(page, '#model-name');
    assert.equal(await textOf(page, '#model-name'), 'Tiny (built in)');
    await page.click('#model-name');
    const rows = () =>
      page.evaluate(() =>
        [...document.querySelectorAll('#stored .stored')]
          .filter((row) => row.checkVisibility())
          .map((row) => row.querySelector('.stored-name')?.firstChild?.textContent),
      );
    const all = [
      'Tiny (built in)',
      'Gemma 3 270M',
      'Qwen2.5 0.5B',
      'Qwen3 0.6B',
      'LFM2 350M',
      'SmolLM2 360M',
      'SmolLM2 135M',
    ];
    await waitForValue(rows, all);
    for (const selector of ['#link', '#models-search']) await waitUntilVisible(page, selector);
    await page.evaluate(() => {
      const search = /** @type {HTMLInputElement} */ (document.querySelector('#models-search'));
      search.value = 'sMOL';
      search.dispatchEvent(new Event('input', { bubbles: true }));
    });
    await waitForValue(rows, ['SmolLM2 360M', 'SmolLM2 135M']);
    await page.close();
  });

  test('a message that is too long is reported; the oldest turns of a long conversation are left out, above a line', async () => {
    const page = await demo();
    const words = (/** @type {number} */ n) => Array(n).fill('the').join(' ');
    await send(page, words(1200));
    await says(page, '#notices', /Too long: Tiny can read about 8[3456] % of this message\./);
    assert.deepEqual(await texts(page), []);
    await setFields(page, { maxTokens: '60', seed: '2', temperature: '2', topK: '0', minP: '0', topP: '1' });
    await send(page, words(504));
    await waitForValue(async () => (await texts(page)).length, 2);
    await ready(page);
    await send(page, 'Hello!');
    await waitForValue(async () => (await texts(page)).length, 4);
    await ready(page);
    await waitForValue(() => textOf(page, '.divider + article .text'), 'Hello!');
    assert.equal(await textOf(page, '#notices'), '');
    await page.close();
  });

  test('the keyboard focus stays in the page after Regenerate, an edit, Undo and a dismissed message', async () => {
    const page = await demo();
    await setFields(page, { maxTokens: '8' });
    await say(page, 'Hello!');
    await pressHere(page, 'Regenerate the reply');
    await ready(page);
    await waitForValue(() => focus(page), 'Regenerate the reply');
    await pressHere(page, 'Edit your message');
    await page.until(() => document.activeElement?.tagName === 'TEXTAREA' && document.activeElement.id !== 'message');
    await page.evaluate(() => {
      const field = /** @type {HTMLTextAreaElement} */ (document.activeElement);
      field.value = 'Who are you?';
      field.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));
    });
    await page.until(() => document.querySelectorAll('[role=log] article').length === 2);
    await ready(page);
    assert.notEqual(await focus(page), 'nowhere');
    await pressHere(page, 'Previous version');
    await page.until(() => /Hello!/.test(document.querySelector('[role=log] article .text')?.textContent ?? ''));
    assert.notEqual(await focus(page), 'nowhere');
    await pressHere(page, 'New chat', '.bar');
    await waitForValue(() => texts(page), []);
    assert.equal(await focus(page), 'message');
    await page.close();
  });

  test('screen readers receive a reply in complete sentences, and its end', async () => {
    const page = await demo();
    await setFields(page, { temperature: '0' });
    await page.evaluate(() => {
      const events = {
        status: /** @type {(string | null)[]} */ ([]),
        sentences: /** @type {(string | null)[]} */ ([]),
      };
      Object.assign(globalThis, { heard: events });
      const status = /** @type {HTMLElement} */ (document.querySelector('[role=status]'));
      const all = { childList: true, characterData: true, subtree: true };
      new MutationObserver(() => events.status.push(status.textContent)).observe(status, all);
      new MutationObserver((changes) =>
        changes.forEach(({ addedNodes }) => addedNodes.forEach((node) => events.sentences.push(node.textContent))),
      ).observe(/** @type {Node} */ (document.querySelector('#heard')), { childList: true, subtree: true });
    });
    const reply = await say(page, 'Tell me a story');
    await says(page, '[role=status]', /^Done\.$/);
    const { status, sentences } = await page.evaluate(() => /** @type {any} */ (globalThis).heard);
    assert.ok(status.length <= 4, status.join(' | '));
    assert.ok(sentences.length >= 3, `${sentences.length} sentences`);
    for (const sentence of sentences) assert.match(sentence, /[.!?…"]$/);
    const bare = (/** @type {string} */ text) => text.replace(/\s+/g, '');
    assert.equal(bare(sentences.join('')), bare(reply), 'each once, none missing');
    await page.close();
  });

  test('after a tab crashed while loading, less memory is offered, and the page continues when that is dismissed', async () => {
    const page = await demo();
    // What a tab leaves behind that died: a mark whose lock nobody holds.
    const died = async (/** @type {object} */ mark) => {
      await page.evaluate(
        (mark) => localStorage.setItem('bq4.loading', JSON.stringify({ level: 0, id: 'bq4.loading.gone', ...mark })),
        mark,
      );
      await page.reload();
      await says(page, '[role=alert]', /CRASHED/);
    };
    await died({ name: 'Tiny (built in)', url: null, kind: 'bundled' });
    assert.match(await textOf(page, '[role=alert]'), /Tiny \(built in\)/);
    await press(page, 'Load with less memory');
    await ready(page);
    await says(page, '[data-stat="context"]', /of 512 tokens/);
    assert.match(await say(page, 'Hello!'), /\w/);

    const mark = { name: 'large.bq4', url: here.models.at('/large.bq4'), kind: 'link' };
    await died(mark);
    assert.match(await textOf(page, '[role=alert]'), /large\.bq4/);
    await press(page, 'Load with less memory');
    await waitUntilVisible(page, '#plan-start');
    await says(page, '#plan', /context of 128 tokens/);
    await press(page, 'Cancel', '#plan');
    await ready(page);
    assert.equal(await textOf(page, '#model-name'), 'Tiny (built in)', 'there is a model that answers all the while');
    assert.match(await say(page, 'Hello!'), /\w/);
    await page.close();
  });

  test('a shared link to a model is inserted in the field for checking, and no request is sent', async () => {
    const link = here.models.at('/large.bq4');
    const before = here.models.asked().length;
    const page = await here.browser.open(`${here.site.url}demo/?text=${encodeURIComponent(link)}`);
    await ready(page);
    assert.equal(await page.evaluate(() => /** @type {any} */ (document.querySelector('#link')).value), link);
    await waitForValue(
      () => focus(page),
      await page.evaluate(() => document.querySelector('#link')?.getAttribute('aria-label') || 'link'),
    );
    assert.equal(here.models.asked().length, before);
    const manifest = await page.evaluate(async () => {
      const address = /** @type {HTMLLinkElement} */ (document.querySelector('link[rel=manifest]')).href;
      return (await fetch(address)).json();
    });
    assert.equal(manifest.display, 'standalone');
    assert.ok(manifest.icons.length >= 2 && manifest.share_target);
    await page.close();
  });

  test('two tabs: neither overwrites messages of the other', async () => {
    // A host that lets itself be framed; the frame is the other tab.
    const host = await plainHost('/tabs');
    const page = await here.browser.open(host.url);
    await ready(page);
    await page.evaluate(() => {
      const frame = Object.assign(document.createElement('iframe'), { id: 'other', src: location.href, width: 600 });
      document.body.append(frame);
    });
    const readyThere = () =>
      page.until(() => {
        const inside = /** @type {HTMLIFrameElement} */ (document.getElementById('other')).contentDocument;
        const send = /** @type {HTMLButtonElement | null | undefined} */ (inside?.querySelector('#send'));
        return send && !send.disabled && !send.hidden;
      });
    await readyThere();
    const local = [await say(page, 'Hello!'), 'Hello!'];
    await page.evaluate(() => {
      const inside = /** @type {any} */ (document.getElementById('other')).contentDocument;
      const field = inside.querySelector('#message');
      field.value = 'Good night';
      field.dispatchEvent(new Event('input', { bubbles: true }));
      inside.querySelector('#send').click();
    });
    await readyThere();
    /** @type {string[]} */
    const theirs = await page.evaluate(() => {
      const inside = /** @type {any} */ (document.getElementById('other')).contentDocument;
      return [...inside.querySelectorAll('[role=log] article .text')].map((one) => one.textContent ?? '');
    });
    assert.ok(theirs.includes('Good night') && theirs.length >= 2, `${theirs}`);
    await page.until(
      (wanted) =>
        wanted.every((text) =>
          Object.entries(localStorage).some(
            ([key, value]) =>
              key.startsWith('bq4.chat.') &&
              JSON.parse(value).entries.some((/** @type {any} */ one) => one.content === text),
          ),
        ),
      [...local, ...theirs],
    );
    await page.close();
    await host.close();
  });

  test('there is no horizontal scrolling down to 320 pixels; light and dark themes differ and are stored', async () => {
    const page = await demo();
    for (const width of [1280, 390, 320]) {
      await page.size(width, 800);
      const [scroll, own] = await page.evaluate(() => [document.scrollingElement?.scrollWidth ?? 0, innerWidth]);
      assert.ok(scroll <= own, `${scroll} of ${own} pixels`);
    }
    await page.size(1280, 800);
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const theme = (/** @type {string} */ label) =>
      page.until((label) => document.querySelector(`[aria-label="${label}"]`), label);
    const turn = () =>
      page.evaluate(() => /** @type {HTMLElement} */ (document.querySelector('[aria-label^="Theme: "]')).click());
    await turn();
    await theme('Theme: light');
    const light = await background();
    await turn();
    await theme('Theme: dark');
    const dark = await background();
    assert.notEqual(dark, light);
    await page.reload();
    await ready(page);
    assert.equal(await background(), dark);
    await page.close();
  });
});
