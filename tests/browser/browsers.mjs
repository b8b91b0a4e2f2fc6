// Three real browsers behind one small interface, so that a test is written once and runs on all of them.
import { launch, missing as noChromium } from './launch.mjs';
import { newPage } from './site.mjs';

/**
 * @typedef {object} Page  in a profile of its own
 * @property {(url: string) => Promise<void>} goto
 * @property {() => Promise<void>} reload
 * @property {<A, R>(work: (arg: A) => R | Promise<R>, arg?: A) => Promise<R>} evaluate
 *   runs a function in the page; what goes in and comes out is JSON, what it throws is thrown here
 * @property {<A>(work: (arg: A) => any, arg?: A) => Promise<void>} until  waits for something true
 * @property {(selector: string) => Promise<void>} click
 * @property {(selector: string, text: string) => Promise<void>} type
 * @property {() => Promise<string[]>} trouble
 *   what went wrong: exceptions, console errors, violations of the policy. WebKit's driver tells of none: there it is
 *   what shims/watch.js saw, in pages that begin with it
 * @property {() => Promise<void>} close
 */

/**
 * @typedef {object} Browser
 * @property {string} name
 * @property {string} version
 * @property {(url?: string) => Promise<Page>} open
 * @property {() => Promise<void>} close
 */

/** @typedef {'chromium' | 'firefox' | 'webkit'} Name */

/** What each can do, as far as tests depend on it. */
export const BROWSERS = /** @type {const} */ ({
  chromium: { relaxed: true, sharedMemory: true, opfs: true },
  firefox: { relaxed: true, sharedMemory: true, opfs: true },
  webkit: { relaxed: false, sharedMemory: false, opfs: false },
});

export const NAMES = /** @type {Name[]} */ (Object.keys(BROWSERS));

/** @param {Name} name @returns {Promise<{ missing: () => string | undefined, start: () => Promise<Browser> }>} */
async function driver(name) {
  if (name === 'chromium') return { missing: noChromium, start: startChromium };
  if (name === 'firefox') return import('./launch-firefox.mjs').then(({ missing, launchFirefox }) => ({ missing, start: launchFirefox }));
  return import('./launch-webkit.mjs').then(({ missing, launchWebkit }) => ({ missing, start: launchWebkit }));
}

/** Why this browser can't be had here, or false: for node:test's `skip`. @param {Name} name */
export const skip = async (name) => (await driver(name)).missing() ?? false;

/** @param {Name} name @returns {Promise<Browser>} closed by the caller */
export async function start(name) {
  const { missing, start } = await driver(name);
  const reason = missing();
  if (reason) throw new Error(reason);
  return bounded(await inTime(start(), START, `${name} did not start`));
}

/** Seconds that a start, a page's work (a whole suite runs in one), and an end may take: browsers hang. */
const [START, WORK, END] = [60, 180, 20];

/** @template T @param {Promise<T>} promise @param {number} seconds @param {string} what @returns {Promise<T>} */
async function inTime(promise, seconds, what) {
  /** @type {any} */
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`${what} within ${seconds} s`)), 1000 * seconds)));
  return /** @type {Promise<T>} */ (Promise.race([promise, late]).finally(() => clearTimeout(timer)));
}

/** Nothing waits for ever; a page that doesn't close ends with its browser. @param {Browser} browser @returns {Browser} */
function bounded(browser) {
  const { name } = browser;
  return {
    ...browser,
    async open(url) {
      const page = await inTime(browser.open(url), START, `${name} opened no page`);
      const bound = (/** @type {any} */ method, /** @type {string} */ what) => (/** @type {any[]} */ ...args) => inTime(method(...args), WORK, `${name}: ${what} did not end`);
      return {
        goto: bound(page.goto, 'goto'),
        reload: bound(page.reload, 'reload'),
        evaluate: bound(page.evaluate, 'evaluate'),
        until: bound(page.until, 'until'),
        click: bound(page.click, 'click'),
        type: bound(page.type, 'type'),
        trouble: bound(page.trouble, 'trouble'),
        close: () => inTime(page.close(), END, '').catch(() => {}),
      };
    },
    close: () => inTime(browser.close(), END, `${name} did not close`),
  };
}

/** @returns {Promise<Browser>} */
async function startChromium() {
  const browser = await launch();
  return {
    name: 'chromium',
    version: `Chromium ${browser.version()}`,
    async open(url) {
      const page = await newPage(browser);
      if (url) await page.goto(url);
      return {
        goto: async (to) => void (await page.goto(to)),
        reload: async () => void (await page.reload()),
        evaluate: (work, arg) => page.evaluate(/** @type {any} */ (work), arg),
        until: async (work, arg) => void (await page.waitForFunction(/** @type {any} */ (work), arg)),
        click: (selector) => page.click(selector),
        type: (selector, text) => page.locator(selector).pressSequentially(text),
        trouble: async () => page.trouble,
        close: () => page.context().close(),
      };
    },
    close: () => browser.close(),
  };
}
