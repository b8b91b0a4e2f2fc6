/**
 * Functions for the families' rows for GGUF files (`gguf` of a Family, shared.js). They convert metadata to a model
 * configuration (docs/FORMAT.md, "CONF keys") and GGUF's tensor names to canonical names ("TENS"). No tensor is
 * changed: the configuration or the name describes a different order of rows and fused matrices. The metadata may lack
 * a value that llama.cpp derives from the architecture (activations, layers with a window). For such a value the rows
 * have the one that the models were trained with.
 */
import { eachLayer, someLayers } from './layers.js';
import { scalingConfig, scalingTables } from './rope.js';
import { expect } from './shared.js';

/** @import { Scaling } from './rope.js' */

/**
 * Access of a row to the header of a file.
 * @typedef {object} GgufFacts
 * @property {(key: string, otherwise?: any) => any} get  returns metadata of the architecture: "block_count" is the key
 *   "llama.block_count". Returns `otherwise` for a missing key; throws FORMAT if `otherwise` is not given
 * @property {(name: string) => boolean} has  whether the file has a tensor of this name
 * @property {(name: string) => number[]} dims  returns the shape of a tensor, rows first; throws SHAPE if it is missing
 */

/**
 * How files with one value of general.architecture are read. All properties except `config` have a default (index.js).
 * @typedef {object} GgufRow
 * @property {(facts: GgufFacts) => Record<string, any>} config  returns the model configuration, without arch and
 *   rope_pairs
 * @property {string} [arch]  the configuration's `arch`; default: `arch` of the family
 * @property {'half' | 'adjacent'} [ropePairs]  order of rotary pairs in rows of q and k; default "half"
 * @property {Record<string, string>} [outer]  canonical names of modules outside the layers, by GGUF's names; a key
 *   with a dot is the full name of a tensor
 * @property {(facts: GgufFacts) => Record<string, string>} [modules]  returns the canonical names of a layer's modules,
 *   by the name after "blk.N."
 * @property {RegExp} [unread]  names of tensors that are not needed
 * @property {(config: Record<string, any>) => Record<string, Float32Array>} [tables]  returns tensors that a model needs
 *   in addition to those of the file and to the tables of rotary positions, by canonical name
 */

/** Returns the scaling of positions. @param {GgufFacts} facts @returns {Scaling} */
function scalingOf({ get, has }) {
  const context = get('context_length');
  const storedFactor = get('rope.scaling.factor', get('rope.scale_linear', 1));
  const factor = storedFactor === 0 ? 1 : storedFactor; // 0 stands for no scaling
  const kind = has('rope_factors_long.weight')
    ? 'longrope'
    : get('rope.scaling.type', factor === 1 ? 'none' : 'linear');
  const attention = get('rope.scaling.attn_factor', 1);
  const logMultiplier = get('rope.scaling.yarn_log_multiplier', 0);
  /** Returns YaRN's attention factor. @param {number} multiplier  multiplier of the logarithm */
  const yarnFactor = (multiplier) => (factor > 1 ? 0.1 * multiplier * Math.log(factor) + 1 : 1);
  // yarn_attn_factor already is the complete factor: converters store config.json's attention_factor in it.
  const yarn = get('rope.scaling.yarn_attn_factor', (attention * yarnFactor(1)) / yarnFactor(logMultiplier));
  return {
    kind,
    factor,
    original: get('rope.scaling.original_context_length', context),
    attention: kind === 'yarn' ? yarn : attention,
    betaFast: get('rope.scaling.yarn_beta_fast', 32),
    betaSlow: get('rope.scaling.yarn_beta_slow', 1),
  };
}

/**
 * Returns the keys of rotary positions. The attention factor also applies to positions that are not scaled.
 * @param {GgufFacts} facts @param {number} headDim
 */
function ropeOf(facts, headDim) {
  const scaling = scalingOf(facts);
  return {
    rope_theta: facts.get('rope.freq_base', 10000),
    rope_dim: facts.get('rope.dimension_count', headDim),
    ...scalingConfig(scaling),
    ...(scaling.kind === 'none' && scaling.attention !== 1 && { rope_scale: scaling.attention }),
  };
}

/**
 * Returns the tables of angles that follow from the metadata, by canonical name; none if the file has them as tensors.
 * @param {GgufFacts} facts
 * @param {Record<string, any>} config
 * @returns {Record<string, Float32Array>}
 */
export function ggufTables(facts, config) {
  const inFile = ['rope_factors_long.weight', 'rope_freqs.weight'].some(facts.has);
  const { kind, factor } = scalingOf(facts);
  expect(
    !inFile || factor === 1 || !['linear', 'yarn'].includes(facts.get('rope.scaling.type', kind)),
    `positions that are scaled by the file's tensors and by rope.scaling.type "${kind}" with the factor ${factor}`,
  );
  return inFile || config.rope_dim === undefined
    ? {}
    : scalingTables(scalingOf(facts), config.rope_theta, config.rope_dim);
}

/**
 * The configuration's names of pooling by their number in the metadata (pooling_type); "unsaid" means not specified.
 */
export const POOLING = ['unsaid', 'mean', 'cls', 'last'];

/** Returns the keys of pooling. Pooled vectors are normalized, as in llama.cpp by default. @param {any} type */
const poolingOf = (type) => ([1, 2, 3].includes(type) ? { pooling: POOLING[type], normalize: true } : {});

/** Returns a number, or the first one of a list with an entry for each layer. @param {any} value @returns {number} */
const firstOf = (value) => (typeof value === 'number' ? value : Array.from(value)[0]);

/**
 * Returns a number of heads, of which files may have a list with an entry for each layer. Throws UNSUPPORTED.
 * @param {any} count @returns {number}
 */
function headsOf(count) {
  const [first, ...others] = typeof count === 'number' ? [count] : Array.from(count ?? []);
  expect(
    others.every((heads) => heads === first),
    'its layers have different numbers of heads',
  );
  return first;
}

/**
 * Returns the KV heads of the layers with attention, and the recurrent layers, which have 0 KV heads.
 * @param {GgufFacts} facts @returns {{ kvHeads: number[], conv_layers: number[] }}
 */
export function ggufRecurrent({ get }) {
  /** @type {number[]} */
  const heads = eachLayer(get('attention.head_count_kv'), get('block_count'), 'head_count_kv') ?? [];
  return {
    kvHeads: heads.filter((count) => count > 0),
    conv_layers: heads.flatMap((count, layer) => (count > 0 ? [] : [layer])),
  };
}

/** Returns the sizes of a model. @param {GgufFacts} facts @param {any} [kvHeads]  default: number in the metadata */
function sizesOf({ get, has, dims }, kvHeads = get('attention.head_count_kv', get('attention.head_count'))) {
  const [hidden, heads] = [get('embedding_length'), headsOf(get('attention.head_count'))];
  const [blocks, drafting] = [get('block_count'), get('nextn_predict_layers', 0)];
  return {
    layers: drafting ? blocks - drafting : blocks,
    hidden,
    heads,
    kv_heads: headsOf(kvHeads),
    head_dim: get('attention.key_length', hidden / heads),
    // In some files feed_forward_length differs from the tensors. Files of models with experts only may lack it.
    ffn: has('blk.0.ffn_down.weight')
      ? dims('blk.0.ffn_down.weight')[1]
      : firstOf(get('feed_forward_length', 0)) || firstOf(get('expert_feed_forward_length', 0)),
    vocab: dims('token_embd.weight')[0],
    context: get('context_length'),
    tied: !has('output.weight'),
    ...poolingOf(get('pooling_type', 0)),
  };
}

/**
 * Returns the configuration of a model with RMS norms, rotary positions and a gated MLP.
 * @param {GgufFacts} facts @param {string} [activation] @param {any} [kvHeads]  default: number in the metadata
 */
export function ggufRms(facts, activation = 'silu', kvHeads) {
  const sizes = sizesOf(facts, kvHeads);
  return {
    ...sizes,
    ...ropeOf(facts, sizes.head_dim),
    norm: 'rms',
    norm_eps: facts.get('attention.layer_norm_rms_epsilon'),
    activation,
    gated: true,
  };
}

/**
 * Returns the configuration of a model with layer norms and an MLP without gates.
 * @param {GgufFacts} facts @param {string} activation
 */
export const ggufLayerNorm = (facts, activation) => ({
  ...sizesOf(facts),
  norm: 'layer',
  norm_eps: facts.get('attention.layer_norm_epsilon'),
  activation,
  gated: false,
});

/**
 * Returns the configuration of a model with layer norms, rotary positions and an MLP without gates.
 * @param {GgufFacts} facts @param {string} activation
 */
export function ggufRotaryLayerNorm(facts, activation) {
  const config = ggufLayerNorm(facts, activation);
  return { ...config, ...ropeOf(facts, config.head_dim) };
}

/**
 * Returns the keys of a mixture of experts, where one tensor has a module of all experts.
 * @param {GgufFacts} facts
 * @param {boolean} normalizesWeights  whether the weights of the chosen experts are scaled to the sum 1
 * @param {string} [first]  prefix of the tensors of the first layer with experts
 */
export const ggufExperts = ({ get, dims }, normalizesWeights, first = 'blk.0.') => ({
  experts: dims(`${first}ffn_gate_inp.weight`)[0],
  experts_used: get('expert_used_count'),
  expert_ffn: dims(`${first}ffn_down_exps.weight`)[2],
  experts_sum: normalizesWeights,
});

/**
 * Returns the keys of the state of gated delta nets and Mamba-2; a group of Mamba-2 is a key head.
 * @param {GgufFacts} facts
 */
export function ggufState({ get }) {
  const heads = get('ssm.time_step_rank');
  return {
    conv_size: get('ssm.conv_kernel'),
    state_key_heads: get('ssm.group_count'),
    state_value_heads: heads,
    state_key_dim: get('ssm.state_size'),
    state_value_dim: get('ssm.inner_size') / heads,
  };
}

/** Whether layers have experts. @param {GgufFacts} facts */
export const hasExperts = ({ get }) => get('expert_count', 0) > 0;

/** As `period` of ggufWindow: the metadata must have a pattern, since all layers would have a window without it. */
export const REQUIRED_PATTERN = null;

/**
 * Returns the keys for layers with sliding-window attention.
 * @param {GgufFacts} facts
 * @param {number | null} [period]  used if the metadata has no pattern: layers whose number (from 1) is a multiple of it have
 *   global attention; 0 if no layer has
 */
export function ggufWindow({ get }, period = 0) {
  const window = get('attention.sliding_window', 0);
  const pattern = get('attention.sliding_window_pattern', period ?? undefined);
  if (!window) return {};
  if (typeof pattern === 'number') return { window, global_every: pattern };
  const local = eachLayer(pattern, get('block_count'), 'attention.sliding_window_pattern') ?? [];
  if (!local.includes(true) && !local.includes(1)) return {};
  return {
    window,
    ...someLayers(
      local.map((isLocal) => !isLocal),
      'global_every',
      'global_layers',
    ),
  };
}

export const GGUF_OUTER = {
  token_embd: 'wte',
  output_norm: 'ln_f',
  output: 'lm_head',
  'rope_freqs.weight': 'rope.factors',
  'rope_factors_short.weight': 'rope.factors',
  'rope_factors_long.weight': 'rope.long_factors',
};
export const GGUF_ATTENTION = {
  attn_q: 'attn.q',
  attn_k: 'attn.k',
  attn_v: 'attn.v',
  attn_qkv: 'attn.qkv',
  attn_output: 'attn.o',
};
export const GGUF_MODULES = {
  attn_norm: 'ln1',
  ...GGUF_ATTENTION,
  ffn_norm: 'ln2',
  ffn_gate: 'mlp.gate',
  ffn_up: 'mlp.up',
  ffn_down: 'mlp.down',
};
export const GGUF_EXPERT_MODULES = {
  attn_norm: 'ln1',
  ...GGUF_ATTENTION,
  ffn_norm: 'ln2',
  ffn_gate_inp: 'mlp.router',
  ffn_gate_exps: 'mlp.experts.gate',
  ffn_up_exps: 'mlp.experts.up',
  ffn_down_exps: 'mlp.experts.down',
  ffn_gate_inp_shexp: 'mlp.shared.switch',
  ffn_gate_shexp: 'mlp.shared.gate',
  ffn_up_shexp: 'mlp.shared.up',
  ffn_down_shexp: 'mlp.shared.down',
};
export const GGUF_HEAD_NORMS = { attn_q_norm: 'attn.q_norm', attn_k_norm: 'attn.k_norm' };
