/** Writes v1.0 files (docs/FORMAT.md §3): a directory of BQ4 tensors, then their blocks without gaps. */
import { BqError } from '../../shared/errors.js';
import { FLAT, typeNamed, weightBytes } from './weight-types.js';

const encoder = new TextEncoder();

/**
 * Returns the block type of a v1 tensor: blocks of 32 weights if 32 divides the number of weights, otherwise of 16 if
 * 16 does, otherwise null.
 * @param {readonly number[]} dims
 * @returns {import('./weight-types.js').WeightType | null}
 */
export function v1Type(dims) {
  const weights = dims.reduce((a, b) => a * b, 1);
  return weights % 32 === 0 ? typeNamed('bq4_32') : weights % 16 === 0 ? typeNamed('bq4_16') : null;
}

/**
 * @typedef {object} V1Tensor
 * @property {string} name
 * @property {readonly number[]} dims
 * @property {import('./weight-types.js').WeightType} [type]  bq4_16, bq4_32 or bq4_64; default: the type that v1Type
 *   returns
 * @property {() => AsyncIterable<Uint8Array>} pieces  yields its blocks in layout FLAT, in pieces of any size
 */

/** Returns the block type of a tensor. Throws SHAPE. @param {V1Tensor} tensor */
function typeOf({ name, dims, type = v1Type(dims) ?? undefined }) {
  const weights = dims.reduce((a, b) => a * b, 1);
  if (!type)
    throw new BqError('SHAPE', `tensor "${name}" has ${weights} weights; expected a multiple of 16`, {
      hint: 'v1 stores it in the sidecar config',
    });
  if (weights % type.block)
    throw new BqError('SHAPE', `tensor "${name}" has ${weights} weights; expected a multiple of ${type.block}`);
  return type;
}

/**
 * Writes the file and finishes the sink; if this fails, it aborts the sink. Throws SHAPE for a number of weights that
 * the block size does not divide.
 * @param {import('../output.js').Sink} sink
 * @param {readonly V1Tensor[]} tensors
 * @param {{ onBytes?: (done: number, total: number) => void, signal?: AbortSignal }} [options]
 * @returns {Promise<{ bytes: number, dataBytes: number }>}
 */
export async function writeV1(sink, tensors, options = {}) {
  try {
    const written = await write(sink, tensors, options);
    await sink.finish();
    return written;
  } finally {
    await sink.abort();
  }
}

/**
 * @param {import('../output.js').Sink} sink @param {readonly V1Tensor[]} tensors
 * @param {{ onBytes?: (done: number, total: number) => void, signal?: AbortSignal }} options
 */
async function write(sink, tensors, { onBytes, signal }) {
  const entries = tensors.map((tensor) => {
    const type = typeOf(tensor);
    const { dims } = tensor;
    const bytes = weightBytes(
      type,
      FLAT,
      1,
      dims.reduce((a, b) => a * b, 1),
    );
    return { name: encoder.encode(tensor.name), dims, type, bytes };
  });
  const start = entries.reduce((sum, { name, dims }) => sum + 24 + name.length + 4 * dims.length, 12);
  const directory = new Uint8Array(start);
  const view = new DataView(directory.buffer);
  encoder.encodeInto('BQ4F', directory);
  view.setUint32(4, 1, true);
  view.setUint32(8, entries.length, true);
  let at = 12;
  const u32 = (/** @type {number} */ v) => (view.setUint32(at, v, true), (at += 4));
  let offset = start;
  for (const { name, dims, type, bytes } of entries) {
    u32(name.length);
    directory.set(name, at);
    at += name.length;
    u32(dims.length);
    dims.forEach(u32);
    u32(type.block);
    u32(bytes / type.blockBytes);
    view.setBigUint64(at, BigInt(offset), true);
    at += 8;
    offset += bytes;
  }
  await sink.write(0, directory);
  let position = start;
  for (const [i, { bytes }] of entries.entries()) {
    const end = position + bytes;
    for await (const piece of tensors[i].pieces()) {
      signal?.throwIfAborted();
      await sink.write(position, piece);
      position += piece.length;
      onBytes?.(position - start, offset - start);
    }
    if (position !== end)
      throw new BqError(
        'SHAPE',
        `tensor "${tensors[i].name}" yielded ${position - end + bytes} bytes; expected ${bytes}`,
      );
  }
  return { bytes: offset, dataBytes: offset - start };
}
