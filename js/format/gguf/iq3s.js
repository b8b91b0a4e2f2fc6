/** Blocks of IQ3_S as blocks of Q6_K: the same values, since both have an f16 of 256 weights, whole factors and whole weights. */
import { fromBase64 } from '../../text/tokenizers/bytes.js';

/** The format's 512 rows of four weights, of 3 bits each from the lowest on: 0 is 1, 1 is 3, … 7 is 15. */
const BOOK = fromBase64(
  [
    'ABAAAlAAB4AACaAADOAAEBABFbABICACJXACKbACMCADOcADPwAEQSAERIAESdAEUDAFV5AFXUAGcVAHegAIgVAIh4AIi+AIkVAJmMAJolAKp5',
    'AKq4ALuzAMydAM0CAN2bAN3kAO6KAO95AP/QAQC/EQEUERGgESI5ESOCEURAEVUmEVWxEWZXEWdrEXhpEYi5EZqpEbwCEcxAEd0mEd24Ee7AEg',
    'ASIgBIIgCbIgDfIgECIhGcIhHsIiLhIjOgIkQTIkRoIkTBIlWLIlYYImaoInfgIoitIojwIplKIpoDIqrQIruhIsxHIsyLIs0XIt2MIt4SIv+D',
    'IwBaMwDJMxGyMyJoMyLBM0SLM0UYM1WpM2kEM5l0M6phM8w4M8yhM93RM+8oM/ABRAA1RAB4RACsRADhRBE3RBGKRBITRCJYRCKnRDOLRDPQRE',
    'QoRES/REUlRFWcRFYpRGgURIhxRJk4RJnxRKq/RKucRLwCRMxZRM0kRN2bRN4oRO9hRQBwVRE6VRHRVSOtVTRJVUUvVVYLVWeAVYgnVYkdVasV',
    'VcyWVd2DVe6CVgCbZgDfZgEpZhG9ZhIkZiJ5ZiM5ZjQTZkRcZkUTZlYAZneuZngKZokKZpnIZqwYZszBZt03Zt2BZu43Zu7bZvA5dwDidxGady',
    'MEdzQYd0Sld1Wkd2brd3jhd6wTd80Cd93QeABKiAEEiBF6iBIYiCOCiER5iESyiFWNiFY5iGbRiIg4iIjRiJmwiKryiLuEiMybiM0CiN2diNAC',
    'mQFPmRIJmTRXmUUSmXi8mZsImczYmd45meAoqgDCqhIEqiJ6qiNsqjQTqkRaqkUaqlegqoiTqpmOqpqyqsx4qs10qu6Vqv+xqwBAuxGmuySmu1',
    'abu2oiu8xCu9CbzADZzBGwzDQAzFV0zHiszJotzKsozLwMzM0QzOFT3SMg3UQ83VcF3YoJ3cyw3gBH7gEC7hHg7iLC7jQp7kVD7mZR7ohI7ojh',
    '7pmJ7qwq7t3b7uAV/wCw/xKC/1Yi/4mQ/8',
  ].join(''),
);
const [FROM, TO] = [110, 210];

/** Row by row. @returns {Uint8Array} */
function weightsOfBook() {
  const out = new Uint8Array(2048);
  for (let i = 0; i < 2048; i++) {
    const [byte, bit] = [(3 * i) >> 3, (3 * i) & 7];
    out[i] = 2 * (((BOOK[byte] | (BOOK[byte + 1] << 8)) >> bit) & 7) + 1;
  }
  return out;
}
/** @type {Uint8Array | undefined} */
let book;

/**
 * f16 scale, 64 bytes of places in the book, 8 of their ninth bits, 32 of signs, 4 of factors (nibbles f, of which 2 f + 1 counts, of 32 weights each).
 * @param {Uint8Array} blocks  whole ones
 */
export function q6kOfIq3s(blocks) {
  book ??= weightsOfBook();
  const count = blocks.length / FROM;
  const out = new Uint8Array(count * TO);
  for (let b = 0; b < count; b++) {
    const [from, to] = [b * FROM, b * TO];
    for (let run = 0; run < 8; run++) {
      const [low, high] = [to + (run >> 2) * 64 + (run & 1) * 32, to + 128 + (run >> 2) * 32];
      const [nibble, pair] = [(run & 2) * 2, (run & 3) * 2];
      const ninth = blocks[from + 66 + run];
      for (let i = 0; i < 32; i++) {
        const place = (i >> 2) + 8 * run;
        const row = blocks[from + 2 + place] | (((ninth >> (i >> 2)) & 1) << 8);
        const weight = book[4 * row + (i & 3)];
        const sign = (blocks[from + 74 + 4 * run + (i >> 3)] >> (i & 7)) & 1;
        const q = sign ? 32 - weight : 32 + weight;
        out[low + i] |= (q & 15) << nibble;
        out[high + i] |= (q >> 4) << pair;
      }
      const factor = 2 * ((blocks[from + 106 + (run >> 1)] >> ((run & 1) * 4)) & 15) + 1;
      out[to + 192 + 2 * run] = factor;
      out[to + 193 + 2 * run] = factor;
    }
    out[to + 208] = blocks[from];
    out[to + 209] = blocks[from + 1];
  }
  return out;
}
