/**
 * Mixture-of-experts families. Most checkpoints have a tensor for each expert; a .bq4 file has one tensor with all
 * experts.
 */
import { rowsOfEach } from '../bq4/tensor-views.js';
import { GGUF_EXPERT_MODULES, GGUF_HEAD_NORMS, ggufExperts, ggufRms } from './gguf.js';
import { numbersOf } from './layers.js';
import { granite, graniteGguf, llama, mistral, qwen2, qwen3 } from './llama.js';
import { LLAMA_MODULES, listedWindow, splitInto } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

/** Canonical names of modules by their names in the checkpoint; "#" is the number of an expert. */
export const EXPERT_MODULES = {
  'mlp.gate': 'mlp.router',
  'mlp.experts.#.gate_proj': 'mlp.experts.gate',
  'mlp.experts.#.up_proj': 'mlp.experts.up',
  'mlp.experts.#.down_proj': 'mlp.experts.down',
};

/**
 * Returns the layers with a dense MLP instead of experts: the listed layers, and layers whose number (from 1) is not a
 * multiple of the step.
 * @param {Record<string, any>} hf
 */
function denseOf(hf) {
  const listed = new Set(hf.mlp_only_layers);
  const step = hf.decoder_sparse_step ?? 1;
  return numbersOf(hf.num_hidden_layers).filter((i) => listed.has(i) || (i + 1) % step !== 0);
}

/**
 * Returns the keys of the experts; {} if no layer has experts.
 * @param {Record<string, any>} hf @param {Record<string, any>} [extra]  further keys, added if a layer has experts
 */
export function expertsOf(hf, extra) {
  const dense = denseOf(hf);
  if (dense.length === hf.num_hidden_layers) return {};
  return {
    experts: hf.num_experts ?? hf.num_local_experts,
    experts_used: hf.num_experts_per_tok,
    expert_ffn: hf.moe_intermediate_size ?? hf.intermediate_size,
    ...(dense.length && { dense_layers: dense }),
    ...extra,
  };
}

/** In GGUF files the architecture is "llama", with experts (llama.js). @type {Family} */
export const mixtral = {
  ...mistral,
  arch: 'mixtral',
  modules: {
    ...LLAMA_MODULES,
    'block_sparse_moe.gate': 'mlp.router',
    'block_sparse_moe.experts.#.w1': 'mlp.experts.gate',
    'block_sparse_moe.experts.#.w3': 'mlp.experts.up',
    'block_sparse_moe.experts.#.w2': 'mlp.experts.down',
  },
  config: (hf) => ({ ...mistral.config(hf), ...expertsOf(hf, { experts_sum: true }) }),
};

/** All tokens go through a shared expert; a gate ("switch") scales its output for each token. @type {Family} */
export const qwen2moe = {
  ...qwen2,
  arch: 'qwen2moe',
  modules: {
    ...LLAMA_MODULES,
    ...EXPERT_MODULES,
    'mlp.shared_expert_gate': 'mlp.shared.switch',
    'mlp.shared_expert.gate_proj': 'mlp.shared.gate',
    'mlp.shared_expert.up_proj': 'mlp.shared.up',
    'mlp.shared_expert.down_proj': 'mlp.shared.down',
  },
  config: (hf) => ({
    ...llama.config(hf),
    // Every second one of the first layers has a window.
    ...(hf.use_sliding_window && listedWindow(hf, (i) => i % 2 === 0 && i < (hf.max_window_layers ?? 28))),
    ...expertsOf(hf, {
      shared_ffn: hf.shared_expert_intermediate_size,
      experts_sum: hf.norm_topk_prob ?? false,
    }),
  }),
  gguf: {
    qwen2moe: {
      modules: () => GGUF_EXPERT_MODULES,
      config: (facts) => ({
        ...ggufRms(facts),
        ...ggufExperts(facts, false),
        shared_ffn: facts.dims('blk.0.ffn_down_shexp.weight')[1],
      }),
    },
  },
};

/** @type {Family} */
export const qwen3moe = {
  ...qwen3,
  arch: 'qwen3moe',
  modules: {
    ...LLAMA_MODULES,
    ...EXPERT_MODULES,
    'self_attn.q_norm': 'attn.q_norm',
    'self_attn.k_norm': 'attn.k_norm',
  },
  config: (hf) => ({
    ...llama.config(hf),
    qk_norm: 'heads',
    ...(hf.use_sliding_window && listedWindow({ ...hf, layer_types: null }, () => true)),
    ...expertsOf(hf, { experts_sum: hf.norm_topk_prob ?? false }),
  }),
  gguf: {
    qwen3moe: {
      modules: () => ({ ...GGUF_EXPERT_MODULES, ...GGUF_HEAD_NORMS }),
      config: (facts) => ({ ...ggufRms(facts), qk_norm: 'heads', ...ggufExperts(facts, true) }),
    },
  },
};

/** @param {import('./gguf.js').GgufFacts} facts */
export function ggufGraniteExperts(facts) {
  const shared = facts.get('expert_shared_feed_forward_length', 0);
  return { ...ggufExperts(facts, true), ...(shared && { shared_ffn: shared, shared_always: true }) };
}

/**
 * Returns the canonical name of the MLP that all tokens go through: a shared expert, or the only MLP (Granite 4 without
 * experts).
 * @param {Record<string, any>} config
 */
const sharedName = ({ experts }) => (experts ? 'mlp.shared' : 'mlp');

/**
 * The checkpoint has all experts in one tensor: for each expert the rows of gate, then of up. The output of a shared
 * expert, if there is one, is added without a switch.
 * @type {Family}
 */
export const granitemoe = {
  ...granite,
  arch: 'other',
  modules: {
    ...LLAMA_MODULES,
    'block_sparse_moe.router.layer': 'mlp.router',
    'block_sparse_moe.input_linear': (tensor, { expert_ffn: ffn }) => [
      ['mlp.experts.gate', rowsOfEach(tensor, 0, ffn)],
      ['mlp.experts.up', rowsOfEach(tensor, ffn, ffn)],
    ],
    'block_sparse_moe.output_linear': 'mlp.experts.down',
    'shared_mlp.input_linear': (tensor, config) => {
      const [name, ffn] = [sharedName(config), config.shared_ffn || config.ffn];
      return splitInto([`${name}.gate`, `${name}.up`], () => [ffn, ffn])(tensor, config);
    },
    'shared_mlp.output_linear': (tensor, config) => [[`${sharedName(config)}.down`, tensor]],
  },
  config: (hf) => {
    const shared = hf.shared_intermediate_size;
    const experts = expertsOf(hf, { experts_sum: true, ...(shared && { shared_ffn: shared, shared_always: true }) });
    return { ...granite.config(hf), ...(hf.num_local_experts ? experts : { ffn: shared }) };
  },
  gguf: {
    granitemoe: {
      ...graniteGguf,
      modules: () => GGUF_EXPERT_MODULES,
      config: (facts) => ({ ...graniteGguf.config(facts), ...ggufGraniteExperts(facts) }),
    },
  },
};
