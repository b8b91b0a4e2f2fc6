// Starts Chromium for a test: the one of CHROME_PATH or PATH, headless and without a network of its own.
import { chromium } from 'playwright-core';
import { findChromium } from '../../tools/setup/system.mjs';

/** What every start of Chromium needs. */
export const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

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
