// Tests of models in several files that are dropped on the demo or selected: Hugging Face folders and GGUF files in parts.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { randomParts } from '../js/gguf-writer.mjs';
import { everyBrowser, oneSite } from './every.mjs';
import { ISOLATED } from './host.mjs';
import { newPage, oneHost, openDemo, say, ready as siteReady, texts } from './site.mjs';

const CONFIG = {
  arch: 'llama',
  layers: 2,
  hidden: 64,
  heads: 2,
  kv_heads: 2,
  ffn: 128,
  vocab: 256,
  context: 128,
  norm_eps: 1e-5,
  rope_theta: 10000,
};
const PARTS = randomParts(CONFIG, 3).map((bytes) => Buffer.from(bytes).toString('base64'));
const TINY = ['config.json', 'model.safetensors', 'tokenizer.json'];

/** @param {import('./browsers.mjs').Page} page */
const ready = (page) =>
  page.until(() => {
    const send = /** @type {HTMLButtonElement | null} */ (document.querySelector('#send'));
    return (
      send &&
      !send.disabled &&
      !send.hidden &&
      ![...document.querySelectorAll('progress')].some((one) => one.checkVisibility())
    );
  });

/** Drops the tiny model, after `helpers`, and waits until it is there. @param {import('./browsers.mjs').Page} page */
async function dropTiny(page) {
  await page.evaluate(async (names) => {
    const { drop, tiny } = /** @type {any} */ (globalThis);
    drop(await tiny(names));
  }, TINY);
  await page.until(() => document.querySelector('#model-name')?.textContent === 'Your files');
  await ready(page);
}

/** In the page: functions that make files and drop them, and what the line beside the progress has said. */
function helpers() {
  const message = /** @type {string[]} */ ([]);
  new MutationObserver(() => message.push(document.querySelector('#arriving-amount')?.textContent ?? '')).observe(
    /** @type {Node} */ (document.querySelector('#arriving-amount')),
    { childList: true, characterData: true, subtree: true },
  );
  const decoded = (/** @type {string} */ base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  Object.assign(globalThis, {
    said: message,
    tiny: async (/** @type {string[]} */ names) =>
      Promise.all(
        names.map(async (name) => new File([await (await fetch(`/tests/golden/tiny/${name}`)).blob()], name)),
      ),
    parts: (/** @type {string[]} */ all) =>
      all.map((part, i) => new File([decoded(part)], `some-0000${i + 1}-of-0000${all.length}.gguf`)),
    drop: (/** @type {File[]} */ files) => {
      const data = new DataTransfer();
      for (const file of files) data.items.add(file);
      for (const type of ['dragover', 'drop'])
        document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
    },
    /** As browsers give them of a folder: some at a time. */
    entryOf: (/** @type {string} */ path, /** @type {File[]} */ files) => ({
      name: path.slice(1),
      fullPath: path,
      isDirectory: true,
      createReader: () => {
        const left = [...files];
        return {
          readEntries: (/** @type {(some: object[]) => void} */ give) =>
            give(
              left.splice(0, 2).map((file) => ({
                name: file.name,
                fullPath: `${path}/${file.name}`,
                isDirectory: false,
                file: (/** @type {(file: File) => void} */ give) => give(file),
              })),
            ),
        };
      },
    }),
  });
}

/** @param {import('./browsers.mjs').Page} page */
const name = (page) => page.evaluate(() => document.querySelector('#model-name')?.textContent ?? '');

/** Says something; the reply. @param {import('./browsers.mjs').Page} page */
async function answer(page) {
  await page.type('#message', 'He said');
  await page.click('#send');
  await ready(page);
  return page.evaluate(() => document.querySelector('[data-stat="tokens"]')?.textContent ?? '');
}

await everyBrowser((browser) => {
  const here = oneSite(browser, ISOLATED);

  async function demo() {
    const page = await here.open('demo/');
    await ready(page);
    await page.evaluate(helpers);
    return page;
  }

  test('files of a Hugging Face folder are converted with progress, then used; missing files are named, and the previous model stays', async () => {
    const page = await demo();
    const before = await name(page);
    await page.evaluate(async () => {
      const { drop, tiny } = /** @type {any} */ (globalThis);
      drop(await tiny(['model.safetensors', 'tokenizer.json']));
    });
    await page.until(() => document.querySelector('[role=alert] details'));
    assert.match(
      await page.evaluate(() => document.querySelector('[role=alert]')?.textContent ?? ''),
      /no model among these files.*\.safetensors.*NOT_A_MODEL/s,
    );
    await ready(page);
    assert.equal(await name(page), before);
    await dropTiny(page);
    const message = await page.evaluate(() => /** @type {any} */ (globalThis).said.join('\n'));
    assert.match(message, /^[\d.]+ .?B of [\d.]+ .?B converted$/m);
    assert.match(await answer(page), /^[1-9]/);
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  });

  test('Cancel during the conversion keeps the previous model, and the folder can be opened again', async () => {
    const page = await demo();
    const before = await name(page);
    await page.evaluate(async (names) => {
      const { drop, tiny } = /** @type {any} */ (globalThis);
      // With the first word of how much is converted.
      const amount = /** @type {Node} */ (document.querySelector('#arriving-amount'));
      new MutationObserver((_, observer) => {
        if (!/converted$/.test(amount.textContent ?? '')) return;
        observer.disconnect();
        document.body.dataset.pause = String(document.querySelector('#arriving-pause')?.checkVisibility());
        document.body.dataset.words = document.querySelector('#arriving-words')?.textContent ?? '';
        /** @type {HTMLElement} */ (document.querySelector('#arriving-cancel')).click();
      }).observe(amount, { childList: true, characterData: true, subtree: true });
      drop(await tiny(names));
    }, TINY);
    await page.until(() => document.querySelector('#status')?.textContent === 'Cancelled. Still using Tiny.');
    await page.until(() => !document.querySelector('#arriving')?.checkVisibility());
    await ready(page);
    assert.deepEqual(await page.evaluate(() => ({ ...document.body.dataset })), {
      pause: 'false',
      words: 'Converting Your files',
    });
    assert.equal(await name(page), before);
    assert.match(await answer(page), /^[1-9]/);
    await dropTiny(page);
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  });

  test('the files of a folder are found, the model has its name, and a reload asks to open it again', async () => {
    const page = await demo();
    await page.evaluate(async (names) => {
      const { drop, tiny, entryOf } = /** @type {any} */ (globalThis);
      const entry = entryOf('/tiny-folder', await tiny(names));
      /** @type {any} */ (DataTransferItem.prototype).webkitGetAsEntry = () => entry;
      drop([new File([], 'tiny-folder')]);
    }, TINY);
    await page.until(() => document.querySelector('#model-name')?.textContent === 'tiny-folder');
    await ready(page);
    assert.match(await answer(page), /^[1-9]/);
    await page.reload();
    await page.until(() => document.querySelector('#notices button'));
    assert.match(
      await page.evaluate(() => document.querySelector('#notices')?.textContent ?? ''),
      /To go on with “tiny-folder” \(\d+ kB\), open the file again\..*Open…/s,
    );
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  });

  test('a selected folder and the parts of a GGUF file in any order are loaded; of two models one must be selected', async () => {
    const page = await demo();
    await page.evaluate(async (names) => {
      const { tiny } = /** @type {any} */ (globalThis);
      const data = new DataTransfer();
      for (const file of await tiny(names)) {
        Object.defineProperty(file, 'webkitRelativePath', { value: `chosen/${file.name}` });
        data.items.add(file);
      }
      const input = /** @type {HTMLInputElement} */ (document.querySelector('#folder'));
      // Of a list that a script made browsers keep no places.
      Object.defineProperty(input, 'files', {
        value: [...(await tiny(names))].map((file) =>
          Object.defineProperty(file, 'webkitRelativePath', { value: `chosen/${file.name}` }),
        ),
      });
      Object.defineProperty(input, 'value', { value: '', writable: true });
      input.dispatchEvent(new Event('change'));
    }, TINY);
    await page.until(() => document.querySelector('#model-name')?.textContent === 'chosen');
    await ready(page);
    await page.evaluate((all) => {
      const { drop, parts } = /** @type {any} */ (globalThis);
      drop(parts(all).reverse());
    }, PARTS);
    await page.until(() => document.querySelector('#model-name')?.textContent === 'some.gguf');
    await ready(page);
    assert.match(
      await page.evaluate(() => document.querySelector('[data-stat="shape"]')?.textContent ?? ''),
      /llama, 2 layers/,
    );
    await page.evaluate((all) => {
      const { drop, parts } = /** @type {any} */ (globalThis);
      drop([...parts(all), new File(['x'], 'other.bq4')]);
    }, PARTS);
    await page.until(() => document.querySelector('[role=alert] details'));
    assert.match(
      await page.evaluate(() => document.querySelector('[role=alert]')?.textContent ?? ''),
      /these are 2 models: some\.gguf, other\.bq4.*one of them at a time/is,
    );
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  });
});

const chromium = oneHost();

test('a folder that may be read comes back by itself after a reload, with its conversation; a deleted one is reported (Chromium)', async () => {
  const page = await newPage(chromium.browser);
  await openDemo(page, chromium.site.url);
  // A picker can't be operated by a script: it gives a folder of the browser's own file system.
  const files = TINY.map((name) => [name, readFileSync(new URL(`../golden/tiny/${name}`, import.meta.url), 'base64')]);
  await page.evaluate(async (files) => {
    const root = await navigator.storage.getDirectory();
    const folder = await root.getDirectoryHandle('my-folder', { create: true });
    for (const [name, base64] of [...files, ['.hidden', '']]) {
      const writer = await (await folder.getFileHandle(name, { create: true })).createWritable();
      await writer.write(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)));
      await writer.close();
    }
    Object.assign(globalThis, { showDirectoryPicker: async () => folder });
  }, files);
  await page.locator('#model-name').click();
  await page.getByRole('button', { name: 'Open a folder…' }).click();
  await page.locator('#model-name', { hasText: /^my-folder$/ }).waitFor();
  await siteReady(page);
  const reply = await say(page, 'He said');
  await page.reload();
  await siteReady(page);
  assert.equal(await page.locator('#model-name').textContent(), 'my-folder');
  assert.deepEqual(await texts(page), ['He said', reply]);
  await page.evaluate(async () =>
    (await navigator.storage.getDirectory()).removeEntry('my-folder', { recursive: true }),
  );
  await page.reload();
  await page
    .locator('#notices')
    .getByText(/^“my-folder” can't be read any more/)
    .waitFor();
  assert.equal(await page.locator('#model-name').textContent(), 'Tiny (built in)');
  await siteReady(page);
  assert.deepEqual(page.trouble, []);
  await page.context().close();
});

test('a folder of the disk, dropped as a person drops it (Chromium)', async () => {
  const page = await newPage(chromium.browser);
  await openDemo(page, chromium.site.url);
  const devtools = await page.context().newCDPSession(page);
  const data = {
    items: [],
    files: [fileURLToPath(new URL('../golden/tiny', import.meta.url))],
    dragOperationsMask: 1,
  };
  for (const type of /** @type {const} */ (['dragEnter', 'dragOver', 'drop']))
    await devtools.send('Input.dispatchDragEvent', { type, x: 400, y: 300, data });
  await page.locator('#model-name', { hasText: /^tiny$/ }).waitFor();
  assert.match((await page.locator('#drop').getAttribute('hidden')) ?? 'shown', /^$/);
  assert.deepEqual(page.trouble, []);
  await page.context().close();
});
