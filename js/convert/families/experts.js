/** Families whose tokens go through some MLPs of many: a checkpoint has a tensor for each, we have all in one. */
import { qwen2, qwen3, mistral } from './llama.js';
import { LLAMA_MODULES, expect } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

const { 'mlp.gate_proj': _gate, 'mlp.up_proj': _up, 'mlp.down_proj': _down, ...ATTENTION } = LLAMA_MODULES;
/** "#" stands for an expert's number. */
const EXPERTS = {
  'mlp.gate': 'mlp.router',
  'mlp.experts.#.gate_proj': 'mlp.experts.gate',
  'mlp.experts.#.up_proj': 'mlp.experts.up',
  'mlp.experts.#.down_proj': 'mlp.experts.down',
};

/** All layers must have experts. @param {Record<string, any>} hf */
function expertsOf(hf) {
  expect(
    (hf.decoder_sparse_step ?? 1) === 1 && !hf.mlp_only_layers?.length,
    'some layers have experts, others one MLP',
  );
  return {
    experts: hf.num_experts ?? hf.num_local_experts,
    experts_used: hf.num_experts_per_tok,
    expert_ffn: hf.moe_intermediate_size ?? hf.intermediate_size,
  };
}

/** @type {Family} */
export const mixtral = {
  ...mistral,
  modules: {
    ...ATTENTION,
    'block_sparse_moe.gate': 'mlp.router',
    'block_sparse_moe.experts.#.w1': 'mlp.experts.gate',
    'block_sparse_moe.experts.#.w3': 'mlp.experts.up',
    'block_sparse_moe.experts.#.w2': 'mlp.experts.down',
  },
  config: (hf) => ({ ...mistral.config(hf), arch: 'mixtral', ...expertsOf(hf), experts_sum: true }),
};

/** One more expert for all tokens, which each switches on as far as it likes. @type {Family} */
export const qwen2moe = {
  ...qwen2,
  modules: {
    ...ATTENTION,
    ...EXPERTS,
    'mlp.shared_expert_gate': 'mlp.shared.switch',
    'mlp.shared_expert.gate_proj': 'mlp.shared.gate',
    'mlp.shared_expert.up_proj': 'mlp.shared.up',
    'mlp.shared_expert.down_proj': 'mlp.shared.down',
  },
  config: (hf) => ({
    ...qwen2.config(hf),
    arch: 'qwen2moe',
    ...expertsOf(hf),
    shared_ffn: hf.shared_expert_intermediate_size,
    experts_sum: hf.norm_topk_prob ?? false,
  }),
};

/** @type {Family} */
export const qwen3moe = {
  ...qwen3,
  modules: { ...ATTENTION, ...EXPERTS, 'self_attn.q_norm': 'attn.q_norm', 'self_attn.k_norm': 'attn.k_norm' },
  config: (hf) => ({
    ...qwen3.config(hf),
    arch: 'qwen3moe',
    ...expertsOf(hf),
    experts_sum: hf.norm_topk_prob ?? false,
  }),
};
