/** The module with the kernels of rare types: fetched, tested and kept when the first model asks for it. */
import { BqError } from '../shared/errors.js';
import { roomForRare } from './link-rare.js';
import { fetchModule, Wasm } from './wasm.js';

/** @import { Compiled, Rare } from './wasm.js' */

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
  const { rareUrl, build } = compiled;
  if (!rareUrl)
    throw new BqError('NO_ENGINE', 'wasmUrl does not say where the kernels lie that the types of this model need', {
      hint: `add '${build}${compiled.shared ? '-threads' : ''}-rare': the address of its module`,
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
