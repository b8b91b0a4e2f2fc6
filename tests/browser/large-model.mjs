// Set-up for tests of the demo with a model of 26 MB, for which the demo shows a confirmation before the download. A fault server serves it.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before } from 'node:test';
import { fileSink } from '../../js/format/output.js';
import { makeRandom, SHAPES } from '../../tools/make_random.mjs';
import { faultServer } from '../server/faults.mjs';
import { launch } from './launch.mjs';
import { newPage, openDemo, repeatAtOnce, ROOT, serveDemo } from './site.mjs';

/** The large model's shape, without its context. */
export const LARGE_SHAPE = { ...SHAPES['tiny-llama'], hidden: 512, ffn: 2048, layers: 10, heads: 8, kv_heads: 8 };

/** Writes the large model. @param {string} file  its path @param {{ context: number, layers?: number }} options */
export const makeLarge = async (file, options) => {
  await makeRandom({ ...LARGE_SHAPE, ...options }, await fileSink(file), { quant: 'bq4' });
};

/**
 * A browser, the demo's site, and a server with the large model, for all tests of a file. Each test may add functions to `cleanup`, which
 * are called after it.
 * @param {string} name  of the folder with `large`, the path of the model
 */
export function withLargeModel(name) {
  const folder = mkdtempSync(join(tmpdir(), `bq4-${name}-`));
  const here = {
    browser: /** @type {import('playwright-core').Browser} */ (/** @type {unknown} */ (undefined)),
    site: /** @type {Awaited<ReturnType<typeof serveDemo>>} */ (/** @type {unknown} */ (undefined)),
    models: /** @type {Awaited<ReturnType<typeof faultServer>>} */ (/** @type {unknown} */ (undefined)),
    folder,
    large: join(folder, 'large.bq4'),
    cleanup: /** @type {(() => Promise<unknown>)[]} */ ([]),
    /** Opens the demo in a page of its own, which is closed after the test. */
    async demo() {
      const page = await newPage(here.browser);
      here.cleanup.push(() => page.context().close());
      await repeatAtOnce(page);
      await openDemo(page, here.site.url);
      return page;
    },
  };
  before(async () => {
    await makeLarge(here.large, { context: 256 });
    here.browser = await launch();
    here.site = await serveDemo();
    here.models = await faultServer({ '/large.bq4': here.large, '/picture.gguf': join(ROOT, 'demo/icon-192.png') });
  });
  after(async () => {
    await Promise.all([here.browser?.close(), here.site?.close(), here.models?.close()]);
    rmSync(folder, { recursive: true });
  });
  afterEach(async () => {
    for (const work of here.cleanup.splice(0).reverse()) await work();
    here.models.faults = [];
  });
  return here;
}
