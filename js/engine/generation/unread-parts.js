/** Parts of a generation that were passed on to a reader in another thread, which left before it had read them. */

/** @import { Result } from '../../shared/types.js' */
/** @import { Timeline } from '../session/token-sequence.js' */

/** The state with a part: the timeline's tokens, the text's length, and the time that decoding has taken. @typedef {{ tokens: number, text: number, decodeMs: number }} Mark */

/**
 * Takes them out of the result and of the timeline, as if they had not been computed.
 * @param {number} read  parts @param {Mark[]} marks  one of each part, before them one of the prompt @param {Result} result @param {Timeline} timeline
 */
export function dropUnread(read, marks, result, timeline) {
  if (read >= result.tokens.length) return;
  const { tokens, text, decodeMs } = marks[read];
  result.tokens.length = read;
  result.text = result.text.slice(0, text);
  result.finishReason = 'abort';
  result.stop = null;
  result.usage.completionTokens = read;
  result.timings.decodeMs = decodeMs;
  if (!timeline.closed) timeline.sync(Uint32Array.from(timeline.all().slice(0, tokens)));
}
