// What a page downloads of JavaScript from the package as it is shipped: dist/, each file as a server sends it.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

/**
 * Gzipped bytes of all JavaScript of a page, and of what its own thread loads: with `load`, error groups and hints, sources on the
 * hub and the conversion of Standard JSON Schemas. The thread's include the page itself in tests/browser/readme.test.mjs.
 */
export const SCRIPT_LIMIT = 61_300;
export const THREAD_LIMIT = 12_900;

/** Gzipped bytes of an adapter. */
export const ADAPTER_LIMIT = 5_230;
export const ADAPTERS = ['ai-sdk.js', 'langchain.js', 'prompt-api.js', 'react.js'];

/** Of the entries that are none: what a page takes instead of `bq4` (`connect`, `shared`) or beside it. @type {Record<string, number>} */
export const ENTRY_LIMITS = { 'connect.js': 8_910, 'classifiers.js': 4_650, 'receipts.js': 4_700, 'shared.js': 19_210 };

/** What a page with threads, a cache and a model from an address loads: its own thread, the engine's worker, the other threads. */
export const PAGE = ['index.js', 'worker.js', 'part-core.js', 'thread.js'];

/** Makes dist/. @returns {string} what went wrong; '' if nothing */
export function makeDist() {
  if (process.env.BQ4_DIST) return ''; // the suite has made it, for all of its files
  const output = spawnSync(process.execPath, ['tools/dist.mjs'], {
    cwd: new URL('..', import.meta.url),
    encoding: 'utf8',
  });
  return output.status === 0 ? '' : output.stdout + output.stderr;
}

/** Bytes of a file of dist/. @param {string} name @returns {{ raw: number, gzip: number }} */
export function sizeOf(name) {
  const bytes = readFileSync(new URL(`../dist/${name}`, import.meta.url));
  return { raw: bytes.length, gzip: gzipSync(bytes, { level: 9 }).length };
}
