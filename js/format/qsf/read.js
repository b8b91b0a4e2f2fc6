/**
 * Reads QSF1 files (docs/FORMAT.md §6). Every length, offset and CRC-32 is checked before use; layers are decompressed
 * one at a time.
 */
import { BqError } from '../../shared/errors.js';
import { openBytes } from '../../storage/sources/bytes.js';
import { readRange } from '../../storage/sources/read.js';
import { decodeRows, f16, kindOf, bq4TypeOf, rowBytes, toBq4Blocks } from './blocks.js';
import { unpack } from './compression.js';
import { configOf, crc32, ENTRY_BYTES, HEADER_BYTES, NONE, readHeader, readIndex } from './header.js';
import { BIASES, CHUNK, FFN_BIASES, ffnParts, MATRICES, NORM_TYPES, TENSOR_HEADER, TIED } from './layout.js';
import { pick, range } from '../bq4/tensor-views.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { Kind } from './blocks.js' */
/** @import { Header, Layer } from './header.js' */
/** @import { InTensor } from '../checkpoint-tensors.js' */

/** Limit of a decompressed layer's size in bytes. */
const MAX_LAYER_BYTES = 2 ** 30;

/**
 * Reads a range of the file or of a decompressed layer.
 * @typedef {(from: number, to: number) => Promise<Uint8Array>} Read
 */

/**
 * Returns a function that reads ranges of a source completely, and throws TRUNCATED beyond its end.
 * @param {ByteSource} file @param {string} name  name for errors @returns {Read}
 */
const readerOf = (file, name) => async (from, to) => {
  const bytes = await readRange(file, from, to);
  if (bytes.length !== to - from)
    throw new BqError('TRUNCATED', `${name} ends after ${from + bytes.length} bytes; expected at least ${to}`, {
      offset: from + bytes.length,
    });
  return bytes;
};

/** @param {Uint8Array} bytes @returns {number[]} */
const wordsOf = (bytes) =>
  Array.from({ length: bytes.length / 4 }, (_, i) =>
    new DataView(bytes.buffer, bytes.byteOffset).getUint32(4 * i, true),
  );

/**
 * Returns a function that reads rows of a matrix, whose blocks begin at offset `at`.
 * @param {Read} read @param {string} name  name for errors
 * @param {Kind} kind @param {number} at @param {number} cols @returns {InTensor['read']}
 */
const rowsAt = (read, name, kind, at, cols) => async (row, rows) => {
  const bytes = rowBytes(kind, cols);
  const stored = await read(at + row * bytes, at + (row + rows) * bytes);
  try {
    return decodeRows(kind, stored, rows, cols);
  } catch (cause) {
    throw new BqError('FORMAT', `${name}, rows from ${row} on: ${/** @type {Error} */ (cause).message}`, {
      cause,
      offset: at + row * bytes,
    });
  }
};

/**
 * Returns access to the rows of a matrix as blocks of a .bq4 type; undefined if there is no equivalent type.
 * @param {Read} read @param {Kind} kind @param {number} at @param {number} cols @returns {InTensor['stored']}
 */
function storedAt(read, kind, at, cols) {
  const [type, bytes] = [bq4TypeOf(kind), rowBytes(kind, cols)];
  return (
    type && {
      type,
      read: async (row, rows) => toBq4Blocks(kind, await read(at + row * bytes, at + (row + rows) * bytes)),
    }
  );
}

/**
 * Reads a table of vectors: embedding, positions or LM head. A table with more than 50,000 vectors is divided into
 * chunks, each preceded by its length.
 * @param {Read} read @param {string} name  name for errors @param {number} at  offset of the table
 * @param {number} vectors  number of vectors according to the header
 * @param {number} dim  their size according to the header
 * @returns {Promise<{ tensor: InTensor, end: number }>}
 */
async function section(read, name, at, vectors, dim) {
  const [quant, stored, count, width] = wordsOf(await read(at, at + 16));
  const kind = kindOf(quant);
  if (!kind) throw new BqError('UNSUPPORTED', `${name} has the unknown type ${quant}`, { offset: at });
  if (count !== vectors || width !== dim)
    throw new BqError('SHAPE', `${name} is ${count} × ${width}; the header implies ${vectors} × ${dim}`, {
      offset: at + 8,
    });
  const vectorBytes = rowBytes(kind, dim);
  const start = at + 16;
  if (vectors <= CHUNK) {
    if (stored !== vectors * vectorBytes)
      throw new BqError('FORMAT', `${name} has ${stored} bytes; expected ${vectors * vectorBytes}`, { offset: at + 4 });
    if (stored) await read(start + stored - 1, start + stored);
    return {
      tensor: { type: kind.name, dims: [vectors, dim], read: rowsAt(read, name, kind, start, dim) },
      end: start + stored,
    };
  }
  /** @type {InTensor['read'][]} */
  const chunks = [];
  let offset = start;
  for (let first = 0; first < vectors; first += CHUNK) {
    const [bytes] = wordsOf(await read(offset, offset + 4));
    const rows = Math.min(CHUNK, vectors - first);
    if (bytes !== rows * vectorBytes)
      throw new BqError(
        'FORMAT',
        `${name}: a chunk of ${rows} vectors has ${bytes} bytes; expected ${rows * vectorBytes}`,
        {
          offset: offset,
        },
      );
    chunks.push(rowsAt(read, name, kind, offset + 4, dim));
    offset += 4 + bytes;
  }
  if (offset - start !== stored)
    throw new BqError('FORMAT', `${name} declares ${stored} bytes, but its chunks have ${offset - start}`, {
      offset: at + 4,
    });
  await read(offset - 1, offset);
  const parts = async (/** @type {number} */ row, /** @type {number} */ rows) => {
    const out = new Float32Array(rows * dim);
    for (let i = 0; i < rows;) {
      const [chunk, from] = [Math.floor((row + i) / CHUNK), (row + i) % CHUNK];
      const n = Math.min(rows - i, CHUNK - from);
      out.set(await chunks[chunk](from, n), i * dim);
      i += n;
    }
    return out;
  };
  return { tensor: { type: kind.name, dims: [vectors, dim], read: parts }, end: offset };
}

/** Returns an upper bound of a layer's size, with all tensors as f16. @param {Header} h */
function maxLayerBytes({ hidden, heads, kvHeads, headDim, ffn }) {
  const matrix = (/** @type {number} */ rows, /** @type {number} */ cols) => rows * (2 * cols + 36);
  const [q, kv] = [heads * headDim, kvHeads * headDim];
  return (
    matrix(q, hidden) +
    2 * matrix(kv, hidden) +
    matrix(hidden, q) +
    2 * matrix(ffn, hidden) +
    matrix(hidden, ffn) +
    2 * (6 * hidden + q + 2 * kv + 2 * ffn) +
    14 * TENSOR_HEADER
  );
}

/** Reads layers and decompresses them; caches the last decompressed layer. */
class Layers {
  /** The last decompressed layer. @type {{ n: number, read: Promise<Read> } | null} */
  #latest = null;

  /** @param {ByteSource} file @param {Layer[]} index @param {number} maxBytes  upper bound of a layer's size */
  constructor(file, index, maxBytes) {
    this.file = file;
    this.index = index;
    this.maxBytes = Math.min(maxBytes, MAX_LAYER_BYTES);
  }

  /** Checks size and CRC-32 of layer n. Throws FORMAT, TRUNCATED. @param {number} n */
  async check(n) {
    const { offset, stored, size, crc } = this.index[n];
    const name = `${this.file.name}, layer ${n}`;
    if (size > this.maxBytes)
      throw new BqError(
        'FORMAT',
        `${name} declares ${size} decompressed bytes; the limit for this model is ${this.maxBytes}`,
        { offset },
      );
    let [found, length] = [0, 0];
    for await (const piece of this.file.stream(offset, offset + stored)) {
      found = crc32(piece, found);
      length += piece.length;
    }
    if (length !== stored)
      throw new BqError('TRUNCATED', `${name} ends after ${length} bytes`, { offset: offset + length });
    if (found !== crc)
      throw new BqError('FORMAT', `${name} is damaged (CRC-32)`, { offset, hint: 'fetch the file again' });
  }

  /** Returns a function that reads ranges of the decompressed layer n. @param {number} n @returns {Read} */
  reader(n) {
    const { offset, stored, size, method } = this.index[n];
    const name = `${this.file.name}, layer ${n}`;
    const read = readerOf(this.file, name);
    if (!method) return (from, to) => read(offset + from, offset + to);
    const unpacked = async () => {
      try {
        return readerOf(openBytes(unpack(method, await read(offset, offset + stored), size)), name);
      } catch (cause) {
        if (!(cause instanceof BqError)) throw cause;
        throw new BqError(cause.code, `${name}: ${cause.message}`, { cause, offset, hint: cause.hint });
      }
    };
    return async (from, to) => {
      if (this.#latest?.n !== n) this.#latest = { n, read: unpacked() };
      return (await this.#latest.read)(from, to);
    };
  }
}

/**
 * Returns the tensors of layer n with their canonical names. Throws FORMAT, TRUNCATED, UNSUPPORTED, SHAPE.
 * @param {Layers} layers @param {number} n @param {Header} h @returns {Promise<[string, InTensor][]>}
 */
async function layerTensors(layers, n, h) {
  const { size, tensors: count, quant } = layers.index[n];
  const name = `${layers.file.name}, layer ${n}`;
  await layers.check(n);
  const read = layers.reader(n);
  /** @type {Map<number, InTensor>} */
  const tensorsByType = new Map();
  let at = 0;
  for (let i = 0; i < count; i++) {
    if (size - at < TENSOR_HEADER) throw new BqError('FORMAT', `${name} ends within the header of tensor ${i}`);
    const head = await read(at, at + TENSOR_HEADER);
    const [type, rows, cols] = wordsOf(head.slice(0, 12));
    const kind = kindOf(head[12] === 0xff ? quant : head[12]);
    const bad = (/** @type {'FORMAT' | 'UNSUPPORTED'} */ code, /** @type {string} */ problem) =>
      new BqError(code, `${name}: tensor ${i} of type ${type} ${problem}`);
    if (type > FFN_BIASES) throw bad('UNSUPPORTED', 'has an unknown type');
    if (!kind) throw bad('UNSUPPORTED', `has blocks of the unknown kind ${head[12]}`);
    if (head[13] || head[14] || head[15]) throw bad('UNSUPPORTED', 'has reserved bytes that are not zero');
    if (tensorsByType.has(type)) throw bad('FORMAT', 'appears twice');
    at += TENSOR_HEADER;
    const bytes = rows * rowBytes(kind, cols);
    if (!rows || !cols || !(bytes <= size - at)) throw bad('FORMAT', `is ${rows} × ${cols}, which exceeds its layer`);
    tensorsByType.set(type, {
      type: kind.name,
      dims: [rows, cols],
      read: rowsAt(read, `${name}, tensor ${i}`, kind, at, cols),
      stored: MATRICES[type] ? storedAt(read, kind, at, cols) : undefined,
    });
    at += bytes;
  }
  if (at !== size)
    throw new BqError('FORMAT', `${name} has ${size - at} bytes that belong to no tensor`, {
      hint: 'outlier weights are not supported',
    });
  return [...tensorsByType].flatMap(([type, tensor]) =>
    canonicalTensors(type, tensor, tensorsByType.has(4), h, name).map(
      ([part, t]) => /** @type {[string, InTensor]} */ ([`h.${n}.${part}`, t]),
    ),
  );
}

/**
 * Returns a tensor, or the vectors in it, with canonical names. Throws SHAPE.
 * @param {number} type @param {InTensor} tensor @param {boolean} gated @param {Header} h
 * @param {string} layer  name of the layer, for errors
 * @returns {[string, InTensor][]}
 */
function canonicalTensors(type, tensor, gated, h, layer) {
  if (MATRICES[type]) return [[`${MATRICES[type]}.weight`, tensor]];
  const [rows, cols] = tensor.dims;
  const norm = NORM_TYPES[type];
  if (rows > (norm ? 2 : 1))
    throw new BqError('SHAPE', `${layer}: a tensor of type ${type} has ${rows} rows; the limit is ${norm ? 2 : 1}`);
  const rowOf = (/** @type {number} */ row) => ({ type: tensor.type, dims: [cols], read: () => tensor.read(row, 1) });
  if (norm) return ['weight', 'bias'].slice(0, rows).map((part, row) => [`${norm}.${part}`, rowOf(row)]);
  if (BIASES[type]) return [[`${BIASES[type]}.bias`, rowOf(0)]];
  const parts = ffnParts(gated, h.ffn, h.hidden);
  const sum = parts.reduce((total, [, size]) => total + size, 0);
  if (cols !== sum) throw new BqError('SHAPE', `${layer}: its MLP has ${cols} biases; expected ${sum}`);
  let from = 0;
  return parts.map(([part, size]) => [
    `${part}.bias`,
    { ...pick(rowOf(0), range((from += size) - size, size)), type: tensor.type },
  ]);
}

/**
 * Reads a QSF1 file. Throws NOT_A_MODEL, FORMAT, TRUNCATED, UNSUPPORTED, SHAPE.
 * @param {ByteSource} file
 * @returns {Promise<{ config: Record<string, any>, tensors: Map<string, InTensor>, ends: number[] }>}  ends: the EOS
 *   token, if the file has one
 */
export async function readQsf(file) {
  const h = readHeader(file.name, await readRange(file, 0, HEADER_BYTES), file.size);
  const read = readerOf(file, file.name);
  const index = readIndex(file.name, await read(h.index, h.index + h.layers * ENTRY_BYTES), h.index, file.size);
  /** @type {Map<string, InTensor>} */
  const tensors = new Map();
  const embedding = await section(read, `${file.name}: the embedding`, h.embedding, h.vocab, h.hidden);
  tensors.set('wte.weight', embedding.tensor);
  if (h.position === 0)
    tensors.set(
      'wpe.weight',
      (await section(read, `${file.name}: the position embedding`, embedding.end, h.context, h.hidden)).tensor,
    );
  const layers = new Layers(file, index, maxLayerBytes(h));
  for (let n = 0; n < h.layers; n++)
    for (const [name, tensor] of await layerTensors(layers, n, h)) tensors.set(name, tensor);
  const parts = h.norm === 0 ? ['weight', 'bias'] : ['weight'];
  parts.forEach((part, i) =>
    tensors.set(`ln_f.${part}`, {
      type: f16.name,
      dims: [h.hidden],
      read: () => rowsAt(read, `${file.name}: the final norm`, f16, h.final, h.hidden)(i, 1),
    }),
  );
  const end = h.final + parts.length * 2 * h.hidden;
  const [flag] = await read(end, end + 1);
  if (flag !== TIED && flag !== 0)
    throw new BqError('FORMAT', `${file.name}: the flag before the LM head is ${flag}; expected 255 or 0`, {
      offset: end,
    });
  if (flag === 0)
    tensors.set(
      'lm_head.weight',
      (await section(read, `${file.name}: the LM head`, end + 1, h.vocab, h.hidden)).tensor,
    );
  const config = configOf(file.name, h, { gated: tensors.has('h.0.mlp.gate.weight'), tied: flag === TIED });
  return { config, tensors, ends: h.eos === NONE ? [] : [h.eos] };
}
