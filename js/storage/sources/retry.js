/**
 * A file on the web that is read to its end if it can be: what fails for a moment is asked for again, what fails for
 * good is asked of the next mirror. Bytes of two files are never mixed: a mirror must begin as the file did.
 */
import { BqError, onDemand } from '../../shared/errors.js';
import { LONGEST_MS, timeout as timeoutOf } from '../../shared/timeouts.js';
import { HttpSource } from './http.js';

/** @import { ByteSource, Source } from './types.js' */

/** Ranges in flight at once. */
const PARALLEL = 3;
/** How a .bq4 file begins. */
const BQ4F = [0x42, 0x51, 0x34, 0x46];
/** Statuses that may be another one soon. */
const TEMPORARY_STATUSES = [408, 421, 425, 429, 500, 502, 503, 504, 507, 520, 521, 522, 523, 524];
/** What a signed address answers that is no longer good. */
const EXPIRED_STATUSES = [401, 403, 410];

/** @param {number} ms @param {AbortSignal} [signal] @returns {Promise<void>} */
const wait = (ms, signal) =>
  new Promise((resolve, reject) => {
    const abort = () => (clearTimeout(timer), reject(signal?.reason));
    const timer = setTimeout(() => (signal?.removeEventListener('abort', abort), resolve()), ms);
    // A listener of failures may have aborted already.
    if (signal?.aborted) abort();
    else signal?.addEventListener('abort', abort, { once: true });
  });

/** Why a request failed for good before it reached a server; null where that isn't known. @param {string} url @param {BqError} cause */
const refusalOf = (url, cause) =>
  onDemand(import('./refusals.js')).then(
    (part) => part.refusalOf(url, cause),
    () => null,
  );

/** @implements {ByteSource} */
export class RemoteSource {
  remote = true;
  #urls;
  #retries;
  #delay;
  #timeout;
  #hints;
  #urlIndex = 0;
  #http;
  /** The file's first bytes, as they were planned with. @type {Uint8Array} */
  #head = new Uint8Array();
  #size = -1;
  /** Some bytes have come from the present address. */
  #hasDelivered = false;
  #hasHashes = false;
  /** A change of address under way. @type {Promise<boolean> | null} */
  #mirrorChange = null;
  /** Told of each failure after which the same address is tried again. @type {(failures: number) => void} */
  onFailure = () => {};

  /** @param {Extract<Source, { kind: 'url' }>} source */
  constructor({
    url,
    mirrors = [],
    retries = 4,
    retryDelay = timeoutOf('retryDelay'),
    timeout,
    single = false,
    hints = {},
  }) {
    this.#hints = hints;
    this.#urls = [url, ...mirrors];
    this.#retries = retries;
    this.#delay = retryDelay;
    this.#timeout = timeout;
    this.#http = new HttpSource(url, timeout);
    this.single = single;
    if (single) this.#http.ranges = 'broken';
  }

  get name() {
    return this.#http.name;
  }
  get size() {
    return this.#http.size;
  }
  get type() {
    return this.#http.type;
  }
  /** Streams that may be read at once; 0: one, which had better be long. */
  get parallel() {
    return { yes: PARALLEL, unknown: 1, no: 0, broken: 0 }[this.#http.ranges];
  }

  /** How the server calls this version of the file; '' where it doesn't say. */
  get tag() {
    return this.#http.tag;
  }

  /** Answers named different versions of it. */
  get renamed() {
    return this.#http.renamed;
  }

  /** Each of its chunks is compared with a hash: what servers call the file doesn't matter. */
  trustHashes() {
    this.#hasHashes = this.#http.hashed = true;
  }

  /** Tells how the file begins and how long it is, and what it was called before this visit. @param {Uint8Array} head @param {number} size @param {string} [tag] */
  expect(head, size, tag) {
    this.#head = head;
    this.#size = size;
    // Its header has a checksum of its own.
    if (BQ4F.every((byte, i) => byte === head[i])) this.trustHashes();
    if (tag === undefined || this.#hasDelivered) return;
    this.#http.tag = tag;
    this.#http.size = size;
  }

  /**
   * @param {number} offset
   * @param {number} end
   * @param {AbortSignal} [signal]
   * @returns {AsyncGenerator<Uint8Array, void>}
   */
  async *stream(offset, end, signal) {
    let at = offset;
    for (let failures = 0; ; failures++) {
      const http = this.#http;
      const isSingleStream = this.parallel === 0;
      try {
        for await (const piece of http.stream(at, end, signal)) {
          at += piece.length;
          failures = 0;
          this.#hasDelivered = true;
          yield piece;
        }
        // The end of the file, unless more is known to come.
        const size = Math.max(this.size, this.#size);
        if (at >= Math.min(end, size)) return;
        throw new BqError('TRUNCATED', `${http.name} ends after ${at} of ${size} bytes`, {
          offset: at,
          details: { short: true },
        });
      } catch (error) {
        signal?.throwIfAborted();
        if (!(error instanceof BqError)) throw error;
        if (http !== this.#http) continue; // another request has moved on
        // The caller has to know that there is but one stream from now on; where there was but one, it is a failure like others.
        const serial = error.details.serial && !isSingleStream;
        if (serial && end !== Infinity && offset > 0) throw error;
        if (!serial) await this.#recover(http, error, failures, at, signal);
      }
    }
  }

  /** Waits before another try, or moves to the next mirror; throws when no mirror is left. @param {HttpSource} http @param {BqError} error @param {number} failures @param {number} at @param {AbortSignal} [signal] */
  async #recover(http, error, failures, at, signal) {
    const { status, retryAfter = 0, short, unreached } = error.details;
    const isServer = /^https?:/.test(this.name);
    // Chromium refuses a range that is compressed as if the server had not answered, some apps any range of their own files: the last try,
    // or another one at once, is for the whole file.
    if (unreached && http.ranges === 'unknown' && (!isServer || failures === this.#retries - 1)) {
      http.ranges = 'broken';
      if (!isServer) return;
    }
    const refusal = unreached ? await refusalOf(this.name, error) : null;
    const isTemporary = error.code === 'NETWORK' || TEMPORARY_STATUSES.includes(status) || (short && failures < 1);
    if (isTemporary && !refusal && failures < this.#retries) {
      this.onFailure(failures + 1);
      return wait(
        Math.min(
          Math.max(this.#delay * 2 ** failures * (0.75 + Math.random() / 2), Math.min(retryAfter, 30) * 1000),
          LONGEST_MS,
        ),
        signal,
      );
    }
    const final =
      this.#hasDelivered && EXPIRED_STATUSES.includes(status)
        ? new BqError('EXPIRED', `${this.name} answers ${status} now`, { details: error.details, cause: error })
        : (refusal ?? error);
    if (http !== this.#http || (await this.nextMirror(signal))) return;
    final.offset ??= at;
    final.hint = this.#hints[status] ?? final.hint;
    delete final.details.serial;
    throw final;
  }

  /** From now on the next address whose file begins as this one did. False: no mirror is left. @param {AbortSignal} [signal] @returns {Promise<boolean>} */
  nextMirror(signal) {
    this.#mirrorChange ??= this.#changeMirror(signal).finally(() => (this.#mirrorChange = null));
    return this.#mirrorChange;
  }

  /** @param {AbortSignal} [signal] */
  async #changeMirror(signal) {
    while (this.#urlIndex + 1 < this.#urls.length) {
      const http = new HttpSource(this.#urls[++this.#urlIndex], this.#timeout);
      const isSameFile = await this.#hasSameHead(http, signal).catch(() => false);
      signal?.throwIfAborted();
      if (isSameFile) {
        await this.#http.close();
        http.hashed = this.#hasHashes;
        this.#http = http;
        this.#hasDelivered = false;
        return true;
      }
      await http.close();
    }
    return false;
  }

  /** @param {HttpSource} http @param {AbortSignal} [signal] */
  async #hasSameHead(http, signal) {
    let at = 0;
    for await (const piece of http.stream(0, this.#head.length, signal)) {
      if (piece.some((byte, i) => byte !== this.#head[at + i])) return false;
      at += piece.length;
    }
    return at === this.#head.length;
  }

  /** Whether another file is there now. @param {AbortSignal} [signal] */
  async changed(signal) {
    const probe = new HttpSource(this.name, this.#timeout);
    try {
      return !(await this.#hasSameHead(probe, signal));
    } catch {
      signal?.throwIfAborted();
      return false; // unknown
    } finally {
      await probe.close();
    }
  }

  close() {
    return this.#http.close();
  }
}
