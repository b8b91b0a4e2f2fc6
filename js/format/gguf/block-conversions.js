/**
 * Converts blocks of the GGUF types for which the engine has no type of its own. Each block becomes one or several
 * blocks of a compute type with the same values (docs/MODELS.md, "Types of GGUF"). A magnitude of a codebook and its
 * sign become a 4-bit code (c/core/codes.h). Ternary and binary weights become 2 bits. Imported only when a file has
 * such a type.
 */
import { BqError } from '../../shared/errors.js';
import { unpackCodebook } from './codebooks.js';

/** @import { CodebookName } from './codebooks.js' */

/**
 * Number of weights in a block, and size in bytes of a block with codes (`bqc…k_16`): 128 bytes of nibbles, 16
 * sub-block scales of 16 weights each, an f16 super-block scale.
 */
const [BLOCK, CODES_BYTES] = [256, 146];
/** Byte offsets of the sub-block scales and of the super-block scale in such a block. */
const [SUB_SCALES, SCALE] = [128, 144];
/** Bit of a code that negates its weight. */
const NEGATIVE = 8;

/** @type {Map<CodebookName, Uint8Array>} */
const unpacked = new Map();
/** @param {CodebookName} name */
function codebook(name) {
  let rows = unpacked.get(name);
  if (!rows) unpacked.set(name, (rows = unpackCodebook(name, name.startsWith('iq3') ? 3 : 2)));
  return rows;
}

/**
 * The 128 combinations of 8 signs with an even number of negative ones: the index is the lower seven bits, which
 * determine the eighth.
 */
const EVEN_SIGNS = Uint8Array.from({ length: 128 }, (_, bits) => {
  let parity = bits;
  for (const shift of [4, 2, 1]) parity ^= parity >> shift;
  return bits | ((parity & 1) << 7);
});

/**
 * Writes the nibble of weight k of a block. Each 16 bytes hold 32 weights: weight i in the low nibble of byte i, weight
 * 16 + i in the high one.
 * @param {Uint8Array} block @param {number} k @param {number} code
 */
function putCode(block, k, code) {
  block[(k >> 5) * 16 + (k & 15)] |= code << (k & 16 ? 4 : 0);
}

/**
 * Returns a function that converts stored blocks to blocks with codes.
 * @param {number} blockBytes  bytes of a stored block
 * @param {(from: Uint8Array, to: Uint8Array) => void} convertBlock  writes one block; `to` is all zeros
 */
const toCodes = (blockBytes, convertBlock) => (/** @type {Uint8Array} */ blocks) => {
  const out = new Uint8Array((blocks.length / blockBytes) * CODES_BYTES);
  for (let at = 0, to = 0; at < blocks.length; at += blockBytes, to += CODES_BYTES)
    convertBlock(blocks.subarray(at, at + blockBytes), out.subarray(to, to + CODES_BYTES));
  return out;
};

/**
 * Writes the weights of a row of a codebook, starting at weight k.
 * @param {Uint8Array} to @param {number} k @param {Uint8Array} book @param {number} row
 * @param {number} length  weights of a row
 * @param {number} signs  one bit for each weight; 1 is negative
 */
function putRow(to, k, book, row, length, signs) {
  for (let i = 0; i < length; i++) putCode(to, k + i, book[length * row + i] | ((signs >> i) & 1 ? NEGATIVE : 0));
}

/** @param {Uint8Array} to @param {number} i  index of the sub-block of 16 weights @param {number} scale */
const putSubScale = (to, i, scale) => (to[SUB_SCALES + i] = 2 * scale + 1);
/** @param {Uint8Array} from @param {number} at */
const u16 = (from, at) => from[at] | (from[at + 1] << 8);
/** @param {Uint8Array} from @param {number} at */
const u32 = (from, at) => (u16(from, at) | (u16(from, at + 2) << 16)) >>> 0;

/**
 * Reads the 4 bytes at `at`: 28 bits of signs and a 4-bit scale, of 32 weights. Writes the scale to `to` and returns
 * four numbers with the signs of 8 weights each.
 * @param {Uint8Array} from @param {number} at @param {Uint8Array} to
 * @param {number} run  index of the 32 weights in the block
 */
function convertSignsAndScale(from, at, to, run) {
  const word = u32(from, at);
  putSubScale(to, 2 * run, word >>> 28);
  putSubScale(to, 2 * run + 1, word >>> 28);
  return [0, 7, 14, 21].map((shift) => EVEN_SIGNS[(word >>> shift) & 127]);
}

/**
 * Stored block: f16 scale; then for each 32 weights the 8-bit numbers of 4 codebook rows (8 weights each), their signs
 * and their scale.
 * @param {Uint8Array} from @param {Uint8Array} to
 */
function convertIq2Xxs(from, to) {
  const book = codebook('iq2_xxs');
  for (let run = 0; run < 8; run++) {
    const signs = convertSignsAndScale(from, 6 + 8 * run, to, run);
    for (let i = 0; i < 4; i++) putRow(to, 32 * run + 8 * i, book, from[2 + 8 * run + i], 8, signs[i]);
  }
  to.set(from.subarray(0, 2), SCALE);
}

/**
 * Stored block: f16 scale; 32 u16, each a codebook row (9 bits) and its signs (7 bits); 16 sub-block scales of 4 bits.
 * @param {Uint8Array} from @param {Uint8Array} to
 */
function convertIq2Xs(from, to) {
  const book = codebook('iq2_xs');
  for (let i = 0; i < 32; i++) {
    const word = u16(from, 2 + 2 * i);
    putRow(to, 8 * i, book, word & 511, 8, EVEN_SIGNS[word >> 9]);
  }
  for (let i = 0; i < 16; i++) putSubScale(to, i, (from[66 + (i >> 1)] >> (4 * (i & 1))) & 15);
  to.set(from.subarray(0, 2), SCALE);
}

/**
 * Stored block: f16 scale; lower 8 bits of 32 codebook rows; 32 bytes of signs; upper 2 bits of the rows; 16 sub-block
 * scales of 4 bits.
 * @param {Uint8Array} from @param {Uint8Array} to
 */
function convertIq2S(from, to) {
  const book = codebook('iq2_s');
  for (let i = 0; i < 32; i++) {
    const upper = (from[66 + (i >> 2)] >> (2 * (i & 3))) & 3;
    putRow(to, 8 * i, book, from[2 + i] | (upper << 8), 8, from[34 + i]);
  }
  for (let i = 0; i < 16; i++) putSubScale(to, i, (from[74 + (i >> 1)] >> (4 * (i & 1))) & 15);
  to.set(from.subarray(0, 2), SCALE);
}

/**
 * Stored block: f16 scale; the 8-bit numbers of 64 codebook rows (4 weights each); signs and a scale for each 32
 * weights.
 * @param {Uint8Array} from @param {Uint8Array} to
 */
function convertIq3Xxs(from, to) {
  const book = codebook('iq3_xxs');
  for (let run = 0; run < 8; run++) {
    const signs = convertSignsAndScale(from, 66 + 4 * run, to, run);
    for (let i = 0; i < 8; i++)
      putRow(to, 32 * run + 4 * i, book, from[2 + 8 * run + i], 4, signs[i >> 1] >> (4 * (i & 1)));
  }
  to.set(from.subarray(0, 2), SCALE);
}

/**
 * Stored block: f16 scale; lower 8 bits of 64 codebook rows; the ninth bits of the rows; 32 bytes of signs; 8 scales of
 * 4 bits, each for 32 weights.
 * @param {Uint8Array} from @param {Uint8Array} to
 */
function convertIq3S(from, to) {
  const book = codebook('iq3_s');
  for (let i = 0; i < 64; i++) {
    const ninth = (from[66 + (i >> 3)] >> (i & 7)) & 1;
    putRow(to, 4 * i, book, from[2 + i] | (ninth << 8), 4, from[74 + (i >> 1)] >> (4 * (i & 1)));
  }
  for (let i = 0; i < 16; i++) putSubScale(to, i, (from[106 + (i >> 2)] >> (4 * ((i >> 1) & 1))) & 15);
  to.set(from.subarray(0, 2), SCALE);
}

/**
 * Codes of the values 8 g + 1 for g = -1, 0 and 1. The codes of 8 g - 1 are the same codes negated, in reverse order.
 */
const PLUS_AN_EIGHTH = [4 | NEGATIVE, 3, 5];

/**
 * Writes 8 weights of -1, 0 or 1, plus or minus an eighth.
 * @param {Uint8Array} to @param {number} k @param {number} row
 * @param {number} minus  0: plus an eighth; any other number: minus an eighth
 */
function putIq1Row(to, k, row, minus) {
  const book = codebook('iq1');
  for (let i = 0; i < 8; i++) {
    const index = book[8 * row + i];
    putCode(to, k + i, minus ? PLUS_AN_EIGHTH[2 - index] ^ NEGATIVE : PLUS_AN_EIGHTH[index]);
  }
}

/**
 * Stored block: f16 scale; lower 8 bits of 32 codebook rows; a u16 for each 32 weights. From the lowest bit on, the u16
 * has the upper 3 bits of four rows, a scale of 3 bits and the sign of the eighth.
 * @param {Uint8Array} from @param {Uint8Array} to
 */
function convertIq1S(from, to) {
  for (let run = 0; run < 8; run++) {
    const word = u16(from, 34 + 2 * run);
    for (let i = 0; i < 4; i++)
      putIq1Row(to, 32 * run + 8 * i, from[2 + 4 * run + i] | (((word >> (3 * i)) & 7) << 8), word & 0x8000);
    putSubScale(to, 2 * run, (word >> 12) & 7);
    putSubScale(to, 2 * run + 1, (word >> 12) & 7);
  }
  to.set(from.subarray(0, 2), SCALE);
}

/**
 * Stored block: lower 8 bits of 32 codebook rows; a nibble for each row, with its upper 3 bits and the sign of the
 * eighth; four u16. Each u16 has four sub-block scales of 3 bits and, in its upper 4 bits, a part of the f16 scale.
 * @param {Uint8Array} from @param {Uint8Array} to
 */
function convertIq1M(from, to) {
  for (let i = 0; i < 32; i++) {
    const nibble = from[32 + (i >> 1)] >> (4 * (i & 1));
    putIq1Row(to, 8 * i, from[i] | ((nibble & 7) << 8), nibble & 8);
  }
  for (let i = 0; i < 16; i++) putSubScale(to, i, (u16(from, 48 + 2 * (i >> 2)) >> (3 * (i & 3))) & 7);
  to[SCALE] = (from[49] >> 4) | (from[51] & 0xf0);
  to[SCALE + 1] = (from[53] >> 4) | (from[55] & 0xf0);
}

/** Size in bytes of a block of 64 weights of 2 bits (`bqt_64`, `bq2_64`): 16 bytes of weights, an f16 scale. */
const TWO_BITS_BYTES = 18;

/**
 * Returns a function that converts stored blocks to blocks of 64 weights of 2 bits.
 * @param {number} blockBytes  bytes of a stored block
 * @param {number} weights  weights of a stored block
 * @param {number} scale  byte offset of the f16 scale in a stored block
 * @param {(from: Uint8Array, k: number) => number} bitsOf  returns the 2 bits to store for weight k (c/core/tile.h)
 */
const toTwoBits = (blockBytes, weights, scale, bitsOf) => (/** @type {Uint8Array} */ blocks) => {
  const out = new Uint8Array((blocks.length / blockBytes) * (weights / 64) * TWO_BITS_BYTES);
  for (let at = 0, to = 0; at < blocks.length; at += blockBytes) {
    const from = blocks.subarray(at, at + blockBytes);
    for (let first = 0; first < weights; first += 64, to += TWO_BITS_BYTES) {
      // Each 32 weights take 8 bytes. Weight 4 j + i is in byte i for j = 0, 4, 1, 5 (in this order from the lowest
      // bits on), in byte 4 + i for j = 2, 6, 3, 7.
      for (let k = 0; k < 64; k++) {
        const j = (k & 15) >> 2;
        const shift = (j & 1) * 4 + ((k >> 4) & 1) * 2;
        out[to + (k >> 5) * 8 + (j >> 1) * 4 + (k & 3)] |= bitsOf(from, first + k) << shift;
      }
      out.set(from.subarray(scale, scale + 2), to + 16);
    }
  }
  return out;
};

/**
 * Returns the base-3 digit of weight k in a TQ1_0 block. A byte has five or four digits, as a fraction of 256: 32 bytes
 * with five digits each, which belong to weights 32 apart; 16 bytes with five digits, 16 apart; 4 bytes with four
 * digits, 4 apart.
 * @param {Uint8Array} from @param {number} k
 */
function digitOfTq1(from, k) {
  const [at, digit] =
    k < 160 ? [k & 31, k >> 5] : k < 240 ? [32 + (k & 15), (k - 160) >> 4] : [48 + (k & 3), (k - 240) >> 2];
  return (((from[at] * 3 ** digit) & 255) * 3) >> 8;
}

/**
 * Returns the 2 bits of weight k in a TQ2_0 block. Each half of 128 weights has 32 bytes: weight 32 j + i is in byte i,
 * from bit 2 j on.
 * @param {Uint8Array} from @param {number} k
 */
const bitsOfTq2 = (from, k) => (from[(k >> 7) * 32 + (k & 31)] >> (2 * ((k >> 5) & 3))) & 3;

/**
 * Number of weights and size in bytes of a block of 4-bit floats (`bqf4_16`): 8 bytes of two nibbles each, then an f16
 * scale.
 */
const [FLOATS, FLOATS_BYTES] = [16, 10];
/** Range of exponents e for which 2^(e - 128) is an f16. Up to LAST_SUBNORMAL the f16 is subnormal. */
const [FIRST_EXPONENT, LAST_SUBNORMAL, LAST_EXPONENT] = [104, 113, 143];

/**
 * Writes 16 nibbles and a scale (the bits of an f16).
 * @param {Uint8Array} to @param {(i: number) => number} nibble @param {number} scale
 */
function putFloats(to, nibble, scale) {
  for (let i = 0; i < FLOATS; i++) to[i >> 1] |= nibble(i) << (4 * (i & 1));
  to[8] = scale & 255;
  to[9] = scale >> 8;
}

/**
 * Converts MXFP4 blocks: a byte with an exponent of 2, then 16 bytes. Byte i has weight i in the low nibble and weight
 * 16 + i in the high one. Throws FORMAT.
 * @param {Uint8Array} blocks
 */
function convertMxfp4(blocks) {
  const out = new Uint8Array((blocks.length / 17) * 2 * FLOATS_BYTES);
  for (let at = 0, to = 0; at < blocks.length; at += 17, to += 2 * FLOATS_BYTES) {
    const exponent = blocks[at];
    const weights = blocks.subarray(at + 1, at + 17);
    const isZero = weights.every((pair) => !(pair & 0x77));
    if (!isZero && (exponent < FIRST_EXPONENT || exponent > LAST_EXPONENT))
      throw new BqError('FORMAT', `a scale of 2^${exponent - 128}; expected 2^-24 to 2^15`, {
        offset: (at / 17) * 2 * FLOATS_BYTES,
        hint: 'the engine keeps scales as f16; convert the model to Q8_0 or BF16 instead',
      });
    const bits = exponent <= LAST_SUBNORMAL ? 1 << (exponent - FIRST_EXPONENT) : (exponent - 113) << 10;
    for (const half of [0, 1])
      putFloats(
        out.subarray(to + half * FLOATS_BYTES, to + (half + 1) * FLOATS_BYTES),
        (i) => (weights[i] >> (4 * half)) & 15,
        isZero ? 0 : bits,
      );
  }
  return out;
}

/**
 * Returns the bits of an f16 with half of the value of an unsigned E4M3 float. For the codes 0 (no scale) and 0x7f
 * (NaN) it returns 0.
 * @param {number} scale
 */
function halfOfE4m3(scale) {
  const [exponent, fraction] = [(scale >> 3) & 15, scale & 7];
  if (!scale || scale === 0x7f) return 0;
  if (exponent) return ((exponent + 7) << 10) | (fraction << 7);
  // A subnormal E4M3 is a multiple of 2^-9. Half of it is a normal f16.
  if (!fraction) return 0;
  const top = 31 - Math.clz32(fraction);
  return ((top + 5) << 10) | ((fraction - (1 << top)) << (10 - top));
}

/**
 * Converts NVFP4 blocks: four E4M3 scales of 16 weights each, then 8 bytes for each scale. Byte i has weight i in the
 * low nibble and weight 8 + i in the high one.
 * @param {Uint8Array} blocks
 */
function convertNvfp4(blocks) {
  const out = new Uint8Array((blocks.length / 36) * 4 * FLOATS_BYTES);
  for (let at = 0, to = 0; at < blocks.length; at += 36)
    for (let part = 0; part < 4; part++, to += FLOATS_BYTES) {
      const weights = blocks.subarray(at + 4 + 8 * part, at + 12 + 8 * part);
      putFloats(
        out.subarray(to, to + FLOATS_BYTES),
        (i) => (weights[i & 7] >> (i & 8 ? 4 : 0)) & 15,
        halfOfE4m3(blocks[at + part]),
      );
    }
  return out;
}

/**
 * Functions that convert whole blocks, by the type's name. The offset of an error is relative to the result.
 * @type {Record<string, (blocks: Uint8Array) => Uint8Array>}
 */
export const CONVERTERS = {
  iq2_xxs: toCodes(66, convertIq2Xxs),
  iq2_xs: toCodes(74, convertIq2Xs),
  iq2_s: toCodes(82, convertIq2S),
  iq3_xxs: toCodes(98, convertIq3Xxs),
  iq3_s: toCodes(110, convertIq3S),
  iq1_s: toCodes(50, convertIq1S),
  iq1_m: toCodes(56, convertIq1M),
  tq1_0: toTwoBits(54, BLOCK, 52, digitOfTq1),
  tq2_0: toTwoBits(66, BLOCK, 64, bitsOfTq2),
  // 1 and 2 stand for -1 and 1 (c/core/tile.h: 2 q - 3).
  q1_0: toTwoBits(18, 128, 0, (from, k) => 1 + ((from[2 + (k >> 3)] >> (k & 7)) & 1)),
  q2_0: toTwoBits(18, 64, 0, (from, k) => (from[2 + (k >> 2)] >> (2 * (k & 3))) & 3),
  mxfp4: convertMxfp4,
  nvfp4: convertNvfp4,
};
