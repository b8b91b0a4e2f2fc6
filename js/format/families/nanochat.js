/**
 * nanochat: norms without weights, also of the embedding and of each head of q and k; squared ReLUs in an MLP without
 * gates; a softcap of logits. Rotary pairs are rotated in the opposite direction.
 */
import { pick } from '../bq4/tensor-views.js';
import { numbersOf } from './layers.js';
import { ropeTables } from './rope.js';
import { LLAMA_NAMES, activationOf, normTables, sizesOf } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

/** @type {Family} */
export const nanochat = {
  ...LLAMA_NAMES,
  arch: 'other',
  modules: {
    'self_attn.q_proj': 'attn.q',
    'self_attn.k_proj': 'attn.k',
    'self_attn.v_proj': 'attn.v',
    'self_attn.o_proj': 'attn.o',
    'mlp.fc1': 'mlp.up',
    'mlp.fc2': 'mlp.down',
  },
  defaults: { final_logit_softcapping: 15 },
  /** Exchanges the two halves of each head of q and k, which reverses the direction of the rotation. */
  change(name, tensor, hf) {
    if (!/\.attn\.[qk]\./.test(name)) return tensor;
    const half = (hf.head_dim ?? hf.hidden_size / hf.num_attention_heads) / 2;
    return pick(
      tensor,
      Int32Array.from({ length: tensor.dims[0] }, (_, row) => (row % (2 * half) < half ? row + half : row - half)),
    );
  },
  config: (hf) => ({
    ...sizesOf(hf),
    norm: 'rms',
    norm_eps: hf.rms_norm_eps ?? 1e-6,
    activation: activationOf(hf.hidden_act ?? 'relu2'),
    gated: false,
    tied: hf.tie_word_embeddings ?? false,
    embed_norm: true,
    qk_norm: 'rotated',
    logit_softcap: hf.final_logit_softcapping ?? 0,
  }),
  tables(hf, config) {
    const heads = numbersOf(config.layers).flatMap((i) => [`h.${i}.attn.q_norm.weight`, `h.${i}.attn.k_norm.weight`]);
    return {
      ...ropeTables(hf, config),
      ...normTables(config),
      'ln_0.weight': new Float32Array(config.hidden).fill(1),
      ...Object.fromEntries(heads.map((name) => [name, new Float32Array(config.head_dim).fill(1)])),
    };
  },
};
