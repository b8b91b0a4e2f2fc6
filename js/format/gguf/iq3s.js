/** Converts blocks of IQ3_S to blocks of Q6_K with the same values: both have an f16 scale of 256 weights, integer factors and integer weights. */
import { fromBase64 } from '../../text/tokenizers/bytes.js';

/** The format's codebook: 512 rows of four weights. A weight takes 3 bits, from the lowest on: 0 stands for 1, 1 for 3, … 7 for 15. */
const PACKED_CODEBOOK = fromBase64(
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
/** Bytes of a block of IQ3_S and of Q6_K. */
const [IQ3S_BYTES, Q6K_BYTES] = [110, 210];

/** The weights of the codebook, row by row. @returns {Uint8Array} */
function unpackCodebook() {
  const out = new Uint8Array(2048);
  for (let i = 0; i < 2048; i++) {
    const [byte, bit] = [(3 * i) >> 3, (3 * i) & 7];
    out[i] = 2 * (((PACKED_CODEBOOK[byte] | (PACKED_CODEBOOK[byte + 1] << 8)) >> bit) & 7) + 1;
  }
  return out;
}
/** @type {Uint8Array | undefined} */
let codebook;

/**
 * A block of IQ3_S: f16 scale, 64 bytes of row numbers in the codebook, 8 bytes of their ninth bits, 32 of signs, 4 of factors (nibbles
 * f for 32 weights each, which stand for 2 f + 1).
 * @param {Uint8Array} blocks  whole blocks
 */
export function q6kOfIq3s(blocks) {
  codebook ??= unpackCodebook();
  const count = blocks.length / IQ3S_BYTES;
  const out = new Uint8Array(count * Q6K_BYTES);
  for (let b = 0; b < count; b++) {
    const [from, to] = [b * IQ3S_BYTES, b * Q6K_BYTES];
    for (let run = 0; run < 8; run++) {
      const [low, high] = [to + (run >> 2) * 64 + (run & 1) * 32, to + 128 + (run >> 2) * 32];
      const [nibble, pair] = [(run & 2) * 2, (run & 3) * 2];
      const ninth = blocks[from + 66 + run];
      for (let i = 0; i < 32; i++) {
        const place = (i >> 2) + 8 * run;
        const row = blocks[from + 2 + place] | (((ninth >> (i >> 2)) & 1) << 8);
        const weight = codebook[4 * row + (i & 3)];
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
