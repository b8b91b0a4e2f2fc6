/** The module with the kernels of rare types: fetched, tested and kept when the first model asks for it. */
import { BqError } from '../shared/errors.js';
import { roomForRare } from './link-optional-kernels.js';
import { fetchModule, Wasm } from './wasm.js';

/** @import { Compiled, Rare } from './wasm.js' */

/** Those beside these modules. @type {Record<string, string>} */
const BESIDE = {
  relaxed: new URL('../../build/wasm/bq4-relaxed-rare.wasm', import.meta.url).href,
  relaxed16: new URL('../../build/wasm/bq4-relaxed16-rare.wasm', import.meta.url).href,
  simd128: new URL('../../build/wasm/bq4-simd128-rare.wasm', import.meta.url).href,
  'relaxed-threads': new URL('../../build/wasm/bq4-relaxed-threads-rare.wasm', import.meta.url).href,
  'relaxed16-threads': new URL('../../build/wasm/bq4-relaxed16-threads-rare.wasm', import.meta.url).href,
  'simd128-threads': new URL('../../build/wasm/bq4-simd128-threads-rare.wasm', import.meta.url).href,
};
/** What an instance that is only tested needs of the heap. */
const ROOM = 65536;

/** By the build that they belong to. @type {WeakMap<WebAssembly.Module, Promise<Rare>>} */
const fetched = new WeakMap();

/** NO_ENGINE. @param {Compiled} compiled @returns {Promise<Rare>} */
export function rareKernels(compiled) {
  const { module } = compiled;
  let rare = fetched.get(module);
  if (!rare) {
    fetched.set(module, (rare = fetchTested(compiled)));
    rare.catch(() => fetched.delete(module)); // the next load asks again
  }
  return rare;
}

/** @param {Compiled} compiled */
async function fetchTested(compiled) {
  const { build, shared } = compiled;
  const key = shared ? `${build}-threads` : build;
  const rareUrl = compiled.rareUrl ?? BESIDE[key];
  if (!rareUrl)
    throw new BqError('NO_ENGINE', 'wasmUrl does not say where the kernels lie that the types of this model need', {
      hint: `add '${key}-rare': the address of its module`,
    });
  try {
    const rare = { module: await fetchModule(rareUrl), roomFor: roomForRare };
    const wasm = await Wasm.create(compiled, ROOM, rare);
    const right = wasm.call('bqw_self_test') === 1;
    wasm.release();
    if (!right) throw new Error(`the self test of the ${build} kernels failed on this machine`);
    return rare;
  } catch (cause) {
    throw new BqError('NO_ENGINE', `the kernels ${rareUrl} can't be used: ${/** @type {Error} */ (cause).message}`, {
      cause,
    });
  }
}
