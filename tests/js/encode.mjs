/**
 * Encoders and decoders of the weight types (docs/FORMAT.md §1) in JavaScript. They give the same bytes as c/quant/encode.c and
 * c/core/dequantize.c, except for blocks with a minimum: C searches for the best range, this code takes the range from the smallest weight
 * to the largest.
 *
 * All arithmetic is f32: the result of an operation on f32 values in double precision, rounded by Math.fround, is the f32 result.
 */
import { BqError } from '../../js/shared/errors.js';
import { bf16FromNumber, bf16ToNumber, f16FromNumber, f16ToNumber } from '../../js/format/bq4/half.js';
import { FLAT, TILED, TYPES, weightBytes } from '../../js/format/bq4/weight-types.js';

const { fround, trunc, abs, sign } = Math;
const MINIMUM = fround(1e-8);

/** Rounds to the nearest integer, halves away from zero, as C's roundf. @param {number} x  an f32 */
function roundAway(x) {
  const whole = trunc(x);
  return abs(x - whole) >= 0.5 ? whole + sign(x) : whole;
}

/** Throws the error for a weight that the type cannot represent. @param {import('../../js/format/bq4/weight-types.js').WeightType} type @param {number} index @param {number} value @returns {never} */
function refuse(type, index, value) {
  const why = Number.isFinite(value) ? `too large for ${type.name}` : 'not a finite number';
  throw new BqError('FORMAT', `weight ${index} is ${value}: ${why}`, { details: { index } });
}

/**
 * Unsigned integers, scale and minimum of one block; the range is from its smallest weight to its largest.
 * @param {import('../../js/format/bq4/weight-types.js').WeightType} type
 * @param {Float32Array} src @param {number} at @param {number} count @param {Int8Array} q  as quantizeBlock's
 * @returns {Scales}
 */
function quantizeBetween(type, src, at, count, q) {
  let low = at;
  let high = at;
  for (let i = at; i < at + count; i++) {
    if (!(abs(src[i]) < Infinity)) refuse(type, i, src[i]);
    if (src[i] < src[low]) low = i;
    if (src[i] > src[high]) high = i;
  }
  const min = f16ToNumber(f16FromNumber(src[low]));
  const top = 2 ** type.bits - 1;
  const range = f16ToNumber(f16FromNumber(fround(fround(src[high] - min) / top)));
  if (!Number.isFinite(min)) refuse(type, low, src[low]);
  if (!Number.isFinite(range)) refuse(type, high, src[high]);
  const scale = src[high] > min ? Math.max(range, 2 ** -24) : 0;
  const inverse = scale > 0 ? fround(1 / scale) : 0;
  q.fill(0);
  for (let i = 0; i < count; i++)
    q[i] = Math.min(Math.max(roundAway(fround(fround(src[at + i] - min) * inverse)), 0), top);
  return { scale, min };
}

/** Whether a type has less than 4 bits. @param {import('../../js/format/bq4/weight-types.js').WeightType} type */
const isSmall = (type) => type.bits > 0 && type.bits < 4;
/** Whether the levels of a type are −3, −1, 1, 3. @param {import('../../js/format/bq4/weight-types.js').WeightType} type */
const isOdd = (type) => type.bits === 2 && !type.minBytes;

/** The nearest level. @param {boolean} odd @param {number} x  weight / scale */
function levelOf(odd, x) {
  if (odd) return x < -2 ? -3 : x < 0 ? -1 : x < 2 ? 1 : 3;
  return x < -0.5 ? -1 : x < 0.5 ? 0 : 1;
}

/** The best of 15 scales, each of which is fitted twice. @param {boolean} odd @param {Float32Array} w @param {number} m  largest absolute weight */
function smallScale(odd, w, m) {
  const high = odd ? 3 : 1;
  let best = fround(m / high);
  let maxGain = 0;
  for (let i = 0; i < 15; i++) {
    let scale = fround(fround(m * fround(1 - fround(fround(0.05) * i))) / high);
    for (let fit = 0; fit < 2; fit++) {
      let [squares, products] = [0, 0];
      const inverse = fround(1 / scale);
      for (const x of w) {
        const level = levelOf(odd, fround(x * inverse));
        squares = fround(squares + level * level);
        products = fround(products + fround(level * x));
      }
      if (!(squares > 0 && products > 0)) break;
      scale = fround(products / squares);
      const gain = fround(products * scale);
      if (gain > maxGain) [maxGain, best] = [gain, scale];
    }
  }
  return best;
}

/** Integers and scale of a block with less than 4 bits. @param {import('../../js/format/bq4/weight-types.js').WeightType} type @param {Float32Array} w @param {number} m  largest absolute weight @param {Int8Array} q */
function quantizeSmall(type, w, m, q) {
  const odd = isOdd(type);
  const fittedScale = m >= 2 ** -60 ? f16ToNumber(f16FromNumber(smallScale(odd, w, m))) : 0;
  const scale = m >= 2 ** -60 ? Math.max(fittedScale, 2 ** -24) : 0;
  const inverse = scale > 0 ? fround(1 / scale) : 0;
  q.fill(odd ? -3 : 0);
  w.forEach((x, i) => {
    if (odd) q[i] = 2 * roundAway(Math.min(Math.max(fround(fround(x + 3 * scale) * (inverse / 2)), 0), 3)) - 3;
    else q[i] = roundAway(Math.min(Math.max(fround(x * inverse), -1), 1));
  });
  return { scale, min: 0 };
}

/** Places of the bits of a small weight: [group of 4 bytes, first bit in the byte, number of bits, first bit of the value]. @param {import('../../js/format/bq4/weight-types.js').WeightType} type @param {number} k */
function smallPlaces(type, k) {
  const [j, high] = [(k & 15) >> 2, (k >> 4) & 1];
  if (type.bits !== 3) return [[j >> 1, 4 * (j & 1) + 2 * high, 2, 0]];
  if (j < 3) return [[j, 3 * high, 3, 0]];
  return [
    [high, 6, 2, 0],
    [2, 6 + high, 1, 2],
  ];
}

/** Number of groups of 4 bytes of 32 small weights. @param {import('../../js/format/bq4/weight-types.js').WeightType} type */
const groupCount = (type) => (type.bits === 3 ? 3 : 2);

/**
 * Writes a small weight.
 * @param {import('../../js/format/bq4/weight-types.js').WeightType} type @param {Uint8Array} out @param {number} at  offset of the row's first group
 * @param {number} gap  bytes from a group to the next @param {number} k  index of the weight @param {number} q
 */
function putSmall(type, out, at, gap, k, q) {
  const value = isOdd(type) ? (q + 3) / 2 : type.bits === 1 ? q + 1 : q;
  for (const [group, bit, bits, from] of smallPlaces(type, k)) {
    const byte = at + ((k >> 5) * groupCount(type) + group) * gap + (k & 3);
    out[byte] = (out[byte] & ~((2 ** bits - 1) << bit)) | (((value >> from) & (2 ** bits - 1)) << bit);
  }
}

/** Reads a small weight. @type {(...args: [import('../../js/format/bq4/weight-types.js').WeightType, Uint8Array, number, number, number]) => number} */
function getSmall(type, bytes, at, gap, k) {
  let value = 0;
  for (const [group, bit, bits, from] of smallPlaces(type, k))
    value |= ((bytes[at + ((k >> 5) * groupCount(type) + group) * gap + (k & 3)] >> bit) & (2 ** bits - 1)) << from;
  return isOdd(type) ? 2 * value - 3 : type.bits === 1 ? value - 1 : value;
}

/** Scale and minimum of a block, rounded to the precision of the file. @typedef {{ scale: number, min: number }} Scales */

/**
 * Integers and scale of one block.
 * @param {import('../../js/format/bq4/weight-types.js').WeightType} type
 * @param {Float32Array} src
 * @param {number} at     first weight of the block
 * @param {number} count  number of weights, at most type.block
 * @param {Int8Array} q   [type.block]; elements from `count` on become 0
 * @returns {Scales}
 */
function quantizeBlock(type, src, at, count, q) {
  if (type.minBytes) return quantizeBetween(type, src, at, count, q);
  let m = 0;
  for (let i = at; i < at + count; i++) {
    const a = abs(src[i]);
    if (!(a < Infinity)) refuse(type, i, src[i]);
    if (a > m) m = a;
  }
  if (isSmall(type)) return quantizeSmall(type, src.subarray(at, at + count), m, q);
  const eight = type.bits === 8;
  const top = eight ? 127 : 7;
  const bottom = eight ? -127 : -8;
  if (!eight && m < MINIMUM) m = MINIMUM;
  let scale = fround(m / top);
  if (type.scaleBytes === 2) {
    scale = f16ToNumber(f16FromNumber(scale));
    if (scale === Infinity) refuse(type, src.subarray(at, at + count).findIndex((w) => abs(w) === m) + at, m);
    if (m > 0) scale = Math.max(scale, 2 ** -24);
  }
  q.fill(0);
  if (scale === 0) return { scale, min: 0 };
  const inverse = fround(1 / scale);
  for (let i = 0; i < count; i++) {
    const x = roundAway(fround(src[at + i] * inverse));
    q[i] = x > top ? top : x < bottom ? bottom : x;
  }
  return { scale, min: 0 };
}

/** Offsets of minima and weights in a tile (tables in docs/FORMAT.md), and the stored value of q = 0. @param {import('../../js/format/bq4/weight-types.js').WeightType} type */
function tileShape(type) {
  const { block, bits, scaleBytes, minBytes, step } = type;
  const minsAt = (step / block) * 8 * scaleBytes;
  return {
    minsAt,
    weightsAt: minsAt + (step / block) * 8 * minBytes,
    zero: minBytes ? 0 : 1 << (bits - 1),
    eight: bits === 8,
  };
}

/**
 * Offset of the byte of column k of row r, within the weights of a tile.
 * @param {number} k @param {number} r @param {boolean} eight
 */
function tileByte(k, r, eight) {
  if (eight) return (k >> 2) * 32 + r * 4 + (k & 3);
  return (k >> 5) * 128 + ((k & 15) >> 2) * 32 + r * 4 + (k & 3);
}

/** @param {DataView} view @param {number} at @param {number} scale @param {number} bytes  2: f16, 4: f32, 0: the type has none */
function putScale(view, at, scale, bytes) {
  if (bytes === 0) return;
  if (bytes === 2) view.setUint16(at, f16FromNumber(scale), true);
  else view.setFloat32(at, scale, true);
}

/** @param {DataView} view @param {number} at @param {number} bytes @param {string} name */
function getScale(view, at, bytes, name) {
  if (bytes === 0) return 0;
  const scale = bytes === 2 ? f16ToNumber(view.getUint16(at, true)) : view.getFloat32(at, true);
  if (!Number.isFinite(scale))
    throw new BqError('FORMAT', `a scale of ${name}: expected a finite number, found ${scale}`, { offset: at });
  return scale;
}

/**
 * Encodes a matrix in tiles of 8 rows.
 * @param {import('../../js/format/bq4/weight-types.js').WeightType} type
 * @param {Float32Array} src
 * @param {number} rows
 * @param {number} cols
 */
function toTiles(type, src, rows, cols) {
  const { minsAt, weightsAt, zero, eight } = tileShape(type);
  const perRow = Math.ceil(cols / type.step);
  const out = new Uint8Array(weightBytes(type, TILED, rows, cols));
  const view = new DataView(out.buffer);
  const q = new Int8Array(type.block);
  for (let tile = 0; tile < out.length; tile += type.tileBytes)
    out.fill(
      isSmall(type) ? (type.minBytes ? 0 : 0x55) : eight ? zero : zero * 17,
      tile + weightsAt,
      tile + type.tileBytes,
    );
  for (let row = 0; row < rows; row++) {
    const r = row & 7;
    for (let first = 0; first < cols; first += type.block) {
      const tile = ((row >> 3) * perRow + Math.floor(first / type.step)) * type.tileBytes;
      const block = (first % type.step) / type.block;
      const count = Math.min(type.block, cols - first);
      const { scale, min } = quantizeBlock(type, src, row * cols + first, count, q);
      putScale(view, tile + (block * 8 + r) * type.scaleBytes, scale, type.scaleBytes);
      putScale(view, tile + minsAt + (block * 8 + r) * type.minBytes, min, type.minBytes);
      if (isSmall(type)) q.forEach((level, k) => putSmall(type, out, tile + weightsAt + 4 * r, 32, k, level));
      for (let i = 0; i < count && !isSmall(type); i++) {
        const k = block * type.block + i;
        const at = tile + weightsAt + tileByte(k, r, eight);
        if (eight) out[at] = q[i] + zero;
        else if (k & 16) out[at] = (out[at] & 0x0f) | ((q[i] + zero) << 4);
        else out[at] = (out[at] & 0xf0) | (q[i] + zero);
      }
    }
  }
  return out;
}

/**
 * Encodes a matrix row by row.
 * @param {import('../../js/format/bq4/weight-types.js').WeightType} type
 * @param {Float32Array} src
 * @param {number} rows
 * @param {number} cols
 */
function toRows(type, src, rows, cols) {
  const { eight } = tileShape(type);
  const scalesAt = type.blockBytes - type.scaleBytes - type.minBytes;
  const out = new Uint8Array(rows * Math.ceil(cols / type.block) * type.blockBytes);
  const view = new DataView(out.buffer);
  const q = new Int8Array(type.block);
  let at = 0;
  for (let row = 0; row < rows; row++) {
    for (let first = 0; first < cols; first += type.block, at += type.blockBytes) {
      const { scale, min } = quantizeBlock(type, src, row * cols + first, Math.min(type.block, cols - first), q);
      if (isSmall(type)) q.forEach((level, k) => putSmall(type, out, at, 4, k, level));
      else if (eight) out.set(new Uint8Array(q.buffer), at);
      else for (let i = 0; i < type.block / 2; i++) out[at + i] = (q[2 * i] & 15) | ((q[2 * i + 1] & 15) << 4);
      putScale(view, at + scalesAt, scale, type.scaleBytes);
      putScale(view, at + scalesAt + type.scaleBytes, min, type.minBytes);
    }
  }
  return out;
}

/**
 * Encodes f32, f16 or bf16.
 * @param {import('../../js/format/bq4/weight-types.js').WeightType} type
 * @param {Float32Array} src
 */
function toFloats(type, src) {
  const out = new Uint8Array(src.length * type.blockBytes);
  const view = new DataView(out.buffer);
  const narrow = type.name === 'f16' ? f16FromNumber : bf16FromNumber;
  const infinite = type.name === 'f16' ? 0x7c00 : 0x7f80;
  for (let i = 0; i < src.length; i++) {
    if (!(abs(src[i]) < Infinity)) refuse(type, i, src[i]);
    if (type.name === 'f32') {
      view.setFloat32(4 * i, src[i], true);
      continue;
    }
    const bits = narrow(src[i]);
    if ((bits & 0x7fff) === infinite) refuse(type, i, src[i]);
    view.setUint16(2 * i, bits, true);
  }
  return out;
}

/**
 * Encodes f32 weights [rows][cols] in a type and layout. For FLAT, rows · cols is a multiple of the block.
 * Throws FORMAT if a weight is not finite or too large for the type (details.index).
 * @param {number} typeId
 * @param {number} layout
 * @param {Float32Array} src
 * @param {number} rows
 * @param {number} cols
 * @returns {Uint8Array}
 */
export function quantize(typeId, layout, src, rows, cols) {
  const type = TYPES[typeId];
  if (type.block === 1) return toFloats(type, src);
  if (layout === TILED) return toTiles(type, src, rows, cols);
  return layout === FLAT ? toRows(type, src, 1, rows * cols) : toRows(type, src, rows, cols);
}

/**
 * Decodes weights to f32 [rows][cols]. Throws FORMAT if a scale is not finite.
 * @param {number} typeId
 * @param {number} layout
 * @param {Uint8Array} bytes
 * @param {number} rows
 * @param {number} cols
 * @returns {Float32Array}
 */
export function dequantize(typeId, layout, bytes, rows, cols) {
  const type = TYPES[typeId];
  const out = new Float32Array(rows * cols);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (type.block === 1) {
    const get =
      type.name === 'f32'
        ? (/** @type {number} */ i) => view.getFloat32(4 * i, true)
        : type.name === 'f16'
          ? (/** @type {number} */ i) => f16ToNumber(view.getUint16(2 * i, true))
          : (/** @type {number} */ i) => bf16ToNumber(view.getUint16(2 * i, true));
    for (let i = 0; i < out.length; i++) out[i] = get(i);
    return out;
  }
  if (layout === FLAT) return dequantize(typeId, 0, bytes, 1, rows * cols);
  const { minsAt, weightsAt, zero, eight } = tileShape(type);
  const { scaleBytes, minBytes } = type;
  const tiled = layout === TILED;
  const perRow = Math.ceil(cols / (tiled ? type.step : type.block));
  for (let row = 0, o = 0; row < rows; row++) {
    for (let col = 0; col < cols; col++, o++) {
      const k = col % (tiled ? type.step : type.block);
      const unit =
        ((tiled ? row >> 3 : row) * perRow + Math.floor(col / (tiled ? type.step : type.block))) *
        (tiled ? type.tileBytes : type.blockBytes);
      const at = Math.floor(k / type.block) * 8 + (row & 7);
      const scale = getScale(
        view,
        unit + (tiled ? at * scaleBytes : type.blockBytes - minBytes - scaleBytes),
        scaleBytes,
        type.name,
      );
      const min = getScale(
        view,
        unit + (tiled ? minsAt + at * minBytes : type.blockBytes - minBytes),
        minBytes,
        type.name,
      );
      const byte = bytes[unit + (tiled ? weightsAt + tileByte(k, row & 7, eight) : eight ? k : k >> 1)];
      const nibble = (tiled ? k & 16 : k & 1) ? byte >> 4 : byte & 15;
      const signed = eight ? (byte << 24) >> 24 : minBytes ? nibble : (nibble << 28) >> 28;
      const small = () =>
        tiled ? getSmall(type, bytes, unit + weightsAt + 4 * (row & 7), 32, k) : getSmall(type, bytes, unit, 4, k);
      const x = fround((isSmall(type) ? small() : tiled ? (eight ? byte : nibble) - zero : signed) * scale);
      out[o] = minBytes ? x + min : x;
    }
  }
  return out;
}
