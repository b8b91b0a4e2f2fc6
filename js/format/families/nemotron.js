/** Nemotron, Minitron and Jais 2: layer norms, squared ReLUs in an MLP without gates. */
import { plusOne } from '../bq4/tensor-views.js';
import { ggufRotaryLayerNorm } from './gguf.js';
import { LLAMA_MODULES, LLAMA_NAMES, activationOf, sizesOf } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

/** Nemotron and Minitron: norms of 1 + w, heads rotated in part. @type {Family} */
export const nemotron = {
  ...LLAMA_NAMES,
  arch: 'other',
  modules: LLAMA_MODULES,
  defaults: { partial_rotary_factor: 0.5 },
  rotatesParts: true,
  change: (name, tensor) => (/(^|\.)ln\w+\.weight$/.test(name) ? plusOne(tensor) : tensor),
  config: (hf) => ({
    ...sizesOf(hf),
    norm: 'layer',
    norm_eps: hf.norm_eps ?? 1e-5,
    activation: activationOf(hf.hidden_act ?? 'relu2'),
    gated: false,
    tied: hf.tie_word_embeddings ?? false,
  }),
  // Norm weights in GGUF files already are 1 + w.
  gguf: { nemotron: { config: (facts) => ggufRotaryLayerNorm(facts, 'relu2') } },
};

/** @type {Family} */
export const jais2 = {
  ...LLAMA_NAMES,
  arch: 'other',
  modules: LLAMA_MODULES,
  config: (hf) => ({
    ...sizesOf(hf),
    norm: 'layer',
    norm_eps: hf.layer_norm_eps ?? 1e-5,
    activation: activationOf(hf.hidden_act ?? 'relu2'),
    gated: false,
    tied: hf.tie_word_embeddings ?? false,
  }),
  gguf: { jais2: { config: (facts) => ggufRotaryLayerNorm(facts, 'relu2') } },
};
