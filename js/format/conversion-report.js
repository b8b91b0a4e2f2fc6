/** The report of a conversion: size and rounding error of each tensor, as an object and as a table in plain text. */

/**
 * @typedef {object} TensorReport
 * @property {string} name
 * @property {string} type
 * @property {string} layout  "rows", "tiled" or "flat"
 * @property {number} weights
 * @property {number} bytes
 * @property {number} meanAbs  mean |error|
 * @property {number} maxAbs   largest |error|
 * @property {number} rms      root mean square of the error
 * @property {number} [product]  relative error (root mean square) of the matrix's products with the inputs that a
 *   calibration text causes; only with a calibration text
 */

/**
 * @typedef {object} ConvertReport
 * @property {string} output       path of the written file
 * @property {number} bytes        size of the file
 * @property {number} dataBytes    size of its tensors
 * @property {number} weights      number of weights
 * @property {number} ratio        size of the weights as f32, divided by dataBytes
 * @property {number} bitsPerWeight
 * @property {string} encoder      build of the encoder: "simd128" (WebAssembly), or "js"
 * @property {number} largestPiece  size in bytes, as f32, of the largest piece of weights that was in memory
 * @property {TensorReport[]} tensors
 */

/**
 * @param {string} output @param {{ bytes: number, dataBytes: number }} written @param {TensorReport[]} tensors
 * @param {string} encoder @param {number} largestPiece
 * @returns {ConvertReport}
 */
export function conversionReport(output, { bytes, dataBytes }, tensors, encoder, largestPiece) {
  const weights = tensors.reduce((sum, t) => sum + t.weights, 0);
  const [ratio, bitsPerWeight] = [(4 * weights) / dataBytes, (8 * dataBytes) / weights];
  return { output, bytes, dataBytes, weights, ratio, bitsPerWeight, encoder, largestPiece, tensors };
}

/**
 * Computes the errors |weight - decoded| for an encoder that does not report them.
 * @param {Float32Array} weights @param {Float32Array} decoded  the weights after rounding
 * @returns {import('./bq4/codec.js').EncodeErrors}
 */
export function errorsOf(weights, decoded) {
  const errors = { sum: 0, squares: 0, most: 0 };
  weights.forEach((w, i) => {
    const error = Math.abs(Math.fround(w - decoded[i]));
    errors.sum += error;
    errors.squares += error * error;
    errors.most = Math.max(errors.most, error);
  });
  return errors;
}

/** Accumulates the rounding errors of one tensor. */
export class ErrorSum {
  weights = 0;
  #sum = 0;
  #squares = 0;
  #max = 0;

  /** @param {number} weights @param {import('./bq4/codec.js').EncodeErrors} errors  errors of these weights */
  add(weights, { sum, squares, most }) {
    this.#sum += sum;
    this.#squares += squares;
    this.#max = Math.max(this.#max, most);
    this.weights += weights;
  }

  get figures() {
    const n = Math.max(this.weights, 1);
    return { weights: this.weights, meanAbs: this.#sum / n, maxAbs: this.#max, rms: Math.sqrt(this.#squares / n) };
  }
}

/**
 * Formats a report as a table with one line per tensor, followed by the totals.
 * @param {ConvertReport} report @returns {string}
 */
export function formatReport(report) {
  const width = Math.max(6, ...report.tensors.map((t) => t.name.length));
  const error = (/** @type {number} */ e) => (e === 0 ? '0' : e.toExponential(2)).padStart(10);
  const hasProducts = report.tensors.some((t) => t.product !== undefined);
  const line = (/** @type {string[]} */ [name, type, bytes, ...errors]) =>
    `${name.padEnd(width)}  ${type.padEnd(8)}${bytes.padStart(12)}${errors.join('')}`;
  return [
    line([
      'tensor',
      'type',
      'bytes',
      ...['mean |e|', 'max |e|', 'rms e', ...(hasProducts ? ['products'] : [])].map((h) => h.padStart(10)),
    ]),
    ...report.tensors.map((t) =>
      line([
        t.name,
        t.type,
        String(t.bytes),
        error(t.meanAbs),
        error(t.maxAbs),
        error(t.rms),
        ...(t.product === undefined ? [] : [`${(100 * t.product).toFixed(2)} %`.padStart(10)]),
      ]),
    ),
    `${report.weights} weights in ${report.dataBytes} bytes: ${report.bitsPerWeight.toFixed(2)} bits each, ${report.ratio.toFixed(2)} times smaller than f32`,
    `${report.output}: ${report.bytes} bytes`,
  ].join('\n');
}
