/** Reads LoRA adapters in GGUF files that llama.cpp's convert_lora_to_gguf.py has written. */
import { DTYPES, floatRows } from '../checkpoint-tensors.js';
import { pick, range } from '../bq4/tensor-views.js';
import { GGUF_ARCHITECTURES } from '../families/index.js';
import { typeName } from '../gguf/types.js';
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { readHeader } from '../gguf/header.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { GgufTensor } from '../gguf/header.js' */
/** @import { Adapter, Pair } from './index.js' */

const HALF = /^(.+)\.weight\.lora_([ab])$/;

/**
 * Fused modules: for each, the canonical modules in it and their numbers of rows.
 * @type {Record<string, (config: Record<string, any>) => [string, number][]>}
 */
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

/**
 * Checks that the file is an adapter for this model; returns the row of its architecture. Throws FORMAT, UNSUPPORTED,
 * SHAPE.
 * @param {Record<string, any>} metadata @param {Record<string, any>} config  configuration of the model
 */
function checkKind(metadata, config) {
  const [kind, type, arch] = ['general.type', 'adapter.type', 'general.architecture'].map((key) => metadata[key]);
  if (kind !== 'adapter')
    throw new BqError('FORMAT', `the GGUF file is not an adapter: general.type is ${shown(kind)}`, {
      hint: 'load a model with load()',
    });
  if (type !== 'lora')
    throw new BqError('UNSUPPORTED', `the GGUF file is an adapter of type ${shown(type)}; expected "lora"`);
  const architecture = Object.hasOwn(GGUF_ARCHITECTURES, arch ?? '') ? GGUF_ARCHITECTURES[arch] : null;
  if (!architecture?.archs.has(config.arch))
    throw new BqError(
      'SHAPE',
      `the adapter is for models of the architecture ${shown(arch)}; this model is of "${config.arch}"`,
    );
  if (metadata['adapter.alora.invocation_tokens'])
    throw new BqError('UNSUPPORTED', 'the adapter is activated by certain tokens (aLoRA)');
  return architecture;
}

/** Throws TRUNCATED, UNSUPPORTED. @param {ByteSource} file @param {GgufTensor} tensor */
function floatsOf(file, { name, dims, type, offset, at }) {
  const dtype = typeName(type);
  if (!Object.hasOwn(DTYPES, dtype))
    throw new BqError('UNSUPPORTED', `tensor "${name}" of the adapter has the unsupported type ${dtype}`, {
      offset: at,
      hint: `expected one of ${Object.keys(DTYPES).join(', ')}`,
    });
  const end = offset + dims.reduce((product, dim) => product * dim, DTYPES[dtype]);
  if (file.size >= 0 && end > file.size)
    throw new BqError('TRUNCATED', `tensor "${name}" ends at byte ${end}, but ${file.name} has ${file.size} bytes`, {
      offset: at,
    });
  return floatRows(file, offset, dtype, dims);
}

/**
 * Returns the matrices A and B of each module. Throws UNSUPPORTED for other tensors, SHAPE for a missing matrix.
 * @param {ByteSource} file @param {GgufTensor[]} tensors @returns {{ module: string, a: GgufTensor, b: GgufTensor }[]}
 */
function halvesOf(file, tensors) {
  /** @type {Map<string, { a?: GgufTensor, b?: GgufTensor }>} */
  const modules = new Map();
  for (const tensor of tensors) {
    const [, module, half] = HALF.exec(tensor.name) ?? [];
    if (!module || tensor.dims.length !== 2)
      throw new BqError('UNSUPPORTED', `tensor "${tensor.name}" of ${file.name} is not a LoRA matrix A or B`, {
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
 * Reads an adapter. Throws FORMAT, TRUNCATED, UNSUPPORTED, SHAPE.
 * @param {ByteSource} file
 * @param {Uint8Array} head  the beginning of the file
 * @param {Record<string, any>} config  configuration of the model
 * @param {AbortSignal} [signal]
 * @returns {Promise<Adapter>}
 */
export async function readGguf(file, head, config, signal) {
  const { metadata, tensors } = await readHeader(file, head, signal);
  const architecture = checkKind(metadata, config);
  const alpha = metadata['adapter.lora.alpha'];
  if (typeof alpha !== 'number') throw new BqError('FORMAT', 'the GGUF adapter has no "adapter.lora.alpha"');
  const experts = config.experts ?? 0;
  const modules = architecture.modules({
    get: (key, otherwise) => (key === 'expert_count' ? experts : otherwise),
    has: () => false,
    dims: () => [],
  });
  const list = halvesOf(file, tensors).flatMap((halves) => {
    const { module: storedName } = halves;
    const [, layer, part] = /^blk\.(0|[1-9]\d{0,4})\.(.+)$/.exec(storedName) ?? [];
    if (!part || !Object.hasOwn(modules, part))
      throw new BqError('UNSUPPORTED', `the adapter changes "${storedName}", which is not supported`, {
        offset: halves.a.at,
      });
    const [a, b] = [floatsOf(file, halves.a), floatsOf(file, halves.b)];
    // As in llama.cpp, an alpha of 0 means a scale of 1.
    const scale = alpha ? alpha / b.dims[1] : 1;
    const fused = Object.hasOwn(FUSED, modules[part]) ? FUSED[modules[part]](config) : null;
    let from = 0;
    if (fused && b.dims[0] !== fused.reduce((sum, [, rows]) => sum + rows, 0))
      throw new BqError(
        'SHAPE',
        `the adapter's "${storedName}" has ${b.dims[0]} rows; the model has ${fused.reduce((sum, [, rows]) => sum + rows, 0)}`,
      );
    return (fused ?? [[modules[part], b.dims[0]]]).map(
      ([name, rows]) =>
        /** @type {Pair} */ ({
          name: `h.${layer}.${name}.weight`,
          storedName,
          a,
          b: fused ? pick(b, range((from += rows) - rows, rows)) : b,
          scale,
        }),
    );
  });
  return { format: 'gguf', ropePairs: architecture.ropePairs, pairs: list };
}
