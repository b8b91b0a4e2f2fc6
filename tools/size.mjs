#!/usr/bin/env node
// Prints the sizes of the files that a page downloads: plain and compressed. Tests read their limits from here.
//
//   node tools/size.mjs [--parts]     --parts: sizes of the object files of the builds without threads, before linking. These
//                                     include unused code (other tables, scalar kernels)
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { PAGE } from './payload.mjs';

/** Limit in gzipped bytes for a module. */
export const MODULE_LIMIT = 107_600;
/** Modules with optional kernels, loaded in addition if a model has weights of rare types. */
export const RARE = /-rare\.wasm$/;
export const RARE_LIMIT = 27_500;
/** The module that measures dot products in order to choose a build. */
export const PROBE = 'bq4-probe.wasm';
export const PROBE_LIMIT = 1_400;
/** The module that compiles and applies grammars, loaded when the first grammar is used. */
export const GRAMMAR = 'bq4-grammar.wasm';
export const GRAMMAR_LIMIT = 16_000;
/** Limit for the demo's own scripts, each gzipped separately, without those that are loaded on demand. */
export const DEMO_LIMIT = 70_000;
/** The modules of converters, loaded when a model is converted; the one with threads is for Node. */
export const CONVERT = /^bq4-convert(-threads)?\.wasm$/;

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

/** Returns the sum of the sizes of files, each compressed separately, as a server does it. @param {string} name @param {Iterable<string>} paths */
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

/** Returns the size of the demo's scripts that every visit loads: entries of page, workers and service worker, and imports. */
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

/** Returns the size of the package's files that a page loads. */
function pageScripts() {
  const paths = PAGE.map((name) => join(ROOT, 'dist', name));
  return totalOf(
    'dist/, what a page loads',
    paths.filter((path) => existsSync(path)),
  );
}

/** Returns the size of all files in js/. */
function scripts() {
  const folder = join(ROOT, 'js');
  const names = existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: 'utf8' }) : [];
  const paths = names.filter((name) => name.endsWith('.js')).map((name) => join(folder, name));
  return totalOf('js/', paths);
}

/** Returns code and data of an object file (sections 10 and 11). @param {string} path */
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

/** Returns the sizes of the object files of a build, the largest first. */
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
