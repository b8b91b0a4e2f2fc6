/** LLaMA and the families that are LLaMA with something added. */
import { eachLayer, numbersOf, someLayers } from './layers.js';
import { LLAMA_MODULES, LLAMA_NAMES, QKV, activationOf, expect, listedWindow, sizesOf, windowOf } from './shared.js';
import { flat, pick, range } from '../bq4/tensor-views.js';

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
  unread: /\.rotary_emb\.inv_freq$|^visual\./,
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

/** The same with windows in three of four layers; only the others have scaled positions. @type {Family} */
export const olmo3 = {
  ...olmo2,
  config: (hf) => {
    const config = olmo2.config(hf);
    const windows = windowOf({ sliding_window: 4096, ...hf }, 4);
    const { rope_theta: theta = config.rope_theta } = hf.rope_parameters?.sliding_attention ?? {};
    return 'window' in windows ? { ...config, ...windows, local_theta: theta } : config;
  },
};

/** Neighbours are the pairs that rotate. @type {Family} */
export const ernie = {
  ...llama,
  defaults: { tie_word_embeddings: true, head_dim: 128, rope_theta: 500000 },
  config: (hf) => ({ ...llama.config(hf), arch: 'other', rope_pairs: 'adjacent' }),
};

/** @type {Family} */
export const exaone = {
  prefix: 'transformer.',
  layers: 'h.',
  outer: { wte: 'wte', ln_f: 'ln_f', lm_head: 'lm_head' },
  modules: {
    ln_1: 'ln1',
    'attn.attention.q_proj': 'attn.q',
    'attn.attention.k_proj': 'attn.k',
    'attn.attention.v_proj': 'attn.v',
    'attn.attention.out_proj': 'attn.o',
    ln_2: 'ln2',
    'mlp.c_fc_0': 'mlp.gate',
    'mlp.c_fc_1': 'mlp.up',
    'mlp.c_proj': 'mlp.down',
  },
  unread: /\.rotary\.inv_freq$/,
  config: (hf) =>
    llama.config({
      ...hf,
      num_hidden_layers: hf.num_layers,
      rms_norm_eps: hf.layer_norm_epsilon ?? 1e-5,
      hidden_act: hf.activation_function,
    }),
};

/** Queries of a group of heads, then its key and its value, group by group. @type {import('./shared.js').Split} */
const grouped = (tensor, { heads, kv_heads: groups, head_dim: dim }) => {
  const group = heads / groups + 2;
  /** @param {number} from @param {number} count  heads of each group */
  const rows = (from, count) =>
    pick(tensor, Array.from({ length: groups }, (_, g) => range((g * group + from) * dim, count * dim)).flat());
  return [
    [QKV[0], rows(0, group - 2)],
    [QKV[1], rows(group - 2, 1)],
    [QKV[2], rows(group - 1, 1)],
  ];
};

/** @type {Family} */
export const internlm2 = {
  ...llama,
  outer: { tok_embeddings: 'wte', norm: 'ln_f', output: 'lm_head' },
  modules: {
    attention_norm: 'ln1',
    'attention.wqkv': grouped,
    'attention.wo': 'attn.o',
    ffn_norm: 'ln2',
    'feed_forward.w1': 'mlp.gate',
    'feed_forward.w3': 'mlp.up',
    'feed_forward.w2': 'mlp.down',
  },
};

/** Granite's factors, of sizes. @type {Family} */
export const minicpm = {
  ...llama,
  defaults: { tie_word_embeddings: true, scale_emb: 1, dim_model_base: 1, scale_depth: 1 },
  config: (hf) => ({
    ...llama.config(hf),
    arch: 'other',
    embed_scale: hf.scale_emb,
    residual_scale: hf.scale_depth / hf.num_hidden_layers ** 0.5,
    logit_scale: hf.dim_model_base / hf.hidden_size,
  }),
};

/** Scores grow beyond the positions that it was made for, where it does not go here. @type {Family} */
export const ministral3 = {
  ...llama,
  config: (hf) => {
    const { original_max_position_embeddings: original, llama_4_scaling_beta: beta } = hf.rope_parameters ?? {};
    const config = llama.config(hf);
    return beta && original ? { ...config, context: Math.min(config.context, original) } : config;
  },
};

/** How wide the MLP of LFM2 is: config.json has the width before an adjustment that the model makes. @param {Record<string, any>} hf */
function lfm2Width(hf) {
  const width = hf.block_ff_dim ?? hf.intermediate_size;
  if (!(hf.block_auto_adjust_ff_dim ?? true)) return width;
  const multiple = hf.block_multiple_of ?? 256;
  const scaled = Math.trunc((hf.block_ffn_dim_multiplier ?? 1) * Math.trunc((2 * width) / 3));
  return hf.block_ffn_dim_multiplier === null ? Math.trunc((2 * width) / 3) : multiple * Math.ceil(scaled / multiple);
}

/** LFM2 and 2.5: most layers have a short convolution over positions in place of attention. @type {Family} */
export const lfm2 = {
  prefix: 'model.',
  layers: 'layers.',
  outer: { embed_tokens: 'wte', embedding_norm: 'ln_f', lm_head: 'lm_head' },
  modules: {
    operator_norm: 'ln1',
    'self_attn.q_proj': 'attn.q',
    'self_attn.k_proj': 'attn.k',
    'self_attn.v_proj': 'attn.v',
    'self_attn.q_layernorm': 'attn.q_norm',
    'self_attn.k_layernorm': 'attn.k_norm',
    'self_attn.out_proj': 'attn.o',
    'conv.in_proj': 'conv.in',
    'conv.conv': 'conv.taps',
    'conv.out_proj': 'conv.out',
    ffn_norm: 'ln2',
    'feed_forward.w1': 'mlp.gate',
    'feed_forward.w3': 'mlp.up',
    'feed_forward.w2': 'mlp.down',
  },
  defaults: { rope_theta: 1e6 },
  change: (name, tensor) => (name.endsWith('conv.taps.weight') ? flat(tensor) : tensor),
  config: (hf) => {
    const full = hf.full_attn_idxs ?? numbersOf(hf.num_hidden_layers);
    const kinds =
      eachLayer(hf.layer_types, hf.num_hidden_layers, 'layer_types') ??
      numbersOf(hf.num_hidden_layers).map((i) => (full.includes(i) ? 'full_attention' : 'conv'));
    const other = kinds.find((kind) => kind !== 'conv' && kind !== 'full_attention');
    expect(other === undefined, `layer_types has "${other}", expected "conv" or "full_attention"`);
    return {
      arch: 'lfm2',
      ...sizesOf(hf),
      ffn: lfm2Width(hf),
      norm: 'rms',
      norm_eps: hf.norm_eps ?? 1e-5,
      activation: 'silu',
      gated: true,
      tied: hf.tie_embedding ?? hf.tie_word_embeddings ?? true,
      qk_norm: 'heads',
      conv_size: hf.conv_L_cache ?? 3,
      conv_layers: kinds.flatMap((kind, i) => (kind === 'conv' ? [i] : [])),
    };
  },
};
