/**
 * A foreign file as if it had been converted: any range of layout.js's file, made of the stored bytes as they come. So all that
 * is done with a .bq4 file is done with it: chunks, their hashes, the cache, resuming, computing while it comes, paging.
 */
import { TILED } from '../convert/weights.js';
import { BqError } from '../shared/errors.js';
import { Wasm } from '../wasm/wasm.js';
import { endOf } from './layout.js';

/** @import { ByteSource } from '../sources/types.js' */
/** @import { Compiled } from '../wasm/wasm.js' */
/** @import { Placed } from './layout.js' */

/** Stored bytes that are repacked at once, about. */
const PIECE = 1 << 18;
/** What lies between two tensors is read with them when it is no more. */
const GAP = 1 << 14;
const ROOM = 1 << 16;

/** Units `first` to `end` of a tensor, of which `from` to `to` are the stored bytes. @typedef {{ tensor: Placed, first: number, end: number, from: number, to: number }} Part */

/** The parts of tensors that a range is made of. @param {readonly Placed[]} tensors @param {number} offset @param {number} end @returns {Part[]} */
function partsOf(tensors, offset, end) {
  return tensors.filter((t) => t.offset < end && t.offset + t.bytes > offset).map((tensor) => {
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

/** @param {readonly Placed[]} tensors @returns {number} stored bytes of the largest piece */
const largestPiece = (tensors) => Math.max(PIECE, ...tensors.map(({ storedUnit }) => storedUnit));

/** @implements {ByteSource} */
export class RepackedSource {
  #file;
  #wasm;
  #tensors;
  /** Where the tensors end. */
  size;

  /** @param {ByteSource} file  closed with it @param {Wasm} wasm @param {readonly Placed[]} tensors */
  constructor(file, wasm, tensors) {
    this.#file = file;
    this.#wasm = wasm;
    this.#tensors = tensors;
    this.size = endOf(tensors);
    this.remote = file.remote;
    if (file.nextMirror) this.nextMirror = (/** @type {AbortSignal | undefined} */ signal) => /** @type {any} */ (file).nextMirror(signal);
    // Where versions have names, these were compared with every answer.
    if (file.changed) this.changed = async (/** @type {AbortSignal | undefined} */ signal) => !file.tag && /** @type {any} */ (file).changed(signal);
  }

  /** @param {ByteSource} file @param {Compiled} compiled @param {readonly Placed[]} tensors */
  static async open(file, compiled, tensors) {
    // Stored, its import and its tiles: none of these is more than four times as large.
    return new RepackedSource(file, await Wasm.create(compiled, 9 * largestPiece(tensors) + ROOM), tensors);
  }

  get name() {
    return this.#file.name;
  }
  get type() {
    return this.#file.type;
  }
  get parallel() {
    return this.#file.parallel;
  }

  /** @type {ByteSource['stream']} */
  async *stream(offset, end, signal) {
    const to = Math.min(end, this.size);
    let at = offset;
    for (const run of runsOf(partsOf(this.#tensors, offset, to))) {
      for await (const { tensor, first, bytes } of this.#made(run, signal)) {
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

  /** Pieces of a run, whole units each. @param {Part[]} run @param {AbortSignal} [signal] */
  async *#made(run, signal) {
    const start = run[0].from;
    const stored = this.#file.stream(start, run[run.length - 1].to, signal);
    let at = start;
    /** @type {Uint8Array} */
    let rest = new Uint8Array();
    for (const { tensor, first, end, from, to } of run) {
      let unit = first;
      const held = new Uint8Array(Math.min(Math.max(PIECE - (PIECE % tensor.storedUnit), tensor.storedUnit), to - from));
      let filled = 0;
      for (let next = from; next < to; ) {
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
    await stored.return();
  }

  /** @param {Placed} tensor @param {number} first  unit @param {Uint8Array} bytes  stored @returns {Uint8Array} */
  #repack(tensor, first, bytes) {
    if (tensor.layout !== TILED) return bytes;
    const wasm = this.#wasm;
    const rows = Math.min(Math.round(bytes.length / (tensor.storedUnit / 8)), tensor.rows - 8 * first);
    const length = Math.ceil(rows / 8) * tensor.unit;
    return wasm.scope((take) => {
      const from = wasm.put(take, bytes).at;
      const to = take(length);
      try {
        wasm.check('bqw_repack', tensor.stored.id, from, rows, tensor.cols, to);
      } catch (error) {
        throw error instanceof BqError && error.code === 'FORMAT' ? bad(tensor, first, error) : error;
      }
      return wasm.bytes(to, length).slice();
    });
  }

  async close() {
    this.#wasm.release();
    await this.#file.close();
  }
}

/** @param {Placed} tensor @param {number} first @param {BqError} cause */
const bad = (tensor, first, cause) =>
  new BqError('FORMAT', `tensor "${tensor.name}" has ${cause.message}`, { offset: tensor.from + first * tensor.storedUnit + Number(cause.offset), hint: cause.hint, cause });
