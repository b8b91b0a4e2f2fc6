/**
 * BitNet b1.58: LLaMA with norms before the last product of attention and of the MLP. The matrices of layers are
 * ternary.
 */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { GGUF_MODULES, ggufRms } from './gguf.js';
import { llama } from './llama.js';
import { LLAMA_MODULES, expect, sizesOf } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

/** The configuration's activations by GGUF's names. @type {Record<string, string>} */
const GGUF_ACTIVATIONS = { silu: 'silu', relu2: 'relu2' };

/**
 * Returns the configuration's name of an activation. Throws UNSUPPORTED.
 * @param {unknown} name  name in the GGUF file
 */
function ggufActivation(name) {
  if (typeof name === 'string' && Object.hasOwn(GGUF_ACTIVATIONS, name)) return GGUF_ACTIVATIONS[name];
  throw new BqError('UNSUPPORTED', `bitnet.hidden_activation is ${shown(name)}, which is not supported`, {
    hint: `expected one of ${Object.keys(GGUF_ACTIVATIONS).join(', ')}`,
  });
}

/** @type {Family} */
export const bitnet = {
  ...llama,
  arch: 'other',
  labels: undefined,
  modules: {
    ...LLAMA_MODULES,
    'self_attn.attn_sub_norm': 'attn.sub_norm',
    'mlp.ffn_sub_norm': 'mlp.sub_norm',
  },
  // config.json omits values that are the same as in the published model.
  defaults: {
    vocab_size: 128256,
    hidden_size: 2560,
    intermediate_size: 6912,
    num_hidden_layers: 30,
    num_attention_heads: 20,
    num_key_value_heads: 5,
    hidden_act: 'relu2',
    max_position_embeddings: 2048,
    rms_norm_eps: 1e-5,
  },
  config: (hf) => ({ ...llama.config(hf), ...sizesOf(hf, 500000), sub_norms: true }),
  gguf: {
    bitnet: {
      modules: () => ({ ...GGUF_MODULES, attn_sub_norm: 'attn.sub_norm', ffn_sub_norm: 'mlp.sub_norm' }),
      config: (facts) => ({
        // Files without the key are older than BitNet's models with squared ReLU.
        ...ggufRms(facts, ggufActivation(facts.get('hidden_activation', 'silu'))),
        sub_norms: true,
      }),
    },
  },
};

/**
 * Storage of ternary matrices in a checkpoint of transformers (quantization_config of its config.json).
 * @typedef {object} TernaryWeights
 * @property {boolean} packed   whether a byte has four weights; otherwise the weights are floats, which are made
 *   ternary when they are read
 * @property {boolean} divides  whether results are divided by weight_scale; otherwise they are multiplied by it
 */

/**
 * Returns the storage of ternary matrices; null if the checkpoint has none. Throws UNSUPPORTED.
 * @param {Record<string, any>} hf  config.json @returns {TernaryWeights | null}
 */
export function ternaryWeights({ model_type: type, quantization_config: quantization }) {
  if (quantization?.quant_method !== 'bitnet') return null;
  const { linear_class: linear = 'bitlinear', quantization_mode: mode = 'offline' } = quantization;
  const others = [quantization.modules_to_not_convert ?? []].flat().find((name) => name !== 'lm_head');
  expect(type === 'bitnet', `quantization_config "bitnet" in a model of type ${shown(type)}`);
  expect(!quantization.use_rms_norm, 'BitNet with norms of all products (use_rms_norm)');
  expect(others === undefined, `BitNet with ${shown(others)} in modules_to_not_convert`);
  expect(['bitlinear', 'autobitlinear'].includes(linear), `BitNet with linear_class ${shown(linear)}`);
  expect(['online', 'offline'].includes(mode), `BitNet with quantization_mode ${shown(mode)}`);
  return { packed: linear === 'bitlinear' || mode === 'offline', divides: linear === 'bitlinear' };
}
