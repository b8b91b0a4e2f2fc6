/**
 * The header and the layer index of QSF files (docs/FORMAT.md §6), and the model configuration that follows from them.
 */
import { BqError } from '../../shared/errors.js';
import { nodeModule } from '../../shared/node.js';
import { kindOf } from './blocks.js';
import { methodName } from './compression.js';

export const HEADER_BYTES = 128;
export const ENTRY_BYTES = 32;
/** Value of an absent token id. */
export const NONE = 0xffffffff;
const CRC_AT = 96;
const VERSION = 1;

/**
 * Names of the architectures by their number in files. Phi means Phi-3, since the header cannot describe the partial
 * rotation of older models.
 */
const ARCHITECTURES = ['GPT-2', 'LLaMA', 'Mistral', 'Phi', 'custom'];
/** `arch` of the architectures in configurations, by their number in files. */
const ARCHS = ['gpt2', 'llama', 'mistral', 'phi3', 'other'];
const ACTIVATIONS = ['gelu', 'silu', 'relu'];
const NORMS = ['layer', 'rms'];
const POSITIONS = ['learned', 'rope', 'alibi'];
/** Number for the default type of a file whose layers have different types. */
const MIXED = 5;

/**
 * The numbers of the header. If kvHeads or headDim is 0 in the file, the actual value replaces it.
 * @typedef {object} Header
 * @property {number} arch
 * @property {number} layers
 * @property {number} hidden
 * @property {number} heads
 * @property {number} kvHeads
 * @property {number} vocab
 * @property {number} context
 * @property {number} ffn
 * @property {number} headDim
 * @property {number} quant
 * @property {number} activation
 * @property {number} norm
 * @property {number} position
 * @property {number} theta
 * @property {number} index      byte offset of the layer index
 * @property {number} embedding  byte offset of the embedding
 * @property {number} final      byte offset of the final norm
 * @property {number} bos
 * @property {number} eos
 * @property {number} pad
 * @property {number} fileSize   low 32 bits of the file's length
 */

/** Fields of four bytes with their offsets. @type {[keyof Header, number][]} */
const WORDS = [
  ['arch', 12],
  ['layers', 16],
  ['hidden', 20],
  ['heads', 24],
  ['kvHeads', 28],
  ['vocab', 32],
  ['context', 36],
  ['ffn', 40],
  ['headDim', 44],
  ['bos', 80],
  ['eos', 84],
  ['pad', 88],
  ['fileSize', 92],
];
/** @type {[keyof Header, number][]} */
const BYTES = [
  ['quant', 48],
  ['activation', 49],
  ['norm', 50],
  ['position', 51],
];
/** @type {[keyof Header, number][]} */
const OFFSETS = [
  ['index', 56],
  ['embedding', 64],
  ['final', 72],
];

/** @param {Uint8Array} bytes @param {number} [before]  CRC of the preceding bytes @returns {number} */
export const crc32 = (bytes, before = 0) => nodeModule('zlib').crc32(bytes, before);

/**
 * Throws FORMAT, TRUNCATED, UNSUPPORTED.
 * @param {string} name @param {Header} h @param {number} size  size of the file in bytes
 */
function checkHeader(name, h, size) {
  const checkChoice = (
    /** @type {string[]} */ list,
    /** @type {number} */ value,
    /** @type {string} */ field,
    /** @type {number} */ offset,
  ) => {
    if (value >= list.length)
      throw new BqError(
        'UNSUPPORTED',
        `${name}: unknown ${field} ${value}, expected one of ${list.map((text, i) => `${i} ${text}`).join(', ')}`,
        { offset, hint: 'it may have been written by a newer version' },
      );
  };
  checkChoice(ARCHITECTURES, h.arch, 'architecture', 12);
  checkChoice(ACTIVATIONS, h.activation, 'activation', 49);
  checkChoice(NORMS, h.norm, 'norm', 50);
  checkChoice(POSITIONS, h.position, 'position', 51);
  if (h.quant !== MIXED && (h.quant > MIXED || !kindOf(h.quant)))
    throw new BqError('UNSUPPORTED', `${name}: unknown default type ${h.quant}`, { offset: 48 });
  const zero = WORDS.slice(1, 9).find(([key]) => h[key] === 0);
  if (zero) throw new BqError('FORMAT', `${name}: "${zero[0]}" in its header is 0`, { offset: zero[1] });
  if (!Number.isInteger(h.headDim) || h.heads % h.kvHeads)
    throw new BqError(
      'FORMAT',
      `${name}: ${h.heads} heads, ${h.kvHeads} KV heads and a hidden size of ${h.hidden} are inconsistent`,
      {
        offset: 24,
      },
    );
  if (h.position === 1 && !(h.theta > 0 && Number.isFinite(h.theta)))
    throw new BqError('FORMAT', `${name}: the base of its rotary positions is ${h.theta}; expected a number above 0`, {
      offset: 52,
    });
  if (h.fileSize !== size % 2 ** 32)
    throw new BqError(
      size < h.fileSize ? 'TRUNCATED' : 'FORMAT',
      `${name} has ${size} bytes; its header declares ${h.fileSize}`,
      { offset: Math.min(size, h.fileSize) },
    );
  const outside = OFFSETS.find(([key]) => h[key] < HEADER_BYTES || h[key] >= size);
  if (outside)
    throw new BqError('FORMAT', `${name}: the offset of its "${outside[0]}", ${h[outside[0]]}, is outside the file`, {
      offset: outside[1],
    });
  if (h.layers * ENTRY_BYTES > size - h.index)
    throw new BqError('FORMAT', `${name}: its index of ${h.layers} layers exceeds the file`, { offset: 16 });
}

/**
 * Reads the header. Throws NOT_A_MODEL, TRUNCATED, FORMAT, UNSUPPORTED.
 * @param {string} name  name of the file
 * @param {Uint8Array} bytes  its first 128 bytes
 * @param {number} size  its size in bytes
 * @returns {Header}
 */
export function readHeader(name, bytes, size) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (String.fromCharCode(...bytes.subarray(0, 4)) !== 'QSF1')
    throw new BqError('NOT_A_MODEL', `${name} does not begin like a .qsf file`, { offset: 0 });
  if (bytes.length < HEADER_BYTES)
    throw new BqError('TRUNCATED', `${name} ends within its header`, { offset: bytes.length });
  const u32 = (/** @type {number} */ at) => view.getUint32(at, true);
  if (u32(4) !== VERSION)
    throw new BqError('UNSUPPORTED', `${name} has QSF version ${u32(4)}; expected ${VERSION}`, { offset: 4 });
  if (u32(8) !== HEADER_BYTES)
    throw new BqError('FORMAT', `${name}: its header has ${u32(8)} bytes; expected ${HEADER_BYTES}`, { offset: 8 });
  if (u32(CRC_AT) !== crc32(bytes.subarray(0, CRC_AT)))
    throw new BqError('FORMAT', `${name}: its header is damaged (CRC-32)`, {
      offset: CRC_AT,
      hint: 'fetch the file again',
    });
  const nonZero = bytes.subarray(CRC_AT + 4, HEADER_BYTES).findIndex((byte) => byte !== 0);
  if (nonZero >= 0)
    throw new BqError('FORMAT', `${name}: reserved bytes of its header are not zero`, { offset: CRC_AT + 4 + nonZero });
  const h = /** @type {Header} */ ({
    ...Object.fromEntries([
      ...WORDS.map(([key, at]) => [key, u32(at)]),
      ...BYTES.map(([key, at]) => [key, bytes[at]]),
      ...OFFSETS.map(([key, at]) => [key, Number(view.getBigUint64(at, true))]),
    ]),
    theta: view.getFloat32(52, true),
  });
  h.kvHeads ||= h.heads;
  h.headDim ||= h.hidden / h.heads;
  checkHeader(name, h, size);
  return h;
}

/** @param {Header} h @returns {Uint8Array} */
export function encodeHeader(h) {
  const bytes = new Uint8Array(HEADER_BYTES);
  const view = new DataView(bytes.buffer);
  new TextEncoder().encodeInto('QSF1', bytes);
  view.setUint32(4, VERSION, true);
  view.setUint32(8, HEADER_BYTES, true);
  for (const [key, at] of WORDS) view.setUint32(at, h[key], true);
  for (const [key, at] of BYTES) bytes[at] = h[key];
  for (const [key, at] of OFFSETS) view.setBigUint64(at, BigInt(h[key]), true);
  view.setFloat32(52, h.theta, true);
  view.setUint32(CRC_AT, crc32(bytes.subarray(0, CRC_AT)), true);
  return bytes;
}

/**
 * An entry of the layer index. `stored`: size in the file; `size`: size after decompression; both in bytes.
 * @typedef {{
 *   offset: number, stored: number, size: number, quant: number, method: number, tensors: number, crc: number
 * }} Layer
 */

/**
 * Reads the layer index. Throws FORMAT, UNSUPPORTED.
 * @param {string} name  name of the file @param {Uint8Array} bytes  bytes of the index
 * @param {number} at  offset of the index in the file @param {number} size  size of the file in bytes
 * @returns {Layer[]}
 */
export function readIndex(name, bytes, at, size) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return Array.from({ length: bytes.length / ENTRY_BYTES }, (_, n) => {
    const entry = n * ENTRY_BYTES;
    const layer = {
      offset: Number(view.getBigUint64(entry, true)),
      stored: view.getUint32(entry + 8, true),
      size: view.getUint32(entry + 12, true),
      quant: bytes[entry + 16],
      method: bytes[entry + 17],
      tensors: view.getUint16(entry + 18, true),
      crc: view.getUint32(entry + 20, true),
    };
    const where = { offset: at + entry };
    if (!methodName(layer.method))
      throw new BqError('UNSUPPORTED', `${name}: layer ${n} has the unknown compression ${layer.method}`, where);
    if (!kindOf(layer.quant))
      throw new BqError('UNSUPPORTED', `${name}: layer ${n} has the unknown type ${layer.quant}`, where);
    if (layer.offset < HEADER_BYTES || !(layer.stored <= size - layer.offset))
      throw new BqError('FORMAT', `${name}: layer ${n} exceeds the file`, where);
    if (layer.method === 0 && layer.stored !== layer.size)
      throw new BqError(
        'FORMAT',
        `${name}: layer ${n} is not compressed, but declares ${layer.size} bytes for ${layer.stored}`,
        where,
      );
    return layer;
  });
}

/** @param {Layer[]} layers @returns {Uint8Array} */
export function encodeIndex(layers) {
  const bytes = new Uint8Array(layers.length * ENTRY_BYTES);
  const view = new DataView(bytes.buffer);
  layers.forEach(({ offset, stored, size, quant, method, tensors, crc }, n) => {
    const entry = n * ENTRY_BYTES;
    view.setBigUint64(entry, BigInt(offset), true);
    view.setUint32(entry + 8, stored, true);
    view.setUint32(entry + 12, size, true);
    bytes.set([quant, method], entry + 16);
    view.setUint16(entry + 18, tensors, true);
    view.setUint32(entry + 20, crc, true);
    view.setFloat32(entry + 24, 1, true); // importance: equal for all layers
  });
  return bytes;
}

/**
 * Returns the model configuration. Throws UNSUPPORTED.
 * @param {string} name  name of the file @param {Header} h
 * @param {{ gated: boolean, tied: boolean }} tensors  properties that follow from the tensors
 * @returns {Record<string, any>}
 */
export function configOf(name, h, { gated, tied }) {
  if (ARCHS[h.arch] === 'phi3' && !(gated && NORMS[h.norm] === 'rms'))
    throw new BqError('UNSUPPORTED', `${name} is a Phi model older than Phi-3`, {
      offset: 12,
      hint: 'its header lacks the rotated share of a head: convert the original model',
    });
  return {
    arch: ARCHS[h.arch],
    layers: h.layers,
    hidden: h.hidden,
    heads: h.heads,
    kv_heads: h.kvHeads,
    head_dim: h.headDim,
    ffn: h.ffn,
    vocab: h.vocab,
    context: h.context,
    norm: NORMS[h.norm],
    norm_eps: 1e-5,
    position: POSITIONS[h.position],
    activation: ACTIVATIONS[h.activation],
    gated,
    tied,
    ...(POSITIONS[h.position] === 'rope' && { rope_theta: h.theta, rope_pairs: 'half' }),
  };
}

/**
 * Returns the number of an architecture in QSF files; the number of "custom" if the format has none for it.
 * @param {string} arch
 */
export const archNumber = (arch) => (ARCHS.includes(arch) ? ARCHS.indexOf(arch) : ARCHS.indexOf('other'));

/**
 * Returns the header's numbers for three choices of a configuration; -1 for a choice that the header cannot describe.
 * @param {{ norm: number, position: number, activation: number }} config  configuration with defaults filled in
 */
export const choicesOf = ({ norm, position, activation }) => ({
  norm: NORMS.indexOf(['rms', 'layer'][norm]),
  position: POSITIONS.indexOf(['rope', 'learned', 'alibi'][position]),
  activation: ACTIVATIONS.indexOf(['silu', 'gelu', 'relu'][activation]),
});
