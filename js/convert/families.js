/**
 * The families of models in Hugging Face's layout that can be converted: a row each, by model_type. A family says what its
 * config.json means in ours (docs/FORMAT.md, "CONF keys") and what its tensors are called in ours ("TENS"). What is
 * computed is known by the engine from the configuration; to add a family made of what it computes already is to add a row.
 */
import { BqError } from '../shared/errors.js';
import { columns, pick, plusOne, range } from './views.js';

/** @typedef {import('./tensors.js').InTensor} InTensor */

/**
 * Of a module with several tensors in one: our modules with theirs.
 * @typedef {(tensor: InTensor, config: Record<string, any>) => [string, InTensor][]} Split
 */

/**
 * @typedef {object} Family
 * @property {(hf: Record<string, any>) => Record<string, any>} config
 * @property {string} prefix   that names may begin with
 * @property {string} layers   what stands before a layer's number
 * @property {Record<string, string>} outer  modules outside of the layers
 * @property {Record<string, string | Split>} modules  of a layer
 * @property {RegExp} [unread]  names of tables that are computed, not learned
 * @property {(name: string, tensor: InTensor) => InTensor} [change]  of any tensor, by our name
 */

/** @type {Record<string, string>} */
const ACTIVATIONS = { silu: 'silu', swish: 'silu', gelu_pytorch_tanh: 'gelu', gelu_new: 'gelu', gelu_fast: 'gelu', relu: 'relu', gelu: 'gelu_erf' };

/** @param {string} name */
function activationOf(name) {
  const activation = ACTIVATIONS[name];
  if (!activation) throw new BqError('UNSUPPORTED', `the activation is "${name}"`, { hint: `one of ${Object.keys(ACTIVATIONS).join(', ')}` });
  return activation;
}

/** @param {boolean} fine @param {string} what */
function expect(fine, what) {
  if (!fine) throw new BqError('UNSUPPORTED', what, { hint: 'this variant is not computed so far' });
}

/** Plain rotary positions. @param {Record<string, any>} hf @param {number} headDim */
function ropeOf(hf, headDim) {
  const rope = hf.rope_parameters ?? {};
  const scaling = hf.rope_scaling ?? rope;
  const kind = scaling.rope_type ?? scaling.type ?? 'default';
  if (kind !== 'default') throw new BqError('UNSUPPORTED', `positions are scaled the "${kind}" way`, { hint: 'only plain RoPE is computed so far' });
  const part = hf.partial_rotary_factor ?? hf.rotary_pct ?? rope.partial_rotary_factor ?? 1;
  return { rope_theta: hf.rope_theta ?? hf.rotary_emb_base ?? rope.rope_theta ?? 10000, rope_dim: Math.trunc(headDim * part), rope_pairs: 'half' };
}

/** Which layers see a window only: every so many-th one sees all. @param {Record<string, any>} hf @param {number} every  by default */
function windowOf(hf, every) {
  const kinds = hf.layer_types ?? [];
  const first = kinds.indexOf('full_attention');
  const period = kinds.length ? first + 1 : every;
  const fits = kinds.every((/** @type {string} */ kind, /** @type {number} */ i) => (kind === 'full_attention') === (period > 0 && (i + 1) % period === 0));
  expect(fits, 'the layers that see a window only follow no period');
  return { window: hf.sliding_window ?? 0, global_every: period };
}

/** What most families call these. @param {Record<string, any>} hf */
function sizesOf(hf) {
  const headDim = hf.head_dim ?? hf.hidden_size / hf.num_attention_heads;
  return {
    layers: hf.num_hidden_layers, hidden: hf.hidden_size, heads: hf.num_attention_heads, kv_heads: hf.num_key_value_heads ?? hf.num_attention_heads,
    head_dim: headDim, ffn: hf.intermediate_size, vocab: hf.vocab_size, context: hf.max_position_embeddings ?? 2048, ...ropeOf(hf, headDim),
  };
}

const LLAMA_MODULES = {
  input_layernorm: 'ln1', post_attention_layernorm: 'ln2',
  'self_attn.q_proj': 'attn.q', 'self_attn.k_proj': 'attn.k', 'self_attn.v_proj': 'attn.v', 'self_attn.o_proj': 'attn.o',
  'mlp.gate_proj': 'mlp.gate', 'mlp.up_proj': 'mlp.up', 'mlp.down_proj': 'mlp.down',
};
const LLAMA_NAMES = { prefix: 'model.', layers: 'layers.', outer: { embed_tokens: 'wte', norm: 'ln_f', lm_head: 'lm_head' } };

/** @type {Family} */
const llama = {
  ...LLAMA_NAMES,
  modules: LLAMA_MODULES,
  unread: /\.rotary_emb\.inv_freq$/,
  config: (hf) => ({
    arch: 'llama', ...sizesOf(hf), norm: 'rms', norm_eps: hf.rms_norm_eps ?? 1e-6, activation: activationOf(hf.hidden_act ?? 'silu'), gated: true,
    tied: hf.tie_word_embeddings ?? false,
  }),
};

/** (in, out) as (out, in). @param {string} name @returns {Split} */
const turned = (name) => (tensor) => [[name, tensor.dims.length === 1 ? tensor : columns(tensor, 0, tensor.dims[1])]];

/** @type {Family} */
const gpt2 = {
  prefix: 'transformer.',
  layers: 'h.',
  outer: { wte: 'wte', wpe: 'wpe', ln_f: 'ln_f', lm_head: 'lm_head' },
  modules: {
    ln_1: 'ln1', ln_2: 'ln2', 'attn.c_proj': turned('attn.o'), 'mlp.c_fc': turned('mlp.up'), 'mlp.c_proj': turned('mlp.down'),
    'attn.c_attn': (tensor, { hidden }) => ['attn.q', 'attn.k', 'attn.v'].map((name, i) => [name, tensor.dims.length === 1 ? pick(tensor, range(i * hidden, hidden)) : columns(tensor, i * hidden, hidden)]),
  },
  unread: /\.attn\.(bias|masked_bias)$/,
  config: (hf) => {
    expect(!hf.scale_attn_by_inverse_layer_idx && !hf.add_cross_attention, 'attention is scaled by the layer, or looks at another model');
    return {
      arch: 'gpt2', layers: hf.n_layer, hidden: hf.n_embd, heads: hf.n_head, ffn: hf.n_inner ?? 4 * hf.n_embd, vocab: hf.vocab_size, context: hf.n_positions,
      norm: 'layer', norm_eps: hf.layer_norm_epsilon ?? 1e-5, position: 'learned', activation: activationOf(hf.activation_function ?? 'gelu_new'), gated: false,
      tied: hf.tie_word_embeddings ?? true, ...(hf.scale_attn_weights === false && { attn_scale: 1 }),
    };
  },
};

/** Rows of q, k or v in a tensor that has these head by head. @param {number} which @param {Record<string, any>} config */
function headRows(which, { heads, head_dim: dim }) {
  return Array.from({ length: heads }, (_, h) => range((3 * h + which) * dim, dim)).flat();
}

/** @type {Family} */
const neox = {
  prefix: 'gpt_neox.',
  layers: 'layers.',
  outer: { embed_in: 'wte', final_layer_norm: 'ln_f', embed_out: 'lm_head', lm_head: 'lm_head' },
  modules: {
    input_layernorm: 'ln1', post_attention_layernorm: 'ln2', 'attention.dense': 'attn.o', 'mlp.dense_h_to_4h': 'mlp.up', 'mlp.dense_4h_to_h': 'mlp.down',
    'attention.query_key_value': (tensor, config) => ['attn.q', 'attn.k', 'attn.v'].map((name, i) => [name, pick(tensor, headRows(i, config))]),
  },
  unread: /\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)$/,
  config: (hf) => ({
    arch: 'neox', ...sizesOf(hf), norm: 'layer', norm_eps: hf.layer_norm_eps ?? 1e-5, activation: activationOf(hf.hidden_act ?? 'gelu'), gated: false,
    block: hf.use_parallel_residual === false ? 'sequential' : 'parallel', tied: hf.tie_word_embeddings ?? false,
  }),
};

/** @type {Family} */
const gemma2 = {
  ...LLAMA_NAMES,
  modules: {
    ...LLAMA_MODULES, post_attention_layernorm: 'ln1_post', pre_feedforward_layernorm: 'ln2', post_feedforward_layernorm: 'ln2_post',
  },
  unread: /\.rotary_emb\.inv_freq$/,
  change: (name, tensor) => (/(^|\.)ln\w+\.weight$/.test(name) ? plusOne(tensor) : tensor),
  config: (hf) => ({
    arch: 'gemma2', ...sizesOf(hf), ...windowOf(hf, 2), norm: 'rms', norm_eps: hf.rms_norm_eps ?? 1e-6, norm_place: 'around',
    activation: activationOf(hf.hidden_activation ?? 'gelu_pytorch_tanh'), gated: true, tied: hf.tie_word_embeddings ?? true,
    attn_scale: (hf.query_pre_attn_scalar ?? 256) ** -0.5, attn_softcap: hf.attn_logit_softcapping ?? 0, logit_softcap: hf.final_logit_softcapping ?? 0,
    embed_scale: hf.hidden_size ** 0.5,
  }),
};

/** Norms of what attention and MLP give, and of all of q and of k. @type {Family} */
const olmo2 = {
  ...LLAMA_NAMES,
  modules: {
    ...LLAMA_MODULES, post_attention_layernorm: 'ln1_post', post_feedforward_layernorm: 'ln2_post',
    'self_attn.q_norm': 'attn.q_norm', 'self_attn.k_norm': 'attn.k_norm',
  },
  config: (hf) => ({ ...llama.config(hf), arch: 'other', norm_place: 'after', qk_norm: 'rows' }),
};

/** An encoder: norms after the sum, every token sees all, hidden states instead of logits. @type {Family} */
const bert = {
  prefix: 'bert.',
  layers: 'encoder.layer.',
  outer: {
    'embeddings.word_embeddings': 'wte', 'embeddings.position_embeddings': 'wpe', 'embeddings.token_type_embeddings': 'wtt', 'embeddings.LayerNorm': 'ln_0',
  },
  modules: {
    'attention.self.query': 'attn.q', 'attention.self.key': 'attn.k', 'attention.self.value': 'attn.v', 'attention.output.dense': 'attn.o',
    'attention.output.LayerNorm': 'ln1_post', 'intermediate.dense': 'mlp.up', 'output.dense': 'mlp.down', 'output.LayerNorm': 'ln2_post',
  },
  unread: /(^|\.)embeddings\.position_ids$|^(bert\.)?pooler\.|^cls\./,
  config: (hf) => {
    expect((hf.position_embedding_type ?? 'absolute') === 'absolute', `positions are embedded the "${hf.position_embedding_type}" way`);
    expect(!hf.is_decoder && !hf.add_cross_attention, 'it is a decoder');
    return {
      arch: 'other', layers: hf.num_hidden_layers, hidden: hf.hidden_size, heads: hf.num_attention_heads, ffn: hf.intermediate_size, vocab: hf.vocab_size,
      context: hf.max_position_embeddings, norm: 'layer', norm_eps: hf.layer_norm_eps ?? 1e-12, norm_place: 'after_sum', position: 'learned',
      activation: activationOf(hf.hidden_act ?? 'gelu'), gated: false, bidirectional: true, embed_norm: true, token_types: hf.type_vocab_size ?? 2, no_head: true,
    };
  },
};

/** By model_type. @type {Record<string, Family>} */
export const FAMILIES = { llama, gpt2, gpt_neox: neox, gemma2, olmo2, bert };
