/** LFM2 and 2.5: most layers have a short convolution over positions in place of attention. */
import { flattened } from '../bq4/tensor-views.js';
import { expertsOf } from './experts.js';
import {
  GGUF_EXPERT_MODULES,
  GGUF_HEAD_NORMS,
  GGUF_MODULES,
  GGUF_OUTER,
  ggufExperts,
  ggufRecurrent,
  ggufRms,
} from './gguf.js';
import { numbersOf } from './layers.js';
import { expect, layerTypes, sizesOf } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

/**
 * Returns the width of the MLP. config.json has the width before an adjustment (Lfm2MLP of transformers).
 * @param {Record<string, any>} hf
 */
function mlpWidth(hf) {
  const width = hf.block_ff_dim ?? hf.intermediate_size;
  if (!(hf.block_auto_adjust_ff_dim ?? true)) return width;
  const twoThirds = Math.trunc((2 * width) / 3);
  if (hf.block_ffn_dim_multiplier === null) return twoThirds;
  const multiple = hf.block_multiple_of ?? 256;
  return multiple * Math.ceil(Math.trunc((hf.block_ffn_dim_multiplier ?? 1) * twoThirds) / multiple);
}

/** Returns the numbers of the layers with a convolution. @param {Record<string, any>} hf @returns {number[]} */
function convolutionLayers(hf) {
  const hasAttention = (/** @type {number} */ layer) => hf.full_attn_idxs?.includes(layer) ?? true;
  const types = layerTypes(hf, ['conv', 'full_attention'], (layer) =>
    hasAttention(layer) ? 'full_attention' : 'conv',
  );
  return types.flatMap((type, layer) => (type === 'conv' ? [layer] : []));
}

/** @param {import('./gguf.js').GgufFacts} facts */
export function ggufLfm2(facts) {
  const { kvHeads, conv_layers } = ggufRecurrent(facts);
  return {
    ...ggufRms(facts, 'silu', kvHeads),
    qk_norm: 'heads',
    conv_size: facts.get('shortconv.l_cache'),
    conv_layers,
  };
}

/** Canonical names of a layer's modules in GGUF files. */
export const GGUF_LFM2_MODULES = {
  ...GGUF_MODULES,
  ...GGUF_HEAD_NORMS,
  'shortconv.in_proj': 'conv.in',
  'shortconv.conv': 'conv.taps',
  'shortconv.out_proj': 'conv.out',
};

/** @type {Family} */
export const lfm2 = {
  arch: 'lfm2',
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
  change: (name, tensor) => (name.endsWith('conv.taps.weight') ? flattened(tensor) : tensor),
  config: (hf) => ({
    ...sizesOf(hf),
    ffn: mlpWidth(hf),
    norm: 'rms',
    norm_eps: hf.norm_eps ?? 1e-5,
    activation: 'silu',
    gated: true,
    tied: hf.tie_embedding ?? hf.tie_word_embeddings ?? true,
    qk_norm: 'heads',
    conv_size: hf.conv_L_cache ?? 3,
    conv_layers: convolutionLayers(hf),
  }),
  gguf: {
    lfm2: {
      // The converter stores the last norm with the name of the embedding's norm.
      outer: { ...GGUF_OUTER, token_embd_norm: 'ln_f' },
      modules: () => GGUF_LFM2_MODULES,
      config: ggufLfm2,
    },
  },
};

/** Canonical names of the router and the experts, which all layers except the first ones have in place of the MLP. */
const EXPERT_MODULES = {
  'feed_forward.gate': 'mlp.router',
  'feed_forward.experts.#.w1': 'mlp.experts.gate',
  'feed_forward.experts.#.w3': 'mlp.experts.up',
  'feed_forward.experts.#.w2': 'mlp.experts.down',
};
/** Default number of layers with one MLP before the layers with experts. */
const FIRST_DENSE = 2;
/** Value of expert_gating_func in GGUF files. */
const SIGMOID = 2;

/** Returns the keys of the experts. Throws UNSUPPORTED. @param {Record<string, any>} hf */
function expertKeys(hf) {
  const factor = hf.routed_scaling_factor ?? 1;
  expect(factor === 1, `LFM2 with the factor ${factor} of experts' results (routed_scaling_factor)`);
  return {
    ...expertsOf(hf, { experts_sum: hf.norm_topk_prob ?? true, experts_sigmoid: true }),
    dense_layers: numbersOf(hf.num_hidden_layers).slice(0, hf.num_dense_layers ?? FIRST_DENSE),
  };
}

/**
 * LFM2 with experts: the experts' weights are sigmoids of scores; biases affect only the choice of experts.
 * @type {Family}
 */
export const lfm2moe = {
  ...lfm2,
  arch: 'other',
  modules: { ...lfm2.modules, ...EXPERT_MODULES, 'feed_forward.expert_bias': 'mlp.router' },
  ending: (name) => (name.endsWith('.expert_bias') ? 'bias' : 'weight'),
  config: (hf) => ({ ...lfm2.config(hf), ffn: hf.intermediate_size, ...expertKeys(hf) }),
  gguf: {
    lfm2moe: {
      outer: lfm2.gguf?.lfm2.outer,
      modules: () => ({ ...GGUF_LFM2_MODULES, ...GGUF_EXPERT_MODULES, exp_probs_b: 'mlp.router' }),
      config: (facts) => {
        const gating = facts.get('expert_gating_func', SIGMOID);
        expect(gating === SIGMOID, `LFM2 with expert_gating_func ${gating}`);
        const dense = facts.get('leading_dense_block_count', 0);
        const first = `blk.${dense}.`;
        return {
          ...ggufLfm2(facts),
          ...ggufExperts(facts, true, first),
          experts_sigmoid: true,
          dense_layers: numbersOf(facts.get('block_count')).slice(0, dense),
        };
      },
    },
  },
};
