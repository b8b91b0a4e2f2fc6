#!/usr/bin/env node
// Prints what a page downloads: each shipped module, plain and compressed. The gate asks here too.
//
//   node tools/size.mjs [--parts]     --parts: each object of the builds of one thread, before linking: what no module
//                                     refers to (other tables, scalar kernels) is in it
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { PAGE } from './payload.mjs';

/** Bytes that one module may have when gzipped. */
export const MODULE_LIMIT = 107_600;
/** Of the kernels of rare types, fetched when a model has such weights, beside one of those. */
export const RARE = /-rare\.wasm$/;
export const RARE_LIMIT = 27_500;
/** The module that times dot products before a build is chosen. */
export const PROBE = 'bq4-probe.wasm';
export const PROBE_LIMIT = 1_400;
/** The module that holds replies to grammars, fetched when first asked for. */
export const GRAMMAR = 'bq4-grammar.wasm';
export const GRAMMAR_LIMIT = 16_000;
/** The demo's own scripts, each gzipped by itself, but for those that are loaded when first needed. */
export const DEMO_LIMIT = 69_500;
/** The modules of converters, which no page loads before it converts a model; the one for threads is for Node. */
export const CONVERT = /^bq4-convert(-threads)?\.wasm$/;

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const FOLDER = join(ROOT, 'build', 'wasm');

/** The SHA-256 of each module, as `sha256sum -c` reads it in dist/. */
export function wasmHashes() {
  const names = existsSync(FOLDER) ? readdirSync(FOLDER).filter((name) => name.endsWith('.wasm')) : [];
  const hash = (/** @type {string} */ name) =>
    createHash('sha256')
      .update(readFileSync(join(FOLDER, name)))
      .digest('hex');
  return names
    .sort()
    .map((name) => `${hash(name)}  ../build/wasm/${name}\n`)
    .join('');
}

/** @param {string} path */
const measure = (path) => compressed(readFileSync(path));

/** @param {Uint8Array} bytes */
function compressed(bytes) {
  return { plain: bytes.length, gzip: gzipSync(bytes, { level: 9 }).length, brotli: brotliCompressSync(bytes).length };
}

/** @returns {{name: string, plain: number, gzip: number, brotli: number}[]} in bytes */
export function sizes() {
  if (!existsSync(FOLDER)) return [];
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith('.wasm'))
    .sort()
    .map((name) => ({ name, ...measure(join(FOLDER, name)) }));
}

/** The sum of files, each compressed by itself, as a server sends them. @param {string} name @param {Iterable<string>} paths */
function totalOf(name, paths) {
  const total = { name, plain: 0, gzip: 0, brotli: 0 };
  for (const path of paths) {
    const size = measure(path);
    total.plain += size.plain;
    total.gzip += size.gzip;
    total.brotli += size.brotli;
  }
  return total;
}

/** What every visit of the demo loads of its own: what its page, its workers and its service worker begin with, and import. */
export function demoScripts() {
  const folder = join(ROOT, 'demo');
  /** @type {Set<string>} */
  const names = new Set();
  const add = (/** @type {string} */ name) => {
    if (names.has(name)) return;
    names.add(name);
    const text = readFileSync(join(folder, name), 'utf8');
    for (const [, imported] of text.matchAll(/^(?:import|export|\}) (?:.*from )?'(\.\.?\/[\w./-]+\.js)';/gm)) {
      const path = join(dirname(name), imported);
      if (!path.startsWith('..')) add(path);
    }
  };
  for (const name of ['theme.js', 'app.js', 'worker.js', 'thread.js', 'sw.js']) add(name);
  const paths = [...names].map((name) => join(folder, name));
  return totalOf('demo/, at every visit', paths);
}

/** What a page loads of the package. */
function pageScripts() {
  const paths = PAGE.map((name) => join(ROOT, 'dist', name));
  return totalOf(
    'dist/, what a page loads',
    paths.filter((path) => existsSync(path)),
  );
}

/** All of js/. */
function scripts() {
  const folder = join(ROOT, 'js');
  const names = existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: 'utf8' }) : [];
  const paths = names.filter((name) => name.endsWith('.js')).map((name) => join(folder, name));
  return totalOf('js/', paths);
}

/** Code and data of an object file: sections 10 and 11. @param {string} path */
function codeOf(path) {
  const bytes = readFileSync(path);
  const parts = [];
  for (let at = 8; at < bytes.length;) {
    const id = bytes[at++];
    let length = 0;
    for (let shift = 0, byte = 128; byte > 127; shift += 7) length |= ((byte = bytes[at++]) & 127) << shift;
    if (id === 10 || id === 11) parts.push(bytes.subarray(at, at + length));
    at += length;
  }
  return Buffer.concat(parts);
}

/** The objects of a build, the largest first. */
function parts() {
  const folder = join(ROOT, 'build', 'wasm-plain');
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.o'))
    .map((name) => ({ name, ...compressed(codeOf(join(folder, name))) }))
    .sort((a, b) => b.gzip - a.gzip);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const rows = process.argv.includes('--parts') ? parts() : [...sizes(), pageScripts(), scripts(), demoScripts()];
  const pad = (/** @type {string | number} */ text) => String(text).padStart(9);
  console.log(`${'bytes'.padEnd(30)}${pad('plain')}${pad('gzip')}${pad('brotli')}`);
  for (const { name, plain, gzip, brotli } of rows)
    console.log(`${name.padEnd(30)}${pad(plain)}${pad(gzip)}${pad(brotli)}`);
}
