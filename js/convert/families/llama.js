/** LLaMA and the families that are LLaMA with something added. */
import { eachLayer, someLayers } from './layers.js';
import { LLAMA_MODULES, LLAMA_NAMES, activationOf, listedWindow, sizesOf, windowOf } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

/** @type {Family} */
export const llama = {
  ...LLAMA_NAMES,
  modules: LLAMA_MODULES,
  config: (hf) => ({
    arch: 'llama',
    ...sizesOf(hf),
    norm: 'rms',
    norm_eps: hf.rms_norm_eps ?? 1e-6,
    activation: activationOf(hf.hidden_act ?? 'silu'),
    gated: true,
    tied: hf.tie_word_embeddings ?? false,
  }),
};

/** All layers see a window, in the first versions. @type {Family} */
export const mistral = {
  ...llama,
  config: (hf) => ({ ...llama.config(hf), arch: 'mistral', ...windowOf(hf, 0) }),
};

/** Layers without positions among the others. @type {Family} */
export const smollm3 = {
  ...llama,
  defaults: { tie_word_embeddings: true, rope_theta: 2e6 },
  config: (hf) => {
    const every = hf.no_rope_layer_interval ?? 4;
    const rotated = eachLayer(hf.no_rope_layers, hf.num_hidden_layers, 'no_rope_layers');
    return {
      ...llama.config(hf),
      arch: 'smollm3',
      ...(rotated
        ? someLayers(
            rotated.map((on) => !on),
            'unrotated_every',
            'unrotated_layers',
          )
        : { unrotated_every: every }),
      ...(hf.use_sliding_window && listedWindow(hf, (i) => !(rotated?.[i] ?? (i + 1) % every))),
    };
  },
};

/** Layers from max_window_layers on see a window, where they are told to. @param {Record<string, any>} hf */
const qwenWindow = (hf) => (hf.use_sliding_window ? listedWindow(hf, (i) => i >= (hf.max_window_layers ?? 28)) : {});

/** Biases of q, k and v, which need no word of the configuration. @type {Family} */
export const qwen2 = {
  ...llama,
  config: (hf) => ({ ...llama.config(hf), arch: 'qwen2', ...qwenWindow(hf) }),
};

/** Each head of q and k is normed. @type {Family} */
export const qwen3 = {
  ...llama,
  modules: { ...LLAMA_MODULES, 'self_attn.q_norm': 'attn.q_norm', 'self_attn.k_norm': 'attn.k_norm' },
  defaults: { head_dim: 128 },
  config: (hf) => ({ ...llama.config(hf), arch: 'qwen3', qk_norm: 'heads', ...qwenWindow(hf) }),
};

/** Factors of the embedding, the scores, what layers add and the logits. @type {Family} */
export const granite = {
  ...llama,
  config: (hf) => ({
    ...llama.config(hf),
    arch: 'granite',
    embed_scale: hf.embedding_multiplier ?? 1,
    attn_scale: hf.attention_multiplier ?? 1,
    residual_scale: hf.residual_multiplier ?? 1,
    logit_scale: 1 / (hf.logits_scaling ?? 1),
  }),
};

/** Norms of what attention and MLP give, and of all of q and of k. @type {Family} */
export const olmo2 = {
  ...LLAMA_NAMES,
  modules: {
    ...LLAMA_MODULES,
    post_attention_layernorm: 'ln1_post',
    post_feedforward_layernorm: 'ln2_post',
    'self_attn.q_norm': 'attn.q_norm',
    'self_attn.k_norm': 'attn.k_norm',
  },
  config: (hf) => ({ ...llama.config(hf), arch: 'olmo2', norm_place: 'after', qk_norm: 'rows' }),
};
