// Firefox for a test, through WebDriver BiDi: playwright can't drive a stock Firefox, puppeteer can.
import puppeteer from 'puppeteer-core';
import { findFirefox } from '../../tools/setup/system.mjs';
import { TIMEOUT_MS } from '../waiting.mjs';
import { watchPage } from './console.mjs';

/** @typedef {import('./browsers.mjs').Browser} Browser */

/** Why there is none, or undefined. */
export const missing = () =>
  findFirefox() ? undefined : 'no Firefox: `npm test` installs it as root on Debian; FIREFOX_PATH may say where it is';

/**
 * Whether an error that Firefox tells of is an exception or a violation of a policy: it also tells so of requests that CORS forbids, which
 * the page has heard of.
 * @param {any} error
 */
const isFault = (error) =>
  /^(uncaught exception|\w*(Error|Exception)\b|Content-Security-Policy)/.test(error?.message ?? '');

/** Milliseconds that a navigation may take. */
const NAVIGATION = 15_000;

/**
 * @param {{ prefs?: Record<string, unknown> }} [options]  of about:config. For measurements: outside isolated pages Firefox's
 *   clock has steps of a millisecond, unless `privacy.reduceTimerPrecision` is false
 * @returns {Promise<Browser>} closed by the caller
 */
export async function launchFirefox({ prefs = {} } = {}) {
  const firefox = await puppeteer.launch({
    browser: 'firefox',
    executablePath: findFirefox(),
    headless: true,
    protocolTimeout: 120_000,
    // Nothing that asks the network by itself.
    extraPrefsFirefox: {
      'app.update.enabled': false,
      'network.captive-portal-service.enabled': false,
      'network.connectivity-service.enabled': false,
      // A page that asks for storage that lasts gets it: there is nobody to answer.
      'dom.storageManager.prompt.testing': true,
      'dom.storageManager.prompt.testing.allow': true,
      ...prefs,
    },
  });
  return {
    name: 'firefox',
    version: await firefox.version(),
    async open(url) {
      const context = await firefox.createBrowserContext();
      const page = await context.newPage();
      await page.setViewport({ width: 1280, height: 900 });
      /** @type {string[]} */
      const trouble = [];
      watchPage(page, isFault);
      page.on('pageerror', (error) => trouble.push(`exception: ${/** @type {any} */ (error)?.stack ?? error}`));
      page.on('console', (message) => {
        if (message.type() === 'error') trouble.push(`console: ${message.text()} (${message.location().url})`);
      });
      await page.evaluateOnNewDocument(() => {
        addEventListener('securitypolicyviolation', (e) =>
          console.error(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}`),
        );
      });
      /** Where a navigation changes the process (isolated pages) puppeteer at times misses its end: then the page tells. @param {() => Promise<unknown>} go */
      const arrived = async (go) => {
        await go().catch((error) => {
          if (error.name !== 'TimeoutError') throw error;
        });
        await page.waitForFunction(() => location.href !== 'about:blank' && document.readyState === 'complete', {
          timeout: 20_000,
          polling: 50,
        });
      };
      const record = {
        goto: (/** @type {string} */ to) => arrived(() => page.goto(to, { timeout: NAVIGATION })),
        reload: () => arrived(() => page.reload({ timeout: NAVIGATION })),
        evaluate: (/** @type {any} */ work, /** @type {any} */ arg) => page.evaluate(work, arg),
        until: async (/** @type {any} */ work, /** @type {any} */ arg) =>
          void (await page.waitForFunction(work, { timeout: 1000 * TIMEOUT_MS, polling: 50 }, arg)),
        click: (/** @type {string} */ selector) => page.click(selector),
        type: (/** @type {string} */ selector, /** @type {string} */ text) => page.type(selector, text),
        size: (/** @type {number} */ width, /** @type {number} */ height) => page.setViewport({ width, height }),
        picture: () => page.screenshot(),
        trouble: async () => trouble,
        close: () => context.close(),
      };
      if (url) await record.goto(url);
      return record;
    },
    close: () => firefox.close(),
    kill: async () => firefox.process()?.kill('SIGKILL'),
  };
}
