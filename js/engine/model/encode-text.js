/** Text to ids, by a model's tokenizer. */
import { BqError } from '../../shared/errors.js';

/** @import { Wasm } from '../../wasm/wasm.js' */
/** @import { TokenizeOptions } from '../../shared/types.js' */

/**
 * Options of texts inside the engine.
 * @typedef {TokenizeOptions & { continues?: boolean, plain?: number[] }} EncodeOptions
 *   `continues`: other text stands before it. `plain`: begins and ends, in bytes, of where no special token is looked for
 */

/**
 * @param {Wasm} wasm
 * @param {number} model  handle
 * @param {{ at: number, length: number }} text  in the heap
 * @param {number} flags
 * @param {number[]} plain  begins and ends, in bytes
 * @param {(bytes: number) => number} take  of the heap
 */
function idsOf(wasm, model, { at, length }, flags, plain, take) {
  const ranges = take(4 * plain.length);
  wasm.u32(ranges, plain.length).set(plain);
  const count = take(4);
  // A token stands for a byte or more, but for BOS, EOS and a space in front, and where normalizing lengthens the text.
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
 * CONTEXT_FULL: there is no room for a text that long; STATE: the model has no tokenizer.
 * @param {Wasm} wasm
 * @param {number} model  handle
 * @param {string | Uint8Array} text
 * @param {EncodeOptions} [options]
 * @param {number} [context]  of the model, for the message
 */
export function encodeText(wasm, model, text, options = {}, context = 0) {
  const { addSpecial = true, parseSpecial = false, continues = false, plain = [] } = options;
  const flags = (addSpecial ? 1 : 0) + (parseSpecial ? 2 : 0) + (continues ? 4 : 0);
  try {
    return wasm.scope((take) => idsOf(wasm, model, wasm.put(take, text), flags, plain, take));
  } catch (cause) {
    if (!(cause instanceof BqError) || cause.code !== 'NOMEM') throw cause;
    // There is room for far longer texts than the context holds.
    throw new BqError(
      'CONTEXT_FULL',
      `a text of ${text.length} characters is far too long for a context of ${context}`,
      {
        cause,
        details: { characters: text.length, context },
      },
    );
  }
}
