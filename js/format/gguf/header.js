/**
 * The header of a GGUF file (versions 2 and 3): metadata and the list of tensors. It is read as far as it goes, a part of
 * the file after the other; no length in it is believed before it was compared with what is left of the file.
 */
import { BqError } from '../../shared/errors.js';
import { readRange } from '../../storage/sources/read.js';
import { Texts } from './texts.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */

/** No header is longer: 262,144 tokens and half a million merges take 20 MB. */
const MAX_HEADER = 256 << 20;
const [STRING, ARRAY] = [8, 9];
/** Bytes of a value by its type's number; 0: a string or an array. */
const SIZES = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
/** The least that an entry takes: key, type and a byte; name, dimensions, type and offset. */
const [LEAST_PAIR, LEAST_TENSOR] = [13, 25];
const MAX_DIMS = 4;
const MAX_NAME = 65535;
const FIRST_TEXTS = 4096;

/**
 * @typedef {object} GgufTensor
 * @property {string} name
 * @property {number[]} dims  rows first, as ours
 * @property {number} type    GGUF's number of it
 * @property {number} offset  in the file
 * @property {number} at      where the header tells of it
 */

/**
 * @typedef {object} GgufHeader
 * @property {number} version
 * @property {Record<string, any>} metadata  arrays of numbers are typed arrays, but those of 8 bytes; of texts, Texts
 * @property {GgufTensor[]} tensors  in the header's order
 * @property {number} alignment
 * @property {Uint8Array} read  the first bytes of the file, as many as were read
 * @property {number} end  where the header ends
 * @property {number} dataStart  where tensors may lie
 */

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** @param {Uint8Array} bytes */
const viewOf = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.length);

/** Reads values where it stands, and more of the file when it must. */
class Cursor {
  at = 0;

  /** @param {ByteSource} file @param {Uint8Array} head  its first bytes @param {AbortSignal} [signal] */
  constructor(file, head, signal) {
    this.file = file;
    this.signal = signal;
    this.bytes = head;
    this.view = viewOf(head);
  }

  /** Bytes of the file that a header may reach to. */
  get #limit() {
    return this.file.size < 0 ? MAX_HEADER : Math.min(this.file.size, MAX_HEADER);
  }

  /** @param {string} what @param {number} [at] */
  malformed(what, at = this.at) {
    return new BqError('FORMAT', `${this.file.name}: ${what}`, {
      offset: at,
      hint: 'the GGUF file is malformed: fetch it again',
    });
  }

  /** Bytes that may still come. */
  get left() {
    return this.#limit - this.at;
  }

  /** Checks that `count` things of `size` bytes can be there. FORMAT. @param {number} count @param {number} size @param {string} what */
  room(count, size, what) {
    if (count * size > this.left)
      throw this.malformed(`${count} ${what} are announced where ${this.left} bytes are left`);
  }

  /** Makes `n` bytes be there. TRUNCATED. @param {number} n */
  async need(n) {
    const end = this.at + n;
    if (end <= this.bytes.length) return;
    const { length } = this.bytes;
    if (end > MAX_HEADER) throw this.malformed(`its header does not end within ${MAX_HEADER} bytes`);
    const more = await readRange(
      this.file,
      length,
      Math.min(Math.max(end, 4 * length, 1 << 20), this.#limit),
      this.signal,
      [this.bytes],
    );
    this.bytes = more;
    this.view = viewOf(more);
    if (more.length < end)
      throw new BqError('TRUNCATED', `${this.file.name} ends after ${more.length} bytes, in the middle of its header`, {
        offset: more.length,
      });
  }

  /** @param {number} n */
  async take(n) {
    await this.need(n);
    this.at += n;
    return this.at - n;
  }
  async u32() {
    const at = await this.take(4); // before `view`, which it may replace
    return this.view.getUint32(at, true);
  }

  /** A length or an offset. FORMAT: none that a file could have. */
  async u64() {
    const at = await this.take(8);
    const value = this.view.getBigUint64(at, true);
    if (value > 2n ** 53n) throw this.malformed(`the number ${value} is beyond any file`, at);
    return Number(value);
  }

  /** @param {number} [most] */
  async text(most = Infinity) {
    const length = await this.u64();
    if (length > most) throw this.malformed(`a name has ${length} bytes, more than ${most}`, this.at - 8);
    this.room(length, 1, 'bytes of text');
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

/** Of numbers: memory of their own, at most as large as what was read. */
const LISTS = [Uint8Array, Int8Array, Uint16Array, Int16Array, Uint32Array, Int32Array, Float32Array];

/** @param {Cursor} c */
async function arrayAt(c) {
  const type = await c.u32();
  const count = await c.u64();
  if (type === ARRAY || type >= SIZES.length)
    throw c.malformed(
      type === ARRAY ? 'it nests arrays' : `an array has elements of the unknown type ${type}`,
      c.at - 12,
    );
  if (type === STRING) return stringsAt(c, count);
  const size = SIZES[type];
  c.room(count, size, 'elements');
  const from = await c.take(count * size);
  if (type < LISTS.length) {
    const list = new LISTS[type](count);
    new Uint8Array(list.buffer).set(c.bytes.subarray(from, c.at));
    return list;
  }
  return Array.from({ length: count }, (_, i) => scalarAt(c.view, from + i * size, type));
}

/** Room grows with what is there, not with what is announced. @param {Cursor} c @param {number} count */
async function stringsAt(c, count) {
  c.room(count, 8, 'texts');
  let starts = new Uint32Array(Math.min(count, FIRST_TEXTS));
  let ends = new Uint32Array(starts.length);
  for (let i = 0; i < count;) {
    if (i === starts.length) [starts, ends] = [starts, ends].map((list) => grown(list, Math.min(2 * i, count)));
    // What is there is read without a pause: this is most of a header.
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
    c.room(length, 1, 'bytes of text');
    await c.need(length);
    c.at -= 8;
  }
  return new Texts(c.bytes, starts, ends);
}

/** @param {Uint32Array} list @param {number} length */
function grown(list, length) {
  const longer = new Uint32Array(length);
  longer.set(list);
  return longer;
}

/** @param {Cursor} c @param {number} count */
async function readMetadata(c, count) {
  c.room(count, LEAST_PAIR, 'pairs of metadata');
  /** @type {Record<string, any>} */
  const metadata = Object.create(null);
  for (let left = count; left > 0; left--) {
    const from = c.at;
    const key = await c.text(MAX_NAME);
    if (key in metadata) throw c.malformed(`the metadata has "${key}" twice`, from);
    const type = await c.u32();
    if (type >= SIZES.length) throw c.malformed(`"${key}" is of the unknown type ${type}`, c.at - 4);
    if (type === STRING) metadata[key] = await c.text();
    else if (type === ARRAY) metadata[key] = await arrayAt(c);
    else {
      const at = await c.take(SIZES[type]);
      metadata[key] = scalarAt(c.view, at, type);
    }
  }
  return metadata;
}

/** Offsets are still those within the data. @param {Cursor} c @param {number} count @returns {Promise<GgufTensor[]>} */
async function readTensors(c, count) {
  c.room(count, LEAST_TENSOR, 'tensors');
  const names = new Set();
  const tensors = [];
  while (tensors.length < count) {
    const at = c.at;
    const name = await c.text(MAX_NAME);
    if (names.has(name)) throw c.malformed(`tensor "${name}" is there twice`, at);
    names.add(name);
    const n = await c.u32();
    if (n < 1 || n > MAX_DIMS)
      throw c.malformed(`tensor "${name}" has ${n} dimensions, not 1 to ${MAX_DIMS}`, c.at - 4);
    const dims = [];
    while (dims.length < n) dims.unshift(await c.u64());
    if (!dims.every((dim) => dim > 0 && dim < 2 ** 32))
      throw c.malformed(`tensor "${name}" is ${dims.join(' × ')}`, at);
    tensors.push({ name, dims, type: await c.u32(), offset: await c.u64(), at });
  }
  return tensors;
}

/** UNSUPPORTED, FORMAT. @param {Cursor} c */
async function readVersion(c) {
  await c.take(4); // GGUF
  const version = await c.u32();
  if (version === 2 || version === 3) return version;
  const other = version === 1 ? 'version 1' : version > 0xffff ? 'big-endian' : `version ${version}`;
  throw new BqError('UNSUPPORTED', `${c.file.name} is a GGUF file, ${other}`, {
    offset: 4,
    hint: 'versions 2 and 3, little-endian, are read',
  });
}

/**
 * FORMAT, TRUNCATED, UNSUPPORTED, and what the source throws.
 * @param {ByteSource} file
 * @param {Uint8Array} head  its first bytes
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
    throw c.malformed(`its alignment is ${alignment}, not a power of two from 8 to 65536`, 0);
  const dataStart = Math.ceil(c.at / alignment) * alignment;
  for (const tensor of tensors) {
    if (tensor.offset % alignment)
      throw c.malformed(`tensor "${tensor.name}" lies at ${tensor.offset}, no multiple of ${alignment}`, tensor.at);
    tensor.offset += dataStart;
  }
  return { version, metadata, tensors, alignment, read: c.bytes, end: c.at, dataStart };
}
