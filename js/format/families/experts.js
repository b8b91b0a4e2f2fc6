/** Families whose tokens go through some MLPs of many: a checkpoint has a tensor for each, we have all in one. */
import { numbersOf } from './layers.js';
import { granite, llama, mistral, qwen2, qwen3 } from './llama.js';
import { LLAMA_MODULES, listedWindow } from './shared.js';
import { within } from '../bq4/tensor-views.js';

/** @typedef {import('./shared.js').Family} Family */

/** "#" stands for an expert's number. */
const EXPERTS = {
  'mlp.gate': 'mlp.router',
  'mlp.experts.#.gate_proj': 'mlp.experts.gate',
  'mlp.experts.#.up_proj': 'mlp.experts.up',
  'mlp.experts.#.down_proj': 'mlp.experts.down',
};

/** Which layers have one MLP instead: those that are listed, and all but every so many-th. @param {Record<string, any>} hf */
function denseOf(hf) {
  const listed = new Set(hf.mlp_only_layers);
  const step = hf.decoder_sparse_step ?? 1;
  return numbersOf(hf.num_hidden_layers).filter((i) => listed.has(i) || (i + 1) % step !== 0);
}

/** @param {Record<string, any>} hf @param {Record<string, any>} [more]  that they have */
function expertsOf(hf, more) {
  const dense = denseOf(hf);
  if (dense.length === hf.num_hidden_layers) return {};
  return {
    experts: hf.num_experts ?? hf.num_local_experts,
    experts_used: hf.num_experts_per_tok,
    expert_ffn: hf.moe_intermediate_size ?? hf.intermediate_size,
    ...(dense.length && { dense_layers: dense }),
    ...more,
  };
}

/** @type {Family} */
export const mixtral = {
  ...mistral,
  modules: {
    ...LLAMA_MODULES,
    'block_sparse_moe.gate': 'mlp.router',
    'block_sparse_moe.experts.#.w1': 'mlp.experts.gate',
    'block_sparse_moe.experts.#.w3': 'mlp.experts.up',
    'block_sparse_moe.experts.#.w2': 'mlp.experts.down',
  },
  config: (hf) => ({ ...mistral.config(hf), arch: 'mixtral', ...expertsOf(hf, { experts_sum: true }) }),
};

/** One more expert for all tokens, which each switches on as far as it likes. @type {Family} */
export const qwen2moe = {
  ...qwen2,
  modules: {
    ...LLAMA_MODULES,
    ...EXPERTS,
    'mlp.shared_expert_gate': 'mlp.shared.switch',
    'mlp.shared_expert.gate_proj': 'mlp.shared.gate',
    'mlp.shared_expert.up_proj': 'mlp.shared.up',
    'mlp.shared_expert.down_proj': 'mlp.shared.down',
  },
  config: (hf) => ({
    ...llama.config(hf),
    arch: 'qwen2moe',
    // Every other one of the first layers.
    ...(hf.use_sliding_window && listedWindow(hf, (i) => i % 2 === 0 && i < (hf.max_window_layers ?? 28))),
    ...expertsOf(hf, {
      shared_ffn: hf.shared_expert_intermediate_size,
      experts_sum: hf.norm_topk_prob ?? false,
    }),
  }),
};

/** @type {Family} */
export const qwen3moe = {
  ...qwen3,
  modules: { ...LLAMA_MODULES, ...EXPERTS, 'self_attn.q_norm': 'attn.q_norm', 'self_attn.k_norm': 'attn.k_norm' },
  config: (hf) => ({
    ...llama.config(hf),
    arch: 'qwen3moe',
    qk_norm: 'heads',
    ...(hf.use_sliding_window && listedWindow({ ...hf, layer_types: null }, () => true)),
    ...expertsOf(hf, { experts_sum: hf.norm_topk_prob ?? false }),
  }),
};

/** All experts are in one tensor, gate and up of each one after the other. @type {Family} */
export const granitemoe = {
  ...granite,
  modules: {
    ...LLAMA_MODULES,
    'block_sparse_moe.router.layer': 'mlp.router',
    'block_sparse_moe.input_linear': (tensor, { expert_ffn: ffn }) => [
      ['mlp.experts.gate', within(tensor, 0, ffn)],
      ['mlp.experts.up', within(tensor, ffn, ffn)],
    ],
    'block_sparse_moe.output_linear': 'mlp.experts.down',
  },
  config: (hf) => ({ ...granite.config(hf), arch: 'other', ...expertsOf(hf, { experts_sum: true }) }),
};
