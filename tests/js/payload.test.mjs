// What a page downloads of JavaScript from the package as it is shipped: dist/, which is js/ without comments and spaces.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { fromBytes } from '../../js/index.js';
import { tinyModel } from './fixture.mjs';

const root = new URL('../../', import.meta.url);
const LIMIT = 30_000;
/** What a page with threads loads: its own imports, those of the engine's worker, those of the other threads', a model's by an address. */
const ENTRIES = ['index.js', 'worker.js', 'threads.js', 'thread.js', 'sources/remote.js', 'sources/http.js'];

before(() => {
  const made = spawnSync(process.execPath, ['tools/dist.mjs'], { cwd: root, encoding: 'utf8' });
  assert.equal(made.status, 0, made.stdout + made.stderr);
});

/** @param {string} url @param {Set<string>} seen */
function follow(url, seen) {
  if (seen.has(url)) return seen;
  seen.add(url);
  const text = readFileSync(new URL(url), 'utf8');
  for (const [, name] of text.matchAll(/(?:^|;)(?:import|export)[^;'"]*?from\s*["']([^"']+)["']/gm)) {
    assert.match(name, /^\.\.?\//, `${url} imports ${name}: only our own modules, by relative address`);
    follow(new URL(name, url).href, seen);
  }
  return seen;
}

/** Addresses of all modules that a page loads. */
function loaded() {
  /** @type {Set<string>} */
  const seen = new Set();
  for (const entry of ENTRIES) follow(new URL(`dist/${entry}`, root).href, seen);
  return [...seen];
}

test(`JavaScript of a page: at most ${LIMIT} bytes gzipped`, () => {
  const files = loaded();
  const sizes = files.map((url) => gzipSync(readFileSync(new URL(url)), { level: 9 }).length);
  const sum = sizes.reduce((a, b) => a + b, 0);
  assert.ok(files.length > 15, 'the graph was followed');
  assert.ok(!files.some((url) => /companion|convert|inspect|sources\/file/.test(url)), `for Node or v1 files only: ${files}`);
  assert.ok(sum <= LIMIT, `${sum} bytes: ${files.map((url, i) => `${url.slice(root.href.length)} ${sizes[i]}`).join(', ')}`);
  console.log(`${files.length} modules, ${sum} bytes gzipped`);
});

test('no eval, no blob: addresses, no absolute addresses to load from', () => {
  for (const url of loaded()) assert.doesNotMatch(readFileSync(new URL(url), 'utf8'), /\beval\(|new Function|createObjectURL|['"]https?:/, url);
});

test('dist/ has every module of js/, without comments', () => {
  const modules = (/** @type {string} */ folder) => readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js')).sort();
  assert.deepEqual(modules('dist'), modules('js'));
  for (const name of modules('dist')) assert.doesNotMatch(readFileSync(new URL(`dist/${name}`, root), 'utf8'), /^\s*(\/\*|\/\/)/m, name);
});

test('the package contains what its modules load, by addresses that bundlers understand', () => {
  const packed = spawnSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: root, encoding: 'utf8' });
  const files = new Set(JSON.parse(packed.stdout)[0].files.map((/** @type {any} */ file) => file.path));
  const { exports } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8'));
  assert.equal(exports['.'].default, './dist/index.js');
  let found = 0;
  for (const url of loaded()) {
    assert.ok(files.has(url.slice(root.href.length)), url);
    for (const [, name] of readFileSync(new URL(url), 'utf8').matchAll(/new URL\(["']([^"']+)["'], ?import\.meta\.url\)/g)) {
      const target = new URL(name, url);
      assert.ok(existsSync(fileURLToPath(target)) && files.has(target.href.slice(root.href.length)), `${url} loads ${name}`);
      found++;
    }
  }
  assert.ok(found >= 4 + 3, 'four modules, and scripts of workers');
});

test('the package computes, with threads', async () => {
  const { createWorkerEngine } = await import(new URL('dist/index.js', root).href);
  const engine = await createWorkerEngine({ threads: 2 });
  assert.equal(engine.info.threads, 2);
  const model = await engine.load(fromBytes(await tinyModel()));
  assert.equal((await (await model.createSession()).generate('x', { maxTokens: 3 }).done()).ids.length, 3);
  await engine.close();
});
