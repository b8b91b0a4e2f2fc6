/**
 * Splits each matrix of a layer into rows of similar magnitude and a scale for each row (docs/FORMAT.md, "TENS",
 * NAME.scale).
 */

/** @typedef {import('../checkpoint-tensors.js').InTensor} InTensor */

/** Number of rows that are read at once. */
const ROWS_AT_ONCE = 256;
/** Exponents of normal f32 numbers. */
const [MIN_EXPONENT, MAX_EXPONENT] = [-126, 127];

/**
 * Returns the largest power of two that is at most the row's largest |weight|; 1 if there is none. Division by it is
 * exact.
 * @param {Float32Array} row
 */
function scaleOf(row) {
  let max = 0;
  for (const w of row) max = Math.max(max, Math.abs(w));
  return max > 0 && max < Infinity
    ? 2 ** Math.min(Math.max(Math.floor(Math.log2(max)), MIN_EXPONENT), MAX_EXPONENT)
    : 1;
}

/** Returns the matrix with each row divided by its scale. @param {InTensor} tensor @returns {InTensor} */
function dividedByScales({ name, dims, read }) {
  const cols = dims[1];
  return {
    name,
    dims,
    async read(row, rows) {
      const values = Float32Array.from(await read(row, rows));
      for (let r = 0; r < rows; r++) {
        const rowValues = values.subarray(r * cols, (r + 1) * cols);
        const scale = scaleOf(rowValues);
        rowValues.forEach((w, i) => {
          rowValues[i] = w / scale;
        });
      }
      return values;
    },
  };
}

/**
 * Returns the scales of a matrix's rows. Reading them reads the matrix a second time.
 * @param {InTensor} tensor @returns {InTensor}
 */
function scalesOf({ dims: [height, cols], read }) {
  return {
    dims: [height],
    async read() {
      const out = new Float32Array(height);
      for (let row = 0; row < height; row += ROWS_AT_ONCE) {
        const n = Math.min(ROWS_AT_ONCE, height - row);
        const values = await read(row, n);
        for (let r = 0; r < n; r++) out[row + r] = scaleOf(values.subarray(r * cols, (r + 1) * cols));
      }
      return out;
    },
  };
}

/**
 * Replaces each matrix of a layer, except routers and matrices that already have scales, by scaled rows and their
 * scales.
 * @param {Map<string, InTensor>} tensors  by canonical name @returns {Map<string, InTensor>}
 */
export function withRowScales(tensors) {
  return new Map(
    [...tensors].flatMap(([name, tensor]) => {
      const [, matrix] = /^(h\.\d+\.(?:attn|mlp)\.\w+(?:\.\w+)?)\.weight$/.exec(name) ?? [];
      const isUnscaled =
        !matrix || tensor.dims.length !== 2 || /\.(router|switch)$/.test(matrix) || tensors.has(`${matrix}.scale`);
      return isUnscaled
        ? [[name, tensor]]
        : [
            [name, dividedByScales(tensor)],
            [`${matrix}.scale`, scalesOf(tensor)],
          ];
    }),
  );
}
