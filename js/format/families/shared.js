/** What families have in common (index.js): the kinds of a row, sizes, activations, windows, and LLaMA's names. */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { pick, range } from '../bq4/tensor-views.js';
import { eachLayer, numbersOf, someLayers } from './layers.js';
import { ropeOf } from './rope.js';

/** @typedef {import('../checkpoint-tensors.js').InTensor} InTensor */

/**
 * Of a module with several tensors in one: our modules with theirs.
 * @typedef {(tensor: InTensor, config: Record<string, any>) => [string, InTensor][]} Split
 */

/**
 * @typedef {object} Family
 * @property {(hf: Record<string, any>) => Record<string, any>} config
 * @property {Record<string, any>} [defaults]  keys of config.json that files of this family leave out
 * @property {string} prefix   that names may begin with
 * @property {string} layers   what stands before a layer's number
 * @property {Record<string, string>} outer  modules outside of the layers
 * @property {Record<string, string | Split>} modules  of a layer
 * @property {RegExp} [unread]  names of tables that are computed, not learned
 * @property {(name: string, tensor: InTensor) => InTensor} [change]  of any tensor, by our name
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
};

/** @param {string} name */
export function activationOf(name) {
  const activation = Object.hasOwn(ACTIVATIONS, name) && ACTIVATIONS[name];
  if (!activation)
    throw new BqError('UNSUPPORTED', `the activation is ${shown(name)}`, {
      hint: `one of ${Object.keys(ACTIVATIONS).join(', ')}`,
    });
  return activation;
}

/** @param {boolean} fine @param {string} what */
export function expect(fine, what) {
  if (!fine) throw new BqError('UNSUPPORTED', what, { hint: 'this variant is not computed so far' });
}

const KINDS = ['full_attention', 'sliding_attention'];

/** Which layers see a window only, where config.json lists them; null: it doesn't. @param {Record<string, any>} hf */
function globalOf(hf) {
  const kinds = eachLayer(hf.layer_types, hf.num_hidden_layers, 'layer_types');
  const odd = kinds?.find((kind) => !KINDS.includes(kind));
  expect(!odd, `layers are of type "${odd}"`);
  return kinds && kinds.map((kind) => kind === 'full_attention');
}

/** Which layers see a window only: every so many-th one sees all. @param {Record<string, any>} hf @param {number} every  by default; 0: none does */
export function windowOf(hf, every) {
  const window = hf.sliding_window ?? 0;
  const global = globalOf(hf);
  if (!window || global?.every(Boolean) || (!global && every === 1)) return {};
  return { window, ...(global ? someLayers(global, 'global_every', 'global_layers') : { global_every: every }) };
}

/** The same of families that say which layers see a window, where config.json doesn't list them. @param {Record<string, any>} hf @param {(layer: number) => boolean} local */
export function listedWindow(hf, local) {
  const kinds = numbersOf(hf.num_hidden_layers).map((i) => KINDS[Number(local(i))]);
  return windowOf({ ...hf, layer_types: hf.layer_types?.length ? hf.layer_types : kinds }, 0);
}

/** What most families call these. @param {Record<string, any>} hf @param {number} [theta]  of the rotation, by default */
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
 * What GPT-2 and those after it have alike: norms by mean and size, an MLP without gates, the embedding as head.
 * @param {Record<string, any>} hf @param {string} activation @param {boolean} [tied]  by default
 */
export const gptOf = (hf, activation, tied = true) => ({
  norm: 'layer',
  norm_eps: hf.layer_norm_epsilon ?? hf.layer_norm_eps ?? hf.norm_epsilon ?? 1e-5,
  activation: activationOf(activation),
  gated: false,
  tied: hf.tie_word_embeddings ?? tied,
});

/** Rows of q, k or v in a tensor that has these head by head. @param {number} which @param {Record<string, any>} config */
export function headRows(which, { heads, head_dim: dim }) {
  return Array.from({ length: heads }, (_, h) => range((3 * h + which) * dim, dim)).flat();
}

export const QKV = ['attn.q', 'attn.k', 'attn.v'];

/** Rows one after the other, in parts of these sizes. @param {string[]} names @param {(config: Record<string, any>) => number[]} sizes @returns {Split} */
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
