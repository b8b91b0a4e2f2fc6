/**
 * Mamba-2: in all layers without any attention (Mamba-2), in most layers in place of attention (Granite 4 hybrid), or
 * in all layers together with attention (Falcon-H1).
 */
import { flattened, minusExp, scaledRows } from '../bq4/tensor-views.js';
import { ggufGraniteExperts, granitemoe } from './experts.js';
import { GGUF_EXPERT_MODULES, GGUF_MODULES, ggufRecurrent, ggufRms, ggufState, hasExperts } from './gguf.js';
import { numbersOf, withoutRotary } from './layers.js';
import { ggufOptionalRotary, graniteGguf, llama } from './llama.js';
import { LLAMA_NAMES, activationOf, expect, layerTypes } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */
/** @typedef {import('../checkpoint-tensors.js').InTensor} InTensor */

/** Returns the canonical names of a Mamba-2 layer's modules, by their names in a checkpoint. @param {string} prefix */
const mixerModules = (prefix) => ({
  [`${prefix}.in_proj`]: 'mamba.in',
  [`${prefix}.conv1d`]: 'mamba.taps',
  [`${prefix}.conv1d.bias`]: 'mamba.bias',
  [`${prefix}.dt_bias`]: 'mamba.dt',
  [`${prefix}.A_log`]: 'mamba.decay',
  [`${prefix}.D`]: 'mamba.skip',
  [`${prefix}.norm`]: 'mamba.norm',
  [`${prefix}.out_proj`]: 'mamba.out',
});
const GGUF_MIXER = {
  ssm_in: 'mamba.in',
  ssm_conv1d: 'mamba.taps',
  'ssm_conv1d.bias': 'mamba.bias',
  'ssm_dt.bias': 'mamba.dt',
  ssm_a: 'mamba.decay',
  ssm_d: 'mamba.skip',
  ssm_norm: 'mamba.norm',
  ssm_out: 'mamba.out',
};

/** @type {NonNullable<Family['change']>} */
function change(name, tensor) {
  if (name.endsWith('mamba.taps.weight')) return flattened(tensor);
  return name.endsWith('mamba.decay.weight') ? minusExp(tensor) : tensor;
}

/**
 * Throws UNSUPPORTED for limits that could change a time step. Infinity has two notations in config.json.
 * @param {any} limit  [minimum, maximum]
 */
function checkLimit(limit) {
  const [min, max] = limit ?? [0, Infinity];
  expect(
    min === 0 && (max === Infinity || max?.__float__ === 'Infinity'),
    `Mamba-2 with time_step_limit ${JSON.stringify(limit)}`,
  );
}

/** Checks the activation, which convolutions and gates have too. Throws UNSUPPORTED. @param {Record<string, any>} hf */
const checkActivation = ({ hidden_act: activation = 'silu' }) =>
  expect(activationOf(activation) === 'silu', `Mamba-2 with the activation "${activation}"`);

/**
 * Returns the keys of the state, for the config.json of a hybrid model. Throws UNSUPPORTED.
 * @param {Record<string, any>} hf
 */
function stateOf(hf) {
  const inner = hf.mamba_d_ssm ?? (hf.mamba_expand ?? 2) * hf.hidden_size;
  const heads = hf.mamba_n_heads ?? 128;
  checkLimit(hf.time_step_limit);
  expect(hf.mamba_conv_bias ?? true, 'Mamba-2 with convolutions without a bias');
  checkActivation(hf);
  return {
    conv_size: hf.mamba_d_conv ?? 4,
    state_key_heads: hf.mamba_n_groups ?? 1,
    state_value_heads: heads,
    state_key_dim: hf.mamba_d_state ?? 256,
    state_value_dim: inner / heads,
  };
}

/** Keys of attention for a model without attention. */
const NO_ATTENTION = { heads: 1, kv_heads: 1, head_dim: 8 };

/** @type {Family} */
export const mamba2 = {
  arch: 'mamba2',
  prefix: 'backbone.',
  layers: 'layers.',
  outer: { embeddings: 'wte', embedding: 'wte', norm_f: 'ln_f', lm_head: 'lm_head' },
  modules: { norm: 'ln1', ...mixerModules('mixer') },
  change,
  config: (hf) => {
    checkLimit(hf.time_step_limit);
    expect(hf.use_conv_bias ?? true, 'Mamba-2 with convolutions without a bias');
    checkActivation(hf);
    return {
      ...NO_ATTENTION,
      layers: hf.num_hidden_layers,
      hidden: hf.hidden_size,
      ffn: 0,
      vocab: hf.vocab_size,
      // The context has no limit; converters to GGUF write the same number.
      context: 2 ** 20,
      norm: 'rms',
      norm_eps: hf.layer_norm_epsilon ?? 1e-5,
      position: 'none',
      activation: 'silu',
      gated: true,
      tied: hf.tie_word_embeddings ?? false,
      mamba: 'gate_norm',
      conv_size: hf.conv_kernel ?? 4,
      conv_layers: numbersOf(hf.num_hidden_layers),
      state_key_heads: hf.n_groups ?? 8,
      state_value_heads: hf.num_heads ?? 128,
      state_key_dim: hf.state_size ?? 128,
      state_value_dim: hf.head_dim ?? 64,
    };
  },
  gguf: {
    mamba2: {
      modules: () => ({ attn_norm: 'ln1', ...GGUF_MIXER }),
      config: (facts) => ({
        ...withoutRotary(ggufRms(facts)),
        ...NO_ATTENTION,
        ffn: 0,
        mamba: 'gate_norm',
        ...ggufState(facts),
        conv_layers: numbersOf(facts.get('block_count')),
      }),
    },
  },
};

/** Names in layer_types: the name in published files, then the name that transformers writes. */
const [MAMBA, ATTENTION] = [
  ['mamba', 'linear_attention'],
  ['attention', 'full_attention'],
];

/** Returns the numbers of the layers with Mamba-2. @param {Record<string, any>} hf @returns {number[]} */
function mambaLayers(hf) {
  const listed = { ...hf, layer_types: hf.layer_types ?? hf.layers_block_type };
  const types = layerTypes(listed, [...MAMBA, ...ATTENTION], () => MAMBA[0]);
  return types.flatMap((type, layer) => (MAMBA.includes(type) ? [layer] : []));
}

/**
 * Has Granite's scales, with or without experts. Attention has rotary positions only if the file specifies them.
 * @type {Family}
 */
export const graniteHybrid = {
  ...granitemoe,
  arch: 'granitehybrid',
  modules: { ...granitemoe.modules, ...mixerModules('mamba') },
  change,
  config: (hf) => {
    const [config, layers] = [granitemoe.config(hf), mambaLayers(hf)];
    const position = hf.position_embedding_type ?? 'nope';
    expect(['rope', 'nope'].includes(position), `positions of type "${position}"`);
    return {
      ...(position === 'rope' ? config : withoutRotary(config)),
      ...(layers.length && { mamba: 'gate_norm', ...stateOf(hf), conv_layers: layers }),
    };
  },
  gguf: {
    granitehybrid: {
      ...graniteGguf,
      modules: (facts) => ({ ...(hasExperts(facts) ? GGUF_EXPERT_MODULES : GGUF_MODULES), ...GGUF_MIXER }),
      config: (facts) => {
        const { kvHeads, conv_layers } = ggufRecurrent(facts);
        const config = {
          ...graniteGguf.config(facts, kvHeads),
          ...(hasExperts(facts) && ggufGraniteExperts(facts)),
          mamba: 'gate_norm',
          ...ggufState(facts),
          conv_layers,
        };
        return ggufOptionalRotary(facts, config);
      },
    },
  },
};

/**
 * Returns the factors of a module, which the conversion multiplies into its weights. `rows`: factor of the rows of
 * weights and biases; `inputs`: factor of the inputs, which applies only to weights.
 * @param {string} module @param {Record<string, any>} hf
 * @returns {{ rows: number | ((row: number) => number), inputs: number }}
 */
function factorsOf(module, hf) {
  const [gate = 1, down = 1] = hf.mlp_multipliers ?? [];
  const [keys, attention, ssm] = [hf.key_multiplier ?? 1, hf.attention_in_multiplier ?? 1, hf.ssm_in_multiplier ?? 1];
  switch (module) {
    case 'attn.q':
    case 'attn.v':
      return { rows: 1, inputs: attention };
    case 'attn.k':
      return { rows: keys, inputs: attention };
    case 'attn.o':
      return { rows: hf.attention_out_multiplier ?? 1, inputs: 1 };
    case 'mlp.gate':
      return { rows: gate, inputs: 1 };
    case 'mlp.down':
      return { rows: down, inputs: 1 };
    case 'mamba.out':
      return { rows: hf.ssm_out_multiplier ?? 1, inputs: 1 };
    case 'mamba.in':
      return { rows: mixerFactors(hf), inputs: ssm };
    default:
      return { rows: 1, inputs: 1 };
  }
}

/**
 * Returns a function that returns the factor of a row of `mamba.in`: ssm_multipliers has a factor for the rows of z, x,
 * B, C and dt each.
 * @param {Record<string, any>} hf @returns {(row: number) => number}
 */
function mixerFactors(hf) {
  const state = stateOf(hf);
  const values = state.state_value_heads * state.state_value_dim;
  const keys = state.state_key_heads * state.state_key_dim;
  const ends = [values, 2 * values, 2 * values + keys, 2 * values + 2 * keys, Infinity];
  const factors = hf.ssm_multipliers ?? [1, 1, 1, 1, 1];
  return (row) => factors[ends.findIndex((end) => row < end)];
}

/** In every layer Mamba-2 and attention read the same input. @type {Family} */
export const falconH1 = {
  ...LLAMA_NAMES,
  arch: 'falcon-h1',
  outer: { embed_tokens: 'wte', final_layernorm: 'ln_f', lm_head: 'lm_head' },
  modules: {
    input_layernorm: 'ln1',
    'self_attn.q_proj': 'attn.q',
    'self_attn.k_proj': 'attn.k',
    'self_attn.v_proj': 'attn.v',
    'self_attn.o_proj': 'attn.o',
    ...mixerModules('mamba'),
    pre_ff_layernorm: 'ln2',
    'feed_forward.gate_proj': 'mlp.gate',
    'feed_forward.up_proj': 'mlp.up',
    'feed_forward.down_proj': 'mlp.down',
  },
  change: (name, tensor, hf) => {
    const [, module, ending] = /^h\.\d+\.(.+)\.(weight|bias)$/.exec(name) ?? [];
    const { rows, inputs } = factorsOf(module, hf);
    const factorOf = (/** @type {number} */ row) =>
      (typeof rows === 'number' ? rows : rows(row)) * (ending === 'weight' ? inputs : 1);
    const isPlain = rows === 1 && inputs === 1;
    return isPlain ? change(name, tensor, hf) : scaledRows(tensor, factorOf);
  },
  config: (hf) => ({
    ...llama.config(hf),
    embed_scale: hf.embedding_multiplier ?? 1,
    logit_scale: hf.lm_head_multiplier ?? 1,
    mamba: hf.mamba_rms_norm ? ((hf.mamba_norm_before_gate ?? true) ? 'norm_gate' : 'gate_norm') : 'gate',
    ...stateOf(hf),
    conv_layers: numbersOf(hf.num_hidden_layers),
    attn_beside: true,
  }),
  gguf: {
    'falcon-h1': {
      // In GGUF files all factors are part of the weights.
      modules: () => ({ ...GGUF_MODULES, ...GGUF_MIXER }),
      config: (facts) => ({
        ...ggufRms(facts),
        mamba: facts.has('blk.0.ssm_norm.weight') ? 'gate_norm' : 'gate',
        ...ggufState(facts),
        conv_layers: numbersOf(facts.get('block_count')),
        attn_beside: true,
      }),
    },
  },
};
