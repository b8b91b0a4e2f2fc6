// Helpers for tests of the demo in Chromium: pages that are watched for errors, and actions of a user.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { basename, extname, join } from 'node:path';
import { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { publicPath, PUBLIC, serve } from '../../tools/serve.mjs';
import { makeSite, SITE } from '../../tools/site.mjs';
import { TIMEOUT_SECONDS } from '../waiting.mjs';
import { failOnFaults, watchPage } from './console.mjs';
import { launch } from './launch.mjs';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** @typedef {import('playwright-core').Page} Page */
/** @typedef {import('playwright-core').Browser} Browser */

/**
 * Serves the built demo, which consists of a few files: it loads in half the CPU time of the sources. Modules that only a test imports are
 * served from the sources. BQ4_SOURCES=1 serves only sources, for readable stack traces.
 */
export async function serveDemo() {
  if (process.env.BQ4_SOURCES) return serve({ root: ROOT });
  await makeSite();
  return serve({ root: SITE, sources: ROOT });
}

/** Chromium and a server of the demo, for all tests of a file. @param {{ sources?: boolean }} [options]  `sources`: serves the sources */
export function oneHost({ sources = false } = {}) {
  const here = {
    browser: /** @type {Browser} */ (/** @type {any} */ (null)),
    site: /** @type {Awaited<ReturnType<typeof serve>>} */ (/** @type {any} */ (null)),
  };
  failOnFaults();
  before(async () => {
    here.browser = await launch();
    here.site = await (sources ? serve({ root: ROOT }) : serveDemo());
  });
  after(async () => {
    await here.browser?.close();
    await here.site?.close();
  });
  return here;
}

/**
 * Opens a page in a context of its own. Service workers are blocked, because the demo's stores all files of the page, which takes more CPU
 * time than the page itself; tests of service workers pass `serviceWorkers: 'allow'`. `page.trouble` collects the faults of the page:
 * exceptions, console errors, violations of the Content-Security-Policy.
 * @param {Browser} browser
 * @param {import('playwright-core').BrowserContextOptions} [options]
 * @returns {Promise<Page & { trouble: string[] }>}
 */
export async function newPage(browser, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    serviceWorkers: 'block',
    ...options,
  });
  context.setDefaultTimeout(1000 * TIMEOUT_SECONDS);
  const page = await context.newPage();
  /** @type {string[]} */
  const trouble = [];
  watchPage(page);
  page.on('pageerror', (error) => trouble.push(`exception: ${error.stack}`));
  page.on('console', (message) => {
    if (message.type() === 'error') trouble.push(`console: ${message.text()} (${message.location().url})`);
  });
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', (e) =>
      console.error(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}`),
    );
  });
  return Object.assign(page, { trouble });
}

/** Delays requests that match. @param {Page} page @param {string} pattern @returns {Promise<() => void>} a function that releases them */
export async function holdRequests(page, pattern) {
  let release = () => {};
  /** @type {Promise<void>} */
  const released = new Promise((resolve) => (release = resolve));
  await page.route(pattern, async (route) => {
    await released;
    await route.continue();
  });
  return release;
}

/** Makes the engine repeat failed requests without a pause. @param {Page} page  before its first navigation */
export const repeatAtOnce = (page) =>
  page.addInitScript(() => {
    /** @type {any} */ (globalThis)[Symbol.for('bq4.timeouts')] = { retryDelay: 0 };
  });

/** Opens the demo and waits until its model is ready. @param {Page} page @param {string} url */
export async function openDemo(page, url) {
  await page.goto(url);
  await ready(page);
}

/** Waits until the demo can send a message. @param {Page} page */
export const ready = (page) =>
  page.waitForFunction(() => {
    const send = /** @type {HTMLButtonElement | null} */ (document.querySelector('#send'));
    return send && !send.disabled && !send.hidden;
  });

/** Opens a model's file and waits until the demo uses that model. Until then the previous model stays in use. @param {Page} page @param {string} path */
export async function useFile(page, path) {
  await ui(page).file.setInputFiles(path);
  await page.locator('#model-name', { hasText: basename(path) }).waitFor();
  await ready(page);
  await page.locator('#arriving').waitFor({ state: 'hidden' });
}

/** Resets the demo: a new chat, default settings, no open dialogs, no stored conversations. It is faster than loading the page again. @param {Page} page */
export async function resetPage(page) {
  await ready(page);
  await page.evaluate(() => {
    const press = (/** @type {string} */ selector) =>
      /** @type {HTMLElement} */ (document.querySelector(selector)).click();
    for (const dialog of document.querySelectorAll('dialog[open]')) /** @type {HTMLDialogElement} */ (dialog).close();
    press('#reset');
    press('#new-chat');
    if (document.querySelector('#details')?.checkVisibility()) press('#details-toggle');
  });
  await page.locator('[role=status]', { hasText: 'New chat.' }).waitFor();
  await page.evaluate(() => {
    for (const key of Object.keys(localStorage))
      if (/^bq4\.(chat|draft|edit)\./.test(key)) localStorage.removeItem(key);
    for (const button of document.querySelectorAll('[aria-label="Dismiss this message"]'))
      /** @type {HTMLElement} */ (button).click();
  });
}

/** Locators of the demo's elements. @param {Page} page */
export const ui = (page) => ({
  message: page.getByRole('textbox', { name: 'Message' }),
  send: page.getByRole('button', { name: 'Send', exact: true }),
  stop: page.getByRole('button', { name: 'Stop', exact: true }),
  newChat: page.getByRole('button', { name: 'New chat' }).first(),
  regenerate: page.getByRole('button', { name: 'Regenerate' }).last(),
  details: page.locator('#details-toggle'),
  log: page.getByRole('log'),
  messages: page.getByRole('log').getByRole('article'),
  status: page.getByRole('status'),
  alert: page.getByRole('alert'),
  file: page.locator('#file'),
  models: page.locator('#model-name'),
});

/** The texts of all messages, without buttons and notes. @param {Page} page */
export const texts = (page) => page.locator('[role=log] article .text').allTextContents();

/** Sends a message and waits for the end of the reply. @param {Page} page @param {string} text @returns {Promise<string>} the reply */
export async function say(page, text) {
  await ui(page).message.fill(text);
  await ui(page).send.click();
  await ready(page);
  const reply = (await texts(page)).at(-1);
  assert.ok(reply !== undefined, `expected a reply to "${text}", found no messages`);
  return reply;
}

/** The text of a figure in the details. @param {Page} page @param {string} name */
export const stat = async (page, name) => (await page.locator(`[data-stat="${name}"]`).textContent()) ?? '';

/** Waits until the page shows that it works without a network. @param {Page} page */
export const waitUntilOffline = (page) =>
  page.locator('[data-stat="offline"]', { hasText: /^yes/ }).waitFor({ state: 'attached' });

/** Sets sampling options in the demo's settings. @param {Page} page @param {Record<string, string>} values */
export async function setSampling(page, values) {
  await page.evaluate((values) => {
    for (const [name, value] of Object.entries(values)) {
      const field = /** @type {HTMLInputElement} */ (document.querySelector(`#sampling [name="${name}"]`));
      field.value = value;
      for (const type of ['input', 'change']) field.dispatchEvent(new Event(type, { bubbles: true }));
    }
  }, values);
}

/** @type {Record<string, string>} */
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };

/**
 * A minimal server: files below a path, with Content-Type for a few types, without other headers and without ranges.
 * @param {string} base  '/some/folder'
 * @param {Record<string, string>} [prefixes]  text to insert before the text of a file, by path
 * @returns {Promise<{ url: string, paths: string[], hold: boolean, isReplaced: (path: string) => boolean, release: () => void, close: () => Promise<void> }>}  `paths`: paths of
 *   all responses; `hold`: while it is true, requests get no response; `release`: ends that; `isReplaced`: whether a page of HTML is sent
 *   in place of the file with this path
 */
export async function plainHost(base, prefixes = {}) {
  /** @type {string[]} */
  const paths = [];
  const record = {
    url: '',
    paths,
    hold: false,
    isReplaced: (/** @type {string} */ _path) => false,
    release: () => {
      record.hold = false;
      server.closeAllConnections();
    },
    close: () =>
      new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  const server = createServer((request, response) => {
    const target = String(request.url);
    const path = target.startsWith(base) ? publicPath(target.slice(base.length), PUBLIC) : undefined;
    if (record.hold) return;
    try {
      assert.ok(path);
      const body = readFileSync(join(ROOT, path.endsWith('/') ? `${path}index.html` : path));
      paths.push(path);
      if (record.isReplaced(path)) return void response.setHeader('Content-Type', 'text/html').end('Maintenance');
      response.setHeader('Content-Type', TYPES[extname(path) || '.html'] ?? 'application/octet-stream');
      response.end(prefixes[path] ? prefixes[path] + body : body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  record.url = `http://localhost:${port}${base}/demo/`;
  return record;
}
