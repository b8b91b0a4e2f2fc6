/**
 * Tensors of a checkpoint (a file in another format than .bq4). They are read a few rows at a time as f32, so that no
 * tensor has to fit in memory.
 */
import { BqError } from '../shared/errors.js';
import { readRange } from '../storage/sources/read.js';
import { bf16ToNumber, f16ToNumber } from './bq4/half.js';
import { TYPES } from './bq4/weight-types.js';
import { matrixOf } from './bq4/write-v2.js';

/**
 * @typedef {object} InTensor
 * @property {number[]} dims
 * @property {(row: number, rows: number) => Promise<Float32Array>} read  reads `rows` rows from `row` on; a vector has
 *   one row
 * @property {string} [name]  name of the tensor in its file, for errors
 * @property {number} [at]  byte offset in its file; two names with the same offset share their weights
 * @property {{ type: string, bytes: number }} [packed]  storage type and size, if the engine does not compute with that
 *   type
 * @property {string} [type]  storage type, for reports
 * @property {boolean} [ternary]  whether all weights are -1, 0 or 1; the scales of the rows are then a tensor of their
 *   own
 * @property {StoredRows} [stored]  access to the stored bytes, if the engine can read their type; encoding these avoids
 *   a copy as f32
 */

/**
 * @typedef {{
 *   type: import('./bq4/weight-types.js').WeightType, read: (row: number, rows: number) => Promise<Uint8Array>
 * }} StoredRows
 */

/** Readable dtypes, named as in safetensors, with the size of an element in bytes. @type {Record<string, number>} */
export const DTYPES = { F32: 4, F16: 2, BF16: 2, F64: 8 };
/** Ids in TYPES of the dtypes that the engine stores unchanged. @type {Record<string, number>} */
const TYPE_IDS = { F32: 0, F16: 1, BF16: 2 };

/** Converts little-endian bytes to f32 values. @param {Uint8Array} bytes @param {string} dtype */
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
 * Returns a row-major tensor of a file. Reading it throws TRUNCATED if the file is too short.
 * @param {import('../storage/sources/types.js').ByteSource} file
 * @param {number} offset  byte offset of the tensor in the file
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
      throw new BqError('TRUNCATED', `${file.name} ends after ${from + bytes.length} bytes; expected at least ${to}`, {
        offset: from + bytes.length,
      });
    return bytes;
  };
  return {
    dims,
    read: async (row, rows) => toFloats(await read(row, rows), dtype),
    ...(dtype in TYPE_IDS && { stored: { type: TYPES[TYPE_IDS[dtype]], read } }),
  };
}
