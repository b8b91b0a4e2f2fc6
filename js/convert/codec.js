/** Encoding, decoding and hashing: by the C code of the engine, or in JavaScript where no module can be had. */
import { BqError } from '../shared/errors.js';
import { Sha256 } from '../wasm/sha256.js';
import { compile, Wasm } from '../wasm/wasm.js';
import { dequantize, quantize } from './encode.js';
import { TYPES, weightBytes } from './weights.js';
import { xxh64 } from './xxh64.js';

/**
 * @typedef {object} Codec
 * @property {string} name  of the build, "js" for the one in JavaScript
 * @property {(type: number, layout: number, src: Float32Array, rows: number, cols: number) => Uint8Array} quantize
 *   FORMAT: a weight that the type can't hold (details.index)
 * @property {(type: number, layout: number, bytes: Uint8Array, rows: number, cols: number) => Float32Array} dequantize
 * @property {(bytes: Uint8Array) => bigint} hash  XXH64
 * @property {((bytes: Uint8Array) => Uint8Array) | null} sha256  null: not without the engine
 */

/** @type {Codec} */
export const jsCodec = { name: 'js', quantize, dequantize, hash: (bytes) => xxh64(bytes), sha256: null };

/** Beside three blocks of data: what the allocator keeps for itself. */
const ROOM = 1 << 16;

/** @param {Float32Array} floats */
const bytesOf = (floats) => new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength);

/**
 * The C functions. NO_ENGINE, NO_SIMD, NOMEM.
 * @param {number} maxBytes  largest block of floats or bytes that a call takes or gives
 * @param {import('../shared/types.js').EngineOptions} [options]
 * @returns {Promise<Codec>}
 */
export async function wasmCodec(maxBytes, options) {
  const compiled = await compile(options);
  const wasm = await Wasm.create(compiled, 3 * maxBytes + ROOM);
  return {
    name: compiled.build,
    quantize(type, layout, src, rows, cols) {
      const bytes = weightBytes(TYPES[type], layout, rows, cols);
      return wasm.scope((take) => {
        const from = wasm.put(take, bytesOf(src)).at;
        const to = take(bytes);
        try {
          wasm.check('bqw_quantize', type, layout, from, rows, cols, to);
        } catch (error) {
          if (error instanceof BqError && error.code === 'FORMAT') error.details.index = error.offset;
          throw error;
        }
        return wasm.bytes(to, bytes).slice();
      });
    },
    dequantize(type, layout, bytes, rows, cols) {
      return wasm.scope((take) => {
        const from = wasm.put(take, bytes).at;
        const to = take(4 * rows * cols);
        wasm.check('bqw_dequantize', type, layout, from, rows, cols, to);
        return wasm.f32(to, rows * cols).slice();
      });
    },
    hash(bytes) {
      return wasm.scope((take) => {
        const from = wasm.put(take, bytes);
        const to = take(8);
        wasm.call('bqw_xxh64', from.at, from.length, to);
        const [low, high] = wasm.u32(to, 2);
        return (BigInt(high) << 32n) | BigInt(low);
      });
    },
    sha256(bytes) {
      const hash = new Sha256(wasm);
      hash.add(bytes);
      return hash.end();
    },
  };
}

/**
 * The C functions where there is a module for them, else JavaScript: the bytes are the same.
 * @param {number} maxBytes
 * @returns {Promise<Codec>}
 */
export async function createCodec(maxBytes) {
  try {
    return await wasmCodec(maxBytes);
  } catch (error) {
    if (error instanceof BqError && (error.code === 'NO_ENGINE' || error.code === 'NO_SIMD')) return jsCodec;
    throw error;
  }
}
