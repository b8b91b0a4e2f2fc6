// What the tests of the demo share: a page that is watched for errors, and words for what a person does on it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { basename, extname, join } from 'node:path';
import { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { publicPath, PUBLIC, serve } from '../../tools/serve.mjs';
import { makeSite, SITE } from '../../tools/site.mjs';
import { TIMEOUT_MS } from '../waiting.mjs';
import { failOnFaults, watchPage } from './console.mjs';
import { launch } from './launch.mjs';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** @typedef {import('playwright-core').Page} Page */
/** @typedef {import('playwright-core').Browser} Browser */

/**
 * Serves the demo as hosts do, of a few files: a load takes half the CPU time of one of the sources. Modules that a test imports
 * alone come of these. BQ4_SOURCES=1 serves all of them, for stack traces that can be read.
 */
export async function serveDemo() {
  if (process.env.BQ4_SOURCES) return serve({ root: ROOT });
  await makeSite();
  return serve({ root: SITE, sources: ROOT });
}

/** Chromium and the demo, for the tests of a file: there once these begin, gone when they are done. @param {{ sources?: boolean }} [options] */
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
 * Opens a page in a context of its own, without service workers: the demo's reads and stores the whole page again, which takes
 * more of the processor than all else that the page does. Tests about it say `serviceWorkers: 'allow'`. `page.trouble` collects
 * what went wrong on the page: exceptions, console errors, violations of the content security policy.
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
  context.setDefaultTimeout(1000 * TIMEOUT_MS);
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

/** Requests that match wait until what this returns is called. @param {Page} page @param {string} pattern */
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

/** Requests that fail are repeated without a pause. @param {Page} page  before it is opened */
export const repeatAtOnce = (page) =>
  page.addInitScript(() => {
    /** @type {any} */ (globalThis)[Symbol.for('bq4.timeouts')] = { retryDelay: 0 };
  });

/** Opens the demo and waits until its model is ready. @param {Page} page @param {string} url */
export async function openDemo(page, url) {
  await page.goto(url);
  await ready(page);
}

/** @param {Page} page */
export const ready = (page) =>
  page.waitForFunction(() => {
    const send = /** @type {HTMLButtonElement | null} */ (document.querySelector('#send'));
    return send && !send.disabled && !send.hidden;
  });

/** Opens a model's file and waits until that model answers: the one in use goes on meanwhile. @param {Page} page @param {string} path */
export async function useFile(page, path) {
  await ui(page).file.setInputFiles(path);
  await page.locator('#model-name', { hasText: basename(path) }).waitFor();
  await ready(page);
  await page.locator('#arriving').waitFor({ state: 'hidden' });
}

/** A page as if nothing had been said, set or opened on it before: a load would take seconds. @param {Page} page */
export async function anew(page) {
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
    for (const one of document.querySelectorAll('[aria-label="Dismiss this message"]'))
      /** @type {HTMLElement} */ (one).click();
  });
}

/** @param {Page} page */
export const ui = (page) => ({
  message: page.getByRole('textbox', { name: 'Message' }),
  send: page.getByRole('button', { name: 'Send', exact: true }),
  stop: page.getByRole('button', { name: 'Stop', exact: true }),
  newChat: page.getByRole('button', { name: 'New chat' }).first(),
  regenerate: page.getByRole('button', { name: 'Regenerate' }),
  details: page.locator('#details-toggle'),
  log: page.getByRole('log'),
  messages: page.getByRole('log').getByRole('article'),
  status: page.getByRole('status'),
  alert: page.getByRole('alert'),
  file: page.locator('#file'),
  models: page.locator('#model-name'),
});

/** The whole conversation as texts, without buttons and notes. @param {Page} page */
export const texts = (page) => page.locator('[role=log] article .text').allTextContents();

/** Says something and waits for the end of the reply. @param {Page} page @param {string} text */
export async function say(page, text) {
  await ui(page).message.fill(text);
  await ui(page).send.click();
  await ready(page);
  const reply = (await texts(page)).at(-1);
  assert.ok(reply !== undefined, `expected a reply to "${text}", found no messages`);
  return reply;
}

/** @param {Page} page @param {string} name of a figure in the details */
export const stat = async (page, name) => (await page.locator(`[data-stat="${name}"]`).textContent()) ?? '';

/** Waits until the page says that it works without a network. @param {Page} page */
export const kept = (page) => page.locator('[data-stat="offline"]', { hasText: /^yes/ }).waitFor({ state: 'attached' });

/** @param {Page} page @param {Record<string, string>} values */
export async function sample(page, values) {
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
 * The plainest of hosts: files under a folder, types for what needs one, no other header, no ranges.
 * @param {string} base  '/some/folder'
 * @param {Record<string, string>} [before]  text to put before a file's own
 * @returns {Promise<{ url: string, paths: string[], hold: boolean, release: () => void, close: () => Promise<void> }>}  `paths`: what was asked
 *   for; `hold`: nothing is answered, until `release`
 */
export async function plainHost(base, before = {}) {
  /** @type {string[]} */
  const paths = [];
  const record = {
    url: '',
    paths,
    hold: false,
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
      response.setHeader('Content-Type', TYPES[extname(path) || '.html'] ?? 'application/octet-stream');
      response.end(before[path] ? before[path] + body : body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  record.url = `http://localhost:${port}${base}/demo/`;
  return record;
}
