/**
 * A file on a web server, read by plain GETs: the only header is `Range: bytes=a-b`, which needs no
 * permission (CORS preflight) of the server. One that ignores it answers 200 with the whole file: that
 * answer is then read from front to back, across calls, and what isn't wanted is dropped. Errors are
 * reported here; retry.js tries again.
 */
import { BqError } from '../../shared/errors.js';
import { isNode } from '../../shared/node.js';
import { LONGEST_MS } from '../../shared/timeouts.js';

/** @import { ByteSource } from './types.js' */

/** Bytes read at once where the platform can read into memory that is there. */
const READ_BYTES = 1 << 18;

/**
 * Addresses of bytes that Node has in memory. Its fetch sends ranges of them that lack a byte (20), and an abort ends the process (24):
 * they are asked for whole, and never aborted.
 * @param {string} address
 */
const isAddressOfBytes = (address) => isNode && /^(blob|data):/.test(address);

/** Milliseconds between the last look at an answer and its end. */
const LEAVE_MS = 100;

/**
 * Waits for one thing after another, each until it is given up or takes too long. One timer for the many of one answer:
 * that of each piece would cost more than reading it.
 */
class StallTimer {
  #ms;
  #createTimeoutError;
  /** When the present wait began. @type {number | null} */
  #waitStart = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** Ends the present wait. @type {(reason: unknown) => void} */
  #reject = () => {};
  /** Why it was given up, if it was. @type {unknown} */
  reason;

  /** @param {number} ms @param {() => unknown} createTimeoutError  the reason of a wait that took too long */
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

  /** The present wait, or the next, throws this. @param {unknown} reason */
  end(reason) {
    this.reason = reason;
    this.#reject(reason);
  }

  stop() {
    clearTimeout(this.#timer);
  }
}

/**
 * An answer's body.
 * @typedef {object} Body
 * @property {() => Promise<{ done: boolean, value?: Uint8Array }>} read  a piece that the next read overwrites
 * @property {AbortController} controller
 * @property {StallTimer} stallTimer
 * @property {() => void} release  it follows its signal no more
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
  tag = '';
  /** Whether other names of the version don't matter: hashes tell whether bytes belong together. */
  hashed = false;
  /** An answer named another version than the one before. */
  renamed = false;
  /** The answer of a server that ignores ranges, read up to `at`; `rest` was received, not yet asked for.
   * @type {{ body: Body, at: number, unreadBytes: Uint8Array | null } | null} */
  #wholeAnswer = null;

  /** @param {string} url @param {number} [timeout] */
  constructor(url, timeout = 20_000) {
    this.name = url;
    this.#timeout = timeout;
    // Chromium answers 200 with a range of an extension's file.
    if (/^\w+-/.test(url)) this.ranges = 'broken';
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
    if (!this.#wholeAnswer || this.#wholeAnswer.at > offset) {
      await this.#cancelBody();
      const rangesBefore = this.ranges;
      const { response, body } = await this.#get(
        rangesBefore === 'broken' ? null : `bytes=${offset}-${end === Infinity ? '' : end - 1}`,
        signal,
      );
      if (response.status === 206) {
        this.#checkRange(response, body, offset, end);
        if (this.ranges !== 'broken') this.ranges = 'yes';
        return yield* this.#range(response, body, offset, end);
      }
      if (this.ranges !== 'broken') this.ranges = 'no';
      this.#checkVersion(response.headers, offset, (error) => {
        close(body);
        throw error;
      });
      this.#wholeAnswer = { body, at: 0, unreadBytes: null };
      // Others may be reading ranges at the same time: whoever reads decides how to go on.
      if (rangesBefore === 'yes') throw this.#networkError('answers ranges no more', offset, { serial: true });
    }
    yield* this.#fromWhole(offset, end, signal);
  }

  /** @param {string | null} range @param {AbortSignal} [signal] @returns {Promise<{ response: Response, body: Body }>} */
  async #get(range, signal) {
    signal?.throwIfAborted();
    const controller = new AbortController();
    const stallTimer = new StallTimer(this.#timeout, () =>
      this.#networkError(`nothing came for ${this.#timeout} ms`, null, {}),
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
            : { signal: controller.signal, cache: 'no-store', headers: range ? { Range: range } : {} },
        ),
      );
    } catch (cause) {
      release();
      leave(controller);
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
    leave(controller);
    if (status === 416)
      throw new BqError('TRUNCATED', `${this.name} has no bytes where more were expected (${range})`, {
        details: { status },
      });
    throw new BqError('HTTP_STATUS', `the server answered ${status} for ${this.name}`, {
      details: { status, retryAfter: Number(response.headers.get('retry-after')) || 0 },
    });
  }

  /** What the server lets us see of the range that it sent. @param {Response} response @param {Body} body @param {number} offset @param {number} end */
  #checkRange({ headers }, body, offset, end) {
    /** @type {(error: BqError) => never} */
    const fail = (error) => {
      close(body);
      throw error;
    };
    const encoding = headers.get('content-encoding');
    if (encoding && encoding !== 'identity')
      fail(this.#brokenRange(`sent a range that is compressed (${encoding})`, offset));
    const length = headers.get('content-length');
    if (length && Number(length) > end - offset)
      fail(this.#brokenRange(`sent ${length} bytes where ${end - offset} were asked for`, offset));
    this.#checkVersion(headers, offset, fail);
    const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers.get('content-range') ?? '');
    if (!range) return;
    if (Number(range[1]) !== offset)
      fail(this.#brokenRange(`was asked for byte ${offset} and sent from ${range[1]}`, offset));
    if (range[2] === '*') return;
    if (this.size >= 0 && this.size !== Number(range[2]))
      fail(
        new BqError('CHANGED', `${this.name} changed its length from ${this.size} to ${range[2]} bytes`, { offset }),
      );
    this.size = Number(range[2]);
  }

  /** CHANGED: the server calls this answer another version than the one before. @param {Headers} headers @param {number} offset @param {(error: BqError) => void} fail */
  #checkVersion(headers, offset, fail) {
    // A weak validator (RFC 9110, 8.8.1) names the same bytes here: some nodes of a network for delivery mark theirs so.
    const tag = headers.get('etag')?.replace(/^W\//, '') ?? headers.get('last-modified') ?? '';
    if (this.tag && tag && tag !== this.tag) {
      this.renamed = true;
      if (!this.hashed)
        fail(
          new BqError('CHANGED', `${this.name} is another version than before: ${tag}, not ${this.tag}`, {
            offset,
            details: { renamed: true },
          }),
        );
    }
    this.tag ||= tag;
  }

  /** @param {Response} response @param {Body} body @param {number} offset @param {number} end */
  async *#range({ headers }, body, offset, end) {
    try {
      const announced = Number(headers.get('content-length') ?? -1);
      for (let at = offset; ;) {
        const piece = await this.#readPiece(body, at);
        at += piece?.length ?? 0;
        // A compressed body can't be seen as such from another origin; its length can.
        if ((!piece && announced >= 0 && at - offset !== announced) || at > end)
          throw this.#brokenRange(
            `sent ${at - offset} bytes where ${announced < 0 ? end - offset : announced} were to come`,
            offset,
          );
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
      const wholeAnswer = this.#wholeAnswer;
      if (!wholeAnswer || wholeAnswer.at >= end) return;
      signal?.throwIfAborted();
      const piece = wholeAnswer.unreadBytes ?? (await this.#nextOfWhole(wholeAnswer, signal));
      if (!piece) return void (await this.#cancelBody());
      const from = Math.min(Math.max(offset - wholeAnswer.at, 0), piece.length);
      const pieceEnd = Math.min(end - wholeAnswer.at, piece.length);
      wholeAnswer.unreadBytes = pieceEnd < piece.length ? piece.subarray(pieceEnd) : null;
      wholeAnswer.at += pieceEnd;
      if (from < pieceEnd) yield piece.subarray(from, pieceEnd);
    }
  }

  /** @param {{ body: Body, at: number }} whole @param {AbortSignal} [signal] */
  async #nextOfWhole({ body, at }, signal) {
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

  /** @param {Body} body @param {number} at */
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

  /** Ranges are not to be trusted here. @param {string} problem @param {number} offset */
  #brokenRange(problem, offset) {
    this.ranges = 'broken';
    return new BqError('NETWORK', `${this.name}: the server ${problem}`, {
      offset,
      details: { serial: true },
      hint: 'the server or a proxy handles ranges wrongly',
    });
  }

  async #cancelBody() {
    const wholeAnswer = this.#wholeAnswer;
    this.#wholeAnswer = null;
    if (wholeAnswer) close(wholeAnswer.body);
  }

  close() {
    return this.#cancelBody();
  }
}

/** @param {Body} body */
function close({ controller, release }) {
  release();
  leave(controller);
}

/**
 * Ends an answer that is no longer read, a moment later: where the end meets bytes on their way into a worker,
 * Firefox forgets it, and the connection stays open.
 * @param {AbortController} controller
 */
function leave(controller) {
  setTimeout(() => controller.abort(), LEAVE_MS);
}

/**
 * Reads into the same memory again and again, where the platform can: new memory for each piece costs as much as
 * receiving it, and stays until it is collected.
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
  let room = new ArrayBuffer(READ_BYTES);
  return {
    async read() {
      const { done, value } = await reader.read(new Uint8Array(room));
      if (value) room = value.buffer;
      return { done, value };
    },
  };
}
