/** Facts about weight types (docs/FORMAT.md §1): the twin of c/core/type.h; tests/js/convert-encode.test.mjs compares. */
import { BqError } from '../shared/errors.js';

/**
 * @typedef {object} WeightType
 * @property {number} id          stored in files
 * @property {string} name
 * @property {number} block       weights per block
 * @property {number} blockBytes  bytes of a row-major block
 * @property {number} step        columns of a tile; 0: never tiled
 * @property {number} tileBytes   bytes of a tile of 8 rows
 */

/** @type {[string, number, number, number, number][]} */
const rows = [
  ['f32', 1, 4, 0, 0],
  ['f16', 1, 2, 0, 0],
  ['bf16', 1, 2, 0, 0],
  ['bq4_16', 16, 12, 32, 192],
  ['bq4_32', 32, 20, 32, 160],
  ['bq4_64', 64, 36, 64, 288],
  ['bq4h_32', 32, 18, 32, 144],
  ['bq4a_32', 32, 20, 0, 0],
  ['bq8_32', 32, 34, 32, 272],
  ['q2s_64', 64, 20, 0, 0],
  ['q2a_64', 64, 20, 0, 0],
  ['q3a_64', 64, 28, 0, 0],
  ['q4a_64', 64, 36, 0, 0],
  ['tern_64', 64, 18, 0, 0],
];

/** Indexed by id. @type {readonly WeightType[]} */
export const TYPES = rows.map(([name, block, blockBytes, step, tileBytes], id) => ({ id, name, block, blockBytes, step, tileBytes }));

/** Rows one after the other, each padded to whole blocks. */
export const ROWS = 0;
/** Groups of 8 rows, each a run of tiles along the columns. */
export const TILED = 1;
/** v1 only: one run of blocks over the flattened tensor. */
export const FLAT = 2;

/** What people may ask for: short names beside the stored ones. @type {Record<string, string>} */
const ALIASES = { bq4: 'bq4_32', bq4h: 'bq4h_32', bq8: 'bq8_32' };
/** Types that have an encoder. */
export const WRITABLE = ['f32', 'f16', 'bf16', 'bq4_16', 'bq4_32', 'bq4_64', 'bq4h_32', 'bq8_32'];

/**
 * A type that can be written, by its name or alias. ARGUMENT.
 * @param {string} name
 * @returns {WeightType}
 */
export function typeNamed(name) {
  const full = Object.hasOwn(ALIASES, name) ? ALIASES[name] : name;
  const type = WRITABLE.includes(full) ? TYPES.find((t) => t.name === full) : undefined;
  if (!type) throw new BqError('ARGUMENT', `"${name}" is no weight type`, { hint: `one of ${[...Object.keys(ALIASES), ...WRITABLE].join(', ')}` });
  return type;
}

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
