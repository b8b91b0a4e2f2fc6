// Three real browsers with one small interface, so that the same test runs in each of them.
import { inTime, Late } from '../waiting.mjs';
import { launch, missing as noChromium } from './launch.mjs';
import { newPage } from './site.mjs';

/**
 * @typedef {object} Page  a page with a profile of its own
 * @property {(url: string) => Promise<void>} goto
 * @property {() => Promise<void>} reload
 * @property {<A, R>(work: (arg: A) => R | Promise<R>, arg?: A) => Promise<R>} evaluate
 *   runs a function in the page; its argument and its result are copied as JSON, its errors are thrown here
 * @property {<A>(work: (arg: A) => any, arg?: A) => Promise<void>} until  waits until a function in the page returns a true value
 * @property {(selector: string) => Promise<void>} click
 * @property {(selector: string, text: string) => Promise<void>} type
 * @property {(width: number, height: number) => Promise<void>} size  sets the size of the viewport, in CSS pixels
 * @property {(features: { forcedColors?: 'active', reducedMotion?: 'reduce' }) => Promise<void>} [media]  emulates settings of the
 *   system; only in Chromium
 * @property {() => Promise<Uint8Array>} picture  a PNG of the viewport
 * @property {() => Promise<string[]>} trouble
 *   faults: exceptions, console errors, violations of the policy. WebKit's driver reports none; there shims/watch.js collects
 *   them, in pages whose first script it is
 * @property {() => Promise<void>} close
 */

/**
 * @typedef {object} Browser
 * @property {string} name
 * @property {string} version
 * @property {(url?: string) => Promise<Page>} open
 * @property {() => Promise<void>} close
 * @property {boolean} [alive]  false after it was killed
 * @property {() => Promise<unknown>} kill  ends its process
 */

/** @typedef {'chromium' | 'firefox' | 'webkit'} Name */

/** Features of each browser on which tests depend. */
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

/** The reason why a browser is not available, or false: for node:test's `skip`. @param {Name} name */
export const skip = async (name) => (await driver(name)).missing() ?? false;

/** Starts a browser. @param {Name} name @returns {Promise<Browser>} closed by the caller */
export async function start(name) {
  const { missing, start } = await driver(name);
  const reason = missing();
  if (reason) throw new Error(reason);
  const starting = start();
  try {
    return withTimeouts(await inTime(`${name} to start`, starting));
  } catch (error) {
    // A browser that starts after the timeout is of no use.
    starting.then(
      (browser) => browser.kill(),
      () => {},
    );
    throw error;
  }
}

/** Time limit of closing a page or a browser, in seconds. */
const CLOSE_TIMEOUT_SECONDS = 20;

/**
 * A browser whose operations have time limits. When one is exceeded, the browser is killed: the test that waited fails with the name of
 * the operation, and later calls for other pages of the browser fail at once.
 * @param {Browser} browser @returns {Browser}
 */
function withTimeouts(browser) {
  const { name } = browser;
  let pages = 0;
  const record = {
    ...browser,
    alive: true,
    async kill() {
      record.alive = false;
      await inTime(`${name} to end`, browser.kill(), { seconds: CLOSE_TIMEOUT_SECONDS }).catch(() => {});
    },
    /** @param {string} [url] */
    async open(url) {
      /** @template T @param {string} what @param {() => Promise<T>} work @param {() => unknown} [state] @returns {Promise<T>} */
      const runInTime = async (what, work, state) => {
        if (!record.alive) throw new Error(`${name} was killed, since it did not answer an earlier call`);
        try {
          return await inTime(`${name}: ${what}`, work(), { state });
        } catch (error) {
          if (error instanceof Late) await record.kill();
          throw error;
        }
      };
      const page = await runInTime('a new page', () => browser.open(url));
      pages++;
      let address = url ?? 'about:blank';
      const state = async () =>
        `a page at ${address}, one of ${pages}, with ${JSON.stringify(await inTime('its faults', page.trouble(), { seconds: 2 }).catch(() => 'no answer'))}`;
      const wrap =
        (/** @type {any} */ method, /** @type {string} */ what) =>
        (/** @type {any[]} */ ...args) =>
          runInTime(
            `${what} ${String(args[0] ?? '')
              .replace(/\s+/g, ' ')
              .slice(0, 300)}`,
            () => method(...args),
            state,
          );
      return {
        goto: async (/** @type {string} */ to) => {
          address = to;
          await wrap(page.goto, 'goto')(to);
        },
        reload: wrap(page.reload, 'reload'),
        evaluate: wrap(page.evaluate, 'evaluate'),
        until: wrap(page.until, 'until'),
        click: wrap(page.click, 'click'),
        type: wrap(page.type, 'type'),
        size: wrap(page.size, 'size'),
        ...(page.media && { media: wrap(page.media, 'media') }),
        picture: wrap(page.picture, 'picture'),
        trouble: wrap(page.trouble, 'trouble'),
        close: async () => {
          pages--;
          // A page that does not close ends with its browser.
          await inTime('a closed page', page.close(), { seconds: CLOSE_TIMEOUT_SECONDS }).catch(() => {});
        },
      };
    },
    close: () =>
      record.alive
        ? inTime(`${name} to close`, browser.close(), { seconds: CLOSE_TIMEOUT_SECONDS }).catch(() => record.kill())
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
    kill: () => browser.close(), // Playwright kills a browser that does not close.
  };
}
