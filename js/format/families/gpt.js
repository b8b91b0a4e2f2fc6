/** GPT-2, StarCoder and GPT-NeoX: q, k and v in one tensor, each in its own order. */
import { columns, pick, range } from '../bq4/tensor-views.js';
import { expect, gptOf, headRows, parts, QKV, sizesOf, windowOf } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */
/** @typedef {import('./shared.js').Split} Split */

/** (in, out) as (out, in). @param {string} name @returns {Split} */
const turned = (name) => (tensor) => [[name, tensor.dims.length === 1 ? tensor : columns(tensor, 0, tensor.dims[1])]];

/** @type {Family} */
export const gpt2 = {
  prefix: 'transformer.',
  layers: 'h.',
  outer: { wte: 'wte', wpe: 'wpe', ln_f: 'ln_f', lm_head: 'lm_head' },
  modules: {
    ln_1: 'ln1',
    ln_2: 'ln2',
    'attn.c_proj': turned('attn.o'),
    'mlp.c_fc': turned('mlp.up'),
    'mlp.c_proj': turned('mlp.down'),
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
      'attention is scaled by the layer, or looks at another model',
    );
    return {
      arch: 'gpt2',
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
};

/** StarCoder, SantaCoder: GPT-2 with one key and value for all heads; matrices are (out, in). @type {Family} */
export const bigcode = {
  ...gpt2,
  modules: {
    ln_1: 'ln1',
    ln_2: 'ln2',
    'attn.c_proj': 'attn.o',
    'mlp.c_fc': 'mlp.up',
    'mlp.c_proj': 'mlp.down',
    'attn.c_attn': parts(QKV, (c) => [c.heads, c.kv_heads, c.kv_heads].map((n) => (n * c.hidden) / c.heads)),
  },
  config: (hf) => {
    expect(hf.multi_query ?? true, 'each head has a key and a value of its own');
    return { ...gpt2.config({ activation_function: 'gelu_pytorch_tanh', ...hf }), arch: 'starcoder', kv_heads: 1 };
  },
};

/** @type {Family} */
export const starcoder2 = {
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
    arch: 'starcoder2',
    ...sizesOf(hf),
    ...windowOf(hf, 0),
    ...gptOf(hf, hf.hidden_act ?? 'gelu_pytorch_tanh'),
  }),
};

/** @type {Family} */
export const neox = {
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
    arch: 'neox',
    ...sizesOf(hf),
    ...gptOf(hf, hf.hidden_act ?? 'gelu', false),
    block: hf.use_parallel_residual === false ? 'sequential' : 'parallel',
  }),
};
