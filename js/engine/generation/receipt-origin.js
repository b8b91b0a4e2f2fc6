/** What a reply was made from, for its receipt: what a page does not see of it. Loaded when somebody asks. */
import { hex } from '../../shared/hex.js';

/** @import { LocalSession } from '../session/session.js' */

/** In a saved session's head (c/session/state.c): the bytes that name the model's file. */
const [HEAD, FROM, TO] = [128, 8, 24];

/**
 * @param {LocalSession} session  that computed it
 * @param {ArrayLike<number>} prompt @param {{ stop: string[], stopTokens: number[] }} ends
 * @returns {Promise<NonNullable<import('../../shared/types.js').Result['origin']>>}
 */
export const originOf = (session, prompt, { stop, stopTokens }) =>
  session.alone(({ wasm, timeline }) => ({
    file: wasm.scope((take) => {
      const at = take(HEAD);
      // A file without an id can't be saved: a status, not an exception.
      const status = wasm.call('bqw_session_save', timeline.handle, 0, at, HEAD);
      return status === 0 ? hex(wasm.bytes(at, HEAD).slice(FROM, TO)) : null;
    }),
    prompt: Array.from(prompt),
    stop,
    stopTokens,
  }));
