/**
 * Steps of a conversion that all writers share: finding the tokenizer and the chat format, choosing types, encoding
 * tensors.
 */
import { BqError } from '../shared/errors.js';
import { chatFormatOf, formatOfTemplate } from './chat-format.js';
import { encoded, rowsPerPiece } from '../format/bq4/encode-tensor.js';
import { readTokenizer } from './tokenizer-files.js';
import { metaOf } from '../format/meta.js';
import { ROWS, runLayout, typeNamed } from '../format/bq4/weight-types.js';
import { matrixOf } from '../format/bq4/write-v2.js';

/** @import { Codec } from '../format/bq4/codec.js' */
/** @import { Match } from '../format/bq4/encode-tensor.js' */
/** @import { Checkpoint } from './checkpoint.js' */
/** @import { Tokenizer } from '../text/tokenizers/section.js' */

/**
 * Returns the tokenizer of a checkpoint; null if it has none. Throws SHAPE if the tokenizer has more tokens than the
 * model.
 * @param {Checkpoint} checkpoint
 * @param {((vocab: number) => Promise<Tokenizer>) | ''} [readOther]  reads a tokenizer to use in place of the
 *   checkpoint's
 * @returns {Promise<Tokenizer | null>}
 */
export async function tokenizerOf({ config, folder, tokenizer: contained, tokenizers, ends }, readOther) {
  const { vocab } = config;
  const fileName = contained === undefined && folder ? tokenizers.find(folder.has) : undefined;
  const tokenizer = readOther
    ? await readOther(vocab)
    : folder && fileName
      ? await readTokenizer(folder, fileName, { vocab })
      : contained;
  if (!tokenizer) return null;
  if (tokenizer.tokens.length > vocab)
    throw new BqError(
      'SHAPE',
      `${fileName ?? 'the tokenizer'} has ${tokenizer.tokens.length} tokens; the model has ${vocab}`,
      { hint: 'pass the tokenizer that belongs to the model' },
    );
  const validEnds = ends.filter((id) => Number.isInteger(id) && id < tokenizer.tokens.length);
  return { ...tokenizer, eog: [...new Set([...tokenizer.eog, ...validEnds])].sort((a, b) => a - b) };
}

/**
 * Returns the content of the META section.
 * @param {Pick<Checkpoint, 'config' | 'meta'>} checkpoint @param {Tokenizer | null} tokenizer
 */
export const metaFor = ({ config, meta = {} }, tokenizer) =>
  metaOf({ ...(config.labels && { pair: tokenizer?.pair ?? null }), ...meta });

/**
 * Returns the compact chat format of a model: derived from its template, or recognized by special tokens. Null if it
 * has none.
 * @param {Tokenizer | null} tokenizer @param {string} template  chat template, or ''
 */
export async function chatFormat(tokenizer, template) {
  if (!tokenizer) return null;
  if (template) return await formatOfTemplate(template, tokenizer);
  const specials = new Set(tokenizer.tokens.filter((t) => t.kind !== 0).map((t) => new TextDecoder().decode(t.bytes)));
  return chatFormatOf((text) => specials.has(text));
}

/**
 * Names of weight types: `quant` for matrices, `embed` for embedding and LM head.
 * @typedef {{ quant?: string, embed?: string }} Types
 */

/** Returns the weight types that the options choose. Throws ARGUMENT. @param {Types} types */
export function chosenTypes({ quant = 'bq4a', embed }) {
  const matrix = typeNamed(quant);
  return { matrix, embedding: typeNamed(embed ?? (matrix.block > 1 ? 'bq8' : quant)), vector: typeNamed('f32') };
}

/**
 * Returns the tensors of a v2 file, which are encoded when they are written.
 * @param {Match[]} matches @param {Codec} codec @param {Types} options
 */
export function v2Tensors(matches, codec, options) {
  const types = chosenTypes(options);
  return matches.map((match) => {
    const { dims, embedding, exact } = match.slot;
    const matrix = match.tensor.ternary && !options.quant ? typeNamed('bqt') : types.matrix;
    const type = dims.length === 1 || exact ? types.vector : embedding ? types.embedding : matrix;
    return encoded(codec, match, type, dims.length === 1 ? ROWS : runLayout(type));
  });
}

/** Returns the size in bytes, as f32, of the largest piece that is encoded at once. @param {Match[]} matches */
export const largestPieceOf = (matches) =>
  Math.max(...matches.map(({ slot }) => 4 * rowsPerPiece(slot.dims) * matrixOf(slot.dims).cols));
