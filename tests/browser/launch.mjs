// Starts Chromium for a test: headless, and without a network of its own.
import { chromium } from 'playwright-core';
import { findChromium, findHeadlessShell } from '../../tools/setup/system.mjs';
import { FLAGS, spawnChromium } from './chromium.mjs';

export { FLAGS };

const NOT_FOUND = 'no Chromium found: run `npm test`, which finds or installs one, or set CHROME_PATH';

/** Why no test can run in Chromium; undefined if one is installed. */
export const missing = () => (findChromium() ? undefined : NOT_FOUND);

/**
 * Options of playwright for its start.
 * @param {import('playwright-core').LaunchOptions & { full?: boolean }} [options]
 */
function launchOptions({ full = false, args = [], ...options } = {}) {
  const executablePath = full ? findChromium() : findHeadlessShell();
  if (!executablePath) throw new Error(NOT_FOUND);
  return { headless: true, ...options, executablePath, args: [...FLAGS, ...args] };
}

/**
 * Starts Chromium.
 * @param {import('playwright-core').LaunchOptions & { full?: boolean }} [options]  `args` are added to FLAGS; `full`: the complete
 *   browser, for tests that measure; otherwise its headless shell, if it is installed
 * @returns {Promise<import('playwright-core').Browser>} closed by the caller
 */
export const launch = async (options) => chromium.launch(launchOptions(options));

/** Starts Chromium with a profile on disk. @param {string} profile  a folder */
export const launchPersistent = async (profile) => chromium.launchPersistentContext(profile, launchOptions());

/** Starts Chromium in a process that the test can kill. @param {string} profile  a folder */
export async function launchProcess(profile) {
  const executable = String(findHeadlessShell());
  const { program, endpoint, exit } = await spawnChromium(executable, profile, { detached: true });
  const browser = await chromium.connectOverCDP(endpoint);
  return {
    page: () => browser.contexts()[0].newPage(),
    async kill() {
      process.kill(-Number(program.pid), 'SIGKILL'); // A negative number is the group of processes.
      await exit;
      await browser.close().catch(() => {});
    },
  };
}
