/**
 * Code that the reader and the writer of .bullet files share (docs/FORMAT.md, ".bullet"): hashes of names, encoding of
 * blocks.
 */
import { BqError } from '../../shared/errors.js';
import { f16FromNumber, f16ToNumber } from '../bq4/half.js';

/** Number of weights in a block. */
export const BLOCK = 32;
/** Size of a block in bytes: f16 scale, i8 zero point, a byte of padding, 32 nibbles. */
export const BLOCK_BYTES = 20;
/** Alignment of the tokenizer in bytes. */
export const PAGE = 4096;
/** Alignment of the tensors' data in bytes. */
export const ALIGN = 32;
/** Limit of the JSON header in bytes. */
export const MAX_JSON = 1 << 20;
/** Limit of the tokenizer in bytes. */
export const MAX_TOKENIZER = 256 << 20;

/** Returns the size in bytes of a tensor's blocks. @param {readonly number[]} dims */
export const blocksBytes = (dims) => Math.ceil(dims.reduce((a, b) => a * b, 1) / BLOCK) * BLOCK_BYTES;

/** Returns the 64-bit FNV-1a hash of a name. @param {string} name */
export function nameHash(name) {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(name)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  return hash;
}

const { fround, trunc, abs, sign, max, min } = Math;

/** Rounds to the nearest integer, and halves away from zero, like C's roundf. @param {number} x  an f32 */
function roundAway(x) {
  const integer = trunc(x);
  return abs(x - integer) >= 0.5 ? integer + sign(x) : integer;
}

/**
 * Encodes f32 weights; the last block is padded with zeros. Throws FORMAT for a weight that is not finite or too large
 * for an f16 scale (details.index: index of the weight).
 * @param {Float32Array} weights
 */
export function encodeBlocks(weights) {
  const bytes = new Uint8Array(blocksBytes([weights.length]));
  const view = new DataView(bytes.buffer);
  const padded = new Float32Array(BLOCK);
  for (let first = 0, at = 0; first < weights.length; first += BLOCK, at += BLOCK_BYTES) {
    padded.fill(0).set(weights.subarray(first, first + BLOCK));
    const maxAbs = padded.reduce((m, w) => max(m, abs(w)), 0);
    const bits = f16FromNumber(maxAbs && max(fround(maxAbs / 7), 2 ** -24));
    const scale = f16ToNumber(bits);
    if (!Number.isFinite(scale)) {
      const notFinite = padded.findIndex((w) => !Number.isFinite(w));
      const index = first + (notFinite < 0 ? padded.findIndex((w) => abs(w) === maxAbs) : notFinite);
      throw new BqError('FORMAT', `weight ${index} is ${weights[index]}`, { details: { index } });
    }
    if (scale === 0) continue;
    const zero = roundAway(fround(padded.reduce((sum, w) => fround(sum + fround(w / scale)), 0) / BLOCK));
    const nibble = (/** @type {number} */ w) => min(max(roundAway(fround(w / scale)) - zero, -8), 7) & 15;
    view.setUint16(at, bits, true);
    view.setInt8(at + 2, zero);
    for (let i = 0; i < BLOCK / 2; i++) bytes[at + 4 + i] = nibble(padded[2 * i]) | (nibble(padded[2 * i + 1]) << 4);
  }
  return bytes;
}

/**
 * Decodes complete blocks. Throws FORMAT for a scale that is not finite (details.index: index of the block).
 * @param {Uint8Array} bytes
 */
export function decodeBlocks(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const weights = new Float32Array((bytes.length / BLOCK_BYTES) * BLOCK);
  for (let at = 0, first = 0; at < bytes.length; at += BLOCK_BYTES, first += BLOCK) {
    const scale = f16ToNumber(view.getUint16(at, true));
    if (!Number.isFinite(scale))
      throw new BqError('FORMAT', `the scale of block ${at / BLOCK_BYTES} is ${scale}`, {
        details: { index: at / BLOCK_BYTES },
      });
    const zero = view.getInt8(at + 2);
    for (let i = 0; i < BLOCK / 2; i++) {
      const pair = bytes[at + 4 + i];
      weights[first + 2 * i] = (((pair << 28) >> 28) + zero) * scale;
      weights[first + 2 * i + 1] = (((pair << 24) >> 28) + zero) * scale;
    }
  }
  return weights;
}
