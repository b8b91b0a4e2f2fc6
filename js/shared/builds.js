/** Full addresses, as the page sees them: a worker would resolve relative ones against its own script. */

/** @import { EngineOptions } from './types.js' */

/** An address of this page, in full. @param {string | URL} url */
export const fullUrl = (url) => new URL(url, globalThis.document?.baseURI ?? globalThis.location?.href).href;

const TABLES = ['relaxed', 'relaxed16', 'simd128'];
const BUILDS = [...TABLES, ...TABLES.map((name) => `${name}-threads`)];
/** What a folder of builds has: the builds, the kernels of rare types for each, the probe and the modules for grammars and for converters. */
const NAMES = [...BUILDS, ...BUILDS.map((name) => `${name}-rare`), 'probe', 'grammar', 'convert'];

/** Full addresses of the builds that were named; all but relaxed and simd128 may be missing. @param {EngineOptions['wasmUrl']} given @returns {Record<string, string> | undefined} */
export function namedBuilds(given) {
  if (!given) return undefined;
  if (typeof given === 'string' || given instanceof URL) {
    const url = fullUrl(given);
    return url.endsWith('/')
      ? Object.fromEntries(NAMES.map((name) => [name, `${url}bq4-${name}.wasm`]))
      : { relaxed: url, simd128: url };
  }
  return Object.fromEntries(Object.entries(given).map(([name, url]) => [name, fullUrl(url)]));
}

/** Those, or the ones that lie beside these modules (kernels of rare types: js/wasm/optional-kernels.js). @param {EngineOptions['wasmUrl']} given @returns {Record<string, string>} */
export const resolveBuilds = (given) =>
  namedBuilds(given) ?? {
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
