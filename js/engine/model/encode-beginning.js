/** Converts texts of any length to tokens. A text that is too long for the tokenizer is cut, or refused. */
import { BqError } from '../../shared/errors.js';

/** @import { LocalModel } from './model.js' */
/** @import { EncodeOptions } from './encode-text.js' */

/**
 * Creates the error CONTEXT_FULL for one of several texts.
 * @param {string} text  the text or the pair, with its index
 * @param {number} index
 * @param {{ tokens: number } | { characters: number }} size
 * @param {number} most  largest number of tokens
 */
export function tooLong(text, index, size, most) {
  const [[unit, count]] = Object.entries(size);
  return new BqError('CONTEXT_FULL', `${text} has ${count} ${unit}; the limit is ${most} tokens`, {
    hint: 'shorten or split it, or omit `truncate: false`',
    details: { index, ...size, most },
  });
}

/**
 * Returns the tokens of a text. If it is too long for the tokenizer, returns the tokens of its beginning, which are
 * more than fit into the context.
 * @param {LocalModel} model @param {string} text
 * @param {EncodeOptions} [options]
 * @param {(() => BqError) | null} [refuse]  creates the error that is thrown instead of cutting the text
 */
export function encodeBeginning(model, text, options, refuse) {
  for (let part = text; ; part = part.slice(0, part.length / 2)) {
    try {
      return { ids: model.encode(part, options), isComplete: part === text };
    } catch (error) {
      if (!(error instanceof BqError) || error.code !== 'CONTEXT_FULL') throw error;
      if (refuse) throw refuse();
    }
  }
}
