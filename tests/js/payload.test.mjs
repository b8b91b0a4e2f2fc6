// What a page downloads of JavaScript from the package as it is shipped: dist/, which is js/ without comments and spaces.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { fromBytes } from '../../js/index.js';
import { makeDist, moduleSizes, pageModules, SCRIPT_LIMIT } from '../../tools/payload.mjs';
import { tinyModel } from './fixture.mjs';

const root = new URL('../../', import.meta.url);
before(() => assert.equal(makeDist(), ''));

test(`JavaScript of a page: at most ${SCRIPT_LIMIT} bytes gzipped`, () => {
  const files = pageModules();
  const sizes = moduleSizes(files).map(({ gzip }) => gzip);
  const sum = sizes.reduce((a, b) => a + b, 0);
  assert.ok(files.length > 15, 'the graph was followed');
  assert.ok(!files.some((url) => /companion|convert|inspect|sources\/file/.test(url)), `for Node or v1 files only: ${files}`);
  assert.ok(sum <= SCRIPT_LIMIT, `${sum} bytes: ${files.map((url, i) => `${url.slice(root.href.length)} ${sizes[i]}`).join(', ')}`);
  console.log(`${files.length} modules, ${sum} bytes gzipped`);
});

test('no eval, no blob: addresses, no absolute addresses to load from', () => {
  for (const url of pageModules()) assert.doesNotMatch(readFileSync(new URL(url), 'utf8'), /\beval\(|new Function|createObjectURL|['"]https?:/, url);
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
  for (const url of pageModules()) {
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
