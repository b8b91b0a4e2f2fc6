/**
 * Gemma 4: like Gemma 3, with three differences. Layers without a window have another head size. The last layers attend
 * to keys and values of earlier layers. Each layer has its own embedding of every token (per-layer embeddings).
 */
import { shown } from '../../shared/quote-value.js';
import { flattened } from '../bq4/tensor-views.js';
import { gemma2 } from './gemma.js';
import { GGUF_HEAD_NORMS, GGUF_MODULES, GGUF_OUTER, ggufRms, ggufWindow } from './gguf.js';
import { eachLayer, numbersOf } from './layers.js';
import { positionsByKind, proportionalDivisors } from './proportional-rope.js';
import { activationOf, expect, listedWindow, sizesOf } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */
/** @typedef {import('./gguf.js').GgufFacts} GgufFacts */

/** Default rope_parameters of layers without a window. */
const FULL_ATTENTION_ROPE = { rope_type: 'proportional', partial_rotary_factor: 0.25, rope_theta: 1e6 };

/**
 * Returns the value of a key for layers without a window. config.json has it once for all these layers, or for each of
 * them. Throws UNSUPPORTED if they have different values.
 * @param {Record<string, any>} hf @param {string} global  key for all layers
 * @param {string} each  key of a layer, in per_layer_config
 */
export function globalValue(hf, global, each) {
  const layerValues = Object.values(hf.per_layer_config ?? {}).flatMap((layer) => layer?.[each] ?? []);
  const values = [...new Set(hf[global] === undefined || hf[global] === null ? layerValues : [hf[global]])];
  expect(values.length < 2, `layers with ${values.join(' and ')} for ${each}`);
  return values[0];
}

/** @param {Record<string, any>} hf */
const isLocal = (hf) => (/** @type {number} */ layer) => (layer + 1) % 6 !== 0 && layer + 1 < hf.num_hidden_layers;

/**
 * Returns the dimensions of per-layer embeddings; 0 if there are none. Throws UNSUPPORTED.
 * @param {Record<string, any>} hf
 */
function layerEmbed(hf) {
  const dims = hf.hidden_size_per_layer_input ?? 256;
  const rows = hf.vocab_size_per_layer_input ?? 262144;
  expect(!dims || rows === hf.vocab_size, `per-layer embeddings of ${rows} of ${hf.vocab_size} tokens`);
  return dims;
}

/** Supported keys of a layer in per_layer_config. */
const LAYER_KEYS = ['head_dim', 'num_key_value_heads'];

/**
 * Throws UNSUPPORTED for other keys of a layer.
 * @param {Record<string, any>} hf @param {string} model  name of the model, for errors
 */
export function checkLayerKeys({ per_layer_config: layers }, model) {
  const unsupportedKeys = Object.values(layers ?? {})
    .flatMap((layer) => Object.keys(layer ?? {}))
    .filter((key) => !LAYER_KEYS.includes(key));
  expect(!unsupportedKeys.length, `${model} with ${shown(unsupportedKeys[0])} in per_layer_config`);
}

/** Keys of the configuration of the layers that do not depend on the file. */
export const LAYERS = {
  norm_place: 'around',
  qk_norm: 'heads',
  attn_scale: 1,
  value_norm: true,
  layer_scale: true,
};

/** Canonical names of a layer's modules, except those of per-layer embeddings. */
export const LAYER_MODULES = {
  ...gemma2.modules,
  'self_attn.q_norm': 'attn.q_norm',
  'self_attn.k_norm': 'attn.k_norm',
  layer_scalar: 'layer_scale',
};

const GGUF_LAYER_MODULES = {
  ...GGUF_MODULES,
  ...GGUF_HEAD_NORMS,
  post_attention_norm: 'ln1_post',
  post_ffw_norm: 'ln2_post',
  inp_gate: 'embed.gate',
  proj: 'embed.out',
  post_norm: 'embed.post',
  layer_output_scale: 'layer_scale',
};
export const ggufLayerModules = () => GGUF_LAYER_MODULES;

/**
 * Returns the configuration of a GGUF file's layers. Layers with a window and layers without have different heads.
 * `global`: number of the first layer without a window. Throws UNSUPPORTED.
 * @param {GgufFacts} facts @param {string} model  name of the model, for errors
 */
export function ggufLayers(facts, model) {
  const { get } = facts;
  const window = ggufWindow(facts, 6);
  const layers = numbersOf(get('block_count'));
  const local = eachLayer(get('attention.sliding_window_pattern'), layers.length, 'sliding_window_pattern') ?? [];
  const firstLocal = local.findIndex(Boolean);
  const global = local.findIndex((isWindowed) => !isWindowed);
  expect(firstLocal >= 0 && global >= 0, `${model} with layers of one kind`);
  const heads = get('attention.head_count_kv');
  const kvHeads = (/** @type {number} */ n) => (typeof heads === 'number' ? heads : Array.from(heads)[n]);
  const config = ggufRms(facts, 'gelu', kvHeads(firstLocal));
  return {
    ...config,
    ...window,
    ...LAYERS,
    embed_scale: config.hidden ** 0.5,
    head_dim: get('attention.key_length_swa'),
    rope_dim: get('rope.dimension_count_swa'),
    local_theta: get('rope.freq_base_swa', 10000),
    global_head_dim: get('attention.key_length'),
    ...(kvHeads(global) !== kvHeads(firstLocal) && { global_kv_heads: kvHeads(global) }),
    global,
  };
}

/** @type {Family} */
export const gemma4 = {
  ...gemma2,
  arch: 'gemma4',
  rotatesParts: true,
  outer: {
    ...gemma2.outer,
    embed_tokens_per_layer: 'embed.layers',
    per_layer_model_projection: 'embed.project',
    per_layer_projection_norm: 'embed.norm',
  },
  modules: {
    ...LAYER_MODULES,
    per_layer_input_gate: 'embed.gate',
    per_layer_projection: 'embed.out',
    post_per_layer_input_norm: 'embed.post',
  },
  defaults: { head_dim: 256, max_position_embeddings: 131072, sliding_window: 512, num_kv_shared_layers: 0 },
  change: (name, tensor) => (name.endsWith('.layer_scale.weight') ? flattened(tensor) : tensor),
  config: (hf) => {
    const { full, local } = positionsByKind(hf, { full: FULL_ATTENTION_ROPE });
    checkLayerKeys(hf, 'Gemma 4');
    expect(!hf.enable_moe_block, 'Gemma 4 with experts');
    expect(
      [undefined, null, false, 'vision'].includes(hf.use_bidirectional_attention),
      'Gemma 4 with bidirectional attention',
    );
    expect(full.rope_type === 'proportional', `Gemma 4 with positions of type "${full.rope_type}"`);
    expect(
      [undefined, 'default'].includes(local.rope_type),
      `Gemma 4 with local positions of type "${local.rope_type}"`,
    );
    const shared = hf.num_kv_shared_layers;
    const kvHeads = hf.attention_k_eq_v && globalValue(hf, 'num_global_key_value_heads', 'num_key_value_heads');
    // In layers with a window all dimensions of a head are rotated, without scaling.
    const { rope_parameters: _, rope_scaling: __, partial_rotary_factor: ___, ...sizes } = hf;
    return {
      ...sizesOf({ ...sizes, rope_theta: full.rope_theta }, 1e6),
      ...listedWindow(hf, isLocal(hf)),
      ...LAYERS,
      norm: 'rms',
      norm_eps: hf.rms_norm_eps ?? 1e-6,
      activation: activationOf(hf.hidden_activation ?? 'gelu_pytorch_tanh'),
      gated: true,
      tied: hf.tie_word_embeddings ?? true,
      embed_scale: hf.hidden_size ** 0.5,
      local_theta: local.rope_theta ?? 10000,
      logit_softcap: hf.final_logit_softcapping ?? 0,
      global_head_dim: globalValue(hf, 'global_head_dim', 'head_dim') ?? 512,
      ...(kvHeads && { global_kv_heads: kvHeads }),
      keys_as_values: Boolean(hf.attention_k_eq_v),
      shared_kv: shared,
      ...(hf.use_double_wide_mlp && shared && { shared_kv_ffn: 2 * hf.intermediate_size }),
      layer_embed: layerEmbed(hf),
    };
  },
  tables: (hf, { global_head_dim: dim }) => ({
    'rope.factors': proportionalDivisors(positionsByKind(hf, { full: FULL_ATTENTION_ROPE }).full, dim),
  }),
  gguf: {
    gemma4: {
      outer: {
        ...GGUF_OUTER,
        per_layer_token_embd: 'embed.layers',
        per_layer_model_proj: 'embed.project',
        per_layer_proj_norm: 'embed.norm',
      },
      modules: ggufLayerModules,
      config: (facts) => {
        const { get, has, dims } = facts;
        expect(!get('expert_count', 0), 'Gemma 4 with experts');
        // Only this tensor specifies which part of a head is rotated in global layers.
        expect(has('rope_freqs.weight'), 'Gemma 4 without the tensor "rope_freqs.weight"');
        const { global, ...config } = ggufLayers(facts, 'Gemma 4');
        const shared = get('attention.shared_kv_layers', 0);
        const last = `blk.${config.layers - 1}.ffn_down.weight`;
        return {
          ...config,
          logit_softcap: get('final_logit_softcapping', 0),
          keys_as_values: !has(`blk.${global}.attn_v.weight`),
          shared_kv: shared,
          ...(shared && dims(last)[1] !== config.ffn && { shared_kv_ffn: dims(last)[1] }),
          layer_embed: get('embedding_length_per_layer_input', 0),
        };
      },
    },
  },
};
