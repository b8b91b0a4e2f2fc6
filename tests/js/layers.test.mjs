// The direction of dependencies, as docs/ARCHITECTURE.md draws it: an #include or import may only
// name a room that is listed for its own room here.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');

/** Rooms of c/ and what each may include besides itself. `bq.h` is the public interface: the rooms
 * that implement it include it too. `api` is the files directly in c/. */
const c = {
  core: [],
  kernels: ['core'],
  text: ['core'],
  model: ['core', 'kernels', 'text', 'bq.h'],
  format: ['core', 'kernels', 'text', 'model', 'bq.h'],
  session: ['core', 'kernels', 'text', 'model', 'bq.h'],
  api: ['core', 'kernels', 'text', 'model', 'format', 'session', 'bq.h'],
};
/** bq.h itself shows no more than these. */
const shown = ['core', 'kernels', 'text', 'model'];

/** Groups of js modules, lowest first, and what each may import besides itself. */
const js = [
  { name: 'errors', files: /^js\/(errors|types|protocol|border|stop|features|turn)\.js$/, may: [] },
  { name: 'sources', files: /^js\/sources\//, may: ['errors'] },
  { name: 'store', files: /^js\/store\//, may: ['errors', 'sources'] },
  { name: 'engine', files: /^js\/[^/]+\.js$/, may: ['errors', 'sources', 'store', 'engine', 'convert'] },
  { name: 'convert', files: /^js\/convert\//, may: ['errors', 'sources', 'engine'] },
  { name: 'demo', files: /^demo\//, may: ['engine', 'errors', 'sources'] },
];

/** @param {string} dir @returns {string[]} */
function walk(dir) {
  return readdirSync(join(root, dir), { withFileTypes: true }).flatMap((e) =>
    e.isDirectory() ? walk(`${dir}/${e.name}`) : [`${dir}/${e.name}`],
  );
}

/** @param {string} path in c/ */
const roomOf = (path) => (path === 'bq.h' ? 'bq.h' : path.includes('/') ? path.split('/')[0] : 'api');

test('c/: includes point down', () => {
  const wrong = [];
  for (const file of walk('c').filter((f) => /\.[ch]$/.test(f))) {
    const room = roomOf(file.slice(2));
    const may = room === 'bq.h' ? shown : [...c[/** @type {keyof typeof c} */ (room)], room];
    for (const [, name] of readFileSync(join(root, file), 'utf8').matchAll(/#include "([^"]+)"/g)) {
      const target = roomOf(name.includes('/') || name === 'bq.h' ? name : `${room}/${name}`);
      if (!may.includes(target)) wrong.push(`${file} includes ${name}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test('c/: no platform headers, no stdio, intrinsics only in kernels', () => {
  const plain = /^(std(arg|bool|def|int)|string|limits|float)\.h$/;
  const wrong = [];
  for (const file of walk('c').filter((f) => /\.[ch]$/.test(f))) {
    for (const [, name] of readFileSync(join(root, file), 'utf8').matchAll(/#include <([^>]+)>/g)) {
      const kernel = file.startsWith('c/kernels/') && name === 'wasm_simd128.h';
      if (!plain.test(name) && !kernel) wrong.push(`${file} includes <${name}>`);
    }
  }
  assert.deepEqual(wrong, []);
});

test('js/ and demo/: imports point down', () => {
  const files = [...walk('js'), ...walk('demo')].filter((f) => f.endsWith('.js'));
  /** @param {string} f */
  const groupOf = (f) => js.find((g) => g.files.test(f));
  const wrong = [];
  for (const file of files) {
    const group = groupOf(file);
    assert.ok(group, `${file} belongs to no group of this test`);
    const text = readFileSync(join(root, file), 'utf8').replace(/\/\*[^]*?\*\/|\/\/.*/g, '');
    for (const [, name] of text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)) {
      const target = groupOf(relative(root, normalize(join(root, dirname(file), name))));
      if (target && target !== group && !group.may.includes(target.name)) {
        wrong.push(`${file} imports ${name}`);
      }
    }
  }
  assert.deepEqual(wrong, []);
});

test('js/: a module that is loaded on demand fails as BqError, and bundlers see its address', () => {
  const files = walk('js').filter((f) => f.endsWith('.js') && !f.startsWith('js/convert/'));
  let found = 0;
  for (const file of files) {
    const text = readFileSync(join(root, file), 'utf8').replace(/\/\*[^]*?\*\/|\/\/.*/g, '');
    for (const [call] of text.matchAll(/.{0,9}\bimport\(.*/g)) {
      if (file === 'js/sources/node.js') continue;
      assert.match(call, /^onDemand\(import\('\.[^']+'\)\)/, file);
      found++;
    }
  }
  assert.ok(found > 15);
});

test('tests/README.md: the tests that it names exist', () => {
  let found = 0;
  for (const row of readFileSync(join(root, 'tests/README.md'), 'utf8').split('\n').filter((line) => line.startsWith('| ') && line.includes('.mjs` "'))) {
    for (const [, file, names] of row.matchAll(/`([^`]+\.mjs)`((?: "[^"]+",?)+)/g)) {
      const text = readFileSync(join(root, 'tests', file), 'utf8').replaceAll("\\'", "'");
      for (const [, name] of names.matchAll(/"([^"]+)"/g)) {
        assert.ok(text.includes(name), `${file} has no "${name}"`);
        found++;
      }
    }
  }
  assert.ok(found > 40, `${found} tests`);
});
