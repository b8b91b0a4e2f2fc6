/** Converts a text to tokens with a model's tokenizer. */
import { BqError } from '../../shared/errors.js';

/** @import { Wasm } from '../../wasm/wasm.js' */
/** @import { TokenizeOptions } from '../../shared/types.js' */

/**
 * Options for tokenizing inside the engine.
 * @typedef {TokenizeOptions & { continues?: boolean, plain?: number[] }} EncodeOptions
 *   `continues`: whether other text precedes the text. `plain`: ranges in which special tokens are not recognised, as
 *   start and end offsets in bytes
 */

/**
 * Tokenizes a text in the heap.
 * @param {Wasm} wasm
 * @param {number} model  handle of the model
 * @param {{ at: number, length: number }} text  address and length in bytes
 * @param {number} flags
 * @param {number[]} plain  start and end offsets, in bytes
 * @param {(bytes: number) => number} take  heap allocator
 */
function idsOf(wasm, model, { at, length }, flags, plain, take) {
  const ranges = take(4 * plain.length);
  wasm.u32(ranges, plain.length).set(plain);
  const count = take(4);
  // A token has at least one byte of the text, except BOS, EOS and an added space. Normalizing may also lengthen the
  // text; then C returns the needed capacity.
  for (let capacity = length + 16; ; capacity = wasm.u32(count, 1)[0]) {
    const ids = take(capacity * 4);
    wasm.u32(count, 1)[0] = 0;
    try {
      wasm.check('bqw_tokenize', model, at, length, flags, ids, capacity, count, ranges, plain.length / 2);
      return [...wasm.u32(ids, wasm.u32(count, 1)[0])];
    } catch (error) {
      if (wasm.u32(count, 1)[0] <= capacity) throw error;
    }
  }
}

/**
 * Returns the tokens of a text. Throws CONTEXT_FULL if the text exceeds the spare memory, and STATE if the model has no
 * tokenizer.
 * @param {Wasm} wasm
 * @param {number} model  handle of the model
 * @param {string | Uint8Array} text
 * @param {EncodeOptions} [options]
 * @param {number} [context]  context size of the model, for the message
 */
export function encodeText(wasm, model, text, options = {}, context = 0) {
  const { addSpecial = true, parseSpecial = false, continues = false, plain = [] } = options;
  const flags = (addSpecial ? 1 : 0) + (parseSpecial ? 2 : 0) + (continues ? 4 : 0);
  try {
    return wasm.scope((take) => idsOf(wasm, model, wasm.put(take, text), flags, plain, take));
  } catch (cause) {
    if (!(cause instanceof BqError) || cause.code !== 'NOMEM') throw cause;
    // The spare memory has room for far longer texts than the context.
    throw new BqError(
      'CONTEXT_FULL',
      `a text of ${text.length} characters is too long for a context of ${context} tokens`,
      {
        cause,
        details: { characters: text.length, context },
      },
    );
  }
}
