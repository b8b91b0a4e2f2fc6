/**
 * The sidecar of a v1 file (option `companion`, docs/FORMAT.md §3): a JSON file with the configuration, tokenizer and
 * chat format, which v1 files cannot contain. Imported only for v1 files.
 */
import { tokenizerFromJson } from './companion-json.js';
import { fromBase64 } from '../../text/tokenizers/bytes.js';
import { BqError } from '../../shared/errors.js';
import { object, text } from '../../shared/checks.js';
import { shown } from '../../shared/quote-value.js';
import { openSource } from '../../storage/sources/index.js';
import { withPath } from '../../storage/sources/kinds.js';
import { readRange } from '../../storage/sources/read.js';

/** @import { Source } from '../../shared/types.js' */
/** @import { Description } from './manifest.js' */

/** @param {string} reason */
const malformed = (reason) =>
  new BqError('FORMAT', `the sidecar config of the v1 file is invalid: ${reason}`, {
    hint: 'see docs/FORMAT.md §3, or convert the model again',
  });

/**
 * Decodes the tensors that a sidecar contains. Throws FORMAT.
 * @param {Record<string, { dims: number[], f32: string }>} tensors
 */
const decodeTensors = (tensors) =>
  Object.entries(tensors).map(([name, { dims, f32 }]) => {
    const values = fromBase64(f32);
    if (
      !Array.isArray(dims) ||
      !dims.every((dim) => Number.isInteger(dim) && dim > 0) ||
      values.length !== 4 * dims.reduce((product, dim) => product * dim, 1)
    )
      throw malformed(`tensor "${name}" has ${values.length} bytes, which do not match its dims ${shown(dims)}`);
    return { name, dims, values };
  });

/**
 * Parses the JSON of a sidecar. Throws FORMAT.
 * @param {Uint8Array} json
 * @param {string} name  name of the file, for messages
 * @returns {Omit<Description, 'tensors'>}
 */
export function parseCompanion(json, name) {
  let c;
  try {
    c = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(json));
  } catch (cause) {
    throw new BqError('FORMAT', `${name} is not valid JSON`, { cause, hint: 'see docs/FORMAT.md §3' });
  }
  if (c?.bq4_companion !== 1 || !c.config) throw malformed(`${name} lacks "bq4_companion": 1 or "config"`);
  const { config, license, chat, template, card } = c;
  if (object(config)) throw malformed(`"config" is ${shown(config)}, not an object`);
  if (chat && object(chat)) throw malformed(`"chat" is ${shown(chat)}, not an object`);
  for (const key of ['name', 'license', 'template', 'card'])
    if (![undefined, null].includes(c[key]) && text(c[key]))
      throw malformed(`"${key}" is ${shown(c[key])}, not a string`);
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
      extra: c.tensors && decodeTensors(c.tensors),
    };
  } catch (cause) {
    throw cause instanceof BqError ? cause : malformed(/** @type {Error} */ (cause).message);
  }
}

/**
 * Returns the sidecar of a v1 file: the caller's `companion`, otherwise NAME.json in the folder of NAME.bq4. Null for a
 * source without a name.
 * @param {Source} source
 * @returns {Source | null}
 */
export function companionOf(source) {
  if (source.companion) return source.companion;
  return withPath(source, (path) => path.replace(/\.[^./\\]*$/, '') + '.json');
}

/**
 * Reads the sidecar of a v1 file. Throws UNSUPPORTED if there is none.
 * @param {Source} source
 * @param {AbortSignal} [signal]
 */
export async function readCompanion(source, signal) {
  const sidecar = companionOf(source);
  if (!sidecar)
    throw new BqError('UNSUPPORTED', 'a v1 file has no configuration of its model; it needs a sidecar config (JSON)', {
      hint: 'pass { companion: source }',
    });
  let file;
  try {
    file = await openSource(sidecar, signal);
    return parseCompanion(await readRange(file, 0, Infinity, signal), file.name);
  } catch (error) {
    signal?.throwIfAborted();
    if (!(error instanceof BqError) || !['READ', 'HTTP_STATUS', 'NETWORK'].includes(error.code)) throw error;
    throw new BqError('UNSUPPORTED', `a v1 file needs its sidecar config: ${error.message}`, {
      cause: error,
      hint: 'put NAME.json next to NAME.bq4, or pass { companion: source }',
    });
  } finally {
    await file?.close();
  }
}
