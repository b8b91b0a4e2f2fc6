/** Encodes tensors of a checkpoint with the types and layouts of a .bq4 file, a few rows at a time. */
import { BqError } from '../../shared/errors.js';
import { ErrorSum } from '../conversion-report.js';
import { ROWS, TYPES, weightBytes } from './weight-types.js';
import { matrixOf } from './write-v2.js';

/** @import { Codec, EncodeErrors, Stored } from './codec.js' */
/** @import { Slot } from './names.js' */
/** @import { InTensor } from '../checkpoint-tensors.js' */
/** @import { WeightType } from './weight-types.js' */

/** Approximate number of weights that are encoded at once; a piece has at least 32 rows. */
const PIECE_WEIGHTS = 1 << 20;
const LAYOUTS = ['rows', 'tiled', 'flat'];
const f32 = TYPES[0];

/** @typedef {{ slot: Slot, tensor: InTensor }} Match */
/** @typedef {{ bytes: Uint8Array, errors: EncodeErrors }} Piece */
/**
 * A codec in this thread or in a worker.
 * @typedef {object} Encoder
 * @property {(...args: Parameters<Codec['encode']>) => Piece | Promise<Piece>} encode
 * @property {(...args: Parameters<Codec['dequantize']>) => Float32Array | Promise<Float32Array>} dequantize
 */
/**
 * @typedef {import('./write-v2.js').OutTensor & {
 *   report: () => import('../conversion-report.js').TensorReport
 * }} Encoded
 */

/**
 * Returns the number of rows per piece: a multiple of 32, so that a piece consists of complete tiles and of complete
 * blocks of v1 files.
 * @param {readonly number[]} dims
 */
export function rowsPerPiece(dims) {
  const { rows, cols } = matrixOf(dims);
  return Math.min(rows, Math.max(32, Math.floor(PIECE_WEIGHTS / cols / 32) * 32));
}

/**
 * Reads rows of a tensor, in their storage type if the engine can read it, otherwise as f32.
 * @param {InTensor} tensor @param {number} row @param {number} rows @returns {Promise<Stored>}
 */
export async function readPiece(tensor, row, rows) {
  if (tensor.stored) return { type: tensor.stored.type, bytes: await tensor.stored.read(row, rows) };
  const values = await tensor.read(row, rows);
  return { type: f32, bytes: new Uint8Array(values.buffer, values.byteOffset, values.byteLength) };
}

/**
 * Returns a tensor for a file writer. `pieces` yields its encoded bytes; afterwards `report` returns its rounding
 * errors.
 * @param {Codec} codec
 * @param {Match} match
 * @param {WeightType} type
 * @param {number} layout
 * @returns {Encoded}
 */
export function encoded(codec, { slot, tensor }, type, layout) {
  const { rows, cols } = matrixOf(slot.dims);
  const step = rowsPerPiece(slot.dims);
  const errors = new ErrorSum();
  let bytes = 0;
  async function* pieces() {
    const read = (/** @type {number} */ row) => readPiece(tensor, row, Math.min(step, rows - row));
    // The next piece is read while the current one is encoded.
    let next = read(0);
    for (let row = 0; row < rows; row += step) {
      const from = await next;
      if (row + step < rows) (next = read(row + step)).catch(() => {});
      const n = Math.min(step, rows - row);
      const piece = await encodePiece(codec, { slot, tensor }, from, type, layout, n, row);
      errors.add(n * cols, piece.errors);
      bytes += piece.bytes.length;
      yield piece.bytes;
    }
  }
  const report = () => ({ name: slot.name, type: type.name, layout: LAYOUTS[layout], bytes, ...errors.figures });
  return { name: slot.name, type, layout, dims: slot.dims, pieces, report };
}

/**
 * Returns an error with the byte offset of a damaged block in the checkpoint.
 * @param {Match} match @param {Stored} from @param {number} row  first row of the piece @param {BqError} cause
 */
function damaged({ slot, tensor }, from, row, cause) {
  const { cols } = matrixOf(slot.dims);
  const name = tensor.name ?? slot.name;
  return new BqError('FORMAT', `tensor "${name}" has ${cause.message}`, {
    cause,
    offset: (tensor.at ?? 0) + weightBytes(from.type, ROWS, row, cols) + Number(cause.offset),
    hint: cause.hint,
    details: { tensor: name },
  });
}

/**
 * Encodes a few rows. Throws FORMAT for a weight that the type cannot represent, and for damaged blocks.
 * @param {Encoder} codec @param {Match} match @param {Stored} from @param {WeightType} type @param {number} layout
 * @param {number} rows @param {number} row  first row
 */
export async function encodePiece(codec, match, from, type, layout, rows, row) {
  const { dims } = match.slot;
  const name = match.tensor.name ?? match.slot.name;
  const { cols } = matrixOf(dims);
  try {
    return await codec.encode(from, type, layout, rows, cols);
  } catch (cause) {
    if (!(cause instanceof BqError) || cause.code !== 'FORMAT') throw cause;
    const index = cause.details.index;
    if (index === undefined) throw damaged(match, from, row, cause);
    const values = await codec.dequantize(from.type, 0, from.bytes, rows, cols);
    const value = values.subarray(index, index + type.block).find((w) => !Number.isFinite(w)) ?? values[index];
    const at = row * cols + index;
    throw new BqError('FORMAT', `tensor "${name}", weight ${at} is ${value}: ${type.name} can't represent it`, {
      cause,
      hint: 'the checkpoint is damaged, or its weights need a wider type (--quant f32)',
      details: { tensor: name, index: at },
    });
  }
}
