// The committed tokenizers of tests/golden/tokenizers, with the tokens that the original libraries give for texts.
import { readFileSync } from 'node:fs';
import { byteOf, fromPiece } from '../../js/text/tokenizers/bytes.js';
import { parseHfTokenizer } from '../../js/text/tokenizers/hf-json.js';
import { FLAG, KIND, NONE, TOKEN } from '../../js/text/tokenizers/section.js';

/** @typedef {import('../../js/text/tokenizers/section.js').Tokenizer} Tokenizer */
/**
 * A text and its tokens. encode: the text is to be encoded to `ids`; decode: `ids` are to be decoded to the text; words: `ids` are not
 * tokens, but the offsets in bytes at which words end.
 * @typedef {{ text: string, ids: number[], encode?: boolean, decode?: boolean, words?: boolean, parseSpecial?: boolean,
 *   addSpecial?: boolean }} Case
 */

/** @param {string} name */
const readGolden = (name) =>
  JSON.parse(readFileSync(new URL(`../golden/tokenizers/${name}.json`, import.meta.url), 'utf8'));

/** The texts and tokens of a committed tokenizer. @param {string} name @returns {Case[]} */
export function goldenCases(name) {
  /** @type {{ cases: [string, number[], boolean?][], decoded: [number[], string][] }} */
  const { cases, decoded } = readGolden(name);
  return [
    ...cases.map(([text, ids, parseSpecial = false]) => ({ text, ids, parseSpecial, encode: true })),
    ...decoded.map(([ids, text]) => ({ text, ids, decode: true })),
  ];
}

/** A SentencePiece tokenizer from its JSON (tests/golden/make_custom.py). @param {any} json @returns {Tokenizer} */
function spmTokenizer({ pieces, bos, eos, unk, add_space: addSpace, byte_fallback: fallback }) {
  const tokens = pieces.map((/** @type {[string, number, number]} */ [piece, score, type]) => {
    const byte = type === 6 ? byteOf(piece) : undefined;
    return { bytes: byte === undefined ? fromPiece(piece) : Uint8Array.of(byte), score, kind: type - 1 };
  });
  const flags = (addSpace ? FLAG.addSpace : 0) | (fallback ? FLAG.byteFallback : 0);
  return { kind: KIND.spm, flags, bos, eos, unk, pad: NONE, eog: [eos], tokens, merges: [] };
}

/**
 * The pre-tokenizers, each in a tokenizer whose only tokens are bytes, and the ends of words in texts.
 * @returns {{ name: string, tokenizer: Tokenizer, cases: Case[] }[]}
 */
export function goldenSplits() {
  /** @type {{ names: string[], cases: [string, ...number[][]][] }} */
  const { names, cases } = readGolden('splits');
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

/** A committed tokenizer and its cases. @param {string} name */
export function goldenTokenizer(name) {
  const json = readGolden(name);
  const tokenizer = json.kind === 'spm' ? spmTokenizer(json) : parseHfTokenizer(JSON.stringify(json.tokenizer));
  return { tokenizer, cases: goldenCases(name) };
}
