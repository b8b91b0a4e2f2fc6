/**
 * Packs the weights of a classifier in blocks of 32, as in v1.0 model files (docs/FORMAT.md). A block is 16 bytes of
 * nibbles, low ones first, then an f32 scale.
 */

/** Number of weights in a block. */
const BLOCK = 32;
const BYTES_PER_BLOCK = BLOCK / 2 + 4;

/** Returns the number of blocks in a row. The last one is padded with zeros. @param {number} cols */
const blocksOf = (cols) => Math.ceil(cols / BLOCK);

/** Returns the number of bytes of packed weights. @param {number} rows @param {number} cols */
export const packedBytes = (rows, cols) => rows * blocksOf(cols) * BYTES_PER_BLOCK;

/** Rounds half away from zero, like the C encoder. @param {number} x */
const round = (x) => Math.sign(x) * Math.floor(Math.abs(x) + 0.5);

/**
 * @param {Float32Array} weights  rows x cols, finite
 * @param {number} rows
 * @param {number} cols
 * @returns {Uint8Array}
 */
export function pack(weights, rows, cols) {
  const bytes = new Uint8Array(packedBytes(rows, cols));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (let row = 0; row < rows; row++)
    for (let first = 0; first < cols; first += BLOCK, at += BYTES_PER_BLOCK) {
      const block = weights.subarray(row * cols + first, row * cols + Math.min(first + BLOCK, cols));
      const scale = Math.fround(block.reduce((largest, w) => Math.max(largest, Math.abs(w)), Math.fround(1e-8)) / 7);
      const inverse = Math.fround(1 / scale);
      block.forEach((w, i) => {
        const q = Math.max(-8, Math.min(7, round(Math.fround(w * inverse))));
        bytes[at + (i >> 1)] |= (q & 15) << (i & 1 ? 4 : 0);
      });
      view.setFloat32(at + BLOCK / 2, scale, true);
    }
  return bytes;
}

/**
 * @param {Uint8Array} bytes  of the length `packedBytes(rows, cols)`
 * @param {number} rows
 * @param {number} cols
 * @returns {Float32Array}  rows x cols
 */
export function unpack(bytes, rows, cols) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const weights = new Float32Array(rows * cols);
  const blocks = blocksOf(cols);
  for (let row = 0; row < rows; row++)
    for (let col = 0; col < cols; col++) {
      const at = (row * blocks + Math.floor(col / BLOCK)) * BYTES_PER_BLOCK;
      const nibble = (bytes[at + ((col % BLOCK) >> 1)] >> (col & 1 ? 4 : 0)) & 15;
      weights[row * cols + col] = ((nibble ^ 8) - 8) * view.getFloat32(at + BLOCK / 2, true);
    }
  return weights;
}
