/**
 * Reads PyTorch checkpoints of two training scripts, llama2.c and nanoGPT, whose checkpoints contain the configuration
 * (`model_args`).
 */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { pick, range } from '../bq4/tensor-views.js';
import { readTorch } from './read.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { InTensor } from '../checkpoint-tensors.js' */

/**
 * @typedef {object} Script
 * @property {string} sign      name of a tensor that identifies the script
 * @property {RegExp} layer     matches the names of layers' tensors; its groups are the number of the layer and the
 *   module
 * @property {Record<string, string>} names  canonical names by the script's names of modules
 * @property {RegExp} unread    matches the names of computed tables, which are ignored
 * @property {(args: Map<string, any>, dims: (name: string) => number[]) => Record<string, any>} config  returns the
 *   model's configuration
 */

/** @type {Script} */
const llama2c = {
  sign: 'tok_embeddings.weight',
  layer: /^layers\.(\d+)\.(.+)$/,
  names: {
    tok_embeddings: 'wte',
    norm: 'ln_f',
    output: 'lm_head',
    attention_norm: 'ln1',
    'attention.wq': 'attn.q',
    'attention.wk': 'attn.k',
    'attention.wv': 'attn.v',
    'attention.wo': 'attn.o',
    ffn_norm: 'ln2',
    'feed_forward.w1': 'mlp.gate',
    'feed_forward.w3': 'mlp.up',
    'feed_forward.w2': 'mlp.down',
  },
  unread: /(freqs_cos|freqs_sin|rope\.freqs|\.mask)$/,
  config: (args, dims) => ({
    arch: 'llama',
    layers: args.get('n_layers'),
    hidden: args.get('dim'),
    heads: args.get('n_heads'),
    kv_heads: args.get('n_kv_heads') ?? args.get('n_heads'),
    ffn: dims('layers.0.feed_forward.w1.weight')[0],
    vocab: dims('tok_embeddings.weight')[0],
    context: args.get('max_seq_len') ?? 2048,
    norm_eps: args.get('norm_eps') ?? 1e-5,
    rope_pairs: 'adjacent',
  }),
};

/** @type {Script} */
const nanogpt = {
  sign: 'transformer.wte.weight',
  layer: /^transformer\.h\.(\d+)\.(.+)$/,
  names: {
    'transformer.wte': 'wte',
    'transformer.wpe': 'wpe',
    'transformer.ln_f': 'ln_f',
    lm_head: 'lm_head',
    ln_1: 'ln1',
    ln_2: 'ln2',
    'attn.c_attn': 'attn.qkv',
    'attn.c_proj': 'attn.o',
    'mlp.c_fc': 'mlp.up',
    'mlp.c_proj': 'mlp.down',
  },
  unread: /\.attn\.(masked_)?bias$/,
  config: (args, dims) => ({
    arch: 'gpt2',
    layers: args.get('n_layer'),
    hidden: args.get('n_embd'),
    heads: args.get('n_head'),
    ffn: dims('transformer.h.0.mlp.c_fc.weight')[0],
    vocab: dims('transformer.wte.weight')[0],
    context: args.get('block_size'),
    norm: 'layer',
    norm_eps: 1e-5,
    position: 'learned',
    activation: 'gelu_erf',
    gated: false,
  }),
};

/**
 * Returns a tensor, or the parts of a fused one, with canonical names. Throws UNSUPPORTED.
 * @param {Script} script @param {string} name @param {InTensor} tensor @returns {[string, InTensor][]}
 */
function renamed(script, name, tensor) {
  const [, stem, part] = /^(.+)\.(weight|bias)$/.exec(name) ?? [];
  const [, layer, module] = (stem && script.layer.exec(stem)) || [];
  const key = module ?? stem;
  if (!key || !Object.hasOwn(script.names, key))
    throw new BqError('UNSUPPORTED', `unknown tensor "${name}"`, {
      hint: 'this may be a model of another family: put its config.json in the same folder',
    });
  const canonical = `${layer === undefined ? '' : `h.${layer}.`}${script.names[key]}`;
  if (!canonical.endsWith('attn.qkv')) return [[`${canonical}.${part}`, tensor]];
  const third = tensor.dims[0] / 3;
  return ['q', 'k', 'v'].map((letter, i) => [
    `${canonical.slice(0, -3)}${letter}.${part}`,
    pick(tensor, range(i * third, third)),
  ]);
}

/**
 * Reads a checkpoint that contains its configuration. Throws FORMAT, UNSUPPORTED, NOT_A_MODEL, TRUNCATED, SHAPE.
 * @param {ByteSource} file
 */
export async function readTorchModel(file) {
  const { tensors, value } = await readTorch(file);
  const script = [llama2c, nanogpt].find(({ sign }) => tensors.has(sign));
  const args = value instanceof Map ? value.get('model_args') : null;
  if (!script || !(args instanceof Map))
    throw new BqError('NOT_A_MODEL', `${file.name} does not contain its configuration`, {
      hint: 'put the config.json of its model in the same folder',
    });
  const dims = (/** @type {string} */ name) => {
    const found = tensors.get(name);
    if (!found) throw new BqError('SHAPE', `tensor "${name}" is missing`);
    return found.dims;
  };
  const nested = [...args].find(([, item]) => typeof item === 'object' && item !== null);
  if (nested)
    throw new BqError('FORMAT', `model_args of ${file.name} has ${shown(nested[1])} for ${shown(nested[0])}`, {
      hint: 'expected numbers, strings and booleans; or put the config.json of its model in the same folder',
    });
  const config = script.config(args, dims);
  const canonical = new Map(
    [...tensors].flatMap(([name, tensor]) =>
      !tensor || script.unread.test(name) ? [] : renamed(script, name, tensor),
    ),
  );
  const [head, embedding] = [tensors.get('output.weight') ?? tensors.get('lm_head.weight'), tensors.get(script.sign)];
  const tied = !head || (head.at !== undefined && head.at === embedding?.at);
  if (tied) canonical.delete('lm_head.weight');
  return { config: { ...config, tied }, tensors: canonical };
}
