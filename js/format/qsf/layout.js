/** What lies where in a QSF file, for reader and writer. */

export const TENSOR_HEADER = 16;
/** Quant byte of a tensor: the layer's own. */
export const AS_LAYER = 0xff;
/** Flag in place of a head. */
export const TIED = 0xff;
/** Vectors of a chunk; so many or fewer are not cut. */
export const CHUNK = 50000;

/** Our names by type of tensor. @type {Record<number, string>} */
export const MATRICES = {
  0: 'attn.q',
  1: 'attn.k',
  2: 'attn.v',
  3: 'attn.o',
  4: 'mlp.gate',
  5: 'mlp.up',
  6: 'mlp.down',
};
/** @type {Record<number, string>} */
export const NORM_TYPES = { 7: 'ln1', 8: 'ln2' };
/** @type {Record<number, string>} */
export const BIASES = { 9: 'attn.q', 10: 'attn.k', 11: 'attn.v', 12: 'attn.o' };
export const FFN_BIASES = 13;

/** What the biases of type 13 are, one after the other, and how many of each. @param {boolean} gated @param {number} ffn @param {number} hidden @returns {[string, number][]} */
export const ffnParts = (gated, ffn, hidden) => [
  ...(gated ? [/** @type {[string, number]} */ (['mlp.gate', ffn])] : []),
  ['mlp.up', ffn],
  ['mlp.down', hidden],
];
