// Starts Firefox for a test. Puppeteer controls it through WebDriver BiDi; Playwright supports only its own build of Firefox.
import puppeteer from 'puppeteer-core';
import { findFirefox } from '../../tools/setup/system.mjs';
import { TIMEOUT_SECONDS } from '../waiting.mjs';
import { watchPage } from './console.mjs';

/** @typedef {import('./browsers.mjs').Browser} Browser */

/** The reason why Firefox cannot be started, or undefined. */
export const missing = () =>
  findFirefox() ? undefined : 'no Firefox: `npm test` installs it as root on Debian; or set FIREFOX_PATH to its path';

/**
 * Whether an error that Firefox reports is an uncaught exception or a violation of a policy. Firefox also reports requests that CORS
 * forbids, which are no faults, since the page gets their errors.
 * @param {any} error
 */
const isFault = (error) =>
  /^(uncaught exception|\w*(Error|Exception)\b|Content-Security-Policy)/.test(error?.message ?? '');

/** Time limit of a navigation, in milliseconds. */
const NAVIGATION_TIMEOUT_MS = 15_000;

/**
 * Starts Firefox.
 * @param {{ prefs?: Record<string, unknown> }} [options]  `prefs`: preferences of about:config. Measurements set
 *   `privacy.reduceTimerPrecision` to false: otherwise the clock of pages that are not isolated has steps of a millisecond
 * @returns {Promise<Browser>} closed by the caller
 */
export async function launchFirefox({ prefs = {} } = {}) {
  const firefox = await puppeteer.launch({
    browser: 'firefox',
    executablePath: findFirefox(),
    headless: true,
    protocolTimeout: 120_000,
    // Firefox makes no requests of its own.
    extraPrefsFirefox: {
      'app.update.enabled': false,
      'network.captive-portal-service.enabled': false,
      'network.connectivity-service.enabled': false,
      // Requests for persistent storage are granted without a dialog.
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
      /** Navigates and waits until the page is complete. If a navigation changes the process (isolated pages), Puppeteer sometimes misses
       * its end, so the page is asked. @param {() => Promise<unknown>} go */
      const navigate = async (go) => {
        await go().catch((error) => {
          if (error.name !== 'TimeoutError') throw error;
        });
        await page.waitForFunction(() => location.href !== 'about:blank' && document.readyState === 'complete', {
          timeout: 20_000,
          polling: 50,
        });
      };
      const record = {
        goto: (/** @type {string} */ to) => navigate(() => page.goto(to, { timeout: NAVIGATION_TIMEOUT_MS })),
        reload: () => navigate(() => page.reload({ timeout: NAVIGATION_TIMEOUT_MS })),
        evaluate: (/** @type {any} */ work, /** @type {any} */ arg) => page.evaluate(work, arg),
        until: async (/** @type {any} */ work, /** @type {any} */ arg) =>
          void (await page.waitForFunction(work, { timeout: 1000 * TIMEOUT_SECONDS, polling: 50 }, arg)),
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
