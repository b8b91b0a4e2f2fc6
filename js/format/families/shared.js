/**
 * The type of a family's row, and functions for rows: sizes, activations, windows, splitting tensors, LLaMA's names of
 * tensors.
 */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { pick, range } from '../bq4/tensor-views.js';
import { eachLayer, numbersOf, someLayers } from './layers.js';
import { ropeOf } from './rope.js';

/** @import { LabelLayers } from './labels.js' */
/** @typedef {import('../checkpoint-tensors.js').InTensor} InTensor */

/**
 * Splits a fused tensor into tensors of canonical modules.
 * @typedef {(tensor: InTensor, config: Record<string, any>) => [string, InTensor][]} Split
 */

/**
 * @typedef {object} Family
 * @property {string} arch  the configuration's `arch`: a name of shared/names.js, or "other"
 * @property {(hf: Record<string, any>) => Record<string, any>} config  converts a config.json to a model configuration,
 *   without `arch`
 * @property {Record<string, any>} [defaults]  values of keys that config.json files of this family omit
 * @property {boolean} [rotatesParts]  whether config.json may specify that a part of each head is rotated
 *   (partial_rotary_factor). In transformers such a key has no effect, or fails, in other families
 * @property {string} prefix   prefix that tensors' names may have
 * @property {string} layers   text before the number of a layer in tensors' names
 * @property {Record<string, string>} outer  canonical names of the modules outside the layers
 * @property {Record<string, string | Split>} modules  canonical names of a layer's modules
 * @property {RegExp} [unread]  names of tensors that are not needed, such as computed tables
 * @property {(name: string) => 'weight' | 'bias'} [ending]  returns the canonical ending of a tensor whose name has
 *   none; default: "weight"
 * @property {(hf: Record<string, any>, config: Record<string, any>) => LabelLayers | null} [labels]  returns the
 *   classifier of a checkpoint; null if it has none
 * @property {(name: string, tensor: InTensor, hf: Record<string, any>) => InTensor} [change]  converts each tensor;
 *   `name`: its canonical name; `hf`: config.json with the defaults
 * @property {(hf: Record<string, any>, config: Record<string, any>) => Record<string, Float32Array>} [tables]  returns
 *   the tensors that a model needs in addition to those of its checkpoint; default: ropeTables (rope.js)
 * @property {Record<string, import('./gguf.js').GgufRow>} [gguf]  rows for GGUF files of this family by
 *   general.architecture
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

/** Returns the configuration's name of an activation. Throws UNSUPPORTED. @param {string} name  name in config.json */
export function activationOf(name) {
  const activation = Object.hasOwn(ACTIVATIONS, name) && ACTIVATIONS[name];
  if (!activation)
    throw new BqError('UNSUPPORTED', `unsupported activation ${shown(name)}`, {
      hint: `expected one of ${Object.keys(ACTIVATIONS).join(', ')}`,
    });
  return activation;
}

/**
 * Throws UNSUPPORTED unless a condition is true.
 * @param {boolean} isSupported @param {string} variant  the unsupported variant: message of the error
 */
export function expect(isSupported, variant) {
  if (!isSupported)
    throw new BqError('UNSUPPORTED', variant, { hint: 'this variant of the architecture is not supported yet' });
}

/** Values of layer_types: global attention, sliding window. */
const ATTENTION_TYPES = ['full_attention', 'sliding_attention'];

/**
 * Returns the type of each layer. Throws FORMAT, UNSUPPORTED.
 * @param {Record<string, any>} hf
 * @param {readonly string[]} supported
 * @param {(layer: number) => string} typeOf  used if config.json has no list of layers: returns the type of a layer
 * @returns {string[]}
 */
export function layerTypes(hf, supported, typeOf) {
  const layers = numbersOf(hf.num_hidden_layers);
  const types = eachLayer(hf.layer_types, layers.length, 'layer_types') ?? layers.map(typeOf);
  const unsupported = types.find((type) => !supported.includes(type));
  expect(unsupported === undefined, `layers of type "${unsupported}"`);
  return types;
}

/**
 * Returns for each layer whether it has global attention; null if config.json has no such list.
 * @param {Record<string, any>} hf
 */
function globalOf(hf) {
  const kinds = eachLayer(hf.layer_types, hf.num_hidden_layers, 'layer_types');
  const unsupported = kinds?.find((kind) => !ATTENTION_TYPES.includes(kind));
  expect(!unsupported, `layers of type "${unsupported}"`);
  return kinds && kinds.map((kind) => kind === 'full_attention');
}

/**
 * Returns the keys of the configuration for layers with sliding-window attention.
 * @param {Record<string, any>} hf
 * @param {number} every  used if config.json has no list of layers: layers whose number (from 1) is a multiple of it
 *   have global attention; 0 if no layer has
 */
export function windowOf(hf, every) {
  const window = hf.sliding_window ?? 0;
  const global = globalOf(hf);
  if (!window || global?.every(Boolean) || (!global && every === 1)) return {};
  return { window, ...(global ? someLayers(global, 'global_every', 'global_layers') : { global_every: every }) };
}

/**
 * Like windowOf, with another default.
 * @param {Record<string, any>} hf
 * @param {(layer: number) => boolean} isLocal  used if config.json has no list of layers: returns whether a layer has a
 *   window
 */
export function listedWindow(hf, isLocal) {
  const kinds = numbersOf(hf.num_hidden_layers).map((i) => ATTENTION_TYPES[Number(isLocal(i))]);
  return windowOf({ ...hf, layer_types: hf.layer_types?.length ? hf.layer_types : kinds }, 0);
}

/**
 * Returns the sizes and the rotary positions, for config.json files with the most common keys.
 * @param {Record<string, any>} hf @param {number} [theta]  default base of rotary positions
 */
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
 * Returns the keys that GPT-like families share: layer norms, an MLP without gates, usually a tied LM head.
 * @param {Record<string, any>} hf @param {string} activation
 * @param {boolean} [tied]  used if config.json has no tie_word_embeddings
 */
export const gptOf = (hf, activation, tied = true) => ({
  norm: 'layer',
  norm_eps: hf.layer_norm_epsilon ?? hf.layer_norm_eps ?? hf.norm_epsilon ?? 1e-5,
  activation: activationOf(activation),
  gated: false,
  tied: hf.tie_word_embeddings ?? tied,
});

/**
 * Returns the rows of q, k or v in a fused tensor that has, for each head, the rows of q, then of k, then of v.
 * @param {number} index  0: q, 1: k, 2: v @param {Record<string, any>} config
 */
export function headRows(index, { heads, head_dim: dim }) {
  return Array.from({ length: heads }, (_, h) => range((3 * h + index) * dim, dim)).flat();
}

export const QKV = ['attn.q', 'attn.k', 'attn.v'];

/**
 * Splits a fused tensor that has, for each KV head, the rows of its queries, then of its key, then of its value.
 * @type {Split}
 */
export const splitByGroups = (tensor, { heads, kv_heads: groups, head_dim: dim }) => {
  const groupHeads = heads / groups + 2;
  /** @param {number} from @param {number} count  number of heads in each group */
  const rows = (from, count) =>
    pick(tensor, Array.from({ length: groups }, (_, g) => range((g * groupHeads + from) * dim, count * dim)).flat());
  return [
    [QKV[0], rows(0, groupHeads - 2)],
    [QKV[1], rows(groupHeads - 2, 1)],
    [QKV[2], rows(groupHeads - 1, 1)],
  ];
};

/**
 * Returns a function that splits a tensor into consecutive parts.
 * @param {string[]} names  canonical names of the parts
 * @param {(config: Record<string, any>) => number[]} sizes  returns the numbers of rows of the parts
 * @returns {Split}
 */
export const splitInto = (names, sizes) => (tensor, config) => {
  let from = 0;
  return sizes(config).map((size, i) => [names[i], pick(tensor, range((from += size) - size, size))]);
};

/**
 * Returns weights of 1 for the norms of a model whose norms have no weights, since a .bq4 file has weights.
 * @param {Record<string, any>} config
 */
export function normTables({ layers, hidden }) {
  const names = [...numbersOf(layers).flatMap((i) => [`h.${i}.ln1.weight`, `h.${i}.ln2.weight`]), 'ln_f.weight'];
  return Object.fromEntries(names.map((name) => [name, new Float32Array(hidden).fill(1)]));
}

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
