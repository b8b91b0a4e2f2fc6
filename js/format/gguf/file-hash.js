/**
 * The check of the SHA-256 of a GGUF file that is repacked while it loads. The file is read strictly from its first byte
 * to its last, and a chunk of the repacked file is computed from hashed bytes only. Reading begins at a chunk for which
 * the state of the hash is known: at the first one, whose state is that after the header from which the load was
 * planned, or at one that was reached in this visit or, with a cache, in an earlier one.
 */
import { BqError } from '../../shared/errors.js';
import { CHUNK_BYTES } from '../../shared/sections.js';
import { changedError } from '../../storage/load/refetch.js';
import { bytesBefore, integrityOf, Sha256 } from '../../wasm/sha256.js';
import { Wasm } from '../../wasm/wasm.js';
import { endOfTensors } from './layout.js';

/** @import { StoredCopy } from '../../storage/sources/cross-origin.js' */
/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { Compiled } from '../../wasm/wasm.js' */
/** @import { PlacedTensor } from './layout.js' */

/** Number of bytes that are hashed at once. */
const HASH_BYTES = 1 << 18;
/** Spare heap bytes for the state of the hash and the allocator's own records. */
const SPARE_BYTES = 1 << 16;

/**
 * The file's entry in the cache, which stores states of the hash between visits, by index of the chunk.
 * @typedef {object} HashStates
 * @property {'writer' | 'reader'} role
 * @property {(chunk: number) => boolean} has
 * @property {(chunk: number) => Promise<Uint8Array | null>} readHashState
 * @property {(chunk: number, state: Uint8Array) => Promise<void>} writeHashState
 */

/**
 * @typedef {object} ExpectedFile
 * @property {Uint8Array} hash  its SHA-256
 * @property {number} bytes     length of the file, as far as known
 * @property {number} start     offset of the first chunk in the repacked file
 */

export class FileHash {
  /** The entry in the cache; null without a cache. Set by the load. @type {HashStates | null} */
  entry = null;
  /** A copy of the file that is written while it is downloaded. Set by the load. @type {StoredCopy | null} */
  storedCopy = null;
  /** Number of bytes hashed so far. */
  at = 0;
  #file;
  #tensors;
  #size;
  /** The file that is expected. */
  expected;
  #hash;
  /** Beginning of the file, from which the load was planned. */
  #header;
  /** Whether the chunks that are read may be stored, which then have the stored states. */
  #isStorable = true;
  /** State of the hash before each chunk, by its index. @type {Map<number, Uint8Array>} */
  #states = new Map();
  /** The next chunk whose state will be known. */
  #next = 0;
  /** Number of bytes before this state: larger than `at`; Infinity after the last chunk. */
  #nextAt;

  /**
   * @param {ByteSource} file @param {readonly PlacedTensor[]} tensors @param {ExpectedFile} expected
   * @param {Uint8Array} head @param {Sha256} hash
   */
  constructor(file, tensors, expected, head, hash) {
    this.#file = file;
    this.#tensors = tensors;
    this.#size = endOfTensors(tensors);
    this.expected = expected;
    this.#hash = hash;
    this.#nextAt = tensors[0].from;
    // The header is hashed as it was read, since the bytes that the server sends later may differ.
    this.#header = head.subarray(0, tensors[0].from);
    this.#addToHash(this.#header);
    if (head.length) this.#states.set(0, hash.state);
  }

  /**
   * @param {ByteSource} file @param {Compiled} compiled @param {readonly PlacedTensor[]} tensors  in the order of the
   *   file
   * @param {ExpectedFile} expected @param {Uint8Array} head  bytes that were already read from the beginning of the file
   */
  static async open(file, compiled, tensors, expected, head) {
    const hash = new Sha256(await Wasm.create(compiled, HASH_BYTES + SPARE_BYTES));
    return new FileHash(file, tensors, expected, head, hash);
  }

  /**
   * Returns the number of stored bytes after which the hash's state belongs to a chunk: all bytes that earlier chunks
   * are computed from have been hashed, except those of a unit that continues in this chunk. For the first chunk, the
   * largest such number.
   * @param {number} chunk
   */
  #bytesBefore(chunk) {
    const offset = this.expected.start + chunk * CHUNK_BYTES;
    if (offset >= this.#size) return Infinity;
    const last = this.#tensors.findLast((tensor) => tensor.offset < offset);
    if (!last) return this.#tensors[0].from;
    const units = Math.floor((offset - last.offset) / last.unit);
    return last.from + (offset < last.offset + last.bytes ? units * last.storedUnit : last.storedBytes);
  }

  /**
   * Sets the hash to its state before a chunk. Throws CHANGED if the state is unknown, or if later chunks are stored:
   * their bytes were hashed in an earlier visit, and those of this visit may differ.
   * @param {number} offset  beginning of the chunk in the repacked file
   */
  async seek(offset) {
    const { entry } = this;
    const chunk = (offset - this.expected.start) / CHUNK_BYTES;
    const state = this.#states.get(chunk) ?? (await entry?.readHashState(chunk));
    let isGap = false;
    for (let c = chunk + 1; this.#bytesBefore(c) < Infinity; c++) isGap ||= !!entry?.has(c);
    if (!state || isGap || bytesBefore(state) > this.#bytesBefore(chunk)) throw changedError(this.#file);
    // Another tab is storing chunks of another response, which may differ.
    this.#isStorable &&= entry?.role !== 'reader';
    if (!chunk) await this.storedCopy?.write(0, this.#header);
    this.#hash.state = state;
    this.at = bytesBefore(state);
    this.#keepStates(chunk + 1);
  }

  /**
   * Keeps the state of the hash for the chunks that it belongs to: none, one, or several within a long unit.
   * @param {number} next  the first chunk whose state is not known yet
   */
  #keepStates(next) {
    for (; this.#bytesBefore(next) <= this.at; next++) this.#states.set(next, this.#hash.state);
    this.#next = next;
    this.#nextAt = this.#bytesBefore(next);
  }

  /** @param {Uint8Array} bytes */
  #addToHash(bytes) {
    for (let i = 0; i < bytes.length;) {
      const part = bytes.subarray(i, i + Math.min(HASH_BYTES, this.#nextAt - this.at));
      this.#hash.add(part);
      i += part.length;
      this.at += part.length;
      if (this.at === this.#nextAt) this.#keepStates(this.#next);
    }
  }

  /** Adds the bytes after those that were added. @param {Uint8Array} bytes */
  async add(bytes) {
    await this.storedCopy?.write(this.at, bytes);
    this.#addToHash(bytes);
  }

  /**
   * Stores the state of the hash before a chunk, so that a later visit can continue there. Returns whether the chunk
   * before it may be stored.
   * @param {number} chunk
   */
  async save(chunk) {
    const state = this.#states.get(chunk);
    if (state && this.#isStorable) await this.entry?.writeHashState(chunk, state);
    return this.#isStorable;
  }

  /** Compares the hash, once the file was read to its end. Throws TRUNCATED, INTEGRITY. */
  async verify() {
    const { hash: expected, bytes } = this.expected;
    const { name } = this.#file;
    if (this.at < bytes)
      throw new BqError('TRUNCATED', `${name} ends after ${this.at} of ${bytes} bytes`, { offset: this.at });
    const found = this.#hash.end();
    if (found.some((byte, i) => byte !== expected[i]))
      throw new BqError(
        'INTEGRITY',
        `${name} (${this.at} bytes) has the hash ${integrityOf(found)}; expected ${integrityOf(expected)}`,
        { offset: 0, hint: 'this is not the requested file: check the address and the integrity' },
      );
    await this.storedCopy?.close();
  }
}
