/** Writes a TOKN section (docs/FORMAT.md, "TOKN"): where every tokenizer that we read from elsewhere ends up. */
import { BqError } from '../../shared/errors.js';
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
/** Types of parts. */
export const PART = Object.freeze({
  map: 1,
  prefix: 2,
  spaces: 3,
  charsmap: 4,
  order: 5,
  compose: 6,
  replace: 7,
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
 * @property {number} kind       of TOKEN
 */

/**
 * How text is changed and cut before it becomes tokens: a step, in order, or a number (docs/FORMAT.md, TOKN).
 * @typedef {{ type: number, bytes: Uint8Array }} Part
 */

/**
 * A tokenizer as the section stores it.
 * @typedef {object} Tokenizer
 * @property {number} kind   of KIND
 * @property {number} flags  bits of FLAG
 * @property {string} [split]  byte-level BPE: how text is cut into words, a name of split.js; GPT-2's by default
 * @property {Part[]} [parts]  instead of `split`
 * @property {number} bos    id or NONE, as eos, unk and pad
 * @property {number} eos
 * @property {number} unk
 * @property {number} pad
 * @property {number[]} eog  ids that end generation
 * @property {Token[]} tokens
 * @property {[left: number, right: number, id: number][]} merges  in rank order; byte-level BPE only
 */

const HEADER = 44;

/**
 * The section's payload. A tokenizer that C would refuse is refused here, with the name of the token.
 * @param {Tokenizer} tokenizer
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function encodeTokenizer(tokenizer) {
  check(tokenizer);
  const { kind, flags, split = DEFAULT_SPLIT, parts, bos, eos, unk, pad, eog, tokens, merges } = tokenizer;
  const textBytes = tokens.reduce((sum, { bytes }) => sum + bytes.length, 0);
  const [E, V, M] = [eog.length, tokens.length, merges.length];
  const program = parts ? undefined : encodeSplit(split);
  const partBytes = parts && encodeParts(parts);
  const arraysAt = HEADER + (program ? 8 + program.length : (partBytes?.length ?? 0));
  const kindsAt = arraysAt + 4 * E + 8 * V;
  const mergesAt = Math.ceil((kindsAt + V) / 4) * 4;
  const textAt = mergesAt + 12 * M;
  const out = new Uint8Array(textAt + textBytes);
  const view = new DataView(out.buffer);
  let at = 0;
  const u32 = (/** @type {number} */ value) => {
    view.setUint32(at, value, true);
    at += 4;
  };
  [kind, flags, program ? 1 : parts ? 2 : 0, bos, eos, unk, pad, E, V, M, textBytes].forEach(u32);
  if (program) {
    [0, program.length / SPLIT_ITEM_BYTES].forEach(u32);
    out.set(program, at);
  }
  if (partBytes) out.set(partBytes, at);
  at = arraysAt;
  eog.forEach(u32);
  let end = 0;
  for (const { bytes } of tokens) u32((end += bytes.length));
  for (const { score } of tokens) {
    view.setFloat32(at, score, true);
    at += 4;
  }
  tokens.forEach((token, i) => {
    out[kindsAt + i] = token.kind;
  });
  at = mergesAt;
  for (const [left, right, id] of merges) {
    u32(left);
    u32(right);
    u32(id);
  }
  at = textAt;
  for (const { bytes } of tokens) {
    out.set(bytes, at);
    at += bytes.length;
  }
  return out;
}

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

/** @param {Tokenizer} t */
function check(t) {
  const isId = (/** @type {number} */ id) => Number.isInteger(id) && id >= 0 && id < t.tokens.length;
  const { split = DEFAULT_SPLIT } = t;
  if (!isSplit(split) || (split !== DEFAULT_SPLIT && t.kind !== KIND.bpe))
    throw malformed(`its way to cut text, ${JSON.stringify(split)}, is unknown`);
  if (!t.tokens.length) throw malformed('it has no tokens');
  for (const [name, id] of Object.entries({ bos: t.bos, eos: t.eos, unk: t.unk, pad: t.pad })) {
    if (id !== NONE && !isId(id)) throw malformed(`${name} is ${id}, but there are ${t.tokens.length} tokens`);
  }
  const ender = t.eog.find((id) => !isId(id));
  if (ender !== undefined) throw malformed(`${ender} ends generation, but there are ${t.tokens.length} tokens`);
  t.tokens.forEach(({ bytes, score, kind }, id) => {
    if (Number.isNaN(score)) throw malformed(`the score of token ${id} is no number`);
    if (!Number.isInteger(kind) || kind < TOKEN.normal || kind > TOKEN.byte)
      throw malformed(`token ${id} has the unknown kind ${kind}`);
    if (kind === TOKEN.byte && bytes.length !== 1) throw malformed(`byte token ${id} has ${bytes.length} bytes`);
  });
  // There may be half a million.
  for (let rank = 0; rank < t.merges.length; rank++) {
    const merge = t.merges[rank];
    if (!Array.isArray(merge) || merge.length !== 3 || !merge.every(isId))
      throw malformed(`merge ${rank} names a token that isn't there`);
    if (!joins(t.tokens[merge[0]].bytes, t.tokens[merge[1]].bytes, t.tokens[merge[2]].bytes))
      throw malformed(`merge ${rank} doesn't give the text of its token ${merge[2]}`);
  }
}

/** @param {Uint8Array} left @param {Uint8Array} right @param {Uint8Array} whole */
function joins(left, right, whole) {
  const [a, b] = [left.length, right.length];
  if (whole.length !== a + b) return false;
  for (let i = 0; i < a; i++) if (whole[i] !== left[i]) return false;
  for (let i = 0; i < b; i++) if (whole[a + i] !== right[i]) return false;
  return true;
}

/** @param {string} what */
export function malformed(what) {
  return new BqError('FORMAT', `the tokenizer can't be used: ${what}`, {
    hint: 'fetch the tokenizer again, or take it from the model it belongs to',
  });
}

/** @param {string} what @param {string} hint */
export function unsupported(what, hint) {
  return new BqError('UNSUPPORTED', what, { hint });
}
