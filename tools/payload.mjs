// Limits for the JavaScript that a page downloads from dist/, as gzipped bytes of each file.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { Product } from './digest.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/**
 * Limits in gzipped bytes for all JavaScript of a page, and for the files that its main thread loads. The latter contain `load`,
 * error groups and hints, sources on the hub and the conversion of Standard JSON Schemas. THREAD_LIMIT includes the page's own
 * script in tests/browser/readme.test.mjs.
 */
export const SCRIPT_LIMIT = 65_230;
export const THREAD_LIMIT = 13_050;

/** Limit in gzipped bytes for a library adapter. */
export const ADAPTER_LIMIT = 6_900;
/** Library adapters: files of dist/. */
export const ADAPTERS = ['ai-sdk.js', 'langchain.js', 'prompt-api.js', 'react.js'];

/** Limits for other entries: those that replace `bq4` (`connect`, `shared`), and those used in addition to it. @type {Record<string, number>} */
export const ENTRY_LIMITS = {
  'connect.js': 8_800,
  'classifiers.js': 5_230,
  'receipts.js': 4_760,
  'shared.js': 19_300,
};

/** Files that a page with threads, a cache and a model from a URL loads, in its main thread, the engine's worker and threads. */
export const PAGE_SCRIPTS = ['index.js', 'worker.js', 'part-core.js', 'thread.js'];

/** dist/ and its sources. */
const PRODUCT = new Product(ROOT, {
  folder: 'dist',
  sources: [
    ...['js', 'bin', 'build/wasm', 'package.json', 'package-lock.json'],
    ...['addresses', 'dist', 'option-columns', 'size'].map((name) => `tools/${name}.mjs`),
  ],
});

/** Generates dist/ if it is missing or outdated. @returns {string}  the output if this failed, otherwise '' */
export function makeDist() {
  // With BQ4_DIST the test runner has already generated it for all test files.
  if (process.env.BQ4_DIST || PRODUCT.isCurrent()) return '';
  const build = spawnSync(process.execPath, ['tools/dist.mjs'], { cwd: ROOT, encoding: 'utf8' });
  if (build.status !== 0) return build.stdout + build.stderr;
  PRODUCT.recordDigest();
  return '';
}

/** Returns the size in bytes of a file in dist/. @param {string} name @returns {{ raw: number, gzip: number }} */
export function sizeOf(name) {
  const bytes = readFileSync(new URL(`../dist/${name}`, import.meta.url));
  return { raw: bytes.length, gzip: gzipSync(bytes, { level: 9 }).length };
}
