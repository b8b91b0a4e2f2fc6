/**
 * GPT-2, StarCoder, GPT-NeoX, GPT-J and CodeGen. Most have q, k and v in one tensor; the order of its rows differs between families.
 */
import { columns, pick, range } from '../bq4/tensor-views.js';
import { GGUF_OUTER, ggufLayerNorm, ggufRotaryLayerNorm, ggufWindow } from './gguf.js';
import { expect, gptOf, headRows, QKV, sizesOf, splitInto, windowOf } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */
/** @typedef {import('./shared.js').Split} Split */

/**
 * Returns a function that transposes a matrix stored as (in, out).
 * @param {string} name  canonical name
 * @returns {Split}
 */
export const transposed = (name) => (tensor) => [
  [name, tensor.dims.length === 1 ? tensor : columns(tensor, 0, tensor.dims[1])],
];

/** Row of GPT-2 and of StarCoder, whose GGUF files have the same layout. @type {import('./gguf.js').GgufRow} */
const gpt2Gguf = {
  outer: { ...GGUF_OUTER, position_embd: 'wpe' },
  config: (facts) => ({ ...ggufLayerNorm(facts, 'gelu'), position: 'learned' }),
};

/** @type {Family} */
export const gpt2 = {
  arch: 'gpt2',
  prefix: 'transformer.',
  layers: 'h.',
  outer: { wte: 'wte', wpe: 'wpe', ln_f: 'ln_f', lm_head: 'lm_head' },
  modules: {
    ln_1: 'ln1',
    ln_2: 'ln2',
    'attn.c_proj': transposed('attn.o'),
    'mlp.c_fc': transposed('mlp.up'),
    'mlp.c_proj': transposed('mlp.down'),
    'attn.c_attn': (tensor, { hidden }) =>
      QKV.map((name, i) => [
        name,
        tensor.dims.length === 1 ? pick(tensor, range(i * hidden, hidden)) : columns(tensor, i * hidden, hidden),
      ]),
  },
  unread: /\.attn\.(bias|masked_bias)$/,
  config: (hf) => {
    expect(
      !hf.scale_attn_by_inverse_layer_idx && !hf.add_cross_attention,
      'GPT-2 with attention scaled by the layer, or with cross-attention',
    );
    return {
      layers: hf.n_layer,
      hidden: hf.n_embd,
      heads: hf.n_head,
      ffn: hf.n_inner ?? 4 * hf.n_embd,
      vocab: hf.vocab_size,
      context: hf.n_positions,
      ...gptOf(hf, hf.activation_function ?? 'gelu_new'),
      position: 'learned',
      ...(hf.scale_attn_weights === false && { attn_scale: 1 }),
    };
  },
  gguf: { gpt2: gpt2Gguf },
};

/** StarCoder and SantaCoder: GPT-2 with multi-query attention and matrices stored as (out, in). @type {Family} */
export const bigcode = {
  ...gpt2,
  arch: 'starcoder',
  modules: {
    ln_1: 'ln1',
    ln_2: 'ln2',
    'attn.c_proj': 'attn.o',
    'mlp.c_fc': 'mlp.up',
    'mlp.c_proj': 'mlp.down',
    'attn.c_attn': splitInto(QKV, (c) => [c.heads, c.kv_heads, c.kv_heads].map((n) => (n * c.hidden) / c.heads)),
  },
  config: (hf) => {
    expect(hf.multi_query ?? true, 'GPT-BigCode without multi-query attention');
    return { ...gpt2.config({ activation_function: 'gelu_pytorch_tanh', ...hf }), kv_heads: 1 };
  },
  gguf: { starcoder: gpt2Gguf },
};

/** @type {Family} */
export const starcoder2 = {
  arch: 'starcoder2',
  prefix: 'model.',
  layers: 'layers.',
  outer: { embed_tokens: 'wte', norm: 'ln_f', lm_head: 'lm_head' },
  modules: {
    input_layernorm: 'ln1',
    post_attention_layernorm: 'ln2',
    'self_attn.q_proj': 'attn.q',
    'self_attn.k_proj': 'attn.k',
    'self_attn.v_proj': 'attn.v',
    'self_attn.o_proj': 'attn.o',
    'mlp.c_fc': 'mlp.up',
    'mlp.c_proj': 'mlp.down',
  },
  config: (hf) => ({
    ...sizesOf(hf),
    ...windowOf(hf, 0),
    ...gptOf(hf, hf.hidden_act ?? 'gelu_pytorch_tanh'),
  }),
  gguf: {
    starcoder2: { config: (facts) => ({ ...ggufRotaryLayerNorm(facts, 'gelu'), ...ggufWindow(facts) }) },
  },
};

/** @type {Family} */
export const neox = {
  arch: 'neox',
  rotatesParts: true,
  prefix: 'gpt_neox.',
  layers: 'layers.',
  outer: { embed_in: 'wte', final_layer_norm: 'ln_f', embed_out: 'lm_head', lm_head: 'lm_head' },
  modules: {
    input_layernorm: 'ln1',
    post_attention_layernorm: 'ln2',
    'attention.dense': 'attn.o',
    'mlp.dense_h_to_4h': 'mlp.up',
    'mlp.dense_4h_to_h': 'mlp.down',
    'attention.query_key_value': (tensor, config) => QKV.map((name, i) => [name, pick(tensor, headRows(i, config))]),
  },
  unread: /\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)$/,
  config: (hf) => ({
    ...sizesOf(hf),
    ...gptOf(hf, hf.hidden_act ?? 'gelu', false),
    block: hf.use_parallel_residual === false ? 'sequential' : 'parallel',
  }),
  gguf: {
    gptneox: {
      config: (facts) => ({
        ...ggufRotaryLayerNorm(facts, 'gelu_erf'),
        block: facts.get('use_parallel_residual', true) ? 'parallel' : 'sequential',
      }),
    },
  },
};

/**
 * GPT-J: attention and MLP read the same normed input, and pairs of adjacent dimensions of a head's first part are
 * rotated. llama.cpp does not convert it.
 * @type {Family}
 */
export const gptj = {
  ...gpt2,
  arch: 'other',
  outer: { wte: 'wte', ln_f: 'ln_f', lm_head: 'lm_head' },
  modules: {
    ln_1: 'ln1',
    'attn.q_proj': 'attn.q',
    'attn.k_proj': 'attn.k',
    'attn.v_proj': 'attn.v',
    'attn.out_proj': 'attn.o',
    'mlp.fc_in': 'mlp.up',
    'mlp.fc_out': 'mlp.down',
  },
  unread: /\.attn\.(bias|masked_bias|causal_mask)$/,
  config: (hf) => ({
    layers: hf.n_layer,
    hidden: hf.n_embd,
    heads: hf.n_head,
    ffn: hf.n_inner ?? 4 * hf.n_embd,
    vocab: hf.vocab_size,
    context: hf.n_positions,
    ...gptOf(hf, hf.activation_function ?? 'gelu_new', false),
    rope_theta: 10000,
    rope_dim: hf.rotary_dim ?? 64,
    rope_pairs: 'adjacent',
    block: 'shared',
  }),
  gguf: {},
};

/** Number of parts of CodeGen's fused tensor; each has rows of q, then of v, then of k. */
const CODEGEN_PARTS = 4;

/** CodeGen: GPT-J with q, k and v in one tensor. @type {Family} */
export const codegen = {
  ...gptj,
  modules: {
    ...gptj.modules,
    'attn.qkv_proj': (tensor, { hidden }) => {
      const rows = hidden / CODEGEN_PARTS;
      const starts = range(0, CODEGEN_PARTS).map((part) => 3 * rows * part);
      return [QKV[0], QKV[2], QKV[1]].map((name, i) => [
        name,
        pick(
          tensor,
          starts.flatMap((start) => range(start + i * rows, rows)),
        ),
      ]);
    },
  },
};
