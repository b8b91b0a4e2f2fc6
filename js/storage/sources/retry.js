/**
 * A file on the web, read with retries and mirrors. After a temporary failure the request is repeated; after a
 * permanent failure the next mirror is used. Bytes of two files are never mixed: the file of a mirror must have the
 * same beginning.
 */
import { BqError, onDemand } from '../../shared/errors.js';
import { LONGEST_MS, timeout as timeoutOf } from '../../shared/timeouts.js';
import { HttpSource } from './http.js';

/** @import { ByteSource, Source } from './types.js' */

/** Number of ranges that are requested at a time. */
const PARALLEL = 3;
/** The first bytes of a .bq4 file. */
const BQ4F = [0x42, 0x51, 0x34, 0x46];
/** Statuses of failures that may be temporary. */
const TEMPORARY_STATUSES = [408, 421, 425, 429, 500, 502, 503, 504, 507, 520, 521, 522, 523, 524];
/** Statuses of a signed address that has expired. */
const EXPIRED_STATUSES = [401, 403, 410];

/** @param {number} ms @param {AbortSignal} [signal] @returns {Promise<void>} */
const wait = (ms, signal) =>
  new Promise((resolve, reject) => {
    const abort = () => (clearTimeout(timer), reject(signal?.reason));
    const timer = setTimeout(() => (signal?.removeEventListener('abort', abort), resolve()), ms);
    // `onFailure` may have aborted the signal already.
    if (signal?.aborted) abort();
    else signal?.addEventListener('abort', abort, { once: true });
  });

/**
 * Returns the error of a request that failed permanently before it reached a server; null if that is not known.
 * @param {string} url @param {BqError} cause
 */
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
  #headers;
  #urlIndex = 0;
  #http;
  /** The file's first bytes, from which the load was planned. @type {Uint8Array} */
  #head = new Uint8Array();
  #size = -1;
  /** Whether bytes have arrived from the current address. */
  #hasDelivered = false;
  #hasHashes = false;
  /** The running change to another mirror, if there is one. @type {Promise<boolean> | null} */
  #mirrorChange = null;
  /**
   * Called with the number of consecutive failures, before the same address is tried again.
   * @type {(failures: number) => void}
   */
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
    headers,
  }) {
    this.#hints = hints;
    this.#headers = headers;
    this.#urls = [url, ...mirrors];
    this.#retries = retries;
    this.#delay = retryDelay;
    this.#timeout = timeout;
    this.#http = new HttpSource(url, timeout, headers);
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
  /** Number of streams that may be read at a time; 0: only one, which should be as long as possible. */
  get parallel() {
    return { yes: PARALLEL, unknown: 1, no: 0, broken: 0 }[this.#http.ranges];
  }

  /** Version tag of the file; '' if the server sends none. */
  get tag() {
    return this.#http.tag;
  }

  /** Whether responses had different version tags. */
  get renamed() {
    return this.#http.renamed;
  }

  /** Allows different version tags, because the caller compares each chunk with a hash. */
  trustHashes() {
    this.#hasHashes = this.#http.hashed = true;
  }

  /**
   * Sets the expected beginning and length of the file.
   * @param {Uint8Array} head @param {number} size @param {string} [tag]  version tag of an earlier visit
   */
  expect(head, size, tag) {
    this.#head = head;
    this.#size = size;
    // The header of a .bq4 file has a checksum of its own.
    if (BQ4F.every((byte, i) => byte === head[i])) this.trustHashes();
    if (tag === undefined || this.#hasDelivered) return;
    this.#http.tag = tag;
    this.#http.size = size;
  }

  /**
   * Yields the bytes from `offset` up to `end`, with retries and mirrors.
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
        // A response that ends early is the end of the file, unless the file is known to be longer.
        const size = Math.max(this.size, this.#size);
        if (at >= Math.min(end, size)) return;
        throw new BqError('TRUNCATED', `${http.name} ends after ${at} of ${size} bytes`, {
          offset: at,
          details: { short: true },
        });
      } catch (error) {
        signal?.throwIfAborted();
        if (!(error instanceof BqError)) throw error;
        if (http !== this.#http) continue; // another request has changed to a mirror
        // From now on only one stream can be read, which the caller must handle. If that was so before, it is an ordinary
        // failure.
        const serial = error.details.serial && !isSingleStream;
        if (serial && end !== Infinity && offset > 0) throw error;
        if (!serial) await this.#recover(http, error, failures, at, signal);
      }
    }
  }

  /**
   * Waits before the next attempt, or changes to the next mirror. Throws the error if no mirror is left.
   * @param {HttpSource} http @param {BqError} error @param {number} failures  earlier ones, without a byte since
   * @param {number} at  offset of the failure @param {AbortSignal} [signal]
   */
  async #recover(http, error, failures, at, signal) {
    const { status, retryAfter = 0, short, unreached } = error.details;
    const isServer = /^https?:/.test(this.name);
    // Chromium rejects a compressed range as if the server could not be reached, so the last attempt requests the whole
    // file. Some apps reject any range of their own files; there the next attempt, without delay, requests the whole
    // file.
    if (unreached && http.ranges === 'unknown' && (!isServer || failures === this.#retries - 1)) {
      http.ranges = 'broken';
      if (!isServer) return;
    }
    // A file that is not empty has a first byte, so this server refuses ranges.
    if (status === 416 && !at && http.ranges === 'unknown') return void (http.ranges = 'broken');
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
        ? new BqError('EXPIRED', `${this.name} now responds with HTTP ${status}`, {
            details: error.details,
            cause: error,
          })
        : (refusal ?? error);
    if (http !== this.#http || (await this.nextMirror(signal))) return;
    final.offset ??= at;
    final.hint = this.#hints[status] ?? final.hint;
    delete final.details.serial;
    throw final;
  }

  /**
   * Changes to the next mirror whose file has the same beginning. Returns false if no mirror is left.
   * @param {AbortSignal} [signal] @returns {Promise<boolean>}
   */
  nextMirror(signal) {
    this.#mirrorChange ??= this.#changeMirror(signal).finally(() => (this.#mirrorChange = null));
    return this.#mirrorChange;
  }

  /** @param {AbortSignal} [signal] */
  async #changeMirror(signal) {
    while (this.#urlIndex + 1 < this.#urls.length) {
      const http = new HttpSource(this.#urls[++this.#urlIndex], this.#timeout, this.#headers);
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

  /**
   * Whether the address now has a file with another beginning; false if that is unknown.
   * @param {AbortSignal} [signal]
   */
  async changed(signal) {
    const probe = new HttpSource(this.name, this.#timeout, this.#headers);
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
