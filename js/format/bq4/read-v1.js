/**
 * Reads the tensor directory of v1.0 files (docs/FORMAT.md §3) and encodes the manifest with which the engine reads
 * their data.
 */
import { completeConfig } from './config.js';
import { TYPES, FLAT } from './weight-types.js';
import { BqError } from '../../shared/errors.js';
import { u32, u64 } from '../../shared/sections.js';
import { readFirst } from '../../storage/sources/read.js';
import { readCompanion } from './companion.js';
import { encodeManifest } from './manifest.js';

/** @import { ByteSource, Source } from '../../storage/sources/types.js' */
/** @import { ListedTensor } from './manifest.js' */

const HEADER_BYTES = 12;
/** Size in bytes of the smallest possible directory entry. */
const MIN_ENTRY_BYTES = 29;
/** Size in bytes of a directory entry without its name and dims. */
const FIXED_ENTRY_BYTES = 24;
/** Limits of the number of tensors outside the layers and in each layer. */
const [MAX_OUTER_TENSORS, MAX_LAYER_TENSORS] = [16, 32];

/** The beginning of a file, of which more is read on demand. */
class Head {
  /** @param {ByteSource} file @param {Uint8Array} bytes @param {AbortSignal} [signal] */
  constructor(file, bytes, signal) {
    this.file = file;
    this.bytes = bytes;
    this.signal = signal;
  }

  /** Reads at least the first `end` bytes. Throws TRUNCATED. @param {number} end */
  async need(end) {
    if (end > this.bytes.length)
      this.bytes = await readFirst(this.file, this.bytes, Math.max(end, 2 * this.bytes.length), this.signal).catch(
        async (error) => {
          // More bytes are read than required, which may fail at the end of the file.
          if (error instanceof BqError && error.code === 'TRUNCATED' && error.details.offset >= end)
            return readFirst(this.file, this.bytes, end, this.signal);
          throw error;
        },
      );
  }
}

/**
 * Reads an entry of the directory. Throws FORMAT, TRUNCATED.
 * @param {Head} head
 * @param {number} at  byte offset of the entry
 * @returns {Promise<{ tensor: ListedTensor, end: number }>}
 */
async function readEntry(head, at) {
  const bad = (/** @type {string} */ reason) => new BqError('FORMAT', `${head.file.name}: ${reason}`, { offset: at });
  await head.need(at + MIN_ENTRY_BYTES);
  const length = u32(head.bytes, at);
  if (length < 1 || length > 255) throw bad(`a tensor's name has ${length} bytes; expected 1 to 255`);
  await head.need(at + FIXED_ENTRY_BYTES + length + 4);
  const name = new TextDecoder().decode(head.bytes.subarray(at + 4, at + 4 + length));
  const ndims = u32(head.bytes, at + 4 + length);
  if (ndims < 1 || ndims > 8) throw bad(`tensor "${name}" has ${ndims} dimensions; expected 1 to 8`);
  await head.need(at + FIXED_ENTRY_BYTES + length + 4 * ndims);
  const next = at + 8 + length + 4 * ndims;
  const dims = Array.from({ length: ndims }, (_, i) => u32(head.bytes, at + 8 + length + 4 * i));
  const [block, blocks, offset] = [u32(head.bytes, next), u32(head.bytes, next + 4), u64(head.bytes, next + 8)];
  const type = TYPES.find((t) => t.name === `bq4_${block}`);
  if (!type || ![16, 32, 64].includes(block))
    throw bad(`tensor "${name}" has blocks of ${block} weights; expected 16, 32 or 64`);
  const weights = dims.reduce((product, dim) => product * dim, 1);
  if (!weights || weights !== block * blocks)
    throw bad(`tensor "${name}" has ${blocks} blocks of ${block} weights, but ${weights} weights`);
  const bytes = blocks * type.blockBytes;
  if (!Number.isSafeInteger(offset + bytes)) throw bad(`tensor "${name}" has the impossible offset ${offset}`);
  return { tensor: { name, type, layout: FLAT, dims, offset, bytes }, end: next + 16 };
}

/**
 * Reads the tensors that the directory lists. Throws FORMAT, TRUNCATED.
 * @param {ByteSource} file
 * @param {Uint8Array} first  the beginning of the file
 * @param {number} layers  number of layers, which bounds the directory's length
 * @param {AbortSignal} [signal]
 */
export async function readDirectory(file, first, layers, signal) {
  const head = new Head(file, first, signal);
  await head.need(HEADER_BYTES);
  const n = u32(head.bytes, 8);
  if (n > MAX_OUTER_TENSORS + MAX_LAYER_TENSORS * layers)
    throw new BqError('FORMAT', `${file.name}: the directory declares ${n} tensors, too many for ${layers} layers`, {
      offset: 8,
    });
  /** @type {ListedTensor[]} */
  const tensors = [];
  let at = HEADER_BYTES;
  while (tensors.length < n) {
    const { tensor, end } = await readEntry(head, at);
    tensors.push(tensor);
    at = end;
  }
  const overlapping = tensors.find((tensor) => tensor.offset < at);
  if (overlapping)
    throw new BqError(
      'FORMAT',
      `${file.name}: tensor "${overlapping.name}" at ${overlapping.offset} overlaps the directory, which ends at ${at}`,
      { offset: overlapping.offset },
    );
  return tensors;
}

/**
 * Encodes the manifest of a v1 file, from its sidecar and its directory.
 * @param {Source} source
 * @param {ByteSource} file
 * @param {Uint8Array} head  the beginning of the file
 * @param {AbortSignal} [signal]
 */
export async function v1Manifest(source, file, head, signal) {
  const description = await readCompanion(source, signal);
  const { layers } = completeConfig(description.config);
  return encodeManifest({ ...description, tensors: await readDirectory(file, head, layers, signal) });
}
