/**
 * EmbeddingGemma 2, the part for texts: an encoder with Gemma 4's layers. Per-layer embeddings are projections of the
 * embedding, without a table. The model itself has a dense layer that projects every token; with mean pooling this is
 * the same as projecting the pooled vector.
 */
import { ENCODER } from './gemma.js';
import { LAYER_MODULES, LAYERS, checkLayerKeys, gemma4, ggufLayerModules, ggufLayers, globalValue } from './gemma4.js';
import { bothSides, eachLayer, numbersOf } from './layers.js';
import { objectOf } from './proportional-rope.js';
import { activationOf, expect, listedWindow, sizesOf } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

const NAME = 'EmbeddingGemma 2';
/** Heads of layers without a window if config.json has no per_layer_config. */
const GLOBAL = { head_dim: 512, num_key_value_heads: 1 };

/**
 * Returns the base of the rotary positions of one kind of layers. Throws UNSUPPORTED, FORMAT.
 * @param {Record<string, any>} hf @param {string} kind  a key of rope_parameters @param {number} otherwise  default
 */
function thetaOf({ rope_parameters: rope }, kind, otherwise) {
  const { rope_type: type = 'default', rope_theta: theta = otherwise } = objectOf(rope?.[kind] ?? {}, kind);
  expect(type === 'default', `${NAME} with positions of type "${type}"`);
  return theta;
}

/**
 * Returns the keys for layers with a window. sliding_window is the number of positions on each side. Throws
 * UNSUPPORTED.
 * @param {Record<string, any>} hf
 */
function windowOf(hf) {
  const { num_hidden_layers: layers, sliding_window: radius, sliding_window_pattern: every = 6 } = hf;
  // In transformers the last layer always has global attention, even if config.json lists it as local.
  const layerTypes = eachLayer(hf.layer_types, layers, 'layer_types');
  const types = layerTypes && [...layerTypes.slice(0, -1), 'full_attention'];
  const isLocal = (/** @type {number} */ layer) => (layer + 1) % every !== 0 && layer + 1 < layers;
  const keys = listedWindow({ ...hf, layer_types: types, sliding_window: radius + 1 }, isLocal);
  expect('window' in keys, `${NAME} with layers of one kind`);
  return keys;
}

/**
 * Returns the keys for heads of layers without a window. Throws UNSUPPORTED.
 * @param {Record<string, any>} hf @param {{ global_every?: number, global_layers?: number[] }} window
 */
function globalHeads(hf, { global_every: every = 0, global_layers: listed = [] }) {
  const { per_layer_config: perLayer } = hf;
  checkLayerKeys(hf, NAME);
  const global = numbersOf(hf.num_hidden_layers).filter(
    (i) => listed.includes(i) || (every > 0 && (i + 1) % every === 0),
  );
  const isConsistent =
    !perLayer ||
    String(
      Object.keys(perLayer)
        .map(Number)
        .sort((a, b) => a - b),
    ) === String(global);
  expect(isConsistent, `${NAME} whose per_layer_config lists other layers than those without a window`);
  const defaults = perLayer ? hf : GLOBAL;
  return {
    global_head_dim: globalValue(hf, 'global_head_dim', 'head_dim') ?? defaults.head_dim,
    global_kv_heads:
      globalValue(hf, 'num_global_key_value_heads', 'num_key_value_heads') ?? defaults.num_key_value_heads,
  };
}

/** @type {Family} */
export const embeddingGemma2 = {
  ...gemma4,
  rotatesParts: false,
  arch: 'other',
  outer: {
    embed_tokens: 'wte',
    'ple.per_layer_model_projection': 'embed.project',
    'ple.per_layer_projection_norm': 'embed.norm',
    norm: 'ln_f',
    embedding_projection: 'pooled.dense1',
  },
  modules: {
    ...LAYER_MODULES,
    'ple_block.per_layer_input_gate': 'embed.gate',
    'ple_block.per_layer_projection': 'embed.out',
    'ple_block.post_per_layer_input_norm': 'embed.post',
  },
  // config.json omits values that are the same as in the published model.
  defaults: {
    vocab_size: 262144,
    hidden_size: 512,
    intermediate_size: 2048,
    num_hidden_layers: 24,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    head_dim: 256,
    max_position_embeddings: 262144,
    sliding_window: 512,
    hidden_size_per_layer_input: 512,
    embedding_dim: 768,
  },
  config: (hf) => {
    const [theta, localTheta] = [thetaOf(hf, 'full_attention', 1e6), thetaOf(hf, 'sliding_attention', 10000)];
    const window = windowOf(hf);
    // All dimensions of a head are rotated, without scaling.
    const { rope_parameters: _, rope_scaling: __, partial_rotary_factor: ___, ...sizes } = hf;
    return {
      ...sizesOf({ ...sizes, rope_theta: theta }),
      ...window,
      ...LAYERS,
      ...ENCODER,
      norm: 'rms',
      norm_eps: hf.rms_norm_eps ?? 1e-6,
      activation: activationOf(hf.hidden_activation ?? 'gelu_pytorch_tanh'),
      gated: true,
      embed_scale: hf.hidden_size ** 0.5,
      local_theta: localTheta,
      ...globalHeads(hf, window),
      layer_embed: hf.hidden_size_per_layer_input,
      layer_embed_projected: true,
      dense1: hf.embedding_dim,
      pooling: 'mean',
    };
  },
  tables: () => ({}),
  gguf: {
    'gemma-embedding2': {
      outer: {
        token_embd: 'wte',
        per_layer_model_proj: 'embed.project',
        per_layer_proj_norm: 'embed.norm',
        output_norm: 'ln_f',
        output: 'pooled.dense1',
      },
      modules: ggufLayerModules,
      config: (facts) => {
        const { global: _, ...config } = ggufLayers(facts, NAME);
        return {
          ...config,
          ...ENCODER,
          window: bothSides(facts.get('attention.sliding_window')),
          layer_embed: facts.get('embedding_length_per_layer_input'),
          layer_embed_projected: true,
          dense1: facts.dims('output.weight')[0],
        };
      },
    },
  },
};
