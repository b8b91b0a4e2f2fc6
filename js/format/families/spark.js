/**
 * Spark-X2.5: layers with a window and layers without alternate; they have different bases and numbers of rotated
 * dimensions. The output of each head of attention has a gate.
 */
import { shown } from '../../shared/quote-value.js';
import { GGUF_MODULES, ggufRms, ggufWindow, REQUIRED_PATTERN } from './gguf.js';
import { positionsByKind } from './proportional-rope.js';
import { LLAMA_MODULES, LLAMA_NAMES, activationOf, expect, QKV, sizesOf, splitInto, windowOf } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

/** Default rope_parameters. */
const ROPE = { full: { rope_theta: 5e6, partial_rotary_factor: 0.25 }, local: { rope_theta: 1e4 } };

/** @type {Family} */
export const spark = {
  ...LLAMA_NAMES,
  arch: 'other',
  rotatesParts: true,
  modules: {
    ...LLAMA_MODULES,
    'self_attn.q_k_v_proj': splitInto(QKV, ({ heads, kv_heads: kv, head_dim: dim }) =>
      [heads, kv, kv].map((n) => n * dim),
    ),
    'self_attn.g_proj': 'attn.gate',
    'self_attn.out_proj': 'attn.o',
  },
  config(hf) {
    const { gate_attn_act_mode: gate = 'sigmoid', headwise_attn_output_gate: isByHead = true } = hf;
    expect(gate === 'sigmoid' && isByHead === true, `Spark with gates of ${shown(gate)}, or not one for each head`);
    const { full, local } = positionsByKind(hf, ROPE);
    for (const { rope_type: type = 'default' } of [full, local])
      expect(type === 'default', `Spark with scaled positions (${type})`);
    const { rope_parameters: _, rope_scaling: __, partial_rotary_factor: ___, ...sizes } = hf;
    const config = sizesOf({
      ...sizes,
      rope_theta: full.rope_theta,
      partial_rotary_factor: full.partial_rotary_factor,
    });
    const windows = windowOf(hf, 4);
    const localDim = Math.trunc(config.head_dim * (local.partial_rotary_factor ?? 1));
    return {
      ...config,
      ...windows,
      ...('window' in windows && {
        local_theta: local.rope_theta ?? 1e4,
        ...(localDim !== config.rope_dim && { local_rope_dim: localDim }),
      }),
      norm: 'rms',
      norm_eps: hf.rms_norm_eps ?? 1e-6,
      activation: activationOf(hf.hidden_act ?? 'gelu'),
      gated: true,
      tied: hf.tie_word_embeddings ?? true,
      attn_gate: 'heads',
    };
  },
  gguf: {
    spark2_5: {
      modules: () => ({ ...GGUF_MODULES, attn_gate: 'attn.gate' }),
      config(facts) {
        const config = ggufRms(facts, 'gelu_erf');
        // llama.cpp would scale the positions of all layers; the engine does not scale those of layers with a window.
        const factors = ['rope.scaling.factor', 'rope.scale_linear', 'rope.scaling.attn_factor'];
        const isScaled = 'rope_scale' in config || factors.some((key) => facts.get(key, 1) !== 1);
        expect(!isScaled, 'Spark with scaled positions');
        const windows = ggufWindow(facts, REQUIRED_PATTERN);
        const localDim = facts.get('rope.dimension_count_swa', config.rope_dim);
        return {
          ...config,
          ...windows,
          ...('window' in windows && {
            local_theta: facts.get('rope.freq_base_swa', config.rope_theta),
            ...(localDim !== config.rope_dim && { local_rope_dim: localDim }),
          }),
          attn_gate: 'heads',
        };
      },
    },
  },
};
