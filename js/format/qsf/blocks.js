/**
 * Encodes and decodes weights of QSF files (docs/FORMAT.md §6): blocks of 64 weights, each row of a matrix padded to
 * whole blocks. Codes are computed in f32 from the stored scale and minimum; tests/py/qsf_reference.py is an
 * independent implementation with the same bytes.
 */
import { BqError } from '../../shared/errors.js';
import { f16FromNumber, f16ToNumber } from '../bq4/half.js';
import { typeNamed } from '../bq4/weight-types.js';

/**
 * @typedef {object} Kind
 * @property {number} id          number in files
 * @property {string} name
 * @property {number} blockBytes  bytes of a block; 0 for f16, which has no blocks
 * @property {number} bits        bits per weight
 */

const BLOCK = 64;
const F16 = 0xfe;
const { fround } = Math;

/** @type {readonly Kind[]} */
const KINDS = [
  { id: 0, name: 'q2s', blockBytes: 20, bits: 2 },
  { id: 1, name: 'q2a', blockBytes: 20, bits: 2 },
  { id: 2, name: 'q3a', blockBytes: 28, bits: 3 },
  { id: 3, name: 'q4a', blockBytes: 36, bits: 4 },
  { id: 4, name: 'tern', blockBytes: 18, bits: 1 },
  { id: F16, name: 'f16', blockBytes: 0, bits: 16 },
];
const [SYMMETRIC, TERNARY] = [KINDS[0], KINDS[4]];
export const f16 = KINDS[5];

/** @param {number} id @returns {Kind | undefined} */
export const kindOf = (id) => KINDS.find((kind) => kind.id === id);

/**
 * Returns the kind with a name. Throws ARGUMENT.
 * @param {string} name  with or without the suffix _64, which the names of .bq4 types have @returns {Kind}
 */
export function kindNamed(name) {
  const kind = KINDS.find((k) => k.name === name || (k !== f16 && `${k.name}_64` === name));
  if (!kind)
    throw new BqError('ARGUMENT', `unknown type "${name}" of .qsf files`, {
      hint: `expected one of ${KINDS.map((k) => k.name).join(', ')}`,
    });
  return kind;
}

/** @param {Kind} kind @param {number} cols */
export const rowBytes = (kind, cols) => (kind === f16 ? 2 * cols : Math.ceil(cols / BLOCK) * kind.blockBytes);

/** Rounds halves up. @param {number} x  not negative */
const round = (x) => Math.floor(x + 0.5);

/**
 * Returns the code of weight i. Codes are packed from the lowest bit on.
 * @param {Uint8Array} bytes @param {number} at  offset of the codes
 * @param {number} i @param {number} bits  bits of a code
 */
function codeAt(bytes, at, i, bits) {
  const bit = i * bits;
  const low = at + (bit >> 3);
  return ((bytes[low] | (bytes[low + 1] << 8)) >> (bit & 7)) & ((1 << bits) - 1);
}

/** @param {Uint8Array} bytes @param {number} at @param {number} i @param {number} bits @param {number} code */
function setCode(bytes, at, i, bits, code) {
  const bit = i * bits;
  const low = at + (bit >> 3);
  const wide = code << (bit & 7);
  bytes[low] |= wide;
  if (wide > 255) bytes[low + 1] |= wide >> 8;
}

/**
 * Decodes the first `count` weights of a block; returns whether its scale and minimum are finite.
 * @param {Kind} kind @param {DataView} view @param {number} at @param {Float32Array} out @param {number} to
 * @param {number} count
 */
function decodeBlock(kind, view, at, out, to, count) {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  const scale = f16ToNumber(view.getUint16(at, true));
  if (kind === TERNARY) {
    for (let i = 0; i < count; i++)
      out[to + i] = codeAt(bytes, at + 10, i, 1) ? 0 : codeAt(bytes, at + 2, i, 1) ? -scale : scale;
    return Number.isFinite(scale);
  }
  const min = kind === SYMMETRIC ? -1.5 * scale : f16ToNumber(view.getUint16(at + 2, true));
  for (let i = 0; i < count; i++) out[to + i] = codeAt(bytes, at + 4, i, kind.bits) * scale + min;
  return Number.isFinite(scale) && Number.isFinite(min);
}

/**
 * Decodes rows to f32. Throws FORMAT for a scale, minimum or f16 weight that is not finite.
 * @param {Kind} kind @param {Uint8Array} bytes @param {number} rows @param {number} cols
 * @returns {Float32Array}
 */
export function decodeRows(kind, bytes, rows, cols) {
  const out = new Float32Array(rows * cols);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const bad = (/** @type {number} */ i) => new BqError('FORMAT', `the scale or value of weight ${i} is not finite`);
  if (kind === f16) {
    for (let i = 0; i < out.length; i++) out[i] = f16ToNumber(view.getUint16(2 * i, true));
    const notFinite = out.findIndex((w) => !Number.isFinite(w));
    if (notFinite >= 0) throw bad(notFinite);
    return out;
  }
  for (let row = 0, at = 0; row < rows; row++)
    for (let col = 0; col < cols; col += BLOCK, at += kind.blockBytes)
      if (!decodeBlock(kind, view, at, out, row * cols + col, Math.min(BLOCK, cols - col))) throw bad(row * cols + col);
  return out;
}

/** Types of .bq4 files that can represent the same values. @type {Record<string, string>} */
const BQ4_TYPES = { q2s: 'bq2_64', q2a: 'bq2a_64', q3a: 'bq3a_64', tern: 'bqt_64' };

/** Returns the .bq4 type to which blocks of a kind can be converted; undefined if there is none. @param {Kind} kind */
export const bq4TypeOf = ({ name }) => (Object.hasOwn(BQ4_TYPES, name) ? typeNamed(BQ4_TYPES[name]) : undefined);

/**
 * Returns the code of weight i for the .bq4 type.
 * @param {Kind} kind @param {Uint8Array} bytes @param {number} at @param {number} i
 */
function bq4CodeAt(kind, bytes, at, i) {
  if (kind !== TERNARY) return codeAt(bytes, at + 4, i, kind.bits);
  return codeAt(bytes, at + 10, i, 1) ? 1 : codeAt(bytes, at + 2, i, 1) ? 0 : 2;
}

/**
 * Converts blocks to the type that bq4TypeOf returns. For q2s the scale is halved, which may round scales below 2^-13.
 * @param {Kind} kind @param {Uint8Array} bytes
 */
export function toBq4Blocks(kind, bytes) {
  const { blockBytes } = /** @type {import('../bq4/weight-types.js').WeightType} */ (bq4TypeOf(kind));
  const weights = kind.bits === 3 ? 24 : 16;
  const out = new Uint8Array((bytes.length / kind.blockBytes) * blockBytes);
  for (let at = 0, to = 0; at < bytes.length; at += kind.blockBytes, to += blockBytes) {
    for (let k = 0; k < BLOCK; k++) {
      // The order of weights with 1 to 3 bits (docs/FORMAT.md): groups of 4 bytes; of 32 weights the last 16 are in the
      // higher bits.
      const [run, j, high] = [to + (k >> 5) * (weights / 2) + (k & 3), (k & 15) >> 2, (k >> 4) & 1];
      const code = bq4CodeAt(kind, bytes, at, k);
      if (kind.bits !== 3) out[run + 4 * (j >> 1)] |= code << (4 * (j & 1) + 2 * high);
      else if (j < 3) out[run + 4 * j] |= code << (3 * high);
      else {
        out[run + 4 * high] |= (code & 3) << 6;
        out[run + 8] |= (code >> 2) << (6 + high);
      }
    }
    const numbers = bytes.subarray(at, at + 4);
    if (kind === SYMMETRIC) {
      const half = f16FromNumber(f16ToNumber(numbers[0] | (numbers[1] << 8)) / 2);
      out.set([half & 255, half >> 8], to + weights);
    } else out.set(numbers.subarray(0, kind === TERNARY ? 2 : 4), to + weights);
  }
  return out;
}

/**
 * Returns the scale and the minimum as f16 bits; the minimum is 0 for kinds without one.
 * @param {Kind} kind @param {Float32Array} w
 */
function scaleOf(kind, w) {
  let [min, max, sum] = [Infinity, -Infinity, 0];
  for (const x of w) {
    min = Math.min(min, x);
    max = Math.max(max, x);
    sum += Math.abs(x);
  }
  if (kind === TERNARY) return { scale: f16FromNumber(sum / w.length), min: 0 };
  if (kind === SYMMETRIC) return { scale: f16FromNumber(Math.max(max, -min) / 1.5), min: 0 };
  return { scale: f16FromNumber(fround(max - min) / (2 ** kind.bits - 1)), min: f16FromNumber(min) };
}

/**
 * Returns the index of the nearest of the levels -1.5, -0.5, 0.5, 1.5.
 * @param {number} x  the weight divided by the scale
 */
const levelOf = (x) => (x < -1 ? 0 : x < 0 ? 1 : x < 1 ? 2 : 3);

/**
 * Encodes a block.
 * @param {Kind} kind @param {Float32Array} w  at most 64 weights
 * @param {Uint8Array} bytes  output; the bytes of the block must be 0
 * @param {number} at  offset of the block
 * @returns {boolean} false if the scale or the minimum exceeds the range of f16
 */
function encodeBlock(kind, w, bytes, at) {
  const stored = scaleOf(kind, w);
  const [scale, min] = [f16ToNumber(stored.scale), f16ToNumber(stored.min)];
  if (!Number.isFinite(scale) || !Number.isFinite(min)) return false;
  const put16 = (/** @type {number} */ where, /** @type {number} */ h) => bytes.set([h & 255, h >> 8], where);
  put16(at, stored.scale);
  if (kind === TERNARY) {
    const threshold = fround(fround(0.3) * scale);
    for (let i = 0; i < BLOCK; i++) {
      const isZero = i >= w.length || Math.abs(w[i]) < threshold;
      setCode(bytes, at + 10, i, 1, Number(isZero));
      setCode(bytes, at + 2, i, 1, Number(!isZero && w[i] < 0));
    }
    return true;
  }
  put16(at + 2, stored.min);
  const maxCode = 2 ** kind.bits - 1;
  const code = (/** @type {number} */ x) =>
    kind === SYMMETRIC
      ? levelOf(fround(x / scale))
      : Math.min(maxCode, round(Math.max(0, fround(fround(x - min) / scale))));
  // With a scale of 0 all codes stay 0.
  if (scale) w.forEach((x, i) => setCode(bytes, at + 4, i, kind.bits, code(x)));
  return true;
}

/**
 * Throws FORMAT for a weight that the kind cannot represent.
 * @param {string} name  name of the tensor @param {number} index @param {number} value @param {Kind} kind
 * @returns {never}
 */
function refuse(name, index, value, kind) {
  throw new BqError('FORMAT', `tensor "${name}", weight ${index} is ${value}: ${kind.name} can't represent it`, {
    hint: 'the checkpoint is damaged, or its weights are too large for f16',
    details: { tensor: name, index },
  });
}

/**
 * Encodes rows. Throws FORMAT for a weight that is not finite or too large.
 * @param {string} name @param {Kind} kind @param {Float32Array} values @param {number} rows @param {number} cols
 * @param {number} [first]  index of the first weight, for errors
 * @returns {Uint8Array}
 */
export function encodeRows(name, kind, values, rows, cols, first = 0) {
  const notFinite = values.findIndex((w) => !Number.isFinite(w));
  if (notFinite >= 0) refuse(name, first + notFinite, values[notFinite], kind);
  const bytes = new Uint8Array(rows * rowBytes(kind, cols));
  if (kind === f16) {
    const view = new DataView(bytes.buffer);
    values.forEach((w, i) => {
      const half = f16FromNumber(w);
      if ((half & 0x7c00) === 0x7c00) refuse(name, first + i, w, kind);
      view.setUint16(2 * i, half, true);
    });
    return bytes;
  }
  for (let row = 0, at = 0; row < rows; row++)
    for (let col = 0; col < cols; col += BLOCK, at += kind.blockBytes) {
      const from = row * cols + col;
      const block = values.subarray(from, from + Math.min(BLOCK, cols - col));
      if (!encodeBlock(kind, block, bytes, at))
        refuse(
          name,
          first + from,
          block.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a)),
          kind,
        );
    }
  return bytes;
}
