// What a page downloads of JavaScript: everything that js/index.js and js/worker.js import statically.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';

const root = new URL('../../js/', import.meta.url);
const LIMIT = 34 * 1024;

/** @param {string} entry */
function graph(entry, seen = new Set()) {
  const url = new URL(entry, root).href;
  if (seen.has(url)) return seen;
  seen.add(url);
  const text = readFileSync(new URL(url), 'utf8').replace(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, '');
  for (const [, name] of text.matchAll(/^(?:import|export)\s[^;]*?from\s*'([^']+)'/gm)) {
    assert.match(name, /^\.\.?\//, `${url} imports ${name}: only our own modules, by relative address`);
    graph(new URL(name, url).href, seen);
  }
  return seen;
}

test('JavaScript of a page: at most 34 KiB gzipped, comments and all', () => {
  const files = [...graph('worker.js', graph('index.js'))];
  const sizes = files.map((url) => gzipSync(readFileSync(new URL(url)), { level: 9 }).length);
  const sum = sizes.reduce((a, b) => a + b, 0);
  assert.ok(files.length > 15, 'the graph was followed');
  assert.ok(!files.some((url) => /companion|convert|inspect|sources\/file/.test(url)), `for Node or v1 files only: ${files}`);
  assert.ok(sum <= LIMIT, `${sum} bytes: ${files.map((url, i) => `${url.slice(root.href.length)} ${sizes[i]}`).join(', ')}`);
  console.log(`${files.length} modules, ${sum} bytes gzipped`);
});

test('no eval, no blob: addresses, no absolute addresses to load from', () => {
  for (const url of graph('worker.js', graph('index.js'))) {
    const text = readFileSync(new URL(url), 'utf8').replace(/\/\*[^]*?\*\/|^\s*\/\/.*$/gm, '');
    assert.doesNotMatch(text, /\beval\(|new Function|createObjectURL|'https?:/, url);
  }
});
