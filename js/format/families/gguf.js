/**
 * What the families' rows for GGUF files are made of (`gguf` of a Family, shared.js): how metadata becomes a configuration
 * (docs/FORMAT.md, "CONF keys"), and canonical names of GGUF's tensors ("TENS"). No tensor is changed: a different order of rows or
 * fused matrices are expressed by the configuration or the name. Where the metadata lacks a value that llama.cpp derives from the
 * architecture (activations, which layers have a window), the rows have the value that the models were trained with.
 */
import { eachLayer, someLayers } from './layers.js';
import { scalingConfig, scalingTables } from './rope.js';
import { expect } from './shared.js';

/** @import { Scaling } from './rope.js' */

/**
 * Access of a row to the header of a file.
 * @typedef {object} GgufFacts
 * @property {(key: string, otherwise?: any) => any} get  metadata of the architecture: "block_count" is "llama.block_count"; throws
 *   FORMAT if it is missing and there is no `otherwise`
 * @property {(name: string) => boolean} has  whether the file has a tensor of this name
 * @property {(name: string) => number[]} dims  shape of a tensor, rows first; throws SHAPE if it is missing
 */

/**
 * How files with one value of general.architecture are read. Everything but `config` has a default (index.js).
 * @typedef {object} GgufRow
 * @property {(facts: GgufFacts) => Record<string, any>} config  our configuration, without arch and rope_pairs
 * @property {string} [arch]  of the configuration; default: that of the family
 * @property {'half' | 'adjacent'} [ropePairs]  how pairs of rotary positions lie in rows of q and k; default "half"
 * @property {Record<string, string>} [outer]  modules outside of the layers: canonical name by GGUF's; a key with a dot names a whole tensor
 * @property {(facts: GgufFacts) => Record<string, string>} [modules]  modules of a layer, by the name after "blk.N."
 * @property {RegExp} [unread]  names of tensors that are not needed
 */

/** How positions are scaled. @param {GgufFacts} facts @returns {Scaling} */
function scalingOf({ get, has }) {
  const context = get('context_length');
  const factor = get('rope.scaling.factor', get('rope.scale_linear', 1));
  const kind = has('rope_factors_long.weight')
    ? 'longrope'
    : get('rope.scaling.type', factor === 1 ? 'none' : 'linear');
  const attention = get('rope.scaling.attn_factor', 1);
  const logMultiplier = get('rope.scaling.yarn_log_multiplier', 0);
  /** YaRN's attention factor with a share of the logarithm. @param {number} share */
  const yarnFactor = (share) => (factor > 1 ? 0.1 * share * Math.log(factor) + 1 : 1);
  // yarn_attn_factor is the whole factor: converters write config.json's attention_factor there.
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

/** Rotary positions. @param {GgufFacts} facts @param {number} headDim */
const ropeOf = (facts, headDim) => ({
  rope_theta: facts.get('rope.freq_base', 10000),
  rope_dim: facts.get('rope.dimension_count', headDim),
  ...scalingConfig(scalingOf(facts)),
});

/**
 * Tables of angles that the metadata implies, by canonical name; none if the file has them as tensors.
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

/** Names of bert.pooling_type: how the vectors of tokens become one vector of a text. */
export const POOLING = ['unsaid', 'mean', 'cls', 'last'];

/** Pooled vectors are normalized, as llama.cpp does by default. @param {any} type */
const poolingOf = (type) => ([1, 2, 3].includes(type) ? { pooling: POOLING[type], normalize: true } : {});

/** A number of heads, which files may list for each layer. @param {any} count @returns {number} */
function headsOf(count) {
  const [first, ...others] = typeof count === 'number' ? [count] : Array.from(count ?? []);
  expect(
    others.every((heads) => heads === first),
    'its layers have different numbers of heads',
  );
  return first;
}

/** The sizes that most architectures name alike. @param {GgufFacts} facts @param {any} [kvHeads]  default: of the metadata */
function sizesOf({ get, has, dims }, kvHeads = get('attention.head_count_kv', get('attention.head_count'))) {
  const [hidden, heads] = [get('embedding_length'), headsOf(get('attention.head_count'))];
  const [blocks, drafting] = [get('block_count'), get('nextn_predict_layers', 0)];
  return {
    layers: drafting ? blocks - drafting : blocks,
    hidden,
    heads,
    kv_heads: headsOf(kvHeads),
    head_dim: get('attention.key_length', hidden / heads),
    // feed_forward_length differs from the tensors in some files.
    ffn: has('blk.0.ffn_down.weight') ? dims('blk.0.ffn_down.weight')[1] : get('feed_forward_length'),
    vocab: dims('token_embd.weight')[0],
    context: get('context_length'),
    tied: !has('output.weight'),
    ...poolingOf(get('pooling_type', 0)),
  };
}

/** RMS norms, rotary positions, a gated MLP. @param {GgufFacts} facts @param {string} [activation] @param {any} [kvHeads]  default: of the metadata */
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

/** Layer norms, an MLP without gates. @param {GgufFacts} facts @param {string} activation */
export const ggufLayerNorm = (facts, activation) => ({
  ...sizesOf(facts),
  norm: 'layer',
  norm_eps: facts.get('attention.layer_norm_epsilon'),
  activation,
  gated: false,
});

/** Layer norms, rotary positions, an MLP without gates. @param {GgufFacts} facts @param {string} activation */
export function ggufRotaryLayerNorm(facts, activation) {
  const config = ggufLayerNorm(facts, activation);
  return { ...config, ...ropeOf(facts, config.head_dim) };
}

/** Mixture of experts: one tensor has a module of all experts. @param {GgufFacts} facts @param {boolean} normalizesWeights  whether the weights of the chosen experts are made to have the sum 1 @param {string} [first]  the first layer with experts */
export const ggufExperts = ({ get, dims }, normalizesWeights, first = 'blk.0.') => ({
  experts: dims(`${first}ffn_gate_inp.weight`)[0],
  experts_used: get('expert_used_count'),
  expert_ffn: dims(`${first}ffn_down_exps.weight`)[2],
  experts_sum: normalizesWeights,
});

/** Heads of the state of a gated delta net or of Mamba-2, whose groups are key heads. @param {GgufFacts} facts */
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

/** Layers with sliding-window attention. @param {GgufFacts} facts @param {number} [period]  default: every layer whose number (from 1) it divides has global attention; 0: none has */
export function ggufWindow({ get }, period = 0) {
  const window = get('attention.sliding_window', 0);
  const pattern = get('attention.sliding_window_pattern', period);
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
