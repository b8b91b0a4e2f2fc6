/** Tensors made of another one's weights, read piece by piece as that one is. */
import { BqError } from '../../shared/errors.js';

/** @typedef {import('../checkpoint-tensors.js').InTensor} InTensor */

/**
 * Some of its rows, in any order; of a vector some of its elements.
 * @param {InTensor} tensor
 * @param {ArrayLike<number>} picked
 * @returns {InTensor}
 */
export function pick(tensor, picked) {
  if (tensor.dims.length === 1)
    return {
      dims: [picked.length],
      async read() {
        const all = await tensor.read(0, 1);
        return Float32Array.from(picked, (i) => all[i]);
      },
    };
  const cols = tensor.dims[1];
  return {
    dims: [picked.length, cols],
    async read(row, rows) {
      const out = new Float32Array(rows * cols);
      for (let i = 0; i < rows;) {
        const first = picked[row + i];
        let n = 1;
        while (i + n < rows && picked[row + i + n] === first + n) n++;
        out.set(await tensor.read(first, n), i * cols);
        i += n;
      }
      return out;
    },
  };
}

/**
 * Columns `from` on, `count` of them, as rows: what PyTorch keeps as (in, out) where others keep (out, in). The tensor is
 * held as f32 from its first piece to its last.
 * @param {InTensor} tensor
 * @param {number} from
 * @param {number} count
 * @returns {InTensor}
 */
export function columns(tensor, from, count) {
  const [height, width] = tensor.dims;
  /** @type {Promise<Float32Array> | undefined} */
  let whole;
  return {
    dims: [count, height],
    async read(row, rows) {
      whole ??= tensor.read(0, height);
      const values = await whole;
      if (row + rows === count) whole = undefined;
      const out = new Float32Array(rows * height);
      for (let r = 0; r < rows; r++)
        for (let k = 0; k < height; k++) out[r * height + k] = values[k * width + from + row + r];
      return out;
    },
  };
}

/**
 * Of each matrix of a tensor of three dimensions the rows `from` on, `count` of them.
 * @param {InTensor} tensor @param {number} from @param {number} count @returns {InTensor}
 */
export function within({ dims: [matrices, height, cols], read }, from, count) {
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

/** Vectors one after the other, as one. @param {InTensor[]} vectors @returns {InTensor} */
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
 * Matrices one after the other, as one tensor of three dimensions. SHAPE: they differ.
 * @param {string} name @param {InTensor[]} matrices
 * @returns {InTensor}
 */
export function stacked(name, matrices) {
  const [height, cols] = matrices[0].dims;
  const other = matrices.findIndex(({ dims }) => dims.length !== 2 || dims[0] !== height || dims[1] !== cols);
  if (other >= 0)
    throw new BqError(
      'SHAPE',
      `part ${other} of "${name}" is ${matrices[other].dims.join(' × ')}, the first is ${height} × ${cols}`,
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

/** All its elements as one vector, as they lie. @param {InTensor} tensor @returns {InTensor} */
export function flat({ dims, read }) {
  const size = dims.reduce((product, dim) => product * dim, 1);
  return { dims: [size], read: () => read(0, size / dims[dims.length - 1]) };
}

/** The same plus one. @param {InTensor} tensor @returns {InTensor} */
export function plusOne(tensor) {
  return { dims: tensor.dims, read: async (row, rows) => (await tensor.read(row, rows)).map((x) => x + 1) };
}

/** from, from + 1, … @param {number} from @param {number} count */
export const range = (from, count) => Array.from({ length: count }, (_, i) => from + i);
