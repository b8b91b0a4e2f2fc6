/**
 * Converts lists with an entry for each layer, from config.json and GGUF files, to keys of the model configuration
 * (bq4/config.js).
 */
import { BqError } from '../../shared/errors.js';

const MAX_LAYERS = 1024;

/**
 * Describes a subset of the layers: by a period if it has one, since older readers do not support lists, otherwise by a
 * list of numbers.
 * @param {boolean[]} members  for each layer whether it belongs to the subset
 * @param {string} periodKey
 * @param {string} listKey
 * @returns {Record<string, number | number[]>}
 */
export function someLayers(members, periodKey, listKey) {
  const period = members.indexOf(true) + 1;
  const isPeriodic = members.every((isMember, i) => isMember === (period > 0 && (i + 1) % period === 0));
  return isPeriodic ? { [periodKey]: period } : { [listKey]: members.flatMap((isMember, i) => (isMember ? [i] : [])) };
}

/** Returns the keys for layers without rotary positions. @param {boolean[]} rotated  for each layer */
export const unrotatedLayers = (rotated) =>
  someLayers(
    rotated.map((isRotated) => !isRotated),
    'unrotated_every',
    'unrotated_layers',
  );

/**
 * Converts a list with an entry for each layer to an array; null if the list is missing or empty. Throws FORMAT for
 * another length.
 * @param {unknown} list @param {number} layers @param {string} name  name of the list, for errors
 * @returns {any[] | null}
 */
export function eachLayer(list, layers, name) {
  const values = ArrayBuffer.isView(list) ? Array.from(/** @type {Uint8Array} */ (list)) : (list ?? []);
  if (Array.isArray(values) && !values.length) return null;
  if (!Array.isArray(values) || values.length !== layers)
    throw new BqError('FORMAT', `${name} lists ${/** @type {any} */ (values).length ?? 'no'} of ${layers} layers`);
  return values;
}

/**
 * Returns the numbers of all layers: [0, 1, … layers - 1]. Throws FORMAT for an invalid number of layers.
 * @param {unknown} layers
 */
export function numbersOf(layers) {
  if (typeof layers !== 'number' || !(layers >= 1 && layers <= MAX_LAYERS))
    throw new BqError('FORMAT', `the model has ${layers} layers`, { hint: `expected 1 to ${MAX_LAYERS}` });
  return Array.from({ length: layers }, (_, i) => i);
}

/**
 * Whether a tensor computes keys or values of a layer that attends to the keys and values of another layer. Some files
 * have such tensors, which are not needed.
 * @param {string} name  canonical name @param {Record<string, any>} config  configuration of the model
 */
export function isOfSharedKeys(name, { layers, shared_kv: shared = 0 }) {
  const layer = /^h\.(\d+)\.attn\.(k|v|k_norm)\./.exec(name)?.[1];
  return layer !== undefined && Number(layer) >= layers - shared;
}

/**
 * Adds the keys for models in which only layers with a window have rotary positions.
 * @param {Record<string, any>} windows  keys for layers with sliding-window attention (windowOf, ggufWindow); {} if no
 *   layer has a window
 */
export const unrotatedGlobals = (windows) => ({
  ...windows,
  ...(windows.global_layers
    ? { unrotated_layers: windows.global_layers }
    : { unrotated_every: windows.global_every ?? 1 }),
});

/**
 * Converts a window that counts both sides to a window that counts one side and the token itself.
 * @param {number} window
 */
export const bothSides = (window) => Math.floor(window / 2) + 1;

/**
 * Returns a configuration without rotary positions.
 * @param {Record<string, any>} config @returns {Record<string, any>}
 */
export function withoutRotary(config) {
  const { rope_theta: _theta, rope_dim: _dim, rope_scale: _scale, rope_original: _original, ...others } = config;
  return { ...others, position: 'none' };
}
