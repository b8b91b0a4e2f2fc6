/**
 * SHA-256 of data in several pieces, computed by the engine, and the notation of hashes in `integrity` (`sha256-…`).
 */
import { BqError } from '../shared/errors.js';
import { u64 } from '../shared/sections.js';

/** @import { Wasm } from './wasm.js' */

/** Size of the hash's state in C (`bq_sha256_state`), in bytes, and offset of the number of added bytes in it. */
const STATE_BYTES = 104;
const TOTAL_AT = 32;

export class Sha256 {
  #wasm;
  #state = new Uint8Array(STATE_BYTES);

  /** @param {Wasm} wasm  instance whose heap has room for the largest piece */
  constructor(wasm) {
    this.#wasm = wasm;
  }

  /**
   * The state after the added bytes, from which the hash can be continued, also by a later visit.
   * @returns {Uint8Array}
   */
  get state() {
    return this.#state.slice();
  }

  set state(state) {
    this.#state.set(state);
  }

  /** @param {Uint8Array} bytes @param {boolean} [last] */
  #run(bytes, last = false) {
    const wasm = this.#wasm;
    return wasm.scope((take) => {
      const state = wasm.put(take, this.#state).at;
      const piece = wasm.put(take, bytes);
      const out = take(32);
      wasm.call('bqw_sha256', state, piece.at, piece.length, last ? out : 0);
      this.#state.set(wasm.bytes(state, STATE_BYTES));
      return wasm.bytes(out, 32).slice();
    });
  }

  /** @param {Uint8Array} bytes */
  add(bytes) {
    this.#run(bytes);
  }

  /** Returns the hash of all added bytes: 32 bytes. @returns {Uint8Array} */
  end() {
    return this.#run(new Uint8Array(), true);
  }
}

/** Returns the number of bytes that were added before a state. @param {Uint8Array} state */
export const bytesBefore = (state) => u64(state, TOTAL_AT);

/** Returns a hash in the notation of HTML's `integrity` attribute: `sha256-` and base64. @param {Uint8Array} hash */
export const integrityOf = (hash) => `sha256-${btoa(String.fromCharCode(...hash))}`;

/** Returns the hash in an `integrity` value. Throws ARGUMENT if the notation is invalid. @param {string} text */
export function integrityBytes(text) {
  if (!/^sha256-[A-Za-z0-9+/]{43}=$/.test(text))
    throw new BqError('ARGUMENT', `invalid integrity: expected "sha256-" and 44 characters of base64, found "${text}"`);
  return Uint8Array.from(atob(text.slice(7)), (c) => c.charCodeAt(0));
}
