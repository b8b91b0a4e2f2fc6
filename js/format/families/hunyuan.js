/**
 * Hunyuan's dense models, also those for translation, and Maincoder: heads of q and k are normed after they are rotated.
 */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { GGUF_HEAD_NORMS, GGUF_MODULES, ggufRms } from './gguf.js';
import { llama } from './llama.js';
import { LLAMA_MODULES } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

/**
 * Returns the base of rotary positions. With `alpha`, "dynamic" positions are the same for every length: only their
 * base is larger. Throws FORMAT.
 * @param {Record<string, any>} hf @param {number} theta  base without alpha @param {number} dim  dimensions of a head
 */
function scaledTheta({ rope_parameters, rope_scaling }, theta, dim) {
  const { rope_type, type = rope_type, alpha } = { ...rope_parameters, ...rope_scaling };
  if (type !== 'dynamic' || !alpha) return theta;
  if (!(typeof alpha === 'number' && alpha > 0))
    throw new BqError('FORMAT', `rope_parameters: alpha is ${shown(alpha)}`, { hint: 'expected a number above 0' });
  return theta * alpha ** (dim / (dim - 2));
}

/** @type {import('./gguf.js').GgufRow} */
const hunyuanGguf = {
  modules: () => ({ ...GGUF_MODULES, ...GGUF_HEAD_NORMS }),
  config: (facts) => ({ ...ggufRms(facts), qk_norm: 'rotated' }),
};

/** @type {Family} */
export const hunyuan = {
  ...llama,
  arch: 'other',
  labels: undefined,
  modules: {
    ...LLAMA_MODULES,
    'self_attn.query_layernorm': 'attn.q_norm',
    'self_attn.key_layernorm': 'attn.k_norm',
  },
  config: (hf) => {
    const config = llama.config({ rms_norm_eps: 1e-5, ...hf });
    return { ...config, rope_theta: scaledTheta(hf, config.rope_theta, config.head_dim), qk_norm: 'rotated' };
  },
  gguf: {
    // The base of rotary positions is the scaled one.
    'hunyuan-dense': hunyuanGguf,
    maincoder: { ...hunyuanGguf, ropePairs: 'adjacent' },
  },
};
