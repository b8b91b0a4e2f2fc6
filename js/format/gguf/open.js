/**
 * Opens a GGUF file as a Description (bq4/manifest.js): its configuration, and the names, types and offsets of its
 * tensors.
 */
import { StringList } from './string-list.js';
import { tokenizerFromGguf } from './tokenizer.js';
import { ROWS, weightBytes } from '../bq4/weight-types.js';
import { matrixOf } from '../bq4/write-v2.js';
import { BqError } from '../../shared/errors.js';
import { readHeader } from './header.js';
import { checkMetadata } from './metadata-checks.js';
import { readRange } from '../../storage/sources/read.js';
import { commonNameOf, STRIDE } from '../../storage/sources/split.js';
import { metaOf, suppressedOf, unusedParts } from '../meta.js';
import { ggufTables } from '../families/gguf.js';
import { architectureHint, GGUF_ARCHITECTURES, REFUSED } from '../families/index.js';
import { isOfSharedKeys } from '../families/layers.js';
import { conversionOf, typeName, typeOf } from './types.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { GgufFacts } from '../families/gguf.js' */
/** @import { GgufArchitecture } from '../families/index.js' */
/** @import { GgufHeader } from './header.js' */

/** Limit of an error message in characters: a name from the file may be very long. */
const MAX_MESSAGE = 400;
/** Number of bytes to read first from the second and later parts of a split file. */
const FIRST_READ = 65536;

/** Hints for files with an unsupported architecture. @type {Record<string, string>} */
const ARCHITECTURE_HINTS = {
  ...REFUSED,
  clip: 'this is the vision encoder of a model (mmproj); load the file of its language model',
  'bitnet-b1.58':
    "this is a file of Microsoft's bitnet.cpp, with weights of its own type I2_S; convert the safetensors of the model",
};

/** Key of tokens that are never generated. */
const SUPPRESSED = 'tokenizer.ggml.suppress_tokens';

/** Names of a classifier's tensors. */
const GGUF_LABEL_TENSOR = /^cls\./;

/** @param {unknown} value */
const textOf = (value) => (typeof value === 'string' ? value : '');

/**
 * Returns the row of the file's architecture. Throws FORMAT, UNSUPPORTED.
 * @param {Record<string, any>} metadata @returns {GgufArchitecture}
 */
function architectureOf(metadata) {
  const name = metadata['general.architecture'];
  if (typeof name !== 'string')
    throw new BqError('FORMAT', 'the GGUF file has no general.architecture', {
      hint: 'expected a model; this may be a vocabulary, an adapter or one part of a split file',
    });
  if (!Object.hasOwn(GGUF_ARCHITECTURES, name))
    throw new BqError('UNSUPPORTED', `the GGUF file has the unsupported architecture "${name}"`, {
      hint: architectureHint(name, Object.keys(GGUF_ARCHITECTURES).join(', '), ARCHITECTURE_HINTS),
    });
  return GGUF_ARCHITECTURES[name];
}

/**
 * Returns the configuration of a model, as read by the row of its architecture.
 * @param {Pick<GgufHeader, 'metadata' | 'tensors'>} header @param {GgufArchitecture} architecture
 * @returns {Record<string, any>}
 */
function configFrom(header, { arch, ropePairs, config }) {
  /** @type {Set<string>} */
  const read = new Set();
  const facts = factsOf(header);
  const values = config({ ...facts, get: (key, otherwise) => facts.get(read.add(key) && key, otherwise) });
  checkMetadata(header.metadata, header.metadata['general.architecture'], read, values);
  return { arch, ...values, ...(values.rope_theta !== undefined && { rope_pairs: ropePairs }) };
}

/** @param {Pick<GgufHeader, 'metadata' | 'tensors'>} header @returns {GgufFacts} */
function factsOf({ metadata, tensors }) {
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  return {
    get(key, otherwise) {
      const fullKey = `${metadata['general.architecture']}.${key}`;
      const value = metadata[fullKey] ?? otherwise;
      if (value === undefined)
        throw new BqError('FORMAT', `the GGUF file has no metadata value "${fullKey}"`, {
          hint: 'the GGUF file is incomplete: fetch it again or convert it again',
        });
      return value;
    },
    has: (name) => byName.has(name),
    dims(name) {
      const tensor = byName.get(name);
      if (!tensor)
        throw new BqError('SHAPE', `tensor "${name}" is missing`, {
          hint: 'the GGUF file is incomplete: fetch it again or convert it again',
        });
      return tensor.dims;
    },
  };
}

/**
 * Returns the canonical name of a tensor; null if the tensor is not needed. Throws UNSUPPORTED.
 * @param {GgufArchitecture} architecture @param {Record<string, string>} modules
 * @param {{ name: string, at: number }} tensor
 */
function canonicalName({ outer, unread }, modules, { name, at }) {
  if (Object.hasOwn(outer, name)) return outer[name];
  const bare = /^blk\.(0|[1-9]\d{0,4})\.(.+)$/.exec(name);
  // Names of modules that include the ending (".bias") or have none.
  if (bare && Object.hasOwn(modules, bare[2])) return `h.${bare[1]}.${modules[bare[2]]}.weight`;
  const [, module, ending] = /^(.+)\.(weight|bias)$/.exec(name) ?? [];
  if (module && Object.hasOwn(outer, module)) return `${outer[module]}.${ending}`;
  const [, layer, part] = (module && /^blk\.(0|[1-9]\d{0,4})\.(.+)$/.exec(module)) || [];
  if (part && Object.hasOwn(modules, part)) return `h.${layer}.${modules[part]}.${ending}`;
  if (unread?.test(name)) return null;
  throw new BqError('UNSUPPORTED', `unknown tensor "${name}" for this architecture`, {
    offset: at,
    hint: 'this variant of the architecture is not supported yet',
  });
}

/**
 * Whether a tensor belongs to the layers for multi-token prediction, which follow the other layers and are not used.
 * @param {string} name @param {GgufFacts} facts
 */
function draftsTokens(name, { get }) {
  const drafting = get('nextn_predict_layers', 0);
  const layer = drafting > 0 && /^blk\.(\d{1,5})\./.exec(name)?.[1];
  return Boolean(layer) && Number(layer) >= get('block_count') - drafting;
}

/**
 * Returns the canonical names of the tensors that the engine uses, by their names in the file.
 * @param {Pick<GgufHeader, 'tensors'>} header @param {GgufArchitecture} architecture @param {GgufFacts} facts
 * @param {Record<string, any>} config
 */
function namesOf({ tensors }, architecture, facts, config) {
  const modules = architecture.modules(facts);
  /** @type {Map<string, string>} */
  const names = new Map();
  for (const tensor of tensors) {
    const name = draftsTokens(tensor.name, facts) ? null : canonicalName(architecture, modules, tensor);
    // The tensors of a classifier are used only if it is complete (ggufLabels).
    if (name && !isOfSharedKeys(name, config) && (config.labels || !GGUF_LABEL_TENSOR.test(tensor.name)))
      names.set(tensor.name, name);
  }
  return names;
}

/**
 * Returns the content of the META section.
 * @param {Pick<GgufHeader, 'metadata' | 'tensors'>} header @param {Map<string, string>} names
 * @param {Record<string, any>} config
 * @param {import('../../text/tokenizers/section.js').Tokenizer | null} tokenizer
 */
function metaFrom({ metadata, tensors }, names, config, tokenizer) {
  const labels = metadata[`${metadata['general.architecture']}.classifier.output_labels`];
  const template = metadata['tokenizer.chat_template.rerank'];
  return metaOf({
    ...(config.labels && {
      labels: labels instanceof StringList ? Array.from({ length: labels.length }, (_, i) => labels.at(i)) : [],
      pair: typeof template === 'string' ? { template } : (tokenizer?.pair ?? null),
    }),
    suppressed: suppressedOf(metadata[SUPPRESSED], SUPPRESSED),
    unused: unusedParts(tensors.filter(({ name }) => !names.has(name)).map(({ name }) => name)),
  });
}

/** @param {GgufHeader} header @param {Map<string, string>} names */
function listedTensors({ tensors }, names) {
  return tensors.flatMap((tensor) => {
    const name = names.get(tensor.name);
    if (!name) return [];
    const type = typeOf(tensor);
    const { rows, cols } = matrixOf(tensor.dims);
    if (cols % type.block)
      throw new BqError(
        'FORMAT',
        `tensor "${tensor.name}" has rows of ${cols} weights; expected a multiple of ${type.block}`,
        {
          offset: tensor.at,
        },
      );
    // The gate of a shared expert ("switch") is a vector in some files; here it is a matrix with one row. Norms of
    // heads, taps of convolutions and vectors of Mamba-2 have a row per head, channel or group; in .bq4 files each is
    // one vector.
    const shape = name.endsWith('.switch.weight') ? [1, cols] : tensor.dims;
    const dims = /(_norm|\.taps|mamba\.(norm|decay|skip))\.weight$/.test(name) ? [rows * cols] : shape;
    if (dims.length === 1 && conversionOf(type))
      throw new BqError('UNSUPPORTED', `tensor "${tensor.name}" is a vector of type ${typeName(tensor.type)}`, {
        offset: tensor.at,
        hint: 'expected vectors as F32, F16 or BF16',
      });
    return [{ name, type, layout: ROWS, dims, offset: tensor.offset, bytes: weightBytes(type, ROWS, rows, cols) }];
  });
}

/**
 * Reads the header of a file. For a model that is split into several files, this is the header of the first file with
 * the tensors of all files. Throws FORMAT if parts are missing or in the wrong order.
 * @param {ByteSource} file @param {Uint8Array} head @param {AbortSignal} [signal]
 */
export async function readParts(file, head, signal) {
  const parts = file.parts ?? [file];
  const header = await readHeader(parts[0], head, signal);
  const count = header.metadata['split.count'] ?? 1;
  if (count > 1 && parts.length !== count)
    throw new BqError('FORMAT', `${file.name} is one of ${count} parts of a model, but ${parts.length} were given`, {
      hint: 'load the first part (…-00001-of-0000N.gguf) with the others in the same folder, or pass a list of all parts',
    });
  for (const [i, part] of parts.entries()) {
    if (!i) continue;
    const first = await readRange(part, 0, FIRST_READ, signal);
    part.expect?.(first, -1);
    if (String.fromCharCode(...first.subarray(0, 4)) !== 'GGUF')
      throw new BqError('NOT_A_MODEL', `${part.name} is not a GGUF file; expected part ${i + 1} of ${parts.length}`, {
        offset: 0,
      });
    const { metadata, tensors } = await readHeader(part, first, signal);
    const names = [parts[0], part].map(({ name }) => commonNameOf(name));
    const isNamedOtherwise = !names.includes(undefined) && names[0] !== names[1];
    if (isNamedOtherwise || (metadata['split.count'] ?? count) !== count)
      throw new BqError(
        'FORMAT',
        `part ${i + 1} (${part.name}) belongs to another model than part 1 (${parts[0].name})`,
        { hint: 'pass the parts of one model, whose names differ only in the number of the part' },
      );
    if (metadata['split.no'] !== undefined && metadata['split.no'] !== i)
      throw new BqError('FORMAT', `${part.name} is part ${metadata['split.no'] + 1}; expected part ${i + 1}`, {
        hint: 'pass the parts in order',
      });
    header.tensors.push(...tensors.map((tensor) => ({ ...tensor, offset: tensor.offset + i * STRIDE })));
  }
  return header;
}

/**
 * Returns only the configuration. Throws FORMAT, UNSUPPORTED, SHAPE.
 * @param {Pick<GgufHeader, 'metadata' | 'tensors'>} header
 */
export const configOfGguf = (header) => configFrom(header, architectureOf(header.metadata));

/**
 * Returns the content of the META section, without the tokenizer's rule for joining two texts. Throws FORMAT,
 * UNSUPPORTED, SHAPE.
 * @param {Pick<GgufHeader, 'metadata' | 'tensors'>} header
 */
export function metaOfGguf(header) {
  const [architecture, facts] = [architectureOf(header.metadata), factsOf(header)];
  const config = configFrom(header, architecture);
  return metaFrom(header, namesOf(header, architecture, facts, config), config, null);
}

/**
 * Opens a file: reads only its header. Throws FORMAT, TRUNCATED, UNSUPPORTED, SHAPE.
 * @param {ByteSource} file
 * @param {Uint8Array} head  the beginning of the file
 * @param {AbortSignal} [signal]
 */
export async function openGguf(file, head, signal) {
  try {
    return await describe(file, head, signal);
  } catch (error) {
    if (!(error instanceof BqError) || error.message.length <= MAX_MESSAGE) throw error;
    throw new BqError(error.code, `${error.message.slice(0, MAX_MESSAGE)}…`, {
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
  const config = configFrom(header, architecture);
  const tables = Object.entries({ ...ggufTables(facts, config), ...architecture.tables(config) });
  const names = namesOf(header, architecture, facts, config);
  const tokenizer = metadata['tokenizer.ggml.model'] === undefined ? null : tokenizerFromGguf(metadata);
  return {
    header,
    config,
    tensors: listedTensors(header, names),
    extra: tables.map(([name, values]) => ({ name, dims: [values.length], values: new Uint8Array(values.buffer) })),
    tokenizer,
    meta: metaFrom(header, names, config, tokenizer),
    name: textOf(metadata['general.name']),
    license: textOf(metadata['general.license']),
    template: textOf(metadata['tokenizer.chat_template']),
  };
}
