/** A GGUF file as the description of a model that runs (plan/manifest.js): what its tensors are, and where they lie. */
import { tokenizerFromGguf } from './tokenizer.js';
import { ROWS, weightBytes } from '../bq4/weight-types.js';
import { matrixOf } from '../bq4/write-v2.js';
import { BqError } from '../../shared/errors.js';
import { readHeader } from './header.js';
import { readRange } from '../../storage/sources/read.js';
import { STRIDE } from '../../storage/sources/split.js';
import { ARCHITECTURES, tablesOf } from './architectures.js';
import { translated, typeName, typeOf } from './types.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { Architecture, GgufFacts } from './architectures.js' */
/** @import { GgufHeader } from './header.js' */

/** Characters of a message. */
const LONGEST = 400;
/** Bytes of a part that are read first. */
const FIRST = 65536;

/** @param {unknown} value */
const textOf = (value) => (typeof value === 'string' ? value : '');

/** The row of the file's architecture. UNSUPPORTED. @param {Record<string, any>} metadata @returns {Architecture} */
function architectureOf(metadata) {
  const name = metadata['general.architecture'];
  if (typeof name !== 'string')
    throw new BqError('FORMAT', 'the GGUF file does not say which architecture it is of', {
      hint: 'it may be no model: a tokenizer alone, an adapter, a part',
    });
  if (!Object.hasOwn(ARCHITECTURES, name))
    throw new BqError('UNSUPPORTED', `the GGUF file is of the architecture "${name}"`, {
      hint: `${name === 'clip' ? 'this is what sees of a model (mmproj), its language model is another file; ' : ''}run are ${Object.keys(ARCHITECTURES).join(', ')}`,
    });
  return ARCHITECTURES[name];
}

/** @param {Pick<GgufHeader, 'metadata' | 'tensors'>} header @returns {GgufFacts} */
function factsOf({ metadata, tensors }) {
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  return {
    get(key, otherwise) {
      const full = `${metadata['general.architecture']}.${key}`;
      const value = metadata[full] ?? otherwise;
      if (value === undefined)
        throw new BqError('FORMAT', `the GGUF file lacks "${full}"`, {
          hint: 'the GGUF file is incomplete: fetch it again or convert it anew',
        });
      return value;
    },
    has: (name) => byName.has(name),
    dims(name) {
      const tensor = byName.get(name);
      if (!tensor)
        throw new BqError('SHAPE', `tensor "${name}" is missing`, {
          hint: 'the GGUF file is incomplete: fetch it again or convert it anew',
        });
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
  throw new BqError(
    'UNSUPPORTED',
    `tensor "${name}" belongs to no model of this architecture that is computed so far`,
    { offset: at, hint: 'this variant is not computed so far' },
  );
}

/** @param {GgufHeader} header @param {Architecture} architecture @param {GgufFacts} facts */
function listedTensors({ tensors }, architecture, facts) {
  const modules = architecture.modules(facts);
  return tensors.flatMap((tensor) => {
    const name = ourName(architecture, modules, tensor);
    if (!name) return [];
    const type = typeOf(tensor);
    const { rows, cols } = matrixOf(tensor.dims);
    if (cols % type.block)
      throw new BqError('FORMAT', `tensor "${tensor.name}" has rows of ${cols}, no whole blocks of ${type.block}`, {
        offset: tensor.at,
      });
    // Norms with weights for each head are a row per head there, one vector here; so are taps of convolutions, by channel.
    const row = name.endsWith('.switch.weight') ? [1, cols] : tensor.dims; // a vector in some files
    const dims = /(_norm|conv\.taps)\.weight$/.test(name) ? [rows * cols] : row;
    if (dims.length === 1 && translated(type))
      throw new BqError('UNSUPPORTED', `tensor "${tensor.name}" is a vector, stored as ${typeName(tensor.type)}`, {
        offset: tensor.at,
        hint: 'vectors are read as F32, F16 and BF16',
      });
    return [{ name, type, layout: ROWS, dims, offset: tensor.offset, bytes: weightBytes(type, ROWS, rows, cols) }];
  });
}

/**
 * The header of a file, or that of the first of several with the tensors of all. FORMAT: parts are missing.
 * @param {ByteSource} file @param {Uint8Array} head @param {AbortSignal} [signal]
 */
export async function readParts(file, head, signal) {
  const parts = file.parts ?? [file];
  const header = await readHeader(parts[0], head, signal);
  const count = header.metadata['split.count'] ?? 1;
  if (count > 1 && parts.length !== count)
    throw new BqError('FORMAT', `${file.name} is one of ${count} parts of a model, ${parts.length} given`, {
      hint: 'name the first (…-00001-of-0000N.gguf, the others beside it), or give all of them as a list',
    });
  for (const [i, part] of parts.entries()) {
    if (!i) continue;
    const first = await readRange(part, 0, FIRST, signal);
    if (String.fromCharCode(...first.subarray(0, 4)) !== 'GGUF')
      throw new BqError('NOT_A_MODEL', `${part.name} is no part of a GGUF file`, { offset: 0 });
    const { metadata, tensors } = await readHeader(part, first, signal);
    if (metadata['split.no'] !== undefined && metadata['split.no'] !== i)
      throw new BqError('FORMAT', `${part.name} is part ${metadata['split.no'] + 1}, not ${i + 1}`, {
        hint: 'give the parts in their order',
      });
    header.tensors.push(...tensors.map((tensor) => ({ ...tensor, offset: tensor.offset + i * STRIDE })));
  }
  return header;
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
  try {
    return await describe(file, head, signal);
  } catch (error) {
    // What a file calls things may be as long as the file.
    if (!(error instanceof BqError) || error.message.length <= LONGEST) throw error;
    throw new BqError(error.code, `${error.message.slice(0, LONGEST)}…`, {
      offset: error.offset,
      hint: error.hint,
      details: error.details,
    });
  }
}

/** @param {ByteSource} file @param {Uint8Array} head @param {AbortSignal} [signal] */
async function describe(file, head, signal) {
  const header = await readParts(file, head, signal);
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
