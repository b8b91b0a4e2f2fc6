/**
 * Encodes the manifest of a file in another format (docs/FORMAT.md §4): the sections that a v2 file of the same model
 * would have. The C engine reads the model's description from the manifest, and only the tensors' data from the file
 * itself.
 */
import { encodeConfig } from './config.js';
import { encodeDirectory, encodeSections, section } from './frame.js';
import { countsOf, encodeTokenizer } from '../../text/tokenizers/section.js';

/**
 * A tensor stored in the file.
 * @typedef {object} ListedTensor
 * @property {string} name    canonical name (docs/FORMAT.md, TENS)
 * @property {import('./weight-types.js').WeightType} type
 * @property {number} layout  ROWS, TILED or FLAT of weight-types.js
 * @property {readonly number[]} dims
 * @property {number} offset  byte offset in the file; no two tensors overlap
 * @property {number} bytes
 */

/**
 * @typedef {object} Description
 * @property {Record<string, any>} config  configuration in its readable form (config.js)
 * @property {readonly ListedTensor[]} tensors  in any order
 * @property {{ name: string, dims: readonly number[], values: Uint8Array }[]} [extra]  tensors that are not in the
 *   file, with their values as little-endian f32
 * @property {import('../../text/tokenizers/section.js').Tokenizer | null} [tokenizer]
 * @property {string} [name]
 * @property {string} [license]
 * @property {object | null} [chat]
 * @property {string} [template]
 * @property {string} [card]
 * @property {object | null} [meta]  a ModelMeta
 * @property {Uint8Array} [id]  16 bytes that identify the file; without them saved sessions are not tied to this file
 */

const encoder = new TextEncoder();

/** Encodes the payload of XTRA. @param {NonNullable<Description['extra']>} tensors */
function encodeExtra(tensors) {
  const entries = tensors.map(({ name, dims, values }) => {
    const text = encoder.encode(name);
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
 * Encodes the manifest. Throws FORMAT for an invalid configuration or name; the C engine checks the rest.
 * @param {Description} description
 * @returns {Uint8Array}
 */
export const encodeManifest = (description) => encodeSections(manifestSections(description));

/** Returns the manifest's sections. @param {Description} description */
export function manifestSections({ config, tensors, extra, tokenizer, ...texts }) {
  const counts = tokenizer ? countsOf(tokenizer) : {};
  return [
    ...section('CONF', encodeConfig({ ...config, ...counts }), true),
    ...section('LICE', texts.license),
    ...section('NAME', texts.name),
    ...section('TENS', encodeDirectory(tensors), true),
    ...section('TOKN', tokenizer && encodeTokenizer(tokenizer)),
    ...section('CHAT', texts.chat),
    ...section('TMPL', texts.template),
    ...section('CARD', texts.card),
    ...section('META', texts.meta),
    ...section('XTRA', extra?.length ? encodeExtra(extra) : null),
    ...section('FILE', texts.id),
  ];
}
