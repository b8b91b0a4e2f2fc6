/**
 * Cohere's Command R, Command R7B and Aya: attention and a gated MLP read the same normed input, and logits have a
 * factor. Rotary pairs are adjacent also in Hugging Face's files.
 */
import { flattened } from '../bq4/tensor-views.js';
import { GGUF_HEAD_NORMS, GGUF_MODULES, ggufRotaryLayerNorm, ggufWindow } from './gguf.js';
import { unrotatedGlobals } from './layers.js';
import { LLAMA_MODULES, LLAMA_NAMES, activationOf, sizesOf, windowOf } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */
/** @typedef {import('./gguf.js').GgufFacts} GgufFacts */

/** Keys of the configuration that do not depend on the file. */
const LAYERS = { norm: 'layer', gated: true, block: 'shared' };

/** @param {GgufFacts} facts */
const ggufCohere = (facts) => ({
  ...ggufRotaryLayerNorm(facts, 'silu'),
  ...LAYERS,
  logit_scale: facts.get('logit_scale', 1),
});

/** The largest models (Command R+) also have norms of heads, with separate weights for each head. @type {Family} */
export const cohere = {
  ...LLAMA_NAMES,
  arch: 'other',
  modules: { ...LLAMA_MODULES, 'self_attn.q_norm': 'attn.q_norm', 'self_attn.k_norm': 'attn.k_norm' },
  change: (name, tensor) => (/\.[qk]_norm\.weight$/.test(name) ? flattened(tensor) : tensor),
  config: (hf) => ({
    ...sizesOf(hf),
    ...LAYERS,
    norm_eps: hf.layer_norm_eps ?? 1e-5,
    activation: activationOf(hf.hidden_act ?? 'silu'),
    tied: hf.tie_word_embeddings ?? true,
    rope_pairs: 'adjacent',
    logit_scale: hf.logit_scale ?? 0.0625,
    ...(hf.use_qk_norm && { qk_norm: 'each' }),
  }),
  gguf: {
    'command-r': {
      ropePairs: 'adjacent',
      modules: () => ({ ...GGUF_MODULES, ...GGUF_HEAD_NORMS }),
      config: (facts) => ({
        ...ggufCohere(facts),
        ...(facts.has('blk.0.attn_q_norm.weight') && { qk_norm: 'each' }),
      }),
    },
  },
};

/** Layers with a window alternate with layers without; only those with a window have rotary positions. @type {Family} */
export const cohere2 = {
  ...cohere,
  modules: LLAMA_MODULES,
  defaults: { sliding_window: 4096 },
  config: (hf) => ({
    ...cohere.config({ ...hf, use_qk_norm: false }),
    ...unrotatedGlobals(windowOf(hf, hf.sliding_window_pattern ?? 4)),
  }),
  gguf: {
    cohere2: {
      ropePairs: 'adjacent',
      config: (facts) => ({ ...ggufCohere(facts), ...unrotatedGlobals(ggufWindow(facts, 4)) }),
    },
  },
};
