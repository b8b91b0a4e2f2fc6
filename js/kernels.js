/**
 * Chooses a kernel table by measurement. The relaxed dot product is one instruction on some machines and three on
 * others, which WebAssembly doesn't tell: there the SIMD128 table is the faster one.
 */

/** @import { Wasm } from './wasm.js' */

/** One matrix product, of a batch: what the tables differ by is arithmetic, not memory. */
const PRODUCTS = 1;
const TOKENS = 4;
/**
 * Milliseconds for all of it. Engines begin with quick code, in which the relaxed table always wins, and make better code
 * of what is used much: here after 20 ms. So the least times count.
 */
const MEASURE_MS = 30;
const LEAST_ROUNDS = 3;
/** How much faster the other table must be to be taken. */
const WORTH = 1.05;

/** What measuring takes of the heap. */
export const MEASURE_BYTES = 2 << 20;

/** @param {Wasm} wasm */
function prepare(wasm) {
  const block = wasm.alloc(wasm.call('bqw_measure_bytes', PRODUCTS, TOKENS));
  wasm.call('bqw_measure_prepare', block, PRODUCTS, TOKENS);
  return block;
}

/**
 * Milliseconds of the same work with the build's own table and with the fallback, which it uses from then on.
 * @param {Wasm} wasm  of a relaxed build, with MEASURE_BYTES
 */
export function timeTables(wasm) {
  const own = prepare(wasm);
  wasm.check('bqw_fallback');
  const blocks = [own, prepare(wasm)];
  const least = [Infinity, Infinity];
  const since = performance.now();
  for (let round = 0; round < LEAST_ROUNDS || performance.now() - since < MEASURE_MS; round++)
    blocks.forEach((block, i) => {
      const start = performance.now();
      wasm.call('bqw_measure', block);
      least[i] = Math.min(least[i], performance.now() - start);
    });
  return { own: least[0], fallback: least[1] };
}

/** @param {{ own: number, fallback: number }} times */
export const fallbackIsFaster = ({ own, fallback }) => own > fallback * WORTH;
