// Scripts or models from another origin than the page's: the recipe of docs/guides/bundlers.md, and errors that name the cause.
// Pages that Document-Isolation-Policy isolates, alone and in a frame of another origin's page.
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { engineOptions, examples } from '../js/api-doc.mjs';
import { MODEL, repliesInNode, checkSharing } from './bundled.mjs';
import { failOnFaults } from './console.mjs';
import { launch, missing } from './launch.mjs';
import { folderHost, installPacked } from './packed.mjs';
import { newPage, ROOT } from './site.mjs';

failOnFaults();

const ISOLATED = { 'cross-origin-opener-policy': 'same-origin', 'cross-origin-embedder-policy': 'require-corp' };
/** Isolates a page in Chromium without requirements for pages that it opens or that embed it. */
const ISOLATED_DOCUMENT = { 'document-isolation-policy': 'isolate-and-require-corp' };
const SHARED = { 'access-control-allow-origin': '*', 'cross-origin-resource-policy': 'cross-origin' };
const HTML =
  '<!doctype html><title>bq4</title><link rel="icon" href="data:,"><script type="module" src="app.js"></script>';
/** What README has a host send. @param {string} [more] */
const policy = (more = '') => ({
  'content-security-policy': `default-src 'self'; img-src 'self' data:; script-src 'self' 'wasm-unsafe-eval'${more}`,
});

describe('other origins', { skip: missing() }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-origins-'));
  const site = mkdtempSync(join(tmpdir(), 'bq4-site-'));
  /** @type {import('playwright-core').Browser} */
  let browser;
  /** Has the package, and a model. @type {Awaited<ReturnType<typeof folderHost>>} */
  let other;
  /** @type {import('./bundled.mjs').Replies} */
  let message;
  before(async () => {
    installPacked(folder);
    cpSync(MODEL, join(folder, 'chat.bq4'));
    cpSync(MODEL, join(site, 'chat.bq4'));
    writeFileSync(join(site, 'index.html'), HTML);
    other = await folderHost(folder, { headers: SHARED });
    message = await repliesInNode();
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await other?.close();
    for (const output of [folder, site]) rmSync(output, { recursive: true });
  });

  /**
   * What a page of the site's `app.js` says.
   * @param {Record<string, string>} files  of the site
   * @param {Record<string, string>} headers  of the site
   */
  async function says(files, headers) {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(site, name), text);
    const host = await folderHost(site, { headers });
    const page = await newPage(browser);
    await page.goto(host.url);
    const result = await page.waitForFunction(() => /** @type {any} */ (window).result, null, { timeout: 60_000 });
    const messageText = await result.jsonValue();
    const { trouble } = page;
    await page.context().close();
    await host.close();
    return { said: messageText, trouble };
  }

  /** The bundlers' page, with the package of the other origin. @param {string} options */
  const app = (options) =>
    `${readFileSync(join(ROOT, 'tests/browser/bundled/page.js'), 'utf8').replace("'bq4'", `'${other.url}node_modules/bq4/dist/index.js'`)}\nshow(${options});\n`;
  const recipe = () => {
    const [worker, thread, page] = examples.get('Other origins') ?? [];
    const from = (/** @type {string} */ code) => code.replace('https://cdn.example/', `${other.url}node_modules/`);
    return {
      'app.js': app(engineOptions(page)),
      'bq4-worker.js': from(worker.code),
      'bq4-thread.js': from(thread.code),
    };
  };
  const works = { residency: 'paged', threads: 2, worker: true, store: 'opfs' };

  test('the package works from another origin with two files of one line each', async () => {
    const { said: result, trouble } = await says(recipe(), ISOLATED);
    assert.deepEqual(result, { ...works, ids: message.ids, paged: message.ids });
    assert.deepEqual(trouble, []);
  });

  test('the package from another origin works under a strict policy with that origin', async () => {
    const { origin } = new URL(other.url);
    const { said: result, trouble } = await says(recipe(), {
      ...ISOLATED,
      ...policy(` ${origin}; connect-src 'self' ${origin}`),
    });
    assert.deepEqual(result, { ...works, ids: message.ids, paged: message.ids });
    // The worker that reads pages can't begin there: the engine's own reads them.
    assert.deepEqual(
      trouble.filter((line) => !/io-worker/.test(line)),
      [],
    );
  });

  test('tabs share an engine of the package from another origin', async () => {
    const page = readFileSync(join(ROOT, 'tests/browser/bundled/shared.js'), 'utf8');
    const from = `'${other.url}node_modules/bq4/dist/shared.js'`;
    const options = engineOptions((examples.get('Other origins') ?? [])[2]);
    const app = `${page.replace("'bq4/shared'", from)}\nshare(${options});\n`;
    for (const [name, text] of Object.entries({ ...recipe(), 'app.js': app })) writeFileSync(join(site, name), text);
    const host = await folderHost(site, { headers: ISOLATED });
    await checkSharing(browser, host.url, message);
    await host.close();
  });

  test('without the recipe the error names it', async () => {
    const { said: result } = await says({ 'app.js': app('') }, ISOLATED);
    assert.equal(result.code, 'NO_WORKER', result.error);
    assert.match(result.hint, /origin of the page.*docs\/guides\/bundlers\.md/);
  });

  /** A page of its own package that loads the other origin's model. */
  const loads = () => ({
    'app.js': `import { createWorkerEngine } from './bq4/dist/index.js';
const engine = await createWorkerEngine({ threads: 1, cache: false });
engine.load('${other.url}chat.bq4', { contextTokens: 64 }).then(
  async (model) => (await model.generate('Once', { temperature: 0, maxTokens: 8 }).result).tokens,
  ({ code, message, hint }) => ({ code, message, hint }),
).then((result) => Object.assign(window, { result }));
`,
  });
  /** The package beside the page. */
  const beside = () => cpSync(join(folder, 'node_modules/bq4'), join(site, 'bq4'), { recursive: true });

  const ownPackage = () => ({ 'app.js': app('').replace(`${other.url}node_modules/bq4`, './bq4') });

  test('Document-Isolation-Policy as the only header enables threads', async () => {
    beside();
    const { said: result, trouble } = await says(ownPackage(), ISOLATED_DOCUMENT);
    assert.deepEqual(result, { ...works, ids: message.ids, paged: message.ids });
    assert.deepEqual(trouble, []);
    const { said: withoutHeader } = await says(ownPackage(), {});
    assert.deepEqual(withoutHeader, { ...result, threads: 1 });
  });

  test("Document-Isolation-Policy enables threads in a frame of another origin's page, which has no headers", async () => {
    beside();
    writeFileSync(join(site, 'app.js'), ownPackage()['app.js']);
    const host = await folderHost(site, { headers: ISOLATED_DOCUMENT });
    writeFileSync(
      join(folder, 'embedding.html'),
      `<!doctype html><title>page</title><iframe src="${host.url}"></iframe>`,
    );
    const page = await newPage(browser);
    await page.goto(`${other.url}embedding.html`);
    const frame = page.frames()[1];
    await frame.waitForFunction(() => /** @type {any} */ (window).result, null, { timeout: 60_000 });
    const result = await frame.evaluate(() => /** @type {any} */ (window).result);
    assert.deepEqual(result, { ...works, ids: message.ids, paged: message.ids });
    assert.equal(await page.evaluate(() => crossOriginIsolated), false);
    await page.context().close();
    await host.close();
  });

  test("a model from another origin under README's policy: the error names connect-src and the origin", async () => {
    beside();
    const { origin } = new URL(other.url);
    const refused = (await says(loads(), policy())).said;
    assert.equal(refused.code, 'NETWORK');
    assert.match(refused.message, /the Content-Security-Policy forbids it/);
    assert.ok(refused.hint.startsWith(`add ${origin} to connect-src`), refused.hint);
    assert.deepEqual((await says(loads(), policy(`; connect-src 'self' ${origin}`))).said, message.ids);
  });
});
