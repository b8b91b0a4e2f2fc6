/**
 * The architectures of GGUF files that can be run: a row each, by general.architecture. A row says what its metadata means in
 * our configuration (docs/FORMAT.md, "CONF keys") and what its tensors are called in ours ("TENS"). No tensor is changed:
 * what lies differently than elsewhere (pairs of rotary positions, fused matrices) is said by the configuration or the name.
 * What the metadata doesn't say (activations, which layers see a window) the program that made the file knows by the
 * architecture; here it is what the models were trained with.
 */
import { eachLayer, someLayers } from '../families/layers.js';
import { scalingConfig, scalingTables } from '../families/rope.js';
import { BqError } from '../../shared/errors.js';

/** @import { Scaling } from '../families/rope.js' */

/**
 * What a row may ask of a file.
 * @typedef {object} GgufFacts
 * @property {(key: string, otherwise?: any) => any} get  metadata of the architecture: "block_count" is "llama.block_count". FORMAT
 *   where there is none and no `otherwise`
 * @property {(name: string) => boolean} has  whether there is such a tensor, by GGUF's name
 * @property {(name: string) => number[]} dims  of a tensor, rows first. SHAPE where there is none
 */

/**
 * @typedef {object} Architecture
 * @property {(facts: GgufFacts) => Record<string, any>} config
 * @property {Record<string, string>} outer    modules outside of the layers: ours by GGUF's; a name with a dot is a whole tensor's
 * @property {(facts: GgufFacts) => Record<string, string>} modules  of a layer, behind "blk.N."
 * @property {RegExp} [unread]  names of tensors that nothing is computed with
 */

/** @param {boolean} fine @param {string} what */
function expect(fine, what) {
  if (!fine) throw new BqError('UNSUPPORTED', what, { hint: 'this variant is not computed so far' });
}

/** How positions are scaled, as the metadata says it. @param {GgufFacts} facts @returns {Scaling} */
function scalingOf({ get, has }) {
  const context = get('context_length');
  const listed = has('rope_factors_long.weight');
  const factor = get('rope.scaling.factor', get('rope.scale_linear', 1));
  const kind = listed ? 'longrope' : get('rope.scaling.type', factor === 1 ? 'none' : 'linear');
  const attention = get('rope.scaling.attn_factor', 1);
  const logs = get('rope.scaling.yarn_log_multiplier', 0);
  /** YaRN's own factor, of so much of the logarithm. @param {number} part */
  const own = (part) => (factor > 1 ? 0.1 * part * Math.log(factor) + 1 : 1);
  // A factor of YaRN that the file says is all of it: converters write config.json's attention_factor there.
  const yarn = get('rope.scaling.yarn_attn_factor', (attention * own(1)) / own(logs));
  return {
    kind,
    factor,
    original: get('rope.scaling.original_context_length', context),
    attention: kind === 'yarn' ? yarn : attention,
    betaFast: get('rope.scaling.yarn_beta_fast', 32),
    betaSlow: get('rope.scaling.yarn_beta_slow', 1),
  };
}

/** Rotary positions in our keys. @param {GgufFacts} facts @param {number} headDim @param {string} pairs */
const ropeOf = (facts, headDim, pairs) => ({
  rope_theta: facts.get('rope.freq_base', 10000),
  rope_dim: facts.get('rope.dimension_count', headDim),
  rope_pairs: pairs,
  ...scalingConfig(scalingOf(facts)),
});

/**
 * Tables that the metadata asks for beside the file's tensors, by our name.
 * @param {GgufFacts} facts
 * @param {Record<string, any>} config
 * @returns {Record<string, Float32Array>}
 */
export function tablesOf(facts, config) {
  const inFile = ['rope_factors_long.weight', 'rope_freqs.weight'].some(facts.has);
  return inFile || config.rope_dim === undefined
    ? {}
    : scalingTables(scalingOf(facts), config.rope_theta, config.rope_dim);
}

/** Of bert.pooling_type: what makes one vector of a text. */
const POOLING = ['unsaid', 'mean', 'cls', 'last'];

/** Vectors have length 1, as they have elsewhere. @param {any} type */
const poolingOf = (type) => ([1, 2, 3].includes(type) ? { pooling: POOLING[type], normalize: true } : {});

/** Layers with a convolution in place of attention: they have no heads of keys. @param {GgufFacts} facts */
function convolutionsOf({ get }) {
  const heads = eachLayer(get('attention.head_count_kv'), get('block_count'), 'attention.head_count_kv') ?? [];
  return {
    kv_heads: headsOf(heads.filter((count) => count > 0)),
    conv_size: get('shortconv.l_cache'),
    conv_layers: heads.flatMap((count, layer) => (count > 0 ? [] : [layer])),
  };
}

/** A number of heads, or the same of each layer. @param {any} count @returns {number} */
function headsOf(count) {
  const [first, ...more] = typeof count === 'number' ? [count] : Array.from(count ?? []);
  expect(
    more.every((one) => one === first),
    'its layers have different numbers of heads',
  );
  return first;
}

/** What most architectures call these. @param {GgufFacts} facts @param {boolean} [otherHeads]  heads of keys differ: the row says them */
function sizesOf({ get, has, dims }, otherHeads = false) {
  const [hidden, heads] = [get('embedding_length'), headsOf(get('attention.head_count'))];
  return {
    layers: get('block_count'),
    hidden,
    heads,
    kv_heads: otherHeads ? 0 : headsOf(get('attention.head_count_kv', heads)),
    head_dim: get('attention.key_length', hidden / heads),
    // Some say another number than what the tensors have.
    ffn: has('blk.0.ffn_down.weight') ? dims('blk.0.ffn_down.weight')[1] : get('feed_forward_length'),
    vocab: dims('token_embd.weight')[0],
    context: get('context_length'),
    tied: !has('output.weight'),
    ...poolingOf(get('pooling_type', 0)),
  };
}

/** Norms by size alone, rotary positions, gated. @param {string} arch @param {GgufFacts} facts @param {string} pairs @param {string} activation @param {boolean} [otherHeads] */
function rms(arch, facts, pairs = 'half', activation = 'silu', otherHeads = false) {
  const sizes = sizesOf(facts, otherHeads);
  return {
    arch,
    ...sizes,
    ...ropeOf(facts, sizes.head_dim, pairs),
    norm: 'rms',
    norm_eps: facts.get('attention.layer_norm_rms_epsilon'),
    activation,
    gated: true,
  };
}

/** Some MLPs of many, in one tensor each kind. Whether their weights have the sum 1 is the architecture's. @param {GgufFacts} facts @param {boolean} sum */
function expertsOf({ get, dims }, sum) {
  return {
    experts: get('expert_count'),
    experts_used: get('expert_used_count'),
    expert_ffn: dims('blk.0.ffn_down_exps.weight')[2],
    experts_sum: sum,
  };
}

/** Norms by mean and size, not gated. @param {string} arch @param {GgufFacts} facts @param {string} activation */
const layered = (arch, facts, activation) => ({
  arch,
  ...sizesOf(facts),
  norm: 'layer',
  norm_eps: facts.get('attention.layer_norm_epsilon'),
  activation,
  gated: false,
});

/** The same with rotary positions. @param {string} arch @param {GgufFacts} facts @param {string} activation */
function rotated(arch, facts, activation) {
  const config = layered(arch, facts, activation);
  return { ...config, ...ropeOf(facts, config.head_dim, 'half') };
}

/** Which layers see a window only: all but every so many-th, or those that are listed. @param {GgufFacts} facts @param {number} [otherwise]  0: all do */
function windowOf({ get }, otherwise = 0) {
  const window = get('attention.sliding_window', 0);
  const pattern = get('attention.sliding_window_pattern', otherwise);
  if (!window) return {};
  if (typeof pattern === 'number') return { window, global_every: pattern };
  const local = eachLayer(pattern, get('block_count'), 'attention.sliding_window_pattern') ?? [];
  if (!local.includes(true) && !local.includes(1)) return {};
  return {
    window,
    ...someLayers(
      local.map((is) => !is),
      'global_every',
      'global_layers',
    ),
  };
}

const OUTER = {
  token_embd: 'wte',
  output_norm: 'ln_f',
  output: 'lm_head',
  'rope_freqs.weight': 'rope.factors',
  'rope_factors_short.weight': 'rope.factors',
  'rope_factors_long.weight': 'rope.long_factors',
};
const ATTENTION = { attn_q: 'attn.q', attn_k: 'attn.k', attn_v: 'attn.v', attn_qkv: 'attn.qkv', attn_output: 'attn.o' };
const MODULES = {
  attn_norm: 'ln1',
  ...ATTENTION,
  ffn_norm: 'ln2',
  ffn_gate: 'mlp.gate',
  ffn_up: 'mlp.up',
  ffn_down: 'mlp.down',
};
const EXPERTS = {
  attn_norm: 'ln1',
  ...ATTENTION,
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
const HEAD_NORMS = { attn_q_norm: 'attn.q_norm', attn_k_norm: 'attn.k_norm' };
const AROUND = { ...MODULES, post_attention_norm: 'ln1_post', post_ffw_norm: 'ln2_post' };
const LEARNED = { ...OUTER, position_embd: 'wpe' };

/** Whether layers have experts. @param {GgufFacts} facts */
const routed = ({ get }) => get('expert_count', 0) > 0;

/** Rows of q and k lie so that pairs of rotary positions are neighbours. With experts it is Mixtral. @type {Architecture} */
const llama = {
  outer: OUTER,
  modules: (facts) => (routed(facts) ? EXPERTS : MODULES),
  unread: /\.(rope_freqs|attn_rot_embd)\.weight$/,
  config: (facts) =>
    routed(facts)
      ? { ...rms('mixtral', facts, 'adjacent'), ...expertsOf(facts, true) }
      : rms('llama', facts, 'adjacent'),
};

/** Every fourth layer has no positions. @type {Architecture} */
const smollm3 = { ...llama, config: (facts) => ({ ...rms('smollm3', facts, 'adjacent'), unrotated_every: 4 }) };

/** @type {Architecture} */
const granite = {
  ...llama,
  config: (facts) => ({
    ...rms('granite', facts, 'adjacent'),
    embed_scale: facts.get('embedding_scale', 1),
    attn_scale: facts.get('attention.scale', 0),
    residual_scale: facts.get('residual_scale', 1),
    logit_scale: 1 / facts.get('logit_scale', 1),
  }),
};

/** Files from before its factors were written have them of the sizes. @type {Architecture} */
const minicpm = {
  ...llama,
  config: (facts) => {
    const config = rms('other', facts, 'adjacent');
    return {
      ...config,
      embed_scale: facts.get('embedding_scale', 12),
      residual_scale: facts.get('residual_scale', 1.4 / config.layers ** 0.5),
      logit_scale: 1 / facts.get('logit_scale', config.hidden / 256),
    };
  },
};

/** Scores grow beyond the positions that it was made for, where it does not go here. @type {Architecture} */
const mistral3 = {
  ...llama,
  config: (facts) => {
    const config = llama.config(facts);
    const grows = facts.get('attention.temperature_scale', 0) !== 0;
    const made = facts.get('rope.scaling.original_context_length', config.context);
    return grows ? { ...config, context: Math.min(config.context, made) } : config;
  },
};

/** @type {Architecture} */
const granitemoe = {
  ...granite,
  modules: () => EXPERTS,
  config: (facts) => ({ ...granite.config(facts), arch: 'other', ...expertsOf(facts, true) }),
};

/** @type {Architecture} */
const qwen2 = { outer: OUTER, modules: () => MODULES, config: (facts) => rms('qwen2', facts) };

/** @type {Architecture} */
const qwen3 = {
  outer: OUTER,
  modules: () => ({ ...MODULES, ...HEAD_NORMS }),
  config: (facts) => ({ ...rms('qwen3', facts), qk_norm: 'heads' }),
};

/** LFM2: most layers have a short convolution. The last norm is called the embedding's. @type {Architecture} */
const lfm2 = {
  outer: { ...OUTER, token_embd_norm: 'ln_f' },
  modules: () => ({
    ...MODULES,
    ...HEAD_NORMS,
    'shortconv.in_proj': 'conv.in',
    'shortconv.conv': 'conv.taps',
    'shortconv.out_proj': 'conv.out',
  }),
  config: (facts) => ({
    ...rms('lfm2', facts, 'half', 'silu', true),
    ...convolutionsOf(facts),
    qk_norm: 'heads',
  }),
};

/** @type {Architecture} */
const qwen2moe = {
  outer: OUTER,
  modules: () => EXPERTS,
  config: (facts) => ({
    ...rms('qwen2moe', facts),
    ...expertsOf(facts, false),
    shared_ffn: facts.dims('blk.0.ffn_down_shexp.weight')[1],
  }),
};

/** @type {Architecture} */
const qwen3moe = {
  outer: OUTER,
  modules: () => ({ ...EXPERTS, ...HEAD_NORMS }),
  config: (facts) => ({ ...rms('qwen3moe', facts), qk_norm: 'heads', ...expertsOf(facts, true) }),
};

/** Where some layers see a window, only the others have scaled positions (OLMo 3). @type {Architecture} */
const olmo2 = {
  outer: OUTER,
  modules: () => ({
    ...ATTENTION,
    ...HEAD_NORMS,
    post_attention_norm: 'ln1_post',
    ffn_gate: 'mlp.gate',
    ffn_up: 'mlp.up',
    ffn_down: 'mlp.down',
    post_ffw_norm: 'ln2_post',
  }),
  config: (facts) => {
    const config = { ...rms('olmo2', facts), norm_place: 'after', qk_norm: 'rows' };
    const { window, ...which } = windowOf(facts, 4);
    const theta = facts.get('rope.freq_base_swa', config.rope_theta);
    return window ? { ...config, window, ...which, local_theta: theta } : config;
  },
};

/** Norms are 1 + w in the file already. @param {string} arch @param {GgufFacts} facts */
function gemmaOf(arch, facts) {
  const config = rms(arch, facts, 'half', 'gelu');
  return { ...config, embed_scale: config.hidden ** 0.5 };
}

/** @type {Architecture} */
const gemma = { outer: OUTER, modules: () => MODULES, config: (facts) => gemmaOf('gemma', facts) };

/** The largest of a generation, told by its layers, scales scores by the width of a head if all were equally wide. @param {Record<string, any>} config @param {number} layers */
const gemmaScale = (config, layers) =>
  (config.layers === layers ? config.hidden / config.heads : config.head_dim) ** -0.5;

/** @type {Architecture} */
const gemma2 = {
  outer: OUTER,
  modules: () => AROUND,
  config: (facts) => {
    const config = gemmaOf('gemma2', facts);
    return {
      ...config,
      window: facts.get('attention.sliding_window', 4096),
      global_every: 2,
      norm_place: 'around',
      attn_scale: gemmaScale(config, 46),
      attn_softcap: facts.get('attn_logit_softcapping', 50),
      logit_softcap: facts.get('final_logit_softcapping', 30),
    };
  },
};

/** @type {Architecture} */
const gemma3 = {
  outer: OUTER,
  modules: () => ({ ...AROUND, ...HEAD_NORMS }),
  config: (facts) => {
    const config = gemmaOf('gemma3', facts);
    return {
      ...config,
      ...windowOf(facts, 6),
      norm_place: 'around',
      qk_norm: 'heads',
      attn_scale: gemmaScale(config, 62),
      local_theta: facts.get('rope.freq_base_swa', 10000),
      logit_softcap: facts.get('final_logit_softcapping', 0),
    };
  },
};

/** @type {Architecture} */
const phi2 = {
  outer: OUTER,
  modules: () => MODULES,
  config: (facts) => ({ ...rotated('phi', facts, 'gelu'), block: 'shared' }),
};

/** Gate and up are one tensor, of the name that up has elsewhere. @type {Architecture} */
const phi3 = {
  outer: OUTER,
  modules: () => ({ ...MODULES, ffn_up: 'mlp.gate_up' }),
  config: (facts) => ({ ...rms('phi3', facts), ...windowOf(facts) }),
};

/** @type {Architecture} */
const stablelm = {
  outer: OUTER,
  modules: () => ({ ...MODULES, ...HEAD_NORMS }),
  config: (facts) => ({
    ...rotated('stablelm', facts, 'silu'),
    gated: true,
    ...(!facts.has('blk.0.ffn_norm.weight') && { block: 'shared' }),
    ...(facts.has('blk.0.attn_q_norm.weight') && { qk_norm: 'each' }),
  }),
};

/** @type {Architecture} */
const gpt2 = {
  outer: LEARNED,
  modules: () => MODULES,
  config: (facts) => ({ ...layered('gpt2', facts, 'gelu'), position: 'learned' }),
};

/** @type {Architecture} */
const starcoder = { ...gpt2, config: (facts) => ({ ...layered('starcoder', facts, 'gelu'), position: 'learned' }) };

/** @type {Architecture} */
const starcoder2 = {
  outer: OUTER,
  modules: () => MODULES,
  config: (facts) => ({ ...rotated('starcoder2', facts, 'gelu'), ...windowOf(facts) }),
};

/** @type {Architecture} */
const gptneox = {
  outer: OUTER,
  modules: () => MODULES,
  config: (facts) => ({
    ...rotated('neox', facts, 'gelu_erf'),
    block: facts.get('use_parallel_residual', true) ? 'parallel' : 'sequential',
  }),
};

/** In the second generation the first norm is the MLP's, and attention has one of its own. @param {GgufFacts} facts */
const twoNorms = ({ has }) => has('blk.0.attn_norm_2.weight');

/** @type {Architecture} */
const falcon = {
  outer: OUTER,
  modules: (facts) => (twoNorms(facts) ? { ...MODULES, attn_norm: 'ln2', attn_norm_2: 'ln1' } : MODULES),
  config: (facts) => ({ ...rotated('falcon', facts, 'gelu_erf'), block: twoNorms(facts) ? 'parallel' : 'shared' }),
};

/** @type {Architecture} */
const bloom = {
  outer: { ...OUTER, token_embd_norm: 'ln_0' },
  modules: () => MODULES,
  config: (facts) => ({ ...layered('bloom', facts, 'gelu'), position: 'alibi', embed_norm: true }),
};

/** @type {Architecture} */
const mpt = {
  outer: OUTER,
  modules: () => MODULES,
  config: (facts) => {
    const steepest = facts.get('attention.max_alibi_bias', 0);
    expect(steepest > 0, 'positions are learned, without ALiBi');
    return {
      ...layered('mpt', facts, 'gelu_erf'),
      position: 'alibi',
      alibi_max: steepest,
      qkv_clip: facts.get('attention.clamp_kqv', 0),
    };
  },
};

/** What encoders after BERT have in common. @param {GgufFacts} facts */
const encoder = (facts) => ({
  tied: false,
  no_head: true,
  norm_place: 'after_sum',
  bidirectional: true,
  embed_norm: true,
  token_types: facts.has('token_types.weight') ? facts.dims('token_types.weight')[0] : 0,
});

/** BERT, RoBERTa, XLM-RoBERTa and DistilBERT. Row 0 of the token types is added to every token. @type {Architecture} */
const bert = {
  outer: { token_embd: 'wte', token_embd_norm: 'ln_0', position_embd: 'wpe', token_types: 'wtt' },
  modules: () => ({
    ...ATTENTION,
    attn_output_norm: 'ln1_post',
    ffn_up: 'mlp.up',
    ffn_down: 'mlp.down',
    layer_output_norm: 'ln2_post',
  }),
  unread: /^(cls|cls\.output|cls\.norm)\./,
  config: (facts) => ({ ...layered('other', facts, 'gelu_erf'), ...encoder(facts), position: 'learned' }),
};

/** BERT with rotary positions and a gated MLP (nomic-embed-text 1 and 1.5). @type {Architecture} */
const nomicBert = {
  ...bert,
  modules: (facts) => ({ ...bert.modules(facts), ffn_gate: 'mlp.gate' }),
  config: (facts) => ({ ...rotated('other', facts, 'silu'), ...encoder(facts), gated: true }),
};

/** By general.architecture. @type {Record<string, Architecture>} */
export const ARCHITECTURES = {
  llama,
  // These are computed as LLaMA.
  internlm2: llama,
  ernie4_5: llama,
  mistral3,
  minicpm,
  smollm3,
  granite,
  granitemoe,
  qwen2,
  // Without pictures these are Qwen 2 and 3, and EXAONE Qwen 2 without biases.
  qwen2vl: qwen2,
  exaone: qwen2,
  qwen3,
  qwen3vl: qwen3,
  qwen2moe,
  qwen3moe,
  lfm2,
  olmo2,
  gemma,
  gemma2,
  gemma3,
  phi2,
  phi3,
  stablelm,
  gpt2,
  starcoder,
  starcoder2,
  gptneox,
  falcon,
  bloom,
  mpt,
  bert,
  'nomic-bert': nomicBert,
};
