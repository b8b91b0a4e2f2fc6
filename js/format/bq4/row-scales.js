/** Matrices of layers as rows of about the same size, and a factor for each row (docs/FORMAT.md, "TENS"). */

/** @typedef {import('../checkpoint-tensors.js').InTensor} InTensor */

/** Rows read at once. */
const STEP = 256;
/** Exponents of f32. */
const [LEAST, MOST] = [-126, 127];

/** The largest power of two up to the row's largest weight: dividing by it loses nothing. @param {Float32Array} row */
function scaleOf(row) {
  let most = 0;
  for (const w of row) most = Math.max(most, Math.abs(w));
  return most > 0 && most < Infinity ? 2 ** Math.min(Math.max(Math.floor(Math.log2(most)), LEAST), MOST) : 1;
}

/** @param {InTensor} tensor @returns {InTensor} */
function divided({ dims, read }) {
  const cols = dims[1];
  return {
    dims,
    async read(row, rows) {
      const values = Float32Array.from(await read(row, rows));
      for (let r = 0; r < rows; r++) {
        const own = values.subarray(r * cols, (r + 1) * cols);
        const scale = scaleOf(own);
        own.forEach((w, i) => {
          own[i] = w / scale;
        });
      }
      return values;
    },
  };
}

/** Reads the matrix once more. @param {InTensor} tensor @returns {InTensor} */
function scales({ dims: [height, cols], read }) {
  return {
    dims: [height],
    async read() {
      const out = new Float32Array(height);
      for (let row = 0; row < height; row += STEP) {
        const n = Math.min(STEP, height - row);
        const values = await read(row, n);
        for (let r = 0; r < n; r++) out[row + r] = scaleOf(values.subarray(r * cols, (r + 1) * cols));
      }
      return out;
    },
  };
}

/** @param {Map<string, InTensor>} tensors  by canonical name @returns {Map<string, InTensor>} */
export function withRowScales(tensors) {
  return new Map(
    [...tensors].flatMap(([name, tensor]) => {
      const [, matrix] = /^(h\.\d+\.(?:attn|mlp)\.\w+(?:\.\w+)?)\.weight$/.exec(name) ?? [];
      const whole =
        !matrix || tensor.dims.length !== 2 || /\.(router|switch)$/.test(matrix) || tensors.has(`${matrix}.scale`);
      return whole
        ? [[name, tensor]]
        : [
            [name, divided(tensor)],
            [`${matrix}.scale`, scales(tensor)],
          ];
    }),
  );
}
