#!/usr/bin/env node
// Prints what a page downloads: each shipped module, plain and compressed. The gate asks here too.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';

/** Bytes that one module may have when gzipped. */
export const MODULE_LIMIT = 80_000;
/** The module that times dot products before a build is chosen. */
export const PROBE = 'bq4-probe.wasm';
export const PROBE_LIMIT = 1_100;

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const FOLDER = join(ROOT, 'build', 'wasm');

/** @param {string} path */
function measure(path) {
  const bytes = readFileSync(path);
  return { plain: bytes.length, gzip: gzipSync(bytes, { level: 9 }).length, brotli: brotliCompressSync(bytes).length };
}

/** @returns {{name: string, plain: number, gzip: number, brotli: number}[]} in bytes */
export function sizes() {
  if (!existsSync(FOLDER)) return [];
  return readdirSync(FOLDER).filter((name) => name.endsWith('.wasm')).sort()
    .map((name) => ({ name, ...measure(join(FOLDER, name)) }));
}

/** All of js/, each file compressed by itself, as a server sends them. */
function scripts() {
  const folder = join(ROOT, 'js');
  const total = { name: 'js/', plain: 0, gzip: 0, brotli: 0 };
  for (const name of existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: 'utf8' }) : []) {
    if (!name.endsWith('.js')) continue;
    const size = measure(join(folder, name));
    total.plain += size.plain;
    total.gzip += size.gzip;
    total.brotli += size.brotli;
  }
  return total;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const rows = [...sizes(), scripts()];
  const pad = (/** @type {string | number} */ text) => String(text).padStart(9);
  console.log(`${'bytes'.padEnd(20)}${pad('plain')}${pad('gzip')}${pad('brotli')}`);
  for (const { name, plain, gzip, brotli } of rows) console.log(`${name.padEnd(20)}${pad(plain)}${pad(gzip)}${pad(brotli)}`);
}
