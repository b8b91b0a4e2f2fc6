// Tests of the information that the demo shows, in every browser: memory, downloads and figures are correct and current, and terms are
// uniform.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
// @ts-ignore it has no types
import { PNG } from 'pngjs';
import { fileSink } from '../../js/format/output.js';
import { makeRandom, SHAPES } from '../../tools/make_random.mjs';
import { serve } from '../../tools/serve.mjs';
import { randomGguf } from '../js/gguf-writer.mjs';
import { faultServer } from '../server/faults.mjs';
import { everyBrowser, start } from './every.mjs';
import { LARGE_SHAPE, makeLarge } from './large-model.mjs';
import { waitForValue, openFile, press, ready, say, waitUntilVisible, setFields, textOf, texts } from './person.mjs';
import { until } from '../waiting.mjs';
import { ROOT } from './site.mjs';

/** @typedef {import('./browsers.mjs').Page} Page */

/** Where the site has models of its own, and the one of 26 MB there. */
const folder = mkdtempSync(join(tmpdir(), 'bq4-honest-'));
const LARGE = join(folder, 'mine', 'large.bq4');
const SMALL = join(folder, 'small.bq4');
const GGUF = join(folder, 'some.gguf');
after(() => rmSync(folder, { recursive: true }));

/** @param {Page} page @param {string} name @returns {Promise<string>} */
const stat = (page, name) =>
  page.evaluate((name) => document.querySelector(`[data-stat="${name}"]`)?.textContent ?? '', name);
/** @param {Page} page @param {string} name */
const called = (page, name) => page.until((name) => document.querySelector('#model-name')?.textContent === name, name);
/** All of the model is there. @param {Page} page */
async function whole(page) {
  await page.until(() => !(/** @type {HTMLElement} */ (document.querySelector('#arriving')).checkVisibility()));
  await ready(page);
}

/** @param {Page} page @param {string} url */
async function check(page, url) {
  await page.click('#model-name');
  await page.evaluate((url) => {
    /** @type {HTMLInputElement} */ (document.querySelector('#link')).value = url;
  }, url);
  await press(page, 'Find', '#from-link');
}

/** What a row of the plan says. @param {Page} page @param {string} name @returns {Promise<string>} */
const planned = (page, name) =>
  page.evaluate(
    (name) =>
      [...document.querySelectorAll('#plan-facts dt')].find((one) => one.textContent === name)?.nextElementSibling
        ?.textContent ?? '',
    name,
  );

/** From now on, all that the line beside the progress and the status say. @param {Page} page */
const listen = (page) =>
  page.evaluate(() => {
    const message = /** @type {any} */ (globalThis).said ?? /** @type {any} */ (globalThis.said = []);
    message.length = 0;
    for (const id of ['amount', 'arriving-amount', 'status']) {
      const place = /** @type {Node} */ (document.getElementById(id));
      new MutationObserver(() => message.push(place.textContent)).observe(place, { childList: true });
    }
  });
/** @param {Page} page @returns {Promise<string[]>} */
const events = (page) => page.evaluate(() => /** @type {any} */ (globalThis).said);

/** Colours of the picture of the weights, as they are seen. @param {Page} page */
async function colours(page) {
  const [x, y, width, height] = await page.evaluate(() => {
    const box = /** @type {Element} */ (document.querySelector('#glimpse')).getBoundingClientRect();
    return [box.x, box.y, box.width, box.height].map(Math.round);
  });
  const png = PNG.sync.read(Buffer.from(await page.picture()));
  const found = new Set();
  for (let row = y; row < y + height; row++)
    for (let column = x; column < x + width; column++) found.add(png.data.readUInt32BE(4 * (row * png.width + column)));
  return found.size;
}

before(async () => {
  mkdirSync(join(folder, 'mine'));
  await makeLarge(LARGE, { context: 256 });
  await makeRandom(SHAPES['tiny-llama'], await fileSink(SMALL), { quant: 'bq4' });
  writeFileSync(
    GGUF,
    randomGguf({
      ...LARGE_SHAPE,
      context: 256,
      arch: 'llama',
      layers: 6,
      vocab: 256,
      norm_eps: 1e-5,
      rope_theta: 10000,
    }),
  );
});

await everyBrowser((name) => {
  const here = {
    browser: /** @type {import('./browsers.mjs').Browser} */ (/** @type {any} */ (null)),
    site: /** @type {Awaited<ReturnType<typeof serve>>} */ (/** @type {any} */ (null)),
    models: /** @type {Awaited<ReturnType<typeof faultServer>>} */ (/** @type {any} */ (null)),
  };
  before(async () => {
    here.browser = await start(name);
    here.site = await serve({ root: ROOT, models: folder });
    here.models = await faultServer({ '/elsewhere.bq4': LARGE, '/Small.bq4': SMALL, '/Some.gguf': GGUF });
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

  test('a file and a link to the same model have the same plan, consent and memory', async () => {
    const page = await demo();
    const address = `${here.site.url}local/mine/large.bq4`;
    await check(page, address);
    await waitUntilVisible(page, '#plan-start');
    const [memory, fits, shape, size] = await Promise.all(
      ['Memory', 'Fits', 'Architecture', 'Size'].map((row) => planned(page, row)),
    );
    assert.match(memory, /^\d+\.\d MB with a context of 256 tokens \([\d.]+ .?B per 1,000\)$/);
    assert.match(size, /^26\.\d MB, on this computer$/);
    await press(page, 'Load and use', '#plan');
    await called(page, 'large.bq4');
    await whole(page);
    const [plannedMemory] = memory.split(' with');
    // The name of the model is shown before its figures.
    await waitForValue(async () => (await stat(page, 'memory')).startsWith(plannedMemory), true, `planned: ${memory}`);
    const byLink = await stat(page, 'memory');
    await page.click('#model-name');
    await press(page, 'Use Tiny (built in)', '#stored');
    await called(page, 'Tiny (built in)');
    await whole(page);

    await page.evaluate(async (address) => {
      const file = new File([await (await fetch(address)).blob()], 'large.bq4');
      const field = /** @type {HTMLInputElement} */ (document.querySelector('#file'));
      const data = new DataTransfer();
      data.items.add(file);
      field.files = data.files;
      field.dispatchEvent(new Event('change'));
    }, address);
    await waitUntilVisible(page, '#plan-start');
    assert.deepEqual(
      [await planned(page, 'Memory'), await planned(page, 'Fits'), await planned(page, 'Architecture')],
      [memory, fits, shape],
    );
    assert.match(await planned(page, 'Size'), /^26\.\d MB, read from your file; no download$/);
    await press(page, 'Load and use', '#plan');
    await called(page, 'large.bq4');
    await whole(page);
    await waitForValue(() => stat(page, 'memory'), byLink);
    await page.close();
  });

  test('a GGUF file by address is planned first, then replies; the next start sends no request', async () => {
    const page = await demo();
    await check(page, here.models.at('/Some.gguf'));
    await waitUntilVisible(page, '#plan-start');
    assert.match(await planned(page, 'Architecture'), /^llama, 6 layers/);
    assert.match(await planned(page, 'Size'), /to download$/);
    await press(page, 'Download', '#plan');
    await called(page, 'Some.gguf');
    await whole(page);
    assert.match(await say(page, 'hello'), /\S/);
    const before = here.models.asked().length;
    await page.reload();
    await called(page, 'Some.gguf');
    await whole(page);
    assert.equal(here.models.asked().length, before);
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  });

  test('a failing download shows each retry; a refused or missing file is reported immediately', async () => {
    const { models } = here;
    const page = await demo();
    await listen(page);
    for (const [rule, path, requests, words] of /** @type {const} */ ([
      [{}, '/nothing.bq4', 1, /HTTP_STATUS/],
      [{ cors: false }, '/elsewhere.bq4', 2, /\(CORS\): download the file there and open it here/],
    ])) {
      models.faults = [rule];
      const before = models.asked().length;
      await check(page, models.at(path));
      // The alert of the address before is still there when this one is looked up.
      await waitForValue(async () => words.test(await textOf(page, '[role=alert]')), true, `${path}: ${words}`);
      assert.equal(models.asked().length - before, requests, `requests for ${path}`);
    }

    models.faults = [{ drop: 3_000_000, times: 1 }];
    await check(page, models.at('/elsewhere.bq4'));
    await waitUntilVisible(page, '#plan-start');
    await listen(page);
    await press(page, 'Download', '#plan');
    await called(page, 'elsewhere.bq4');
    await whole(page);
    assert.match((await events(page)).join('\n'), /^[\d.]+ .B of 26\.\d MB; network lost, retrying \(2\)$/m);
    await page.close();
  });

  test('figures are those of the current reply: none of the previous reply, none after a reload; the context shows its tokens', async () => {
    const page = await demo();
    await setFields(page, { seed: '4', maxTokens: '24' });
    await say(page, 'Tell me a story');
    const figures = () => Promise.all(['speed', 'ttft', 'tokens', 'reused'].map((one) => stat(page, one)));
    for (const one of await figures()) assert.match(one, /\d/);
    const [, tokens, context] = /^(\d+) of ([\d,]+) tokens$/.exec(await stat(page, 'context')) ?? [];
    assert.ok(Number(tokens) > 5 && context === '1,024', `${tokens} of ${context}`);
    // In the turn of the click: nothing can have come yet.
    const at = await page.evaluate(() => {
      const field = /** @type {HTMLTextAreaElement} */ (document.querySelector('#message'));
      field.value = 'And then?';
      /** @type {HTMLElement} */ (document.querySelector('#send')).click();
      return ['speed', 'ttft', 'tokens', 'reused'].map(
        (one) => document.querySelector(`[data-stat="${one}"]`)?.textContent,
      );
    });
    assert.deepEqual(at, ['', '', '', '']);
    await ready(page);
    await page.until(() => !/^0 /.test(document.querySelector('[data-stat=context]')?.textContent ?? '0 '));
    const before = await stat(page, 'context');
    await page.reload();
    await ready(page);
    await page.until((text) => document.querySelector('[data-stat=context]')?.textContent === text, before);
    assert.deepEqual(await figures(), ['', '', '', '']);
    assert.match(await stat(page, 'threads'), /^\d+$/);
    assert.match(await stat(page, 'threads-reason'), /\w/);
    assert.doesNotMatch(await textOf(page, 'body'), /\b1\d\d(\.\d)? % of peak/);
    await page.close();
  });

  test('the speed of a plan is measured for this model, otherwise estimated from others, otherwise an upper bound', async () => {
    const page = await demo();
    const address = `${here.site.url}local/mine/large.bq4`;
    /** @param {object} known */
    const reportOf = async (known) => {
      await page.evaluate((text) => localStorage.setItem('bq4.models', text), JSON.stringify(known));
      await check(page, address);
      await waitUntilVisible(page, '#plan-start');
      const text = await planned(page, 'Speed here');
      await press(page, 'Cancel', '#plan');
      return text;
    };
    const number = (/** @type {string} */ text) => Number(/([\d.,]+) tokens/.exec(text)?.[1].replaceAll(',', ''));
    const bound = await reportOf({});
    assert.match(bound, /^up to [\d,.]+ tokens\/s \(about [\d,.]+ words\/s\)$/);
    const by = await reportOf({ other: { rate: 30, estimate: 100, at: 1 } });
    assert.match(by, /^about [\d,.]+ tokens\/s \([\d,.]+ words\/s\), judging by models you used$/);
    const share = number(by) / number(bound);
    assert.ok(Math.abs(share - 0.3) < 0.02, `${by}, ${bound}`);
    assert.equal(
      await reportOf({ [address]: { rate: 42 } }),
      '42 tokens/s (about 32 words/s) when you last used it here',
    );
    await page.close();
  });

  test('"Offline" depends on the stored files, and names keep their case; terms and units are uniform', async () => {
    const page = await demo();
    const offline = (/** @type {string} */ words) =>
      page.until((words) => document.querySelector('[data-stat=offline]')?.textContent === words, words);
    await offline('yes, with 1 model');
    await check(page, here.models.at('/Small.bq4'));
    await called(page, 'Small.bq4');
    await whole(page);
    await offline('yes, with 2 models');
    /** @type {string[]} */
    const pages = [await textOf(page, 'body')];
    assert.match(await stat(page, 'authenticity'), /^no checksum published$/);
    await page.click('#model-name');
    await page.until(() => document.querySelector('#stored')?.textContent?.includes('Small.bq4'));
    const labels = () =>
      page.evaluate(() => [...document.querySelectorAll('#models button')].map((one) => one.textContent?.trim()));
    assert.deepEqual([...new Set(await labels())].sort(), [
      'Close',
      'Delete',
      'Download…',
      'Find',
      'Keep',
      'Kept',
      'Open a .gguf or .bq4 file…',
      'Open a folder…',
      'Use',
      '✓ In use',
    ]);
    const colour = (/** @type {string} */ label) =>
      page.evaluate(
        (label) =>
          getComputedStyle(
            /** @type {Element} */ (
              [...document.querySelectorAll('#stored button')].find((one) => one.textContent === label)
            ),
          ).color,
        label,
      );
    assert.notEqual(await colour('Delete'), await colour('Use'), 'Delete looks like what it does');
    const names = await page.evaluate(() =>
      [...document.querySelectorAll('#stored .stored-name')].map((one) => one.firstChild?.textContent),
    );
    for (const one of ['Tiny (built in)', 'large', 'SmolLM2 135M', 'Small.bq4'])
      assert.ok(names.includes(one), `${one} in ${names}`);
    const listsSmall = (/** @type {boolean} */ there) =>
      page.until((there) => {
        const list = document.querySelector('#stored')?.textContent ?? '';
        return list.includes('Tiny') && list.includes('Small.bq4') === there;
      }, there);
    await press(page, 'Delete Small.bq4 from this browser', '#stored');
    await listsSmall(false);
    await page.click('#models-deleted button');
    await listsSmall(true);
    await press(page, 'Delete Small.bq4 from this browser', '#stored');
    await press(page, 'Delete Tiny (built in) from this browser', '#stored');
    // The deletion before is completed by the next one.
    await offline('yes, with 1 model');
    pages.push(await textOf(page, 'body'));
    await press(page, 'Close', '#models');
    await press(page, 'Dismiss this message', '#notices');
    await offline('not yet: no model stored');

    // Of a file that nobody can use: what helps, no converter that would refuse it too; its name as it is.
    const gguf = new Uint8Array(readFileSync(join(ROOT, 'models/chat.bq4')).subarray(0, 5000));
    gguf.set(Buffer.from('GGUF'));
    await openFile(page, 'iPhone.gguf', gguf);
    await waitUntilVisible(page, '[role=alert]');
    const alert = await textOf(page, '[role=alert]');
    assert.doesNotMatch(alert, /convert|export_bq4/i);
    assert.doesNotMatch(await textOf(page, '#status'), /IPhone/);
    pages.push(await textOf(page, 'body'));
    await openFile(page, 'own.bq4', new Uint8Array(readFileSync(join(ROOT, 'models/chat.bq4'))));
    await called(page, 'own.bq4');
    await whole(page);
    assert.equal(
      await page.evaluate(() => document.querySelector('[data-stat=authenticity]')?.checkVisibility()),
      false,
      'of one’s own file nothing is to be checked',
    );
    for (const text of pages) {
      assert.doesNotMatch(text, /[KMG]iB\b/);
      assert.doesNotMatch(text, /\b(Kept|Look|Go on)\b|not authenticated/);
    }
    await page.close();
  });

  test('the picture of the weights is drawn again after it was hidden', async () => {
    const page = await demo();
    await page.size(1280, 800);
    await waitUntilVisible(page, '#glimpse');
    await until('the picture', async () => (await colours(page)) > 8, { every: 100, state: () => colours(page) });
    await setFields(page, { maxTokens: '2' });
    await say(page, 'Hello!');
    assert.equal(await page.evaluate(() => document.querySelector('#glimpse')?.checkVisibility()), false);
    await press(page, 'New chat', '.bar');
    await page.until(() => document.querySelector('#glimpse')?.checkVisibility());
    await waitForValue(() => texts(page), []);
    // What is there is painted a moment later.
    await until('the picture', async () => (await colours(page)) > 8, { every: 100, state: () => colours(page) });
    await page.close();
  });
});
