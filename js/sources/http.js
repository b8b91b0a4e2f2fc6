/**
 * A file on a web server, read by plain GETs: the only header is `Range: bytes=a-b`, which needs no
 * permission (CORS preflight) of the server. One that ignores it answers 200 with the whole file: that
 * answer is then read from front to back, across calls, and what isn't wanted is dropped.
 */
import { BqError } from '../errors.js';

/** @import { ByteSource } from './types.js' */

/** @typedef {ReadableStreamDefaultReader<Uint8Array>} Reader */

/** @implements {ByteSource} */
class HttpSource {
  remote = true;
  size = -1;
  type = '';
  /** The answer of a server that ignores ranges, read up to `at`; `rest` was received, not yet asked for.
   * @type {{ reader: Reader, at: number, rest: Uint8Array | null } | null} */
  #whole = null;
  #ignoresRanges = false;

  /** @param {string} url */
  constructor(url) {
    this.name = url;
  }

  /**
   * @param {number} offset
   * @param {number} end
   * @param {AbortSignal} [signal]
   * @returns {AsyncGenerator<Uint8Array, void>}
   */
  async *stream(offset, end, signal) {
    signal?.throwIfAborted();
    if (end <= offset) return;
    if (!this.#ignoresRanges) {
      const response = await this.#get(`bytes=${offset}-${end === Infinity ? '' : end - 1}`, signal);
      if (response.status === 206) {
        this.#checkRange(response, offset);
        return yield* this.#pieces(reader(response), offset, end, signal);
      }
      this.#keep(response);
    } else if (!this.#whole || this.#whole.at > offset) {
      await this.#drop();
      this.#keep(await this.#get(null, signal));
    }
    yield* this.#fromWhole(offset, end, signal);
  }

  /** @param {string | null} range @param {AbortSignal} [signal] */
  async #get(range, signal) {
    let response;
    try {
      // no-store: Chromium's cache would make ranges of one file wait for each other.
      response = await fetch(this.name, { signal, cache: 'no-store', headers: range ? { Range: range } : {} });
    } catch (cause) {
      throw this.#failure(cause, 'the server could not be reached', signal);
    }
    this.type = response.headers.get('content-type') ?? '';
    if (response.status === 200 || response.status === 206) return response;
    await response.body?.cancel().catch(() => {});
    const details = { status: response.status };
    if (response.status === 416)
      throw new BqError('TRUNCATED', `${this.name} has no bytes where more were expected (${range})`, { details });
    throw new BqError('HTTP_STATUS', `the server answered ${response.status} for ${this.name}`, { details });
  }

  /** The range that was sent, where the server lets us see it. @param {Response} response @param {number} offset */
  #checkRange(response, offset) {
    const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(response.headers.get('content-range') ?? '');
    if (!range) return;
    if (Number(range[1]) !== offset)
      throw new BqError('NETWORK', `${this.name}: asked for byte ${offset}, the server sent from ${range[1]}`, {
        offset,
        hint: 'the server or a proxy handles ranges wrongly',
      });
    if (range[2] === '*') return;
    if (this.size >= 0 && this.size !== Number(range[2]))
      throw new BqError('CHANGED', `${this.name} changed its length from ${this.size} to ${range[2]} bytes`, { offset });
    this.size = Number(range[2]);
  }

  /**
   * @param {Reader} body
   * @param {number} offset
   * @param {number} end
   * @param {AbortSignal} [signal]
   */
  async *#pieces(body, offset, end, signal) {
    try {
      for (let at = offset; at < end; ) {
        const piece = await this.#next(body, at, signal);
        if (!piece) return;
        at += piece.length;
        yield at > end ? piece.subarray(0, piece.length - (at - end)) : piece;
      }
    } finally {
      await body.cancel().catch(() => {});
    }
  }

  /** @param {number} offset @param {number} end @param {AbortSignal} [signal] */
  async *#fromWhole(offset, end, signal) {
    for (;;) {
      const whole = this.#whole;
      if (!whole || whole.at >= end) return;
      const piece = whole.rest ?? (await this.#next(whole.reader, whole.at, signal));
      if (!piece) return void (await this.#drop());
      const from = Math.min(Math.max(offset - whole.at, 0), piece.length);
      const to = Math.min(end - whole.at, piece.length);
      whole.rest = to < piece.length ? piece.subarray(to) : null;
      whole.at += to;
      if (from < to) yield piece.subarray(from, to);
    }
  }

  /** @param {Reader} body @param {number} at @param {AbortSignal} [signal] */
  async #next(body, at, signal) {
    try {
      const { done, value } = await body.read();
      return done ? null : value;
    } catch (cause) {
      throw this.#failure(cause, `the connection broke after ${at} bytes`, signal, at);
    }
  }

  /** @param {unknown} cause @param {string} what @param {AbortSignal} [signal] @param {number} [offset] */
  #failure(cause, what, signal, offset) {
    if (signal?.aborted) return signal.reason;
    return new BqError('NETWORK', `${this.name}: ${what}`, { cause, offset });
  }

  /** @param {Response} response */
  #keep(response) {
    this.#ignoresRanges = true;
    this.#whole = { reader: reader(response), at: 0, rest: null };
  }

  async #drop() {
    const whole = this.#whole;
    this.#whole = null;
    await whole?.reader.cancel().catch(() => {});
  }

  close() {
    return this.#drop();
  }
}

/** @param {Response} response @returns {Reader} */
const reader = (response) => (response.body ?? new Blob([]).stream()).getReader();

/** @param {string} url @returns {ByteSource} */
export const openHttp = (url) => new HttpSource(url);
