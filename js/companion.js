/**
 * The companion of a v1 file (docs/FORMAT.md §3): JSON that tells what the file does not, turned into the
 * sections that a v2 file has. Fetched only when a v1 file is met.
 */
import { encodeConfig } from './convert/config.js';
import { encodeTokenizer } from './convert/tokenizers/section.js';
import { BqError } from './errors.js';

const encoder = new TextEncoder();

/** @param {string} text */
const fromBase64 = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

/** A section: tag, flags 0, length, payload, padding to 8. @param {string} tag @param {Uint8Array} payload */
function section(tag, payload) {
  const bytes = new Uint8Array(16 + Math.ceil(payload.length / 8) * 8);
  bytes.set(encoder.encode(tag));
  new DataView(bytes.buffer).setUint32(8, payload.length, true);
  bytes.set(payload, 16);
  return bytes;
}

/** @param {Uint8Array[]} parts */
function join(parts) {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/**
 * XTRA: u32 number of tensors, then per tensor u16 name length, name, u8 ndims, ndims × u32 dims, f32 values.
 * @param {Record<string, { dims: number[], f32: string }>} tensors
 */
function encodeExtra(tensors) {
  const parts = [new Uint8Array(new Uint32Array([Object.keys(tensors).length]).buffer)];
  for (const [name, { dims, f32 }] of Object.entries(tensors)) {
    const text = encoder.encode(name);
    const head = new Uint8Array(2 + text.length + 1 + 4 * dims.length);
    const view = new DataView(head.buffer);
    view.setUint16(0, text.length, true);
    head.set(text, 2);
    view.setUint8(2 + text.length, dims.length);
    dims.forEach((dim, i) => view.setUint32(3 + text.length + 4 * i, dim, true));
    const values = fromBase64(f32);
    if (values.length !== 4 * dims.reduce((product, dim) => product * dim, 1))
      throw new BqError('SHAPE', `tensor "${name}" of the companion has ${values.length} bytes, not what ${dims.join(' × ')} gives`);
    parts.push(head, values);
  }
  return join(parts);
}

/**
 * FORMAT, SHAPE.
 * @param {Uint8Array} json
 * @param {string} name  of the companion, for messages
 * @returns {{ bytes: Uint8Array, name: string, license: string }}
 */
export function encodeCompanion(json, name) {
  let c;
  try {
    c = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(json));
  } catch (cause) {
    throw new BqError('FORMAT', `${name} is no JSON`, { cause });
  }
  if (c?.bq4_companion !== 1 || typeof c.config !== 'object')
    throw new BqError('FORMAT', `${name} is no companion of a v1 file`, { hint: 'it needs "bq4_companion": 1 and "config", see docs/FORMAT.md §3' });
  const t = c.tokenizer;
  const counts = t ? { tokens: t.tokens?.length, merges: t.merges?.length ?? 0 } : {};
  const parts = [section('CONF', encodeConfig({ ...c.config, ...counts }))];
  // EOS is 0 when the companion is silent.
  if (t) parts.push(section('TOKN', encodeTokenizer({ eos: 0, ...t, tokens: t.tokens.map((/** @type {[string, number?, number?]} */ [text, ...rest]) => [fromBase64(text), ...rest]) })));
  if (c.chat) parts.push(section('CHAT', encoder.encode(JSON.stringify(c.chat))));
  if (c.tensors && Object.keys(c.tensors).length) parts.push(section('XTRA', encodeExtra(c.tensors)));
  return { bytes: join(parts), name: String(c.name ?? ''), license: String(c.license ?? '') };
}
