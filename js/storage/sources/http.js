/**
 * Reads a file on a web server with plain GET requests. Without an access token the only header is
 * `Range: bytes=a-b`, which needs no permission of the server (CORS preflight). A server that ignores ranges responds with status 200 and the whole file.
 * That response is then read from front to back, across calls of `stream`, and unneeded bytes are dropped. Failures are
 * only reported here; retry.js repeats requests.
 */
import { BqError } from '../../shared/errors.js';
import { isNode } from '../../shared/node.js';
import { LONGEST_MS } from '../../shared/timeouts.js';

/** @import { ByteSource } from './types.js' */

/** Size of the buffer into which the platform reads, if it can read into an existing buffer. */
const READ_BYTES = 1 << 18;

/**
 * Whether an address refers to bytes in the memory of Node (`blob:`, `data:`). In Node 20 fetch returns ranges of such
 * bytes with one byte missing, and in Node 24 an abort ends the process. So these bytes are requested without a range,
 * and the request is never aborted.
 * @param {string} address
 */
const isAddressOfBytes = (address) => isNode && /^(blob|data):/.test(address);

/** Milliseconds between the last read of a response and the abort of its request. */
const ABORT_DELAY_MS = 100;

/**
 * Waits for one promise after another. Each wait ends early with an error when the request is aborted or when it takes
 * too long. All waits for one response share a timer, because a timer for each piece would cost more than reading the
 * piece.
 */
class StallTimer {
  #ms;
  #createTimeoutError;
  /** Start time of the current wait; null between waits. @type {number | null} */
  #waitStart = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** Rejects the current wait. @type {(reason: unknown) => void} */
  #reject = () => {};
  /** Reason of the abort or the timeout; undefined if there was none. @type {unknown} */
  reason;

  /**
   * @param {number} ms  limit of a wait @param {() => unknown} createTimeoutError  creates the error of a wait that
   *   takes longer
   */
  constructor(ms, createTimeoutError) {
    this.#ms = ms;
    this.#createTimeoutError = createTimeoutError;
  }

  /** @template T @param {Promise<T>} promise @returns {Promise<T>} */
  wait(promise) {
    this.#waitStart = performance.now();
    if (this.#ms <= LONGEST_MS) this.#timer ??= setTimeout(this.#checkTime, this.#ms);
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      if (this.reason) reject(this.reason);
      promise.finally(() => (this.#waitStart = null)).then(resolve, reject);
    });
  }

  #checkTime = () => {
    this.#timer = undefined;
    if (this.#waitStart === null) return;
    const remainingMs = this.#waitStart + this.#ms - performance.now();
    if (remainingMs > 0) this.#timer = setTimeout(this.#checkTime, remainingMs);
    else this.end(this.#createTimeoutError());
  };

  /** Rejects the current wait, or else the next one. @param {unknown} reason */
  end(reason) {
    this.reason = reason;
    this.#reject(reason);
  }

  stop() {
    clearTimeout(this.#timer);
  }
}

/**
 * The body of a response.
 * @typedef {object} Body
 * @property {() => Promise<{ done: boolean, value?: Uint8Array }>} read  returns a piece, valid until the next read
 * @property {AbortController} controller
 * @property {StallTimer} stallTimer
 * @property {() => void} release  stops the timer, and stops listening to the signal of the request
 */

/** @implements {ByteSource} */
export class HttpSource {
  remote = true;
  size = -1;
  type = '';
  /**
   * Whether the server supports ranges; `unknown` before the first response. `broken`: its ranges are wrong, so no more
   * ranges are requested.
   * @type {'unknown' | 'yes' | 'no' | 'broken'}
   */
  ranges = 'unknown';
  /** Bytes received, for tests. */
  received = 0;
  #timeout;
  #headers;
  /** Version tag of the file: the ETag or the date of the last change; '' if the server sends none. */
  tag = '';
  /** Whether different version tags are allowed, because hashes show whether bytes belong together. */
  hashed = false;
  /** Whether a response had another version tag than the one before. */
  renamed = false;
  /**
   * Response of a server that ignores ranges. `at`: offset up to which it was read; `unreadBytes`: bytes after that
   * offset that have arrived.
   * @type {{ body: Body, at: number, unreadBytes: Uint8Array | null } | null}
   */
  #wholeResponse = null;

  /** @param {string} url @param {number} [timeout] @param {Record<string, string>} [headers]  of each request */
  constructor(url, timeout = 20_000, headers = {}) {
    this.name = url;
    this.#timeout = timeout;
    this.#headers = headers;
    // Chromium returns a range of an extension's file with status 200.
    if (/^\w+-/.test(url)) this.ranges = 'broken';
  }

  /**
   * Yields the bytes from `offset` up to `end`. Throws NETWORK, HTTP_STATUS, TRUNCATED, CHANGED.
   * @param {number} offset
   * @param {number} end
   * @param {AbortSignal} [signal]
   * @returns {AsyncGenerator<Uint8Array, void>}
   */
  async *stream(offset, end, signal) {
    signal?.throwIfAborted();
    if (end <= offset) return;
    if (!this.#wholeResponse || this.#wholeResponse.at > offset) {
      await this.#cancelBody();
      const rangesBefore = this.ranges;
      const { response, body } = await this.#get(
        rangesBefore === 'broken' ? null : `bytes=${offset}-${end === Infinity ? '' : end - 1}`,
        signal,
      );
      if (response.status === 206) {
        this.#checkRange(response, body, offset, end);
        if (this.ranges !== 'broken') this.ranges = 'yes';
        return yield* this.#readRange(response, body, offset, end);
      }
      if (this.ranges !== 'broken') this.ranges = 'no';
      this.#checkVersion(response.headers, offset, (error) => {
        closeBody(body);
        throw error;
      });
      this.#wholeResponse = { body, at: 0, unreadBytes: null };
      // Other streams may be reading ranges at the same time, so the caller decides how to continue.
      if (rangesBefore === 'yes')
        throw this.#networkError('the server no longer supports ranges', offset, { serial: true });
    }
    yield* this.#readWhole(offset, end, signal);
  }

  /**
   * Sends a request. Throws NETWORK, TRUNCATED, HTTP_STATUS.
   * @param {string | null} range  null: the whole file
   * @param {AbortSignal} [signal]
   * @returns {Promise<{ response: Response, body: Body }>}
   */
  async #get(range, signal) {
    signal?.throwIfAborted();
    const controller = new AbortController();
    const stallTimer = new StallTimer(this.#timeout, () =>
      this.#networkError(`no data for ${this.#timeout} ms`, null, {}),
    );
    const abort = () => stallTimer.end(signal?.reason);
    signal?.addEventListener('abort', abort);
    const release = () => {
      stallTimer.stop();
      signal?.removeEventListener('abort', abort);
    };
    let response;
    try {
      // no-store: Chromium's cache would make ranges of one file wait for each other.
      response = await stallTimer.wait(
        fetch(
          this.name,
          isAddressOfBytes(this.name)
            ? {}
            : {
                signal: controller.signal,
                cache: 'no-store',
                headers: { ...this.#headers, ...(range && { Range: range }) },
              },
        ),
      );
    } catch (cause) {
      release();
      abortLater(controller);
      if (stallTimer.reason) throw cause;
      throw this.#networkError('the server could not be reached', null, { unreached: true }, cause);
    }
    const type = response.headers.get('content-type') ?? '';
    const { status } = response;
    if (status === 200 || status === 206) {
      this.type = type;
      return {
        response,
        body: { ...readerOf(response.body ?? new Blob([]).stream()), controller, stallTimer, release },
      };
    }
    release();
    abortLater(controller);
    if (status === 416)
      throw new BqError('TRUNCATED', `${this.name} ends before the expected bytes (${range})`, {
        details: { status },
      });
    const retryAfter = response.headers.get('retry-after') ?? ''; // seconds or a date
    const seconds = /\D/.test(retryAfter) ? (Date.parse(retryAfter) - Date.now()) / 1000 : Number(retryAfter);
    throw new BqError('HTTP_STATUS', `the server responded with HTTP ${status} for ${this.name}`, {
      details: { status, retryAfter: Math.max(seconds, 0) || 0 },
    });
  }

  /**
   * Checks the headers of a range, as far as the server exposes them. Throws NETWORK, CHANGED.
   * @param {Response} response @param {Body} body @param {number} offset @param {number} end
   */
  #checkRange({ headers }, body, offset, end) {
    /** @type {(error: BqError) => never} */
    const fail = (error) => {
      closeBody(body);
      throw error;
    };
    const encoding = headers.get('content-encoding');
    if (encoding && encoding !== 'identity')
      fail(this.#brokenRange(`sent a range that is compressed (${encoding})`, offset));
    const length = headers.get('content-length');
    if (length && Number(length) > end - offset)
      fail(this.#brokenRange(`sent ${length} bytes instead of ${end - offset}`, offset));
    this.#checkVersion(headers, offset, fail);
    const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers.get('content-range') ?? '');
    if (!range) return;
    if (Number(range[1]) !== offset)
      fail(this.#brokenRange(`sent bytes from ${range[1]} on instead of ${offset}`, offset));
    if (range[2] === '*') return;
    if (this.size >= 0 && this.size !== Number(range[2]))
      fail(
        new BqError('CHANGED', `${this.name} changed its length from ${this.size} to ${range[2]} bytes`, { offset }),
      );
    this.size = Number(range[2]);
  }

  /**
   * Calls `fail` with CHANGED if a response has another version tag than the one before, unless hashes are compared.
   * @param {Headers} headers @param {number} offset @param {(error: BqError) => void} fail
   */
  #checkVersion(headers, offset, fail) {
    // Weak validators (RFC 9110, 8.8.1) are compared like strong ones: some nodes of a content delivery network mark
    // the tag of the same bytes as weak.
    const tag = headers.get('etag')?.replace(/^W\//, '') ?? headers.get('last-modified') ?? '';
    if (this.tag && tag && tag !== this.tag) {
      this.renamed = true;
      if (!this.hashed)
        fail(
          new BqError('CHANGED', `${this.name} has changed: expected the version ${this.tag}, found ${tag}`, {
            offset,
            details: { renamed: true },
          }),
        );
    }
    this.tag ||= tag;
  }

  /**
   * Yields the bytes of a range, and closes its body. Throws NETWORK.
   * @param {Response} response @param {Body} body @param {number} offset @param {number} end
   */
  async *#readRange({ headers }, body, offset, end) {
    try {
      const announcedBytes = Number(headers.get('content-length') ?? -1);
      for (let at = offset; ;) {
        const piece = await this.#readPiece(body, at);
        at += piece?.length ?? 0;
        // The header of a compressed body is hidden from other origins; its length is not.
        if ((!piece && announcedBytes >= 0 && at - offset !== announcedBytes) || at > end)
          throw this.#brokenRange(
            `sent ${at - offset} bytes instead of ${announcedBytes < 0 ? end - offset : announcedBytes}`,
            offset,
          );
        if (!piece) return;
        yield piece;
      }
    } finally {
      closeBody(body);
    }
  }

  /**
   * Yields bytes of the response of a server that ignores ranges.
   * @param {number} offset @param {number} end @param {AbortSignal} [signal]
   */
  async *#readWhole(offset, end, signal) {
    for (;;) {
      const wholeResponse = this.#wholeResponse;
      if (!wholeResponse || wholeResponse.at >= end) return;
      signal?.throwIfAborted();
      const piece = wholeResponse.unreadBytes ?? (await this.#readWholePiece(wholeResponse, signal));
      if (!piece) return void (await this.#cancelBody());
      const from = Math.min(Math.max(offset - wholeResponse.at, 0), piece.length);
      const pieceEnd = Math.min(end - wholeResponse.at, piece.length);
      wholeResponse.unreadBytes = pieceEnd < piece.length ? piece.subarray(pieceEnd) : null;
      wholeResponse.at += pieceEnd;
      if (from < pieceEnd) yield piece.subarray(from, pieceEnd);
    }
  }

  /**
   * Reads the next piece of that response.
   * @param {{ body: Body, at: number }} response @param {AbortSignal} [signal]
   */
  async #readWholePiece({ body, at }, signal) {
    const abort = () => body.stallTimer.end(signal?.reason);
    signal?.addEventListener('abort', abort);
    try {
      return await this.#readPiece(body, at);
    } catch (error) {
      await this.#cancelBody();
      throw error;
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }

  /**
   * Reads the next piece of a body; null at its end. Throws NETWORK, and the reason of an abort.
   * @param {Body} body @param {number} at  its offset in the file
   */
  async #readPiece({ read, stallTimer }, at) {
    try {
      const { done, value } = await stallTimer.wait(read());
      this.received += value?.length ?? 0;
      return done || !value ? null : value;
    } catch (cause) {
      if (stallTimer.reason) throw cause;
      throw this.#networkError(`the connection broke after ${at} bytes`, at, {}, cause);
    }
  }

  /** @param {string} problem @param {number | null} offset @param {object} details @param {unknown} [cause] */
  #networkError(problem, offset, details, cause) {
    return new BqError('NETWORK', `${this.name}: ${problem}`, { cause, offset, details });
  }

  /**
   * Returns the error of a wrong range; no more ranges are requested.
   * @param {string} problem @param {number} offset
   */
  #brokenRange(problem, offset) {
    this.ranges = 'broken';
    return new BqError('NETWORK', `${this.name}: the server ${problem}`, {
      offset,
      details: { serial: true },
      hint: 'the server or a proxy handles ranges wrongly',
    });
  }

  async #cancelBody() {
    const wholeResponse = this.#wholeResponse;
    this.#wholeResponse = null;
    if (wholeResponse) closeBody(wholeResponse.body);
  }

  close() {
    return this.#cancelBody();
  }
}

/** @param {Body} body */
function closeBody({ controller, release }) {
  release();
  abortLater(controller);
}

/**
 * Aborts the request of a response that is no longer read, after a short delay. Firefox ignores an abort that coincides
 * with bytes on their way into a worker, and the connection stays open.
 * @param {AbortController} controller
 */
function abortLater(controller) {
  setTimeout(() => controller.abort(), ABORT_DELAY_MS);
}

/**
 * Creates a reader that uses the same buffer for all pieces, if the platform can. A new buffer for each piece costs as
 * much as receiving the piece, and is freed only by garbage collection.
 * @param {ReadableStream<Uint8Array>} stream
 * @returns {Pick<Body, 'read'>}
 */
function readerOf(stream) {
  let reader;
  try {
    reader = stream.getReader({ mode: 'byob' });
  } catch {
    const plainReader = stream.getReader();
    return { read: () => plainReader.read() };
  }
  let buffer = new ArrayBuffer(READ_BYTES);
  return {
    async read() {
      const { done, value } = await reader.read(new Uint8Array(buffer));
      if (value) buffer = value.buffer;
      return { done, value };
    },
  };
}
