/** LLaMA, and the dense families that are LLaMA with a few changes. */
import { shown } from '../../shared/quote-value.js';
import {
  GGUF_ATTENTION,
  GGUF_EXPERT_MODULES,
  GGUF_HEAD_NORMS,
  GGUF_MODULES,
  GGUF_OUTER,
  ggufExperts,
  ggufRms,
  ggufWindow,
  hasExperts,
} from './gguf.js';
import { eachLayer, unrotatedGlobals, unrotatedLayers, withoutRotary } from './layers.js';
import { GGUF_LABELS, ggufLastTokenLabels, lastTokenLabels } from './labels.js';
import {
  LLAMA_MODULES,
  LLAMA_NAMES,
  QKV,
  activationOf,
  expect,
  listedWindow,
  sizesOf,
  splitByGroups,
  splitInto,
  windowOf,
} from './shared.js';

/** @typedef {import('./shared.js').Family} Family */
/** @typedef {import('./gguf.js').GgufRow} GgufRow */

/**
 * The row of "llama". llama.cpp's converter reorders rows of q and k so that rotary pairs are adjacent. Files with
 * experts are Mixtral.
 * @type {GgufRow}
 */
export const llamaGguf = {
  ropePairs: 'adjacent',
  modules: (facts) => (hasExperts(facts) ? GGUF_EXPERT_MODULES : GGUF_MODULES),
  unread: /\.(rope_freqs|attn_rot_embd)\.weight$/,
  config: (facts) =>
    hasExperts(facts) ? { ...ggufRms(facts), arch: 'mixtral', ...ggufExperts(facts, true) } : ggufRms(facts),
};

/** @type {Family} */
export const llama = {
  ...LLAMA_NAMES,
  arch: 'llama',
  modules: LLAMA_MODULES,
  config: (hf) => ({
    ...sizesOf(hf),
    norm: 'rms',
    norm_eps: hf.rms_norm_eps ?? 1e-6,
    activation: activationOf(hf.hidden_act ?? 'silu'),
    gated: true,
    tied: hf.tie_word_embeddings ?? false,
  }),
  labels: lastTokenLabels,
  gguf: { llama: llamaGguf },
};

/** The first versions have a sliding window in all layers. In GGUF files the architecture is "llama". @type {Family} */
export const mistral = {
  ...llama,
  arch: 'mistral',
  config: (hf) => ({ ...llama.config(hf), ...windowOf(hf, 0) }),
};

/** LLaMA with squared ReLUs in an MLP without gates. @type {Family} */
export const arcee = {
  ...llama,
  arch: 'other',
  labels: undefined,
  defaults: { hidden_act: 'relu2', rms_norm_eps: 1e-5 },
  config: (hf) => ({ ...llama.config(hf), gated: false }),
  gguf: { arcee: { ...llamaGguf, config: (facts) => ({ ...ggufRms(facts, 'relu2'), gated: false }) } },
};

/** Some layers have no rotary positions (NoPE). @type {Family} */
export const smollm3 = {
  ...llama,
  arch: 'smollm3',
  defaults: { tie_word_embeddings: true, rope_theta: 2e6 },
  config: (hf) => {
    const every = hf.no_rope_layer_interval ?? 4;
    const rotated = eachLayer(hf.no_rope_layers, hf.num_hidden_layers, 'no_rope_layers');
    return {
      ...llama.config(hf),
      ...(rotated ? unrotatedLayers(rotated) : { unrotated_every: every }),
      ...(hf.use_sliding_window && listedWindow(hf, (i) => !(rotated?.[i] ?? (i + 1) % every))),
    };
  },
  gguf: { smollm3: { ...llamaGguf, config: (facts) => ({ ...ggufRms(facts), unrotated_every: 4 }) } },
};

/**
 * Returns the keys for layers with a window: with use_sliding_window these are the layers from max_window_layers on.
 * @param {Record<string, any>} hf
 */
const qwenWindow = (hf) => (hf.use_sliding_window ? listedWindow(hf, (i) => i >= (hf.max_window_layers ?? 28)) : {});

/**
 * q, k and v have biases, which need no key in the configuration. Without images the vision models are the same.
 * @type {Family}
 */
export const qwen2 = {
  ...llama,
  arch: 'qwen2',
  unread: /\.rotary_emb\.inv_freq$|^visual\./,
  config: (hf) => ({ ...llama.config(hf), ...qwenWindow(hf) }),
  // The converter stores openPangu-Embedded, which is LLaMA with biases, in the same form.
  gguf: { qwen2: { config: ggufRms }, qwen2vl: { config: ggufRms }, 'pangu-embedded': { config: ggufRms } },
};

/**
 * The first Qwen: q, k and v in one tensor with biases. Beyond the context of pretraining, scores and the base of rotary
 * positions change with the length of the text. The engine does not support that, so the context is limited to that of
 * pretraining.
 * @type {Family}
 */
export const qwen = {
  arch: 'qwen2',
  prefix: 'transformer.',
  layers: 'h.',
  outer: { wte: 'wte', ln_f: 'ln_f', lm_head: 'lm_head' },
  modules: {
    ln_1: 'ln1',
    'attn.c_attn': splitInto(QKV, ({ heads, head_dim: dim }) => QKV.map(() => heads * dim)),
    'attn.c_proj': 'attn.o',
    ln_2: 'ln2',
    'mlp.w1': 'mlp.up',
    'mlp.w2': 'mlp.gate',
    'mlp.c_proj': 'mlp.down',
  },
  unread: /\.inv_freq$/,
  config: (hf) =>
    llama.config({
      ...hf,
      head_dim: hf.kv_channels ?? 128,
      // The key is the number of rows of both w1 and w2.
      intermediate_size: hf.intermediate_size / 2,
      max_position_embeddings: hf.seq_length ?? 2048,
      rms_norm_eps: hf.layer_norm_epsilon,
      hidden_act: 'silu',
    }),
  gguf: {
    qwen: {
      config: (facts) => {
        // Converters have used either key for the epsilon of the RMS norms.
        const key = 'attention.layer_norm_rms_epsilon';
        const eps = facts.get(key, 0) || facts.get('attention.layer_norm_epsilon');
        return ggufRms({ ...facts, get: (name, ...otherwise) => (name === key ? eps : facts.get(name, ...otherwise)) });
      },
    },
  },
};

/** @type {GgufRow} */
const qwen3Gguf = {
  outer: { ...GGUF_OUTER, ...GGUF_LABELS },
  modules: () => ({ ...GGUF_MODULES, ...GGUF_HEAD_NORMS }),
  config: (facts) => ({ ...ggufRms(facts), qk_norm: 'heads', ...ggufLastTokenLabels(facts) }),
};

/** Each head of q and k has an RMS norm. @type {Family} */
export const qwen3 = {
  ...llama,
  arch: 'qwen3',
  modules: { ...LLAMA_MODULES, 'self_attn.q_norm': 'attn.q_norm', 'self_attn.k_norm': 'attn.k_norm' },
  defaults: { head_dim: 128 },
  config: (hf) => ({ ...llama.config(hf), qk_norm: 'heads', ...qwenWindow(hf) }),
  gguf: { qwen3: qwen3Gguf, qwen3vl: qwen3Gguf },
};

/** @satisfies {GgufRow} */
export const graniteGguf = {
  ...llamaGguf,
  /** @param {import('./gguf.js').GgufFacts} facts @param {any} [kvHeads]  default: number in the metadata */
  config: (facts, kvHeads) => ({
    ...ggufRms(facts, 'silu', kvHeads),
    embed_scale: facts.get('embedding_scale', 1),
    attn_scale: facts.get('attention.scale', 0),
    residual_scale: facts.get('residual_scale', 1),
    logit_scale: 1 / facts.get('logit_scale', 1),
  }),
};

/**
 * Returns Granite's configuration, without rotary positions if the file denies them with a key that has another meaning
 * in files of other architectures.
 * @param {import('./gguf.js').GgufFacts} facts @param {Record<string, any>} config
 */
export const ggufOptionalRotary = (facts, config) =>
  facts.get('rope.scaling.finetuned', true) ? config : withoutRotary(config);

/** The embedding, the attention scores, the residual branches and the logits have scales. @type {Family} */
export const granite = {
  ...llama,
  arch: 'granite',
  config: (hf) => ({
    ...llama.config(hf),
    embed_scale: hf.embedding_multiplier ?? 1,
    attn_scale: hf.attention_multiplier ?? 1,
    residual_scale: hf.residual_multiplier ?? 1,
    logit_scale: 1 / (hf.logits_scaling ?? 1),
  }),
  gguf: {
    granite: { ...graniteGguf, config: (facts) => ggufOptionalRotary(facts, graniteGguf.config(facts)) },
  },
};

/**
 * Norms after attention and MLP; q and k have one norm over all heads. In GGUF files OLMo 3 is "olmo2" with windows.
 * @type {Family}
 */
export const olmo2 = {
  ...LLAMA_NAMES,
  arch: 'olmo2',
  modules: {
    ...LLAMA_MODULES,
    post_attention_layernorm: 'ln1_post',
    post_feedforward_layernorm: 'ln2_post',
    'self_attn.q_norm': 'attn.q_norm',
    'self_attn.k_norm': 'attn.k_norm',
  },
  config: (hf) => ({ ...llama.config(hf), norm_place: 'after', qk_norm: 'rows' }),
  gguf: {
    olmo2: {
      modules: () => ({
        ...GGUF_ATTENTION,
        ...GGUF_HEAD_NORMS,
        post_attention_norm: 'ln1_post',
        ffn_gate: 'mlp.gate',
        ffn_up: 'mlp.up',
        ffn_down: 'mlp.down',
        post_ffw_norm: 'ln2_post',
      }),
      config: (facts) => {
        const config = { ...ggufRms(facts), norm_place: 'after', qk_norm: 'rows' };
        const windows = ggufWindow(facts, 4);
        // Only layers with global attention have scaled positions.
        const theta = facts.get('rope.freq_base_swa', config.rope_theta);
        return 'window' in windows ? { ...config, ...windows, local_theta: theta } : config;
      },
    },
  },
};

/**
 * OLMo 2 with windows in three of four layers; only layers with global attention have scaled positions.
 * @type {Family}
 */
export const olmo3 = {
  ...olmo2,
  config: (hf) => {
    const config = olmo2.config(hf);
    const windows = windowOf({ sliding_window: 4096, ...hf }, 4);
    const { rope_theta: theta = config.rope_theta } = hf.rope_parameters?.sliding_attention ?? {};
    return 'window' in windows ? { ...config, ...windows, local_theta: theta } : config;
  },
};

/**
 * Norms as in OLMo 2, but each head of q and k has its own norm. If some layers have a window, only these have rotary
 * positions.
 * @type {Family}
 */
export const exaone4 = {
  ...olmo2,
  arch: 'other',
  // Both keys may be null: no layer has a window.
  defaults: { rms_norm_eps: 1e-5, sliding_window: 4096, sliding_window_pattern: 4 },
  config(hf) {
    const { sliding_window: window, sliding_window_pattern: pattern, layer_types: types } = hf;
    expect(
      !window || Boolean(types) || typeof pattern === 'number',
      `EXAONE 4 with sliding_window_pattern ${shown(pattern)} and without layer_types`,
    );
    const config = { ...olmo2.config(hf), qk_norm: 'heads' };
    return window ? { ...config, ...unrotatedGlobals(windowOf(hf, pattern ?? 0)) } : config;
  },
  gguf: {
    exaone4: {
      .../** @type {Required<Family>} */ (olmo2).gguf.olmo2,
      config(facts) {
        const windows = ggufWindow(facts, 4);
        const config = { ...ggufRms(facts), norm_place: 'after', qk_norm: 'heads' };
        return 'window' in windows ? { ...config, ...unrotatedGlobals(windows) } : config;
      },
    },
  },
};

/** Rotary pairs are adjacent also in Hugging Face's files. @type {Family} */
export const ernie = {
  ...llama,
  arch: 'other',
  defaults: { tie_word_embeddings: true, head_dim: 128, rope_theta: 500000 },
  config: (hf) => ({ ...llama.config(hf), rope_pairs: 'adjacent' }),
  gguf: { ernie4_5: { ...llamaGguf, arch: 'llama' } },
};

/** Kyutai's Helium. Rotary pairs are adjacent also in Hugging Face's files. @type {Family} */
export const helium = {
  ...llama,
  arch: 'other',
  labels: undefined,
  defaults: { head_dim: 128, rms_norm_eps: 1e-8, rope_theta: 100000 },
  config: ernie.config,
  gguf: {},
};

/** Seed-OSS: LLaMA with biases of q, k and v. @type {Family} */
export const seedOss = {
  ...llama,
  arch: 'other',
  labels: undefined,
  defaults: { head_dim: 128 },
  gguf: {
    seed_oss: {
      modules: () => ({ ...GGUF_MODULES, post_attention_norm: 'ln2' }),
      config: ggufRms,
    },
  },
};

/** LLaMA with other names of tensors. In GGUF files it is computed as Qwen 2 without biases. @type {Family} */
export const exaone = {
  arch: 'llama',
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
  gguf: { exaone: { arch: 'qwen2', config: ggufRms } },
};

/** @type {Family} */
export const internlm2 = {
  ...llama,
  outer: { tok_embeddings: 'wte', norm: 'ln_f', output: 'lm_head' },
  modules: {
    attention_norm: 'ln1',
    'attention.wqkv': splitByGroups,
    'attention.wo': 'attn.o',
    ffn_norm: 'ln2',
    'feed_forward.w1': 'mlp.gate',
    'feed_forward.w3': 'mlp.up',
    'feed_forward.w2': 'mlp.down',
  },
  gguf: { internlm2: llamaGguf },
};

/** Has the same scales as Granite; they follow from the sizes. @type {Family} */
export const minicpm = {
  ...llama,
  arch: 'other',
  defaults: { tie_word_embeddings: true, scale_emb: 1, dim_model_base: 1, scale_depth: 1 },
  config: (hf) => ({
    ...llama.config(hf),
    embed_scale: hf.scale_emb,
    residual_scale: hf.scale_depth / hf.num_hidden_layers ** 0.5,
    logit_scale: hf.dim_model_base / hf.hidden_size,
  }),
  gguf: {
    minicpm: {
      ...llamaGguf,
      // Older files lack the scales; the defaults are the values of the published models.
      config: (facts) => {
        const config = ggufRms(facts);
        return {
          ...config,
          embed_scale: facts.get('embedding_scale', 12),
          residual_scale: facts.get('residual_scale', 1.4 / config.layers ** 0.5),
          logit_scale: 1 / facts.get('logit_scale', config.hidden / 256),
        };
      },
    },
  },
};

/**
 * Beyond the context of pretraining, attention scores are scaled by position. The engine does not support that, so the
 * context is limited to that of pretraining.
 * @type {Family}
 */
export const ministral3 = {
  ...llama,
  config: (hf) => {
    const { original_max_position_embeddings: original, llama_4_scaling_beta: beta } = hf.rope_parameters ?? {};
    /** @type {Record<string, any>} */
    const config = { ...llama.config(hf), ...windowOf({ ...hf, layer_types: null }, 0) };
    return beta && original ? { ...config, context: Math.min(config.context, original) } : config;
  },
  gguf: {
    mistral3: {
      ...llamaGguf,
      config: (facts) => {
        const config = llamaGguf.config(facts);
        const isScaled = facts.get('attention.temperature_scale', 0) !== 0;
        const original = facts.get('rope.scaling.original_context_length', config.context);
        return isScaled ? { ...config, context: Math.min(config.context, original) } : config;
      },
    },
  },
};
