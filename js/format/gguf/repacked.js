/**
 * Presents a GGUF file as the repacked file of layout.js: a byte source that converts the stored bytes of any range
 * when they arrive. So the same features work as with a .bq4 file: chunks and their hashes, the cache, resuming,
 * computing during the download, paging.
 */
import { TILED } from '../bq4/weight-types.js';
import { BqError } from '../../shared/errors.js';
import { Wasm } from '../../wasm/wasm.js';
import { locate } from '../../storage/sources/split.js';
import { endOfTensors } from './layout.js';
import { conversionOf, loadConverter, storedOffset } from './types.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { Compiled } from '../../wasm/wasm.js' */
/** @import { FileHash } from './file-hash.js' */
/** @import { PlacedTensor } from './layout.js' */

/** Approximate number of stored bytes that are repacked at once. */
const PIECE_BYTES = 1 << 18;
/** Largest gap between two tensors that one request fetches together with them. */
const MAX_GAP_BYTES = 1 << 14;
/** Heap bytes of the allocator's own records. */
const ALLOCATOR_BYTES = 1 << 16;

/**
 * Units `first` to `end` of a tensor; `from` to `to`: their bytes in the GGUF file. Both ends are exclusive.
 * @typedef {{ tensor: PlacedTensor, first: number, end: number, from: number, to: number }} Part
 */

/**
 * Returns the parts of tensors in a range of the repacked file.
 * @param {readonly PlacedTensor[]} tensors @param {number} offset @param {number} end @returns {Part[]}
 */
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

/** Groups parts such that one request fetches each group. @param {Part[]} parts @returns {Part[][]} */
function groupsOf(parts) {
  /** @type {Part[][]} */
  const groups = [];
  for (const part of parts) {
    const last = groups.at(-1)?.at(-1);
    const gap = last ? part.from - last.to : -1;
    if (gap >= 0 && gap <= MAX_GAP_BYTES) groups.at(-1)?.push(part);
    else groups.push([part]);
  }
  return groups;
}

/** @param {Iterable<Uint8Array>} first @param {AsyncIterable<Uint8Array>} then */
async function* chain(first, then) {
  yield* first;
  yield* then;
}

/**
 * Returns the stored size of the largest piece, which has at least one unit.
 * @param {readonly PlacedTensor[]} tensors @returns {number}
 */
const largestPiece = (tensors) => Math.max(PIECE_BYTES, ...tensors.map(({ storedUnit }) => storedUnit));

/** @implements {ByteSource} */
export class RepackedSource {
  #file;
  #wasm;
  #tensors;
  /** Converters by the name of the storage type. @type {Map<string, (blocks: Uint8Array) => Uint8Array>} */
  #converters;
  /** The beginning of the file, which was fetched for its header and is not requested again. */
  #head;
  /** Length of the repacked file. */
  size;

  /**
   * @param {ByteSource} file  owned by the new source, which closes it
   * @param {Wasm} wasm @param {readonly PlacedTensor[]} tensors
   * @param {Map<string, (blocks: Uint8Array) => Uint8Array>} converters @param {Uint8Array} head
   * @param {FileHash | null} fileHash
   */
  constructor(file, wasm, tensors, converters, head, fileHash) {
    this.fileHash = fileHash;
    this.#head = head;
    this.#file = file;
    this.#wasm = wasm;
    this.#tensors = tensors;
    this.#converters = converters;
    this.size = endOfTensors(tensors);
    this.remote = file.remote;
    if (file.nextMirror)
      this.nextMirror = (/** @type {AbortSignal | undefined} */ signal) => /** @type {any} */ (file).nextMirror(signal);
    // If the file has an ETag, every response has already been compared with it.
    if (file.changed)
      this.changed = async (/** @type {AbortSignal | undefined} */ signal) => {
        this.#head = new Uint8Array(); // from now on all bytes are fetched from the server
        return !file.tag && /** @type {any} */ (file).changed(signal);
      };
  }

  /**
   * @param {ByteSource} file @param {Compiled} compiled
   * @param {readonly PlacedTensor[]} tensors  in the order of the file if its hash is checked
   * @param {Uint8Array} [head]  bytes that were already read from the beginning of the file
   * @param {FileHash | null} [fileHash]
   */
  static async open(file, compiled, tensors, head = new Uint8Array(), fileHash = null) {
    const converters = new Map();
    for (const { stored } of tensors) {
      const converter = converters.has(stored.name) ? undefined : await loadConverter(stored);
      if (converter) converters.set(stored.name, converter);
    }
    // The memory holds a piece in three forms: stored, converted and tiled. A converted or tiled piece is at most four
    // times as large as a stored one.
    const wasm = await Wasm.create(compiled, 9 * largestPiece(tensors) + ALLOCATOR_BYTES);
    return new RepackedSource(file, wasm, tensors, converters, head, fileHash);
  }

  get name() {
    return this.#file.name;
  }
  get type() {
    return this.#file.type;
  }
  get parallel() {
    return this.fileHash ? 0 : this.#file.parallel;
  }
  get tag() {
    return this.#file.tag;
  }
  get renamed() {
    return this.#file.renamed;
  }

  /** @type {ByteSource['stream']} */
  async *stream(offset, end, signal) {
    await this.fileHash?.seek(offset);
    const to = Math.min(end, this.size);
    const last = this.fileHash && to === this.size;
    /** The last piece, which is withheld until the whole file has been checked. @type {Uint8Array | null} */
    let pending = null;
    for await (const piece of this.#pieces(offset, to, signal)) {
      if (pending) yield pending;
      pending = last ? piece.slice() : null;
      if (!pending) yield piece;
    }
    if (last) await this.fileHash?.verify();
    if (pending) yield pending;
  }

  /** @param {number} offset @param {number} to @param {AbortSignal} [signal] */
  async *#pieces(offset, to, signal) {
    const parts = partsOf(this.#tensors, offset, to);
    let at = offset;
    for (const group of this.fileHash ? [parts] : groupsOf(parts)) {
      for await (const { tensor, first, bytes } of this.#repackedUnits(group, to === this.size, signal)) {
        const begin = tensor.offset + first * tensor.unit;
        if (begin > at) {
          yield new Uint8Array(begin - at); // padding before the tensor
          at = begin;
        }
        const piece = bytes.subarray(at - begin, to - begin);
        at += piece.length;
        if (piece.length) yield piece;
      }
    }
    if (at < to) yield new Uint8Array(to - at);
  }

  /**
   * Yields stored bytes. If the file's hash is checked, bytes that belong to no tensor are also read and hashed.
   * @param {number} from @param {number} to @param {AbortSignal} [signal]
   */
  async *#stored(from, to, signal) {
    const { fileHash } = this;
    let at = fileHash ? Math.min(from, fileHash.at) : from;
    const fetched = this.#head.subarray(at, to);
    const pieces = fetched.length ? [fetched] : [];
    const next = at + fetched.length;
    const all = next < to ? chain(pieces, this.#file.stream(next, to, signal)) : pieces;
    if (!fileHash) return yield* all;
    this.#head = new Uint8Array();
    for await (const piece of all) {
      await fileHash.add(piece.subarray(Math.max(fileHash.at - at, 0)));
      const skip = Math.max(from - at, 0);
      at += piece.length;
      if (skip < piece.length) yield piece.subarray(skip);
    }
  }

  /**
   * Yields the repacked pieces of a group of parts. Each piece has whole units.
   * @param {Part[]} group @param {boolean} last  whether the group ends with the last tensor
   * @param {AbortSignal} [signal]
   */
  async *#repackedUnits(group, last, signal) {
    if (!group.length) return;
    const start = group[0].from;
    const stored = this.#stored(start, this.fileHash && last ? Infinity : group[group.length - 1].to, signal);
    let at = start;
    /** @type {Uint8Array} */
    let unused = new Uint8Array();
    for (const { tensor, first, end, from, to } of group) {
      let unit = first;
      const pending = new Uint8Array(
        Math.min(Math.max(PIECE_BYTES - (PIECE_BYTES % tensor.storedUnit), tensor.storedUnit), to - from),
      );
      let filled = 0;
      for (let next = from; next < to;) {
        if (!unused.length) {
          const { value } = await stored.next();
          if (!value) {
            const end = locate(this.#file, at);
            throw new BqError('TRUNCATED', `${end.name} ends after ${end.offset} bytes`, { offset: end.offset });
          }
          unused = value;
        }
        const skip = Math.min(Math.max(next - at, 0), unused.length);
        const n = Math.min(unused.length - skip, pending.length - filled, to - next);
        pending.set(unused.subarray(skip, skip + n), filled);
        unused = unused.subarray(skip + n);
        [at, next, filled] = [at + skip + n, next + n, filled + n];
        if (filled < pending.length && next < to) continue;
        yield { tensor, first: unit, bytes: this.#repack(tensor, unit, pending.subarray(0, filled)) };
        unit += Math.ceil(filled / tensor.storedUnit);
        filled = 0;
      }
      if (unit !== end) throw new BqError('FORMAT', `tensor "${tensor.name}" ends within a row`);
    }
    for await (const _ of this.fileHash && last ? stored : []); // hashes the file to its end
    await stored.return(undefined);
  }

  /**
   * @param {PlacedTensor} tensor @param {number} first  first unit
   * @param {Uint8Array} bytes  stored bytes
   * @returns {Uint8Array}
   */
  #repack(tensor, first, bytes) {
    if (tensor.layout !== TILED) return bytes;
    const wasm = this.#wasm;
    const rows = Math.min(Math.round(bytes.length / (tensor.storedUnit / 8)), tensor.rows - 8 * first);
    const length = Math.ceil(rows / 8) * tensor.unit;
    const conversion = conversionOf(tensor.stored);
    return wasm.scope((take) => {
      try {
        const from = wasm.put(take, this.#converters.get(tensor.stored.name)?.(bytes) ?? bytes).at;
        const to = take(length);
        wasm.check('bqw_repack', (conversion?.engineType ?? tensor.stored).id, from, rows, tensor.cols, to);
        return wasm.bytes(to, length).slice();
      } catch (error) {
        throw error instanceof BqError && error.code === 'FORMAT'
          ? damaged(this.#file, tensor, first, error, conversion)
          : error;
      }
    });
  }

  async close() {
    this.#head = new Uint8Array();
    this.#wasm.release();
    await this.fileHash?.storedCopy?.abort();
    await this.#file.close();
  }
}

/**
 * Returns an error with the byte offset in the GGUF file.
 * @param {ByteSource} file @param {PlacedTensor} tensor @param {number} first
 * @param {BqError} cause  its offset is relative to the converted blocks
 * @param {import('./types.js').ConvertedType} [conversion]
 */
function damaged(file, tensor, first, cause, conversion) {
  const { name, offset } = locate(file, tensor.from + first * tensor.storedUnit);
  return new BqError('FORMAT', `${name}: tensor "${tensor.name}" has ${cause.message}`, {
    offset: offset + (conversion ? storedOffset(conversion, Number(cause.offset)) : Number(cause.offset)),
    hint: cause.hint,
    cause,
  });
}
