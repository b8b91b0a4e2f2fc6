// The committed tokenizers of tests/golden/tokenizers and what their originals make of texts.
import { readFileSync } from 'node:fs';
import { byteOf, fromPiece } from '../../js/convert/tokenizers/bytes.js';
import { parseHfTokenizer } from '../../js/convert/tokenizers/hf-json.js';
import { FLAG, KIND, NONE } from '../../js/convert/tokenizers/section.js';

/** @typedef {import('../../js/convert/tokenizers/section.js').Tokenizer} Tokenizer */
/**
 * encode: the ids are those of the text; decode: the text is that of the ids.
 * @typedef {{ text: string, ids: number[], encode?: boolean, decode?: boolean, parseSpecial?: boolean, addSpecial?: boolean }} Case
 */

/** @param {string} name */
const read = (name) => JSON.parse(readFileSync(new URL(`../golden/tokenizers/${name}.json`, import.meta.url), 'utf8'));

/** @param {string} name @returns {Case[]} */
export function goldenCases(name) {
  /** @type {{ cases: [string, number[], boolean?][], decoded: [number[], string][] }} */
  const { cases, decoded } = read(name);
  return [
    ...cases.map(([text, ids, parseSpecial = false]) => ({ text, ids, parseSpecial, encode: true })),
    ...decoded.map(([ids, text]) => ({ text, ids, decode: true })),
  ];
}

/** @param {any} made @returns {Tokenizer} */
function spm({ pieces, bos, eos, unk, add_space: addSpace, byte_fallback: fallback }) {
  const tokens = pieces.map((/** @type {[string, number, number]} */ [piece, score, type]) => {
    const byte = type === 6 ? byteOf(piece) : undefined;
    return { bytes: byte === undefined ? fromPiece(piece) : Uint8Array.of(byte), score, kind: type - 1 };
  });
  const flags = (addSpace ? FLAG.addSpace : 0) | (fallback ? FLAG.byteFallback : 0);
  return { kind: KIND.spm, flags, pre: 0, bos, eos, unk, pad: NONE, eog: [eos], tokens, merges: [] };
}

/** @param {string} name */
export function goldenTokenizer(name) {
  const made = read(name);
  const tokenizer = made.kind === 'spm' ? spm(made) : parseHfTokenizer(JSON.stringify(made.tokenizer));
  return { tokenizer, cases: goldenCases(name) };
}
