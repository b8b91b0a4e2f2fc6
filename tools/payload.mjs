// What a page downloads of JavaScript from the package as it is shipped: dist/, each file as a server sends it.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { Product } from './digest.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/**
 * Gzipped bytes of all JavaScript of a page, and of what its own thread loads: with `load`, error groups and hints, sources on the
 * hub and the conversion of Standard JSON Schemas. The thread's include the page itself in tests/browser/readme.test.mjs.
 */
export const SCRIPT_LIMIT = 64_400;
export const THREAD_LIMIT = 12_930;

/** Gzipped bytes of an adapter. */
export const ADAPTER_LIMIT = 6_260;
export const ADAPTERS = ['ai-sdk.js', 'langchain.js', 'prompt-api.js', 'react.js'];

/** Of the entries that are none: what a page takes instead of `bq4` (`connect`, `shared`) or beside it. @type {Record<string, number>} */
export const ENTRY_LIMITS = { 'connect.js': 9_550, 'classifiers.js': 5_230, 'receipts.js': 4_760, 'shared.js': 19_210 };

/** What a page with threads, a cache and a model from an address loads: its own thread, the engine's worker, the other threads. */
export const PAGE = ['index.js', 'worker.js', 'part-core.js', 'thread.js'];

/** dist/, and what it is made of. */
const PRODUCT = new Product(ROOT, {
  folder: 'dist',
  sources: [
    ...['js', 'bin', 'build/wasm', 'package.json', 'package-lock.json'],
    ...['addresses', 'dist', 'option-columns', 'size'].map((name) => `tools/${name}.mjs`),
  ],
});

/** Makes dist/, unless it is there as its sources are. @returns {string} what went wrong; '' if nothing */
export function makeDist() {
  // The suite has made it, for all of its files.
  if (process.env.BQ4_DIST || PRODUCT.isCurrent()) return '';
  const output = spawnSync(process.execPath, ['tools/dist.mjs'], { cwd: ROOT, encoding: 'utf8' });
  if (output.status !== 0) return output.stdout + output.stderr;
  PRODUCT.noteMade();
  return '';
}

/** Bytes of a file of dist/. @param {string} name @returns {{ raw: number, gzip: number }} */
export function sizeOf(name) {
  const bytes = readFileSync(new URL(`../dist/${name}`, import.meta.url));
  return { raw: bytes.length, gzip: gzipSync(bytes, { level: 9 }).length };
}
