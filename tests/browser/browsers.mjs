// Three real browsers behind one small interface, so that a test is written once and runs on all of them.
import { inTime, Late } from '../waiting.mjs';
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
 * @property {(width: number, height: number) => Promise<void>} size  of what the page has of the window
 * @property {(features: { forcedColors?: 'active', reducedMotion?: 'reduce' }) => Promise<void>} [media]  what the system
 *   asks for; Chromium alone can pretend
 * @property {() => Promise<Uint8Array>} picture  a PNG of what is seen
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
 * @property {boolean} [alive]  it was not killed
 * @property {() => Promise<unknown>} kill  without asking it
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
  if (name === 'firefox')
    return import('./launch-firefox.mjs').then(({ missing, launchFirefox }) => ({ missing, start: launchFirefox }));
  return import('./launch-webkit.mjs').then(({ missing, launchWebkit }) => ({ missing, start: launchWebkit }));
}

/** Why this browser can't be had here, or false: for node:test's `skip`. @param {Name} name */
export const skip = async (name) => (await driver(name)).missing() ?? false;

/** @param {Name} name @returns {Promise<Browser>} closed by the caller */
export async function start(name) {
  const { missing, start } = await driver(name);
  const reason = missing();
  if (reason) throw new Error(reason);
  const started = start();
  try {
    return bounded(await inTime(`${name} to start`, started));
  } catch (error) {
    started.then(
      (browser) => browser.kill(),
      () => {},
    ); // if it comes after all
    throw error;
  }
}

/** Seconds that an end may take. */
const END = 20;

/**
 * Nothing waits for ever. A browser that doesn't answer is killed: the one test that waited fails, saying for what, and so
 * do at once all that still have pages of it.
 * @param {Browser} browser @returns {Browser}
 */
function bounded(browser) {
  const { name } = browser;
  let pages = 0;
  const record = {
    ...browser,
    alive: true,
    async kill() {
      record.alive = false;
      await inTime(`${name} to die`, browser.kill(), { seconds: END }).catch(() => {});
    },
    /** @param {string} [url] */
    async open(url) {
      /** @template T @param {string} what @param {() => Promise<T>} work @param {() => unknown} [state] @returns {Promise<T>} */
      const watched = async (what, work, state) => {
        if (!record.alive) throw new Error(`${name} was killed: it had hung before`);
        try {
          return await inTime(`${name}: ${what}`, work(), { state });
        } catch (error) {
          if (error instanceof Late) await record.kill();
          throw error;
        }
      };
      const page = await watched('a new page', () => browser.open(url));
      pages++;
      let at = url ?? 'about:blank';
      const state = async () =>
        `a page at ${at}, one of ${pages}, with ${JSON.stringify(await inTime('its troubles', page.trouble(), { seconds: 2 }).catch(() => 'no answer'))}`;
      const bound =
        (/** @type {any} */ method, /** @type {string} */ what) =>
        (/** @type {any[]} */ ...args) =>
          watched(
            `${what} ${String(args[0] ?? '')
              .replace(/\s+/g, ' ')
              .slice(0, 300)}`,
            () => method(...args),
            state,
          );
      return {
        goto: async (/** @type {string} */ to) => {
          at = to;
          await bound(page.goto, 'goto')(to);
        },
        reload: bound(page.reload, 'reload'),
        evaluate: bound(page.evaluate, 'evaluate'),
        until: bound(page.until, 'until'),
        click: bound(page.click, 'click'),
        type: bound(page.type, 'type'),
        size: bound(page.size, 'size'),
        ...(page.media && { media: bound(page.media, 'media') }),
        picture: bound(page.picture, 'picture'),
        trouble: bound(page.trouble, 'trouble'),
        close: async () => {
          pages--;
          await inTime('', page.close(), { seconds: END }).catch(() => {}); // it ends with its browser
        },
      };
    },
    close: () =>
      record.alive
        ? inTime(`${name} to close`, browser.close(), { seconds: END }).catch(() => record.kill())
        : Promise.resolve(),
  };
  return record;
}

/** @returns {Promise<Browser>} */
async function startChromium() {
  const browser = await launch();
  return {
    name: 'chromium',
    version: `Chromium ${browser.version()}`,
    async open(url) {
      const page = await newPage(browser, { serviceWorkers: 'allow' });
      if (url) await page.goto(url);
      return {
        goto: async (to) => void (await page.goto(to)),
        reload: async () => void (await page.reload()),
        evaluate: (work, arg) => page.evaluate(/** @type {any} */ (work), arg),
        until: async (work, arg) => void (await page.waitForFunction(/** @type {any} */ (work), arg)),
        click: (selector) => page.click(selector),
        type: (selector, text) => page.locator(selector).pressSequentially(text),
        size: (width, height) => page.setViewportSize({ width, height }),
        media: (features) => page.emulateMedia(features),
        picture: () => page.screenshot(),
        trouble: async () => page.trouble,
        close: () => page.context().close(),
      };
    },
    close: () => browser.close(),
    kill: () => browser.close(), // playwright kills what doesn't close
  };
}
