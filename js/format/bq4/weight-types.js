/** Facts about weight types (docs/FORMAT.md §1): the twin of c/core/type.h; tests/js/convert-encode.test.mjs compares. */
import { BqError } from '../../shared/errors.js';

/**
 * @typedef {object} WeightType
 * @property {number} id          stored in files
 * @property {string} name
 * @property {number} block       weights per block
 * @property {number} blockBytes  bytes of a row-major block
 * @property {number} step        columns of a tile; 0: never tiled
 * @property {number} tileBytes   bytes of a tile of 8 rows
 * @property {number} bits        per weight; 1: ternary, kept in 2; 0: there is no encoder, and only C reads it
 * @property {number} scaleBytes  of a block's scale: 4 (f32), 2 (f16), 0 (none)
 * @property {number} minBytes    the same of its minimum; with one, weights are unsigned
 */

/** Types of one weight per block. @param {string} name @param {number} bytes */
const float = (name, bytes) => ({
  name,
  block: 1,
  blockBytes: bytes,
  bits: 8 * bytes,
  scaleBytes: 0,
  minBytes: 0,
  step: 0,
  tileBytes: 0,
});

/**
 * Types that the engine computes with in tiles. Bytes of a scale: 1 is a factor of an f16 of 256 weights.
 * @param {string} name @param {number} shared weights that share a scale @param {number} bits @param {number} scaleBytes @param {number} minBytes
 */
function tiled(name, shared, bits, scaleBytes, minBytes) {
  const factors = scaleBytes === 1;
  const block = factors ? 256 : shared;
  const step = Math.max(block, 32);
  const bytes = (bits === 7 ? 8 : Math.max(bits, 2)) / 8;
  const scales = (scaleBytes + minBytes) / shared + (factors ? (2 + 2 * minBytes) / block : 0); // per weight
  return {
    name,
    block,
    bits,
    scaleBytes,
    minBytes,
    step,
    blockBytes: block * (bytes + scales),
    tileBytes: 8 * step * (bytes + scales),
  };
}

/** The same without an encoder: what types of other containers become. @type {typeof tiled} */
const imported = (name, shared, bits, scaleBytes, minBytes) => ({
  ...tiled(name, shared, bits, scaleBytes, minBytes),
  bits: 0,
});

/** Types that are only read, or not even that. @param {string} name @param {number} block @param {number} blockBytes */
const named = (name, block, blockBytes) => ({
  name,
  block,
  blockBytes,
  bits: 0,
  scaleBytes: 0,
  minBytes: 0,
  step: 0,
  tileBytes: 0,
});

const rows = [
  float('f32', 4),
  float('f16', 2),
  float('bf16', 2),
  tiled('bq4_16', 16, 4, 4, 0),
  tiled('bq4_32', 32, 4, 4, 0),
  tiled('bq4_64', 64, 4, 4, 0),
  tiled('bq4h_32', 32, 4, 2, 0),
  tiled('bq4a_32', 32, 4, 2, 2),
  tiled('bq8_32', 32, 8, 2, 0),
  named('q2s_64', 64, 20),
  named('q2a_64', 64, 20),
  named('q3a_64', 64, 28),
  named('q4a_64', 64, 36),
  named('tern_64', 64, 18),
  named('q4_0', 32, 18),
  named('q4_1', 32, 20),
  named('q8_0', 32, 34),
  named('q5_0', 32, 22),
  named('q5_1', 32, 24),
  named('q2_k', 256, 84),
  named('q3_k', 256, 110),
  named('q4_k', 256, 144),
  named('q5_k', 256, 176),
  named('q6_k', 256, 210),
  named('iq4_nl', 32, 18),
  imported('bq4k_16', 16, 4, 1, 0),
  imported('bq4ka_16', 16, 4, 1, 1),
  imported('bq4ka_32', 32, 4, 1, 1),
  imported('bq7a_32', 32, 7, 2, 2),
  imported('bq7ka_32', 32, 7, 1, 1),
  imported('bq7k_16', 16, 7, 1, 0),
  named('iq4_xs', 256, 136),
  imported('bq8k_32', 32, 8, 1, 0),
  tiled('bq3a_64', 64, 3, 2, 2),
  tiled('bq2a_64', 64, 2, 2, 2),
  tiled('bq2_64', 64, 2, 2, 0),
  tiled('bqt_64', 64, 1, 2, 0),
];

/** Indexed by id. @type {readonly WeightType[]} */
export const TYPES = rows.map((row, id) => ({ id, ...row }));

/** Rows one after the other, each padded to whole blocks. */
export const ROWS = 0;
/** Groups of 8 rows, each a run of tiles along the columns. */
export const TILED = 1;
/** v1 only: one run of blocks over the flattened tensor. */
export const FLAT = 2;

/** What people may ask for: short names beside the stored ones. @type {Record<string, string>} */
const ALIASES = {
  bq4: 'bq4_32',
  bq4h: 'bq4h_32',
  bq4a: 'bq4a_32',
  bq8: 'bq8_32',
  bq3a: 'bq3a_64',
  bq2a: 'bq2a_64',
  bq2: 'bq2_64',
  bqt: 'bqt_64',
};
/** Types that have an encoder. */
export const WRITABLE = TYPES.filter((type) => type.bits).map((type) => type.name);

/**
 * A type that can be written, by its name or alias. ARGUMENT.
 * @param {string} name
 * @returns {WeightType}
 */
export function typeNamed(name) {
  const full = Object.hasOwn(ALIASES, name) ? ALIASES[name] : name;
  const type = WRITABLE.includes(full) ? TYPES.find((t) => t.name === full) : undefined;
  if (!type)
    throw new BqError('ARGUMENT', `"${name}" is no weight type`, {
      hint: `one of ${[...Object.keys(ALIASES), ...WRITABLE].join(', ')}`,
    });
  return type;
}

/** Whether c/quant/round.c makes its blocks. @param {WeightType} type */
export const isSearched = ({ name, block, bits }) => block > 1 && bits > 0 && bits <= 4 && name !== 'bq2_64';

/** The layout that the engine computes with. @param {WeightType} type */
export const runLayout = (type) => (type.step ? TILED : ROWS);

/**
 * Bytes of a rows × cols matrix.
 * @param {WeightType} type
 * @param {number} layout
 * @param {number} rows
 * @param {number} cols
 */
export function weightBytes(type, layout, rows, cols) {
  if (layout === FLAT) return Math.ceil((rows * cols) / type.block) * type.blockBytes;
  if (layout === ROWS) return rows * Math.ceil(cols / type.block) * type.blockBytes;
  if (!type.step) throw new BqError('ARGUMENT', `${type.name} is never tiled`);
  return Math.ceil(rows / 8) * Math.ceil(cols / type.step) * type.tileBytes;
}
