/** Hugging Face's LLaMA layout: its configuration and tensor names in ours. */
import { BqError } from '../shared/errors.js';

/** @type {Record<string, string>} */
const MODULES = {
  input_layernorm: 'ln1',
  'self_attn.q_proj': 'attn.q',
  'self_attn.k_proj': 'attn.k',
  'self_attn.v_proj': 'attn.v',
  'self_attn.o_proj': 'attn.o',
  post_attention_layernorm: 'ln2',
  'mlp.gate_proj': 'mlp.gate',
  'mlp.up_proj': 'mlp.up',
  'mlp.down_proj': 'mlp.down',
};

/** Tables that are computed, not learned. */
const BUFFER = /(^|\.)(rotary_emb\.inv_freq|attn\.bias|attn\.masked_bias)$/;

/**
 * The canonical name of a tensor; canonical names stay as they are; null for buffers that no reader needs.
 * UNSUPPORTED: a name that no LLaMA has.
 * @param {string} name
 * @returns {string | null}
 */
export function canonicalName(name) {
  if (BUFFER.test(name)) return null;
  if (/^(wte|wpe|ln_f|lm_head|h\.\d+\.(ln[12]|attn\.[qkvo]|mlp\.(gate|up|down)))\.(weight|bias)$/.test(name)) return name;
  const short = name.replace(/^model\./, '');
  if (short === 'embed_tokens.weight') return 'wte.weight';
  if (/^norm\.(weight|bias)$/.test(short)) return short.replace('norm', 'ln_f');
  const match = /^layers\.(\d+)\.(.+)\.(weight|bias)$/.exec(short);
  if (match && Object.hasOwn(MODULES, match[2])) return `h.${match[1]}.${MODULES[match[2]]}.${match[3]}`;
  throw new BqError('UNSUPPORTED', `tensor "${name}" belongs to no LLaMA model`, { hint: 'convert reads models of the LLaMA family and our own layout' });
}

/** @type {Record<string, string>} */
const ACTIVATIONS = { silu: 'silu', swish: 'silu', gelu_pytorch_tanh: 'gelu', gelu_new: 'gelu', relu: 'relu' };

/** @param {Record<string, any>} hf */
function ropeOf(hf) {
  const rope = hf.rope_parameters ?? {};
  const scaling = hf.rope_scaling ?? rope;
  const kind = scaling.rope_type ?? scaling.type ?? 'default';
  if (kind !== 'default') throw new BqError('UNSUPPORTED', `positions are scaled the "${kind}" way`, { hint: 'only plain RoPE is computed so far' });
  const part = hf.partial_rotary_factor ?? rope.partial_rotary_factor ?? 1;
  return { theta: hf.rope_theta ?? rope.rope_theta ?? 10000, part };
}

/**
 * Our configuration from a config.json: model_type "llama", or "bq4" for our own layout, which has our own keys.
 * UNSUPPORTED.
 * @param {Record<string, any>} hf
 * @returns {Record<string, any>}
 */
export function configOf(hf) {
  if (hf.model_type === 'bq4') {
    const { model_type: _, ...config } = hf;
    return config;
  }
  if (hf.model_type !== 'llama') throw new BqError('UNSUPPORTED', `config.json says model_type "${hf.model_type}"`, { hint: 'convert reads "llama" and our own "bq4"' });
  const { theta, part } = ropeOf(hf);
  const headDim = hf.head_dim ?? hf.hidden_size / hf.num_attention_heads;
  const activation = ACTIVATIONS[hf.hidden_act ?? 'silu'];
  if (!activation) throw new BqError('UNSUPPORTED', `the activation is "${hf.hidden_act}"`, { hint: `one of ${Object.keys(ACTIVATIONS).join(', ')}` });
  return {
    arch: 'llama', layers: hf.num_hidden_layers, hidden: hf.hidden_size, heads: hf.num_attention_heads,
    kv_heads: hf.num_key_value_heads ?? hf.num_attention_heads, head_dim: headDim, ffn: hf.intermediate_size, vocab: hf.vocab_size,
    context: hf.max_position_embeddings ?? 2048, norm: 'rms', norm_eps: hf.rms_norm_eps ?? 1e-6, rope_theta: theta,
    rope_pairs: 'half', rope_dim: Math.round(headDim * part), activation, gated: true, tied: hf.tie_word_embeddings ?? false,
  };
}

/** Ids that end generation: of generation_config.json, else config.json. @param {...(Record<string, any> | null)} configs @returns {number[]} */
export function endTokens(...configs) {
  const eos = configs.map((c) => c?.eos_token_id).find((id) => id !== undefined && id !== null);
  return eos === undefined ? [] : [eos].flat();
}
