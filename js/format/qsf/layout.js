/** Constants of the layout of QSF files (docs/FORMAT.md §6), for the reader and the writer. */

/** Size of a tensor's header in bytes. */
export const TENSOR_HEADER = 16;
/** Type byte of a tensor that has its layer's default type. */
export const AS_LAYER = 0xff;
/** Flag that replaces the LM head of tied models. */
export const TIED = 0xff;
/** Number of vectors in a chunk of a table. A table with at most this number of vectors is not divided into chunks. */
export const CHUNK = 50000;

/** Canonical names of matrices by the number of their type. @type {Record<number, string>} */
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

/**
 * Returns the modules whose biases a tensor of type 13 contains, in order, with the lengths of the biases.
 * @param {boolean} gated @param {number} ffn @param {number} hidden @returns {[string, number][]}
 */
export const ffnParts = (gated, ffn, hidden) => [
  ...(gated ? [/** @type {[string, number]} */ (['mlp.gate', ffn])] : []),
  ['mlp.up', ffn],
  ['mlp.down', hidden],
];
