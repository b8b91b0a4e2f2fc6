/**
 * Converts blocks of the GGUF types that the engine has no type of their own for. Each becomes blocks of a compute type with the same
 * values (docs/MODELS.md, "Types of GGUF"): a magnitude of a codebook and its sign become a 4-bit code (c/core/codes.h), ternary and
 * binary weights become 2 bits. Loaded when a file has such a type.
 */
import { BqError } from '../../shared/errors.js';
import { unpackCodebook } from './codebooks.js';

/** @import { CodebookName } from './codebooks.js' */

/** Weights of a block, and bytes of a block with codes (`bqc…k_16`): nibbles, factors of 16 weights each, f16 scale. */
const [BLOCK, CODES_BYTES] = [256, 146];
/** Where the factors and the scale of such a block begin. */
const [FACTORS, SCALE] = [128, 144];
/** The bit of a code that negates its weight. */
const NEGATIVE = 8;

/** @type {Map<CodebookName, Uint8Array>} */
const unpacked = new Map();
/** @param {CodebookName} name */
function codebook(name) {
  let rows = unpacked.get(name);
  if (!rows) unpacked.set(name, (rows = unpackCodebook(name, name.startsWith('iq3') ? 3 : 2)));
  return rows;
}

/** 128 combinations of 8 signs with an even number of negative ones: the seven lower bits of each, and the eighth that follows. */
const EVEN_SIGNS = Uint8Array.from({ length: 128 }, (_, bits) => {
  let parity = bits;
  for (const shift of [4, 2, 1]) parity ^= parity >> shift;
  return bits | ((parity & 1) << 7);
});

/** Writes a nibble for weight k of a block: in each 16 bytes, weight i is in the low nibble of byte i, weight 16 + i in the high one. @param {Uint8Array} block @param {number} k @param {number} code */
function putCode(block, k, code) {
  block[(k >> 5) * 16 + (k & 15)] |= code << (k & 16 ? 4 : 0);
}

/**
 * A converter to blocks with codes.
 * @param {number} blockBytes  of a stored block
 * @param {(from: Uint8Array, to: Uint8Array) => void} convertBlock  fills in a block of zeros
 */
const toCodes = (blockBytes, convertBlock) => (/** @type {Uint8Array} */ blocks) => {
  const out = new Uint8Array((blocks.length / blockBytes) * CODES_BYTES);
  for (let at = 0, to = 0; at < blocks.length; at += blockBytes, to += CODES_BYTES)
    convertBlock(blocks.subarray(at, at + blockBytes), out.subarray(to, to + CODES_BYTES));
  return out;
};

/** Writes the weights of a row of a codebook, from weight k on. @param {Uint8Array} to @param {number} k @param {Uint8Array} book @param {number} row @param {number} length  of a row @param {number} signs  bits */
function putRow(to, k, book, row, length, signs) {
  for (let i = 0; i < length; i++) putCode(to, k + i, book[length * row + i] | ((signs >> i) & 1 ? NEGATIVE : 0));
}

/** @param {Uint8Array} to @param {number} place  of 16 weights @param {number} factor */
const putFactor = (to, place, factor) => (to[FACTORS + place] = 2 * factor + 1);
/** @param {Uint8Array} from @param {number} at */
const u16 = (from, at) => from[at] | (from[at + 1] << 8);
/** @param {Uint8Array} from @param {number} at */
const u32 = (from, at) => (u16(from, at) | (u16(from, at + 2) << 16)) >>> 0;

/** The 28 bits of signs and the 4-bit factor of 32 weights, in the 4 bytes at `at`: writes the factor; returns the signs of 8 weights each. @param {Uint8Array} from @param {number} at @param {Uint8Array} to @param {number} run */
function signsAndFactor(from, at, to, run) {
  const word = u32(from, at);
  putFactor(to, 2 * run, word >>> 28);
  putFactor(to, 2 * run + 1, word >>> 28);
  return [0, 7, 14, 21].map((shift) => EVEN_SIGNS[(word >>> shift) & 127]);
}

/** f16 scale; for each 32 weights 4 rows of 8, then their signs and factor. @param {Uint8Array} from @param {Uint8Array} to */
function convertIq2Xxs(from, to) {
  const book = codebook('iq2_xxs');
  for (let run = 0; run < 8; run++) {
    const signs = signsAndFactor(from, 6 + 8 * run, to, run);
    for (let i = 0; i < 4; i++) putRow(to, 32 * run + 8 * i, book, from[2 + 8 * run + i], 8, signs[i]);
  }
  to.set(from.subarray(0, 2), SCALE);
}

/** f16 scale, 32 u16 of a row (9 bits) and signs (7 bits), 16 factors of 4 bits. @param {Uint8Array} from @param {Uint8Array} to */
function convertIq2Xs(from, to) {
  const book = codebook('iq2_xs');
  for (let i = 0; i < 32; i++) {
    const word = u16(from, 2 + 2 * i);
    putRow(to, 8 * i, book, word & 511, 8, EVEN_SIGNS[word >> 9]);
  }
  for (let i = 0; i < 16; i++) putFactor(to, i, (from[66 + (i >> 1)] >> (4 * (i & 1))) & 15);
  to.set(from.subarray(0, 2), SCALE);
}

/** f16 scale, 32 rows' lower 8 bits, 32 bytes of signs, the rows' upper 2 bits, 16 factors of 4 bits. @param {Uint8Array} from @param {Uint8Array} to */
function convertIq2S(from, to) {
  const book = codebook('iq2_s');
  for (let i = 0; i < 32; i++) {
    const upper = (from[66 + (i >> 2)] >> (2 * (i & 3))) & 3;
    putRow(to, 8 * i, book, from[2 + i] | (upper << 8), 8, from[34 + i]);
  }
  for (let i = 0; i < 16; i++) putFactor(to, i, (from[74 + (i >> 1)] >> (4 * (i & 1))) & 15);
  to.set(from.subarray(0, 2), SCALE);
}

/** f16 scale, 64 rows of 4, for each 32 weights signs and a factor. @param {Uint8Array} from @param {Uint8Array} to */
function convertIq3Xxs(from, to) {
  const book = codebook('iq3_xxs');
  for (let run = 0; run < 8; run++) {
    const signs = signsAndFactor(from, 66 + 4 * run, to, run);
    for (let i = 0; i < 8; i++)
      putRow(to, 32 * run + 4 * i, book, from[2 + 8 * run + i], 4, signs[i >> 1] >> (4 * (i & 1)));
  }
  to.set(from.subarray(0, 2), SCALE);
}

/** f16 scale, 64 rows' lower 8 bits, their ninth bits, 32 bytes of signs, 8 factors of 4 bits. @param {Uint8Array} from @param {Uint8Array} to */
function convertIq3S(from, to) {
  const book = codebook('iq3_s');
  for (let i = 0; i < 64; i++) {
    const ninth = (from[66 + (i >> 3)] >> (i & 7)) & 1;
    putRow(to, 4 * i, book, from[2 + i] | (ninth << 8), 4, from[74 + (i >> 1)] >> (4 * (i & 1)));
  }
  for (let i = 0; i < 16; i++) putFactor(to, i, (from[106 + (i >> 2)] >> (4 * ((i >> 1) & 1))) & 15);
  to.set(from.subarray(0, 2), SCALE);
}

/** Codes of 8 g + 1 for g = -1, 0 and 1: their places in the table; negated they are those of 8 g - 1, backwards. */
const PLUS_AN_EIGHTH = [4 | NEGATIVE, 3, 5];

/** Writes 8 weights of -1, 0 or 1, plus or minus an eighth. @param {Uint8Array} to @param {number} k @param {number} row @param {number} minus  not 0: minus */
function putIq1Row(to, k, row, minus) {
  const book = codebook('iq1');
  for (let i = 0; i < 8; i++) {
    const place = book[8 * row + i];
    putCode(to, k + i, minus ? PLUS_AN_EIGHTH[2 - place] ^ NEGATIVE : PLUS_AN_EIGHTH[place]);
  }
}

/** f16 scale, 32 rows' lower 8 bits; for each 32 weights a u16: four times 3 upper bits of a row, a factor of 3 bits, the eighth's sign. @param {Uint8Array} from @param {Uint8Array} to */
function convertIq1S(from, to) {
  for (let run = 0; run < 8; run++) {
    const word = u16(from, 34 + 2 * run);
    for (let i = 0; i < 4; i++)
      putIq1Row(to, 32 * run + 8 * i, from[2 + 4 * run + i] | (((word >> (3 * i)) & 7) << 8), word & 0x8000);
    putFactor(to, 2 * run, (word >> 12) & 7);
    putFactor(to, 2 * run + 1, (word >> 12) & 7);
  }
  to.set(from.subarray(0, 2), SCALE);
}

/** 32 rows' lower 8 bits; for each a nibble: 3 upper bits and the eighth's sign; four u16, each with four factors of 3 bits and, in its upper 4 bits, a part of the f16 scale. @param {Uint8Array} from @param {Uint8Array} to */
function convertIq1M(from, to) {
  for (let i = 0; i < 32; i++) {
    const nibble = from[32 + (i >> 1)] >> (4 * (i & 1));
    putIq1Row(to, 8 * i, from[i] | ((nibble & 7) << 8), nibble & 8);
  }
  for (let i = 0; i < 16; i++) putFactor(to, i, (u16(from, 48 + 2 * (i >> 2)) >> (3 * (i & 3))) & 7);
  to[SCALE] = (from[49] >> 4) | (from[51] & 0xf0);
  to[SCALE + 1] = (from[53] >> 4) | (from[55] & 0xf0);
}

/** Bytes of a block of 64 weights of 2 bits (`bqt_64`, `bq2_64`): weights, f16 scale. */
const TWO_BITS_BYTES = 18;

/**
 * A converter to blocks of 64 weights of 2 bits.
 * @param {number} blockBytes  of a stored block @param {number} weights  of one @param {number} scale  where its f16 scale is
 * @param {(from: Uint8Array, k: number) => number} bitsOf  what is stored for weight k (c/core/tile.h)
 */
const toTwoBits = (blockBytes, weights, scale, bitsOf) => (/** @type {Uint8Array} */ blocks) => {
  const out = new Uint8Array((blocks.length / blockBytes) * (weights / 64) * TWO_BITS_BYTES);
  for (let at = 0, to = 0; at < blocks.length; at += blockBytes) {
    const from = blocks.subarray(at, at + blockBytes);
    for (let first = 0; first < weights; first += 64, to += TWO_BITS_BYTES) {
      // Each 32 weights take 8 bytes. Weight 4 j + i is in byte i of the first four (j = 0, 4, 1, 5 from the lowest bits on) or of
      // the others (j = 2, 6, 3, 7).
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

/** TQ1_0: digits of base 3, five or four in a byte, as fractions of 256: 32 bytes of five, whose digits are 32 weights apart, 16 bytes of five, 16 apart, 4 of four, 4 apart. @param {Uint8Array} from @param {number} k */
function digitOfTq1(from, k) {
  const [at, digit] =
    k < 160 ? [k & 31, k >> 5] : k < 240 ? [32 + (k & 15), (k - 160) >> 4] : [48 + (k & 3), (k - 240) >> 2];
  return (((from[at] * 3 ** digit) & 255) * 3) >> 8;
}

/** TQ2_0: in each half of 128 weights, 32 bytes whose bits 2 j are weights 32 j, 32 j + 1, …. @param {Uint8Array} from @param {number} k */
const bitsOfTq2 = (from, k) => (from[(k >> 7) * 32 + (k & 31)] >> (2 * ((k >> 5) & 3))) & 3;

/** Weights and bytes of a block of 4-bit floats (`bqf4_16`): nibbles, in pairs, then an f16 scale. */
const [FLOATS, FLOATS_BYTES] = [16, 10];
/** Exponents e for which 2^(e - 128) is an f16, of which those up to LAST_SUBNORMAL are subnormal. */
const [FIRST_EXPONENT, LAST_SUBNORMAL, LAST_EXPONENT] = [104, 113, 143];

/** Writes 16 nibbles and a scale (the bits of an f16). @param {Uint8Array} to @param {(i: number) => number} nibble @param {number} scale */
function putFloats(to, nibble, scale) {
  for (let i = 0; i < FLOATS; i++) to[i >> 1] |= nibble(i) << (4 * (i & 1));
  to[8] = scale & 255;
  to[9] = scale >> 8;
}

/** MXFP4: an exponent of 2, 16 bytes whose byte i has weight i in the low nibble and weight 16 + i in the high one. Throws FORMAT. @param {Uint8Array} blocks */
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

/** The bits of an f16 with half of the value of an unsigned E4M3 float; its two codes for NaN and no scale are 0. @param {number} scale */
function halfOfE4m3(scale) {
  const [exponent, fraction] = [(scale >> 3) & 15, scale & 7];
  if (!scale || scale === 0x7f) return 0;
  if (exponent) return ((exponent + 7) << 10) | (fraction << 7);
  // A fraction of 2^-9, halved: normal as an f16.
  if (!fraction) return 0;
  const top = 31 - Math.clz32(fraction);
  return ((top + 5) << 10) | ((fraction - (1 << top)) << (10 - top));
}

/** NVFP4: four E4M3 scales of 16 weights each, then 8 bytes for each, whose byte i has weight i in the low nibble and weight 8 + i in the high one. @param {Uint8Array} blocks */
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

/** By the type's name: converts whole blocks; an error has the offset in the result. @type {Record<string, (blocks: Uint8Array) => Uint8Array>} */
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
