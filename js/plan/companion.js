/**
 * The companion of a v1 file (docs/FORMAT.md §3): JSON that tells what the file does not, turned into the
 * sections that a v2 file has. Fetched only when a v1 file is met.
 */
import { fromBase64, tokenizerFromJson } from '../convert/companion-json.js';
import { encodeConfig } from '../convert/config.js';
import { encodeSections, section } from '../convert/frame.js';
import { encodeTokenizer } from '../convert/tokenizers/section.js';
import { BqError } from '../shared/errors.js';
import { fromFile, fromUrl, openSource } from '../sources/index.js';
import { readRange } from '../sources/read.js';

/** @import { Source } from '../shared/types.js' */

const encoder = new TextEncoder();

/** @param {string} what */
const malformed = (what) => new BqError('FORMAT', `the companion can't be used: ${what}`, { hint: 'see docs/FORMAT.md §3, or convert the model anew' });

/** The payload of XTRA. @param {Record<string, { dims: number[], f32: string }>} tensors */
function encodeExtra(tensors) {
  const entries = Object.entries(tensors).map(([name, { dims, f32 }]) => {
    const text = encoder.encode(name);
    const values = fromBase64(f32);
    if (!Array.isArray(dims) || values.length !== 4 * dims.reduce((product, dim) => product * dim, 1))
      throw malformed(`tensor "${name}" has ${values.length} bytes, not what its dims give`);
    const head = new DataView(new ArrayBuffer(1 + 4 * dims.length));
    head.setUint8(0, dims.length);
    dims.forEach((dim, i) => head.setUint32(1 + 4 * i, dim, true));
    return [Uint8Array.of(text.length & 255, text.length >> 8), text, new Uint8Array(head.buffer), values];
  });
  const parts = [new Uint8Array(new Uint32Array([entries.length]).buffer), ...entries.flat()];
  const payload = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    payload.set(part, at);
    at += part.length;
  }
  return payload;
}

/**
 * The companion's JSON as sections. FORMAT.
 * @param {Uint8Array} json
 * @param {string} name  of the companion, for messages
 * @returns {Uint8Array}
 */
export function encodeCompanion(json, name) {
  let c;
  try {
    c = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(json));
  } catch (cause) {
    throw new BqError('FORMAT', `${name} is no JSON`, { cause, hint: 'see docs/FORMAT.md §3' });
  }
  if (c?.bq4_companion !== 1 || !c.config) throw malformed(`${name} lacks "bq4_companion": 1 or "config"`);
  try {
    return encode(c);
  } catch (cause) {
    throw cause instanceof BqError ? cause : malformed(/** @type {Error} */ (cause).message);
  }
}

/** @param {any} c  the parsed JSON */
function encode(c) {
  const t = c.tokenizer ? tokenizerFromJson(c.tokenizer) : null;
  const counts = t ? { tokens: t.tokens.length, merges: t.merges.length } : {};
  return encodeSections([
    ...section('CONF', encodeConfig({ ...c.config, ...counts }), true),
    ...section('LICE', c.license),
    ...section('NAME', c.name),
    ...section('TOKN', t && encodeTokenizer(t)),
    ...section('CHAT', c.chat),
    ...section('TMPL', c.template),
    ...section('CARD', c.card),
    ...section('XTRA', c.tensors && encodeExtra(c.tensors)),
  ]);
}

/**
 * The companion of a v1 file: the one that was named, else NAME.json beside NAME.bq4, else none.
 * @param {Source} source
 * @returns {Source | null}
 */
export function companionOf(source) {
  if (source.companion) return source.companion;
  const beside = (/** @type {string} */ name) => name.replace(/\.[^./\\]*$/, '') + '.json';
  if (source.kind === 'file') return fromFile(beside(source.path));
  if (source.kind !== 'url') return null;
  const url = new URL(source.url);
  url.pathname = beside(url.pathname);
  return fromUrl(url);
}

/**
 * Fetches the companion; v2 sections. UNSUPPORTED: there is none.
 * @param {Source} source
 * @param {AbortSignal} [signal]
 */
export async function readCompanion(source, signal) {
  const where = companionOf(source);
  if (!where) throw new BqError('UNSUPPORTED', 'a v1 file says nothing about its model', { hint: 'pass its companion JSON: { companion: source }' });
  let file;
  try {
    file = await openSource(where, signal);
    return encodeCompanion(await readRange(file, 0, Infinity, signal), file.name);
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
