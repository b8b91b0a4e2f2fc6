/** Converts lists with an entry for each layer, as config.json and GGUF files have them, to keys of our configuration. */
import { BqError } from '../../shared/errors.js';

const MAX_LAYERS = 1024;

/**
 * A subset of the layers: as a period if the subset has one (older readers know no lists), else as a list of numbers.
 * @param {boolean[]} which  for each layer whether it belongs to the subset
 * @param {string} every  key of the period
 * @param {string} list   key of the list
 * @returns {Record<string, number | number[]>}
 */
export function someLayers(which, every, list) {
  const period = which.indexOf(true) + 1;
  const fits = which.every((is, i) => is === (period > 0 && (i + 1) % period === 0));
  return fits ? { [every]: period } : { [list]: which.flatMap((is, i) => (is ? [i] : [])) };
}

/** A list that has an entry for each layer, as an array; null if it is missing or empty. Throws FORMAT for another length. @param {unknown} list @param {number} layers @param {string} name @returns {any[] | null} */
export function eachLayer(list, layers, name) {
  const values = ArrayBuffer.isView(list) ? Array.from(/** @type {Uint8Array} */ (list)) : (list ?? []);
  if (Array.isArray(values) && !values.length) return null;
  if (!Array.isArray(values) || values.length !== layers)
    throw new BqError('FORMAT', `${name} lists ${/** @type {any} */ (values).length ?? 'no'} of ${layers} layers`);
  return values;
}

/** [0, 1, … layers - 1]. Throws FORMAT for an invalid number of layers. @param {unknown} layers */
export function numbersOf(layers) {
  if (typeof layers !== 'number' || !(layers >= 1 && layers <= MAX_LAYERS))
    throw new BqError('FORMAT', `the model has ${layers} layers`, { hint: `expected 1 to ${MAX_LAYERS}` });
  return Array.from({ length: layers }, (_, i) => i);
}

/** Whether a tensor is that of keys or values of a layer that attends to another layer's, as some files have them. @param {string} name  canonical @param {Record<string, any>} config  ours */
export function isOfSharedKeys(name, { layers, shared_kv: shared = 0 }) {
  const layer = /^h\.(\d+)\.attn\.(k|v|k_norm)\./.exec(name)?.[1];
  return layer !== undefined && Number(layer) >= layers - shared;
}

/** Our window, which counts one side and the token itself, of one that counts both sides. @param {number} window */
export const bothSides = (window) => Math.floor(window / 2) + 1;
