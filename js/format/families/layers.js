/** What differs from layer to layer, as configurations and GGUF files list it, in our keys. */
import { BqError } from '../../shared/errors.js';

const MOST_LAYERS = 1024;

/**
 * Some layers of a model: by a period, which readers from before there were lists know too, where they follow one.
 * @param {boolean[]} which  of all layers
 * @param {string} every  the key of the period
 * @param {string} list   the key of the list
 * @returns {Record<string, number | number[]>}
 */
export function someLayers(which, every, list) {
  const period = which.indexOf(true) + 1;
  const fits = which.every((is, i) => is === (period > 0 && (i + 1) % period === 0));
  return fits ? { [every]: period } : { [list]: which.flatMap((is, i) => (is ? [i] : [])) };
}

/** A list with something about each layer; null: there is none. FORMAT. @param {unknown} list @param {number} layers @param {string} name @returns {any[] | null} */
export function eachLayer(list, layers, name) {
  const values = ArrayBuffer.isView(list) ? Array.from(/** @type {Uint8Array} */ (list)) : (list ?? []);
  if (Array.isArray(values) && !values.length) return null;
  if (!Array.isArray(values) || values.length !== layers)
    throw new BqError('FORMAT', `${name} lists ${/** @type {any} */ (values).length ?? 'no'} of ${layers} layers`);
  return values;
}

/** The numbers of layers. FORMAT: there are more than can be. @param {unknown} layers */
export function numbersOf(layers) {
  if (typeof layers !== 'number' || !(layers >= 1 && layers <= MOST_LAYERS))
    throw new BqError('FORMAT', `there are ${layers} layers`, { hint: `1 to ${MOST_LAYERS}` });
  return Array.from({ length: layers }, (_, i) => i);
}
