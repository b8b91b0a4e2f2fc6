/**
 * GLM-4 and GLM-Edge: LLaMA with fused gate and up, where a part of each head is rotated. Rotary pairs are adjacent
 * also in Hugging Face's files.
 */
import { GGUF_MODULES, ggufRms } from './gguf.js';
import { phi3 } from './phi.js';
import { LLAMA_MODULES, activationOf, expect, sizesOf } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

const { 'mlp.gate_proj': _gate, 'mlp.up_proj': _up, ...ATTENTION_AND_DOWN } = LLAMA_MODULES;

/** @type {Family} */
export const glm = {
  ...phi3,
  arch: 'other',
  modules: { ...ATTENTION_AND_DOWN, 'mlp.gate_up_proj': phi3.modules['mlp.gate_up_proj'] },
  defaults: { partial_rotary_factor: 0.5, head_dim: 128, num_key_value_heads: 2 },
  config: (hf) => ({
    ...sizesOf(hf),
    rope_pairs: 'adjacent',
    norm: 'rms',
    norm_eps: hf.rms_norm_eps ?? 1.5625e-7,
    activation: activationOf(hf.hidden_act ?? 'silu'),
    gated: true,
    tied: hf.tie_word_embeddings ?? false,
  }),
  gguf: {
    chatglm: {
      ropePairs: 'adjacent',
      modules: () => ({ ...GGUF_MODULES, ffn_up: 'mlp.gate_up' }),
      config: ggufRms,
    },
  },
};

/** Norms before and after attention and MLP. @type {Family} */
export const glm4 = {
  ...glm,
  modules: {
    ...glm.modules,
    post_self_attn_layernorm: 'ln1_post',
    post_attention_layernorm: 'ln2',
    post_mlp_layernorm: 'ln2_post',
  },
  config: (hf) => ({ ...glm.config(hf), norm_place: 'around' }),
  gguf: {
    glm4: {
      ropePairs: 'adjacent',
      modules: () => ({
        ...GGUF_MODULES,
        post_attention_norm: 'ln1_post',
        ffn_up: 'mlp.gate_up',
        post_ffw_norm: 'ln2_post',
      }),
      config(facts) {
        // In files with sections, of models that see, the converter has reordered the rows of q and k.
        const sections = Array.from(facts.get('rope.dimension_sections', []));
        expect(!sections.some(Boolean), 'GLM-4 with rope.dimension_sections');
        return { ...ggufRms(facts), norm_place: 'around' };
      },
    },
  },
};
