/** Gemma's three generations: norms of 1 + w, a scaled embedding; then norms around and softcaps; then norms of heads. */
import { plusOne } from '../bq4/tensor-views.js';
import { LLAMA_MODULES, LLAMA_NAMES, activationOf, expect, sizesOf, windowOf } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

/** The first files say "gelu" and mean the other form. @param {Record<string, any>} hf */
const activation = (hf) =>
  activationOf(
    hf.hidden_activation ?? (hf.hidden_act === 'gelu' ? 'gelu_pytorch_tanh' : hf.hidden_act) ?? 'gelu_pytorch_tanh',
  );

/** @type {Family} */
export const gemma = {
  ...LLAMA_NAMES,
  modules: LLAMA_MODULES,
  defaults: { head_dim: 256, max_position_embeddings: 8192 },
  change: (name, tensor) => (/(^|\.)(ln\w+|[qk]_norm)\.weight$/.test(name) ? plusOne(tensor) : tensor),
  config: (hf) => {
    expect(!hf.use_bidirectional_attention, 'tokens see those after them');
    return {
      arch: 'gemma',
      ...sizesOf(hf),
      norm: 'rms',
      norm_eps: hf.rms_norm_eps ?? 1e-6,
      activation: activation(hf),
      gated: true,
      tied: hf.tie_word_embeddings ?? true,
      embed_scale: hf.hidden_size ** 0.5,
    };
  },
};

/** @type {Family} */
export const gemma2 = {
  ...gemma,
  modules: {
    ...LLAMA_MODULES,
    post_attention_layernorm: 'ln1_post',
    pre_feedforward_layernorm: 'ln2',
    post_feedforward_layernorm: 'ln2_post',
  },
  defaults: {
    ...gemma.defaults,
    sliding_window: 4096,
    query_pre_attn_scalar: 256,
    attn_logit_softcapping: 50,
    final_logit_softcapping: 30,
  },
  config: (hf) => ({
    ...gemma.config(hf),
    arch: 'gemma2',
    ...windowOf(hf, 2),
    norm_place: 'around',
    attn_scale: (hf.query_pre_attn_scalar ?? 256) ** -0.5,
    attn_softcap: hf.attn_logit_softcapping ?? 0,
    logit_softcap: hf.final_logit_softcapping ?? 0,
  }),
};

/** Local layers have a rotation of their own, which is never scaled. @type {Family} */
export const gemma3 = {
  ...gemma2,
  modules: { ...gemma2.modules, 'self_attn.q_norm': 'attn.q_norm', 'self_attn.k_norm': 'attn.k_norm' },
  // The public files of this family say little more than what differs between its sizes.
  defaults: {
    vocab_size: 262208,
    hidden_size: 2304,
    intermediate_size: 9216,
    num_hidden_layers: 26,
    num_attention_heads: 8,
    num_key_value_heads: 4,
    head_dim: 256,
    max_position_embeddings: 131072,
    sliding_window: 4096,
    query_pre_attn_scalar: 256,
  },
  config: (hf) => {
    const local = hf.rope_parameters?.sliding_attention ?? {};
    expect(['default', undefined].includes(local.rope_type ?? local.type), 'positions of local layers are scaled');
    return {
      ...gemma2.config(hf),
      ...sizesOf(hf, 1e6),
      arch: 'gemma3',
      ...windowOf(hf, hf.sliding_window_pattern ?? 6),
      qk_norm: 'heads',
      local_theta: hf.rope_local_base_freq ?? local.rope_theta ?? 10000,
    };
  },
};
