/**
 * Writes v2 files (docs/FORMAT.md §2) in bounded memory. All sizes are known before the data is encoded. So the data is
 * written and hashed first, at its final offset. The prefix, which contains the hashes, is written last.
 */
import { BqError } from '../../shared/errors.js';
import { CHUNK_BYTES } from '../../shared/sections.js';
import { encodeConfig } from './config.js';
import { ALIGN, alignUp, encodeDirectory, encodePrefix, prefixSizes, section } from './frame.js';
import { weightBytes } from './weight-types.js';

/**
 * @typedef {object} OutTensor
 * @property {string} name
 * @property {import('./weight-types.js').WeightType} type
 * @property {number} layout
 * @property {readonly number[]} dims
 * @property {() => AsyncIterable<Uint8Array>} pieces  yields its encoded bytes, in pieces of any size
 */

/**
 * @typedef {object} OutModel
 * @property {Record<string, any>} config  see config.js
 * @property {readonly OutTensor[]} tensors  in execution order
 * @property {string} [name]
 * @property {string} [license]
 * @property {Uint8Array | null} [tokenizer]  a TOKN payload
 * @property {object | null} [chat]
 * @property {string} [template]
 * @property {string} [card]
 * @property {object | null} [meta]  a ModelMeta
 * @property {Uint8Array | null} [activations]  an ACTQ payload
 */

/**
 * @typedef {object} WriteOptions
 * @property {(bytes: Uint8Array) => bigint} hash  XXH64
 * @property {(bytes: Uint8Array) => Uint8Array} [sha256]  if given, chunks are hashed with it instead of XXH64
 * @property {Uint8Array | ((prefix: Uint8Array) => Uint8Array)} [fileId]  16 bytes that identify the file, or a
 *   function that computes them from the prefix with a file id of zeros; default: random
 * @property {(done: number, total: number) => void} [onBytes]  called with the written and the total number of data
 *   bytes
 * @property {AbortSignal} [signal]
 * @property {import('../../convert/journal.js').Journal} [journal]  makes the writer resumable: tensors that the
 *   journal records are not written again
 * @property {number} [noteEvery]  smallest number of bytes between two records of the journal; default 8 MiB
 * @property {(tensors: number) => any[]} [reports]  returns the reports of the complete tensors, without the first
 *   `tensors` ones
 * @property {(tensors: number, read: ReadKept) => Promise<void>} [onKept]  called first if the file already has
 *   complete tensors: `tensors` is their number
 * @property {(error: unknown) => boolean} [keeps]  whether complete tensors are kept for the next attempt after this
 *   error; default: never
 */

/**
 * Reads bytes of a complete tensor from the unfinished file.
 * @typedef {(tensor: number, from: number, length: number) => Promise<Uint8Array>} ReadKept
 */

/** Returns the numbers of rows and columns of a shape; a vector has one row. @param {readonly number[]} dims */
export function matrixOf(dims) {
  const cols = dims[dims.length - 1];
  return { rows: dims.slice(0, -1).reduce((a, b) => a * b, 1), cols };
}

/** Collects bytes into chunks; hashes and writes each chunk. */
class ChunkWriter {
  #buffer = new Uint8Array(CHUNK_BYTES);
  #filled = 0;
  /** Number of bytes received so far. */
  position = 0;
  /** @type {Uint8Array[]} */
  hashes = [];

  /**
   * @param {import('../output.js').Sink} sink @param {number} start  file offset of the data
   * @param {(bytes: Uint8Array) => Uint8Array} hash
   */
  constructor(sink, start, hash) {
    this.sink = sink;
    this.start = start;
    this.hash = hash;
  }

  /**
   * Writes the incomplete chunk, so that all bytes can be read back, and returns the hashes of all chunks including
   * that one.
   */
  async mark() {
    const chunk = this.#buffer.subarray(0, this.#filled);
    await this.sink.write(this.start + this.position - this.#filled, chunk);
    return [...this.hashes, this.hash(chunk)];
  }

  /**
   * Continues after `position` bytes of the sink if these have the given hashes; otherwise returns false.
   * @param {number} position @param {Uint8Array[]} hashes
   */
  async restore(position, hashes) {
    const chunks = Math.floor(position / CHUNK_BYTES);
    for (let i = 0; i <= chunks; i++) {
      const length = Math.min(CHUNK_BYTES, position - i * CHUNK_BYTES);
      const bytes = (await this.sink.read?.(this.start + i * CHUNK_BYTES, length)) ?? new Uint8Array();
      if (bytes.length !== length || !hashes[i] || this.hash(bytes).some((byte, k) => byte !== hashes[i][k]))
        return false;
      if (i === chunks) this.#buffer.set(bytes);
    }
    this.hashes = hashes.slice(0, chunks);
    this.position = position;
    this.#filled = position - chunks * CHUNK_BYTES;
    return true;
  }

  /** @param {Uint8Array} bytes */
  async put(bytes) {
    for (let at = 0; at < bytes.length;) {
      const piece = bytes.subarray(at, at + CHUNK_BYTES - this.#filled);
      this.#buffer.set(piece, this.#filled);
      this.#filled += piece.length;
      this.position += piece.length;
      at += piece.length;
      if (this.#filled === CHUNK_BYTES) await this.flush();
    }
  }

  async flush() {
    if (!this.#filled) return;
    const chunk = this.#buffer.subarray(0, this.#filled);
    this.hashes.push(this.hash(chunk));
    await this.sink.write(this.start + this.position - this.#filled, chunk);
    this.#filled = 0;
  }
}

/** Computes the offsets of tensors, relative to the data. @param {readonly OutTensor[]} tensors */
function layOut(tensors) {
  let end = 0;
  const entries = tensors.map(({ name, type, layout, dims }) => {
    const { rows, cols } = matrixOf(dims);
    const offset = alignUp(end, ALIGN);
    const bytes = weightBytes(type, layout, rows, cols);
    end = offset + bytes;
    return { name, type, layout, dims, offset, bytes };
  });
  return { entries, dataBytes: end };
}

/**
 * Writes the model and finishes the sink; if this fails, it aborts the sink.
 * @param {import('../output.js').Sink} sink
 * @param {OutModel} model
 * @param {WriteOptions} options
 * @returns {Promise<{ bytes: number, prefixBytes: number, dataBytes: number }>}
 */
export async function writeV2(sink, model, options) {
  try {
    const written = await write(sink, model, options);
    await sink.finish(written.bytes);
    await options.journal?.remove();
    return written;
  } catch (error) {
    const keep = Boolean(options.keeps?.(error));
    await sink.abort(keep && options.journal?.noted);
    if (!keep) await options.journal?.remove();
    throw error;
  }
}

/**
 * Returns the numbers of tokens and merges.
 * @param {Uint8Array | null | undefined} tokenizer  a TOKN payload, with the counts at bytes 32 and 36
 */
function tokenCounts(tokenizer) {
  if (!tokenizer) return {};
  const view = new DataView(tokenizer.buffer, tokenizer.byteOffset, tokenizer.length);
  return { tokens: view.getUint32(32, true), merges: view.getUint32(36, true) };
}

/**
 * Restores the state of the journal's last mark. Restarts the journal if the file does not match it.
 * @param {ChunkWriter} data @param {import('../../convert/journal.js').Journal} journal
 * @returns {Promise<number>} number of complete tensors
 */
async function resume(data, { marks, restart }) {
  const last = marks.at(-1);
  if (!last) return 0;
  // The last hash of each mark belongs to an incomplete chunk. Only the last mark's is used.
  const hashes = [...marks.flatMap((mark, i) => mark.hashes.slice(0, i + 1 < marks.length ? -1 : undefined))].map(
    (hex) => new Uint8Array(globalThis.Buffer.from(hex, 'hex')),
  );
  if (!(await data.restore(last.position, hashes))) {
    await restart();
    return 0;
  }
  return last.tensors;
}

/**
 * Computes all parts of the file except the weights.
 * @param {OutModel} model @param {number} hashBytes  size of a chunk's hash
 */
function partsOf(model, hashBytes) {
  const { entries, dataBytes } = layOut(model.tensors);
  const planAt = (/** @type {number} */ start) => [
    ...section('CONF', encodeConfig({ ...model.config, ...tokenCounts(model.tokenizer) }), true),
    ...section('LICE', model.license),
    ...section('NAME', model.name),
    ...section('TENS', encodeDirectory(entries.map((e) => ({ ...e, offset: e.offset + start }))), true),
  ];
  const others = [
    ...section('TOKN', model.tokenizer),
    ...section('CHAT', model.chat),
    ...section('TMPL', model.template),
    ...section('CARD', model.card),
    ...section('META', model.meta),
    ...section('ACTQ', model.activations),
  ];
  const { prefixLength } = prefixSizes(planAt(0), others, dataBytes, hashBytes);
  return { entries, dataBytes, planAt, others, prefixLength };
}

/**
 * Returns the length of the prefix. The writer calls `hash` with the whole prefix, so a hasher needs memory for it.
 * @param {OutModel} model @param {boolean} sha256  whether chunks are hashed with SHA-256
 */
export const prefixLengthOf = (model, sha256) => partsOf(model, sha256 ? 32 : 8).prefixLength;

/** @param {import('../output.js').Sink} sink @param {OutModel} model @param {WriteOptions} options */
async function write(
  sink,
  model,
  {
    hash,
    sha256,
    fileId = crypto.getRandomValues(new Uint8Array(16)),
    onBytes,
    signal,
    journal,
    noteEvery = 8 << 20,
    reports,
    onKept,
  },
) {
  const { entries, dataBytes, planAt, others, prefixLength } = partsOf(model, sha256 ? 32 : 8);
  const data = new ChunkWriter(
    sink,
    prefixLength,
    sha256 ?? ((bytes) => new Uint8Array(new BigUint64Array([hash(bytes)]).buffer)),
  );
  const completeTensors = journal ? await resume(data, journal) : 0;
  if (completeTensors)
    await onKept?.(completeTensors, async (tensor, from, length) => {
      const bytes = await sink.read?.(prefixLength + entries[tensor].offset + from, length);
      if (bytes?.length !== length)
        throw new BqError('READ', `tensor "${entries[tensor].name}" can't be read back from the unfinished file`);
      return bytes;
    });
  let lastMark = { tensors: completeTensors, position: data.position, hashes: data.hashes.length };
  for (const [i, { offset, bytes, name }] of entries.entries()) {
    if (i < completeTensors) continue;
    await data.put(new Uint8Array(offset - data.position));
    for await (const piece of model.tensors[i].pieces()) {
      signal?.throwIfAborted();
      await data.put(piece);
      onBytes?.(data.position, dataBytes);
    }
    if (data.position !== offset + bytes)
      throw new BqError('SHAPE', `tensor "${name}" yielded ${data.position - offset} bytes; expected ${bytes}`);
    if (!journal || data.position - lastMark.position < noteEvery) continue;
    const hashes = (await data.mark()).slice(lastMark.hashes).map((h) => globalThis.Buffer.from(h).toString('hex'));
    await journal.note({
      tensors: i + 1,
      position: data.position,
      hashes,
      reports: reports?.(lastMark.tensors).slice(0, i + 1 - lastMark.tensors) ?? [],
    });
    lastMark = { tensors: i + 1, position: data.position, hashes: data.hashes.length };
  }
  await data.flush();
  const prefixOf = (/** @type {Uint8Array} */ id) =>
    encodePrefix({
      plan: planAt(prefixLength),
      others,
      dataBytes,
      hashes: data.hashes,
      hashBytes: sha256 ? 32 : 8,
      fileId: id,
      hash,
    });
  await sink.write(0, prefixOf(typeof fileId === 'function' ? fileId(prefixOf(new Uint8Array(16))) : fileId));
  return { bytes: prefixLength + dataBytes, prefixBytes: prefixLength, dataBytes };
}
