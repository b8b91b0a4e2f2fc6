/** Converts a tokenizer to and from the JSON of a v1 file's sidecar (docs/FORMAT.md §3). */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { fromBase64 } from '../../text/tokenizers/bytes.js';
import { FLAG, KIND, NONE } from '../../text/tokenizers/section.js';
import { DEFAULT_SPLIT } from '../../text/tokenizers/split.js';

/** @typedef {import('../../text/tokenizers/section.js').Tokenizer} Tokenizer */

/** Bits of the tokenizer's flags by their key in the JSON. @type {Record<string, number>} */
const FLAGS = {
  add_bos: FLAG.addBos,
  add_eos: FLAG.addEos,
  add_space: FLAG.addSpace,
  byte_fallback: FLAG.byteFallback,
  ignore_merges: FLAG.ignoreMerges,
  drop_space: FLAG.dropSpace,
  characters: FLAG.characters,
  fuse_unknown: FLAG.fuseUnknown,
  double: FLAG.double,
};
const IDS = /** @type {const} */ (['bos', 'eos', 'unk', 'pad']);

/** @param {Uint8Array} bytes */
export function toBase64(bytes) {
  let text = '';
  for (let at = 0; at < bytes.length; at += 4096) text += String.fromCharCode(...bytes.subarray(at, at + 4096));
  return btoa(text);
}

/** @param {Tokenizer} t @returns {Record<string, any>} */
export function tokenizerToJson(t) {
  return {
    kind: Object.entries(KIND).find(([, value]) => value === t.kind)?.[0],
    ...Object.fromEntries(
      Object.entries(FLAGS)
        .filter(([, bit]) => t.flags & bit)
        .map(([name]) => [name, true]),
    ),
    ...(t.split && t.split !== DEFAULT_SPLIT ? { split: t.split } : {}),
    ...(t.parts ? { parts: t.parts.map(({ type, bytes }) => [type, toBase64(bytes)]) } : {}),
    ...Object.fromEntries(IDS.filter((name) => t[name] !== NONE).map((name) => [name, t[name]])),
    eog: t.eog,
    tokens: t.tokens.map(({ bytes, score, kind }) => [toBase64(bytes), score, kind]),
    merges: t.merges,
  };
}

/** @param {unknown} parts @param {(problem: string) => BqError} invalid */
function partsFromJson(parts, invalid) {
  if (!Array.isArray(parts)) throw invalid('has "parts", which is not a list');
  return parts.map((part) => {
    const [type, bytes] = Array.isArray(part) ? part : [];
    if (typeof type !== 'number' || typeof bytes !== 'string' || !/^[A-Za-z0-9+/]*={0,2}$/.test(bytes))
      throw invalid('has a malformed part');
    return { type, bytes: fromBase64(bytes) };
  });
}

/**
 * Converts JSON to a tokenizer. Missing keys get their defaults: EOS is token 0, the other special tokens are absent.
 * Throws FORMAT.
 * @param {Record<string, any>} json
 * @returns {Tokenizer}
 */
export function tokenizerFromJson(json) {
  const invalid = (/** @type {string} */ problem) =>
    new BqError('FORMAT', `the sidecar config's tokenizer ${problem}`, { hint: 'see docs/FORMAT.md §3' });
  if (!Object.hasOwn(KIND, json.kind)) throw invalid(`has the unknown kind ${shown(json.kind)}`);
  if (!Array.isArray(json.tokens)) throw invalid('has no list "tokens"');
  for (const name of ['eog', 'merges'])
    if (json[name] !== undefined && !Array.isArray(json[name])) throw invalid(`has "${name}", which is not a list`);
  const eos = json.eos ?? 0;
  return {
    kind: KIND[/** @type {keyof typeof KIND} */ (json.kind)],
    flags: Object.entries(FLAGS).reduce((bits, [name, bit]) => (json[name] ? bits | bit : bits), 0),
    ...(json.split === undefined ? {} : { split: json.split }),
    ...(json.parts === undefined ? {} : { parts: partsFromJson(json.parts, invalid) }),
    bos: json.bos ?? NONE,
    eos,
    unk: json.unk ?? NONE,
    pad: json.pad ?? NONE,
    eog: json.eog ?? [eos],
    tokens: json.tokens.map((/** @type {unknown} */ token, /** @type {number} */ i) => {
      const [text, score = 0, kind = 0] = Array.isArray(token) ? token : [token];
      if (typeof text !== 'string' || typeof score !== 'number' || typeof kind !== 'number')
        throw invalid(`has a malformed token ${i}: expected [base64, score, kind]`);
      try {
        return { bytes: fromBase64(text), score, kind };
      } catch (cause) {
        throw new BqError('FORMAT', `token ${i} of the sidecar config is not base64`, { cause });
      }
    }),
    merges: json.merges ?? [],
  };
}
