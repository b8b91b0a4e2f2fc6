// Starts Chromium for a test: the one of CHROME_PATH or PATH, headless and without a network of its own.
import { chromium } from 'playwright-core';
import { findChromium } from '../../tools/setup/system.mjs';
import { FLAGS, spawnChromium } from './chromium.mjs';

export { FLAGS };

const NONE = 'no Chromium: run `npm test`, which finds or installs one, or set CHROME_PATH';

/** Why there is none, or undefined. */
export const missing = () => (findChromium() ? undefined : NONE);

/**
 * @param {import('playwright-core').LaunchOptions} [options] `args` are added to ours
 * @returns {Promise<import('playwright-core').Browser>} closed by the caller
 */
export async function launch(options = {}) {
  const executablePath = findChromium();
  if (!executablePath) throw new Error(NONE);
  return chromium.launch({ headless: true, ...options, executablePath, args: [...FLAGS, ...(options.args ?? [])] });
}

/** Chromium whose process is ours to kill. @param {string} folder  its profile */
export async function launchOwn(folder) {
  const { program, endpoint, gone: isGone } = await spawnChromium(String(findChromium()), folder, { detached: true });
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
