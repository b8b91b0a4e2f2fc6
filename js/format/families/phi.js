/** Phi-2 and StableLM, where attention and MLP may share a norm, and Phi-3, which is LLaMA with fused tensors. */
import { GGUF_HEAD_NORMS, GGUF_MODULES, ggufRms, ggufRotaryLayerNorm, ggufWindow } from './gguf.js';
import { LLAMA_MODULES, LLAMA_NAMES, activationOf, gptOf, QKV, sizesOf, splitInto, windowOf } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

/** Phi-1, 1.5 and 2. @type {Family} */
export const phi = {
  arch: 'phi',
  prefix: 'model.',
  layers: 'layers.',
  outer: { embed_tokens: 'wte', final_layernorm: 'ln_f', lm_head: 'lm_head' },
  modules: {
    input_layernorm: 'ln1',
    'self_attn.q_proj': 'attn.q',
    'self_attn.k_proj': 'attn.k',
    'self_attn.v_proj': 'attn.v',
    'self_attn.dense': 'attn.o',
    'self_attn.q_layernorm': 'attn.q_norm',
    'self_attn.k_layernorm': 'attn.k_norm',
    'mlp.fc1': 'mlp.up',
    'mlp.fc2': 'mlp.down',
  },
  unread: /\.rotary_emb\.inv_freq$/,
  defaults: { partial_rotary_factor: 0.5 },
  rotatesParts: true,
  config: (hf) => ({
    ...sizesOf(hf),
    ...gptOf(hf, hf.hidden_act ?? 'gelu_new', false),
    block: 'shared',
    ...(hf.qk_layernorm && { qk_norm: 'heads' }),
  }),
  gguf: { phi2: { config: (facts) => ({ ...ggufRotaryLayerNorm(facts, 'gelu'), block: 'shared' }) } },
};

/** @type {Family} */
export const phi3 = {
  ...LLAMA_NAMES,
  arch: 'phi3',
  rotatesParts: true,
  modules: {
    input_layernorm: 'ln1',
    post_attention_layernorm: 'ln2',
    'self_attn.o_proj': 'attn.o',
    'mlp.down_proj': 'mlp.down',
    'self_attn.qkv_proj': splitInto(QKV, (c) => [c.heads, c.kv_heads, c.kv_heads].map((n) => n * c.head_dim)),
    'mlp.gate_up_proj': splitInto(['mlp.gate', 'mlp.up'], ({ ffn }) => [ffn, ffn]),
  },
  config: (hf) => ({
    ...sizesOf(hf),
    norm: 'rms',
    norm_eps: hf.rms_norm_eps ?? 1e-5,
    activation: activationOf(hf.hidden_act ?? 'silu'),
    gated: true,
    tied: hf.tie_word_embeddings ?? false,
    ...windowOf(hf, 0),
  }),
  gguf: {
    phi3: {
      // ffn_up has gate and up in one tensor.
      modules: () => ({ ...GGUF_MODULES, ffn_up: 'mlp.gate_up' }),
      config: (facts) => ({ ...ggufRms(facts), ...ggufWindow(facts) }),
    },
  },
};

/** Each head has its own norm weights, in a separate tensor. @type {Family} */
export const stablelm = {
  ...LLAMA_NAMES,
  arch: 'stablelm',
  modules: {
    ...LLAMA_MODULES,
    'self_attn.q_layernorm.norms': 'attn.q_norm',
    'self_attn.k_layernorm.norms': 'attn.k_norm',
  },
  defaults: { partial_rotary_factor: 0.25 },
  rotatesParts: true,
  config: (hf) => ({
    ...sizesOf(hf),
    norm: 'layer',
    norm_eps: hf.layer_norm_eps ?? 1e-5,
    activation: activationOf(hf.hidden_act ?? 'silu'),
    gated: true,
    tied: hf.tie_word_embeddings ?? false,
    ...(hf.use_parallel_residual && { block: 'shared' }),
    ...(hf.qk_layernorm && { qk_norm: 'each' }),
  }),
  gguf: {
    stablelm: {
      modules: () => ({ ...GGUF_MODULES, ...GGUF_HEAD_NORMS }),
      config: (facts) => ({
        ...ggufRotaryLayerNorm(facts, 'silu'),
        gated: true,
        ...(!facts.has('blk.0.ffn_norm.weight') && { block: 'shared' }),
        ...(facts.has('blk.0.attn_q_norm.weight') && { qk_norm: 'each' }),
      }),
    },
  },
};
