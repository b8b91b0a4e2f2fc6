/**
 * Writes the section TOKN (docs/FORMAT.md): the form of tokenizers in bq4 files, independent of their original format.
 */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { DEFAULT_SPLIT, encodeSplit, isSplit, SPLIT_ITEM_BYTES } from './split.js';

export const KIND = Object.freeze({ spm: 1, bpe: 2, wordlist: 3, unigram: 4, wordpiece: 5 });
export const FLAG = Object.freeze({
  addBos: 1,
  addEos: 2,
  addSpace: 4,
  byteFallback: 8,
  ignoreMerges: 16,
  dropSpace: 32,
  characters: 64,
  fuseUnknown: 128,
  double: 256,
});
export const TOKEN = Object.freeze({ normal: 0, unknown: 1, control: 2, user: 3, unused: 4, byte: 5 });
/** Types of parts: steps that change or split text, and parameters of the tokenizer. */
export const PART = Object.freeze({
  map: 1,
  prefix: 2,
  spaces: 3,
  charsmap: 4,
  order: 5,
  compose: 6,
  replace: 7,
  trim: 8,
  stage: 16,
  words: 17,
  rules: 18,
});
/** Stands for "no such token". */
export const NONE = 0xffffffff;

/**
 * @typedef {object} Token
 * @property {Uint8Array} bytes  raw bytes: SPM's ▁ as a space, byte-level alphabets decoded
 * @property {number} score      0 unless SPM
 * @property {number} kind       value of TOKEN
 */

/**
 * A step that changes or splits text before it becomes tokens, or a parameter of the tokenizer (docs/FORMAT.md, TOKN).
 * @typedef {{ type: number, bytes: Uint8Array }} Part
 */

/**
 * How two texts are joined for a classifier of pairs: token ids before, between and after them, and whether the tokens
 * of the second text have the second token type. Or a template: a text with {query} and {document}.
 * @typedef {{ before: number[], between: number[], after: number[], types: boolean } | { template: string }} PairFormat
 */

/**
 * A tokenizer as the section stores it.
 * @typedef {object} Tokenizer
 * @property {number} kind   value of KIND
 * @property {number} flags  bits of FLAG
 * @property {string} [split]  for byte-level BPE: name in split.js of the way in which text is split into words.
 *   Default: that of GPT-2
 * @property {Part[]} [parts]  replaces `split`
 * @property {number} bos    id or NONE; the same for eos, unk and pad
 * @property {number} eos
 * @property {number} unk
 * @property {number} pad
 * @property {number[]} eog  ids that end generation
 * @property {PairFormat} [pair]  how two texts are joined; not stored in the section
 * @property {Token[]} tokens
 * @property {[left: number, right: number, id: number][]} merges  in rank order; byte-level BPE only
 * @property {Packed} [packed]  tokens and merges in packed form. If present, `tokens` and `merges` are computed from it
 *   on demand
 */

/**
 * Tokens and merges in the layout of the section. For a vocabulary of 262,144 tokens, creating an object for each token
 * would take longer than parsing the file.
 * @typedef {object} Packed
 * @property {Uint8Array} text    bytes of all tokens
 * @property {Uint32Array} ends   end offset of each token in `text`
 * @property {Float32Array} scores
 * @property {Uint8Array} kinds
 * @property {Uint32Array} merges  three ids for each merge
 */

/** Size of the header, in bytes. */
const HEADER = 44;

/**
 * Encodes the payload of the section. Throws FORMAT, with the id of the token, for a tokenizer that C would reject.
 * @param {Tokenizer} tokenizer
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function encodeTokenizer(tokenizer) {
  const { kind, flags, split = DEFAULT_SPLIT, parts, bos, eos, unk, pad, eog } = tokenizer;
  const packed = tokenizer.packed ?? pack(tokenizer);
  const { text, ends, scores, kinds, merges } = packed;
  check(tokenizer, packed);
  const [E, V] = [eog.length, ends.length];
  const program = parts ? undefined : encodeSplit(split);
  const partBytes = parts && encodeParts(parts);
  const arraysAt = HEADER + (program ? 8 + program.length : (partBytes?.length ?? 0));
  const kindsAt = arraysAt + 4 * E + 8 * V;
  const mergesAt = Math.ceil((kindsAt + V) / 4) * 4;
  const textAt = mergesAt + 4 * merges.length;
  const out = new Uint8Array(textAt + text.length);
  const view = new DataView(out.buffer);
  let at = 0;
  const u32 = (/** @type {number} */ value) => {
    view.setUint32(at, value, true);
    at += 4;
  };
  [kind, flags, program ? 1 : parts ? 2 : 0, bos, eos, unk, pad, E, V, merges.length / 3, text.length].forEach(u32);
  if (program) {
    [0, program.length / SPLIT_ITEM_BYTES].forEach(u32);
    out.set(program, at);
  }
  if (partBytes) out.set(partBytes, at);
  at = arraysAt;
  eog.forEach(u32);
  ends.forEach(u32);
  scores.forEach((score, i) => view.setFloat32(at + 4 * i, score, true));
  out.set(kinds, kindsAt);
  at = mergesAt;
  merges.forEach(u32);
  out.set(text, textAt);
  return out;
}

/**
 * Packs tokens and merges. Throws FORMAT if a kind or a merge is invalid.
 * @param {Tokenizer} tokenizer @returns {Packed}
 */
function pack({ tokens, merges }) {
  const text = new Uint8Array(tokens.reduce((sum, { bytes }) => sum + bytes.length, 0));
  const ends = new Uint32Array(tokens.length);
  let end = 0;
  tokens.forEach(({ bytes, kind }, id) => {
    if (!Number.isInteger(kind) || kind < TOKEN.normal || kind > TOKEN.byte) throw badKind(id, kind);
    text.set(bytes, end);
    ends[id] = end += bytes.length;
  });
  const flat = new Uint32Array(3 * merges.length);
  merges.forEach((merge, rank) => {
    if (!Array.isArray(merge) || merge.length !== 3 || !merge.every(Number.isInteger)) throw badMerge(rank);
    flat.set(merge, 3 * rank); // a negative number becomes a large one, which `check` rejects
  });
  const [scores, kinds] = [tokens.map(({ score }) => score), tokens.map(({ kind }) => kind)];
  return { text, ends, scores: Float32Array.from(scores), kinds: Uint8Array.from(kinds), merges: flat };
}

/** Returns the numbers of tokens and merges. @param {Tokenizer} tokenizer */
export const countsOf = (tokenizer) =>
  tokenizer.packed
    ? { tokens: tokenizer.packed.ends.length, merges: tokenizer.packed.merges.length / 3 }
    : { tokens: tokenizer.tokens.length, merges: tokenizer.merges.length };

/** Unpacks tokens. @param {Packed} packed @returns {Token[]} */
export const tokensOf = ({ text, ends, scores, kinds }) =>
  Array.from(ends, (end, i) => ({
    bytes: text.subarray(i ? ends[i - 1] : 0, end),
    score: scores[i],
    kind: kinds[i],
  }));

/** Unpacks merges. @param {Packed} packed @returns {Tokenizer['merges']} */
export const mergesOfPacked = ({ merges }) =>
  Array.from({ length: merges.length / 3 }, (_, i) => [merges[3 * i], merges[3 * i + 1], merges[3 * i + 2]]);

/** @param {Part[]} parts */
function encodeParts(parts) {
  const out = new Uint8Array(parts.reduce((sum, { bytes }) => sum + 8 + bytes.length, 4));
  const view = new DataView(out.buffer);
  view.setUint32(0, parts.length, true);
  let at = 4;
  for (const { type, bytes } of parts) {
    view.setUint32(at, type, true);
    view.setUint32(at + 4, bytes.length, true);
    out.set(bytes, at + 8);
    at += 8 + bytes.length;
  }
  return out;
}

/** @param {number} id @param {number} kind */
const badKind = (id, kind) => malformed(`token ${id} has the unknown kind ${kind}`);
/** @param {number} rank */
const badMerge = (rank) => malformed(`merge ${rank} names a token that does not exist`);

/** Throws FORMAT if a tokenizer is invalid. @param {Tokenizer} t @param {Packed} packed */
function check(t, { text, ends, scores, kinds, merges }) {
  const count = ends.length;
  const isId = (/** @type {number} */ id) => Number.isInteger(id) && id >= 0 && id < count;
  const { split = DEFAULT_SPLIT } = t;
  if (!isSplit(split) || (split !== DEFAULT_SPLIT && t.kind !== KIND.bpe))
    throw malformed(`unknown split ${JSON.stringify(split)}`);
  if (!count) throw malformed('it has no tokens');
  for (const [name, id] of Object.entries({ bos: t.bos, eos: t.eos, unk: t.unk, pad: t.pad })) {
    if (id !== NONE && !isId(id)) throw malformed(`${name} is ${shown(id)}, but there are ${count} tokens`);
  }
  const ender = t.eog.find((id) => !isId(id));
  if (ender !== undefined) throw malformed(`${shown(ender)} ends generation, but there are ${count} tokens`);
  for (let id = 0; id < count; id++) {
    if (Number.isNaN(scores[id])) throw malformed(`the score of token ${id} is not a number`);
    if (kinds[id] > TOKEN.byte) throw badKind(id, kinds[id]);
    const bytes = ends[id] - (id ? ends[id - 1] : 0);
    if (kinds[id] === TOKEN.byte && bytes !== 1) throw malformed(`byte token ${id} has ${bytes} bytes`);
  }
  for (let rank = 0; 3 * rank < merges.length; rank++) {
    const [left, right, whole] = [merges[3 * rank], merges[3 * rank + 1], merges[3 * rank + 2]];
    if (left >= count || right >= count || whole >= count) throw badMerge(rank);
    if (!joins(text, ends, left, right, whole))
      throw malformed(`merge ${rank} does not result in the text of its token ${whole}`);
  }
}

/**
 * Whether the text of the token `whole` consists of the texts of `left` and `right`.
 * @param {Uint8Array} text @param {Uint32Array} ends @param {number} left @param {number} right @param {number} whole
 */
function joins(text, ends, left, right, whole) {
  const from = (/** @type {number} */ id) => (id ? ends[id - 1] : 0);
  const [a, b, c] = [from(left), from(right), from(whole)];
  const [lengthA, lengthB] = [ends[left] - a, ends[right] - b];
  if (ends[whole] - c !== lengthA + lengthB) return false;
  for (let i = 0; i < lengthA; i++) if (text[c + i] !== text[a + i]) return false;
  for (let i = 0; i < lengthB; i++) if (text[c + lengthA + i] !== text[b + i]) return false;
  return true;
}

/** Creates the error for an invalid tokenizer. @param {string} problem */
export function malformed(problem) {
  return new BqError('FORMAT', `invalid tokenizer: ${problem}`, {
    hint: 'download the tokenizer again, or use the one of the model it belongs to',
  });
}

/** Creates the error for a tokenizer that is not supported. @param {string} message @param {string} hint */
export function unsupported(message, hint) {
  return new BqError('UNSUPPORTED', message, { hint });
}
