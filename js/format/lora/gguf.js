/** Adapters as GGUF files, which llama.cpp makes of PEFT's. */
import { floatRows } from '../checkpoint-tensors.js';
import { pick, range } from '../bq4/tensor-views.js';
import { ARCHITECTURES } from '../gguf/architectures.js';
import { typeName } from '../gguf/types.js';
import { BqError } from '../../shared/errors.js';
import { readHeader } from '../gguf/header.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { GgufTensor } from '../gguf/header.js' */
/** @import { Adapter, Pair } from './index.js' */

/** Our `arch` of models that GGUF calls otherwise. @type {Record<string, string[]>} */
const OURS = { llama: ['llama', 'mistral', 'mixtral'], phi2: ['phi'], gptneox: ['neox'] };
/** Whose rows of q and k lie so that pairs of rotary positions are neighbours. */
const ADJACENT = ['llama', 'smollm3', 'granite'];
/** By GGUF's numbers. @type {Record<number, string>} */
const FLOATS = { 0: 'F32', 1: 'F16', 30: 'BF16' };
const BYTES = { F32: 4, F16: 2, BF16: 2 };
const HALF = /^(.+)\.weight\.lora_([ab])$/;

/** Modules of several of ours, and their rows. @type {Record<string, (config: Record<string, any>) => [string, number][]>} */
const FUSED = {
  'attn.qkv': (c) => [
    ['attn.q', c.heads * c.head_dim],
    ['attn.k', c.kv_heads * c.head_dim],
    ['attn.v', c.kv_heads * c.head_dim],
  ],
  'mlp.gate_up': (c) => [
    ['mlp.gate', c.ffn],
    ['mlp.up', c.ffn],
  ],
};

/** UNSUPPORTED, SHAPE. @param {Record<string, any>} metadata @param {Record<string, any>} config  of the model */
function checkKind(metadata, config) {
  const [kind, type, arch] = ['general.type', 'adapter.type', 'general.architecture'].map((key) => metadata[key]);
  if (kind !== 'adapter')
    throw new BqError('FORMAT', 'the GGUF file is no adapter', { hint: 'load a model with load()' });
  if (type !== 'lora') throw new BqError('UNSUPPORTED', `the GGUF file is an adapter of type "${type}", not "lora"`);
  if (typeof arch !== 'string' || !Object.hasOwn(ARCHITECTURES, arch) || !(OURS[arch] ?? [arch]).includes(config.arch))
    throw new BqError(
      'SHAPE',
      `the adapter is for models of the architecture "${arch}", this one is of "${config.arch}"`,
    );
  if (metadata['adapter.alora.invocation_tokens'])
    throw new BqError('UNSUPPORTED', 'the adapter begins to work at certain tokens (aLoRA)');
  return arch;
}

/** FORMAT, TRUNCATED, UNSUPPORTED. @param {ByteSource} file @param {GgufTensor} tensor */
function floatsOf(file, { name, dims, type, offset, at }) {
  const dtype = /** @type {keyof typeof BYTES | undefined} */ (FLOATS[type]);
  if (!dtype)
    throw new BqError('UNSUPPORTED', `tensor "${name}" is stored as ${typeName(type)}`, {
      offset: at,
      hint: 'of adapters F32, F16 and BF16 are read',
    });
  const end = offset + dims.reduce((product, dim) => product * dim, BYTES[dtype]);
  if (file.size >= 0 && end > file.size)
    throw new BqError('TRUNCATED', `tensor "${name}" would end at ${end}, ${file.name} has ${file.size} bytes`, {
      offset: at,
    });
  return floatRows(file, offset, dtype, dims);
}

/** @param {ByteSource} file @param {GgufTensor[]} tensors @returns {{ module: string, a: GgufTensor, b: GgufTensor }[]} */
function halvesOf(file, tensors) {
  /** @type {Map<string, { a?: GgufTensor, b?: GgufTensor }>} */
  const modules = new Map();
  for (const tensor of tensors) {
    const [, module, half] = HALF.exec(tensor.name) ?? [];
    if (!module || tensor.dims.length !== 2)
      throw new BqError('UNSUPPORTED', `tensor "${tensor.name}" of ${file.name} is no half of a LoRA`, {
        offset: tensor.at,
      });
    modules.set(module, { ...modules.get(module), [half]: tensor });
  }
  return [...modules].map(([module, { a, b }]) => {
    if (a && b) return { module, a, b };
    throw new BqError('SHAPE', `the adapter's tensor "${module}.weight.lora_${a ? 'b' : 'a'}" is missing`);
  });
}

/**
 * FORMAT, TRUNCATED, UNSUPPORTED, SHAPE.
 * @param {ByteSource} file
 * @param {Uint8Array} head  its first bytes
 * @param {Record<string, any>} config  of the model
 * @param {AbortSignal} [signal]
 * @returns {Promise<Adapter>}
 */
export async function readGguf(file, head, config, signal) {
  const { metadata, tensors } = await readHeader(file, head, signal);
  const arch = checkKind(metadata, config);
  const alpha = metadata['adapter.lora.alpha'];
  if (typeof alpha !== 'number') throw new BqError('FORMAT', 'the GGUF adapter has no "adapter.lora.alpha"');
  const experts = config.experts ?? 0;
  const modules = ARCHITECTURES[arch].modules({
    get: (key, otherwise) => (key === 'expert_count' ? experts : otherwise),
    has: () => false,
    dims: () => [],
  });
  const list = halvesOf(file, tensors).flatMap((halves) => {
    const { module: theirs } = halves;
    const [, layer, part] = /^blk\.(0|[1-9]\d{0,4})\.(.+)$/.exec(theirs) ?? [];
    if (!part || !Object.hasOwn(modules, part))
      throw new BqError('UNSUPPORTED', `the adapter changes "${theirs}"; adapters of such tensors are not computed`, {
        offset: halves.a.at,
      });
    const [a, b] = [floatsOf(file, halves.a), floatsOf(file, halves.b)];
    // As llama.cpp does: without alpha nothing is scaled.
    const scale = alpha ? alpha / b.dims[1] : 1;
    const fused = Object.hasOwn(FUSED, modules[part]) ? FUSED[modules[part]](config) : null;
    let from = 0;
    if (fused && b.dims[0] !== fused.reduce((sum, [, rows]) => sum + rows, 0))
      throw new BqError('SHAPE', `the adapter's "${theirs}" has ${b.dims[0]} rows, other than the model's`);
    return (fused ?? [[modules[part], b.dims[0]]]).map(
      ([name, rows]) =>
        /** @type {Pair} */ ({
          name: `h.${layer}.${name}.weight`,
          theirs,
          a,
          b: fused ? pick(b, range((from += rows) - rows, rows)) : b,
          scale,
        }),
    );
  });
  return { format: 'gguf', pairs: ADJACENT.includes(arch) ? 'adjacent' : 'half', list };
}
