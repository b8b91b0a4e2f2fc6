/**
 * Reads BitNet's ternary matrices from checkpoints of transformers. A matrix becomes weights of -1, 0 and 1, and a
 * scale for each row (docs/FORMAT.md, "TENS", NAME.scale), which is the same for all rows. The weight type bqt_64
 * represents such matrices exactly.
 */
import { BqError } from '../shared/errors.js';
import { readRange } from '../storage/sources/read.js';

/** @import { InTensor } from '../format/checkpoint-tensors.js' */
/** @import { TernaryWeights } from '../format/families/bitnet.js' */
/** @import { ByteSource } from '../storage/sources/types.js' */

/** Canonical names of ternary matrices. */
const TERNARY = /^(h\.\d+\.(?:attn\.[qkvo]|mlp\.(?:gate|up|down)))\.weight$/;
/** Number of rows that are read at once. */
const ROWS_AT_ONCE = 256;
/** Number of weights in a byte of a packed matrix. Each has two bits: the weight plus 1. */
const WEIGHTS_PER_BYTE = 4;
/** Smallest mean by which weights are divided. */
const MIN_MEAN = 1e-5;

/**
 * Returns a matrix whose weights are packed in bytes. A byte has one weight of four rows: with R rows of bytes, byte
 * row r has the weights of rows r, r + R, r + 2 R and r + 3 R, from the lowest bits on.
 * @param {ByteSource} file @param {number} at  offset of the first byte
 * @param {number[]} shape  shape of the matrix of bytes @param {string} name
 * @returns {InTensor}
 */
export function unpackedTensor(file, at, [byteRows, cols], name) {
  /**
   * Reads consecutive byte rows; returns one weight of each byte.
   * @param {number} first  first byte row
   * @param {number} count  number of byte rows
   * @param {number} shift  position of the weight's bits
   */
  async function readRun(first, count, shift) {
    const from = at + first * cols;
    const bytes = await readRange(file, from, from + count * cols);
    if (bytes.length !== count * cols)
      throw new BqError('TRUNCATED', `${file.name} ends within tensor "${name}"`, { offset: from + bytes.length });
    return Float32Array.from(bytes, (byte, i) => {
      const bits = (byte >> shift) & 3;
      if (bits < 3) return bits - 1;
      throw new BqError('FORMAT', `tensor "${name}" has the bits 3 for a weight; expected 0, 1 or 2`, {
        offset: from + i,
        hint: 'the checkpoint is damaged, or its weights are packed in another way',
      });
    });
  }
  return {
    dims: [WEIGHTS_PER_BYTE * byteRows, cols],
    ternary: true,
    async read(row, rows) {
      const out = new Float32Array(rows * cols);
      for (let i = 0; i < rows;) {
        const first = (row + i) % byteRows;
        const count = Math.min(rows - i, byteRows - first);
        out.set(await readRun(first, count, 2 * Math.floor((row + i) / byteRows)), i * cols);
        i += count;
      }
      return out;
    },
  };
}

/**
 * Throws FORMAT for the first weight that is not finite.
 * @param {string} name @param {Float32Array} values @param {number} from  index of the first value in the tensor
 */
function requireFinite(name, values, from) {
  const at = values.findIndex((w) => !Number.isFinite(w));
  if (at < 0) return;
  throw new BqError('FORMAT', `tensor "${name}", weight ${from + at} is ${values[at]}; expected finite weights`, {
    hint: 'the checkpoint is damaged: fetch it again',
    details: { tensor: name, index: from + at },
  });
}

/**
 * Returns 1 divided by the mean of all |weights|, as f32. Throws FORMAT.
 * @param {InTensor} tensor @param {string} name
 */
async function inverseMean({ dims: [height, cols], read }, name) {
  let sum = 0;
  for (let row = 0; row < height; row += ROWS_AT_ONCE) {
    const values = await read(row, Math.min(ROWS_AT_ONCE, height - row));
    let part = 0;
    for (const w of values) part += Math.abs(w);
    if (!Number.isFinite(part)) requireFinite(name, values, row * cols);
    sum += part;
  }
  return Math.fround(1 / Math.fround(Math.max(sum / (height * cols), MIN_MEAN)));
}

/**
 * Converts a matrix of floats to weights of -1, 0 and 1 and a scale: the mean of the floats' magnitudes.
 * @param {InTensor} tensor @param {string} name
 */
function roundedMatrix(tensor, name) {
  /** @type {Promise<number> | undefined} */
  let inverse;
  const inverseOnce = () => (inverse ??= inverseMean(tensor, name));
  return {
    matrix: {
      name,
      dims: tensor.dims,
      ternary: true,
      async read(/** @type {number} */ row, /** @type {number} */ rows) {
        const factor = await inverseOnce();
        // A half is rounded to even: 0.
        return (await tensor.read(row, rows)).map((w) => (Math.abs(Math.fround(w * factor)) > 0.5 ? Math.sign(w) : 0));
      },
    },
    scaleOf: async () => 1 / (await inverseOnce()),
  };
}

/**
 * Reads the scale of a packed matrix. Throws FORMAT.
 * @param {InTensor} scale @param {string} name @param {boolean} divides  see TernaryWeights
 */
async function storedScale(scale, name, divides) {
  const [value] = await scale.read(0, 1);
  if (!(value > 0 && value < Infinity))
    throw new BqError('FORMAT', `tensor "${name}" is ${value}; expected a positive number`, {
      hint: 'the checkpoint is damaged: fetch it again',
    });
  return divides ? 1 / value : value;
}

/**
 * Returns a vector with the same scale for each row.
 * @param {number} rows @param {() => Promise<number>} scaleOf @returns {InTensor}
 */
const rowScales = (rows, scaleOf) => ({
  dims: [rows],
  read: async () => new Float32Array(rows).fill(await scaleOf()),
});

/**
 * Replaces the ternary matrices of a checkpoint by weights of -1, 0 and 1 and scales of their rows. Throws FORMAT,
 * SHAPE.
 * @param {Map<string, InTensor>} tensors  tensors by canonical name; NAME.scale is the scale of a packed matrix: one
 *   number
 * @param {TernaryWeights} storage @returns {Map<string, InTensor>}
 */
export function withTernaryWeights(tensors, { packed, divides }) {
  const out = new Map(tensors);
  for (const [name, tensor] of tensors) {
    const [, module] = TERNARY.exec(name) ?? [];
    if (!module) continue;
    const scaleName = `${module}.scale`;
    if (!packed) {
      const { matrix, scaleOf } = roundedMatrix(tensor, tensor.name ?? name);
      out.set(name, matrix).set(scaleName, rowScales(tensor.dims[0], scaleOf));
      continue;
    }
    const scale = tensors.get(scaleName);
    if (!scale)
      throw new BqError(
        'SHAPE',
        `tensor "${tensor.name ? `${tensor.name}_scale` : scaleName}" is missing: a packed matrix has a weight_scale`,
      );
    const storedName = scale.name ?? scaleName;
    if (scale.dims.reduce((a, b) => a * b, 1) !== 1)
      throw new BqError('SHAPE', `tensor "${storedName}" is ${scale.dims.join(' × ')}; expected one number`);
    out.set(
      scaleName,
      rowScales(tensor.dims[0], () => storedScale(scale, storedName, divides)),
    );
  }
  return out;
}
