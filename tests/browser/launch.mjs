// Starts Chromium for a test: the one of CHROME_PATH or PATH, headless and without a network of its own.
import { spawn } from 'node:child_process';
import { chromium } from 'playwright-core';
import { findChromium } from '../../tools/setup/system.mjs';
import { FLAGS } from './flags.mjs';

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
  const program = spawn(String(findChromium()), [...FLAGS, '--headless', '--remote-debugging-port=0', `--user-data-dir=${folder}`, 'about:blank'], { detached: true, stdio: ['ignore', 'ignore', 'pipe'] });
  const endpoint = await new Promise((resolve, reject) => {
    let text = '';
    program.stderr.on('data', (data) => {
      text += data;
      const found = /listening on (ws:\S+)/.exec(text);
      if (found) resolve(found[1]);
    });
    program.on('exit', () => reject(new Error(text)));
  });
  const own = await chromium.connectOverCDP(endpoint);
  const gone = new Promise((resolve) => program.on('exit', resolve));
  return {
    page: () => own.contexts()[0].newPage(),
    async kill() {
      process.kill(-Number(program.pid), 'SIGKILL'); // the whole group
      await gone;
      await own.close().catch(() => {});
    },
  };
}
