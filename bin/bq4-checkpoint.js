/**
 * Opens a .bq4 file of version 2 as input of quantization: tensors are decoded to f32, other sections are unchanged.
 */
import { decodeConfig } from '../js/format/bq4/config.js';
import { createCodec } from '../js/format/bq4/codec.js';
import { rowsPerPiece } from '../js/format/bq4/encode-tensor.js';
import { ROWS, TILED, TYPES, weightBytes } from '../js/format/bq4/weight-types.js';
import { matrixOf } from '../js/format/bq4/write-v2.js';
import { BqError } from '../js/shared/errors.js';
import { sections, u32, u64 } from '../js/shared/sections.js';
import { readRange } from '../js/storage/sources/read.js';
import { readTensors } from './inspect.js';
import { versionOf } from './version-of.js';

/** @import { InTensor } from '../js/format/checkpoint-tensors.js' */
/** @import { ByteSource } from '../js/storage/sources/types.js' */

const HEADER = 64;
const LAYOUTS = ['rows', 'tiled'];
const text = (/** @type {Uint8Array | undefined} */ bytes) => new TextDecoder().decode(bytes ?? new Uint8Array());

/**
 * Returns a tensor that is read by rows. Throws UNSUPPORTED.
 * @param {ByteSource} file @param {ReturnType<typeof readTensors>[number]} tensor
 * @param {() => Promise<import('../js/format/bq4/codec.js').Codec>} codec @returns {InTensor}
 */
function rowsOf(file, { name, type: typeName, layout: layoutName, dims, offset }, codec) {
  const { cols } = matrixOf(dims);
  const knownType = TYPES.find((t) => t.name === typeName);
  const layout = LAYOUTS.indexOf(layoutName);
  if (!knownType || layout < 0)
    throw new BqError('UNSUPPORTED', `tensor "${name}" has the unsupported type ${typeName} in layout ${layoutName}`);
  const type = knownType;
  /** Decodes rows: complete tiles, except at the end. @param {number} row @param {number} rows */
  async function decodeRows(row, rows) {
    const [from, to] = [row, row + rows].map((r) => offset + (r ? weightBytes(type, layout, r, cols) : 0));
    const bytes = await readRange(file, from, to);
    if (bytes.length !== to - from)
      throw new BqError('TRUNCATED', `${file.name} ends after ${from + bytes.length} bytes`, {
        offset: from + bytes.length,
      });
    return (await codec()).dequantize(type, layout, bytes, rows, cols);
  }
  const maxRows = rowsPerPiece(dims);
  return {
    dims,
    at: offset,
    type: typeName,
    ...(layout === ROWS && {
      stored: {
        type,
        read: async (row, rows) =>
          readRange(
            file,
            offset + (row ? weightBytes(type, ROWS, row, cols) : 0),
            offset + weightBytes(type, ROWS, row + rows, cols),
          ),
      },
    }),
    async read(row, rows) {
      if (layout === TILED && row % 8)
        throw new BqError('ARGUMENT', `rows of "${name}" must be read from a multiple of 8 on`);
      const out = new Float32Array(rows * cols);
      for (let r = 0; r < rows; r += maxRows) {
        const n = Math.min(maxRows, rows - r);
        out.set(await decodeRows(row + r, n), r * cols);
      }
      return out;
    },
  };
}

/**
 * Reads the sections of a file; its tensors are read on demand. Throws FORMAT, TRUNCATED, UNSUPPORTED.
 * @param {ByteSource} file  closed by the caller
 * @returns {Promise<import('../js/quantize/index.js').Input>}
 */
export async function bq4Input(file) {
  const header = await readRange(file, 0, HEADER);
  if (text(header.subarray(0, 4)) !== 'BQ4F' || u32(header, 4) !== 2)
    throw new BqError('UNSUPPORTED', `${file.name} is not a .bq4 file of version 2`, {
      hint: 'for a v1 file convert the original model',
    });
  const [planBytes, prefixBytes] = [u64(header, 16), u64(header, 24)];
  const prefix = await readRange(file, 0, prefixBytes);
  if (prefix.length !== prefixBytes || HEADER + planBytes > prefixBytes)
    throw new BqError('TRUNCATED', `${file.name} ends after ${prefix.length} bytes, within its prefix`, {
      offset: prefix.length,
    });
  const plan = sections(prefix);
  const otherSections = sections(prefix, HEADER + planBytes, prefixBytes);
  const listedTensors = readTensors(plan.TENS, plan.TENS.byteOffset - prefix.byteOffset);
  const maxBytes = Math.max(1 << 20, ...listedTensors.map(({ dims }) => 4 * rowsPerPiece(dims) * matrixOf(dims).cols));
  /** @type {ReturnType<typeof createCodec> | undefined} */
  let codec;
  const openCodec = () => (codec ??= createCodec(maxBytes));
  return {
    config: decodeConfig(plan.CONF),
    tensors: new Map(listedTensors.map((tensor) => [tensor.name, rowsOf(file, tensor, openCodec)])),
    stamp: versionOf(file),
    parts: {
      name: text(plan.NAME),
      license: text(plan.LICE),
      tokenizer: otherSections.TOKN ? otherSections.TOKN.slice() : null,
      chat: otherSections.CHAT ? JSON.parse(text(otherSections.CHAT)) : null,
      template: text(otherSections.TMPL),
      card: text(otherSections.CARD),
      meta: otherSections.META ? JSON.parse(text(otherSections.META)) : null,
      activations: otherSections.ACTQ ? otherSections.ACTQ.slice() : null,
    },
  };
}
