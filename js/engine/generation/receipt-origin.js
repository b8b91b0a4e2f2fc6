/**
 * The prompt and model file of a reply, for its reproducibility record. Loaded when a reply has the option `receipt`.
 */
import { hex } from '../../shared/hex.js';

/** @import { LocalSession } from '../session/session.js' */

/** Size of the header of a saved session (c/session/save.c), and the range of the model file's id in it, in bytes. */
const [HEADER_BYTES, ID_START, ID_END] = [128, 8, 24];

/**
 * Returns the origin of a reply: the id of the model file (null: it has none), the prompt and the stop conditions.
 * @param {LocalSession} session  session that computed the reply
 * @param {ArrayLike<number>} prompt @param {{ stop: string[], stopTokens: number[], sections: boolean }} stops
 * @returns {Promise<NonNullable<import('../../shared/types.js').Result['origin']>>}
 */
export const originOf = (session, prompt, stops) =>
  session.runAlone(({ wasm, sequence }) => ({
    file: wasm.scope((take) => {
      const at = take(HEADER_BYTES);
      // For a file without an id the call returns a status.
      const status = wasm.call('bqw_session_save', sequence.handle, 0, at, HEADER_BYTES);
      return status === 0 ? hex(wasm.bytes(at, HEADER_BYTES).slice(ID_START, ID_END)) : null;
    }),
    prompt: Array.from(prompt),
    ...stops,
  }));
