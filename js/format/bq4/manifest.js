/**
 * The manifest of a file that is no v2 file (docs/FORMAT.md §4): what its host knows of it, as the sections that a v2
 * file has. The engine reads the file by it and looks at none of its other bytes.
 */
import { encodeConfig } from './config.js';
import { encodeDirectory, encodeSections, section } from './frame.js';
import { countsOf, encodeTokenizer } from '../../text/tokenizers/section.js';

/**
 * A tensor in the file.
 * @typedef {object} ListedTensor
 * @property {string} name    of the name table (docs/FORMAT.md, TENS)
 * @property {import('./weight-types.js').WeightType} type
 * @property {number} layout  ROWS, TILED or FLAT of convert/weights.js
 * @property {readonly number[]} dims
 * @property {number} offset  in the file; any, but no two overlap
 * @property {number} bytes
 */

/**
 * @typedef {object} Description
 * @property {Record<string, any>} config  as people write it: convert/config.js
 * @property {readonly ListedTensor[]} tensors  in any order
 * @property {{ name: string, dims: readonly number[], values: Uint8Array }[]} [extra]  tensors that are not in the file:
 *   their f32 values, little-endian
 * @property {import('../../text/tokenizers/section.js').Tokenizer | null} [tokenizer]
 * @property {string} [name]
 * @property {string} [license]
 * @property {object | null} [chat]
 * @property {string} [template]
 * @property {string} [card]
 * @property {Uint8Array} [id]  16 bytes that stand for this file; without one, what a session saves belongs to no file
 */

const encoder = new TextEncoder();

/** The payload of XTRA. @param {NonNullable<Description['extra']>} tensors */
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
 * FORMAT: a configuration or a name that no file could have. The rest is checked where it is used.
 * @param {Description} description
 * @returns {Uint8Array}
 */
export const encodeManifest = (description) => encodeSections(manifestSections(description));

/** The same, section by section. @param {Description} description */
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
    ...section('XTRA', extra?.length ? encodeExtra(extra) : null),
    ...section('FILE', texts.id),
  ];
}
