/** The type of a family's row, and what rows share: sizes, activations, windows, split tensors, and LLaMA's names of tensors. */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { pick, range } from '../bq4/tensor-views.js';
import { eachLayer, numbersOf, someLayers } from './layers.js';
import { ropeOf } from './rope.js';

/** @typedef {import('../checkpoint-tensors.js').InTensor} InTensor */

/**
 * Splits a fused tensor into our modules.
 * @typedef {(tensor: InTensor, config: Record<string, any>) => [string, InTensor][]} Split
 */

/**
 * @typedef {object} Family
 * @property {string} arch  CONF's `arch`: a name of shared/names.js, or "other"
 * @property {(hf: Record<string, any>) => Record<string, any>} config  our configuration of a config.json, without arch
 * @property {Record<string, any>} [defaults]  values of keys that config.json files of this family omit
 * @property {string} prefix   optional prefix of tensors' names
 * @property {string} layers   what precedes the number of a layer in names
 * @property {Record<string, string>} outer  canonical names of the modules outside of the layers
 * @property {Record<string, string | Split>} modules  canonical names of a layer's modules
 * @property {RegExp} [unread]  names of tensors that are not needed, such as computed tables
 * @property {(name: string) => 'weight' | 'bias'} [ending]  what a tensor without an ending is of its module; default: the weight
 * @property {(hf: Record<string, any>, config: Record<string, any>) => import('./labels.js').LabelLayers | null} [labels]  the
 *   classifier of a checkpoint; null: it has none
 * @property {(name: string, tensor: InTensor, hf: Record<string, any>) => InTensor} [change]  applied to each tensor, by canonical name; hf: config.json with the defaults
 * @property {(hf: Record<string, any>, config: Record<string, any>) => Record<string, Float32Array>} [tables]  tensors that a model needs
 *   beside those of its checkpoint, in place of those of scaled positions (rope.js)
 * @property {Record<string, import('./gguf.js').GgufRow>} [gguf]  rows for GGUF files of this family by general.architecture
 */

/** @type {Record<string, string>} */
const ACTIVATIONS = {
  silu: 'silu',
  swish: 'silu',
  gelu_pytorch_tanh: 'gelu',
  gelu_new: 'gelu',
  gelu_fast: 'gelu',
  relu: 'relu',
  gelu: 'gelu_erf',
  relu2: 'relu2',
};

/** @param {string} name */
export function activationOf(name) {
  const activation = Object.hasOwn(ACTIVATIONS, name) && ACTIVATIONS[name];
  if (!activation)
    throw new BqError('UNSUPPORTED', `unsupported activation ${shown(name)}`, {
      hint: `expected one of ${Object.keys(ACTIVATIONS).join(', ')}`,
    });
  return activation;
}

/** @param {boolean} supported @param {string} what  the unsupported variant that was found */
export function expect(supported, what) {
  if (!supported)
    throw new BqError('UNSUPPORTED', what, { hint: 'this variant of the architecture is not supported yet' });
}

/** Values of layer_types: global attention, sliding window. */
const ATTENTION_TYPES = ['full_attention', 'sliding_attention'];

/** For each layer whether it has global attention, if config.json lists that; else null. @param {Record<string, any>} hf */
function globalOf(hf) {
  const kinds = eachLayer(hf.layer_types, hf.num_hidden_layers, 'layer_types');
  const unsupported = kinds?.find((kind) => !ATTENTION_TYPES.includes(kind));
  expect(!unsupported, `layers of type "${unsupported}"`);
  return kinds && kinds.map((kind) => kind === 'full_attention');
}

/** Layers with sliding-window attention. @param {Record<string, any>} hf @param {number} every  default: every layer whose number (from 1) it divides has global attention; 0: none has */
export function windowOf(hf, every) {
  const window = hf.sliding_window ?? 0;
  const global = globalOf(hf);
  if (!window || global?.every(Boolean) || (!global && every === 1)) return {};
  return { window, ...(global ? someLayers(global, 'global_every', 'global_layers') : { global_every: every }) };
}

/** The same with another default: `isLocal` tells which layers have a window if config.json doesn't list them. @param {Record<string, any>} hf @param {(layer: number) => boolean} isLocal */
export function listedWindow(hf, isLocal) {
  const kinds = numbersOf(hf.num_hidden_layers).map((i) => ATTENTION_TYPES[Number(isLocal(i))]);
  return windowOf({ ...hf, layer_types: hf.layer_types?.length ? hf.layer_types : kinds }, 0);
}

/** The sizes that most families name alike. @param {Record<string, any>} hf @param {number} [theta]  default base of rotary positions */
export function sizesOf(hf, theta) {
  const headDim = hf.head_dim ?? hf.hidden_size / hf.num_attention_heads;
  return {
    layers: hf.num_hidden_layers,
    hidden: hf.hidden_size,
    heads: hf.num_attention_heads,
    kv_heads: hf.num_key_value_heads ?? hf.num_attention_heads,
    head_dim: headDim,
    ffn: hf.intermediate_size,
    vocab: hf.vocab_size,
    context: hf.max_position_embeddings ?? 2048,
    ...ropeOf(hf, headDim, theta),
  };
}

/**
 * What GPT-like families share: layer norms, an MLP without gates, usually a tied LM head.
 * @param {Record<string, any>} hf @param {string} activation @param {boolean} [tied]  default
 */
export const gptOf = (hf, activation, tied = true) => ({
  norm: 'layer',
  norm_eps: hf.layer_norm_epsilon ?? hf.layer_norm_eps ?? hf.norm_epsilon ?? 1e-5,
  activation: activationOf(activation),
  gated: false,
  tied: hf.tie_word_embeddings ?? tied,
});

/** Rows of q (0), k (1) or v (2) in a fused tensor that has these three for each head. @param {number} which @param {Record<string, any>} config */
export function headRows(which, { heads, head_dim: dim }) {
  return Array.from({ length: heads }, (_, h) => range((3 * h + which) * dim, dim)).flat();
}

export const QKV = ['attn.q', 'attn.k', 'attn.v'];

/** Splits a fused tensor that has, for each KV head, the rows of its queries, then of its key, then of its value. @type {Split} */
export const splitByGroups = (tensor, { heads, kv_heads: groups, head_dim: dim }) => {
  const group = heads / groups + 2;
  /** @param {number} from @param {number} count  heads of each group */
  const rows = (from, count) =>
    pick(tensor, Array.from({ length: groups }, (_, g) => range((g * group + from) * dim, count * dim)).flat());
  return [
    [QKV[0], rows(0, group - 2)],
    [QKV[1], rows(group - 2, 1)],
    [QKV[2], rows(group - 1, 1)],
  ];
};

/** Splits a tensor into consecutive parts with these numbers of rows. @param {string[]} names @param {(config: Record<string, any>) => number[]} sizes @returns {Split} */
export const parts = (names, sizes) => (tensor, config) => {
  let from = 0;
  return sizes(config).map((size, i) => [names[i], pick(tensor, range((from += size) - size, size))]);
};

export const LLAMA_MODULES = {
  input_layernorm: 'ln1',
  post_attention_layernorm: 'ln2',
  'self_attn.q_proj': 'attn.q',
  'self_attn.k_proj': 'attn.k',
  'self_attn.v_proj': 'attn.v',
  'self_attn.o_proj': 'attn.o',
  'mlp.gate_proj': 'mlp.gate',
  'mlp.up_proj': 'mlp.up',
  'mlp.down_proj': 'mlp.down',
};
export const LLAMA_NAMES = {
  prefix: 'model.',
  layers: 'layers.',
  outer: { embed_tokens: 'wte', norm: 'ln_f', lm_head: 'lm_head' },
  unread: /\.rotary_emb\.inv_freq$/,
};
