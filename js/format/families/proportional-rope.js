/**
 * Proportional RoPE: only the first angles of a head are rotated, with the frequencies of a completely rotated head
 * (Gemma 4, LFM3). Layers with a window have rotary positions of their own, without scaling.
 */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { checkRotated } from './rope.js';

/** Divisor that makes an angle 0. */
const UNROTATED = 1e30;

/**
 * Returns a value of rope_parameters. Throws FORMAT unless it is an object.
 * @param {any} value @param {string} name @returns {Record<string, any>}
 */
export function objectOf(value, name) {
  if (typeof value === 'object' && !Array.isArray(value)) return value;
  throw new BqError('FORMAT', `rope_parameters: ${name} is ${shown(value)}`, { hint: 'expected an object' });
}

/**
 * Throws UNSUPPORTED for positions that a config.json does not specify for each kind of layer; transformers fails then.
 * It would replace rope_parameters by rope_scaling, which no published file has.
 * @param {Record<string, any>} hf
 */
function checkKinds({ rope_parameters: rope, rope_scaling: scaling }) {
  const flat = rope?.full_attention || rope?.sliding_attention ? null : rope;
  for (const [key, value] of Object.entries({ rope_scaling: scaling, rope_parameters: flat }))
    if (Object.keys(value ?? {}).length > 0)
      throw new BqError('UNSUPPORTED', `config.json: ${key} is ${shown(value)}`, {
        hint: 'expected rope_parameters for each kind of layer: full_attention, sliding_attention',
      });
}

/**
 * Returns the rope_parameters of both kinds of layers, `full` and `local`. A kind that config.json omits has the
 * defaults of transformers; for a kind that it contains, these defaults do not apply, but keys outside rope_parameters
 * do. Throws FORMAT, UNSUPPORTED.
 * @param {Record<string, any>} hf
 * @param {{ full: Record<string, any>, local?: Record<string, any> }} defaults
 */
export function positionsByKind(hf, defaults) {
  const rope = objectOf(hf.rope_parameters ?? {}, 'its value');
  checkKinds(hf);
  const theta = hf.rope_theta ? { rope_theta: hf.rope_theta } : {};
  /** @type {Record<string, any>} */
  const full = {
    partial_rotary_factor: hf.partial_rotary_factor ?? 1,
    factor: 1,
    ...theta,
    ...objectOf(rope.full_attention ?? defaults.full, 'full_attention'),
  };
  /** @type {Record<string, any>} */
  const local = { ...theta, ...objectOf(rope.sliding_attention ?? defaults.local ?? {}, 'sliding_attention') };
  for (const [key, max] of /** @type {const} */ ([
    ['partial_rotary_factor', 1],
    ['factor', Infinity],
  ]))
    if (!(typeof full[key] === 'number' && full[key] > 0 && full[key] <= max))
      throw new BqError('FORMAT', `rope_parameters: ${key} of full_attention is ${shown(full[key])}`, {
        hint: `expected a number above 0${max === 1 ? ', at most 1' : ''}`,
      });
  return { full, local };
}

/**
 * Returns the divisors of the angles of layers without a window. Throws FORMAT.
 * @param {Record<string, any>} full  rope_parameters of these layers @param {number} dim  dimensions of a head
 */
export function proportionalDivisors({ partial_rotary_factor: part, factor }, dim) {
  checkRotated(dim);
  const rotated = Math.trunc((part * dim) / 2);
  return Float32Array.from({ length: dim / 2 }, (_, i) => (i < rotated ? factor : UNROTATED));
}
