/** What commands have in common: options by their kind, files, a loaded model. */
import { BqError } from '../js/shared/errors.js';

export class Usage extends Error {}

/** A file as UTF-8. READ. @param {string} path */
export async function readText(path) {
  const { readFile } = await import('node:fs/promises');
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new BqError('READ', `${path} can't be read: ${/** @type {Error} */ (cause).message}`, { cause });
  }
}

/** @typedef {{ type: 'string' | 'boolean', multiple?: boolean }} Option */

export const flag = /** @type {Option} */ ({ type: 'boolean' });
export const value = /** @type {Option} */ ({ type: 'string' });
export const values = /** @type {Option} */ ({ type: 'string', multiple: true });

/** @param {any} options @param {string} name @returns {number | undefined} */
export function numberOf(options, name) {
  if (options[name] === undefined) return undefined;
  const number = Number(options[name]);
  if (options[name].trim() === '' || !Number.isFinite(number) || number < 0)
    throw new Usage(`--${name} is "${options[name]}", not a number of at least 0`);
  return number;
}

/** A file's own address, where people copy that of a page about it. @param {string} url */
export const fileAddress = (url) =>
  url.replace(/^(https:\/\/huggingface\.co\/[^/?#]+\/[^/?#]+)\/blob\//, '$1/resolve/');

/** @param {string} file @param {any} [options] */
export async function sourceOf(file, options = {}) {
  const { fromFile, fromUrl } = await import('../js/node.js');
  const plain = (/** @type {string} */ f) => (/^(https?|file):/.test(f) ? fromUrl(fileAddress(f)) : fromFile(f));
  return { ...plain(file), ...(options.companion && { companion: plain(options.companion) }) };
}

/** One of some words. @template {string} T @param {any} options @param {string} name @param {T[]} words @returns {T | undefined} */
function oneOf(options, name, ...words) {
  const given = options[name];
  if (given !== undefined && !words.includes(given))
    throw new Usage(`--${name} is "${given}", not ${words.slice(0, -1).join(', ')} or ${words.at(-1)}`);
  return given;
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
  // One that was not given is left out: where it is spread behind a default, it must not undo that.
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

/** Bytes that are enough for an adapter: its floats as f32, and what each session needs for them. @param {string} file */
async function adapterBytes(file) {
  const { stat } = await import('node:fs/promises');
  return 2 * ((await stat(file).catch(() => null))?.size ?? 0) + 2 ** 20;
}

/** An engine and a model. @param {string} file @param {any} options */
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

/** A smaller model that guesses for `generate`, where one is asked for. @param {import('../js/shared/types.js').Engine} engine @param {any} options */
export async function draftOf(engine, options) {
  if (options.draft === undefined) return {};
  const model = await engine.load(await sourceOf(options.draft), { contextTokens: numberOf(options, 'context') });
  return { speculate: { model } };
}

/** An adapter for `generate`, where one is asked for. @param {import('../js/shared/types.js').Model} model @param {any} options */
export async function adapterOf(model, options) {
  const { fromFile } = await import('../js/node.js');
  return options.adapter === undefined ? {} : { adapter: await model.loadAdapter(fromFile(options.adapter)) };
}
