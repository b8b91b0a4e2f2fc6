/** The header and the layer index of QSF files (docs/FORMAT.md §6), and the configuration that they say. */
import { BqError } from '../../shared/errors.js';
import { nodeModule } from '../../shared/node.js';
import { kindOf } from './blocks.js';
import { methodName } from './compression.js';

export const HEADER_BYTES = 128;
export const ENTRY_BYTES = 32;
/** No id. */
export const NONE = 0xffffffff;
const CRC_AT = 96;
const VERSION = 1;

/** Of the file, and ours of the same. Phi's is that of Phi-3: how much of a head the older ones rotate is not said. */
const ARCHES = ['GPT-2', 'LLaMA', 'Mistral', 'Phi', 'custom'];
const OURS = ['gpt2', 'llama', 'mistral', 'phi3', 'other'];
const ACTIVATIONS = ['gelu', 'silu', 'relu'];
const NORMS = ['layer', 'rms'];
const POSITIONS = ['learned', 'rope', 'alibi'];
const MIXED = 5;

/**
 * @typedef {object} Header  numbers as the file has them, but that 0 of kvHeads and headDim is resolved
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
 * @property {number} index      offsets
 * @property {number} embedding
 * @property {number} final
 * @property {number} bos
 * @property {number} eos
 * @property {number} pad
 * @property {number} fileSize   low 32 bits
 */

/** Fields of four bytes by their offset. @type {[keyof Header, number][]} */
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

/** @param {Uint8Array} bytes @param {number} [before]  the CRC of what comes before @returns {number} */
export const crc32 = (bytes, before = 0) => nodeModule('zlib').crc32(bytes, before);

/** @param {string} name @param {Header} h @param {number} size  of the file */
function check(name, h, size) {
  const known = (
    /** @type {string[]} */ list,
    /** @type {number} */ value,
    /** @type {string} */ what,
    /** @type {number} */ offset,
  ) => {
    if (value >= list.length)
      throw new BqError(
        'UNSUPPORTED',
        `${name}: unknown ${what} ${value}, expected one of ${list.map((text, i) => `${i} ${text}`).join(', ')}`,
        { offset, hint: 'it was written by a later version' },
      );
  };
  known(ARCHES, h.arch, 'architecture', 12);
  known(ACTIVATIONS, h.activation, 'activation', 49);
  known(NORMS, h.norm, 'norm', 50);
  known(POSITIONS, h.position, 'position', 51);
  if (h.quant !== MIXED && (h.quant > MIXED || !kindOf(h.quant)))
    throw new BqError('UNSUPPORTED', `${name}: default type ${h.quant} is unknown`, { offset: 48 });
  const zero = WORDS.slice(1, 9).find(([key]) => h[key] === 0);
  if (zero) throw new BqError('FORMAT', `${name}: its header says 0 of "${zero[0]}"`, { offset: zero[1] });
  if (!Number.isInteger(h.headDim) || h.heads % h.kvHeads)
    throw new BqError('FORMAT', `${name}: ${h.heads} heads, ${h.kvHeads} of keys, of ${h.hidden} values don't fit`, {
      offset: 24,
    });
  if (h.position === 1 && !(h.theta > 0 && Number.isFinite(h.theta)))
    throw new BqError('FORMAT', `${name}: the base of its rotation is ${h.theta}`, { offset: 52 });
  if (h.fileSize !== size % 2 ** 32)
    throw new BqError(
      size < h.fileSize ? 'TRUNCATED' : 'FORMAT',
      `${name} has ${size} bytes; its header says ${h.fileSize}`,
      { offset: Math.min(size, h.fileSize) },
    );
  const outside = OFFSETS.find(([key]) => h[key] < HEADER_BYTES || h[key] >= size);
  if (outside)
    throw new BqError('FORMAT', `${name}: its "${outside[0]}" lies outside, at ${h[outside[0]]}`, {
      offset: outside[1],
    });
  if (h.layers * ENTRY_BYTES > size - h.index)
    throw new BqError('FORMAT', `${name}: an index of ${h.layers} layers ends behind the file`, { offset: 16 });
}

/**
 * NOT_A_MODEL, TRUNCATED, FORMAT, UNSUPPORTED.
 * @param {string} name @param {Uint8Array} bytes  the first 128 @param {number} size  of the file
 * @returns {Header}
 */
export function readHeader(name, bytes, size) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (String.fromCharCode(...bytes.subarray(0, 4)) !== 'QSF1')
    throw new BqError('NOT_A_MODEL', `${name} does not begin like a .qsf file`, { offset: 0 });
  if (bytes.length < HEADER_BYTES)
    throw new BqError('TRUNCATED', `${name} ends in its header`, { offset: bytes.length });
  const u32 = (/** @type {number} */ at) => view.getUint32(at, true);
  if (u32(4) !== VERSION)
    throw new BqError('UNSUPPORTED', `${name} has version ${u32(4)} of QSF, not ${VERSION}`, { offset: 4 });
  if (u32(8) !== HEADER_BYTES)
    throw new BqError('FORMAT', `${name}: its header has ${u32(8)} bytes, not ${HEADER_BYTES}`, { offset: 8 });
  if (u32(CRC_AT) !== crc32(bytes.subarray(0, CRC_AT)))
    throw new BqError('FORMAT', `${name}: its header is damaged (CRC-32)`, {
      offset: CRC_AT,
      hint: 'fetch the file again',
    });
  const filled = bytes.subarray(CRC_AT + 4, HEADER_BYTES).findIndex((byte) => byte !== 0);
  if (filled >= 0)
    throw new BqError('FORMAT', `${name}: its header is not zero where it is to be`, { offset: CRC_AT + 4 + filled });
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
  check(name, h, size);
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

/** @typedef {{ offset: number, stored: number, size: number, quant: number, method: number, tensors: number, crc: number }} Layer  stored and size: bytes packed and not */

/** FORMAT, UNSUPPORTED. @param {string} name @param {Uint8Array} bytes @param {number} at  where they lie @param {number} size  of the file @returns {Layer[]} */
export function readIndex(name, bytes, at, size) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return Array.from({ length: bytes.length / ENTRY_BYTES }, (_, n) => {
    const here = n * ENTRY_BYTES;
    const layer = {
      offset: Number(view.getBigUint64(here, true)),
      stored: view.getUint32(here + 8, true),
      size: view.getUint32(here + 12, true),
      quant: bytes[here + 16],
      method: bytes[here + 17],
      tensors: view.getUint16(here + 18, true),
      crc: view.getUint32(here + 20, true),
    };
    const where = { offset: at + here };
    if (!methodName(layer.method))
      throw new BqError('UNSUPPORTED', `${name}: layer ${n} has compression ${layer.method}, which is unknown`, where);
    if (!kindOf(layer.quant))
      throw new BqError('UNSUPPORTED', `${name}: layer ${n} has type ${layer.quant}, which is unknown`, where);
    if (layer.offset < HEADER_BYTES || !(layer.stored <= size - layer.offset))
      throw new BqError('FORMAT', `${name}: layer ${n} ends behind the file`, where);
    if (layer.method === 0 && layer.stored !== layer.size)
      throw new BqError(
        'FORMAT',
        `${name}: layer ${n} is not compressed, but would have ${layer.size} bytes of ${layer.stored}`,
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
    const here = n * ENTRY_BYTES;
    view.setBigUint64(here, BigInt(offset), true);
    view.setUint32(here + 8, stored, true);
    view.setUint32(here + 12, size, true);
    bytes.set([quant, method], here + 16);
    view.setUint16(here + 18, tensors, true);
    view.setUint32(here + 20, crc, true);
    view.setFloat32(here + 24, 1, true); // importance: all the same
  });
  return bytes;
}

/** UNSUPPORTED. @param {string} name @param {Header} h @param {{ gated: boolean, tied: boolean }} seen  in the tensors @returns {Record<string, any>} */
export function configOf(name, h, { gated, tied }) {
  if (OURS[h.arch] === 'phi3' && !(gated && NORMS[h.norm] === 'rms'))
    throw new BqError('UNSUPPORTED', `${name} is a Phi model before Phi-3`, {
      offset: 12,
      hint: 'the file does not say how much of a head is rotated: convert the original model',
    });
  return {
    arch: OURS[h.arch],
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

/** The number of one of our architectures in .qsf files: custom where these have no number for it. @param {string} arch */
export const archNumber = (arch) => (OURS.includes(arch) ? OURS.indexOf(arch) : OURS.indexOf('other'));

/** Our choices as the header numbers them; -1: it has none. @param {{ norm: number, position: number, activation: number }} config  as completed */
export const choicesOf = ({ norm, position, activation }) => ({
  norm: NORMS.indexOf(['rms', 'layer'][norm]),
  position: POSITIONS.indexOf(['rope', 'learned', 'alibi'][position]),
  activation: ACTIVATIONS.indexOf(['silu', 'gelu', 'relu'][activation]),
});
