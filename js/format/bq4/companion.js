/**
 * The companion of a v1 file (docs/FORMAT.md §3): JSON that tells what the file does not. Fetched only
 * when a v1 file is met.
 */
import { tokenizerFromJson } from './companion-json.js';
import { fromBase64 } from '../../text/tokenizers/bytes.js';
import { BqError } from '../../shared/errors.js';
import { object, text } from '../../shared/options.js';
import { shown } from '../../shared/quote-value.js';
import { openSource } from '../../storage/sources/index.js';
import { withPath } from '../../storage/sources/kinds.js';
import { readRange } from '../../storage/sources/read.js';

/** @import { Source } from '../../shared/types.js' */
/** @import { Description } from './manifest.js' */

/** @param {string} what */
const malformed = (what) =>
  new BqError('FORMAT', `the companion can't be used: ${what}`, {
    hint: 'see docs/FORMAT.md §3, or convert the model anew',
  });

/** @param {Record<string, { dims: number[], f32: string }>} tensors */
const looseTensors = (tensors) =>
  Object.entries(tensors).map(([name, { dims, f32 }]) => {
    const values = fromBase64(f32);
    if (
      !Array.isArray(dims) ||
      !dims.every((dim) => Number.isInteger(dim) && dim > 0) ||
      values.length !== 4 * dims.reduce((product, dim) => product * dim, 1)
    )
      throw malformed(`tensor "${name}" has ${values.length} bytes, not what its dims give`);
    return { name, dims, values };
  });

/**
 * What the companion's JSON says. FORMAT.
 * @param {Uint8Array} json
 * @param {string} name  of the companion, for messages
 * @returns {Omit<Description, 'tensors'>}
 */
export function parseCompanion(json, name) {
  let c;
  try {
    c = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(json));
  } catch (cause) {
    throw new BqError('FORMAT', `${name} is no JSON`, { cause, hint: 'see docs/FORMAT.md §3' });
  }
  if (c?.bq4_companion !== 1 || !c.config) throw malformed(`${name} lacks "bq4_companion": 1 or "config"`);
  const { config, license, chat, template, card } = c;
  if (object(config)) throw malformed(`"config" is ${shown(config)}, not an object`);
  if (chat && object(chat)) throw malformed(`"chat" is ${shown(chat)}, not an object`);
  for (const key of ['name', 'license', 'template', 'card'])
    if (![undefined, null].includes(c[key]) && text(c[key]))
      throw malformed(`"${key}" is ${shown(c[key])}, not a text`);
  try {
    const tokenizer = c.tokenizer ? tokenizerFromJson(c.tokenizer) : null;
    return {
      config,
      name: c.name,
      license,
      chat,
      template,
      card,
      tokenizer,
      extra: c.tensors && looseTensors(c.tensors),
    };
  } catch (cause) {
    throw cause instanceof BqError ? cause : malformed(/** @type {Error} */ (cause).message);
  }
}

/**
 * The companion of a v1 file: the one that was named, else NAME.json beside NAME.bq4, else none.
 * @param {Source} source
 * @returns {Source | null}
 */
export function companionOf(source) {
  if (source.companion) return source.companion;
  return withPath(source, (path) => path.replace(/\.[^./\\]*$/, '') + '.json');
}

/**
 * Fetches the companion. UNSUPPORTED: there is none.
 * @param {Source} source
 * @param {AbortSignal} [signal]
 */
export async function readCompanion(source, signal) {
  const where = companionOf(source);
  if (!where)
    throw new BqError('UNSUPPORTED', 'a v1 file says nothing about its model', {
      hint: 'pass its companion JSON: { companion: source }',
    });
  let file;
  try {
    file = await openSource(where, signal);
    return parseCompanion(await readRange(file, 0, Infinity, signal), file.name);
  } catch (error) {
    signal?.throwIfAborted();
    if (!(error instanceof BqError) || !['READ', 'HTTP_STATUS', 'NETWORK'].includes(error.code)) throw error;
    throw new BqError('UNSUPPORTED', `a v1 file needs its companion: ${error.message}`, {
      cause: error,
      hint: 'put NAME.json beside NAME.bq4, or pass { companion: source }',
    });
  } finally {
    await file?.close();
  }
}
