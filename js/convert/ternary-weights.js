/**
 * BitNet's matrices from checkpoints of transformers: -1, 0 and 1, and a scale of each row (docs/FORMAT.md, "TENS", NAME.scale), which
 * is the same for all rows of a matrix. The weight type bqt_64 holds such matrices exactly.
 */
import { BqError } from '../shared/errors.js';
import { readRange } from '../storage/sources/read.js';

/** @import { InTensor } from '../format/checkpoint-tensors.js' */
/** @import { TernaryWeights } from '../format/families/bitnet.js' */
/** @import { ByteSource } from '../storage/sources/types.js' */

/** Matrices that are ternary, by canonical name. */
const TERNARY = /^(h\.\d+\.(?:attn\.[qkvo]|mlp\.(?:gate|up|down)))\.weight$/;
/** Rows read at once. */
const ROWS_AT_ONCE = 256;
/** Weights in a byte, two bits each, which are the weight plus 1. */
const PER_BYTE = 4;
/** The smallest mean that weights are divided by. */
const LEAST_MEAN = 1e-5;

/**
 * A matrix of bytes, each of which has a weight of four rows: byte row r those of rows r, r + R, r + 2 R and r + 3 R, from the lowest
 * bits on, R being the number of byte rows.
 * @param {ByteSource} file @param {number} at  its first byte @param {number[]} shape @param {string} name
 * @returns {InTensor}
 */
export function unpackedTensor(file, at, [byteRows, cols], name) {
  /** Weights of the rows of a run of byte rows, by their two bits of each byte. @param {number} first @param {number} count @param {number} shift */
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
    dims: [PER_BYTE * byteRows, cols],
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

/** FORMAT: the first weight of some rows that has no mean. @param {string} name @param {Float32Array} values @param {number} from  number of the first */
function requireFinite(name, values, from) {
  const at = values.findIndex((w) => !Number.isFinite(w));
  if (at < 0) return;
  throw new BqError('FORMAT', `tensor "${name}", weight ${from + at} is ${values[at]}; expected finite weights`, {
    hint: 'the checkpoint is damaged: fetch it again',
    details: { tensor: name, index: from + at },
  });
}

/** 1 divided by the mean of all |weights|, as f32. FORMAT. @param {InTensor} tensor @param {string} name */
async function inverseMean({ dims: [height, cols], read }, name) {
  let sum = 0;
  for (let row = 0; row < height; row += ROWS_AT_ONCE) {
    const values = await read(row, Math.min(ROWS_AT_ONCE, height - row));
    let part = 0;
    for (const w of values) part += Math.abs(w);
    if (!Number.isFinite(part)) requireFinite(name, values, row * cols);
    sum += part;
  }
  return Math.fround(1 / Math.fround(Math.max(sum / (height * cols), LEAST_MEAN)));
}

/** A matrix of floats, rounded to -1, 0 and 1 times the mean of their magnitudes: the matrix and its scale. @param {InTensor} tensor @param {string} name */
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
        const by = await inverseOnce();
        // A half is rounded to even: 0.
        return (await tensor.read(row, rows)).map((w) => (Math.abs(Math.fround(w * by)) > 0.5 ? Math.sign(w) : 0));
      },
    },
    scaleOf: async () => 1 / (await inverseOnce()),
  };
}

/** The scale of a packed matrix. Throws FORMAT. @param {InTensor} scale @param {string} name @param {boolean} divides */
async function storedScale(scale, name, divides) {
  const [value] = await scale.read(0, 1);
  if (!(value > 0 && value < Infinity))
    throw new BqError('FORMAT', `tensor "${name}" is ${value}; expected a positive number`, {
      hint: 'the checkpoint is damaged: fetch it again',
    });
  return divides ? 1 / value : value;
}

/** The same number for each row. @param {number} rows @param {() => Promise<number>} scaleOf @returns {InTensor} */
const sameForRows = (rows, scaleOf) => ({
  dims: [rows],
  read: async () => new Float32Array(rows).fill(await scaleOf()),
});

/**
 * The tensors of a checkpoint with its ternary matrices as such. Throws FORMAT, SHAPE.
 * @param {Map<string, InTensor>} tensors  by canonical name; scales of packed matrices, one number each, under NAME.scale
 * @param {TernaryWeights} how @returns {Map<string, InTensor>}
 */
export function withTernaryWeights(tensors, { packed, divides }) {
  const out = new Map(tensors);
  for (const [name, tensor] of tensors) {
    const [, module] = TERNARY.exec(name) ?? [];
    if (!module) continue;
    const scaleName = `${module}.scale`;
    if (!packed) {
      const { matrix, scaleOf } = roundedMatrix(tensor, tensor.name ?? name);
      out.set(name, matrix).set(scaleName, sameForRows(tensor.dims[0], scaleOf));
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
      sameForRows(tensor.dims[0], () => storedScale(scale, storedName, divides)),
    );
  }
  return out;
}
