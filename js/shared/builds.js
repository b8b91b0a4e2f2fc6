/**
 * Addresses of the wasm modules: from the option `wasmUrl`, or those of this package. The page makes them absolute,
 * because a worker would resolve relative addresses against its own script.
 */

import { BqError } from './errors.js';

/** @import { EngineOptions } from './types.js' */

/** Creates the error ARGUMENT for a string that is no absolute address. @param {unknown} url */
export const noAddress = (url) =>
  new BqError('ARGUMENT', `expected a full address, found "${url}"`, {
    hint: 'use fromFile() for a path in Node, or a file: address',
  });

/** Resolves an address against the page. Throws ARGUMENT. @param {string | URL} url @returns {string} */
export function fullUrl(url) {
  try {
    return new URL(url, globalThis.document?.baseURI ?? globalThis.location?.href).href;
  } catch {
    throw noAddress(url);
  }
}

const KERNEL_TABLES = ['relaxed', 'relaxed16', 'simd128'];
const BUILDS = [...KERNEL_TABLES, ...KERNEL_TABLES.map((name) => `${name}-threads`)];
/**
 * Modules in a folder of builds: the builds, their optional kernels, the probe, the grammar module and the converter.
 */
const MODULES = [...BUILDS, ...BUILDS.map((name) => `${name}-rare`), 'probe', 'grammar', 'convert'];

/**
 * Returns the absolute addresses of the modules by name for an option `wasmUrl`. The option is the address of a folder,
 * of one module, or an object of addresses. All except relaxed and simd128 may be missing.
 * @param {EngineOptions['wasmUrl']} wasmUrl
 * @returns {Record<string, string> | undefined}  undefined if the option is not set
 */
export function namedBuilds(wasmUrl) {
  if (!wasmUrl) return undefined;
  if (typeof wasmUrl === 'string' || wasmUrl instanceof URL) {
    const url = fullUrl(wasmUrl);
    return url.endsWith('/')
      ? Object.fromEntries(MODULES.map((name) => [name, `${url}bq4-${name}.wasm`]))
      : { relaxed: url, simd128: url };
  }
  return Object.fromEntries(Object.entries(wasmUrl).map(([name, url]) => [name, fullUrl(url)]));
}

/**
 * Returns the same addresses, or those of this package if `wasmUrl` is not set. (js/wasm/optional-kernels.js has the
 * addresses of the package's optional kernels.)
 * @param {EngineOptions['wasmUrl']} wasmUrl
 * @returns {Record<string, string>}
 */
export const resolveBuilds = (wasmUrl) =>
  namedBuilds(wasmUrl) ?? {
    relaxed: new URL('../../build/wasm/bq4-relaxed.wasm', import.meta.url).href,
    relaxed16: new URL('../../build/wasm/bq4-relaxed16.wasm', import.meta.url).href,
    simd128: new URL('../../build/wasm/bq4-simd128.wasm', import.meta.url).href,
    'relaxed-threads': new URL('../../build/wasm/bq4-relaxed-threads.wasm', import.meta.url).href,
    'relaxed16-threads': new URL('../../build/wasm/bq4-relaxed16-threads.wasm', import.meta.url).href,
    'simd128-threads': new URL('../../build/wasm/bq4-simd128-threads.wasm', import.meta.url).href,
    probe: new URL('../../build/wasm/bq4-probe.wasm', import.meta.url).href,
    grammar: new URL('../../build/wasm/bq4-grammar.wasm', import.meta.url).href,
    convert: new URL('../../build/wasm/bq4-convert.wasm', import.meta.url).href,
  };
