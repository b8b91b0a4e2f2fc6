// What a page downloads of JavaScript from the package as it is shipped: dist/, each file as a server sends it.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

/** Gzipped bytes that all of it may have. */
export const SCRIPT_LIMIT = 30_000;

const DIST = new URL('../dist/', import.meta.url);
/** What a page with threads loads: its own imports, those of the engine's worker, those of the other threads', a model's by an address. */
const ENTRIES = ['index.js', 'worker.js', 'wasm/threads.js', 'thread.js', 'sources/remote.js', 'sources/http.js'];

/** Makes dist/. @returns {string} what went wrong; '' if nothing */
export function makeDist() {
  const made = spawnSync(process.execPath, ['tools/dist.mjs'], { cwd: new URL('..', import.meta.url), encoding: 'utf8' });
  return made.status === 0 ? '' : made.stdout + made.stderr;
}

/** @param {string} url @param {Set<string>} seen */
function follow(url, seen) {
  if (seen.has(url)) return seen;
  seen.add(url);
  for (const [, name] of readFileSync(new URL(url), 'utf8').matchAll(/(?:^|;)(?:import|export)[^;'"]*?from\s*["']([^"']+)["']/gm)) {
    if (!/^\.\.?\//.test(name)) throw new Error(`${url} imports ${name}: only our own modules, by relative address`);
    follow(new URL(name, url).href, seen);
  }
  return seen;
}

/** Addresses of all modules of dist/ that a page loads. */
export function pageModules() {
  /** @type {Set<string>} */
  const seen = new Set();
  for (const entry of ENTRIES) follow(new URL(entry, DIST).href, seen);
  return [...seen];
}

/** @param {readonly string[]} urls @returns {{ raw: number, gzip: number }[]} bytes of each */
export const moduleSizes = (urls) => urls.map((url) => readFileSync(new URL(url))).map((bytes) => ({ raw: bytes.length, gzip: gzipSync(bytes, { level: 9 }).length }));
