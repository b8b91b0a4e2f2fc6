#!/usr/bin/env node
// Prints the sizes of the files that a page downloads: plain and compressed. Tests read their limits from here.
//
//   node tools/size.mjs [--parts]     --parts: sizes of the object files of the builds without threads, before linking. These
//                                     include code that the linker removes (other kernel tables)
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { PAGE_SCRIPTS } from './payload.mjs';

/** Limit in gzipped bytes for a module. */
export const MODULE_LIMIT = 108_950;
/** Modules with optional kernels, loaded in addition if a model has weights of uncommon types. */
export const OPTIONAL_KERNELS = /-rare\.wasm$/;
export const OPTIONAL_KERNELS_LIMIT = 27_500;
/** The module that measures dot products in order to choose a build. */
export const PROBE_MODULE = 'bq4-probe.wasm';
export const PROBE_LIMIT = 1_400;
/** The module that compiles and applies grammars, loaded when the first grammar is used. */
export const GRAMMAR_MODULE = 'bq4-grammar.wasm';
export const GRAMMAR_LIMIT = 16_000;
/** Limit in gzipped bytes for the demo's own scripts, each compressed separately, without those that are loaded on demand. */
export const DEMO_LIMIT = 70_500;
/** The modules of converters, loaded when a model is converted. The module with threads is for Node. */
export const CONVERTER_MODULES = /^bq4-convert(-threads)?\.wasm$/;

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const FOLDER = join(ROOT, 'build', 'wasm');

/** Returns the SHA-256 of each module in the format of `sha256sum -c`, with paths relative to dist/. */
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

/** Returns the sizes of a file in bytes. @param {string} path */
const sizesOfFile = (path) => sizesOf(readFileSync(path));

/** Returns the number of bytes, plain and compressed. @param {Uint8Array} bytes */
function sizesOf(bytes) {
  return { plain: bytes.length, gzip: gzipSync(bytes, { level: 9 }).length, brotli: brotliCompressSync(bytes).length };
}

/** Returns the sizes of the wasm modules in bytes. @returns {{name: string, plain: number, gzip: number, brotli: number}[]} */
export function moduleSizes() {
  if (!existsSync(FOLDER)) return [];
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith('.wasm'))
    .sort()
    .map((name) => ({ name, ...sizesOfFile(join(FOLDER, name)) }));
}

/** Returns the sum of the sizes of files, each compressed separately, as servers compress them. @param {string} name @param {Iterable<string>} paths */
function totalOf(name, paths) {
  const total = { name, plain: 0, gzip: 0, brotli: 0 };
  for (const path of paths) {
    const size = sizesOfFile(path);
    total.plain += size.plain;
    total.gzip += size.gzip;
    total.brotli += size.brotli;
  }
  return total;
}

/** Returns the size of the demo's scripts that every visit loads: entries of page, workers and service worker, and imports. */
export function demoScriptSizes() {
  const folder = join(ROOT, 'demo');
  /** @type {Set<string>} */
  const names = new Set();
  const addScript = (/** @type {string} */ name) => {
    if (names.has(name)) return;
    names.add(name);
    const text = readFileSync(join(folder, name), 'utf8');
    for (const [, importPath] of text.matchAll(/^(?:import|export|\}) (?:.*from )?'(\.\.?\/[\w./-]+\.js)';/gm)) {
      const path = join(dirname(name), importPath);
      if (!path.startsWith('..')) addScript(path);
    }
  };
  for (const name of ['theme.js', 'app.js', 'worker.js', 'thread.js', 'sw.js']) addScript(name);
  const paths = [...names].map((name) => join(folder, name));
  return totalOf('demo/, each visit', paths);
}

/** Returns the size of the package's files that a page loads. */
function pageScriptSizes() {
  const paths = PAGE_SCRIPTS.map((name) => join(ROOT, 'dist', name));
  return totalOf(
    'dist/, files of a page',
    paths.filter((path) => existsSync(path)),
  );
}

/** Returns the size of all files in js/. */
function sourceSizes() {
  const folder = join(ROOT, 'js');
  const names = existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: 'utf8' }) : [];
  const paths = names.filter((name) => name.endsWith('.js')).map((name) => join(folder, name));
  return totalOf('js/', paths);
}

/** Returns the code and the data of a wasm object file (sections 10 and 11). @param {string} path */
function codeOf(path) {
  const bytes = readFileSync(path);
  const sections = [];
  for (let offset = 8; offset < bytes.length;) {
    const id = bytes[offset++];
    let length = 0;
    for (let shift = 0, byte = 128; byte > 127; shift += 7) length |= ((byte = bytes[offset++]) & 127) << shift;
    if (id === 10 || id === 11) sections.push(bytes.subarray(offset, offset + length));
    offset += length;
  }
  return Buffer.concat(sections);
}

/** Returns the sizes of the object files of a build, the largest first. */
function objectFileSizes() {
  const folder = join(ROOT, 'build', 'wasm-plain');
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.o'))
    .map((name) => ({ name, ...sizesOf(codeOf(join(folder, name))) }))
    .sort((a, b) => b.gzip - a.gzip);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const rows = process.argv.includes('--parts')
    ? objectFileSizes()
    : [...moduleSizes(), pageScriptSizes(), sourceSizes(), demoScriptSizes()];
  const pad = (/** @type {string | number} */ text) => String(text).padStart(9);
  console.log(`${'bytes'.padEnd(30)}${pad('plain')}${pad('gzip')}${pad('brotli')}`);
  for (const { name, plain, gzip, brotli } of rows)
    console.log(`${name.padEnd(30)}${pad(plain)}${pad(gzip)}${pad(brotli)}`);
}
