/** SHA-256 piece by piece, computed by the engine; and how it is written. */
import { BqError } from '../shared/errors.js';

/** @import { Wasm } from './wasm.js' */

/** Bytes of the state in C. */
const STATE = 104;

export class Sha256 {
  #wasm;
  #state = new Uint8Array(STATE);

  /** @param {Wasm} wasm  with room for the largest piece */
  constructor(wasm) {
    this.#wasm = wasm;
  }

  /** @param {Uint8Array} bytes @param {boolean} [last] */
  #run(bytes, last = false) {
    const wasm = this.#wasm;
    return wasm.scope((take) => {
      const state = wasm.put(take, this.#state).at;
      const piece = wasm.put(take, bytes);
      const out = take(32);
      wasm.call('bqw_sha256', state, piece.at, piece.length, last ? out : 0);
      this.#state.set(wasm.bytes(state, STATE));
      return wasm.bytes(out, 32).slice();
    });
  }

  /** @param {Uint8Array} bytes */
  add(bytes) {
    this.#run(bytes);
  }

  /** Of all that was added. @returns {Uint8Array} */
  end() {
    return this.#run(new Uint8Array(), true);
  }
}

/** As pages write it: `sha256-` and base64. @param {Uint8Array} hash */
export const integrityOf = (hash) => `sha256-${btoa(String.fromCharCode(...hash))}`;

/** `sha256-…`, base64 as in a page's integrity attributes. ARGUMENT. @param {string} text */
export function integrityBytes(text) {
  if (!/^sha256-[A-Za-z0-9+/]{43}=$/.test(text))
    throw new BqError('ARGUMENT', `integrity is "${text}", not sha256- and 44 characters of base64`);
  return Uint8Array.from(atob(text.slice(7)), (c) => c.charCodeAt(0));
}
