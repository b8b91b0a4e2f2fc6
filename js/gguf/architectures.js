/**
 * The architectures of GGUF files that can be run: a row each, by general.architecture. A row says what its metadata means in
 * our configuration (docs/FORMAT.md, "CONF keys") and what its tensors are called in ours ("TENS"). No tensor is changed:
 * what lies differently than elsewhere (pairs of rotary positions, fused matrices) is said by the configuration or the name.
 */
import { BqError } from '../shared/errors.js';

/**
 * What a row may ask of a file.
 * @typedef {object} GgufFacts
 * @property {(key: string, otherwise?: any) => any} get  metadata of the architecture: "block_count" is "llama.block_count". FORMAT
 *   where there is none and no `otherwise`
 * @property {(name: string) => boolean} has  whether there is such a tensor, by GGUF's name
 * @property {(name: string) => number[]} dims  of a tensor, rows first. SHAPE where there is none
 */

/**
 * @typedef {object} Architecture
 * @property {(facts: GgufFacts) => Record<string, any>} config
 * @property {Record<string, string>} outer    modules outside of the layers: ours by GGUF's; a name with a dot is a whole tensor's
 * @property {Record<string, string>} modules  of a layer, behind "blk.N."
 * @property {RegExp} [unread]  names of tensors that nothing is computed with
 */

/** What most architectures call these. @param {GgufFacts} facts */
function sizesOf({ get, has, dims }) {
  const [hidden, heads] = [get('embedding_length'), get('attention.head_count')];
  const headDim = get('attention.key_length', hidden / heads);
  return {
    layers: get('block_count'), hidden, heads, kv_heads: get('attention.head_count_kv', heads), head_dim: headDim, ffn: get('feed_forward_length'),
    vocab: dims('token_embd.weight')[0], context: get('context_length'), tied: !has('output.weight'),
  };
}

/** @param {GgufFacts} facts @param {number} headDim */
function ropeOf({ get }, headDim) {
  const scaling = get('rope.scaling.type', 'none');
  if (scaling !== 'none') throw new BqError('UNSUPPORTED', `positions are scaled the "${scaling}" way`, { hint: 'this variant is not computed so far' });
  return { rope_theta: get('rope.freq_base', 10000), rope_dim: get('rope.dimension_count', headDim) };
}

const OUTER = { token_embd: 'wte', output_norm: 'ln_f', output: 'lm_head', 'rope_freqs.weight': 'rope.factors' };
const MODULES = {
  attn_norm: 'ln1', attn_q: 'attn.q', attn_k: 'attn.k', attn_v: 'attn.v', attn_output: 'attn.o',
  ffn_norm: 'ln2', ffn_gate: 'mlp.gate', ffn_up: 'mlp.up', ffn_down: 'mlp.down',
};

/** Rows of q and k lie so that pairs of rotary positions are neighbours. @type {Architecture} */
const llama = {
  outer: OUTER,
  modules: MODULES,
  unread: /\.(rope_freqs|attn_rot_embd)\.weight$/,
  config: (facts) => {
    const sizes = sizesOf(facts);
    return {
      arch: 'llama', ...sizes, ...ropeOf(facts, sizes.head_dim), rope_pairs: 'adjacent', norm: 'rms',
      norm_eps: facts.get('attention.layer_norm_rms_epsilon'), activation: 'silu', gated: true,
    };
  },
};

/** By general.architecture. @type {Record<string, Architecture>} */
export const ARCHITECTURES = { llama };
