/** Writes QSF1 files (docs/FORMAT.md §6), one layer at a time. A model that the header cannot describe is an error. */
import { BqError } from '../../shared/errors.js';
import { completeConfig } from '../bq4/config.js';
import { rowsPerPiece } from '../bq4/encode-tensor.js';
import { decodeRows, encodeRows, f16, kindNamed, rowBytes } from './blocks.js';
import { methodNamed, pack } from './compression.js';
import {
  archNumber,
  choicesOf,
  configOf,
  crc32,
  encodeHeader,
  encodeIndex,
  ENTRY_BYTES,
  HEADER_BYTES,
  NONE,
} from './header.js';
import { AS_LAYER, BIASES, CHUNK, FFN_BIASES, ffnParts, MATRICES, NORM_TYPES, TIED } from './layout.js';
import { ErrorSum, errorsOf } from '../conversion-report.js';
import { pick } from '../bq4/tensor-views.js';
import { matrixOf } from '../bq4/write-v2.js';

/** @import { Match } from '../bq4/encode-tensor.js' */
/** @import { Kind } from './blocks.js' */
/** @import { Header } from './header.js' */
/** @import { InTensor } from '../checkpoint-tensors.js' */
/** @import { TensorReport } from '../conversion-report.js' */
/** @import { Sink } from '../output.js' */

/** Options that QSF files cannot represent. */
const UNSUPPORTED_OPTIONS = ['hash', 'v1', 'license', 'card', 'chat'];
/** Keys of the configuration that the header does not need: they have no effect, or follow from the tensors. */
const IGNORED_KEYS = ['arch', 'rope_pairs', 'text_tokens', 'pooling', 'normalize'];

/**
 * @typedef {{
 *   quant?: string, embed?: string, compress?: string, signal?: AbortSignal,
 *   onProgress?: (done: number, total: number) => void, [other: string]: any
 * }} QsfOptions
 */

/**
 * Returns the kinds of blocks and the compression that the options specify. Throws ARGUMENT.
 * @param {QsfOptions} options
 */
export function qsfChoices({ quant = 'q4a', embed = 'q4a', compress = 'none', ...others }) {
  const unsupported = UNSUPPORTED_OPTIONS.find((key) => others[key]);
  if (unsupported)
    throw new BqError('ARGUMENT', `--${unsupported} is not supported for .qsf files`, { hint: 'write a .bq4 file' });
  return { quant: kindNamed(quant), embed: kindNamed(embed), method: methodNamed(compress) };
}

/** Reorders rows of q or k from adjacent rotary pairs to halves. @param {InTensor} tensor @param {number} headDim */
function toHalves(tensor, headDim) {
  const half = headDim / 2;
  const sourceRow = (/** @type {number} */ row) => {
    const i = row % headDim;
    return row - i + (i < half ? 2 * i : 2 * (i - half) + 1);
  };
  return pick(
    tensor,
    Array.from({ length: tensor.dims[0] }, (_, row) => sourceRow(row)),
  );
}

/**
 * Throws UNSUPPORTED if the configuration that a reader derives from the header differs from the model's.
 * @param {Header} h @param {Record<string, any>} config  configuration with defaults filled in
 */
function checkExpressible(h, config) {
  const missing = /** @type {const} */ (['norm', 'position', 'activation']).find((key) => h[key] < 0);
  if (missing)
    throw new BqError('UNSUPPORTED', `a .qsf file has no number for this model's "${missing}"`, {
      hint: 'write a .bq4 file',
    });
  const readConfig = completeConfig(configOf('the file', h, { gated: !!config.gated, tied: !!config.tied }));
  const lostKey = Object.keys(config).find(
    (key) =>
      !IGNORED_KEYS.includes(key) &&
      (Array.isArray(config[key]) || Math.fround(config[key]) !== Math.fround(readConfig[key] ?? 0)) &&
      !(key.startsWith('rope') && h.position !== 1),
  );
  if (lostKey)
    throw new BqError('UNSUPPORTED', `a .qsf file can't express that "${lostKey}" is ${config[lostKey]}`, {
      hint: 'write a .bq4 file',
    });
}

/** Writes one model. */
class Writer {
  /** Tensors that have not been written yet. @type {Map<string, InTensor>} */
  tensors;
  /** @type {TensorReport[]} */
  reports = [];
  position = 0;
  done = 0;

  /** @param {Sink} sink @param {Match[]} matches @param {QsfOptions} options */
  constructor(sink, matches, options) {
    this.sink = sink;
    this.tensors = new Map(matches.map(({ slot, tensor }) => [slot.name, tensor]));
    this.options = options;
    this.total = matches.reduce((sum, { slot }) => sum + 4 * slot.dims.reduce((a, b) => a * b, 1), 0);
    this.largest = Math.max(...matches.map(({ slot }) => 4 * rowsPerPiece(slot.dims) * matrixOf(slot.dims).cols));
  }

  /** @param {Uint8Array} bytes */
  async put(bytes) {
    this.options.signal?.throwIfAborted();
    await this.sink.write(this.position, bytes);
    this.position += bytes.length;
  }

  /**
   * Removes a tensor from the tensors to write, and returns it; null if no tensor has this name.
   * @param {string} name
   */
  take(name) {
    const tensor = this.tensors.get(name) ?? null;
    this.tensors.delete(name);
    return tensor;
  }

  /**
   * Yields a tensor's bytes in pieces of complete rows, then adds its report.
   * @param {string} name @param {InTensor} tensor @param {Kind} kind
   */
  async *encoded(name, tensor, kind) {
    const { rows, cols } = matrixOf(tensor.dims);
    const step = rowsPerPiece(tensor.dims);
    const errors = new ErrorSum();
    for (let row = 0; row < rows; row += step) {
      this.options.signal?.throwIfAborted();
      const n = Math.min(step, rows - row);
      const values = await tensor.read(row, n);
      const bytes = encodeRows(name, kind, values, n, cols, row * cols);
      errors.add(values.length, errorsOf(values, decodeRows(kind, bytes, n, cols)));
      yield bytes;
      this.done += 4 * values.length;
      this.options.onProgress?.(this.done, this.total);
    }
    this.reports.push({ name, type: kind.name, layout: 'rows', bytes: rows * rowBytes(kind, cols), ...errors.figures });
  }

  /**
   * Writes a table of vectors: embedding, positions or LM head.
   * @param {string} name @param {InTensor} tensor @param {Kind} kind
   */
  async section(name, tensor, kind) {
    const [vectors, dim] = tensor.dims;
    const vectorBytes = rowBytes(kind, dim);
    const chunks = vectors > CHUNK ? Math.ceil(vectors / CHUNK) : 0;
    const stored = vectors * vectorBytes + 4 * chunks;
    if (stored >= 2 ** 32)
      throw new BqError('UNSUPPORTED', `tensor "${name}" has ${stored} bytes; the limit of .qsf files is 4 GiB`);
    await this.put(words(kind.id, stored, vectors, dim));
    const writeChunkSize = async (/** @type {number} */ row) =>
      this.put(words(Math.min(CHUNK, vectors - row) * vectorBytes));
    let row = 0;
    for await (const bytes of this.encoded(name, tensor, kind)) {
      for (let at = 0; at < bytes.length;) {
        if (chunks && row % CHUNK === 0) await writeChunkSize(row);
        const rows = Math.min((bytes.length - at) / vectorBytes, chunks ? CHUNK - (row % CHUNK) : Infinity);
        await this.put(bytes.subarray(at, at + rows * vectorBytes));
        at += rows * vectorBytes;
        row += rows;
      }
    }
  }

  /**
   * Returns the uncompressed bytes of layer n.
   * @param {number} n @param {Header} h @param {boolean} gated @param {Kind} kind
   */
  async layer(n, h, gated, kind) {
    /** @type {Uint8Array[]} */
    const parts = [];
    let tensors = 0;
    const beginEntry = (
      /** @type {number} */ type,
      /** @type {number} */ rows,
      /** @type {number} */ cols,
      /** @type {number} */ quant,
    ) => {
      tensors++;
      parts.push(words(type, rows, cols, quant));
    };
    const addVector = async (/** @type {string} */ name, /** @type {InTensor} */ tensor) => {
      for await (const bytes of this.encoded(name, tensor, f16)) parts.push(bytes);
    };
    for (const [type, module] of Object.entries(MATRICES)) {
      const name = `h.${n}.${module}.weight`;
      const tensor = this.take(name);
      if (!tensor) continue;
      beginEntry(Number(type), tensor.dims[0], tensor.dims[1], AS_LAYER);
      for await (const bytes of this.encoded(name, tensor, kind)) parts.push(bytes);
    }
    for (const [type, module] of Object.entries({ ...NORM_TYPES, ...BIASES })) {
      const norm = Number(type) in NORM_TYPES;
      const present = (norm ? ['weight', 'bias'] : ['bias']).flatMap((part) => {
        const name = `h.${n}.${module}.${part}`;
        const tensor = this.take(name);
        return tensor ? [{ name, tensor }] : [];
      });
      if (!present.length) continue;
      beginEntry(Number(type), present.length, present[0].tensor.dims[0], f16.id);
      for (const { name, tensor } of present) await addVector(name, tensor);
    }
    const biases = ffnParts(gated, h.ffn, h.hidden).map(([module, size]) => ({
      name: `h.${n}.${module}.bias`,
      size,
      tensor: this.take(`h.${n}.${module}.bias`),
    }));
    if (biases.some(({ tensor }) => tensor)) {
      beginEntry(
        FFN_BIASES,
        1,
        biases.reduce((sum, { size }) => sum + size, 0),
        f16.id,
      );
      for (const { name, size, tensor } of biases) {
        if (tensor) await addVector(name, tensor);
        else parts.push(new Uint8Array(2 * size));
      }
    }
    return { bytes: new Uint8Array(globalThis.Buffer.concat(parts)), tensors };
  }
}

/** Encodes numbers as little-endian u32. @param {number[]} values */
function words(...values) {
  const view = new DataView(new ArrayBuffer(4 * values.length));
  values.forEach((value, i) => view.setUint32(4 * i, value, true));
  return new Uint8Array(view.buffer);
}

/**
 * @param {Record<string, number>} c  configuration with defaults filled in
 * @param {string} arch @param {import('../../text/tokenizers/section.js').Tokenizer | null} tokenizer
 * @param {number} quant
 * @returns {Header}
 */
const headerOf = (c, arch, tokenizer, quant) => ({
  arch: archNumber(arch),
  layers: c.layers,
  hidden: c.hidden,
  heads: c.heads,
  kvHeads: c.kv_heads,
  vocab: c.vocab,
  context: c.context,
  ffn: c.ffn,
  headDim: c.head_dim,
  quant,
  ...choicesOf(/** @type {any} */ (c)),
  theta: c.rope_theta,
  index: HEADER_BYTES,
  embedding: 0,
  final: 0,
  bos: tokenizer?.bos ?? NONE,
  eos: tokenizer?.eos ?? NONE,
  pad: tokenizer?.pad ?? NONE,
  fileSize: 0,
});

/**
 * Writes the file and finishes the sink; if this fails, it aborts the sink. Throws ARGUMENT, UNSUPPORTED, FORMAT,
 * WRITE.
 * @param {Sink} sink
 * @param {Match[]} matches  in execution order
 * @param {QsfOptions} options
 * @param {{
 *   config: Record<string, any>, tokenizer: import('../../text/tokenizers/section.js').Tokenizer | null
 * }} facts
 * @returns {Promise<{ bytes: number, dataBytes: number, reports: TensorReport[], largestPiece: number }>}
 */
export async function writeQsf(sink, matches, options, { config, tokenizer }) {
  try {
    const { quant, embed, method } = qsfChoices(options);
    const c = completeConfig(config);
    const h = headerOf(c, config.arch, tokenizer, quant === f16 ? 5 : quant.id);
    checkExpressible(h, c);
    const isReordered = c.rope_pairs === 1 && c.position === 0;
    const reordered = matches.map(({ slot, tensor }) => ({
      slot,
      tensor: isReordered && /attn\.[qk]\.(weight|bias)$/.test(slot.name) ? toHalves(tensor, c.head_dim) : tensor,
    }));
    const writer = new Writer(sink, reordered, options);
    const start = HEADER_BYTES + ENTRY_BYTES * c.layers;
    writer.position = start;
    h.embedding = writer.position;
    for (const name of ['wte.weight', 'wpe.weight']) {
      const table = writer.take(name);
      if (table) await writer.section(name, table, embed);
    }
    const index = [];
    for (let n = 0; n < c.layers; n++) {
      const { bytes, tensors } = await writer.layer(n, h, !!c.gated, quant);
      const stored = pack(method, bytes);
      if (bytes.length >= 2 ** 32 || stored.length >= 2 ** 32)
        throw new BqError('UNSUPPORTED', `layer ${n} has ${bytes.length} bytes; the limit of .qsf files is 4 GiB`);
      index.push({
        offset: writer.position,
        stored: stored.length,
        size: bytes.length,
        quant: quant.id,
        method,
        tensors,
        crc: crc32(stored),
      });
      await writer.put(stored);
    }
    h.final = writer.position;
    await writeEnd(writer, h, embed);
    const unwritten = writer.tensors.keys().next().value;
    if (unwritten)
      throw new BqError('UNSUPPORTED', `tensor "${unwritten}" is not supported in a .qsf file`, {
        hint: 'write a .bq4 file',
      });
    h.fileSize = writer.position % 2 ** 32;
    await sink.write(0, encodeHeader(h));
    await sink.write(HEADER_BYTES, encodeIndex(index));
    await sink.finish();
    return {
      bytes: writer.position,
      dataBytes: writer.position - start,
      reports: writer.reports,
      largestPiece: writer.largest,
    };
  } finally {
    await sink.abort();
  }
}

/**
 * Writes the final norm, then the LM head, or a flag if the LM head is tied.
 * @param {Writer} writer @param {Header} h @param {Kind} embed
 */
async function writeEnd(writer, h, embed) {
  for (const part of h.norm === 0 ? ['weight', 'bias'] : ['weight']) {
    const vector = writer.take(`ln_f.${part}`);
    if (!vector) await writer.put(new Uint8Array(2 * h.hidden));
    else for await (const bytes of writer.encoded(`ln_f.${part}`, vector, f16)) await writer.put(bytes);
  }
  const head = writer.take('lm_head.weight');
  await writer.put(Uint8Array.of(head ? 0 : TIED));
  if (head) await writer.section('lm_head.weight', head, embed);
}
