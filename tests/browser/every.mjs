// A group of tests for each browser; one that can't be had here is a skipped test that says why.
import { after, before, describe, test } from 'node:test';
import { failOnFaults } from './console.mjs';
import { NAMES, skip, start as startOwn } from './browsers.mjs';
import { host, ISOLATED } from './host.mjs';

/** @typedef {import('./browsers.mjs').Name} Name */
/** @typedef {import('./browsers.mjs').Browser} Browser */

/** Milliseconds that a browser may have nothing to do before it ends. */
const IDLE_MS = 3000;

/** One browser of each kind for all tests of a process, and how many groups of tests use it. @type {Map<Name, { started: Promise<Browser>, users: number }>} */
const shared = new Map();
/** Ends that are due. @type {Map<Name, NodeJS.Timeout>} */
const idle = new Map();

/** The one that lives, or another. @param {Name} name */
async function current(name) {
  const last = await shared.get(name)?.started.catch(() => undefined);
  if (!last?.alive) shared.set(name, { started: startOwn(name), users: shared.get(name)?.users ?? 0 });
  return /** @type {{ started: Promise<Browser>, users: number }} */ (shared.get(name));
}

/** @param {Name} name */
function endIdle(name) {
  const one = shared.get(name);
  if (!one || one.users > 0) return;
  shared.delete(name);
  one.started.then(
    (browser) => browser.close(),
    () => {},
  );
}

/**
 * The browser that all share; where it was killed because it hung, the next one.
 * @param {Name} name
 * @returns {Promise<Browser>}  its `close` closes the pages that were opened here
 */
export async function start(name) {
  const first = await current(name);
  first.users++;
  const browser = await first.started;
  /** @type {import('./browsers.mjs').Page[]} */
  const pages = [];
  return {
    ...browser,
    async open(url) {
      const page = await (await (await current(name)).started).open(url);
      pages.push(page);
      return page;
    },
    async close() {
      for (const page of pages.splice(0)) await page.close();
      const one = shared.get(name);
      if (!one || --one.users > 0) return;
      clearTimeout(idle.get(name));
      idle.set(name, setTimeout(endIdle, IDLE_MS, name));
    },
  };
}

/** Closes idle browsers at once: after the last group of tests the process would only wait for their time-outs. */
function endAllIdle() {
  for (const [name, timer] of idle) {
    clearTimeout(timer);
    endIdle(name);
  }
}

/** The browsers that BQ4_BROWSERS names, else these. @param {readonly Name[]} names */
const wanted = (names) => /** @type {readonly Name[]} */ (process.env.BQ4_BROWSERS?.split(',') ?? names);

/** @param {(name: Name) => void} declare  tests and hooks */
export const everyBrowser = (declare) => inBrowsers(declare, NAMES);

/** For `npm test` in Chromium alone; `npm run test:long` runs the same in the others. @param {(name: Name) => void} declare  tests and hooks */
export const chromiumFirst = (declare) => inBrowsers(declare, ['chromium']);

/** @param {(name: Name) => void} declare @param {readonly Name[]} names */
async function inBrowsers(declare, names) {
  failOnFaults();
  after(endAllIdle);
  const here = wanted(names);
  // All reasons before the first group: node:test takes a pause between groups for the end of the file.
  const reasons = await Promise.all(here.map(skip));
  for (const [i, name] of here.entries()) {
    const reason = reasons[i];
    if (reason) test(name, { skip: reason });
    else describe(name, () => declare(name));
  }
}

/**
 * A site, and a browser, for the tests of the group that this is called in.
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
 * A group of tests on a site as any host serves it, and one on a site whose pages are isolated.
 * @param {import('./browsers.mjs').Name} name
 * @param {(here: { isolated: boolean, open: () => Promise<import('./browsers.mjs').Page> }) => void} declare  tests; `open` gives a new
 *   page of the site
 */
export function everyHost(name, declare) {
  for (const [kind, headers] of Object.entries({ 'as any host serves it': {}, isolated: ISOLATED })) {
    describe(`a page ${kind}`, () => {
      const here = oneSite(name, headers);
      declare({ isolated: headers === ISOLATED, open: () => here.open() });
    });
  }
}
