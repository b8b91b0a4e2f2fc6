/**
 * Gemma 1 (norms of 1 + w, a scaled embedding), Gemma 2 (also norms after attention and MLP, softcaps) and Gemma 3
 * (norms of heads).
 */
import { plusOne } from '../bq4/tensor-views.js';
import { GGUF_HEAD_NORMS, GGUF_MODULES, GGUF_OUTER, ggufRms, ggufWindow } from './gguf.js';
import { bothSides } from './layers.js';
import { LLAMA_MODULES, LLAMA_NAMES, activationOf, expect, sizesOf, windowOf } from './shared.js';

/** @import { GgufFacts } from './gguf.js' */
/** @typedef {import('./shared.js').Family} Family */

/**
 * Returns the activation. In the first config.json files "gelu" is the tanh approximation.
 * @param {Record<string, any>} hf
 */
const activation = (hf) =>
  activationOf(
    hf.hidden_activation ?? (hf.hidden_act === 'gelu' ? 'gelu_pytorch_tanh' : hf.hidden_act) ?? 'gelu_pytorch_tanh',
  );

/** Returns the configuration. Norm weights in GGUF files already are 1 + w. @param {GgufFacts} facts */
function ggufGemma(facts) {
  const config = ggufRms(facts, 'gelu');
  return { ...config, embed_scale: config.hidden ** 0.5 };
}

/**
 * Returns the scale of attention scores. In the largest model of a generation it depends on hidden / heads instead of
 * the head size.
 * @param {Record<string, any>} config
 * @param {number} layers  number of layers of the largest model, by which it is recognized
 */
const ggufScale = (config, layers) =>
  (config.layers === layers ? config.hidden / config.heads : config.head_dim) ** -0.5;

/** Keys that turn the configuration of a decoder into that of an encoder. */
export const ENCODER = { bidirectional: true, no_head: true, tied: false };

/** Returns the keys of the dense layers after the pooling. @param {GgufFacts} facts */
const ggufDense = ({ has, dims }) => ({
  ...(has('dense_2.weight') && { dense1: dims('dense_2.weight')[0] }),
  ...(has('dense_3.weight') && { dense2: dims('dense_3.weight')[0] }),
});

const GGUF_POST_NORM_MODULES = { ...GGUF_MODULES, post_attention_norm: 'ln1_post', post_ffw_norm: 'ln2_post' };

/** @type {Family} */
export const gemma = {
  ...LLAMA_NAMES,
  arch: 'gemma',
  modules: LLAMA_MODULES,
  defaults: { head_dim: 256, max_position_embeddings: 8192 },
  change: (name, tensor) => (/(^|\.)(ln\w+|[qk]_norm)\.weight$/.test(name) ? plusOne(tensor) : tensor),
  config: (hf) => {
    expect(!hf.use_bidirectional_attention, 'Gemma with bidirectional attention');
    return {
      ...sizesOf(hf),
      norm: 'rms',
      norm_eps: hf.rms_norm_eps ?? 1e-6,
      activation: activation(hf),
      gated: true,
      tied: hf.tie_word_embeddings ?? true,
      embed_scale: hf.hidden_size ** 0.5,
    };
  },
  gguf: { gemma: { config: ggufGemma } },
};

/** @type {Family} */
export const gemma2 = {
  ...gemma,
  arch: 'gemma2',
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
    ...windowOf(hf, 2),
    norm_place: 'around',
    attn_scale: (hf.query_pre_attn_scalar ?? 256) ** -0.5,
    attn_softcap: hf.attn_logit_softcapping ?? 0,
    logit_softcap: hf.final_logit_softcapping ?? 0,
  }),
  gguf: {
    gemma2: {
      modules: () => GGUF_POST_NORM_MODULES,
      config: (facts) => {
        const config = ggufGemma(facts);
        return {
          ...config,
          window: facts.get('attention.sliding_window', 4096),
          global_every: 2,
          norm_place: 'around',
          attn_scale: ggufScale(config, 46),
          attn_softcap: facts.get('attn_logit_softcapping', 50),
          logit_softcap: facts.get('final_logit_softcapping', 30),
        };
      },
    },
  },
};

/** VaultGemma: Gemma 2 without the norms after attention and MLP. @type {Family} */
export const vaultgemma = {
  ...gemma2,
  arch: 'other',
  modules: { ...LLAMA_MODULES, pre_feedforward_layernorm: 'ln2' },
  config: (hf) => ({ ...gemma2.config(hf), norm_place: 'before' }),
  gguf: {},
};

/** Layers with a window have their own rotary base, and their positions are not scaled. @type {Family} */
export const gemma3 = {
  ...gemma2,
  arch: 'gemma3',
  modules: { ...gemma2.modules, 'self_attn.q_norm': 'attn.q_norm', 'self_attn.k_norm': 'attn.k_norm' },
  // The published config.json files omit values that are the same for most sizes.
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
    expect(
      ['default', undefined].includes(local.rope_type ?? local.type),
      'Gemma 3 with scaled positions of local layers',
    );
    expect(!hf.attn_logit_softcapping, 'Gemma 3 with attn_logit_softcapping');
    // In EmbeddingGemma's config.json the window counts both sides.
    const embeds = Boolean(hf.use_bidirectional_attention);
    const window = embeds ? bothSides(hf.sliding_window) : hf.sliding_window;
    return {
      ...gemma2.config({ ...hf, use_bidirectional_attention: false }),
      ...sizesOf(hf, 1e6),
      ...windowOf({ ...hf, sliding_window: window }, hf.sliding_window_pattern ?? 6),
      qk_norm: 'heads',
      local_theta: hf.rope_local_base_freq ?? local.rope_theta ?? 10000,
      ...(embeds && ENCODER),
    };
  },
  gguf: {
    gemma3: {
      modules: () => ({ ...GGUF_POST_NORM_MODULES, ...GGUF_HEAD_NORMS }),
      config: (facts) => {
        const config = ggufGemma(facts);
        return {
          ...config,
          ...ggufWindow(facts, 6),
          norm_place: 'around',
          qk_norm: 'heads',
          attn_scale: ggufScale(config, 62),
          local_theta: facts.get('rope.freq_base_swa', 10000),
          logit_softcap: facts.get('final_logit_softcapping', 0),
        };
      },
    },
    'gemma-embedding': {
      outer: { ...GGUF_OUTER, dense_2: 'pooled.dense1', dense_3: 'pooled.dense2' },
      modules: () => ({ ...GGUF_POST_NORM_MODULES, ...GGUF_HEAD_NORMS }),
      config: (facts) => {
        const config = ggufGemma(facts);
        return {
          ...config,
          ...ggufWindow(facts, 6),
          window: bothSides(facts.get('attention.sliding_window')),
          norm_place: 'around',
          qk_norm: 'heads',
          local_theta: facts.get('rope.freq_base_swa', 10000),
          ...ENCODER,
          ...ggufDense(facts),
        };
      },
    },
  },
};
