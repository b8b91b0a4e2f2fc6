/** Saves and restores a session as bytes: its tokens and its KV cache (layout in c/session/save.c). */
import { MORE } from '../../wasm/abi.js';
import { BqError } from '../../shared/errors.js';

/** @import { Wasm } from '../../wasm/wasm.js' */

/** Number of bytes that are copied at once. The heap has spare room for them. */
const PIECE_BYTES = 4096;
/** Size of the header, and the offsets in it of the number of tokens and the number of computed tokens. */
const HEADER_BYTES = 128;
const [TOKENS, COMPUTED] = [56, 60];
/** Size of the hash of all other bytes, which is at the end. */
const HASH_BYTES = 8;

/**
 * Saves a session as bytes. Throws UNSUPPORTED if the model's file has no id.
 * @param {Wasm} wasm @param {number} session  handle of the session
 */
export function save(wasm, session) {
  const saved = new Uint8Array(wasm.call('bqw_session_state_bytes', session));
  wasm.scope((take) => {
    const at = take(PIECE_BYTES);
    for (let offset = 0; offset < saved.length; offset += PIECE_BYTES) {
      const n = Math.min(PIECE_BYTES, saved.length - offset);
      wasm.check('bqw_session_save', session, offset, at, n);
      saved.set(wasm.bytes(at, n), offset);
    }
  });
  return saved;
}

/**
 * Passes the next bytes of a saved session to C.
 * @param {Wasm} wasm @param {number} session @param {number} at @param {number} length
 */
function restorePart(wasm, session, at, length) {
  try {
    return wasm.check('bqw_session_restore', session, at, length);
  } catch (error) {
    // The usual hint of this status is about model files, so it is replaced.
    if (!(error instanceof BqError) || error.code !== 'UNSUPPORTED') throw error;
    throw new BqError('UNSUPPORTED', error.message, {
      offset: error.offset,
      hint: 'compute and save the session with this version of bq4',
    });
  }
}

/**
 * Restores a session and returns its tokens. Throws FORMAT, UNSUPPORTED, MISMATCH, CONTEXT_FULL, TRUNCATED, NOMEM; the
 * session is empty then.
 * @param {Wasm} wasm @param {number} session  handle of the session @param {Uint8Array} saved
 * @returns {number[]}
 */
export function restore(wasm, session, saved) {
  wasm.scope((take) => {
    const at = take(PIECE_BYTES);
    wasm.u32(at, 1).fill(0);
    wasm.out('bqw_session_sync', session, at, 1); // discards an incomplete earlier attempt
    let status = MORE;
    for (let offset = 0; offset < saved.length; offset += PIECE_BYTES) {
      const part = saved.subarray(offset, offset + PIECE_BYTES);
      wasm.bytes(at, part.length).set(part);
      status = restorePart(wasm, session, at, part.length);
    }
    if (status === MORE)
      throw new BqError('TRUNCATED', `the saved session ends after ${saved.length} bytes`, { hint: 'save it again' });
  });
  const view = new DataView(saved.buffer, saved.byteOffset, saved.length);
  return Array.from({ length: view.getUint32(TOKENS, true) }, (_, i) => view.getUint32(HEADER_BYTES + 4 * i, true));
}

/**
 * Returns whether all tokens of a saved session are computed.
 * @param {Uint8Array} saved  bytes that were restored without an error
 */
export function isComputed(saved) {
  const view = new DataView(saved.buffer, saved.byteOffset, saved.length);
  const tokens = view.getUint32(TOKENS, true);
  return tokens > 0 && tokens === view.getUint32(COMPUTED, true);
}

/**
 * Returns whether the session would be saved as the same bytes.
 * @param {Wasm} wasm @param {number} session  handle of the session @param {Uint8Array} saved
 */
export const isSame = (wasm, session, saved) =>
  wasm.scope((take) => {
    const at = take(HASH_BYTES);
    const bytes = wasm.call('bqw_session_state_bytes', session);
    wasm.check('bqw_session_save', session, bytes - HASH_BYTES, at, HASH_BYTES);
    return wasm.bytes(at, HASH_BYTES).every((byte, i) => byte === saved[saved.length - HASH_BYTES + i]);
  });

/** Empties the session and its KV cache. @param {Wasm} wasm @param {number} session  handle of the session */
export const empty = (wasm, session) =>
  wasm.scope((take) => {
    const at = take(HEADER_BYTES);
    wasm.bytes(at, HEADER_BYTES).fill(0);
    wasm.call('bqw_session_restore', session, at, HEADER_BYTES); // an invalid header, which empties the session
  });
