/**
 * Encodes the parts of a v2 file before its data (docs/FORMAT.md §2): header, sections, tensor directory, chunk hashes.
 */
import { BqError } from '../../shared/errors.js';
import { CHUNK_BYTES } from '../../shared/sections.js';

/** Alignment of tensors, in bytes. */
export const ALIGN = 64;

const HEADER_BYTES = 64;
const MAX_PLAN_BYTES = 16 << 20;
const MAX_PREFIX_BYTES = 256 << 20;
/** Size in bytes of the SUM8 section: the checksum of the sections before it. */
const SUM_BYTES = 24;

const encoder = new TextEncoder();

/** Rounds up to a multiple of `unit`. @param {number} n @param {number} unit */
export const alignUp = (n, unit) => Math.ceil(n / unit) * unit;

/**
 * @typedef {object} Section
 * @property {string} tag  four ASCII characters
 * @property {Uint8Array} payload
 * @property {boolean} [required]
 */

/**
 * Returns the JSON text of a section. Throws FORMAT for an object that is nested too deeply.
 * @param {string} tag @param {object} value
 */
function jsonOf(tag, value) {
  try {
    return JSON.stringify(value);
  } catch (cause) {
    throw new BqError('FORMAT', `the section ${tag} can't be written: ${/** @type {Error} */ (cause).message}`, {
      cause,
    });
  }
}

/**
 * Returns a list with one section.
 * @param {string} tag
 * @param {string | object | Uint8Array | null | undefined} payload  a string is encoded as UTF-8, an object as JSON
 * @param {boolean} [required]
 * @returns {Section[]}  an empty list for an empty payload
 */
export function section(tag, payload, required = false) {
  if (payload === null || payload === undefined || payload === '') return [];
  const bytes =
    payload instanceof Uint8Array
      ? payload
      : encoder.encode(typeof payload === 'string' ? payload : jsonOf(tag, payload));
  return [{ tag, payload: bytes, required }];
}

/** @param {readonly Section[]} sections */
const sizeOf = (sections) => sections.reduce((sum, { payload }) => sum + 16 + alignUp(payload.length, 8), 0);

/**
 * Writes sections; returns the offset after them.
 * @param {Uint8Array} bytes @param {number} at @param {readonly Section[]} sections @returns {number}
 */
function putSections(bytes, at, sections) {
  const view = new DataView(bytes.buffer);
  for (const { tag, payload, required } of sections) {
    encoder.encodeInto(tag, bytes.subarray(at, at + 4));
    view.setUint32(at + 4, required ? 1 : 0, true);
    view.setBigUint64(at + 8, BigInt(payload.length), true);
    bytes.set(payload, at + 16);
    at += 16 + alignUp(payload.length, 8);
  }
  return at;
}

/** Encodes consecutive sections without a checksum. @param {readonly Section[]} sections */
export function encodeSections(sections) {
  const bytes = new Uint8Array(sizeOf(sections));
  putSections(bytes, 0, sections);
  return bytes;
}

/**
 * An entry of the tensor directory.
 * @typedef {object} Entry
 * @property {string} name
 * @property {import('./weight-types.js').WeightType} type
 * @property {number} layout
 * @property {readonly number[]} dims
 * @property {number} offset
 * @property {number} bytes
 */

/** Encodes a TENS payload. Its size does not depend on the tensors' offsets. @param {readonly Entry[]} entries */
export function encodeDirectory(entries) {
  const types = [...new Set(entries.map((e) => e.type))].sort((a, b) => a.id - b.id);
  const names = entries.map((e) => encoder.encode(e.name));
  const size =
    8 +
    types.reduce((sum, t) => sum + 2 + t.name.length, 0) +
    entries.reduce((sum, e, i) => sum + 21 + names[i].length + 4 * e.dims.length, 0);
  const bytes = new Uint8Array(size);
  const view = new DataView(bytes.buffer);
  let at = 0;
  const u8 = (/** @type {number} */ v) => view.setUint8(at++, v);
  const u32 = (/** @type {number} */ v) => (view.setUint32(at, v, true), (at += 4));
  const u64 = (/** @type {number} */ v) => (view.setBigUint64(at, BigInt(v), true), (at += 8));
  const text = (/** @type {Uint8Array} */ v) => (bytes.set(v, at), (at += v.length));
  u32(types.length);
  for (const type of types) {
    u8(type.id);
    u8(type.name.length);
    text(encoder.encode(type.name));
  }
  u32(entries.length);
  entries.forEach((e, i) => {
    if (names[i].length < 1 || names[i].length > 255)
      throw new BqError('FORMAT', `a tensor's name has ${names[i].length} bytes; expected 1 to 255`);
    view.setUint16(at, names[i].length, true);
    at += 2;
    text(names[i]);
    u8(e.type.id);
    u8(e.layout);
    u8(e.dims.length);
    e.dims.forEach(u32);
    u64(e.offset);
    u64(e.bytes);
  });
  return bytes;
}

/**
 * Computes the sizes of the plan and of the prefix, after which the data begins. Throws FORMAT if they exceed the
 * format's limits.
 * @param {readonly Section[]} plan  the plan's sections, without SUM8
 * @param {readonly Section[]} others  the sections after the plan, without HASH and SUM8
 * @param {number} dataBytes
 * @param {number} [hashBytes]  size of a chunk's hash: 8 for XXH64, 32 for SHA-256
 */
export function prefixSizes(plan, others, dataBytes, hashBytes = 8) {
  const planLength = sizeOf(plan) + SUM_BYTES;
  const hash = 16 + 8 + hashBytes * Math.ceil(dataBytes / CHUNK_BYTES);
  const prefixLength = alignUp(HEADER_BYTES + planLength + sizeOf(others) + hash + SUM_BYTES, ALIGN);
  if (planLength > MAX_PLAN_BYTES)
    throw new BqError('FORMAT', `the plan has ${planLength} bytes; the limit is ${MAX_PLAN_BYTES}`);
  if (prefixLength > MAX_PREFIX_BYTES)
    throw new BqError('FORMAT', `the prefix has ${prefixLength} bytes; the limit is ${MAX_PREFIX_BYTES}`);
  return { planLength, prefixLength };
}

/** @param {bigint} value */
const sumSection = (value) => ({ tag: 'SUM8', payload: new Uint8Array(new BigUint64Array([value]).buffer) });

/**
 * Encodes the whole prefix: header, plan, other sections, chunk hashes. `hashes`: hashes of the chunks, of `hashBytes`
 * bytes each; `hash`: XXH64, for the checksums.
 * @param {{
 *   plan: Section[], others: Section[], dataBytes: number, hashes: Uint8Array[], hashBytes?: number,
 *   fileId: Uint8Array, hash: (bytes: Uint8Array) => bigint
 * }} parts
 * @returns {Uint8Array}
 */
export function encodePrefix({ plan, others, dataBytes, hashes, hashBytes = 8, fileId, hash }) {
  const { planLength, prefixLength } = prefixSizes(plan, others, dataBytes, hashBytes);
  const bytes = new Uint8Array(prefixLength);
  const view = new DataView(bytes.buffer);
  encoder.encodeInto('BQ4F', bytes);
  view.setUint32(4, 2, true);
  view.setBigUint64(16, BigInt(planLength), true);
  view.setBigUint64(24, BigInt(prefixLength), true);
  view.setBigUint64(32, BigInt(prefixLength + dataBytes), true);
  bytes.set(fileId, 40);
  view.setBigUint64(56, hash(bytes.subarray(0, 56)), true);

  let at = putSections(bytes, HEADER_BYTES, plan);
  at = putSections(bytes, at, [sumSection(hash(bytes.subarray(HEADER_BYTES, at)))]);
  const chunks = new Uint8Array(8 + hashBytes * hashes.length);
  const chunkView = new DataView(chunks.buffer);
  chunkView.setUint32(0, hashBytes === 32 ? 2 : 1, true);
  chunkView.setUint32(4, CHUNK_BYTES, true);
  hashes.forEach((h, i) => chunks.set(h, 8 + hashBytes * i));
  at = putSections(bytes, at, [...others, { tag: 'HASH', payload: chunks }]);
  putSections(bytes, at, [sumSection(hash(bytes.subarray(0, at)))]);
  return bytes;
}
