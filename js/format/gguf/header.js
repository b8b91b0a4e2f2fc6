/**
 * Reads the header of a GGUF file (versions 2 and 3): metadata and the list of tensors. The file is read in growing
 * pieces until the header ends. Every length is compared with the remaining bytes of the file before memory is
 * allocated for it.
 */
import { BqError } from '../../shared/errors.js';
import { readRange } from '../../storage/sources/read.js';
import { StringList } from './string-list.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */

/** Size limit of a header in bytes. For comparison: 262,144 tokens and half a million merges take 20 MB. */
const MAX_HEADER_BYTES = 256 << 20;
/** Numbers of the value types of strings and arrays. */
const [STRING, ARRAY] = [8, 9];
/** Size of a value in bytes, by the number of its type; 0 for a string and an array. */
const VALUE_BYTES = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
/**
 * Smallest size in bytes of a metadata pair (key, type, value) and of a tensor's entry (name, dimensions, type,
 * offset).
 */
const [MIN_PAIR_BYTES, MIN_TENSOR_BYTES] = [13, 25];
const MAX_DIMS = 4;
const MAX_NAME_BYTES = 65535;
/** Number of strings for which memory is allocated at first if the file declares more. */
const FIRST_STRINGS = 4096;

/**
 * @typedef {object} GgufTensor
 * @property {string} name
 * @property {number[]} dims  rows first (GGUF stores columns first)
 * @property {number} type    GGUF's number of the type
 * @property {number} offset  byte offset of its data in the file
 * @property {number} at      byte offset of its entry in the header
 */

/**
 * @typedef {object} GgufHeader
 * @property {number} version
 * @property {Record<string, any>} metadata  values by key. An array of numbers of up to 4 bytes is a typed array, one
 *   of 8-byte numbers an array, one of strings a StringList
 * @property {GgufTensor[]} tensors  in the header's order
 * @property {number} alignment
 * @property {Uint8Array} read  the beginning of the file, up to the last byte that was read
 * @property {number} end  length of the header
 * @property {number} dataStart  byte offset in the file from which the offsets of tensors count
 */

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** @param {Uint8Array} bytes */
const viewOf = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.length);

/** Reads values one after the other, and reads more of the file for values that are not in memory yet. */
class Cursor {
  at = 0;

  /** @param {ByteSource} file @param {Uint8Array} head  the beginning of the file @param {AbortSignal} [signal] */
  constructor(file, head, signal) {
    this.file = file;
    this.signal = signal;
    this.bytes = head;
    this.view = viewOf(head);
  }

  /** Largest possible offset of the header's end. */
  get #limit() {
    return this.file.size < 0 ? MAX_HEADER_BYTES : Math.min(this.file.size, MAX_HEADER_BYTES);
  }

  /** @param {string} message @param {number} [at] */
  malformed(message, at = this.at) {
    return new BqError('FORMAT', `${this.file.name}: ${message}`, {
      offset: at,
      hint: 'the GGUF file is malformed: fetch it again',
    });
  }

  /** Largest number of bytes that the rest of the header can have. */
  get remaining() {
    return this.#limit - this.at;
  }

  /**
   * Throws FORMAT unless `count` items of at least `size` bytes fit in the rest of the file.
   * @param {number} count @param {number} size @param {string} items  name of the items, for the message
   */
  checkCount(count, size, items) {
    if (count * size > this.remaining)
      throw this.malformed(`header declares ${count} ${items} but only ${this.remaining} bytes remain`);
  }

  /** Reads until the next `n` bytes are in memory. Throws TRUNCATED. @param {number} n */
  async need(n) {
    const end = this.at + n;
    if (end <= this.bytes.length) return;
    const { length } = this.bytes;
    if (end > MAX_HEADER_BYTES) throw this.malformed(`header exceeds ${MAX_HEADER_BYTES} bytes`);
    const bytes = await readRange(
      this.file,
      length,
      Math.min(Math.max(end, 4 * length, 1 << 20), this.#limit),
      this.signal,
      [this.bytes],
    );
    this.bytes = bytes;
    this.view = viewOf(bytes);
    if (bytes.length < end)
      throw new BqError(
        'TRUNCATED',
        `${this.file.name} ends after ${bytes.length} bytes, in the middle of its header`,
        {
          offset: bytes.length,
        },
      );
  }

  /** Moves past the next `n` bytes, and returns their offset. @param {number} n */
  async take(n) {
    await this.need(n);
    this.at += n;
    return this.at - n;
  }
  async u32() {
    const at = await this.take(4); // may replace `view`
    return this.view.getUint32(at, true);
  }

  /** Reads a length or an offset. Throws FORMAT beyond 2^53. */
  async u64() {
    const at = await this.take(8);
    const value = this.view.getBigUint64(at, true);
    if (value > 2n ** 53n) throw this.malformed(`${value} is not a possible length or offset`, at);
    return Number(value);
  }

  /** @param {number} [maxBytes] */
  async text(maxBytes = Infinity) {
    const length = await this.u64();
    if (length > maxBytes) throw this.malformed(`a name has ${length} bytes; the limit is ${maxBytes}`, this.at - 8);
    this.checkCount(length, 1, 'bytes of text');
    const from = await this.take(length);
    return decoder.decode(this.bytes.subarray(from, from + length));
  }
}

/** @param {DataView} view @param {number} at @param {number} type */
function scalarAt(view, at, type) {
  switch (type) {
    case 0:
      return view.getUint8(at);
    case 1:
      return view.getInt8(at);
    case 2:
      return view.getUint16(at, true);
    case 3:
      return view.getInt16(at, true);
    case 4:
      return view.getUint32(at, true);
    case 5:
      return view.getInt32(at, true);
    case 6:
      return view.getFloat32(at, true);
    case 7:
      return view.getUint8(at) !== 0;
    case 10:
      return Number(view.getBigUint64(at, true));
    case 11:
      return Number(view.getBigInt64(at, true));
    default:
      return view.getFloat64(at, true);
  }
}

/** Typed arrays by the number of the value type. */
const ARRAY_TYPES = [Uint8Array, Int8Array, Uint16Array, Int16Array, Uint32Array, Int32Array, Float32Array];

/** @param {Cursor} c */
async function arrayAt(c) {
  const type = await c.u32();
  const count = await c.u64();
  if (type === ARRAY || type >= VALUE_BYTES.length)
    throw c.malformed(
      type === ARRAY ? 'an array contains arrays' : `an array has elements of the unknown type ${type}`,
      c.at - 12,
    );
  if (type === STRING) return stringsAt(c, count);
  const size = VALUE_BYTES[type];
  c.checkCount(count, size, 'elements');
  const from = await c.take(count * size);
  if (type < ARRAY_TYPES.length) {
    const list = new ARRAY_TYPES[type](count);
    new Uint8Array(list.buffer).set(c.bytes.subarray(from, c.at));
    return list;
  }
  return Array.from({ length: count }, (_, i) => scalarAt(c.view, from + i * size, type));
}

/**
 * Reads a list of strings. Its memory grows with the strings that were read, not with the declared number.
 * @param {Cursor} c @param {number} count
 */
async function stringsAt(c, count) {
  c.checkCount(count, 8, 'strings');
  let starts = new Uint32Array(Math.min(count, FIRST_STRINGS));
  let ends = new Uint32Array(starts.length);
  for (let i = 0; i < count;) {
    if (i === starts.length) [starts, ends] = [starts, ends].map((list) => grown(list, Math.min(2 * i, count)));
    // Strings that are in memory are read without `await`, since strings make up most of a header.
    const { bytes, view } = c;
    let at = c.at;
    for (; i < starts.length && at + 8 <= bytes.length; i++) {
      const to = at + 8 + view.getUint32(at, true);
      if (view.getUint32(at + 4, true) || to > bytes.length) break;
      starts[i] = at + 8;
      ends[i] = to;
      at = to;
    }
    c.at = at;
    if (i === starts.length) continue;
    const length = await c.u64();
    c.checkCount(length, 1, 'bytes of text');
    await c.need(length);
    c.at -= 8;
  }
  return new StringList(c.bytes, starts, ends);
}

/** @param {Uint32Array} list @param {number} length */
function grown(list, length) {
  const longer = new Uint32Array(length);
  longer.set(list);
  return longer;
}

/** @param {Cursor} c @param {number} count */
async function readMetadata(c, count) {
  c.checkCount(count, MIN_PAIR_BYTES, 'metadata pairs');
  /** @type {Record<string, any>} */
  const metadata = Object.create(null);
  for (let i = 0; i < count; i++) {
    const from = c.at;
    const key = await c.text(MAX_NAME_BYTES);
    if (key in metadata) throw c.malformed(`metadata key "${key}" appears twice`, from);
    const type = await c.u32();
    if (type >= VALUE_BYTES.length) throw c.malformed(`metadata value "${key}" has the unknown type ${type}`, c.at - 4);
    if (type === STRING) metadata[key] = await c.text();
    else if (type === ARRAY) metadata[key] = await arrayAt(c);
    else {
      const at = await c.take(VALUE_BYTES[type]);
      metadata[key] = scalarAt(c.view, at, type);
    }
  }
  return metadata;
}

/**
 * Reads the list of tensors. Offsets are relative to the data.
 * @param {Cursor} c @param {number} count @returns {Promise<GgufTensor[]>}
 */
async function readTensors(c, count) {
  c.checkCount(count, MIN_TENSOR_BYTES, 'tensors');
  const names = new Set();
  const tensors = [];
  while (tensors.length < count) {
    const at = c.at;
    const name = await c.text(MAX_NAME_BYTES);
    if (names.has(name)) throw c.malformed(`tensor "${name}" appears twice`, at);
    names.add(name);
    const n = await c.u32();
    if (n < 1 || n > MAX_DIMS)
      throw c.malformed(`tensor "${name}" has ${n} dimensions; expected 1 to ${MAX_DIMS}`, c.at - 4);
    const dims = [];
    while (dims.length < n) dims.unshift(await c.u64());
    if (!dims.every((dim) => dim > 0 && dim < 2 ** 32))
      throw c.malformed(`tensor "${name}" has the invalid shape ${dims.join(' × ')}`, at);
    tensors.push({ name, dims, type: await c.u32(), offset: await c.u64(), at });
  }
  return tensors;
}

/** Throws UNSUPPORTED, FORMAT. @param {Cursor} c */
async function readVersion(c) {
  await c.take(4); // the magic "GGUF"
  const version = await c.u32();
  if (version === 2 || version === 3) return version;
  const label = version === 1 ? 'version 1' : version > 0xffff ? 'big-endian' : `version ${version}`;
  throw new BqError('UNSUPPORTED', `${c.file.name} is a GGUF file of an unsupported kind: ${label}`, {
    offset: 4,
    hint: 'expected version 2 or 3, little-endian',
  });
}

/**
 * Reads the header. Throws FORMAT, TRUNCATED, UNSUPPORTED, and errors of the source.
 * @param {ByteSource} file
 * @param {Uint8Array} head  the beginning of the file
 * @param {AbortSignal} [signal]
 * @returns {Promise<GgufHeader>}
 */
export async function readHeader(file, head, signal) {
  const c = new Cursor(file, head, signal);
  const version = await readVersion(c);
  const counts = [await c.u64(), await c.u64()];
  const metadata = await readMetadata(c, counts[1]);
  const tensors = await readTensors(c, counts[0]);
  const alignment = metadata['general.alignment'] ?? 32;
  if (!Number.isInteger(alignment) || alignment < 8 || alignment > 65536 || alignment & (alignment - 1))
    throw c.malformed(`general.alignment is ${alignment}; expected a power of two from 8 to 65536`, 0);
  const dataStart = Math.ceil(c.at / alignment) * alignment;
  for (const tensor of tensors) {
    if (tensor.offset % alignment)
      throw c.malformed(
        `tensor "${tensor.name}" has the offset ${tensor.offset}, which is not a multiple of ${alignment}`,
        tensor.at,
      );
    tensor.offset += dataStart;
  }
  return { version, metadata, tensors, alignment, read: c.bytes, end: c.at, dataStart };
}
