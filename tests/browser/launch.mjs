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
 * @param {import('playwright-core').LaunchOptions & { full?: boolean }} [options]  `args` are added to ours; `full`: the browser
 *   that people have, where a test measures; else its headless shell, if installed
 * @returns {Promise<import('playwright-core').Browser>} closed by the caller
 */
export const launch = async (options) => chromium.launch(launchOptions(options));

/** With a profile on disk. @param {string} profile  its folder */
export const launchPersistent = async (profile) => chromium.launchPersistentContext(profile, launchOptions());

/** Chromium in a process that a test can kill. @param {string} profile  its folder */
export async function launchOwn(profile) {
  const executable = String(findHeadlessShell());
  const { program, endpoint, gone: isGone } = await spawnChromium(executable, profile, { detached: true });
  const own = await chromium.connectOverCDP(endpoint);
  return {
    page: () => own.contexts()[0].newPage(),
    async kill() {
      process.kill(-Number(program.pid), 'SIGKILL'); // the whole group
      await isGone;
      await own.close().catch(() => {});
    },
  };
}
