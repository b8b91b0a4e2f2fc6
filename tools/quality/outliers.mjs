#!/usr/bin/env node
// Compares treatments of outlier weights (row Q3): clamping, separate storage in f16, or more bits for all weights. Results are in
// docs/log/quality.md, "Weights far from all others".
//
//   npm run build && node tools/quality/outliers.mjs MODEL...
//
// MODEL: any model that `bq4 quantize` reads. Outliers are beyond three standard deviations of the matrix. The error is the root mean square
// of all weights, in standard deviations. A separately stored weight takes 32 bits: its value in f16 and its index.
import { createCodec } from '../../js/format/bq4/codec.js';
import { matchTensors } from '../../js/format/bq4/names.js';
import { runLayout, typeNamed, weightBytes } from '../../js/format/bq4/weight-types.js';
import { matrixOf } from '../../js/format/bq4/write-v2.js';
import { inputOf } from '../../js/quantize/calibration-model.js';
import { withInput } from '../../bin/model-input.js';

/** Distance of an outlier from the mean, in standard deviations. */
const OUTLIER_DEVIATIONS = 3;
/** Bits of a separately stored weight. */
const SEPARATE_BITS = 32;
const [bq4h, bq4a] = ['bq4h', 'bq4a'].map(typeNamed);
const codec = await createCodec(1 << 26);

/** Returns values after quantization to a type. @param {Float32Array} values @param {number} rows @param {number} cols @param {import('../../js/format/bq4/weight-types.js').WeightType} type */
function quantizeAndRestore(values, rows, cols, type) {
  const layout = runLayout(type);
  return codec.dequantize(type, layout, codec.quantize(type, layout, values, rows, cols), rows, cols);
}

/** Returns the sum of squared differences. @param {Float32Array} a @param {Float32Array} b */
const squaredError = (a, b) => a.reduce((sum, x, i) => sum + (x - b[i]) ** 2, 0);

/** Prints the row of a model. @param {import('../../js/quantize/index.js').Input} input @param {string} path */
async function measure({ config, tensors, parts }, path) {
  const matrices = matchTensors(config, tensors).filter(({ slot }) => inputOf(slot.name));
  const shares = [];
  /** Squared errors of each treatment, in squared standard deviations. */
  const errors = { plain: 0, clamped: 0, separate: 0, wider: 0 };
  let [weightCount, outlierCount, plainBits, widerBits] = [0, 0, 0, 0];
  for (const { slot, tensor } of matrices) {
    const { rows, cols } = matrixOf(slot.dims);
    const values = tensor.stored
      ? codec.dequantize(tensor.stored.type, 0, await tensor.stored.read(0, rows), rows, cols)
      : await tensor.read(0, rows);
    const mean = values.reduce((a, b) => a + b, 0) / values.length;
    const deviation = Math.sqrt(values.reduce((a, b) => a + (b - mean) ** 2, 0) / values.length);
    const limit = OUTLIER_DEVIATIONS * deviation;
    const isOutlier = (/** @type {number} */ x) => Math.abs(x - mean) > limit;
    const matrixOutliers = values.reduce((sum, x) => sum + Number(isOutlier(x)), 0);
    shares.push(matrixOutliers / values.length);
    const normalize = (/** @type {number} */ error) => error / deviation ** 2;
    errors.plain += normalize(squaredError(quantizeAndRestore(values, rows, cols, bq4h), values));
    const clamped = values.map((x) => Math.min(Math.max(x, mean - limit), mean + limit));
    errors.clamped += normalize(squaredError(quantizeAndRestore(clamped, rows, cols, bq4h), values));
    // A separately stored weight has no error except that of f16, and it does not increase the scale of its block.
    const withoutOutliers = quantizeAndRestore(
      values.map((x) => (isOutlier(x) ? 0 : x)),
      rows,
      cols,
      bq4h,
    );
    errors.separate += normalize(
      squaredError(
        withoutOutliers.map((x, i) => (isOutlier(values[i]) ? values[i] : x)),
        values,
      ),
    );
    errors.wider += normalize(squaredError(quantizeAndRestore(values, rows, cols, bq4a), values));
    weightCount += values.length;
    outlierCount += matrixOutliers;
    plainBits += 8 * weightBytes(bq4h, runLayout(bq4h), rows, cols);
    widerBits += 8 * weightBytes(bq4a, runLayout(bq4a), rows, cols);
  }
  shares.sort((a, b) => a - b);
  const formatPercent = (/** @type {number} */ x) => `${(100 * x).toFixed(2)} %`;
  const formatRms = (/** @type {number} */ sum) => Math.sqrt(sum / weightCount).toFixed(4);
  const bitsPerWeight = plainBits / weightCount;
  const few = shares.filter((share) => share < 0.001).length;
  const many = shares.filter((share) => share > 0.01).length;
  console.log(
    `| ${parts.name || path} | ${shares.length}: ${few}, ${shares.length - few - many}, ${many} | ${formatPercent(shares[0])}, ${formatPercent(shares[shares.length >> 1])}, ` +
      `${formatPercent(shares[shares.length - 1])} | ${bitsPerWeight.toFixed(2)}: ${formatRms(errors.plain)} | ${formatRms(errors.clamped)} | ` +
      `${(bitsPerWeight + (SEPARATE_BITS * outlierCount) / weightCount).toFixed(2)}: ${formatRms(errors.separate)} | ${(widerBits / weightCount).toFixed(2)}: ${formatRms(errors.wider)} |`,
  );
}

console.log(
  '| model | matrices: less than 0.1 % outliers, up to 1 %, more | outliers: least, median, most | `bq4h`, bits: error | clamped | separate, bits: error | `bq4a`, bits: error |',
);
console.log('|---|---|---|---|---|---|---|');
for (const path of process.argv.slice(2)) await withInput(path, undefined, (input) => measure(input, path));
process.exit(0);
