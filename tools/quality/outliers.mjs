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

const FAR = 3;
const ASIDE_BITS = 32;
const [bq4h, bq4a] = ['bq4h', 'bq4a'].map(typeNamed);
const codec = await createCodec(1 << 26);

/** @param {Float32Array} values @param {number} rows @param {number} cols @param {import('../../js/format/bq4/weight-types.js').WeightType} type */
function rounded(values, rows, cols, type) {
  const layout = runLayout(type);
  return codec.dequantize(type, layout, codec.quantize(type, layout, values, rows, cols), rows, cols);
}

/** @param {Float32Array} a @param {Float32Array} b */
const squares = (a, b) => a.reduce((sum, x, i) => sum + (x - b[i]) ** 2, 0);

/** @param {import('../../js/quantize/index.js').Input} input @param {string} path */
async function measure({ config, tensors, parts }, path) {
  const matrices = matchTensors(config, tensors).filter(({ slot }) => inputOf(slot.name));
  const shares = [];
  const ways = { plain: 0, clamped: 0, aside: 0, wider: 0 };
  let [weights, far, bits, widerBits] = [0, 0, 0, 0];
  for (const { slot, tensor } of matrices) {
    const { rows, cols } = matrixOf(slot.dims);
    const values = tensor.stored
      ? codec.dequantize(tensor.stored.type, 0, await tensor.stored.read(0, rows), rows, cols)
      : await tensor.read(0, rows);
    const mean = values.reduce((a, b) => a + b, 0) / values.length;
    const deviation = Math.sqrt(values.reduce((a, b) => a + (b - mean) ** 2, 0) / values.length);
    const limit = FAR * deviation;
    const isFar = (/** @type {number} */ x) => Math.abs(x - mean) > limit;
    const n = values.reduce((sum, x) => sum + Number(isFar(x)), 0);
    shares.push(n / values.length);
    const of = (/** @type {number} */ error) => error / deviation ** 2;
    ways.plain += of(squares(rounded(values, rows, cols, bq4h), values));
    const clamped = values.map((x) => Math.min(Math.max(x, mean - limit), mean + limit));
    ways.clamped += of(squares(rounded(clamped, rows, cols, bq4h), values));
    // What is aside is exact but for f16, and no longer stretches the scale of its block.
    const rest = rounded(
      values.map((x) => (isFar(x) ? 0 : x)),
      rows,
      cols,
      bq4h,
    );
    ways.aside += of(
      squares(
        rest.map((x, i) => (isFar(values[i]) ? values[i] : x)),
        values,
      ),
    );
    ways.wider += of(squares(rounded(values, rows, cols, bq4a), values));
    weights += values.length;
    far += n;
    bits += 8 * weightBytes(bq4h, runLayout(bq4h), rows, cols);
    widerBits += 8 * weightBytes(bq4a, runLayout(bq4a), rows, cols);
  }
  shares.sort((a, b) => a - b);
  const percent = (/** @type {number} */ x) => `${(100 * x).toFixed(2)} %`;
  const rms = (/** @type {number} */ sum) => Math.sqrt(sum / weights).toFixed(4);
  const plain = bits / weights;
  const few = shares.filter((share) => share < 0.001).length;
  const many = shares.filter((share) => share > 0.01).length;
  console.log(
    `| ${parts.name || path} | ${shares.length}: ${few}, ${shares.length - few - many}, ${many} | ${percent(shares[0])}, ${percent(shares[shares.length >> 1])}, ` +
      `${percent(shares[shares.length - 1])} | ${plain.toFixed(2)}: ${rms(ways.plain)} | ${rms(ways.clamped)} | ` +
      `${(plain + (ASIDE_BITS * far) / weights).toFixed(2)}: ${rms(ways.aside)} | ${(widerBits / weights).toFixed(2)}: ${rms(ways.wider)} |`,
  );
}

console.log(
  '| model | matrices: with less than 0.1 % far, up to 1 %, more | far: least, median, most | `bq4h`, bits: error | clamped | aside, bits: error | `bq4a`, bits: error |',
);
console.log('|---|---|---|---|---|---|---|');
for (const path of process.argv.slice(2)) await withInput(path, undefined, (input) => measure(input, path));
process.exit(0);
