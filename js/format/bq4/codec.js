/** Encodes, decodes and hashes weights with the engine's C code, in a WebAssembly instance of its own. */
import { BqError } from '../../shared/errors.js';
import { Sha256 } from '../../wasm/sha256.js';
import { compile, Wasm } from '../../wasm/wasm.js';
import { structs } from '../../wasm/abi.js';
import { ROWS, TILED, TYPES, weightBytes } from './weight-types.js';

/** @import { WeightType } from './weight-types.js' */

/**
 * Weights in the storage type of their file.
 * @typedef {object} Stored
 * @property {WeightType} type
 * @property {Uint8Array} bytes  row-major
 */

/**
 * Rounding errors |weight - decoded| of an encoded piece: their sum, the sum of their squares, and the largest error
 * (`most`). The fields are named as in the C struct bqw_encode_errors.
 * @typedef {{ sum: number, squares: number, most: number }} EncodeErrors
 */

/** Heap bytes of the allocator's own records, in addition to the blocks of data. */
const ALLOCATOR_BYTES = 1 << 16;
const f32 = TYPES[0];

/** @param {Float32Array} floats */
const bytesOf = (floats) => new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength);

/** The functions of the engine that converters need. */
export class Codec {
  /** @param {Wasm} wasm @param {string} name  name of the WebAssembly build */
  constructor(wasm, name) {
    this.wasm = wasm;
    this.name = name;
  }

  /**
   * Encodes row-major weights of any readable type in another type and layout. With FLAT the block size must divide
   * rows · cols. Throws FORMAT for a weight that is not finite or that the type cannot represent (details.index: index
   * of the weight).
   * @param {Stored} from
   * @param {WeightType} type
   * @param {number} layout
   * @param {number} rows
   * @param {number} cols
   * @returns {{ bytes: Uint8Array, errors: EncodeErrors }}
   */
  encode(from, type, layout, rows, cols) {
    const { wasm } = this;
    const bytes = weightBytes(type, layout, rows, cols);
    return wasm.scope((take) => {
      let src = wasm.put(take, from.bytes).at;
      const stored = src;
      if (from.type !== f32) {
        src = take(4 * rows * cols);
        wasm.check('bqw_dequantize', from.type.id, ROWS, stored, rows, cols, src);
      }
      const to = take(bytes);
      if (from.type === type && layout === TILED) {
        wasm.check('bqw_repack', type.id, stored, rows, cols, to);
        return { bytes: wasm.bytes(to, bytes).slice(), errors: { sum: 0, squares: 0, most: 0 } };
      }
      const errors = take(structs.bqw_encode_errors.size);
      wasm.write('bqw_encode_errors', errors, {});
      try {
        wasm.check('bqw_encode', type.id, layout, src, rows, cols, to, errors);
      } catch (error) {
        if (error instanceof BqError && error.code === 'FORMAT') error.details.index = error.offset;
        throw error;
      }
      return {
        bytes: wasm.bytes(to, bytes).slice(),
        errors: /** @type {any} */ (wasm.read('bqw_encode_errors', errors)),
      };
    });
  }

  /**
   * Encodes f32 weights; returns only the bytes.
   * @param {WeightType} type @param {number} layout @param {Float32Array} src @param {number} rows @param {number} cols
   */
  quantize(type, layout, src, rows, cols) {
    return this.encode({ type: f32, bytes: bytesOf(src) }, type, layout, rows, cols).bytes;
  }

  /**
   * Decodes to f32. Throws FORMAT for a scale that is not finite.
   * @param {WeightType} type @param {number} layout @param {Uint8Array} bytes @param {number} rows @param {number} cols
   */
  dequantize(type, layout, bytes, rows, cols) {
    const { wasm } = this;
    return wasm.scope((take) => {
      const from = wasm.put(take, bytes).at;
      const to = take(4 * rows * cols);
      wasm.check('bqw_dequantize', type.id, layout, from, rows, cols, to);
      return wasm.f32(to, rows * cols).slice();
    });
  }

  /** Returns the XXH64 hash. @param {Uint8Array} bytes @returns {bigint} */
  hash(bytes) {
    const { wasm } = this;
    return wasm.scope((take) => {
      const from = wasm.put(take, bytes);
      const to = take(8);
      wasm.call('bqw_xxh64', from.at, from.length, to);
      const [low, high] = wasm.u32(to, 2);
      return (BigInt(high) << 32n) | BigInt(low);
    });
  }

  /** @param {Uint8Array} bytes @returns {Uint8Array} */
  sha256(bytes) {
    const hash = new Sha256(this.wasm);
    hash.add(bytes);
    return hash.end();
  }
}

/**
 * Creates a codec for hashing. Its heap has room for a chunk, and for a prefix of the given length.
 * @param {number} prefixLength @param {import('../../shared/types.js').EngineOptions} [options]
 */
export const createHasher = (prefixLength, options) =>
  createCodec(Math.max(1 << 20, Math.ceil(prefixLength / 2)), options);

/**
 * Creates a codec. Throws NO_ENGINE, NO_SIMD, NOMEM.
 * @param {number} maxBytes  size of the largest block of floats or bytes that is passed to a call or returned by it
 * @param {import('../../shared/types.js').EngineOptions} [options]
 */
export async function createCodec(maxBytes, options) {
  const compiled = await compile({
    ...options,
    build: 'simd128',
    wasmUrl: options?.wasmUrl ?? new URL('../../../build/wasm/bq4-convert.wasm', import.meta.url).href,
  });
  return new Codec(await Wasm.create(compiled, 3 * maxBytes + ALLOCATOR_BYTES), compiled.build);
}
