/** BLOOM, MPT and Falcon: attention that prefers what is near (ALiBi), or rotates. */
import { pick, range } from '../bq4/tensor-views.js';
import { expect, gptOf, headRows, QKV } from './shared.js';
import { ropeOf } from './rope.js';

/** @typedef {import('./shared.js').Family} Family */
/** @typedef {import('./shared.js').Split} Split */

/** @type {Family} */
export const bloom = {
  prefix: 'transformer.',
  layers: 'h.',
  outer: { word_embeddings: 'wte', word_embeddings_layernorm: 'ln_0', ln_f: 'ln_f', lm_head: 'lm_head' },
  modules: {
    input_layernorm: 'ln1',
    post_attention_layernorm: 'ln2',
    'self_attention.dense': 'attn.o',
    'mlp.dense_h_to_4h': 'mlp.up',
    'mlp.dense_4h_to_h': 'mlp.down',
    'self_attention.query_key_value': (tensor, config) =>
      QKV.map((name, i) => [name, pick(tensor, headRows(i, config))]),
  },
  config: (hf) => {
    expect(!hf.apply_residual_connection_post_layernorm, 'what attention and MLP read is added, too');
    const [hidden, heads] = [hf.hidden_size ?? hf.n_embed, hf.n_head ?? hf.num_attention_heads];
    return {
      arch: 'bloom',
      layers: hf.n_layer ?? hf.num_hidden_layers,
      hidden,
      heads,
      head_dim: hidden / heads,
      ffn: 4 * hidden,
      vocab: hf.vocab_size,
      context: hf.seq_length ?? 2048,
      ...gptOf(hf, 'gelu_new'),
      position: 'alibi',
      embed_norm: true,
    };
  },
};

/** @type {Family} */
export const mpt = {
  prefix: 'transformer.',
  layers: 'blocks.',
  outer: { wte: 'wte', norm_f: 'ln_f', lm_head: 'lm_head' },
  modules: {
    norm_1: 'ln1',
    norm_2: 'ln2',
    'attn.out_proj': 'attn.o',
    'ffn.up_proj': 'mlp.up',
    'ffn.down_proj': 'mlp.down',
    'attn.Wqkv': (tensor, { hidden }) => QKV.map((name, i) => [name, pick(tensor, range(i * hidden, hidden))]),
  },
  config: (hf) => {
    const attention = hf.attn_config ?? {};
    expect(attention.alibi !== false, 'positions are learned, without ALiBi');
    expect(!attention.qk_ln, 'q and k are normed');
    expect(
      (attention.attn_type ?? 'multihead_attention') === 'multihead_attention',
      `its attention is "${attention.attn_type}"`,
    );
    return {
      arch: 'mpt',
      layers: hf.n_layers,
      hidden: hf.d_model,
      heads: hf.n_heads,
      ffn: (hf.expansion_ratio ?? 4) * hf.d_model,
      vocab: hf.vocab_size,
      context: hf.max_seq_len ?? 2048,
      ...gptOf(hf, 'gelu'),
      position: 'alibi',
      alibi_max: attention.alibi_bias_max ?? 8,
      qkv_clip: attention.clip_qkv ?? 0,
      attn_scale: attention.softmax_scale ?? 0,
    };
  },
};

/** Of each KV head the rows of its queries, then its key, then its value. @type {Split} */
function falconRows(tensor, { heads, kv_heads: groups, head_dim: dim }) {
  const each = heads / groups;
  const rows = (/** @type {number} */ first, /** @type {number} */ n) =>
    Array.from({ length: groups }, (_, g) => range((g * (each + 2) + first) * dim, n * dim)).flat();
  return [
    ['attn.q', pick(tensor, rows(0, each))],
    ['attn.k', pick(tensor, rows(each, 1))],
    ['attn.v', pick(tensor, rows(each + 1, 1))],
  ];
}

/** What the MLP reads. @param {Record<string, any>} hf */
function falconBlock(hf) {
  if (hf.new_decoder_architecture) return (hf.num_ln_in_parallel_attn ?? 2) === 2 ? 'parallel' : 'shared';
  return (hf.parallel_attn ?? true) ? 'shared' : 'sequential';
}

/** The first generation (7B, RW) has one norm, or none beside; the second (40B, 180B) two of its own. @type {Family} */
export const falcon = {
  prefix: 'transformer.',
  layers: 'h.',
  outer: { word_embeddings: 'wte', ln_f: 'ln_f', lm_head: 'lm_head' },
  modules: {
    input_layernorm: 'ln1',
    ln_attn: 'ln1',
    post_attention_layernorm: 'ln2',
    ln_mlp: 'ln2',
    'self_attention.dense': 'attn.o',
    'self_attention.query_key_value': falconRows,
    'mlp.dense_h_to_4h': 'mlp.up',
    'mlp.dense_4h_to_h': 'mlp.down',
  },
  config: (hf) => {
    const heads = hf.num_attention_heads ?? hf.n_head;
    const headDim = hf.hidden_size / heads;
    const groups =
      hf.new_decoder_architecture || !(hf.multi_query ?? true) ? (hf.num_kv_heads ?? hf.n_head_kv ?? heads) : 1;
    return {
      arch: 'falcon',
      layers: hf.num_hidden_layers ?? hf.n_layer,
      hidden: hf.hidden_size,
      heads,
      kv_heads: groups,
      head_dim: headDim,
      ffn: hf.ffn_hidden_size ?? 4 * hf.hidden_size,
      vocab: hf.vocab_size,
      context: hf.max_position_embeddings ?? 2048,
      ...ropeOf(hf, headDim),
      // Slopes are added before the scores are scaled.
      ...(hf.alibi && { position: 'alibi', alibi_scale: headDim ** -0.5 }),
      ...gptOf(hf, hf.activation ?? 'gelu'),
      block: falconBlock(hf),
    };
  },
};
