/** A session as bytes: its tokens, and what was computed for them (c/session/state.c draws them). */
import { MORE } from '../../wasm/abi.js';
import { BqError } from '../../shared/errors.js';

/** @import { Wasm } from '../../wasm/wasm.js' */

/** Bytes that cross at once: what a heap has room for beside all that was planned. */
const PIECE = 4096;
/** The head, and where it says how many tokens there are, and how many of them are computed. */
const HEAD = 128;
const [TOKENS, COMPUTED] = [56, 60];
/** Of all bytes before it, which it ends with. */
const HASH = 8;

/** UNSUPPORTED: the model's file has no id. @param {Wasm} wasm @param {number} session  its handle */
export function save(wasm, session) {
  const saved = new Uint8Array(wasm.call('bqw_session_state_bytes', session));
  wasm.scope((take) => {
    const at = take(PIECE);
    for (let done = 0; done < saved.length; done += PIECE) {
      const n = Math.min(PIECE, saved.length - done);
      wasm.check('bqw_session_save', session, done, at, n);
      saved.set(wasm.bytes(at, n), done);
    }
  });
  return saved;
}

/** @param {Wasm} wasm @param {number} session @param {number} at @param {number} length */
function restorePart(wasm, session, at, length) {
  try {
    return wasm.check('bqw_session_restore', session, at, length);
  } catch (error) {
    // The status's own hint is about files of models.
    if (!(error instanceof BqError) || error.code !== 'UNSUPPORTED') throw error;
    throw new BqError('UNSUPPORTED', error.message, {
      offset: error.offset,
      hint: 'compute and save the session with this version of bq4',
    });
  }
}

/**
 * The tokens of the session that goes on from there. FORMAT, UNSUPPORTED, MISMATCH, CONTEXT_FULL, TRUNCATED, NOMEM: the
 * session is empty then.
 * @param {Wasm} wasm @param {number} session  its handle @param {Uint8Array} saved
 * @returns {number[]}
 */
export function restore(wasm, session, saved) {
  wasm.scope((take) => {
    const at = take(PIECE);
    wasm.u32(at, 1).fill(0);
    wasm.out('bqw_session_sync', session, at, 1); // what was cut short before is given up
    let status = MORE;
    for (let done = 0; done < saved.length; done += PIECE) {
      const part = saved.subarray(done, done + PIECE);
      wasm.bytes(at, part.length).set(part);
      status = restorePart(wasm, session, at, part.length);
    }
    if (status === MORE)
      throw new BqError('TRUNCATED', `the saved session ends after ${saved.length} bytes`, { hint: 'save it again' });
  });
  const view = new DataView(saved.buffer, saved.byteOffset, saved.length);
  return Array.from({ length: view.getUint32(TOKENS, true) }, (_, i) => view.getUint32(HEAD + 4 * i, true));
}

/** @param {Uint8Array} saved  that was restored */
export function isComputed(saved) {
  const view = new DataView(saved.buffer, saved.byteOffset, saved.length);
  const tokens = view.getUint32(TOKENS, true);
  return tokens > 0 && tokens === view.getUint32(COMPUTED, true);
}

/** Whether the session would be saved as the same bytes. @param {Wasm} wasm @param {number} session  its handle @param {Uint8Array} saved */
export const isSame = (wasm, session, saved) =>
  wasm.scope((take) => {
    const at = take(HASH);
    const bytes = wasm.call('bqw_session_state_bytes', session);
    wasm.check('bqw_session_save', session, bytes - HASH, at, HASH);
    return wasm.bytes(at, HASH).every((byte, i) => byte === saved[saved.length - HASH + i]);
  });

/** Leaves nothing in the session, nor in its cache. @param {Wasm} wasm @param {number} session  its handle */
export const empty = (wasm, session) =>
  wasm.scope((take) => {
    const at = take(HEAD);
    wasm.bytes(at, HEAD).fill(0);
    wasm.call('bqw_session_restore', session, at, HEAD); // what is no saved session
  });
