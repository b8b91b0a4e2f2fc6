// Groups of tests that run in several browsers, and browsers that the groups of a file share. A browser that is not available is reported
// as a skipped test with the reason.
import { after, before, describe, test } from 'node:test';
import { failOnFaults } from './console.mjs';
import { NAMES, skip, start as startBrowser } from './browsers.mjs';
import { host, ISOLATED } from './host.mjs';

/** @typedef {import('./browsers.mjs').Name} Name */
/** @typedef {import('./browsers.mjs').Browser} Browser */

/** Milliseconds after which an unused browser is closed. */
const IDLE_MS = 3000;

/** A browser and the number of groups of tests that use it. @typedef {{ browser: Promise<Browser>, users: number }} SharedBrowser */

/** One browser of each kind for all tests of a process. @type {Map<Name, SharedBrowser>} */
const sharedBrowsers = new Map();
/** Timers that close unused browsers. @type {Map<Name, NodeJS.Timeout>} */
const idleTimers = new Map();

/** The shared browser of a kind. It is started for the first call, and again after it was killed. @param {Name} name @returns {Promise<SharedBrowser>} */
async function sharedBrowser(name) {
  const last = await sharedBrowsers.get(name)?.browser.catch(() => undefined);
  if (!last?.alive)
    sharedBrowsers.set(name, { browser: startBrowser(name), users: sharedBrowsers.get(name)?.users ?? 0 });
  return /** @type {SharedBrowser} */ (sharedBrowsers.get(name));
}

/** Closes the shared browser of a kind if no group uses it. @param {Name} name */
function closeIdle(name) {
  const entry = sharedBrowsers.get(name);
  if (!entry || entry.users > 0) return;
  sharedBrowsers.delete(name);
  entry.browser.then(
    (browser) => browser.close(),
    () => {},
  );
}

/**
 * The shared browser of a kind. Pages are opened in the one that runs at that time: if a browser does not answer, it is killed and replaced.
 * @param {Name} name
 * @returns {Promise<Browser>}  its `close` closes only the pages that were opened with this object
 */
export async function start(name) {
  const entry = await sharedBrowser(name);
  entry.users++;
  const browser = await entry.browser;
  /** @type {import('./browsers.mjs').Page[]} */
  const pages = [];
  return {
    ...browser,
    async open(url) {
      const page = await (await (await sharedBrowser(name)).browser).open(url);
      pages.push(page);
      return page;
    },
    async close() {
      for (const page of pages.splice(0)) await page.close();
      const entry = sharedBrowsers.get(name);
      if (!entry || --entry.users > 0) return;
      clearTimeout(idleTimers.get(name));
      idleTimers.set(name, setTimeout(closeIdle, IDLE_MS, name));
    },
  };
}

/** Closes unused browsers at once: after the last group of tests the process would only wait for their timers. */
function closeAllIdle() {
  for (const [name, timer] of idleTimers) {
    clearTimeout(timer);
    closeIdle(name);
  }
}

/** The browsers of BQ4_BROWSERS, or `names` if it is not set. @param {readonly Name[]} names */
const selectBrowsers = (names) => /** @type {readonly Name[]} */ (process.env.BQ4_BROWSERS?.split(',') ?? names);

/** Declares a group of tests for each browser. @param {(name: Name) => void} declare  declares tests and hooks */
export const everyBrowser = (declare) => inBrowsers(declare, NAMES);

/** Declares a group of tests for Chromium; `npm run test:long` runs it in the other browsers, too.
 * @param {(name: Name) => void} declare  declares tests and hooks */
export const chromiumFirst = (declare) => inBrowsers(declare, ['chromium']);

/** @param {(name: Name) => void} declare @param {readonly Name[]} names */
async function inBrowsers(declare, names) {
  failOnFaults();
  after(closeAllIdle);
  const selection = selectBrowsers(names);
  // Awaited before the first group: node:test mistakes a pause between groups for the end of the file.
  const reasons = await Promise.all(selection.map(skip));
  for (const [i, name] of selection.entries()) {
    const reason = reasons[i];
    if (reason) test(name, { skip: reason });
    else describe(name, () => declare(name));
  }
}

/**
 * A site and a browser for the tests of the group in whose declaration it is called.
 * @param {import('./browsers.mjs').Name} name
 * @param {Record<string, string>} [headers]  of the site's pages
 * @param {Parameters<typeof host>[1]} [options]
 */
export function oneSite(name, headers = {}, options = {}) {
  const here = {
    /** @type {import('./browsers.mjs').Browser} */
    browser: /** @type {any} */ (null),
    /** @type {Awaited<ReturnType<typeof host>>} */
    site: /** @type {any} */ (null),
    /** A new page of the site. @param {string} [path] */
    open: (path = '') => here.browser.open(here.site.url + path),
  };
  before(async () => {
    here.browser = await start(name);
    here.site = await host(headers, options);
  });
  after(async () => {
    await here.browser?.close();
    await here.site?.close();
  });
  return here;
}

/**
 * Declares a group of tests on a site without special headers, and one on a site whose pages are cross-origin isolated.
 * @param {import('./browsers.mjs').Name} name
 * @param {(here: { isolated: boolean, open: () => Promise<import('./browsers.mjs').Page> }) => void} declare  declares tests; `open` opens a
 *   new page of the site
 */
export function everyHost(name, declare) {
  for (const [kind, headers] of Object.entries({ 'as any host serves it': {}, isolated: ISOLATED })) {
    describe(`a page ${kind}`, () => {
      const here = oneSite(name, headers);
      declare({ isolated: headers === ISOLATED, open: () => here.open() });
    });
  }
}
