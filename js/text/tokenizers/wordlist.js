/** Vocabularies that are only a list of texts: vocab.txt, with one text in each line, and those of .bullet files. */
import { byteOf, fromUtf8, utf8 } from './bytes.js';
import { KIND, NONE, TOKEN, unsupported } from './section.js';

/** @import { Token, Tokenizer } from './section.js' */

/** Common texts of special tokens. The first one that the list contains is used. */
const SPECIAL = {
  bos: ['<s>', '<bos>', '<|begin_of_text|>', '<|startoftext|>', '[BOS]'],
  eos: ['</s>', '<eos>', '<|endoftext|>', '<|end_of_text|>', '<|im_end|>', '[EOS]'],
  unk: ['<unk>', '[UNK]'],
  pad: ['<pad>', '[PAD]'],
};
/** Notation of bytes that are not UTF-8. */
const BYTES = /^(<0x[0-9A-Fa-f]{2}>)+$/;

/**
 * Returns the text of a token for such a list, or its bytes in the notation of BYTES if they are not UTF-8.
 * @param {Token} token
 */
export function listedText({ bytes, kind }) {
  const text = fromUtf8(bytes);
  const plain = kind !== TOKEN.byte && !text.includes('\ufffd');
  return plain ? text : Array.from(bytes, (byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`).join('');
}

/** @param {string} text @param {number} kind @returns {Token} */
function tokenOf(text, kind) {
  if (!BYTES.test(text)) return { bytes: utf8(text), score: 0, kind };
  const bytes = Uint8Array.from(text.match(/<.{4}>/g) ?? [], (one) => byteOf(one) ?? 0);
  return { bytes, score: 0, kind: bytes.length === 1 ? TOKEN.byte : kind };
}

/**
 * Returns a tokenizer that repeatedly consumes the longest token at the beginning of the text. Special tokens are
 * recognized by their common texts.
 * @param {readonly string[]} texts  by id
 * @returns {Tokenizer}
 */
export function wordList(texts) {
  const ids = new Map(texts.map((text, id) => [text, id]));
  const idOf = (/** @type {string[]} */ names) =>
    names.map((name) => ids.get(name)).find((id) => id !== undefined) ?? NONE;
  const [bos, eos, unk, pad] = [SPECIAL.bos, SPECIAL.eos, SPECIAL.unk, SPECIAL.pad].map(idOf);
  const controls = new Set([...SPECIAL.bos, ...SPECIAL.eos, ...SPECIAL.pad]);
  const kindOf = (/** @type {string} */ text, /** @type {number} */ id) =>
    id === unk ? TOKEN.unknown : controls.has(text) ? TOKEN.control : TOKEN.normal;
  const tokens = texts.map((text, id) => tokenOf(text, kindOf(text, id)));
  return { kind: KIND.wordlist, flags: 0, bos, eos, unk, pad, eog: eos === NONE ? [] : [eos], tokens, merges: [] };
}

/**
 * Parses vocab.txt, with a token per line. Throws UNSUPPORTED for a vocabulary of WordPiece.
 * @param {string} text @returns {Tokenizer}
 */
export function parseVocabTxt(text) {
  const lines = text.split(/\r?\n/);
  if (lines.at(-1) === '') lines.pop();
  if (lines.includes('[CLS]'))
    throw unsupported(
      'vocab.txt is a WordPiece vocabulary, not a list of words',
      'pass the tokenizer.json of the model',
    );
  return wordList(lines);
}
