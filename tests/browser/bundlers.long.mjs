// The package as it is installed, in pages that bundlers make of it: no plugin, and no setting that it needs; with esbuild and Rollup,
// which leave addresses as they are, by the recipe of docs/API.md, and without it an error that says so.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import * as esbuild from 'esbuild';
import { rollup } from '@rollup/wasm-node';
import { build, createLogger, createServer } from 'vite';
import webpack from 'webpack';
import { createEngine, fromFile } from '../../js/engine.js';
import { serve } from '../../tools/serve.mjs';
import { engineOptions, examples } from '../js/api-doc.mjs';
import { launch, missing } from './launch.mjs';
import { folderHost, installPacked } from './packed.mjs';
import { newPage, ROOT } from './site.mjs';

const ISOLATED = { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' };
const MODEL = join(ROOT, 'models/chat.bq4');

describe('the package, bundled', { skip: missing() }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-bundlers-'));
  /** @type {import('playwright-core').Browser} */
  let browser;
  /** What the page's model says, in Node. @type {number[]} */
  let ids;
  after(async () => {
    await browser?.close();
    rmSync(folder, { recursive: true });
  });
  before(async () => {
    installPacked(folder);
    cpSync(join(ROOT, 'tests/browser/bundled'), folder, { recursive: true });
    mkdirSync(join(folder, 'public'));
    cpSync(MODEL, join(folder, 'public/chat.bq4'));
    const engine = await createEngine({ threads: 1 });
    const model = await engine.load(fromFile(MODEL), { context: 64 });
    ids = (await (await model.createSession()).generate('Once', { temperature: 0, maxTokens: 8 }).done()).ids;
    await engine.close();
    browser = await launch();
  });

  /** @param {string} url @returns {Promise<string[]>} addresses of what the page loaded */
  async function works(url) {
    const page = await newPage(browser);
    /** @type {string[]} */
    const loaded = [];
    page.context().on('response', (response) => loaded.push(`${response.status()} ${response.url()}`));
    await page.goto(url);
    const result = await page.waitForFunction(() => /** @type {any} */ (window).result, null, { timeout: 60_000 });
    assert.deepEqual(await result.jsonValue(), {
      ids,
      paged: ids,
      residency: 'paged',
      threads: 2,
      worker: true,
      store: 'opfs',
    });
    assert.deepEqual(page.trouble, []);
    assert.deepEqual(
      loaded.filter((line) => !/^20[06] /.test(line)),
      [],
    );
    await page.context().close();
    return loaded;
  }

  /** Modules of the package: the four builds, the probe, the one for grammars and the converter's. */
  const MODULES = 7;

  /** @param {string} name  of a folder that a bundler has made */
  async function worksBuilt(name) {
    const site = await serve({ root: folder, folders: [name] });
    try {
      const loaded = await works(`${site.url}${name}/`);
      // The probe and a build; the other one too where the probe finds it faster.
      const modules = new Set(loaded.filter((line) => line.endsWith('.wasm')));
      assert.ok(modules.size === 2 || modules.size === 3, `${[...modules]}`);
      assert.equal(
        readdirSync(join(folder, name), { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.wasm'))
          .length,
        MODULES,
      );
    } finally {
      await site.close();
    }
  }

  for (const format of /** @type {const} */ (['iife', 'es']))
    // Vite's own choice is iife
    test(`Vite, built, workers as ${format}`, async () => {
      /** @type {string[]} */
      const warnings = [];
      const customLogger = Object.assign(createLogger('silent'), {
        warn: (/** @type {string} */ text) => warnings.push(text),
      });
      await build({
        root: folder,
        base: './',
        configFile: false,
        logLevel: 'silent',
        customLogger,
        worker: { format },
        build: { outDir: `vite-${format}` },
      });
      assert.deepEqual(warnings, []);
      await worksBuilt(`vite-${format}`);
    });

  /** @type {[string, import('vite').DepOptimizationOptions][]} */
  const preBundling = [
    ['as it is', {}],
    ['kept out of pre-bundling', { exclude: ['bq4'] }],
  ];
  for (const [name, optimizeDeps] of preBundling)
    test(`Vite's own server, bq4 ${name}`, async () => {
      const server = await createServer({
        root: folder,
        configFile: false,
        logLevel: 'silent',
        optimizeDeps,
        cacheDir: join(folder, 'cache', name),
        server: { host: '127.0.0.1', port: 0, headers: ISOLATED },
      });
      try {
        await server.listen();
        await works(/** @type {string} */ (server.resolvedUrls?.local[0]));
      } finally {
        await server.close();
      }
    });

  test('webpack', async () => {
    const compiler = webpack({
      mode: 'production',
      context: folder,
      entry: './main.js',
      output: { path: join(folder, 'webpack') },
      performance: { hints: false },
    });
    /** @type {import('webpack').Stats} */
    const stats = await new Promise((resolve, reject) =>
      compiler.run((error, done) => (done ? resolve(done) : reject(error))),
    );
    await new Promise((resolve) => compiler.close(resolve));
    assert.deepEqual(stats.toJson({ all: false, errors: true, warnings: true }), { errors: [], warnings: [] });
    cpSync(join(folder, 'index.html'), join(folder, 'webpack/index.html'));
    cpSync(MODEL, join(folder, 'webpack/chat.bq4'));
    await worksBuilt('webpack');
  });

  const bq4 = join(folder, 'node_modules/bq4');

  /** Bundles of a script, without a warning. @type {Record<string, (entry: string, out: string) => Promise<void>>} */
  const plain = {
    async esbuild(entry, out) {
      const entryPoints = [join(folder, entry)];
      const made = await esbuild.build({ entryPoints, bundle: true, format: 'esm', outdir: out, logLevel: 'silent' });
      assert.deepEqual(made.warnings, []);
    },
    async Rollup(entry, out) {
      const made = await rollup({
        input: join(folder, entry),
        // What @rollup/plugin-node-resolve does.
        plugins: [{ name: 'packages', resolveId: (id) => (id === 'bq4' ? join(bq4, 'dist/index.js') : null) }],
        onwarn: (warning) => assert.fail(warning.message),
      });
      await made.write({ dir: out, format: 'es' });
      await made.close();
    },
  };
  for (const [name, bundle] of Object.entries(plain)) {
    const out = (/** @type {string} */ kind) => join(folder, `${name}-${kind}`);
    const page = (/** @type {string} */ to) => {
      cpSync(join(folder, 'index.html'), join(to, 'index.html'));
      cpSync(MODEL, join(to, 'chat.bq4'));
    };

    test(`${name}, with the package's files beside the page`, async () => {
      const options = engineOptions((examples.get('Bundlers') ?? [])[0]);
      writeFileSync(join(folder, 'beside.js'), `import { show } from './page.js';\nshow(${options});\n`);
      await bundle('beside.js', out('beside'));
      page(out('beside'));
      cpSync(join(out('beside'), 'beside.js'), join(out('beside'), 'main.js'));
      for (const part of ['dist', 'build/wasm'])
        cpSync(join(bq4, part), join(out('beside'), 'bq4', part), { recursive: true });
      await worksBuilt(`${name}-beside`);
    });

    test(`${name} alone: the error names the script, what answers, and the recipe`, async (t) => {
      await bundle('main.js', out('alone'));
      page(out('alone'));
      for (const fallback of [undefined, 'index.html']) {
        const site = await folderHost(out('alone'), { fallback });
        t.after(() => site.close());
        const page = await newPage(browser);
        await page.goto(site.url);
        const result = await page.waitForFunction(() => /** @type {any} */ (window).result);
        const { error, code, hint } = await result.jsonValue();
        assert.equal(code, 'NO_WORKER', error);
        const why = fallback ? 'worker.js is no script: it is served as "text/html' : 'worker.js answers 404';
        assert.ok(error.includes(why), error);
        assert.match(hint, /esbuild, Rollup.*copy bq4\/dist and bq4\/build\/wasm.*"Bundlers"/);
        await page.context().close();
      }
    });
  }
});
