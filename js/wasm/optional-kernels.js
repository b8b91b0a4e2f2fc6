/**
 * The optional kernels (bq4-*-rare.wasm): a module that multiplies weights of uncommon types. It is fetched and tested
 * when a model first needs it, and reused for later models.
 */
import { BqError } from '../shared/errors.js';
import { linkOptionalKernels } from './link-optional-kernels.js';
import { fetchModule, Wasm } from './wasm.js';

/** @import { Compiled, OptionalKernels } from './wasm.js' */

/** Addresses of this package's files by build, used if `wasmUrl` is not set. @type {Record<string, string>} */
const PACKAGE_URLS = {
  relaxed: new URL('../../build/wasm/bq4-relaxed-rare.wasm', import.meta.url).href,
  relaxed16: new URL('../../build/wasm/bq4-relaxed16-rare.wasm', import.meta.url).href,
  simd128: new URL('../../build/wasm/bq4-simd128-rare.wasm', import.meta.url).href,
  'relaxed-threads': new URL('../../build/wasm/bq4-relaxed-threads-rare.wasm', import.meta.url).href,
  'relaxed16-threads': new URL('../../build/wasm/bq4-relaxed16-threads-rare.wasm', import.meta.url).href,
  'simd128-threads': new URL('../../build/wasm/bq4-simd128-threads-rare.wasm', import.meta.url).href,
};
/** Heap bytes of the instance in which the kernels are tested. */
const TEST_HEAP_BYTES = 65536;

/** Fetched kernels by the module of their build. @type {WeakMap<WebAssembly.Module, Promise<OptionalKernels>>} */
const fetched = new WeakMap();

/**
 * Fetches and tests the optional kernels of a build, once. Throws NO_ENGINE if they can't be fetched or fail their
 * test.
 * @param {Compiled} compiled @returns {Promise<OptionalKernels>}
 */
export function loadOptionalKernels(compiled) {
  const { module } = compiled;
  let kernels = fetched.get(module);
  if (!kernels) {
    fetched.set(module, (kernels = fetchAndTest(compiled)));
    kernels.catch(() => fetched.delete(module)); // the next load fetches again
  }
  return kernels;
}

/** @param {Compiled} compiled */
async function fetchAndTest(compiled) {
  const { build, shared } = compiled;
  const key = shared ? `${build}-threads` : build;
  const url = compiled.rareUrl ?? PACKAGE_URLS[key];
  if (!url)
    throw new BqError('NO_ENGINE', `this model needs optional kernels, and wasmUrl has no '${key}-rare'`, {
      hint: `add '${key}-rare' to wasmUrl: the address of bq4-${key}-rare.wasm`,
    });
  try {
    const kernels = { module: await fetchModule(url), link: linkOptionalKernels };
    const wasm = await Wasm.create(compiled, TEST_HEAP_BYTES, kernels);
    const passed = wasm.call('bqw_self_test') === 1;
    wasm.release();
    if (!passed) throw new Error(`the self test of the ${build} kernels failed on this machine`);
    return kernels;
  } catch (cause) {
    throw new BqError('NO_ENGINE', `can't load the optional kernels ${url}: ${/** @type {Error} */ (cause).message}`, {
      cause,
    });
  }
}
