/** Qwen3.5: three of four layers are gated delta nets; the others have attention with a gated result. */
import { flattened, minusExp, plusOne } from '../bq4/tensor-views.js';
import { GGUF_HEAD_NORMS, GGUF_MODULES, ggufRms, ggufState } from './gguf.js';
import { eachLayer, numbersOf } from './layers.js';
import { LLAMA_MODULES, LLAMA_NAMES, activationOf, expect, layerTypes, sizesOf } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

/** Norms whose weights are 1 + w for the stored w. */
const NORMS = /(ln1|ln2|ln_f|[qk]_norm)\.weight$/;

/** Returns the numbers of the layers with a delta net. @param {Record<string, any>} hf @returns {number[]} */
function deltaLayers(hf) {
  const every = hf.full_attention_interval ?? 4;
  const types = layerTypes(hf, ['linear_attention', 'full_attention'], (layer) =>
    (layer + 1) % every ? 'linear_attention' : 'full_attention',
  );
  return types.flatMap((type, layer) => (type === 'linear_attention' ? [layer] : []));
}

/**
 * Returns the rotated share of a head, which published files have in one of two places.
 * @param {Record<string, any>} hf
 */
const rotatedShare = (hf) => hf.rope_parameters?.partial_rotary_factor ?? hf.partial_rotary_factor ?? 0.25;

/** @type {Family} */
export const qwen35 = {
  ...LLAMA_NAMES,
  arch: 'qwen35',
  rotatesParts: true,
  modules: {
    ...LLAMA_MODULES,
    'self_attn.q_norm': 'attn.q_norm',
    'self_attn.k_norm': 'attn.k_norm',
    'linear_attn.in_proj_qkv': 'delta.in',
    'linear_attn.in_proj_z': 'delta.z',
    'linear_attn.in_proj_a': 'delta.a',
    'linear_attn.in_proj_b': 'delta.b',
    'linear_attn.conv1d': 'delta.taps',
    'linear_attn.dt_bias': 'delta.dt',
    'linear_attn.A_log': 'delta.decay',
    'linear_attn.norm': 'delta.norm',
    'linear_attn.out_proj': 'delta.out',
  },
  // Layers for multi-token prediction (mtp) are not used.
  unread: /\.rotary_emb\.inv_freq$|^mtp\./,
  defaults: { head_dim: 256, rope_theta: 1e7 },
  change: (name, tensor) => {
    if (name.endsWith('delta.taps.weight')) return flattened(tensor);
    if (name.endsWith('delta.decay.weight')) return minusExp(tensor);
    return NORMS.test(name) ? plusOne(tensor) : tensor;
  },
  config: (hf) => {
    // The angles are divided into sections for the positions of images. In a text all sections have the same position.
    const { mrope_section: _, mrope_interleaved: __, ...rope } = hf.rope_parameters ?? {};
    const activation = activationOf(hf.hidden_act ?? 'silu');
    expect(activation === 'silu', `Qwen3.5 with the activation "${hf.hidden_act}"`);
    const sizes = sizesOf({ ...hf, ...(hf.rope_parameters && { rope_parameters: rope }) });
    return {
      ...sizes,
      rope_dim: Math.trunc(sizes.head_dim * rotatedShare(hf)),
      norm: 'rms',
      norm_eps: hf.rms_norm_eps ?? 1e-6,
      activation,
      gated: true,
      tied: hf.tie_word_embeddings ?? false,
      qk_norm: 'heads',
      attn_gate: 'dims',
      conv_size: hf.linear_conv_kernel_dim ?? 4,
      conv_layers: deltaLayers(hf),
      state_key_heads: hf.linear_num_key_heads ?? 16,
      state_value_heads: hf.linear_num_value_heads ?? 32,
      state_key_dim: hf.linear_key_head_dim ?? 128,
      state_value_dim: hf.linear_value_head_dim ?? 128,
    };
  },
  gguf: {
    qwen35: {
      modules: () => ({
        ...GGUF_MODULES,
        ...GGUF_HEAD_NORMS,
        // In other architectures attn_qkv is a fused tensor of attention.
        attn_qkv: 'delta.in',
        attn_gate: 'delta.z',
        post_attention_norm: 'ln2',
        ssm_alpha: 'delta.a',
        ssm_beta: 'delta.b',
        ssm_conv1d: 'delta.taps',
        'ssm_dt.bias': 'delta.dt',
        ssm_a: 'delta.decay',
        ssm_norm: 'delta.norm',
        ssm_out: 'delta.out',
      }),
      config: (facts) => {
        const [config, state] = [ggufRms(facts), ggufState(facts)];
        // Older files only have the period.
        const every = facts.get('full_attention_interval', 4);
        const listed = facts.get('attention.recurrent_layers', null);
        const recurrent = eachLayer(listed, facts.get('block_count'), 'attention.recurrent_layers');
        return {
          ...config,
          qk_norm: 'heads',
          attn_gate: 'dims',
          ...state,
          conv_layers: numbersOf(config.layers).filter((i) => (recurrent ? recurrent[i] : (i + 1) % every)),
          // The converter stores the first value heads of all key heads, then the second value heads, and so on.
          state_strided: state.state_value_heads !== state.state_key_heads,
        };
      },
    },
  },
};
