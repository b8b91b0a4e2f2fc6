/** Tensors of a checkpoint, read piece by piece as f32. */
import { BqError } from '../shared/errors.js';
import { readRange } from '../storage/sources/read.js';
import { bf16ToNumber, f16ToNumber } from './bq4/half.js';
import { TYPES } from './bq4/weight-types.js';
import { matrixOf } from './bq4/write-v2.js';

/**
 * @typedef {object} InTensor
 * @property {number[]} dims
 * @property {(row: number, rows: number) => Promise<Float32Array>} read  rows × columns; one-dimensional tensors have one row
 * @property {number} [at]  where it lies, as far as that tells it from others of its file
 * @property {{ type: string, bytes: number }} [packed]  what lies there, where the engine doesn't read it
 * @property {string} [type]  what its file keeps it as, for people
 * @property {StoredRows} [stored]  the same in a type that the engine reads, where it lies so
 */

/** @typedef {{ type: import('./bq4/weight-types.js').WeightType, read: (row: number, rows: number) => Promise<Uint8Array> }} StoredRows */

/** Bytes per element of the dtypes that can be read, named as in safetensors. @type {Record<string, number>} */
export const DTYPES = { F32: 4, F16: 2, BF16: 2, F64: 8 };
/** Ours of the same values. @type {Record<string, number>} */
const OURS = { F32: 0, F16: 1, BF16: 2 };

/** f32 values of little-endian bytes. @param {Uint8Array} bytes @param {string} dtype */
function toFloats(bytes, dtype) {
  const out = new Float32Array(bytes.length / DTYPES[dtype]);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  switch (dtype) {
    case 'F32':
      for (let i = 0; i < out.length; i++) out[i] = view.getFloat32(4 * i, true);
      break;
    case 'F64':
      for (let i = 0; i < out.length; i++) out[i] = view.getFloat64(8 * i, true);
      break;
    case 'F16':
      for (let i = 0; i < out.length; i++) out[i] = f16ToNumber(view.getUint16(2 * i, true));
      break;
    default:
      for (let i = 0; i < out.length; i++) out[i] = bf16ToNumber(view.getUint16(2 * i, true));
  }
  return out;
}

/**
 * A row-major tensor somewhere in a file.
 * @param {import('../storage/sources/types.js').ByteSource} file
 * @param {number} offset
 * @param {string} dtype  a key of DTYPES
 * @param {number[]} dims
 * @returns {InTensor}
 */
export function floatRows(file, offset, dtype, dims) {
  const rowBytes = matrixOf(dims).cols * DTYPES[dtype];
  const read = async (/** @type {number} */ row, /** @type {number} */ rows) => {
    const [from, to] = [offset + row * rowBytes, offset + (row + rows) * rowBytes];
    const bytes = await readRange(file, from, to);
    if (bytes.length !== to - from)
      throw new BqError('TRUNCATED', `${file.name} ends after ${from + bytes.length} bytes`, {
        offset: from + bytes.length,
      });
    return bytes;
  };
  return {
    dims,
    read: async (row, rows) => toFloats(await read(row, rows), dtype),
    ...(dtype in OURS && { stored: { type: TYPES[OURS[dtype]], read } }),
  };
}
