/** BLOOM, MPT and Falcon: attention with linear biases (ALiBi); Falcon has either these or rotary positions. */
import { pick, range } from '../bq4/tensor-views.js';
import { GGUF_MODULES, GGUF_OUTER, ggufLayerNorm, ggufRotaryLayerNorm } from './gguf.js';
import { expect, gptOf, headRows, QKV, splitByGroups } from './shared.js';
import { ropeOf } from './rope.js';

/** @import { GgufFacts } from './gguf.js' */
/** @typedef {import('./shared.js').Family} Family */

/** @type {Family} */
export const bloom = {
  arch: 'bloom',
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
    expect(!hf.apply_residual_connection_post_layernorm, 'BLOOM with residuals taken after the norm');
    const [hidden, heads] = [hf.hidden_size ?? hf.n_embed, hf.n_head ?? hf.num_attention_heads];
    return {
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
  gguf: {
    bloom: {
      outer: { ...GGUF_OUTER, token_embd_norm: 'ln_0' },
      config: (facts) => ({ ...ggufLayerNorm(facts, 'gelu'), position: 'alibi', embed_norm: true }),
    },
  },
};

/** @type {Family} */
export const mpt = {
  arch: 'mpt',
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
    expect(attention.alibi !== false, 'MPT with learned positions, without ALiBi');
    expect(!attention.qk_ln, 'MPT with norms of q and k');
    expect(
      (attention.attn_type ?? 'multihead_attention') === 'multihead_attention',
      `MPT with attention of type "${attention.attn_type}"`,
    );
    return {
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
  gguf: {
    mpt: {
      config: (facts) => {
        const maxBias = facts.get('attention.max_alibi_bias', 0);
        expect(maxBias > 0, 'MPT with learned positions, without ALiBi');
        return {
          ...ggufLayerNorm(facts, 'gelu_erf'),
          position: 'alibi',
          alibi_max: maxBias,
          qkv_clip: facts.get('attention.clamp_kqv', 0),
        };
      },
    },
  },
};

/** Returns `block` of the configuration: the input of the MLP. @param {Record<string, any>} hf */
function falconBlock(hf) {
  if (hf.new_decoder_architecture) return (hf.num_ln_in_parallel_attn ?? 2) === 2 ? 'parallel' : 'shared';
  return (hf.parallel_attn ?? true) ? 'shared' : 'sequential';
}

/**
 * Whether attention and MLP have separate norms (40B, 180B): `attn_norm` is then the norm of the MLP.
 * @param {GgufFacts} facts
 */
const hasTwoNorms = ({ has }) => has('blk.0.attn_norm_2.weight');

/**
 * Models of the first generation (7B, RW) have one norm for attention and MLP, or are sequential. Those of the second
 * (40B, 180B) have two norms.
 * @type {Family}
 */
export const falcon = {
  arch: 'falcon',
  prefix: 'transformer.',
  layers: 'h.',
  outer: { word_embeddings: 'wte', ln_f: 'ln_f', lm_head: 'lm_head' },
  modules: {
    input_layernorm: 'ln1',
    ln_attn: 'ln1',
    post_attention_layernorm: 'ln2',
    ln_mlp: 'ln2',
    'self_attention.dense': 'attn.o',
    'self_attention.query_key_value': splitByGroups,
    'mlp.dense_h_to_4h': 'mlp.up',
    'mlp.dense_4h_to_h': 'mlp.down',
  },
  config: (hf) => {
    const heads = hf.num_attention_heads ?? hf.n_head;
    const headDim = hf.hidden_size / heads;
    const groups =
      hf.new_decoder_architecture || !(hf.multi_query ?? true) ? (hf.num_kv_heads ?? hf.n_head_kv ?? heads) : 1;
    return {
      layers: hf.num_hidden_layers ?? hf.n_layer,
      hidden: hf.hidden_size,
      heads,
      kv_heads: groups,
      head_dim: headDim,
      ffn: hf.ffn_hidden_size ?? 4 * hf.hidden_size,
      vocab: hf.vocab_size,
      context: hf.max_position_embeddings ?? 2048,
      ...ropeOf(hf, headDim),
      // In Falcon the biases are added before the scores are scaled.
      ...(hf.alibi && { position: 'alibi', alibi_scale: headDim ** -0.5 }),
      ...gptOf(hf, hf.activation ?? 'gelu'),
      block: falconBlock(hf),
    };
  },
  gguf: {
    falcon: {
      modules: (facts) =>
        hasTwoNorms(facts) ? { ...GGUF_MODULES, attn_norm: 'ln2', attn_norm_2: 'ln1' } : GGUF_MODULES,
      config: (facts) => ({
        ...ggufRotaryLayerNorm(facts, 'gelu_erf'),
        block: hasTwoNorms(facts) ? 'parallel' : 'shared',
      }),
    },
  },
};
