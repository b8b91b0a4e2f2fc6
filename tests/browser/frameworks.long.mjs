// Tests of the installed package in Parcel, in Next on client and server, and in an extension of Chromium, with the recipes of
// docs/guides/bundlers.md.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';
import { findChromium } from '../../tools/setup/system.mjs';
import { appFolder, consumers, programs } from '../consumers/install.mjs';
import { examples, sections } from '../js/api-doc.mjs';
import { inTime } from '../waiting.mjs';
import { makeApp, MODEL, repliesInNode, checkSharing } from './bundled.mjs';
import { failOnFaults } from './console.mjs';
import { FLAGS, launch, missing } from './launch.mjs';
import { folderHost } from './packed.mjs';
import { newPage, ROOT } from './site.mjs';

failOnFaults();

const ISOLATED = { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' };
const PAGE = readFileSync(join(ROOT, 'tests/browser/bundled/page.js'), 'utf8');
const TABS = readFileSync(join(ROOT, 'tests/browser/bundled/shared.js'), 'utf8');
const exec = promisify(execFile);

describe('the package, in', { skip: missing() }, () => {
  /** @type {string} */
  let above;
  /** @type {ReturnType<typeof appFolder>} */
  let app;
  /** @type {import('playwright-core').Browser} */
  let browser;
  /** @type {import('./bundled.mjs').Replies} */
  let message;
  before(
    async () => {
      above = await consumers();
      app = appFolder(above);
      message = await repliesInNode();
      browser = await launch();
    },
    { timeout: 600_000 },
  );
  after(async () => {
    await browser?.close();
    app?.remove();
  });

  /** A folder of the app. @param {string} name */
  function folder(name) {
    const place = join(app.folder, name);
    mkdirSync(place, { recursive: true });
    return place;
  }

  /**
   * @param {import('playwright-core').Page & { trouble: string[] }} page @param {string} url
   * @param {string} [script]  for a page that has another one
   */
  async function works(page, url, script) {
    await page.goto(url);
    if (script) await page.addScriptTag({ url: script, type: 'module' });
    const result = await page.waitForFunction(() => /** @type {any} */ (window).result, null, { timeout: 60_000 });
    const { ids } = message;
    const says = { ids, paged: ids, residency: 'paged', threads: 2, worker: true, store: 'opfs' };
    assert.deepEqual(await result.jsonValue(), says, page.trouble.join('\n'));
    assert.deepEqual(page.trouble, []);
  }

  /** @param {string} program @param {string[]} words @param {string} cwd */
  const run = (program, words, cwd) =>
    exec(process.execPath, [program, ...words], { cwd, env: { ...process.env, NEXT_TELEMETRY_DISABLED: '1' } });

  /** A page that Parcel has built. @param {string} name @param {string[]} words @param {import('./bundled.mjs').Kind} [kind] */
  async function parcelled(name, words, kind = 'show') {
    const place = folder(name);
    makeApp(place, kind);
    const build = ['build', 'index.html', '--no-cache', '--dist-dir', 'out', '--public-url', './', ...words];
    await run(programs(above).parcel, build, place);
    cpSync(MODEL, join(place, 'out/chat.bq4'));
    return folderHost(join(place, 'out'), { headers: ISOLATED });
  }

  test('Parcel', async () => {
    const [, option] = /`parcel build (.*?)`/.exec(String(sections.get('Bundlers'))) ?? [];
    const site = await parcelled('parcel', [option]);
    const page = await newPage(browser);
    await works(page, site.url);
    await page.context().close();
    await site.close();
  });

  test('Parcel: tabs share an engine with the setting for the entry', async () => {
    const [, option] = /`parcel build (.*?)`/.exec(String(sections.get('Bundlers'))) ?? [];
    const place = folder('parcel-tabs');
    writeFileSync(join(place, 'package-lock.json'), '{}\n'); // where its project begins
    writeFileSync(join(place, 'package.json'), '{}\n');
    const [, found] = /"(Cannot load\s.*? from module 'bq4')"/s.exec(String(sections.get('Bundlers'))) ?? [];
    await assert.rejects(parcelled('parcel-tabs', [option], 'share'), (/** @type {any} */ error) =>
      error.stderr.includes(found.replace('\n', ' ')),
    );
    writeFileSync(join(place, 'package.json'), (examples.get('Bundlers') ?? [])[1].code);
    const site = await parcelled('parcel-tabs', [option], 'share');
    await checkSharing(browser, site.url, message);
    await site.close();
  });

  test('Parcel without the setting omits a module, and the error names the option', async () => {
    const site = await parcelled('parcel-plain', []);
    const page = await newPage(browser);
    await page.goto(site.url);
    const result = await page.waitForFunction(() => /** @type {any} */ (window).result);
    const { error, code, hint } = await result.jsonValue();
    assert.equal(code, 'NO_WORKER', error);
    assert.match(hint, /Parcel.*--no-scope-hoist/);
    await page.context().close();
    await site.close();
  });

  /** Next's app. @param {string} name @param {string} config */
  async function nextApp(name, config) {
    const place = folder(name);
    cpSync(join(ROOT, 'tests/consumers/next'), place, { recursive: true });
    writeFileSync(join(place, 'next.config.mjs'), config);
    for (const [file, code] of Object.entries({ 'page.js': PAGE, 'shared.js': TABS }))
      writeFileSync(join(place, file), code.replaceAll("'chat.bq4'", "'/chat.bq4'"));
    mkdirSync(join(place, 'public'));
    cpSync(MODEL, join(place, 'public/chat.bq4'));
    const { next } = programs(above);
    await run(next, ['build'], place);
    const port = await freePort();
    const server = spawn(process.execPath, [next, 'start', '-p', String(port), '-H', '127.0.0.1'], {
      cwd: place,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let messageText = '';
    const ready = new Promise((resolve, reject) => {
      for (const stream of [server.stdout, server.stderr])
        stream.on('data', (text) => {
          messageText += text;
          if (/Ready in/.test(messageText)) resolve(undefined);
        });
      server.on('exit', () => reject(new Error(messageText)));
    });
    await inTime('Next', ready, { state: () => messageText });
    return {
      url: `http://127.0.0.1:${port}/`,
      said: () => messageText,
      close: () => new Promise((resolve) => server.on('exit', resolve).kill()),
    };
  }

  test('Next: an engine on the server renders the page, and another one runs in the page', async () => {
    const site = await nextApp('next', (examples.get('Next') ?? [])[0].code);
    try {
      const page = await newPage(browser);
      await works(page, site.url);
      assert.deepEqual(JSON.parse(await page.locator('pre').innerText()), message.ids);
      await page.context().close();
      await checkSharing(browser, `${site.url}tabs`, message);
    } finally {
      await site.close();
    }
  });

  test('Next without the recipe: the error of the server names the cause and the setting', async () => {
    const site = await nextApp('next-plain', 'export default {};\n');
    try {
      assert.equal((await fetch(site.url)).status, 500);
      assert.match(site.said(), /NO_ENGINE/);
      assert.match(site.said(), /serverExternalPackages/);
    } finally {
      await site.close();
    }
  });

  test('an extension (Manifest V3)', async () => {
    const place = folder('extension');
    cpSync(join(ROOT, 'examples/extension'), place, { recursive: true });
    cpSync(join(app.folder, 'node_modules'), join(place, 'node_modules'), { recursive: true });
    cpSync(MODEL, join(place, 'chat.bq4'));
    const from = "'./node_modules/bq4/dist/index.js'";
    writeFileSync(join(place, 'check.js'), `${PAGE.replace("'bq4'", from)}\nshow();\n`);
    const recipe = JSON.parse((examples.get('Extensions') ?? [])[0].code);
    const manifest = JSON.parse(readFileSync(join(place, 'manifest.json'), 'utf8'));
    assert.deepEqual({ ...manifest, ...recipe, name: manifest.name }, manifest, "the recipe's manifest is within it");
    const context = await chromium.launchPersistentContext(folder('profile'), {
      executablePath: String(findChromium()),
      args: [...FLAGS, '--headless=new', `--disable-extensions-except=${place}`, `--load-extension=${place}`],
      ignoreDefaultArgs: ['--disable-extensions', '--headless'],
    });
    try {
      const worker = context.serviceWorkers()[0] ?? (await context.waitForEvent('serviceworker'));
      const page = Object.assign(await context.newPage(), { trouble: /** @type {string[]} */ ([]) });
      page.on('pageerror', (error) => page.trouble.push(String(error)));
      page.on('console', (message) => message.type() === 'error' && page.trouble.push(message.text()));
      const answered = (/** @type {number} */ longer) =>
        page.waitForFunction(
          (than) =>
            document.querySelector('#status')?.textContent === 'Done.' &&
            Number(document.querySelector('#answer')?.textContent?.length) > than,
          longer,
          { timeout: 60_000 },
        );
      /** Stores a request as the handler of the context menu does. @param {string} text */
      const select = (text) =>
        worker.evaluate((request) => /** @type {any} */ (globalThis).chrome.storage.session.set({ request }), { text });
      await select('a dog');
      const panel = new URL('panel.html?model=chat.bq4', worker.url()).href;
      await page.goto(panel);
      await answered(0);
      assert.equal(await page.inputValue('#words'), 'a dog');
      await select('a cat');
      await page.waitForFunction(() => /** @type {any} */ (document.querySelector('#words')).value === 'a cat');
      await answered(0);
      await worker.evaluate(() => /** @type {any} */ (globalThis).chrome.contextMenus.update('explain', {}));
      await works(page, panel, 'check.js');
    } finally {
      await context.close();
    }
  });
});

/** A port that nobody listens on. @returns {Promise<number>} */
async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  await new Promise((resolve) => server.close(resolve));
  return port;
}
