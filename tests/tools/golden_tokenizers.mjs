// The committed tokenizers of tests/golden/tokenizers and what their originals make of texts.
import { readFileSync } from 'node:fs';
import { byteOf, fromPiece } from '../../js/text/tokenizers/bytes.js';
import { parseHfTokenizer } from '../../js/text/tokenizers/hf-json.js';
import { FLAG, KIND, NONE, TOKEN } from '../../js/text/tokenizers/section.js';

/** @typedef {import('../../js/text/tokenizers/section.js').Tokenizer} Tokenizer */
/**
 * encode: the ids are those of the text; decode: the text is that of the ids; words: they are no ids, but the bytes
 * at which words end.
 * @typedef {{ text: string, ids: number[], encode?: boolean, decode?: boolean, words?: boolean, parseSpecial?: boolean,
 *   addSpecial?: boolean }} Case
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
  return { kind: KIND.spm, flags, bos, eos, unk, pad: NONE, eog: [eos], tokens, merges: [] };
}

/**
 * Ways to cut text into words, each as a tokenizer of bytes alone, and where words end in texts.
 * @returns {{ name: string, tokenizer: Tokenizer, cases: Case[] }[]}
 */
export function goldenSplits() {
  /** @type {{ names: string[], cases: [string, ...number[][]][] }} */
  const { names, cases } = read('splits');
  const tokens = Array.from({ length: 256 }, (_, byte) => ({
    bytes: Uint8Array.of(byte),
    score: 0,
    kind: TOKEN.normal,
  }));
  return names.map((name, i) => ({
    name,
    tokenizer: {
      kind: KIND.bpe,
      flags: 0,
      split: name,
      bos: NONE,
      eos: NONE,
      unk: NONE,
      pad: NONE,
      eog: [],
      tokens,
      merges: [],
    },
    cases: cases.map(([text, ...ends]) => ({ text, ids: ends[i], words: true })),
  }));
}

/** @param {string} name */
export function goldenTokenizer(name) {
  const output = read(name);
  const tokenizer = output.kind === 'spm' ? spm(output) : parseHfTokenizer(JSON.stringify(output.tokenizer));
  return { tokenizer, cases: goldenCases(name) };
}
