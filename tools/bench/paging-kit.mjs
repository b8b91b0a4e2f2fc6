// Functions of benchmarks with models of random weights: writes a model, and opens the page that loads it.
import { existsSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileSink } from '../../js/format/output.js';
import { launch } from '../../tests/browser/launch.mjs';
import { makeRandom } from '../make_random.mjs';
import { PUBLIC, serve } from '../serve.mjs';
import { ROOT } from '../setup/setup.mjs';

/** Formats a number of bytes in megabytes. */
export const formatMegabytes = (/** @type {number} */ bytes) => (bytes / 1e6).toFixed(1);

/**
 * Writes the file if it does not exist.
 * @param {string} path  relative to the root @param {Parameters<typeof makeRandom>[0]} config @param {boolean} [tokenizer]
 */
export async function provideRandomModel(path, config, tokenizer = false) {
  if (existsSync(join(ROOT, path))) return;
  mkdirSync(dirname(join(ROOT, path)), { recursive: true });
  await makeRandom(config, await fileSink(join(ROOT, path)), { quant: 'bq4h', embed: 'bq8', tokenizer });
}

/**
 * Opens a page of this folder in a new browser; `callPage` calls one of its functions.
 * @param {string[]} folders  additional served folders @param {string} name  of the page
 */
export async function openPagingPage(folders = [], name = 'paging.html') {
  const site = await serve({ root: ROOT, folders: [...PUBLIC, 'tools/bench', ...folders] });
  const browser = await launch({ full: true });
  const page = await browser.newPage();
  await page.goto(`${site.url}tools/bench/${name}`);
  await page.waitForFunction('globalThis.benchReady');
  return {
    site,
    browser,
    page,
    callPage: (/** @type {string} */ name, /** @type {any} */ options = {}) =>
      page.evaluate(`${name}(${JSON.stringify(options)})`),
    async close() {
      await browser.close();
      await site.close();
    },
  };
}
