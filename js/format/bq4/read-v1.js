/** v1.0 files (docs/FORMAT.md §3): their directory is read here, and told to the engine as a manifest. */
import { completeConfig } from './config.js';
import { TYPES, FLAT } from './weight-types.js';
import { BqError } from '../../shared/errors.js';
import { u32, u64 } from '../../shared/sections.js';
import { readFirst } from '../../storage/sources/read.js';
import { readCompanion } from './companion.js';
import { encodeManifest } from './manifest.js';

/** @import { ByteSource, Source } from '../../storage/sources/types.js' */
/** @import { ListedTensor } from './manifest.js' */

const HEADER = 12;
/** Bytes of the smallest entry there is, and of an entry beside its name and its dims. */
const LEAST_ENTRY = 29;
const FIXED = 24;
/** A model has no more tensors than that, and that many for each layer. */
const [OTHERS, PER_LAYER] = [16, 32];

/** The file's first bytes, as many as were needed so far; reads on where more are. */
class Head {
  /** @param {ByteSource} file @param {Uint8Array} bytes @param {AbortSignal} [signal] */
  constructor(file, bytes, signal) {
    this.file = file;
    this.bytes = bytes;
    this.signal = signal;
  }

  /** Reads so that `end` bytes are there. TRUNCATED. @param {number} end */
  async need(end) {
    if (end > this.bytes.length)
      this.bytes = await readFirst(this.file, this.bytes, Math.max(end, 2 * this.bytes.length), this.signal).catch(
        async (error) => {
          // Only what is really needed must be there.
          if (error instanceof BqError && error.code === 'TRUNCATED' && error.details.offset >= end)
            return readFirst(this.file, this.bytes, end, this.signal);
          throw error;
        },
      );
  }
}

/**
 * @param {Head} head
 * @param {number} at  where the entry begins
 * @returns {Promise<{ tensor: ListedTensor, end: number }>}
 */
async function readEntry(head, at) {
  const bad = (/** @type {string} */ why) => new BqError('FORMAT', `${head.file.name}: ${why}`, { offset: at });
  await head.need(at + LEAST_ENTRY);
  const length = u32(head.bytes, at);
  if (length < 1 || length > 255) throw bad(`a tensor's name has ${length} bytes, not 1 to 255`);
  await head.need(at + FIXED + length + 4);
  const name = new TextDecoder().decode(head.bytes.subarray(at + 4, at + 4 + length));
  const ndims = u32(head.bytes, at + 4 + length);
  if (ndims < 1 || ndims > 8) throw bad(`tensor "${name}" has ${ndims} dimensions, not 1 to 8`);
  await head.need(at + FIXED + length + 4 * ndims);
  const next = at + 8 + length + 4 * ndims;
  const dims = Array.from({ length: ndims }, (_, i) => u32(head.bytes, at + 8 + length + 4 * i));
  const [block, blocks, offset] = [u32(head.bytes, next), u32(head.bytes, next + 4), u64(head.bytes, next + 8)];
  const type = TYPES.find((t) => t.name === `bq4_${block}`);
  if (!type || ![16, 32, 64].includes(block)) throw bad(`tensor "${name}" has blocks of ${block}, not 16, 32 or 64`);
  const weights = dims.reduce((product, dim) => product * dim, 1);
  if (!weights || weights !== block * blocks)
    throw bad(`tensor "${name}" has ${blocks} blocks of ${block}, which is not its number of weights`);
  const bytes = blocks * type.blockBytes;
  if (!Number.isSafeInteger(offset + bytes)) throw bad(`tensor "${name}" lies beyond any file, at ${offset}`);
  return { tensor: { name, type, layout: FLAT, dims, offset, bytes }, end: next + 16 };
}

/**
 * The tensors that the file's directory lists. FORMAT, TRUNCATED.
 * @param {ByteSource} file
 * @param {Uint8Array} first  its first bytes
 * @param {number} layers  of the model: a directory is no longer than they allow
 * @param {AbortSignal} [signal]
 */
export async function readDirectory(file, first, layers, signal) {
  const head = new Head(file, first, signal);
  await head.need(HEADER);
  const n = u32(head.bytes, 8);
  if (n > OTHERS + PER_LAYER * layers)
    throw new BqError('FORMAT', `${file.name}: ${n} tensors are more than a model of ${layers} layers can have`, {
      offset: 8,
    });
  /** @type {ListedTensor[]} */
  const tensors = [];
  let at = HEADER;
  while (tensors.length < n) {
    const { tensor, end } = await readEntry(head, at);
    tensors.push(tensor);
    at = end;
  }
  const inside = tensors.find((tensor) => tensor.offset < at);
  if (inside)
    throw new BqError(
      'FORMAT',
      `${file.name}: tensor "${inside.name}" at ${inside.offset} overlaps the directory, which ends at ${at}`,
      { offset: inside.offset },
    );
  return tensors;
}

/**
 * The manifest of a v1 file: its companion's facts and its own directory.
 * @param {Source} source
 * @param {ByteSource} file
 * @param {Uint8Array} head  its first bytes
 * @param {AbortSignal} [signal]
 */
export async function v1Manifest(source, file, head, signal) {
  const facts = await readCompanion(source, signal);
  const { layers } = completeConfig(facts.config);
  return encodeManifest({ ...facts, tensors: await readDirectory(file, head, layers, signal) });
}
