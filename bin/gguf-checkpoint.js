/**
 * Opens a GGUF file as a checkpoint, whose weights can be encoded in other types. Rows are read in their stored type,
 * or decoded to f32.
 */
import { createCodec } from '../js/format/bq4/codec.js';
import { rowsPerPiece } from '../js/format/bq4/encode-tensor.js';
import { ROWS, weightBytes } from '../js/format/bq4/weight-types.js';
import { matrixOf } from '../js/format/bq4/write-v2.js';
import { openGguf } from '../js/format/gguf/open.js';
import { conversionOf, loadConverter } from '../js/format/gguf/types.js';
import { BqError } from '../js/shared/errors.js';
import { readRange } from '../js/storage/sources/read.js';
import { versionOf } from './version-of.js';

/** @import { Checkpoint } from '../js/convert/checkpoint.js' */
/** @import { InTensor } from '../js/format/checkpoint-tensors.js' */
/** @import { ListedTensor } from '../js/format/bq4/manifest.js' */
/** @import { ByteSource } from '../js/storage/sources/types.js' */

/**
 * Returns a tensor that is read by rows.
 * @param {ByteSource} file @param {Pick<ListedTensor, 'type' | 'dims' | 'offset'>} listed
 * @param {() => Promise<import('../js/format/bq4/codec.js').Codec>} codec @returns {InTensor}
 */
function rowsOf(file, { type: storedType, dims, offset }, codec) {
  const type = conversionOf(storedType)?.engineType ?? storedType;
  const { cols } = matrixOf([...dims]);
  const readStored = async (/** @type {number} */ row, /** @type {number} */ rows) => {
    const [from, length] = [
      offset + weightBytes(storedType, ROWS, row, cols),
      weightBytes(storedType, ROWS, rows, cols),
    ];
    const bytes = await readRange(file, from, from + length);
    if (bytes.length !== length)
      throw new BqError('TRUNCATED', `${file.name} ends after ${from + bytes.length} bytes`, {
        offset: from + bytes.length,
      });
    return (await loadConverter(storedType))?.(bytes) ?? bytes;
  };
  const maxRows = rowsPerPiece(dims);
  return {
    dims: [...dims],
    at: offset,
    type: type.name,
    stored: { type, read: readStored },
    async read(row, rows) {
      const c = await codec();
      const out = new Float32Array(rows * cols);
      for (let r = 0; r < rows; r += maxRows) {
        const n = Math.min(maxRows, rows - r);
        out.set(c.dequantize(type, ROWS, await readStored(row + r, n), n, cols), r * cols);
      }
      return out;
    },
  };
}

/**
 * Fused modules, with the modules whose rows they contain (docs/FORMAT.md, "TENS").
 * @type {Record<string, string[]>}
 */
const FUSED = { qkv: ['q', 'k', 'v'], gate_up: ['gate', 'up'] };

/**
 * Returns a tensor, or the tensors that are fused in it. Throws SHAPE.
 * @param {ListedTensor} tensor @param {Record<string, any>} config @returns {ListedTensor[]}
 */
function splitFused(tensor, config) {
  const { name, dims, type, offset } = tensor;
  const [, before, fused, ending] = /^(h\.\d+\.\w+\.)(qkv|gate_up)(\.\w+)$/.exec(name) ?? [];
  if (!fused) return [tensor];
  const { heads, kv_heads: kv = heads, ffn } = config;
  const dim = config.head_dim ?? config.hidden / heads;
  const sizes = fused === 'qkv' ? [heads * dim, kv * dim, kv * dim] : [ffn, ffn];
  const rows = sizes.reduce((a, b) => a + b);
  if (dims[0] !== rows) throw new BqError('SHAPE', `tensor "${name}" has ${dims[0]} rows; expected ${rows}`);
  let from = 0;
  return FUSED[fused].map((module, i) => {
    const [at, size] = [from, sizes[i]];
    from += size;
    const bytes = (/** @type {number} */ n) =>
      dims.length === 1 ? weightBytes(type, ROWS, 1, n) : weightBytes(type, ROWS, n, dims[1]);
    const part = { dims: [size, ...dims.slice(1)], offset: offset + bytes(at), bytes: bytes(size) };
    return { ...tensor, name: before + module + ending, ...part };
  });
}

/**
 * Returns a tensor that is computed from the metadata.
 * @param {{ dims: number[], values: Uint8Array }} table @returns {InTensor}
 */
const tableOf = ({ dims, values }) => ({
  dims,
  read: async () => new Float32Array(values.slice().buffer),
});

/**
 * Reads the header of a file; its tensors are read on demand. Throws FORMAT, TRUNCATED, UNSUPPORTED, SHAPE.
 * @param {ByteSource} file  closed by the caller
 * @returns {Promise<Checkpoint>}
 */
export async function ggufCheckpoint(file) {
  const { config, tensors, extra, tokenizer, name, license, template, meta } = await openGguf(file, new Uint8Array());
  const listedTensors = tensors.flatMap((tensor) => splitFused(tensor, config));
  const maxBytes = Math.max(
    1 << 20,
    ...listedTensors.map(({ dims }) => 4 * rowsPerPiece(dims) * matrixOf([...dims]).cols),
  );
  /** @type {ReturnType<typeof createCodec> | undefined} */
  let codec;
  const openCodec = () => (codec ??= createCodec(maxBytes));
  return {
    config,
    tensors: new Map([
      ...listedTensors.map((tensor) => /** @type {const} */ ([tensor.name, rowsOf(file, tensor, openCodec)])),
      ...extra.map((table) => /** @type {const} */ ([table.name, tableOf(table)])),
    ]),
    name,
    license,
    folder: null,
    stamp: (file.parts ?? [file]).map(versionOf).join(),
    tokenizers: [],
    tokenizer,
    ends: [],
    template,
    meta: meta ?? undefined,
    close: async () => {},
  };
}
