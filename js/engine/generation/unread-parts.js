/**
 * Removes parts of a generation that were sent to a reader in another thread, but not read before it stopped reading.
 */

/** @import { Result } from '../../shared/types.js' */
/** @import { TokenSequence } from '../session/token-sequence.js' */

/**
 * State after a part: number of tokens of the sequence, length of the text, decode time so far.
 * @typedef {{ tokens: number, text: number, decodeMs: number }} PartState
 */

/**
 * Removes unread parts from the result and from the sequence.
 * @param {number} readCount  number of parts that were read
 * @param {PartState[]} partStates  the state after the prompt, then the state after each part
 * @param {Result} result @param {TokenSequence} sequence
 */
export function dropUnread(readCount, partStates, result, sequence) {
  if (readCount >= result.tokens.length) return;
  const { tokens, text, decodeMs } = partStates[readCount];
  result.tokens.length = readCount;
  result.text = result.text.slice(0, text);
  result.finishReason = 'abort';
  result.stop = null;
  result.usage.completionTokens = readCount;
  result.timings.decodeMs = decodeMs;
  if (!sequence.isClosed) sequence.sync(Uint32Array.from(sequence.allTokens().slice(0, tokens)));
}
