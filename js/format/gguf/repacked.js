/**
 * A foreign file as if it had been converted: any range of layout.js's file, made of the stored bytes as they come. So all that
 * is done with a .bq4 file is done with it: chunks, their hashes, the cache, resuming, computing while it comes, paging.
 */
import { TILED } from '../bq4/weight-types.js';
import { BqError } from '../../shared/errors.js';
import { integrityOf, Sha256 } from '../../wasm/sha256.js';
import { Wasm } from '../../wasm/wasm.js';
import { endOf } from './layout.js';
import { translated } from './types.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { Compiled } from '../../wasm/wasm.js' */
/** @import { Placed } from './layout.js' */

/** Stored bytes that are repacked at once, about. */
const PIECE = 1 << 18;
/** What lies between two tensors is read with them when it is no more. */
const GAP = 1 << 14;
const ROOM = 1 << 16;
/** Bytes that are hashed at once. */
const HASHED = 1 << 18;

/** Units `first` to `end` of a tensor, of which `from` to `to` are the stored bytes. @typedef {{ tensor: Placed, first: number, end: number, from: number, to: number }} Part */

/** The parts of tensors that a range is made of. @param {readonly Placed[]} tensors @param {number} offset @param {number} end @returns {Part[]} */
function partsOf(tensors, offset, end) {
  return tensors
    .filter((t) => t.offset < end && t.offset + t.bytes > offset)
    .map((tensor) => {
      const first = Math.floor(Math.max(offset - tensor.offset, 0) / tensor.unit);
      const last = Math.ceil(Math.min(end - tensor.offset, tensor.bytes) / tensor.unit);
      const to = Math.min(last * tensor.storedUnit, tensor.storedBytes);
      return { tensor, first, end: last, from: tensor.from + first * tensor.storedUnit, to: tensor.from + to };
    });
}

/** Runs of parts that one request can bring. @param {Part[]} parts @returns {Part[][]} */
function runsOf(parts) {
  /** @type {Part[][]} */
  const runs = [];
  for (const part of parts) {
    const last = runs.at(-1)?.at(-1);
    const gap = last ? part.from - last.to : -1;
    if (gap >= 0 && gap <= GAP) runs.at(-1)?.push(part);
    else runs.push([part]);
  }
  return runs;
}

/** @param {Iterable<Uint8Array>} first @param {AsyncIterable<Uint8Array>} then */
async function* chain(first, then) {
  yield* first;
  yield* then;
}

/** @param {readonly Placed[]} tensors @returns {number} stored bytes of the largest piece */
const largestPiece = (tensors) => Math.max(PIECE, ...tensors.map(({ storedUnit }) => storedUnit));

/**
 * The hash that a file must have, and how far it has come: its bytes are then read from the first to the last, in their order.
 * @typedef {object} Check
 * @property {Uint8Array} wanted  SHA-256
 * @property {number} bytes       of the file
 * @property {Sha256} hash
 * @property {number} at          so many bytes have been added to it
 */

/** @implements {ByteSource} */
export class RepackedSource {
  #file;
  #wasm;
  #tensors;
  /** @type {Check | null} */
  #check;
  /** The file's first bytes, those that its header was read of: no request asks for them again. */
  #known;
  /** Where the tensors end. */
  size;

  /** @param {ByteSource} file  closed with it @param {Wasm} wasm @param {readonly Placed[]} tensors @param {Uint8Array} known @param {Check | null} check */
  constructor(file, wasm, tensors, known, check) {
    this.#check = check;
    this.#known = known;
    this.#file = file;
    this.#wasm = wasm;
    this.#tensors = tensors;
    this.size = endOf(tensors);
    this.remote = file.remote;
    if (file.nextMirror)
      this.nextMirror = (/** @type {AbortSignal | undefined} */ signal) => /** @type {any} */ (file).nextMirror(signal);
    // Where versions have names, these were compared with every answer.
    if (file.changed)
      this.changed = async (/** @type {AbortSignal | undefined} */ signal) => {
        this.#known = new Uint8Array(); // what is read from now on comes from the server
        return !file.tag && /** @type {any} */ (file).changed(signal);
      };
  }

  /**
   * @param {ByteSource} file @param {Compiled} compiled @param {readonly Placed[]} tensors  with `wanted` as they lie in the file
   * @param {Uint8Array} [known]  the file's first bytes, as many as were read
   * @param {{ wanted: Uint8Array, bytes: number } | null} [wanted]
   */
  static async open(file, compiled, tensors, known = new Uint8Array(), wanted = null) {
    // Stored, its import and its tiles: none of these is more than four times as large.
    const wasm = await Wasm.create(compiled, 9 * largestPiece(tensors) + ROOM);
    return new RepackedSource(
      file,
      wasm,
      tensors,
      known,
      wanted && { ...wanted, hash: new Sha256(await Wasm.create(compiled, HASHED + ROOM)), at: 0 },
    );
  }

  get name() {
    return this.#file.name;
  }
  get type() {
    return this.#file.type;
  }
  get parallel() {
    return this.#check ? 0 : this.#file.parallel;
  }
  get tag() {
    return this.#file.tag;
  }
  get renamed() {
    return this.#file.renamed;
  }

  /** @type {ByteSource['stream']} */
  async *stream(offset, end, signal) {
    const to = Math.min(end, this.size);
    const last = this.#check && to === this.size;
    /** What is not told before the whole file has been checked. @type {Uint8Array | null} */
    let held = null;
    for await (const piece of this.#pieces(offset, to, signal)) {
      if (held) yield held;
      held = last ? piece.slice() : null;
      if (!held) yield piece;
    }
    if (last) this.#verify();
    if (held) yield held;
  }

  /** @param {number} offset @param {number} to @param {AbortSignal} [signal] */
  async *#pieces(offset, to, signal) {
    const parts = partsOf(this.#tensors, offset, to);
    let at = offset;
    for (const run of this.#check ? [parts] : runsOf(parts)) {
      for await (const { tensor, first, bytes } of this.#made(run, to === this.size, signal)) {
        const begin = tensor.offset + first * tensor.unit;
        if (begin > at) {
          yield new Uint8Array(begin - at); // what aligns it
          at = begin;
        }
        const piece = bytes.subarray(at - begin, to - begin);
        at += piece.length;
        if (piece.length) yield piece;
      }
    }
    if (at < to) yield new Uint8Array(to - at);
  }

  /** Stored bytes; where they are to be checked also those that no tensor has. @param {number} from @param {number} to @param {AbortSignal} [signal] */
  async *#stored(from, to, signal) {
    const check = this.#check;
    let at = check ? Math.min(from, check.at) : from;
    const known = this.#known.subarray(at, to);
    const pieces = known.length ? [known] : [];
    const behind = at + known.length;
    const all = behind < to ? chain(pieces, this.#file.stream(behind, to, signal)) : pieces;
    if (!check) return yield* all;
    this.#known = new Uint8Array();
    for await (const piece of all) {
      for (let i = Math.max(check.at - at, 0); i < piece.length; i += HASHED) {
        const part = piece.subarray(i, i + HASHED);
        check.hash.add(part);
        check.at += part.length;
      }
      const skip = Math.max(from - at, 0);
      at += piece.length;
      if (skip < piece.length) yield piece.subarray(skip);
    }
  }

  /** INTEGRITY. */
  #verify() {
    const check = /** @type {Check} */ (this.#check);
    if (check.at < check.bytes)
      throw new BqError('TRUNCATED', `${this.name} ends after ${check.at} of ${check.bytes} bytes`, {
        offset: check.at,
      });
    const found = check.hash.end();
    if (found.some((byte, i) => byte !== check.wanted[i]))
      throw new BqError('INTEGRITY', `the SHA-256 of ${this.name}, ${check.bytes} bytes, is ${integrityOf(found)}`, {
        offset: 0,
        hint: 'this is not the file that was asked for: check the address and the integrity',
      });
  }

  /** Pieces of a run, whole units each. @param {Part[]} run @param {boolean} last  it ends with the last tensor @param {AbortSignal} [signal] */
  async *#made(run, last, signal) {
    if (!run.length) return;
    const start = run[0].from;
    const stored = this.#stored(start, this.#check && last ? this.#check.bytes : run[run.length - 1].to, signal);
    let at = start;
    /** @type {Uint8Array} */
    let rest = new Uint8Array();
    for (const { tensor, first, end, from, to } of run) {
      let unit = first;
      const held = new Uint8Array(
        Math.min(Math.max(PIECE - (PIECE % tensor.storedUnit), tensor.storedUnit), to - from),
      );
      let filled = 0;
      for (let next = from; next < to;) {
        if (!rest.length) {
          const { value } = await stored.next();
          if (!value) throw new BqError('TRUNCATED', `${this.name} ends after ${at} bytes`, { offset: at });
          rest = value;
        }
        const skip = Math.min(Math.max(next - at, 0), rest.length);
        const n = Math.min(rest.length - skip, held.length - filled, to - next);
        held.set(rest.subarray(skip, skip + n), filled);
        rest = rest.subarray(skip + n);
        [at, next, filled] = [at + skip + n, next + n, filled + n];
        if (filled < held.length && next < to) continue;
        yield { tensor, first: unit, bytes: this.#repack(tensor, unit, held.subarray(0, filled)) };
        unit += Math.ceil(filled / tensor.storedUnit);
        filled = 0;
      }
      if (unit !== end) throw new BqError('FORMAT', `tensor "${tensor.name}" ends in the middle of a row`);
    }
    for await (const _ of this.#check && last ? stored : []); // to the end of the file
    await stored.return(undefined);
  }

  /** @param {Placed} tensor @param {number} first  unit @param {Uint8Array} bytes  stored @returns {Uint8Array} */
  #repack(tensor, first, bytes) {
    if (tensor.layout !== TILED) return bytes;
    const wasm = this.#wasm;
    const rows = Math.min(Math.round(bytes.length / (tensor.storedUnit / 8)), tensor.rows - 8 * first);
    const length = Math.ceil(rows / 8) * tensor.unit;
    const other = translated(tensor.stored);
    return wasm.scope((take) => {
      const from = wasm.put(take, other ? other.translate(bytes) : bytes).at;
      const to = take(length);
      try {
        wasm.check('bqw_repack', (other?.becomes ?? tensor.stored).id, from, rows, tensor.cols, to);
      } catch (error) {
        throw error instanceof BqError && error.code === 'FORMAT' ? bad(tensor, first, error, other) : error;
      }
      return wasm.bytes(to, length).slice();
    });
  }

  async close() {
    this.#known = new Uint8Array();
    this.#wasm.release();
    await this.#file.close();
  }
}

/** @param {Placed} tensor @param {number} first @param {BqError} cause @param {import('./types.js').Translated} [other]  of whose blocks the cause speaks */
const bad = (tensor, first, cause, other) =>
  new BqError('FORMAT', `tensor "${tensor.name}" has ${cause.message}`, {
    offset:
      tensor.from +
      first * tensor.storedUnit +
      (other ? Math.floor(Number(cause.offset) / other.becomes.blockBytes) * other.blockBytes : Number(cause.offset)),
    hint: cause.hint,
    cause,
  });
