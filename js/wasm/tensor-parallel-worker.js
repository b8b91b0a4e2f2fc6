/** A worker that computes parts of products (js/engine/batching/tensor-parallel.js): an instance that holds its part of each matrix, and nothing else. */
import { structs } from './abi.js';
import { Wasm } from './wasm.js';

/** @import { PartWork } from '../engine/batching/tensor-parallel.js' */
/** @import { Compiled, Rare } from './wasm.js' */

/** @typedef {{ spread: Compiled, rare?: WebAssembly.Module, bytes: number }} Begin */
/** @typedef {{ work?: PartWork, timed?: { products: number, sent: Uint8Array, bytes: number } }} Ask */

/** @param {any} port @param {Begin} begin @param {Rare['roomFor']} roomFor */
export async function computeParts(port, { spread, rare: module, bytes }, roomFor) {
  const wasm = await Wasm.create(spread, bytes, module && { module, roomFor });
  /** Where weights lie, by their addresses in the engine. @type {Map<number, number>} */
  const held = new Map();
  const at = wasm.alloc(structs.bqw_spread.size + 3 * structs.bqw_spread_rows.size);
  /** Of the measured products. */
  let block = 0;

  const answer = (/** @type {Ask} */ { work, timed }) => {
    if (timed) {
      const { products, bytes: size } = timed;
      if (!block) {
        block = wasm.alloc(wasm.call('bqw_measure_bytes', products, 1));
        wasm.call('bqw_measure_prepare', block, products, 1);
      }
      wasm.call('bqw_measure', block);
      const back = new Uint8Array(size);
      return port.postMessage({ back }, [back.buffer]);
    }
    if (block) wasm.free(block);
    block = 0;
    if (work) {
      const y = multiply(wasm, at, held, work);
      port.postMessage({ y }, [y.buffer]);
    }
  };
  return (/** @type {Ask} */ message) => {
    try {
      answer(message);
    } catch (error) {
      port.postMessage({ error: String(error) });
    }
  };
}

/** @param {Wasm} wasm @param {number} at @param {Map<number, number>} held @param {PartWork} work */
function multiply(wasm, at, held, { tokens, cols, activations, panel, list }) {
  const size = structs.bqw_spread_rows.size;
  const rows = at + structs.bqw_spread.size;
  return wasm.scope((take) => {
    for (const { key, weights } of list) {
      if (!weights) continue;
      const own = wasm.alloc(weights.length);
      wasm.bytes(own, weights.length).set(weights);
      held.set(key, own);
    }
    const floats = list.reduce((sum, part) => sum + part.rows * tokens, 0);
    const y = take(floats * 4);
    const input = take(panel.length);
    wasm.bytes(input, panel.length).set(panel);
    let to = y;
    list.forEach(({ key, type, rows: n, bytes }, i) => {
      wasm.write('bqw_spread_rows', rows + i * size, {
        weights: held.get(key),
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
