/** A GGUF file as the description of a model that runs (plan/manifest.js): what its tensors are, and where they lie. */
import { tokenizerFromGguf } from '../convert/tokenizers/gguf-vocab.js';
import { ROWS, weightBytes } from '../convert/weights.js';
import { matrixOf } from '../convert/write/v2.js';
import { BqError } from '../shared/errors.js';
import { ARCHITECTURES, tablesOf } from './architectures.js';
import { readHeader } from './header.js';
import { typeOf } from './types.js';

/** @import { ByteSource } from '../sources/types.js' */
/** @import { Architecture, GgufFacts } from './architectures.js' */
/** @import { GgufHeader } from './header.js' */

/** @param {unknown} value */
const textOf = (value) => (typeof value === 'string' ? value : '');

/** The row of the file's architecture. UNSUPPORTED. @param {Record<string, any>} metadata @returns {Architecture} */
function architectureOf(metadata) {
  const name = metadata['general.architecture'];
  if (typeof name !== 'string') throw new BqError('FORMAT', 'the GGUF file does not say which architecture it is of', { hint: 'it may be no model: a tokenizer alone, an adapter, a part' });
  if (!Object.hasOwn(ARCHITECTURES, name))
    throw new BqError('UNSUPPORTED', `the GGUF file is of the architecture "${name}"`, { hint: `run are ${Object.keys(ARCHITECTURES).join(', ')}` });
  return ARCHITECTURES[name];
}

/** @param {Pick<GgufHeader, 'metadata' | 'tensors'>} header @returns {GgufFacts} */
function factsOf({ metadata, tensors }) {
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  return {
    get(key, otherwise) {
      const full = `${metadata['general.architecture']}.${key}`;
      const value = metadata[full] ?? otherwise;
      if (value === undefined) throw new BqError('FORMAT', `the GGUF file lacks "${full}"`, { hint: 'the GGUF file is incomplete: fetch it again or convert it anew' });
      return value;
    },
    has: (name) => byName.has(name),
    dims(name) {
      const tensor = byName.get(name);
      if (!tensor) throw new BqError('SHAPE', `tensor "${name}" is missing`, { hint: 'the GGUF file is incomplete: fetch it again or convert it anew' });
      return tensor.dims;
    },
  };
}

/** Our name of a tensor; null: nobody reads it. UNSUPPORTED. @param {Architecture} architecture @param {Record<string, string>} modules @param {{ name: string, at: number }} tensor */
function ourName({ outer, unread }, modules, { name, at }) {
  if (Object.hasOwn(outer, name)) return outer[name];
  const [, module, ending] = /^(.+)\.(weight|bias)$/.exec(name) ?? [];
  if (module && Object.hasOwn(outer, module)) return `${outer[module]}.${ending}`;
  const [, layer, part] = (module && /^blk\.(0|[1-9]\d{0,4})\.(.+)$/.exec(module)) || [];
  if (part && Object.hasOwn(modules, part)) return `h.${layer}.${modules[part]}.${ending}`;
  if (unread?.test(name)) return null;
  throw new BqError('UNSUPPORTED', `tensor "${name}" belongs to no model of this architecture that is computed so far`, { offset: at, hint: 'this variant is not computed so far' });
}

/** @param {GgufHeader} header @param {Architecture} architecture @param {GgufFacts} facts */
function listedTensors({ tensors }, architecture, facts) {
  const modules = architecture.modules(facts);
  return tensors.flatMap((tensor) => {
    const name = ourName(architecture, modules, tensor);
    if (!name) return [];
    const type = typeOf(tensor);
    const { rows, cols } = matrixOf(tensor.dims);
    if (cols % type.block) throw new BqError('FORMAT', `tensor "${tensor.name}" has rows of ${cols}, no whole blocks of ${type.block}`, { offset: tensor.at });
    // Norms with weights for each head are a row per head there, one vector here.
    const dims = name.endsWith('_norm.weight') ? [rows * cols] : tensor.dims;
    return [{ name, type, layout: ROWS, dims, offset: tensor.offset, bytes: weightBytes(type, ROWS, rows, cols) }];
  });
}

/** Our configuration alone. FORMAT, UNSUPPORTED, SHAPE. @param {Pick<GgufHeader, 'metadata' | 'tensors'>} header */
export const configOfGguf = ({ metadata, tensors }) => architectureOf(metadata).config(factsOf({ metadata, tensors }));

/**
 * Reads as much of the file's beginning as its header takes. FORMAT, TRUNCATED, UNSUPPORTED, SHAPE.
 * @param {ByteSource} file
 * @param {Uint8Array} head  its first bytes
 * @param {AbortSignal} [signal]
 */
export async function openGguf(file, head, signal) {
  const header = await readHeader(file, head, signal);
  const { metadata } = header;
  const architecture = architectureOf(metadata);
  const facts = factsOf(header);
  const config = architecture.config(facts);
  const tables = Object.entries(tablesOf(facts, config));
  return {
    header,
    config,
    tensors: listedTensors(header, architecture, facts),
    extra: tables.map(([name, values]) => ({ name, dims: [values.length], values: new Uint8Array(values.buffer) })),
    tokenizer: metadata['tokenizer.ggml.model'] === undefined ? null : tokenizerFromGguf(metadata),
    name: textOf(metadata['general.name']),
    license: textOf(metadata['general.license']),
    template: textOf(metadata['tokenizer.chat_template']),
  };
}
