/**
 * The worker side of tensor parallelism (js/engine/batching/tensor-parallel.js). The worker's WebAssembly instance
 * contains some rows of each weight matrix and multiplies them by the received activations. Used if threads can't share
 * memory.
 */
import { structs } from './abi.js';
import { Wasm } from './wasm.js';

/** @import { PartWork } from '../engine/batching/tensor-parallel.js' */
/** @import { Compiled, OptionalKernels } from './wasm.js' */

/**
 * The first message: the build, its optional kernels, and the size of the heap in bytes.
 * @typedef {{ spread: Compiled, rare?: WebAssembly.Module, bytes: number }} Begin
 */
/**
 * A later message. `work`: rows to multiply. `timed`: a measurement with `products` matrix products, with messages of
 * realistic size (`sent` in the request, `bytes` in the answer). A message without `timed` ends the measurements.
 * @typedef {{ work?: PartWork, timed?: { products: number, sent: Uint8Array, bytes: number } }} Request
 */

/**
 * Returns the handler of all later messages.
 * @param {any} port @param {Begin} begin @param {OptionalKernels['link']} link
 */
export async function computeParts(port, { spread, rare: module, bytes }, link) {
  const wasm = await Wasm.create(spread, bytes, module && { module, link });
  /** Addresses of weights in this heap, by their addresses in the engine's heap. @type {Map<number, number>} */
  const weightAddresses = new Map();
  const at = wasm.alloc(structs.bqw_spread.size + 3 * structs.bqw_spread_rows.size);
  /** Heap address of the data for measurements; 0: not allocated. */
  let benchmark = 0;

  const answer = (/** @type {Request} */ { work, timed }) => {
    if (timed) {
      const { products, bytes: size } = timed;
      if (!benchmark) {
        benchmark = wasm.alloc(wasm.call('bqw_measure_bytes', products, 1));
        wasm.call('bqw_measure_prepare', benchmark, products, 1);
      }
      wasm.call('bqw_measure', benchmark);
      const back = new Uint8Array(size);
      return port.postMessage({ back }, [back.buffer]);
    }
    if (benchmark) wasm.free(benchmark);
    benchmark = 0;
    if (work) {
      const y = multiply(wasm, at, weightAddresses, work);
      port.postMessage({ y }, [y.buffer]);
    }
  };
  return (/** @type {Request} */ message) => {
    try {
      answer(message);
    } catch (error) {
      port.postMessage({ error: String(error) });
    }
  };
}

/**
 * Multiplies rows of some matrices. The message contains the weights of a matrix only at its first use. Returns the
 * products one after another, each of `tokens` × `rows`.
 * @param {Wasm} wasm @param {number} at  heap address of a bqw_spread, followed by its bqw_spread_rows
 * @param {Map<number, number>} weightAddresses @param {PartWork} work
 */
function multiply(wasm, at, weightAddresses, { tokens, cols, activations, panel, list }) {
  const size = structs.bqw_spread_rows.size;
  const rows = at + structs.bqw_spread.size;
  return wasm.scope((take) => {
    for (const { key, weights } of list) {
      if (!weights) continue;
      const address = wasm.alloc(weights.length);
      wasm.bytes(address, weights.length).set(weights);
      weightAddresses.set(key, address);
    }
    const floats = list.reduce((sum, part) => sum + part.rows * tokens, 0);
    const y = take(floats * 4);
    const input = take(panel.length);
    wasm.bytes(input, panel.length).set(panel);
    let to = y;
    list.forEach(({ key, type, rows: n, bytes }, i) => {
      wasm.write('bqw_spread_rows', rows + i * size, {
        weights: weightAddresses.get(key),
        bytes,
        type,
        rows: n,
        y: to,
        stride: n,
      });
      to += n * tokens * 4;
    });
    wasm.write('bqw_spread', at, {
      n: list.length,
      tokens,
      cols,
      activations,
      panel: input,
      panel_bytes: panel.length,
    });
    wasm.check('bqw_spread_multiply', at, rows);
    return wasm.f32(y, floats).slice();
  });
}
