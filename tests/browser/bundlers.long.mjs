// Tests of the installed package in pages built by bundlers, without plugins and unnecessary settings. esbuild and Rollup do not rewrite
// addresses: they need the recipe of docs/guides/bundlers.md, and without it the error names the cause.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import * as esbuild from 'esbuild';
import { rollup } from '@rollup/wasm-node';
import { build, createLogger, createServer } from 'vite';
import webpack from 'webpack';
import { serve } from '../../tools/serve.mjs';
import { engineOptions, examples } from '../js/api-doc.mjs';
import { mainScript, makeApp, MODEL, repliesInNode, checkSharing } from './bundled.mjs';
import { failOnFaults } from './console.mjs';
import { launch, missing } from './launch.mjs';
import { folderHost, installPacked } from './packed.mjs';
import { newPage, ROOT } from './site.mjs';

failOnFaults();

const ISOLATED = { 'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Embedder-Policy': 'require-corp' };

describe('the package, bundled', { skip: missing() }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-bundlers-'));
  /** Another app in it, of `bq4/shared`. */
  const tabs = join(folder, 'tabs');
  /** @type {import('playwright-core').Browser} */
  let browser;
  /** @type {import('./bundled.mjs').Replies} */
  let message;
  after(async () => {
    await browser?.close();
    rmSync(folder, { recursive: true });
  });
  before(async () => {
    installPacked(folder);
    for (const [place, kind] of /** @type {const} */ ([
      [folder, 'show'],
      [tabs, 'share'],
    ])) {
      makeApp(place, kind);
      mkdirSync(join(place, 'public'));
      cpSync(MODEL, join(place, 'public/chat.bq4'));
    }
    // Vite's server shows nothing from above its app.
    cpSync(join(folder, 'node_modules'), join(tabs, 'node_modules'), { recursive: true });
    message = await repliesInNode();
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
      ids: message.ids,
      paged: message.ids,
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

  /** @param {string} name  of a folder that a bundler has made */
  async function sharesBuilt(name) {
    const site = await serve({ root: folder, folders: [name] });
    try {
      await checkSharing(browser, `${site.url}${name}/`, message);
    } finally {
      await site.close();
    }
  }

  /** Modules that a page can load: the six builds, kernels of rare types for each, the probe, the one for grammars and the converter's. */
  const MODULES = 15;
  /** Of the package: Node has one more, the converter's for threads. */
  const ALL_MODULES = MODULES + 1;

  /** @param {string} name  of a folder that a bundler has made @param {number} [stored]  modules there */
  async function worksBuilt(name, stored = MODULES) {
    const site = await serve({ root: folder, folders: [name] });
    try {
      const loaded = await works(`${site.url}${name}/`);
      // The probe, and the build that it found.
      const modules = new Set(loaded.filter((line) => line.endsWith('.wasm')));
      assert.equal(modules.size, 2, `${[...modules]}`);
      assert.equal(
        readdirSync(join(folder, name), { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.wasm'))
          .length,
        stored,
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
        // A slow machine is no fault of the package.
        warn: (/** @type {string} */ text) => void (text.includes('PLUGIN_TIMINGS') || warnings.push(text)),
      });
      for (const root of [folder, tabs])
        await build({
          root,
          base: './',
          configFile: false,
          logLevel: 'silent',
          customLogger,
          worker: { format },
          build: { outDir: `vite-${format}` },
        });
      assert.deepEqual(warnings, []);
      await worksBuilt(`vite-${format}`);
      await sharesBuilt(`tabs/vite-${format}`);
    });

  test("Vite, built, examples/react: its script is an app's", async () => {
    const place = join(folder, 'react');
    for (const name of ['examples/react', 'examples/model.js', 'examples/style.css', 'models/chat.bq4'])
      cpSync(join(ROOT, name), join(place, name), { recursive: true });
    cpSync(join(folder, 'node_modules'), join(place, 'node_modules'), { recursive: true });
    for (const name of ['react', 'react-dom', 'scheduler'])
      cpSync(join(ROOT, 'node_modules', name), join(place, 'node_modules', name), { recursive: true });
    const root = join(place, 'examples/react');
    rmSync(join(root, 'react.js'));
    const html = readFileSync(join(root, 'index.html'), 'utf8');
    writeFileSync(join(root, 'index.html'), html.replace(/<script type="importmap">[^]*?<\/script>/, ''));
    await build({ root, base: './', configFile: false, logLevel: 'silent', build: { outDir: 'out' } });
    const site = await folderHost(join(root, 'out'), { headers: ISOLATED });
    const page = await newPage(browser);
    await page.goto(site.url);
    await page.locator('#send:enabled').waitFor();
    await page.fill('#message', 'Hello!');
    await page.click('#send');
    await page.waitForFunction(
      () =>
        document.querySelectorAll('#log p')[1]?.textContent &&
        document.querySelector('#status')?.textContent === 'Ready.',
    );
    assert.deepEqual(page.trouble, []);
    await page.context().close();
    await site.close();
  });

  /** @type {[string, import('vite').DepOptimizationOptions][]} */
  const preBundling = [
    ['as it is', {}],
    ['kept out of pre-bundling', { exclude: ['bq4'] }],
  ];
  for (const [name, optimizeDeps] of preBundling)
    for (const [root, check] of /** @type {[string, (url: string) => Promise<unknown>][]} */ ([
      [folder, works],
      [tabs, (url) => checkSharing(browser, url, message)],
    ]))
      test(`Vite's own server, bq4${root === tabs ? '/shared' : ''} ${name}`, async () => {
        const server = await createServer({
          root,
          configFile: false,
          logLevel: 'silent',
          optimizeDeps,
          cacheDir: join(root, 'cache', name),
          server: { host: '127.0.0.1', port: 0, headers: ISOLATED },
        });
        try {
          await server.listen();
          await check(/** @type {string} */ (server.resolvedUrls?.local[0]));
        } finally {
          await server.close();
        }
      });

  test("Vite's own server, the package above its app: the error names the setting, and that helps", async () => {
    for (const [kind, check] of /** @type {const} */ ([
      ['show', works],
      ['share', (/** @type {string} */ url) => checkSharing(browser, url, message)],
    ])) {
      const root = join(folder, `inner-${kind}`);
      makeApp(root, kind);
      mkdirSync(join(root, 'public'));
      cpSync(MODEL, join(root, 'public/chat.bq4'));
      const open = async (/** @type {import('vite').ServerOptions} */ options) => {
        const server = await createServer({
          root,
          configFile: false,
          logLevel: 'silent',
          cacheDir: join(root, 'cache'),
          server: { host: '127.0.0.1', port: 0, headers: ISOLATED, ...options },
        });
        await server.listen();
        return { url: /** @type {string} */ (server.resolvedUrls?.local[0]), close: () => server.close() };
      };
      const strict = await open({});
      const page = await newPage(browser);
      await page.goto(strict.url);
      const result = await page.waitForFunction(() => /** @type {any} */ (window).result, null, { timeout: 60_000 });
      const { error, code, hint } = await result.jsonValue();
      await page.context().close();
      await strict.close();
      assert.equal(code, 'NO_WORKER', error);
      assert.match(error, /worker\.js\S* responds with HTTP 403/);
      assert.match(hint, /server\.fs\.allow/);
      const allowed = await open({ fs: { allow: [folder] } });
      await check(allowed.url);
      await allowed.close();
    }
  });

  /** @param {string} context  the app's folder */
  async function webpacked(context) {
    const path = join(context, 'webpack');
    const compiler = webpack({
      mode: 'production',
      context,
      entry: './main.js',
      output: { path },
      performance: { hints: false },
    });
    /** @type {import('webpack').Stats} */
    const stats = await new Promise((resolve, reject) =>
      compiler.run((error, done) => (done ? resolve(done) : reject(error))),
    );
    await new Promise((resolve) => compiler.close(resolve));
    assert.deepEqual(stats.toJson({ all: false, errors: true, warnings: true }), { errors: [], warnings: [] });
    cpSync(join(folder, 'index.html'), join(path, 'index.html'));
    cpSync(MODEL, join(path, 'chat.bq4'));
  }

  test('webpack', async () => {
    await webpacked(folder);
    await worksBuilt('webpack');
    await webpacked(tabs);
    await sharesBuilt('tabs/webpack');
  });

  const bq4 = join(folder, 'node_modules/bq4');

  /** @type {Record<string, string>} */
  const packages = { bq4: join(bq4, 'dist/index.js'), 'bq4/shared': join(bq4, 'dist/shared.js') };

  /** Bundles of a script, without a warning. @type {Record<string, (entry: string, out: string) => Promise<void>>} */
  const plain = {
    async esbuild(entry, out) {
      const entryPoints = [join(folder, entry)];
      const output = await esbuild.build({ entryPoints, bundle: true, format: 'esm', outdir: out, logLevel: 'silent' });
      assert.deepEqual(output.warnings, []);
    },
    async Rollup(entry, out) {
      const output = await rollup({
        input: join(folder, entry),
        // What @rollup/plugin-node-resolve does.
        plugins: [{ name: 'packages', resolveId: (id) => packages[id] ?? null }],
        onwarn: (warning) => assert.fail(warning.message),
      });
      await output.write({ dir: out, format: 'es' });
      await output.close();
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
      for (const [kind, script] of Object.entries({
        beside: mainScript('show', options),
        sharing: mainScript('share', options),
      })) {
        writeFileSync(join(folder, `${kind}.js`), script);
        await bundle(`${kind}.js`, out(kind));
        page(out(kind));
        cpSync(join(out(kind), `${kind}.js`), join(out(kind), 'main.js'));
        for (const part of ['dist', 'build/wasm'])
          cpSync(join(bq4, part), join(out(kind), 'bq4', part), { recursive: true });
      }
      await worksBuilt(`${name}-beside`, ALL_MODULES);
      await sharesBuilt(`${name}-sharing`);
    });

    test(`${name} alone: the error names the script, what answers, and the recipe`, async (t) => {
      cpSync(join(tabs, 'main.js'), join(folder, 'tabs.js'));
      for (const entry of ['main', 'tabs']) {
        const output = out(`alone-${entry}`);
        await bundle(`${entry}.js`, output);
        page(output);
        if (entry !== 'main') cpSync(join(output, `${entry}.js`), join(output, 'main.js'));
        for (const fallback of [undefined, 'index.html']) {
          const site = await folderHost(output, { fallback });
          t.after(() => site.close());
          const page = await newPage(browser);
          await page.goto(site.url);
          const result = await page.waitForFunction(() => /** @type {any} */ (window).result, null, {
            timeout: 60_000,
          });
          const { error, code, hint } = await result.jsonValue();
          assert.equal(code, 'NO_WORKER', error);
          const why = fallback
            ? 'worker.js: expected a script, found the content type "text/html'
            : 'worker.js responds with HTTP 404';
          assert.ok(error.includes(why), error);
          assert.match(hint, /esbuild, Rollup.*copy bq4\/dist and bq4\/build\/wasm.*"Bundlers"/);
          await page.context().close();
        }
      }
    });
  }
});
