/**
 * Describes models in other formats than .bq4 for `bq4 inspect`: GGUF, safetensors, Hugging Face folders, and all other
 * inputs of `convert`.
 */
import { openCheckpoint } from '../js/convert/checkpoint.js';
import { readJsonFile } from '../js/convert/folder.js';
import { listSafetensors } from '../js/format/safetensors.js';
import { configOf } from '../js/format/families/names.js';
import { HEAD_BYTES, unknownFile } from '../js/convert/unknown-file.js';
import { readTokenizerFile } from '../js/convert/tokenizer-files.js';
import { readHeader } from '../js/format/gguf/header.js';
import { configOfGguf, metaOfGguf, readParts } from '../js/format/gguf/open.js';
import { typeNumbered, typeName } from '../js/format/gguf/types.js';
import { BqError } from '../js/shared/errors.js';
import { nodeModule } from '../js/shared/node.js';
import { openFile } from '../js/storage/sources/file.js';
import { STRIDE } from '../js/storage/sources/split.js';
import { isAddress, readText } from './options.js';
import { readRange } from '../js/storage/sources/read.js';
import { integrityOf, Sha256 } from '../js/wasm/sha256.js';
import { compile, Wasm } from '../js/wasm/wasm.js';

/** @import { ByteSource } from '../js/storage/sources/types.js' */

/** Largest number of bytes that are hashed in one call, and heap bytes in addition to them. */
const STEP = 1 << 20;
const RESERVED_BYTES = 262144;
const KINDS = ['', 'spm', 'bpe', 'wordlist', 'unigram', 'wordpiece'];

/** The description of a file, with the errors of parts that could not be read. @typedef {Record<string, any>} Report */

/**
 * Returns the result of `read`, or the BqError that it throws.
 * @template T @param {() => T | Promise<T>} read
 * @returns {Promise<{ value?: T, error?: { error: string, message: string, hint: string } }>}
 */
async function attempt(read) {
  try {
    return { value: await read() };
  } catch (error) {
    if (!(error instanceof BqError)) throw error;
    return { error: { error: error.code, message: error.message, hint: error.hint } };
  }
}

/**
 * Returns the shortest decimal number that rounds to this f32: 1e-5 instead of 0.000009999999747378752.
 * @param {number} f32
 */
export const shortest = (f32) =>
  [6, 7, 8, 9].map((digits) => Number(f32.toPrecision(digits))).find((v) => Math.fround(v) === f32) ?? f32;

/** Computes the integrity of a file, as `load` accepts it. @param {ByteSource} file */
async function hashOf(file) {
  const hash = new Sha256(await Wasm.create(await compile(), STEP + RESERVED_BYTES));
  for await (const piece of file.stream(0, Infinity))
    for (let at = 0; at < piece.length; at += STEP) hash.add(piece.subarray(at, at + STEP));
  return integrityOf(hash.end());
}

/**
 * Returns a configuration whose numbers are the shortest that round to the stored f32.
 * @param {Record<string, any>} config
 */
const withShortNumbers = (config) =>
  Object.fromEntries(
    Object.entries(config).map(([key, value]) => [key, typeof value === 'number' ? shortest(value) : value]),
  );

/** @param {Record<string, any>} metadata */
function tokenizerOfGguf(metadata) {
  const get = (/** @type {string} */ key) => metadata[`tokenizer.ggml.${key}`] ?? null;
  if (get('model') === null) return null;
  return {
    kind: get('model'),
    split: get('pre'),
    tokens: get('tokens')?.length ?? 0,
    merges: get('merges')?.length ?? 0,
    bos: get('bos_token_id'),
    eos: get('eos_token_id'),
    unk: get('unknown_token_id'),
    pad: get('padding_token_id'),
    addBos: get('add_bos_token'),
    addEos: get('add_eos_token'),
  };
}

/** @param {unknown} value */
const textOf = (value) => (typeof value === 'string' ? value : '');

/** @param {ByteSource} file @returns {Promise<Report>} */
async function inspectGguf(file) {
  const { parts } = file;
  const { version, metadata, tensors, alignment, end } = await (parts ? readParts : readHeader)(file, new Uint8Array());
  const config = await attempt(() => withShortNumbers(configOfGguf({ metadata, tensors })));
  const list = tensors.map(({ name, dims, type, offset }) => {
    const { block = 1, blockBytes = 0 } = typeNumbered(type) ?? {};
    return {
      name,
      type: typeName(type),
      layout: 'rows',
      dims,
      offset: offset % STRIDE, // within its part
      bytes: (dims.reduce((a, b) => a * b, 1) / block) * blockBytes,
    };
  });
  const scalars = Object.entries(metadata).filter(
    ([, value]) => typeof value !== 'object' && String(value).length < 200,
  );
  return {
    format: {
      container: 'GGUF',
      version,
      files: parts?.length ?? 1,
      alignment,
      headerBytes: end,
      fileLength: file.size,
      size: file.size,
    },
    name: textOf(metadata['general.name']),
    license: textOf(metadata['general.license']),
    architecture: textOf(metadata['general.architecture']),
    config: config.value ?? null,
    configError: config.error,
    meta: (await attempt(() => metaOfGguf({ metadata, tensors }))).value ?? null,
    metadata: Object.fromEntries(scalars),
    tokenizer: tokenizerOfGguf(metadata),
    template: textOf(metadata['tokenizer.chat_template']),
    tensors: list,
  };
}

/** @param {string} path @returns {Promise<Report['tensors']>} */
async function safetensorsList(path) {
  const file = await openFile(path);
  try {
    const { entries } = await listSafetensors(file);
    return entries.map(({ name, dtype, shape, from, to }) => ({
      name,
      type: dtype,
      layout: 'rows',
      dims: shape,
      offset: from,
      bytes: to - from,
    }));
  } finally {
    await file.close();
  }
}

/** Returns the metadata of a checkpoint; null if it has none or can't be converted. @param {string} input */
const metaOfFolder = async (input) => {
  const { value: checkpoint } = await attempt(() => openCheckpoint(input));
  await checkpoint?.close();
  return checkpoint?.meta ?? null;
};

/** @param {string} input  a folder, or a safetensors file in it @param {boolean} isFolder @returns {Promise<Report>} */
async function inspectHf(input, isFolder) {
  const { readdirSync, statSync, existsSync } = await nodeModule('fs');
  const { basename, dirname, join } = await nodeModule('path');
  const folder = isFolder ? input : dirname(input);
  const json = await attempt(() => readJsonFile(join(folder, 'config.json')));
  const files = isFolder
    ? readdirSync(folder)
        .filter((/** @type {string} */ name) => name.endsWith('.safetensors'))
        .sort()
    : [basename(input)];
  if (!files.length) return inspectCheckpoint(folder, 'Hugging Face folder');
  const tensors = [];
  for (const name of files) tensors.push(...(await safetensorsList(join(folder, name))));
  const config = await attempt(() => configOf(json.value ?? {}));
  const vocab = config.value?.vocab ?? 0;
  const tokenizerFile = ['tokenizer.json', 'tokenizer.model', 'vocab.json']
    .map((name) => join(folder, name))
    .find(existsSync);
  const tokenizer = tokenizerFile ? await attempt(() => readTokenizerFile(tokenizerFile, { vocab })) : {};
  const t = tokenizer.value;
  const templates = [
    (await attempt(() => readText(join(folder, 'chat_template.jinja')))).value,
    (await attempt(() => readJsonFile(join(folder, 'tokenizer_config.json')))).value?.chat_template,
  ];
  const size = files.reduce(
    (/** @type {number} */ sum, /** @type {string} */ name) => sum + statSync(join(folder, name)).size,
    0,
  );
  return {
    format: {
      container: isFolder ? 'Hugging Face folder' : 'safetensors',
      files: files.length,
      fileLength: size,
      size,
    },
    name: basename(folder),
    license: '',
    architecture: json.value?.model_type ?? '',
    config: config.value ?? null,
    configError: json.error ?? config.error,
    tokenizer: t
      ? { kind: KINDS[t.kind] ?? `kind ${t.kind}`, tokens: t.tokens.length, merges: t.merges.length, eog: t.eog }
      : null,
    tokenizerError: tokenizer.error,
    meta: await metaOfFolder(input),
    template: templates.find((text) => typeof text === 'string') ?? '',
    tensors,
  };
}

/**
 * Describes any checkpoint that `convert` reads: configuration and shapes.
 * @param {string} input @param {string} container @returns {Promise<Report>}
 */
async function inspectCheckpoint(input, container) {
  const checkpoint = await openCheckpoint(input);
  try {
    const { tokenizer } = checkpoint;
    const tensors = [...checkpoint.tensors].map(([name, { dims, packed, type = '', at = 0 }]) => ({
      name,
      type: packed?.type ?? type,
      layout: packed ? 'flat' : '',
      dims,
      offset: packed ? at : 0,
      bytes: packed?.bytes ?? 0,
    }));
    return {
      format: { container },
      name: checkpoint.name,
      license: '',
      architecture: checkpoint.config.arch ?? '',
      config: checkpoint.config,
      tokenizer: tokenizer ? { kind: KINDS[tokenizer.kind], tokens: tokenizer.tokens.length } : null,
      meta: checkpoint.meta ?? null,
      template: checkpoint.template,
      tensors,
    };
  } finally {
    await checkpoint.close();
  }
}

/** @param {string} magic */
const containerOf = (magic) =>
  magic.startsWith('PK')
    ? 'PyTorch checkpoint'
    : magic.startsWith('\x80')
      ? 'pickle'
      : magic === 'QSF1'
        ? 'QSF'
        : magic.startsWith('{')
          ? 'bullet'
          : 'llama2.c checkpoint';

/**
 * Returns a report like that of `inspect` (inspect.js) for other formats, as far as they have its parts. Throws
 * NOT_A_MODEL, FORMAT, UNSUPPORTED, READ.
 * @param {string} path @param {ByteSource | null} file  null: a folder
 * @returns {Promise<Report>}
 */
export async function inspectForeign(path, file) {
  const head = file ? String.fromCharCode(...(await readRange(file, 0, 4))) : '';
  if (file && head !== 'GGUF' && isAddress(path)) {
    const container = containerOf(head);
    if (['PyTorch checkpoint', 'pickle', 'QSF'].includes(container) || path.endsWith('.safetensors'))
      throw new BqError('UNSUPPORTED', `${path} is neither a .bq4 nor a .gguf file; others are read from disk only`, {
        hint: 'download the file first',
      });
    throw unknownFile(path, await readRange(file, 0, HEAD_BYTES));
  }
  const report =
    head === 'GGUF' && file
      ? await inspectGguf(file)
      : !file || path.endsWith('.safetensors')
        ? await inspectHf(path, !file)
        : await inspectCheckpoint(path, containerOf(head));
  // A model in several files has no integrity.
  if (file && !file.parts) report.integrity = await hashOf(file);
  return { chat: null, sections: [], hashes: null, ...report };
}
