/** Reorders the rows of an adapter's matrices to match the model. */
import { pick } from '../bq4/tensor-views.js';

/** @import { InTensor } from '../checkpoint-tensors.js' */

/**
 * Converts rows of q or k from one of the two orders of rotary pairs to the other: "half" (row i with row i + half) and
 * "adjacent" (row i with row i + 1).
 * @param {InTensor} b @param {Record<string, any>} config  configuration of the model
 * @param {string} ropePairs  order in `b`
 */
export function reorderRopePairs(b, { head_dim: dim, rope_dim: rotated }, ropePairs) {
  const half = rotated / 2;
  return pick(
    b,
    Array.from({ length: b.dims[0] }, (_, row) => {
      const i = row % dim;
      if (i >= rotated) return row;
      return row - i + (ropePairs === 'half' ? (i % 2) * half + (i >> 1) : 2 * (i % half) + Math.floor(i / half));
    }),
  );
}

/** Returns the transposed matrix. @param {InTensor} b @returns {InTensor} */
export const transposed = (b) => ({
  dims: [b.dims[1], b.dims[0]],
  async read(row, rows) {
    const [height, width] = b.dims;
    const all = await b.read(0, height);
    return Float32Array.from(
      { length: rows * height },
      (_, i) => all[(i % height) * width + row + Math.floor(i / height)],
    );
  },
});
