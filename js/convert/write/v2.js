/**
 * Writes v2 files (docs/FORMAT.md §2) front to back with bounded memory: sizes are known from the directory, so the
 * data goes to its final place first, hashed on the way, and the prefix, which carries the hashes, goes last.
 */
import { BqError } from '../../shared/errors.js';
import { encodeConfig } from '../config.js';
import { ALIGN, alignUp, CHUNK, encodeDirectory, encodePrefix, prefixSizes, section } from './frame.js';
import { weightBytes } from '../weights.js';

/**
 * @typedef {object} OutTensor
 * @property {string} name
 * @property {import('../weights.js').WeightType} type
 * @property {number} layout
 * @property {readonly number[]} dims
 * @property {() => AsyncIterable<Uint8Array>} pieces  its bytes as the file has them, in pieces of any size
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
 */

/**
 * @typedef {object} WriteOptions
 * @property {(bytes: Uint8Array) => bigint} hash  XXH64
 * @property {(bytes: Uint8Array) => Uint8Array} [sha256]  given: chunks are hashed with it, in place of XXH64
 * @property {Uint8Array} [fileId]  16 bytes; default: random
 * @property {(done: number, total: number) => void} [onBytes]  data written so far
 * @property {AbortSignal} [signal]
 */

/** (rows, columns) of a shape: one-dimensional tensors have one row. @param {readonly number[]} dims */
export function matrixOf(dims) {
  const cols = dims[dims.length - 1];
  return { rows: dims.slice(0, -1).reduce((a, b) => a * b, 1), cols };
}

/** Collects bytes into chunks, hashes and writes each. */
class ChunkWriter {
  #buffer = new Uint8Array(CHUNK);
  #filled = 0;
  /** Bytes taken so far. */
  position = 0;
  /** @type {Uint8Array[]} */
  hashes = [];

  /** @param {import('./output.js').Sink} sink @param {number} start  where the data begins @param {(bytes: Uint8Array) => Uint8Array} hash */
  constructor(sink, start, hash) {
    this.sink = sink;
    this.start = start;
    this.hash = hash;
  }

  /** @param {Uint8Array} bytes */
  async put(bytes) {
    for (let at = 0; at < bytes.length; ) {
      const piece = bytes.subarray(at, at + CHUNK - this.#filled);
      this.#buffer.set(piece, this.#filled);
      this.#filled += piece.length;
      this.position += piece.length;
      at += piece.length;
      if (this.#filled === CHUNK) await this.flush();
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

/** Offsets within the data. @param {readonly OutTensor[]} tensors */
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
 * Writes the model and finishes the sink; on failure the sink is aborted.
 * @param {import('./output.js').Sink} sink
 * @param {OutModel} model
 * @param {WriteOptions} options
 * @returns {Promise<{ bytes: number, prefixBytes: number, dataBytes: number }>}
 */
export async function writeV2(sink, model, options) {
  try {
    const written = await write(sink, model, options);
    await sink.finish();
    return written;
  } finally {
    await sink.abort();
  }
}

/** @param {Uint8Array | null | undefined} tokenizer  tokens and merges lie at 32 and 36 of a TOKN payload */
function tokenCounts(tokenizer) {
  if (!tokenizer) return {};
  const view = new DataView(tokenizer.buffer, tokenizer.byteOffset, tokenizer.length);
  return { tokens: view.getUint32(32, true), merges: view.getUint32(36, true) };
}

/** @param {import('./output.js').Sink} sink @param {OutModel} model @param {WriteOptions} options */
async function write(sink, model, { hash, sha256, fileId = crypto.getRandomValues(new Uint8Array(16)), onBytes, signal }) {
  const { entries, dataBytes } = layOut(model.tensors);
  const planAt = (/** @type {number} */ start) => [
    ...section('CONF', encodeConfig({ ...model.config, ...tokenCounts(model.tokenizer) }), true),
    ...section('LICE', model.license),
    ...section('NAME', model.name),
    ...section('TENS', encodeDirectory(entries.map((e) => ({ ...e, offset: e.offset + start }))), true),
  ];
  const rest = [
    ...section('TOKN', model.tokenizer),
    ...section('CHAT', model.chat),
    ...section('TMPL', model.template),
    ...section('CARD', model.card),
  ];
  const { prefixLength } = prefixSizes(planAt(0), rest, dataBytes, sha256 ? 32 : 8);
  const data = new ChunkWriter(sink, prefixLength, sha256 ?? ((bytes) => new Uint8Array(new BigUint64Array([hash(bytes)]).buffer)));
  for (const [i, { offset, bytes, name }] of entries.entries()) {
    await data.put(new Uint8Array(offset - data.position));
    for await (const piece of model.tensors[i].pieces()) {
      signal?.throwIfAborted();
      await data.put(piece);
      onBytes?.(data.position, dataBytes);
    }
    if (data.position !== offset + bytes) throw new BqError('SHAPE', `tensor "${name}" gave ${data.position - offset} bytes, not ${bytes}`);
  }
  await data.flush();
  const prefix = encodePrefix({ plan: planAt(prefixLength), rest, dataBytes, hashes: data.hashes, hashBytes: sha256 ? 32 : 8, fileId, hash });
  await sink.write(0, prefix);
  return { bytes: prefixLength + dataBytes, prefixBytes: prefixLength, dataBytes };
}
