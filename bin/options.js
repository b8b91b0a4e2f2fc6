/**
 * Shared code of the commands: constructors and groups of options, parsing of their values, files, sources, loading of
 * a model.
 */
import { BqError, shortened } from '../js/shared/errors.js';
import { KV_TYPES } from '../js/shared/names.js';

/** Wrong usage of the command line: exit code 2. */
export class Usage extends Error {
  /** @param {string} message */
  constructor(message) {
    super(shortened(message));
  }
}

/** Decodes UTF-8 without a byte order mark. Throws TypeError for other bytes. @param {Uint8Array} bytes */
export const decodeText = (bytes) => new TextDecoder('utf-8', { fatal: true }).decode(bytes);

/** Reads a file as UTF-8. Throws READ. @param {string} path */
export async function readText(path) {
  const { readFile } = await import('node:fs/promises');
  try {
    return decodeText(await readFile(path));
  } catch (cause) {
    if (cause instanceof TypeError && !('syscall' in cause))
      throw new BqError('READ', `${path}: expected text in UTF-8, found other bytes`, {
        cause,
        hint: 'save the file as UTF-8',
      });
    throw new BqError('READ', `${path} can't be read: ${/** @type {Error} */ (cause).message}`, {
      cause,
      hint: 'check the path and its permissions',
    });
  }
}

/** Creates the error WRITE. @param {string} path @param {unknown} cause */
const writeError = (path, cause) =>
  new BqError('WRITE', `${path} can't be written: ${/** @type {Error} */ (cause).message}`, {
    cause,
    hint: 'check the folder, its permissions and the free space',
  });

/** Writes a file. Throws WRITE. @param {string} path @param {string | Uint8Array} content  text is written as UTF-8 */
export async function writeOutput(path, content) {
  const { writeFile } = await import('node:fs/promises');
  try {
    await writeFile(path, content);
  } catch (cause) {
    throw writeError(path, cause);
  }
}

/**
 * Checks that a file can be written, before a computation that would be lost. Nothing is created. Throws Usage, WRITE.
 * @param {string} subject  option or operand, for messages
 * @param {string} path
 */
export async function checkOutput(subject, path) {
  if (path === '-' || path === '')
    throw new Usage(
      `${subject}: expected the path of a file, found "${path}"${path && '; a file of that name is ./-'}`,
    );
  const { access, constants, stat } = await import('node:fs/promises');
  const { dirname } = await import('node:path');
  try {
    const existing = await stat(path).catch(() => null);
    if (existing?.isDirectory()) throw new Error('it is a folder');
    if (existing) return await access(path, constants.W_OK);
    const folder = dirname(path);
    const parent = await stat(folder).catch(() => null);
    if (!parent?.isDirectory()) throw new Error(`${folder} is ${parent ? 'not a folder' : 'no existing folder'}`);
    await access(folder, constants.W_OK);
  } catch (cause) {
    throw writeError(path, cause);
  }
}

/**
 * An option in the form of util.parseArgs, with its help; `value` is the placeholder of the option's value, `writes`
 * whether the value is the path of a file to write.
 * @typedef {{ type: 'string' | 'boolean', multiple?: boolean, value?: string, writes?: boolean, help: string }} Option
 */

/** Creates an option without a value. @param {string} help @returns {Option} */
export const flag = (help) => ({ type: 'boolean', help });
/** Creates an option with a value. @param {string} name  placeholder @param {string} help @returns {Option} */
export const value = (name, help) => ({ type: 'string', value: name, help });
/** Creates an option whose value is a file to write. @param {string} name @param {string} help @returns {Option} */
export const outputFile = (name, help) => ({ type: 'string', value: name, writes: true, help });
/** Creates an option that may be repeated. @param {string} name  placeholder @param {string} help @returns {Option} */
export const values = (name, help) => ({ type: 'string', multiple: true, value: name, help });

/** Options of commands that load one model. */
export const MODEL = {
  context: value('N', 'context length in tokens (default: that of the model, at most 4096)'),
  companion: value(
    'FILE',
    'sidecar file with architecture and tokenizer of a v1 file (default: NAME.json in the same folder)',
  ),
  build: value('NAME', 'WebAssembly build: relaxed, relaxed16 or simd128 (default: the fastest on this machine)'),
};
/** Options of the KV cache and of activations. */
const PRECISION = {
  kv: value('TYPE', 'type of the KV cache: f32, f16, i8, i4 or i2 (default i8; f16 for models whose keys have a bias)'),
  activations: value(
    'TYPE',
    'i8 or i16: type that activations are quantized to; i16 is more exact and slower (default: i16 for models of 50 to 300 MB, else i8)',
  ),
};
/** Options of commands that run the model without generating. */
export const COMPUTE = { ...MODEL, ...PRECISION };
/** Options of commands that generate. */
export const DECODE = {
  ...COMPUTE,
  'kv-window': value(
    'N',
    "sliding window of attention: each token attends to the last N positions and the first ones, so the context may be longer than the model's",
  ),
  'kv-sinks': value('N', 'number of first positions that stay visible with --kv-window (default 4)'),
  'kv-evict': value(
    'KIND',
    'positions that are evicted from the window: oldest (default), or attention (those with the least attention, H2O; the window must be a multiple of 256)',
  ),
  'skip-layers': value('LIST', 'numbers of layers to skip, such as 3,14: faster, with worse replies'),
  'exit-layer': value('LAYER', 'skips this layer and all later ones'),
  'lm-head-fraction': value(
    'SHARE',
    'share of the LM head to compute, such as 0.3: faster, with slightly worse replies',
  ),
};
/** Options of the engine. */
export const ENGINE = {
  threads: value('N', 'number of threads (default: one per core)'),
  sessions: value('N', 'number of sessions, each with a KV cache of its own (default 1)'),
  'memory-budget': value('BYTES', 'largest memory of the model'),
};

/**
 * Returns the value of an option that is a number of at least 0. Throws Usage.
 * @param {any} options @param {string} name @returns {number | undefined}
 */
export function numberOf(options, name) {
  if (options[name] === undefined) return undefined;
  const number = Number(options[name]);
  if (options[name].trim() === '' || !Number.isFinite(number) || number < 0)
    throw new Usage(`--${name}: expected a number of at least 0, found "${options[name]}"`);
  return number;
}

/**
 * Converts the address of a file's page on the hub, which users copy, to the address of the file.
 * @param {string} url
 */
export const fileAddress = (url) =>
  url.replace(/^(https:\/\/huggingface\.co\/[^/?#]+\/[^/?#]+)\/blob\//, '$1/resolve/');

/** Whether a path is a folder. @param {string} path */
export async function isFolder(path) {
  const { stat } = await import('node:fs/promises');
  return (await stat(path).catch(() => null))?.isDirectory() ?? false;
}

/** Whether a file is given by its address. @param {string} file */
export const isAddress = (file) => /^([a-z][a-z\d+.-]+:\/\/|file:)/i.test(file);

/**
 * Returns the source of a file, with its companion.
 * @param {string} file  a path or an address @param {any} [options]
 */
export async function sourceOf(file, options = {}) {
  const { fromFile, fromUrl } = await import('../js/node.js');
  const toSource = (/** @type {string} */ f) => (isAddress(f) ? fromUrl(fileAddress(f)) : fromFile(f));
  return { ...toSource(file), ...(options.companion && { companion: toSource(options.companion) }) };
}

/**
 * Returns the value of an option that has a fixed set of values. Throws Usage.
 * @template {string} T @param {any} options @param {string} name @param {T[]} allowed @returns {T | undefined}
 */
export function oneOf(options, name, ...allowed) {
  const word = options[name];
  if (word !== undefined && !allowed.includes(word))
    throw new Usage(`--${name}: expected ${allowed.slice(0, -1).join(', ')} or ${allowed.at(-1)}, found "${word}"`);
  return word;
}

/**
 * Converts options of the command line to options of `load`. Throws Usage.
 * @param {any} options @returns {import('../js/shared/types.js').LoadOptions}
 */
export function loadOptions(options) {
  const values = {
    contextTokens: numberOf(options, 'context'),
    sessions: numberOf(options, 'sessions'),
    memoryBudget: numberOf(options, 'memory-budget'),
    kv: oneOf(options, 'kv', ...KV_TYPES),
    kvWindow: numberOf(options, 'kv-window'),
    kvSinks: numberOf(options, 'kv-sinks'),
    kvEvict: oneOf(options, 'kv-evict', 'oldest', 'attention'),
    activations: oneOf(options, 'activations', 'i8', 'i16'),
    quality: qualityOf(options),
  };
  // Omitted options are missing in the result, so that spreading it does not replace a default by undefined.
  return /** @type {Partial<typeof values>} */ (withoutUndefined(values));
}

/**
 * Returns an object without the properties that are undefined.
 * @param {Record<string, unknown>} object @returns {Record<string, any>}
 */
const withoutUndefined = (object) =>
  Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));

/** Returns the layers of --skip-layers. Throws Usage. @param {string | undefined} list */
function layersOf(list) {
  if (list === undefined || /^\d+(,\d+)*$/.test(list)) return list?.split(',').map(Number);
  throw new Usage(`--skip-layers: expected numbers of layers, such as 3,14, found "${list}"`);
}

/** @param {any} options @returns {import('../js/shared/types.js').Quality | undefined} */
function qualityOf(options) {
  const skipLayers = layersOf(options['skip-layers']);
  const [exitLayer, lmHeadFraction] = [numberOf(options, 'exit-layer'), numberOf(options, 'lm-head-fraction')];
  const quality = withoutUndefined({ skipLayers, exitLayer, lmHeadFraction });
  return Object.keys(quality).length ? quality : undefined;
}

/**
 * Returns an upper bound of the memory for an adapter in bytes: its weights as f32, and buffers of each session.
 * @param {string} file
 */
async function adapterBytes(file) {
  const { stat } = await import('node:fs/promises');
  return 2 * ((await stat(file).catch(() => null))?.size ?? 0) + 2 ** 20;
}

/** Creates an engine and loads a model. @param {string} file @param {any} options */
export async function load(file, options) {
  const { createEngine } = await import('../js/node.js');
  const modelOptions = {
    ...loadOptions(options),
    ...(options.adapter && { adapterBytes: await adapterBytes(options.adapter) }),
  };
  const engine = await createEngine({ build: options.build, threads: numberOf(options, 'threads') });
  const model = await engine.load(await sourceOf(file, options), modelOptions);
  return { engine, model };
}

/**
 * Loads a draft model (--draft) and returns the option of `generate` for it; no option without --draft.
 * @param {import('../js/shared/types.js').Engine} engine @param {any} options
 */
export async function draftOf(engine, options) {
  if (options.draft === undefined) return {};
  const model = await engine.load(await sourceOf(options.draft), { contextTokens: numberOf(options, 'context') });
  return { speculate: { model } };
}

/**
 * Loads an adapter (--adapter) and returns the option of `generate` for it; no option without --adapter.
 * @param {import('../js/shared/types.js').Model} model @param {any} options
 */
export async function adapterOf(model, options) {
  const { fromFile } = await import('../js/node.js');
  return options.adapter === undefined ? {} : { adapter: await model.loadAdapter(fromFile(options.adapter)) };
}
