/**
 * The weight types of GGUF files, one row each. A type is readable if the engine has a type of the same name
 * (bq4/weight-types.js), or if its row has a conversion to one. A tensor of any other type is an error that contains
 * the name of the type. To support another type, add it to the engine, or add a conversion to its row here and a
 * function to block-conversions.js.
 */
import { BqError, onDemand } from '../../shared/errors.js';
import { TYPES } from '../bq4/weight-types.js';

/** @import { WeightType } from '../bq4/weight-types.js' */

/**
 * Conversion of blocks while they are read: weights of a stored block, bytes of a stored block, and the engine's type.
 * A stored block becomes one or several blocks of that type.
 * @typedef {[block: number, blockBytes: number, to: string]} Conversion
 */

/** Each type with its number and name in ggml. @type {[number: number, name: string, conversion?: Conversion][]} */
const TABLE = [
  [0, 'f32'],
  [1, 'f16'],
  [2, 'q4_0'],
  [3, 'q4_1'],
  [6, 'q5_0'],
  [7, 'q5_1'],
  [8, 'q8_0'],
  [9, 'q8_1'],
  [10, 'q2_k'],
  [11, 'q3_k'],
  [12, 'q4_k'],
  [13, 'q5_k'],
  [14, 'q6_k'],
  [15, 'q8_k'],
  [16, 'iq2_xxs', [256, 66, 'bqc2k_16']],
  [17, 'iq2_xs', [256, 74, 'bqc2k_16']],
  [18, 'iq3_xxs', [256, 98, 'bqc3k_16']],
  [19, 'iq1_s', [256, 50, 'bqc2k_16']],
  [20, 'iq4_nl'],
  [21, 'iq3_s', [256, 110, 'bqc3sk_16']],
  [22, 'iq2_s', [256, 82, 'bqc2k_16']],
  [23, 'iq4_xs'],
  [24, 'i8'],
  [25, 'i16'],
  [26, 'i32'],
  [27, 'i64'],
  [28, 'f64'],
  [29, 'iq1_m', [256, 56, 'bqc2k_16']],
  [30, 'bf16'],
  [34, 'tq1_0', [256, 54, 'bqt_64']],
  [35, 'tq2_0', [256, 66, 'bqt_64']],
  [36, 'i2_s'], // only in files of Microsoft's bitnet.cpp
  [39, 'mxfp4', [32, 17, 'bqf4_16']],
  [40, 'nvfp4', [64, 36, 'bqf4_16']],
  [41, 'q1_0', [128, 18, 'bq2_64']],
  [42, 'q2_0', [64, 18, 'bqt_64']],
];

/**
 * A type that the engine does not have: its blocks become blocks of `engineType`.
 * @typedef {WeightType & { engineType: WeightType }} ConvertedType
 */

/**
 * Added to the GGUF number of a converted type to make its id, which is then larger than the ids of all engine types.
 */
const FIRST_CONVERTED_ID = 1000;

/** @param {string} name */
const engineTypeNamed = (name) => TYPES.find((type) => type.name === name);

/** Readable types by GGUF's number. @type {Map<number, WeightType | ConvertedType>} */
const READABLE = new Map();
for (const [number, name, conversion] of TABLE) {
  const [block, blockBytes, to] = conversion ?? [];
  const engineType = engineTypeNamed(to ?? name);
  if (!engineType) continue;
  const converted = { ...engineType, id: FIRST_CONVERTED_ID + number, name, block, blockBytes, engineType };
  READABLE.set(number, conversion ? /** @type {ConvertedType} */ (converted) : engineType);
}
const NAMES = new Map(TABLE.map(([number, name]) => [number, name]));
const CONVERTED = [...READABLE.values()].filter((type) => 'engineType' in type);

/** The types of the engine and the types that are converted to one of them. */
export const ALL_TYPES = [...TYPES, ...CONVERTED];

/** Returns GGUF's name of a type. @param {number} number */
export const typeName = (number) => (NAMES.get(number) ?? `type ${number}`).toUpperCase();

/** Returns the type with a GGUF number; undefined if the type is not readable. @param {number} number */
export const typeNumbered = (number) => READABLE.get(number);

/** Returns the readable type with an id. @param {number} id @returns {WeightType} */
export const typeWithId = (id) => /** @type {WeightType} */ (ALL_TYPES.find((type) => type.id === id));

/**
 * Returns the conversion of a type; undefined if the engine has the type.
 * @param {{ id: number }} type @returns {ConvertedType | undefined}
 */
export const conversionOf = ({ id }) => CONVERTED.find((type) => type.id === id);

/**
 * Returns the function that converts whole blocks of a type to blocks of the engine's type; undefined if the engine has
 * the type. The offset of an error that the function throws is relative to its result.
 * @param {{ id: number, name: string }} type @returns {Promise<((blocks: Uint8Array) => Uint8Array) | undefined>}
 */
export async function loadConverter(type) {
  if (!conversionOf(type)) return undefined;
  const { CONVERTERS } = await onDemand(import('./block-conversions.js'));
  return CONVERTERS[type.name];
}

/**
 * Returns the offset of a stored block, for the offset of a byte in the converted blocks.
 * @param {ConvertedType} type @param {number} offset
 */
export const storedOffset = ({ block, blockBytes, engineType }, offset) =>
  Math.floor((offset * engineType.block) / (engineType.blockBytes * block)) * blockBytes;

/** Returns the id of the engine's type for the id of a readable type. @param {number} id */
export const engineTypeId = (id) => conversionOf({ id })?.engineType.id ?? id;

/** Returns GGUF's names of the readable types. */
export const readableTypes = () => [...READABLE.keys()].map(typeName);

/**
 * Returns the type of a tensor. Throws UNSUPPORTED.
 * @param {{ name: string, type: number, at: number }} tensor
 * @returns {WeightType}
 */
export function typeOf({ name, type, at }) {
  const readable = typeNumbered(type);
  if (!readable)
    throw new BqError('UNSUPPORTED', `tensor "${name}" has the unsupported type ${typeName(type)}`, {
      offset: at,
      hint: `expected one of ${readableTypes().join(', ')}`,
    });
  return readable;
}
