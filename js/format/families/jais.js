/**
 * The first Jais (also the "family" of 590 million to 30 billion parameters): GPT-2 with linear biases of distances
 * (ALiBi) and a gated MLP, and factors of the embedding, the scores and the logits.
 */
import { shown } from '../../shared/quote-value.js';
import { ggufLayerNorm } from './gguf.js';
import { gpt2, transposed } from './gpt.js';
import { expect } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

/** Keys of the configuration that do not depend on the file. */
const LAYERS = { activation: 'silu', gated: true, position: 'alibi' };

/** @type {Family} */
export const jais = {
  ...gpt2,
  arch: 'other',
  modules: { ...gpt2.modules, 'mlp.c_fc2': transposed('mlp.gate') },
  unread: /\.attn\.(bias|masked_bias)$|(^|\.)relative_pe\.slopes$/,
  config(hf) {
    const { activation_function: activation, position_embedding_type: position, alibi_scaling: scaling } = hf;
    expect(activation === 'swiglu', `Jais with the activation ${shown(activation)}`);
    expect(position === 'alibi', `Jais with positions of type ${shown(position)}`);
    expect(!scaling, 'Jais with alibi_scaling');
    const config = gpt2.config({ ...hf, activation_function: 'gelu_new' });
    const isScaledByDim = hf.scale_qk_dot_by_d ?? hf.mup_scale_qk_dot_by_d ?? false;
    return {
      ...config,
      ...LAYERS,
      ...(isScaledByDim && hf.scale_attn_weights !== false && { attn_scale: config.heads / config.hidden }),
      embed_scale: hf.embeddings_scale ?? hf.mup_embeddings_scale ?? 1,
      logit_scale: hf.width_scale ?? (hf.mup_output_alpha ?? 1) * (hf.mup_width_scale ?? 1),
    };
  },
  gguf: {
    // The converter multiplies the weights with the factors of embedding and logits.
    jais: {
      config(facts) {
        const config = ggufLayerNorm(facts, 'silu');
        const maxBias = facts.get('attention.max_alibi_bias', 0);
        expect(maxBias > 0, 'Jais without ALiBi (attention.max_alibi_bias)');
        return {
          ...config,
          ...LAYERS,
          alibi_max: maxBias,
          attn_scale: 1 / config.head_dim,
        };
      },
    },
  },
};
