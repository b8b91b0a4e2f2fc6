// A worker that runs the loops of tests/bench/token.c, with an instance for each set of matrices. The first message contains the sets;
// the reply is their sizes in bytes. Each later message requests a measurement; the reply is its duration in milliseconds, and the bytes
// that `tile` reads.
import { MEASURED_BUILDS } from '../../../js/wasm/build-choice.js';

const module = WebAssembly.compileStreaming(fetch('/build/bench/token.wasm'));
/** Bytes of a page of WebAssembly memory. */
const PAGE_BYTES = 65536;

/** @typedef {{ token_bytes: (...dims: number[]) => number, token_set_up: (...args: number[]) => void, token_multiply: (times: number) => void, token_read: (times: number) => void, token_tile: (times: number) => number, __heap_base: WebAssembly.Global }} Token */

/** The instance of each set. @type {Token[]} */
const instances = [];

/** Creates the instance of a set and returns the bytes of its weights. @param {{ dims: number[], table: import('../../../js/shared/types.js').Build }} set @returns {Promise<number>} */
async function setUp({ dims, table }) {
  const memory = new WebAssembly.Memory({ initial: 16, maximum: 65536 });
  const token = /** @type {Token} */ (
    /** @type {unknown} */ ((await WebAssembly.instantiate(await module, { env: { memory } })).exports)
  );
  const bytes = token.token_bytes(...dims);
  const baseAddress = Math.ceil(token.__heap_base.value / 64) * 64;
  const totalBytes = baseAddress + bytes + 64 + 4 * dims[4];
  memory.grow(Math.ceil(totalBytes / PAGE_BYTES) - 16);
  token.token_set_up(...dims, baseAddress, MEASURED_BUILDS.indexOf(table));
  // Warm-up: afterwards the code has been compiled by the optimizing compiler.
  for (const end = performance.now() + 300; performance.now() < end;) token.token_multiply(1);
  token.token_read(2);
  instances.push(token);
  return bytes;
}

onmessage = async ({ data }) => {
  if (data.sets) {
    const sizes = [];
    for (const set of data.sets) sizes.push(await setUp(set));
    return postMessage(sizes);
  }
  const token = instances[data.set];
  const work = token[/** @type {'token_read' | 'token_multiply' | 'token_tile'} */ (`token_${data.work}`)];
  const bytes = work(1);
  const start = performance.now();
  work(data.times);
  postMessage({ ms: performance.now() - start, bytes });
};
