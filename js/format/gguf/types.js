/**
 * Weight types by GGUF's numbers. Those that the engine has (convert/weights.js) are read, and those that become one of these as they
 * are read; the others are refused by name.
 */
import { TYPES } from '../bq4/weight-types.js';
import { BqError } from '../../shared/errors.js';
import { q6kOfIq3s } from './iq3s.js';

/** @import { WeightType } from '../bq4/weight-types.js' */

/** @type {Record<number, string>} */
const NAMES = {
  0: 'f32',
  1: 'f16',
  2: 'q4_0',
  3: 'q4_1',
  6: 'q5_0',
  7: 'q5_1',
  8: 'q8_0',
  9: 'q8_1',
  10: 'q2_k',
  11: 'q3_k',
  12: 'q4_k',
  13: 'q5_k',
  14: 'q6_k',
  15: 'q8_k',
  16: 'iq2_xxs',
  17: 'iq2_xs',
  18: 'iq3_xxs',
  19: 'iq1_s',
  20: 'iq4_nl',
  21: 'iq3_s',
  22: 'iq2_s',
  23: 'iq4_xs',
  24: 'i8',
  25: 'i16',
  26: 'i32',
  27: 'i64',
  28: 'f64',
  29: 'iq1_m',
  30: 'bf16',
  34: 'tq1_0',
  35: 'tq2_0',
  39: 'mxfp4',
  40: 'nvfp4',
};

/** What GGUF calls a type. @param {number} number */
export const typeName = (number) => (NAMES[number] ?? `type ${number}`).toUpperCase();

/** A type that the engine has not: its blocks become those of another one. @typedef {WeightType & { becomes: WeightType, translate: (blocks: Uint8Array) => Uint8Array }} Translated */
/** Ids from here on are no engine's. */
const BEYOND = 1000;
const Q6_K = /** @type {WeightType} */ (TYPES.find(({ name }) => name === 'q6_k'));
/** @type {Translated[]} */
const TRANSLATED = [{ ...Q6_K, id: BEYOND + 21, name: 'iq3_s', blockBytes: 110, becomes: Q6_K, translate: q6kOfIq3s }];
/** All that are read, and those that have a place in files of ours. */
export const ALL = [...TYPES, ...TRANSLATED];

/** Ours, where there is one. @param {number} number @returns {WeightType | undefined} */
export const knownType = (number) => ALL.find((type) => type.name === NAMES[number]);

/** By the id that knownType's types have. @param {number} id @returns {WeightType} */
export const storedType = (id) => /** @type {WeightType} */ (ALL.find((type) => type.id === id));

/** What a type becomes as it is read. @param {WeightType} type @returns {Translated | undefined} */
export const translated = ({ id }) => TRANSLATED.find((type) => type.id === id);

/** The type that the engine is told, of an id. @param {number} id */
export const toldType = (id) => TRANSLATED.find((type) => type.id === id)?.becomes.id ?? id;

/** The types that can be read, as GGUF calls them. */
export const readable = () => Object.keys(NAMES).map(Number).filter(knownType).map(typeName);

/**
 * The type of a tensor. UNSUPPORTED.
 * @param {{ name: string, type: number, at: number }} tensor
 * @returns {WeightType}
 */
export function typeOf({ name, type, at }) {
  const found = knownType(type);
  if (!found)
    throw new BqError('UNSUPPORTED', `tensor "${name}" is stored as ${typeName(type)}`, {
      offset: at,
      hint: `read are ${readable().join(', ')}`,
    });
  return found;
}
