/**
 * Parses tokenizer.bin of llama2.c: u32 length of the longest text, then for each token f32 score, u32 length, and the
 * text.
 */
import { byteOf, fromUtf8, utf8 } from './bytes.js';
import { FLAG, KIND, malformed, NONE, TOKEN } from './section.js';

/** @typedef {import('./section.js').Tokenizer} Tokenizer */
/** @typedef {import('./section.js').Token} Token */

const [UNK, BOS, EOS] = [0, 1, 2];

/**
 * Parses the file. Throws FORMAT. The file does not specify special tokens; they are the first three, as in
 * SentencePiece. Generation ends at EOS, and also at BOS, because BOS begins the next text in the training data.
 * @param {Uint8Array} bytes
 * @param {number} count  vocabulary size of the model; the file does not contain the number of tokens
 * @returns {Tokenizer}
 */
export function parseLlama2c(bytes, count) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  /** @type {Token[]} */
  const tokens = [];
  let at = 4;
  while (tokens.length < count) {
    if (at + 8 > bytes.length) throw malformed(`it ends after ${tokens.length} of ${count} tokens`);
    const score = view.getFloat32(at, true);
    const length = view.getUint32(at + 4, true);
    if (length > bytes.length - at - 8) throw malformed(`token ${tokens.length} is longer than the rest of the file`);
    tokens.push(token(tokens.length, bytes.slice(at + 8, at + 8 + length), score));
    at += 8 + length;
  }
  if (at !== bytes.length) throw malformed(`${bytes.length - at} bytes follow its ${count} tokens`);
  return {
    kind: KIND.spm,
    flags: FLAG.addBos | FLAG.addSpace | FLAG.byteFallback,
    bos: BOS,
    eos: EOS,
    unk: UNK,
    pad: NONE,
    eog: [BOS, EOS],
    tokens,
    merges: [],
  };
}

/**
 * @param {number} id
 * @param {Uint8Array} bytes
 * @param {number} score
 * @returns {Token}
 */
function token(id, bytes, score) {
  // The exporter adds line breaks around BOS and EOS ("\n<s>\n") to make them visible in printed text.
  if (id === BOS || id === EOS) return { bytes: utf8(fromUtf8(bytes).trim()), score, kind: TOKEN.control };
  if (id === UNK) return { bytes, score, kind: TOKEN.unknown };
  const byte = bytes.length === 6 ? byteOf(fromUtf8(bytes)) : undefined;
  if (byte !== undefined) return { bytes: Uint8Array.of(byte), score, kind: TOKEN.byte };
  return { bytes, score, kind: TOKEN.normal };
}
