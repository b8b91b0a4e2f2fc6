// Tests of the package: dist/, bundled from js/ and bin/. tests/browser/readme.test.mjs tests the bytes that a browser transfers.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { fromBytes } from '../../js/index.js';
import {
  ADAPTER_LIMIT,
  ADAPTERS,
  ENTRY_LIMITS,
  makeDist,
  PAGE_SCRIPTS,
  SCRIPT_LIMIT,
  sizeOf,
  THREAD_LIMIT,
} from '../../tools/payload.mjs';
import { packedFiles } from '../packed-files.mjs';
import { tinyModel } from './fixture.mjs';

const root = new URL('../../', import.meta.url);
/** @param {string} name  in dist/ */
const textOf = (name) => readFileSync(new URL(`dist/${name}`, root), 'utf8');
const all = () => readdirSync(new URL('dist', root)).sort();
/** Names of what a file of dist/ imports, on demand too. @param {string} text */
const importsOf = (text) => [...text.matchAll(/(?:from|import)\s*\(?\s*["'](\.[\w./-]+)["']/g)].map(([, name]) => name);
const manifest = JSON.parse(readFileSync(new URL('package.json', root), 'utf8'));

before(() => assert.equal(makeDist(), ''));

test(`JavaScript of a page: at most ${SCRIPT_LIMIT} bytes gzipped, of its own thread ${THREAD_LIMIT}`, () => {
  const sizes = PAGE_SCRIPTS.map((name) => sizeOf(name).gzip);
  const sum = sizes.reduce((a, b) => a + b, 0);
  assert.ok(sum <= SCRIPT_LIMIT, `${sum} bytes: ${PAGE_SCRIPTS.map((name, i) => `${name} ${sizes[i]}`).join(', ')}`);
  assert.ok(sizes[0] <= THREAD_LIMIT, `${sizes[0]} bytes`);
});

test('README.md states what a page loads, within 5 KB', () => {
  const readme = readFileSync(new URL('README.md', root), 'utf8');
  const [, wasm, script] = /about (\d+) KB of WebAssembly and (\d+) KB of JavaScript, gzipped/.exec(readme) ?? [];
  const module = gzipSync(readFileSync(new URL('build/wasm/bq4-relaxed.wasm', root)), { level: 9 });
  const scripts = PAGE_SCRIPTS.reduce((sum, name) => sum + sizeOf(name).gzip, 0);
  for (const [stated, bytes] of [
    [wasm, module.length],
    [script, scripts],
  ])
    assert.ok(Math.abs(Number(stated) * 1000 - Number(bytes)) <= 5000, `${stated} KB, found ${bytes} bytes`);
});

test(`adapters: one file each (and one for tools, on demand), at most ${ADAPTER_LIMIT} bytes gzipped`, () => {
  for (const name of ADAPTERS) {
    const { gzip } = sizeOf(name);
    assert.ok(gzip <= ADAPTER_LIMIT, `${name} has ${gzip} bytes`);
    assert.ok(manifest.exports[`./${name.replace('.js', '')}`], name);
  }
});

test('every entry of the package has a limit: as an adapter, as a part of a page, or its own', () => {
  const own = [
    'index.js',
    'node.js',
    'worker.js',
    'thread.js',
    'io-worker.js',
    ...ADAPTERS,
    ...Object.keys(ENTRY_LIMITS),
  ];
  const entries = Object.values(manifest.exports).filter((entry) => typeof entry === 'object');
  assert.deepEqual(entries.map((entry) => entry.default.replace('./dist/', '')).sort(), own.sort());
  const adapters = entries.filter((entry) => entry.types.includes('/js/api/adapters/'));
  assert.deepEqual(adapters.map((entry) => entry.default.replace('./dist/', '')).sort(), ADAPTERS);
  for (const [name, limit] of Object.entries(ENTRY_LIMITS))
    assert.ok(sizeOf(name).gzip <= limit, `${name} has ${sizeOf(name).gzip} bytes`);
});

/** What files load that else are one. @type {Record<string, string[]>} */
const ON_DEMAND = { 'prompt-api.js': ['./part-prompt-tools.js'], 'thread.js': ['./part-tensor-parallel-worker.js'] };

test('no module imports a script that starts a thread, since another address would start a second one', () => {
  for (const name of all()) for (const target of importsOf(textOf(name))) assert.match(target, /^\.\/part-/, name);
  for (const name of [
    'thread.js',
    'io-worker.js',
    'round-thread.js',
    'single.js',
    'classifiers.js',
    'part-openai.js',
    'part-supported.js',
    'connect.js',
    ...ADAPTERS,
    'cli.js',
  ])
    assert.deepEqual(importsOf(textOf(name)), ON_DEMAND[name] ?? [], `${name} is one file, but for what few need`);
  const parts = ['./part-background.js', './part-openai.js', './part-worker-error.js'];
  assert.deepEqual(importsOf(textOf('shared.js')).sort(), parts, 'on demand');
  assert.deepEqual(importsOf(textOf('index.js')).sort(), [...parts, './part-supported.js'].sort(), 'on demand');
  assert.deepEqual(importsOf(textOf('node.js')).sort(), ['./part-core.js', './part-openai.js', './part-supported.js']);
  assert.deepEqual(importsOf(textOf('worker.js')), ['./part-core.js']);
  assert.ok(all().length > 15, `${all()}`);
});

test('dist/ contains no eval, no blob: addresses, no absolute addresses except that of the hub, and no comments', () => {
  for (const name of all().filter((file) => file !== 'cli.js')) {
    assert.doesNotMatch(
      textOf(name),
      /\beval\(|new Function|createObjectURL|['"`]https?:\/\/(?!bq4\.invalid|huggingface\.co)/,
      name,
    );
    assert.doesNotMatch(textOf(name), /^\s*(\/\*|\/\/)/m, name);
    // For these Parcel brings packages; of globalThis they are Node's own.
    assert.doesNotMatch(textOf(name), /(?<![\w.$'"`])(process|Buffer)(?=[.?(])/, name);
  }
});

test('the package contains the files that it names and loads, by addresses that bundlers recognize', () => {
  const files = packedFiles();
  const named = [...Object.values(manifest.exports), manifest.bin.bq4, manifest.types].flatMap((entry) =>
    typeof entry === 'string' ? entry : Object.values(entry),
  );
  for (const path of named.filter((name) => !name.includes('*') && !name.startsWith('./build/types/')))
    assert.ok(files.has(path.replace(/^\.\//, '')), `the package lacks ${path}`);
  assert.ok(![...files].some((path) => /^(js|bin)\//.test(path)), 'what is bundled does not come a second time');
  let found = 0;
  for (const name of all())
    for (const [, path] of textOf(name).matchAll(/new URL\(["']([^"']+)["'], ?import\.meta\.url\)/g)) {
      const target = new URL(path, new URL(`dist/${name}`, root));
      assert.ok(
        existsSync(fileURLToPath(target)) && files.has(target.href.slice(root.href.length)),
        `${name} loads ${path}`,
      );
      found++;
    }
  assert.ok(found >= 4 * 3 + 6, 'four modules in four files, and scripts of workers');
});

test('exports with a * lead to packed files: wasm modules and classifiers', async () => {
  const files = packedFiles();
  /** @type {Record<string, RegExp>} */
  const patterns = { 'classifiers/*': /^classifiers\/(.*\.json)$/, 'files/*.wasm': /^build\/wasm\/(.*)\.wasm$/ };
  assert.deepEqual(
    Object.keys(manifest.exports).filter((name) => name.includes('*')),
    Object.keys(patterns).map((entry) => `./${entry}`),
  );
  for (const [entry, pattern] of Object.entries(patterns)) {
    const names = [...files].flatMap((path) => pattern.exec(path)?.[1] ?? []);
    assert.ok(names.length >= 2, `${entry}: ${names}`);
    for (const name of names) {
      // By the package's own name, as whoever installed it resolves it.
      const url = new URL(import.meta.resolve(`bq4/${entry.replace('*', name)}`));
      assert.ok(existsSync(url) && files.has(url.href.slice(root.href.length)), url.href);
      if (entry.endsWith('.wasm')) await WebAssembly.compile(readFileSync(url));
      else assert.ok((await import(url.href, { with: { type: 'json' } })).default.labels.length > 1, name);
    }
  }
});

test('installing the package runs no script: `prepare` works in a checkout only', () => {
  const { scripts } = manifest;
  assert.deepEqual(
    Object.keys(scripts).filter((name) => /install$/.test(name)),
    [],
  );
  assert.ok(!packedFiles().has('binding.gyp'), 'npm would build it');
});

test("the package runs: a page's engine, the engine of this thread, one for all tabs, the command line", async () => {
  const { createWorkerEngine } = await import(new URL('dist/index.js', root).href);
  const { createEngine } = await import(new URL('dist/node.js', root).href);
  const { createSharedEngine } = await import(new URL('dist/shared.js', root).href);
  /** @type {number[][]} */
  const all = [];
  for (const create of [createWorkerEngine, createEngine, createSharedEngine]) {
    const engine = await create({ threads: 2 });
    assert.equal(engine.info.threads, 2, engine.info.threadsReason);
    const model = await engine.load(fromBytes(await tinyModel()));
    all.push((await (await model.createSession()).generate('x', { maxTokens: 3, temperature: 0 }).result).tokens);
    await engine.close();
  }
  assert.equal(all[0].length, 3);
  assert.deepEqual([all[1], all[2]], [all[0], all[0]]);
  const run = spawnSync(
    process.execPath,
    ['dist/cli.js', 'run', 'models/chat.bq4', '--prompt', 'Once', '--max-tokens', '3', '--json'],
    { cwd: root, encoding: 'utf8' },
  );
  assert.equal(JSON.parse(run.stdout).tokens.length, 3, run.stderr);
  const folder = mkdtempSync(join(tmpdir(), 'bq4-payload-'));
  const threads = ['quantize', 'models/chat.bq4', join(folder, 'a.bq4'), '--threads', '2'];
  const output = spawnSync(process.execPath, ['dist/cli.js', ...threads], { cwd: root, encoding: 'utf8' });
  rmSync(folder, { recursive: true });
  assert.equal(output.status, 0, output.stderr);
});

test('public names are the same in dist/ as in js/', async () => {
  for (const name of ['index.js', 'node.js', 'connect.js']) {
    const [source, output] = await Promise.all([
      import(new URL(`js/${name}`, root).href),
      import(new URL(`dist/${name}`, root).href),
    ]);
    assert.deepEqual(Object.keys(output).sort(), Object.keys(source).sort());
  }
});
