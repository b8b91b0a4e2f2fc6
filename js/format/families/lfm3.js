/**
 * LFM3: LFM2 with longer convolutions, a second kind of attention layers with a window, norms of the outputs of layers,
 * and a gate for the output of each head of attention.
 */
import { ggufWindow, REQUIRED_PATTERN } from './gguf.js';
import { numbersOf } from './layers.js';
import { GGUF_LFM2_MODULES, ggufLfm2, lfm2 } from './lfm2.js';
import { positionsByKind, proportionalDivisors } from './proportional-rope.js';
import { expect, layerTypes, listedWindow, sizesOf } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

/** Kinds of layers: a convolution, attention with a window, attention to all positions. */
const [CONV, SLIDING, FULL] = ['conv', 'sliding_attention', 'full_attention'];
/** Default rope_parameters. */
const ROPE = {
  full: { rope_type: 'proportional', partial_rotary_factor: 0.5, rope_theta: 1e6 },
  local: { rope_theta: 1e4 },
};
/** Default base of the rotary positions of a kind that config.json describes without a base. */
const THETA = 1e6;
/** Types of rotary positions of layers without a window. Published files use both names for proportional RoPE. */
const FULL_TYPES = [undefined, 'proportional', 'default'];

/** Returns the kind of a layer in a model without a list of them. @param {number} layer */
const kindOf = (layer) => (layer % 4 === 2 ? FULL : layer % 4 === 0 && layer > 0 ? SLIDING : CONV);

/** @type {Family} */
export const lfm3 = {
  ...lfm2,
  arch: 'lfm3',
  rotatesParts: true,
  modules: {
    ...lfm2.modules,
    'self_attn.q_norm': 'attn.q_norm',
    'self_attn.k_norm': 'attn.k_norm',
    'self_attn.o_proj': 'attn.o',
    'self_attn.g_proj': 'attn.gate',
    // Name in published files.
    'self_attn.gate_proj': 'attn.gate',
    post_operator_norm: 'ln1_post',
    post_ffn_norm: 'ln2_post',
  },
  defaults: { head_dim: 128, max_position_embeddings: 128000, sliding_window: 256 },
  config: (hf) => {
    const { full, local } = positionsByKind(hf, ROPE);
    expect(FULL_TYPES.includes(full.rope_type), `LFM3 with positions of type "${full.rope_type}"`);
    expect(
      [undefined, 'default'].includes(local.rope_type),
      `LFM3 with positions of type "${local.rope_type}" in layers with a window`,
    );
    const kinds = layerTypes(hf, [CONV, SLIDING, FULL], kindOf);
    expect(!kinds.includes(SLIDING) || hf.sliding_window, 'LFM3 with sliding_attention without a sliding_window');
    const window = listedWindow({ ...hf, layer_types: null }, (layer) => kinds[layer] === SLIDING);
    const { rope_parameters: _, rope_scaling: __, partial_rotary_factor: ___, layer_types: ____, ...sizes } = hf;
    return {
      ...sizesOf({ ...sizes, rope_theta: full.rope_theta ?? THETA }),
      ...window,
      norm: 'rms',
      norm_eps: hf.norm_eps ?? hf.rms_norm_eps ?? 1e-5,
      norm_place: (hf.use_sandwich_norm ?? true) ? 'around' : 'before',
      activation: 'silu',
      gated: true,
      tied: hf.tie_word_embeddings ?? true,
      qk_norm: 'heads',
      ...('window' in window && { local_theta: local.rope_theta ?? THETA }),
      attn_gate: (hf.use_attention_gate ?? true) ? 'heads' : 'no',
      conv_size: hf.conv_L_cache ?? 7,
      conv_layers: kinds.flatMap((kind, layer) => (kind === CONV ? [layer] : [])),
    };
  },
  tables: (hf, { head_dim: dim }) => ({ 'rope.factors': proportionalDivisors(positionsByKind(hf, ROPE).full, dim) }),
  gguf: {
    lfm3: {
      modules: () => ({
        ...GGUF_LFM2_MODULES,
        attn_gate: 'attn.gate',
        post_attention_norm: 'ln1_post',
        post_ffw_norm: 'ln2_post',
      }),
      config: (facts) => {
        const { get, has } = facts;
        const window = ggufWindow(facts, REQUIRED_PATTERN);
        expect('window' in window, 'LFM3 without layers with a window');
        expect(has('rope_freqs.weight'), 'LFM3 without the tensor "rope_freqs.weight"');
        const config = ggufLfm2(facts);
        const hasGate = (/** @type {number} */ layer) => has(`blk.${layer}.attn_gate.weight`);
        return {
          ...config,
          ...window,
          norm_place: has('blk.0.post_attention_norm.weight') ? 'around' : 'before',
          local_theta: get('rope.freq_base_swa', 10000),
          attn_gate: numbersOf(config.layers).some(hasGate) ? 'heads' : 'no',
        };
      },
    },
  },
};
