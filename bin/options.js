/** Shared by the commands: constructors and groups of options, parsing of their values, sources, loading of a model. */
import { BqError, shortened } from '../js/shared/errors.js';

/** Wrong usage of the command line: exit code 2. */
export class Usage extends Error {
  /** @param {string} message */
  constructor(message) {
    super(shortened(message));
  }
}

/** Reads a file as UTF-8. Throws READ. @param {string} path */
export async function readText(path) {
  const { readFile } = await import('node:fs/promises');
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new BqError('READ', `${path} can't be read: ${/** @type {Error} */ (cause).message}`, {
      cause,
      hint: 'check the path and its permissions',
    });
  }
}

/** Writes a file as UTF-8. Throws WRITE. @param {string} path @param {string} text */
export async function writeText(path, text) {
  const { writeFile } = await import('node:fs/promises');
  try {
    await writeFile(path, text);
  } catch (cause) {
    throw new BqError('WRITE', `${path} can't be written: ${/** @type {Error} */ (cause).message}`, {
      cause,
      hint: 'check the folder, its permissions and the free space',
    });
  }
}

/** An option as util.parseArgs takes it, with its help: `value` is the placeholder of the option's value. @typedef {{ type: 'string' | 'boolean', multiple?: boolean, value?: string, help: string }} Option */

/** An option without a value. @param {string} help @returns {Option} */
export const flag = (help) => ({ type: 'boolean', help });
/** An option with a value. @param {string} name  placeholder @param {string} help @returns {Option} */
export const value = (name, help) => ({ type: 'string', value: name, help });
/** An option that may be repeated. @param {string} name  placeholder @param {string} help @returns {Option} */
export const values = (name, help) => ({ type: 'string', multiple: true, value: name, help });

/** Options of commands that load one model. */
export const MODEL = {
  context: value('N', "tokens of context (default: the model's own, at most 4096)"),
  companion: value('FILE', 'sidecar config of a v1 file: architecture and tokenizer (default: NAME.json beside it)'),
  build: value('NAME', 'WebAssembly build: relaxed, relaxed16 or simd128 (default: the fastest on this machine)'),
};
const CACHE = {
  kv: value('TYPE', 'type of the KV cache: f32, f16, i8, i4 or i2 (default i8; f16 for models whose keys have a bias)'),
  activations: value(
    'TYPE',
    'i8 or i16: type that activations are quantized to; i16 is more exact and slower (default: i16 for models of 50 to 300 MB, else i8)',
  ),
};
/** Options of commands that run the model without generating. */
export const COMPUTE = { ...MODEL, ...CACHE };
/** Options of commands that generate. */
export const DECODE = {
  ...COMPUTE,
  'kv-window': value(
    'N',
    "sliding window of attention: each token sees the last N positions and the first ones, so the context may exceed the model's",
  ),
  'kv-sinks': value('N', 'first positions that stay visible with --kv-window (default 4)'),
  'kv-evict': value(
    'KIND',
    'what leaves the window: oldest (default), or attention (the positions with the least attention, H2O; the window is a multiple of 256)',
  ),
  'skip-layers': value('LIST', 'numbers of layers to leave out, as 3,14: faster, with worse replies'),
  'exit-layer': value('LAYER', 'leaves out this layer and all later ones'),
  'head-share': value('SHARE', 'share of the LM head to compute, as 0.3: faster, with slightly worse replies'),
};
/** Options of the engine. */
export const ENGINE = {
  threads: value('N', 'threads (default: one per core)'),
  sessions: value('N', 'sessions with a KV cache of their own (default 1)'),
  budget: value('BYTES', 'limit of the memory of the engine'),
};

/** @param {any} options @param {string} name @returns {number | undefined} */
export function numberOf(options, name) {
  if (options[name] === undefined) return undefined;
  const number = Number(options[name]);
  if (options[name].trim() === '' || !Number.isFinite(number) || number < 0)
    throw new Usage(`--${name} is "${options[name]}"; expected a number of at least 0`);
  return number;
}

/** The address of a file, for the address of its page on the hub, which people copy. @param {string} url */
export const fileAddress = (url) =>
  url.replace(/^(https:\/\/huggingface\.co\/[^/?#]+\/[^/?#]+)\/blob\//, '$1/resolve/');

/** @param {string} file @param {any} [options] */
export async function sourceOf(file, options = {}) {
  const { fromFile, fromUrl } = await import('../js/node.js');
  const plain = (/** @type {string} */ f) => (/^(https?|file):/.test(f) ? fromUrl(fileAddress(f)) : fromFile(f));
  return { ...plain(file), ...(options.companion && { companion: plain(options.companion) }) };
}

/** The value of an option that has a fixed set of values. @template {string} T @param {any} options @param {string} name @param {T[]} words @returns {T | undefined} */
export function oneOf(options, name, ...words) {
  const word = options[name];
  if (word !== undefined && !words.includes(word))
    throw new Usage(`--${name} is "${word}"; expected ${words.slice(0, -1).join(', ')} or ${words.at(-1)}`);
  return word;
}

/** @param {any} options @returns {import('../js/shared/types.js').LoadOptions} */
export function loadOptions(options) {
  const all = {
    contextTokens: numberOf(options, 'context'),
    sessions: numberOf(options, 'sessions'),
    memoryBudget: numberOf(options, 'budget'),
    kv: oneOf(options, 'kv', 'f32', 'f16', 'i8', 'i4', 'i2'),
    kvWindow: numberOf(options, 'kv-window'),
    kvSinks: numberOf(options, 'kv-sinks'),
    kvEvict: oneOf(options, 'kv-evict', 'oldest', 'attention'),
    activations: oneOf(options, 'activations', 'i8', 'i16'),
    quality: qualityOf(options),
  };
  // Omitted options are left out, so that spreading the result does not replace a default by undefined.
  return /** @type {Partial<typeof all>} */ (
    Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
  );
}

/** @param {any} options @returns {import('../js/shared/types.js').Quality | undefined} */
function qualityOf(options) {
  const skipLayers = options['skip-layers']?.split(',').map(Number);
  const [exitLayer, lmHeadFraction] = [numberOf(options, 'exit-layer'), numberOf(options, 'head-share')];
  const asked = Object.entries({ skipLayers, exitLayer, lmHeadFraction }).filter(([, value]) => value !== undefined);
  return asked.length ? Object.fromEntries(asked) : undefined;
}

/** Upper bound of the memory for an adapter: its weights as f32, and buffers of each session. @param {string} file */
async function adapterBytes(file) {
  const { stat } = await import('node:fs/promises');
  return 2 * ((await stat(file).catch(() => null))?.size ?? 0) + 2 ** 20;
}

/** Creates an engine and loads a model. @param {string} file @param {any} options */
export async function load(file, options) {
  const { createEngine } = await import('../js/node.js');
  const chosen = {
    ...loadOptions(options),
    ...(options.adapter && { adapterBytes: await adapterBytes(options.adapter) }),
  };
  const engine = await createEngine({ build: options.build, threads: numberOf(options, 'threads') });
  const model = await engine.load(await sourceOf(file, options), chosen);
  return { engine, model };
}

/** The option of `generate` for a draft model (--draft), or no option. @param {import('../js/shared/types.js').Engine} engine @param {any} options */
export async function draftOf(engine, options) {
  if (options.draft === undefined) return {};
  const model = await engine.load(await sourceOf(options.draft), { contextTokens: numberOf(options, 'context') });
  return { speculate: { model } };
}

/** The option of `generate` for an adapter (--adapter), or no option. @param {import('../js/shared/types.js').Model} model @param {any} options */
export async function adapterOf(model, options) {
  const { fromFile } = await import('../js/node.js');
  return options.adapter === undefined ? {} : { adapter: await model.loadAdapter(fromFile(options.adapter)) };
}
