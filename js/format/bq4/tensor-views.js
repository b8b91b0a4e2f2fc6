/**
 * Views of tensors: selections, transpositions and concatenations. Like other tensors they are read a few rows at a
 * time.
 */
import { BqError } from '../../shared/errors.js';

/** @typedef {import('../checkpoint-tensors.js').InTensor} InTensor */

/**
 * Selects rows of a matrix, or elements of a vector, in any order.
 * @param {InTensor} tensor
 * @param {ArrayLike<number>} indices
 * @returns {InTensor}
 */
export function pick(tensor, indices) {
  if (tensor.dims.length === 1)
    return {
      dims: [indices.length],
      async read() {
        const all = await tensor.read(0, 1);
        return Float32Array.from(indices, (i) => all[i]);
      },
    };
  const cols = tensor.dims[1];
  return {
    dims: [indices.length, cols],
    async read(row, rows) {
      const out = new Float32Array(rows * cols);
      for (let i = 0; i < rows;) {
        const first = indices[row + i];
        let n = 1;
        while (i + n < rows && indices[row + i + n] === first + n) n++;
        out.set(await tensor.read(first, n), i * cols);
        i += n;
      }
      return out;
    },
  };
}

/**
 * Returns `count` columns from `from` on as rows: the transpose of a matrix that is stored as (in, out). The whole
 * tensor is in memory as f32 from the first piece to the last.
 * @param {InTensor} tensor
 * @param {number} from
 * @param {number} count
 * @returns {InTensor}
 */
export function columns(tensor, from, count) {
  const [height, width] = tensor.dims;
  /** All weights. @type {Promise<Float32Array> | undefined} */
  let weights;
  return {
    dims: [count, height],
    async read(row, rows) {
      weights ??= tensor.read(0, height);
      const values = await weights;
      if (row + rows === count) weights = undefined;
      const out = new Float32Array(rows * height);
      for (let r = 0; r < rows; r++)
        for (let k = 0; k < height; k++) out[r * height + k] = values[k * width + from + row + r];
      return out;
    },
  };
}

/**
 * Returns `count` rows from `from` on of each matrix of a three-dimensional tensor.
 * @param {InTensor} tensor @param {number} from @param {number} count @returns {InTensor}
 */
export function rowsOfEach({ dims: [matrices, height, cols], read }, from, count) {
  return {
    dims: [matrices, count, cols],
    async read(row, rows) {
      const out = new Float32Array(rows * cols);
      for (let i = 0; i < rows;) {
        const [at, skipped] = [Math.floor((row + i) / count), (row + i) % count];
        const n = Math.min(rows - i, count - skipped);
        out.set(await read(at * height + from + skipped, n), i * cols);
        i += n;
      }
      return out;
    },
  };
}

/** Concatenates vectors. @param {InTensor[]} vectors @returns {InTensor} */
export function joined(vectors) {
  const size = vectors.reduce((sum, { dims }) => sum + dims[0], 0);
  return {
    dims: [size],
    async read() {
      const out = new Float32Array(size);
      let at = 0;
      for (const vector of vectors) {
        out.set(await vector.read(0, 1), at);
        at += vector.dims[0];
      }
      return out;
    },
  };
}

/**
 * Stacks matrices of the same shape to a three-dimensional tensor. Throws SHAPE if their shapes differ.
 * @param {string} name  name of the tensor, for errors
 * @param {InTensor[]} matrices
 * @returns {InTensor}
 */
export function stacked(name, matrices) {
  const [height, cols] = matrices[0].dims;
  const mismatch = matrices.findIndex(({ dims }) => dims.length !== 2 || dims[0] !== height || dims[1] !== cols);
  if (mismatch >= 0)
    throw new BqError(
      'SHAPE',
      `part ${mismatch} of "${name}" is ${matrices[mismatch].dims.join(' × ')}; expected ${height} × ${cols} like part 0`,
    );
  return {
    dims: [matrices.length, height, cols],
    async read(row, rows) {
      const out = new Float32Array(rows * cols);
      for (let i = 0; i < rows;) {
        const [at, from] = [Math.floor((row + i) / height), (row + i) % height];
        const n = Math.min(rows - i, height - from);
        out.set(await matrices[at].read(from, n), i * cols);
        i += n;
      }
      return out;
    },
  };
}

/** Returns all weights as one vector, in row-major order. @param {InTensor} tensor @returns {InTensor} */
export function flattened({ dims, read }) {
  const size = dims.reduce((product, dim) => product * dim, 1);
  return { dims: [size], read: () => read(0, size / dims[dims.length - 1]) };
}

/** Returns the tensor with 1 added to each weight. @param {InTensor} tensor @returns {InTensor} */
export function plusOne(tensor) {
  return { dims: tensor.dims, read: async (row, rows) => (await tensor.read(row, rows)).map((x) => x + 1) };
}

/**
 * Returns -exp of each weight: checkpoints store the logarithm of a state's decay.
 * @param {InTensor} tensor @returns {InTensor}
 */
export function minusExp(tensor) {
  return { dims: tensor.dims, read: async (row, rows) => (await tensor.read(row, rows)).map((x) => -Math.exp(x)) };
}

/**
 * Multiplies each row of a tensor, or each weight of a vector, by its factor.
 * @param {InTensor} tensor @param {(row: number) => number} factorOf  returns the factor of a row @returns {InTensor}
 */
export function scaledRows(tensor, factorOf) {
  const cols = tensor.dims.length > 1 ? tensor.dims[tensor.dims.length - 1] : 1;
  return {
    dims: tensor.dims,
    read: async (row, rows) => (await tensor.read(row, rows)).map((x, i) => x * factorOf(row + Math.floor(i / cols))),
  };
}

/** Returns the list from, from + 1, … with `count` numbers. @param {number} from @param {number} count */
export const range = (from, count) => Array.from({ length: count }, (_, i) => from + i);
