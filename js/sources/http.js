/**
 * A file on a web server, read by plain GETs: the only header is `Range: bytes=a-b`, which needs no
 * permission (CORS preflight) of the server. One that ignores it answers 200 with the whole file: that
 * answer is then read from front to back, across calls, and what isn't wanted is dropped. What goes wrong
 * is told, not mended: that is remote.js.
 */
import { BqError } from '../errors.js';

/** @import { ByteSource } from './types.js' */

/**
 * An answer's body. `signal` ends it; `timeout` milliseconds without a byte do too.
 * @typedef {object} Body
 * @property {ReadableStreamDefaultReader<Uint8Array>} reader
 * @property {AbortController} controller
 * @property {() => void} release
 */

/** @implements {ByteSource} */
export class HttpSource {
  remote = true;
  size = -1;
  type = '';
  /** Whether ranges are answered: unknown before the first answer; `broken`: wrongly, so none is asked for any more.
   * @type {'unknown' | 'yes' | 'no' | 'broken'} */
  ranges = 'unknown';
  /** Bytes received, for tests. */
  received = 0;
  #timeout;
  /** Name of this version of the file, where the server tells. */
  #tag = '';
  /** The answer of a server that ignores ranges, read up to `at`; `rest` was received, not yet asked for.
   * @type {{ body: Body, at: number, rest: Uint8Array | null } | null} */
  #whole = null;

  /** @param {string} url @param {number} [timeout] */
  constructor(url, timeout = 20_000) {
    this.name = url;
    this.#timeout = timeout;
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
    if (!this.#whole || this.#whole.at > offset) {
      await this.#drop();
      const before = this.ranges;
      const { response, body } = await this.#get(before === 'broken' ? null : `bytes=${offset}-${end === Infinity ? '' : end - 1}`, signal);
      if (response.status === 206) {
        this.#checkRange(response, body, offset, end);
        if (this.ranges !== 'broken') this.ranges = 'yes';
        return yield* this.#range(response, body, offset, end);
      }
      if (this.ranges !== 'broken') this.ranges = 'no';
      this.#whole = { body, at: 0, rest: null };
      // Others may be reading ranges at the same time: whoever reads decides how to go on.
      if (before === 'yes') throw this.#fault('answers ranges no more', offset, { serial: true });
    }
    yield* this.#fromWhole(offset, end, signal);
  }

  /** @param {string | null} range @param {AbortSignal} [signal] @returns {Promise<{ response: Response, body: Body }>} */
  async #get(range, signal) {
    const controller = new AbortController();
    const abort = () => controller.abort(signal?.reason);
    signal?.addEventListener('abort', abort);
    const release = () => signal?.removeEventListener('abort', abort);
    let response;
    try {
      // no-store: Chromium's cache would make ranges of one file wait for each other.
      const asked = fetch(this.name, { signal: controller.signal, cache: 'no-store', headers: range ? { Range: range } : {} });
      response = await this.#inTime(asked, controller);
    } catch (cause) {
      release();
      if (signal?.aborted) throw signal.reason;
      throw cause instanceof BqError ? cause : this.#fault('the server could not be reached', null, { unreached: true }, cause);
    }
    const type = response.headers.get('content-type') ?? '';
    const { status } = response;
    if (status === 200 || status === 206) {
      this.type = type;
      const reader = (response.body ?? new Blob([]).stream()).getReader();
      return { response, body: { reader, controller, release } };
    }
    release();
    controller.abort();
    if (status === 416) throw new BqError('TRUNCATED', `${this.name} has no bytes where more were expected (${range})`, { details: { status } });
    throw new BqError('HTTP_STATUS', `the server answered ${status} for ${this.name}`, { details: { status, retryAfter: Number(response.headers.get('retry-after')) || 0 } });
  }

  /** What the server lets us see of the range that it sent. @param {Response} response @param {Body} body @param {number} offset @param {number} end */
  #checkRange({ headers }, body, offset, end) {
    const fail = (/** @type {BqError} */ error) => {
      close(body);
      throw error;
    };
    const encoding = headers.get('content-encoding');
    if (encoding && encoding !== 'identity') fail(this.#broken(`sent a range that is compressed (${encoding})`, offset));
    const length = headers.get('content-length');
    if (length && Number(length) > end - offset) fail(this.#broken(`sent ${length} bytes where ${end - offset} were asked for`, offset));
    const tag = headers.get('etag') ?? headers.get('last-modified') ?? '';
    if (this.#tag && tag && tag !== this.#tag) fail(new BqError('CHANGED', `${this.name} is another version than before`, { offset }));
    this.#tag ||= tag;
    const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers.get('content-range') ?? '');
    if (!range) return;
    if (Number(range[1]) !== offset) fail(this.#broken(`was asked for byte ${offset} and sent from ${range[1]}`, offset));
    if (range[2] === '*') return;
    if (this.size >= 0 && this.size !== Number(range[2]))
      fail(new BqError('CHANGED', `${this.name} changed its length from ${this.size} to ${range[2]} bytes`, { offset }));
    this.size = Number(range[2]);
  }

  /** @param {Response} response @param {Body} body @param {number} offset @param {number} end */
  async *#range({ headers }, body, offset, end) {
    try {
      const announced = Number(headers.get('content-length') ?? -1);
      for (let at = offset; ; ) {
        const piece = await this.#next(body, at);
        at += piece?.length ?? 0;
        // A compressed body can't be seen as such from another origin; its length can.
        if ((!piece && announced >= 0 && at - offset !== announced) || at > end) throw this.#broken(`sent ${at - offset} bytes where ${announced < 0 ? end - offset : announced} were to come`, offset);
        if (!piece) return;
        yield piece;
      }
    } finally {
      close(body);
    }
  }

  /** @param {number} offset @param {number} end @param {AbortSignal} [signal] */
  async *#fromWhole(offset, end, signal) {
    for (;;) {
      const whole = this.#whole;
      if (!whole || whole.at >= end) return;
      signal?.throwIfAborted();
      const piece = whole.rest ?? (await this.#nextOfWhole(whole, signal));
      if (!piece) return void (await this.#drop());
      const from = Math.min(Math.max(offset - whole.at, 0), piece.length);
      const to = Math.min(end - whole.at, piece.length);
      whole.rest = to < piece.length ? piece.subarray(to) : null;
      whole.at += to;
      if (from < to) yield piece.subarray(from, to);
    }
  }

  /** @param {{ body: Body, at: number }} whole @param {AbortSignal} [signal] */
  async #nextOfWhole({ body, at }, signal) {
    const abort = () => body.controller.abort(signal?.reason);
    signal?.addEventListener('abort', abort);
    try {
      return await this.#next(body, at);
    } catch (error) {
      await this.#drop();
      throw error;
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }

  /** @param {Body} body @param {number} at */
  async #next({ reader, controller }, at) {
    try {
      const { done, value } = await this.#inTime(reader.read(), controller);
      this.received += value?.length ?? 0;
      return done ? null : value;
    } catch (cause) {
      if (cause instanceof BqError) throw cause;
      if (controller.signal.aborted) throw controller.signal.reason;
      throw this.#fault(`the connection broke after ${at} bytes`, at, {}, cause);
    }
  }

  /** @template T @param {Promise<T>} promise @param {AbortController} controller @returns {Promise<T>} */
  async #inTime(promise, controller) {
    const late = this.#fault(`nothing came for ${this.#timeout} ms`, null, {});
    const timer = setTimeout(() => controller.abort(late), this.#timeout);
    try {
      return await promise;
    } catch (error) {
      throw controller.signal.reason === late ? late : error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** @param {string} what @param {number | null} offset @param {object} details @param {unknown} [cause] */
  #fault(what, offset, details, cause) {
    return new BqError('NETWORK', `${this.name}: ${what}`, { cause, offset, details });
  }

  /** Ranges are not to be trusted here. @param {string} what @param {number} offset */
  #broken(what, offset) {
    this.ranges = 'broken';
    return new BqError('NETWORK', `${this.name}: the server ${what}`, { offset, details: { serial: true }, hint: 'the server or a proxy handles ranges wrongly' });
  }

  async #drop() {
    const whole = this.#whole;
    this.#whole = null;
    if (whole) close(whole.body);
  }

  close() {
    return this.#drop();
  }
}

/** @param {Body} body */
function close({ reader, controller, release }) {
  release();
  reader.cancel().catch(() => {});
  controller.abort();
}
