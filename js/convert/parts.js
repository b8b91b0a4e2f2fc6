/** What every writer of .bq4 files makes of a checkpoint: its tokenizer, its chat format, its tensors in their types. */
import { BqError } from '../shared/errors.js';
import { chatFormatOf, formatOfTemplate } from './chat-format.js';
import { encoded, rowsPerPiece } from '../format/bq4/encode-tensor.js';
import { readTokenizer } from './tokenizer-files.js';
import { ROWS, runLayout, typeNamed } from '../format/bq4/weight-types.js';
import { matrixOf } from '../format/bq4/write-v2.js';

/** @import { Codec } from '../format/bq4/codec.js' */
/** @import { Match } from '../format/bq4/encode-tensor.js' */
/** @import { Checkpoint } from './checkpoint.js' */
/** @import { Tokenizer } from '../text/tokenizers/section.js' */

/**
 * @param {Checkpoint} checkpoint
 * @param {((vocab: number) => Promise<Tokenizer>) | ''} [other]  in place of what usually lies beside such a model
 * @returns {Promise<Tokenizer | null>}  null: it has none
 */
export async function tokenizerOf({ config, folder, tokenizer: own, tokenizers, ends }, other) {
  const { vocab } = config;
  const beside = own === undefined && folder ? tokenizers.find(folder.has) : undefined;
  const tokenizer = other
    ? await other(vocab)
    : folder && beside
      ? await readTokenizer(folder, beside, { vocab })
      : own;
  if (!tokenizer) return null;
  if (tokenizer.tokens.length > vocab)
    throw new BqError(
      'SHAPE',
      `${beside ?? 'the tokenizer'} has ${tokenizer.tokens.length} tokens, the model ${vocab}`,
      { hint: 'pass the tokenizer that belongs to the model' },
    );
  const more = ends.filter((id) => Number.isInteger(id) && id < tokenizer.tokens.length);
  return { ...tokenizer, eog: [...new Set([...tokenizer.eog, ...more])].sort((a, b) => a - b) };
}

/** @param {Tokenizer | null} tokenizer @param {string} template */
export async function chatFormat(tokenizer, template) {
  if (!tokenizer) return null;
  if (template) return await formatOfTemplate(template, tokenizer);
  const specials = new Set(tokenizer.tokens.filter((t) => t.kind !== 0).map((t) => new TextDecoder().decode(t.bytes)));
  return chatFormatOf((text) => specials.has(text));
}

/** @typedef {{ quant?: string, embed?: string }} Types  of matrices; of embedding and head */

/** ARGUMENT. @param {Types} types */
export function chosenTypes({ quant = 'bq4a', embed }) {
  const matrix = typeNamed(quant);
  return { matrix, embedding: typeNamed(embed ?? (matrix.block > 1 ? 'bq8' : quant)), vector: typeNamed('f32') };
}

/** @param {Match[]} matches @param {Codec} codec @param {Types} options */
export function v2Tensors(matches, codec, options) {
  const types = chosenTypes(options);
  return matches.map((match) => {
    const { dims, embedding, exact } = match.slot;
    const type = dims.length === 1 || exact ? types.vector : embedding ? types.embedding : types.matrix;
    return encoded(codec, match, type, dims.length === 1 ? ROWS : runLayout(type));
  });
}

/** Bytes of f32 that are encoded at once, at most. @param {Match[]} matches */
export const largestPieceOf = (matches) =>
  Math.max(...matches.map(({ slot }) => 4 * rowsPerPiece(slot.dims) * matrixOf(slot.dims).cols));
