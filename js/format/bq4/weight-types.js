/**
 * The weight types of .bq4 files (docs/FORMAT.md §1). The table equals that of c/core/type.h:
 * tests/js/convert-encode.test.mjs compares them.
 */
import { BqError } from '../../shared/errors.js';

/**
 * @typedef {object} WeightType
 * @property {number} id          number in files
 * @property {string} name
 * @property {number} block       weights per block
 * @property {number} blockBytes  bytes of a row-major block
 * @property {number} step        columns of a tile; 0 if the type has no tiled layout
 * @property {number} tileBytes   bytes of a tile of 8 rows
 * @property {number} bits        bits per weight. Special values: 1 is ternary, stored in 2 bits; 5 is codes of a
 *   table, stored in 4 bits; 0 means that there is no encoder and only the C code can decode the type
 * @property {number} scaleBytes  size of a block's scale: 4 (f32), 2 (f16), 1 (sub-block scale), 0 (no scale)
 * @property {number} minBytes    size of a block's minimum, with the same values; types with a minimum have unsigned
 *   weights
 */

/** Row of a float type, with one weight per block. @param {string} name @param {number} bytes */
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
 * Row of a compute type, which has a tiled layout. A scale of 1 byte is a sub-block scale: it multiplies the f16
 * super-block scale of 256 weights.
 * @param {string} name @param {number} shared  number of weights that share a scale
 * @param {number} bits @param {number} scaleBytes @param {number} minBytes
 */
function tiled(name, shared, bits, scaleBytes, minBytes) {
  const hasSuperblocks = scaleBytes === 1;
  const block = hasSuperblocks ? 256 : shared;
  const step = Math.max(block, 32);
  const bytes = (bits === 7 ? 8 : bits === 5 ? 4 : Math.max(bits, 2)) / 8;
  const scales = (scaleBytes + minBytes) / shared + (hasSuperblocks ? (2 + 2 * minBytes) / block : 0); // per weight
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

/** Row of a compute type without an encoder, to which types of GGUF files are repacked. @type {typeof tiled} */
const imported = (name, shared, bits, scaleBytes, minBytes) => ({
  ...tiled(name, shared, bits, scaleBytes, minBytes),
  bits: 0,
});

/**
 * Row of a type that is only a storage type. Some are repacked to another type while they are loaded, others only have
 * a reserved id.
 * @param {string} name @param {number} block @param {number} blockBytes
 */
const storedOnly = (name, block, blockBytes) => ({
  name,
  block,
  blockBytes,
  bits: 0,
  scaleBytes: 0,
  minBytes: 0,
  step: 0,
  tileBytes: 0,
});

const TABLE = [
  float('f32', 4),
  float('f16', 2),
  float('bf16', 2),
  tiled('bq4_16', 16, 4, 4, 0),
  tiled('bq4_32', 32, 4, 4, 0),
  tiled('bq4_64', 64, 4, 4, 0),
  tiled('bq4h_32', 32, 4, 2, 0),
  tiled('bq4a_32', 32, 4, 2, 2),
  tiled('bq8_32', 32, 8, 2, 0),
  storedOnly('q2s_64', 64, 20),
  storedOnly('q2a_64', 64, 20),
  storedOnly('q3a_64', 64, 28),
  storedOnly('q4a_64', 64, 36),
  storedOnly('tern_64', 64, 18),
  storedOnly('q4_0', 32, 18),
  storedOnly('q4_1', 32, 20),
  storedOnly('q8_0', 32, 34),
  storedOnly('q5_0', 32, 22),
  storedOnly('q5_1', 32, 24),
  storedOnly('q2_k', 256, 84),
  storedOnly('q3_k', 256, 110),
  storedOnly('q4_k', 256, 144),
  storedOnly('q5_k', 256, 176),
  storedOnly('q6_k', 256, 210),
  storedOnly('iq4_nl', 32, 18),
  imported('bq4k_16', 16, 4, 1, 0),
  imported('bq4ka_16', 16, 4, 1, 1),
  imported('bq4ka_32', 32, 4, 1, 1),
  imported('bq7a_32', 32, 7, 2, 2),
  imported('bq7ka_32', 32, 7, 1, 1),
  imported('bq7k_16', 16, 7, 1, 0),
  storedOnly('iq4_xs', 256, 136),
  imported('bq8k_32', 32, 8, 1, 0),
  tiled('bq3a_64', 64, 3, 2, 2),
  tiled('bq2a_64', 64, 2, 2, 2),
  tiled('bq2_64', 64, 2, 2, 0),
  tiled('bqt_64', 64, 1, 2, 0),
  imported('bqc2k_16', 16, 5, 1, 0),
  imported('bqc3k_16', 16, 5, 1, 0),
  imported('bqc3sk_16', 16, 5, 1, 0),
  imported('bqf4_16', 16, 5, 2, 0),
];

/** Indexed by id. @type {readonly WeightType[]} */
export const TYPES = TABLE.map((row, id) => ({ id, ...row }));

/** Layout of consecutive rows, each padded to whole blocks. */
export const ROWS = 0;
/** Layout of row tiles (8 rows each), stored as sequences of tiles along the columns. */
export const TILED = 1;
/** Layout of v1 files: one sequence of blocks over the flattened tensor. */
export const FLAT = 2;

/** Short names that options accept for types. @type {Record<string, string>} */
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
/** Names of the types that have an encoder. */
export const WRITABLE = TYPES.filter((type) => type.bits).map((type) => type.name);

/**
 * Returns the writable type with a name or an alias. Throws ARGUMENT.
 * @param {string} name
 * @returns {WeightType}
 */
export function typeNamed(name) {
  const full = Object.hasOwn(ALIASES, name) ? ALIASES[name] : name;
  const type = WRITABLE.includes(full) ? TYPES.find((t) => t.name === full) : undefined;
  if (!type)
    throw new BqError('ARGUMENT', `unknown weight type "${name}"`, {
      hint: `expected one of ${[...Object.keys(ALIASES), ...WRITABLE].join(', ')}`,
    });
  return type;
}

/**
 * Whether c/quant/round.c can optimize the blocks of a type for the inputs of a matrix (GPTQ).
 * @param {WeightType} type
 */
export const isSearched = ({ name, block, bits }) => block > 1 && bits > 0 && bits <= 4 && name !== 'bq2_64';

/** Returns the layout in which the engine computes with a type. @param {WeightType} type */
export const runLayout = (type) => (type.step ? TILED : ROWS);

/**
 * Returns the size of a rows × cols matrix in bytes.
 * @param {WeightType} type
 * @param {number} layout
 * @param {number} rows
 * @param {number} cols
 */
export function weightBytes(type, layout, rows, cols) {
  if (layout === FLAT) return Math.ceil((rows * cols) / type.block) * type.blockBytes;
  if (layout === ROWS) return rows * Math.ceil(cols / type.block) * type.blockBytes;
  if (!type.step) throw new BqError('ARGUMENT', `${type.name} has no tiled layout`);
  return Math.ceil(rows / 8) * Math.ceil(cols / type.step) * type.tileBytes;
}
