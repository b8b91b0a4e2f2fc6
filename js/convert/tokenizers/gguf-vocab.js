/** The tokenizer in a GGUF file's metadata (versions 2 and 3): SentencePiece ("llama") and byte-level BPE ("gpt2"). */
import { byteOf, fromAlphabet, fromPiece, fromUtf8, utf8 } from './bytes.js';
import { mergesFromPairs, splitMerge } from './merges.js';
import { FLAG, KIND, malformed, NONE, TOKEN, unsupported } from './section.js';
import { DEFAULT_SPLIT, splitOfGguf } from './split.js';

/** @typedef {import('./section.js').Tokenizer} Tokenizer */
/** @typedef {number | boolean | string | Value[]} Value @typedef {Record<string, any>} Metadata */

const HINT = 'SentencePiece BPE ("llama") and byte-level BPE ("gpt2") with the splits of GPT-2, Llama 3, Qwen 2 and SmolLM are read as yet';
/** Texts of control tokens that end a turn, where the metadata doesn't name them. */
const ENDS = ['<|endoftext|>', '<|end|>', '<|im_end|>', '<|eot_id|>', '<|eom_id|>', '<end_of_turn>', '<EOT>'];

/**
 * Metadata by key. Reads no further than it must: the tensors may be missing.
 * @param {Uint8Array} bytes  a file from its first byte on
 * @returns {Metadata}
 */
export function parseGgufMetadata(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const take = (/** @type {number} */ n) => {
    if (n > bytes.length - at) throw malformed(`the GGUF file ends within its metadata, at byte ${bytes.length}`);
    at += n;
    return at - n;
  };
  const u32 = () => view.getUint32(take(4), true);
  const u64 = () => Number(view.getBigUint64(take(8), true));
  const string = () => {
    const length = u64();
    const from = take(length);
    return fromUtf8(bytes.subarray(from, from + length));
  };
  /** Readers by type number. @type {(() => any)[]} */
  const scalars = [
    () => view.getUint8(take(1)), () => view.getInt8(take(1)),
    () => view.getUint16(take(2), true), () => view.getInt16(take(2), true),
    u32, () => view.getInt32(take(4), true), () => view.getFloat32(take(4), true),
    () => view.getUint8(take(1)) !== 0, string, () => { throw malformed('the GGUF file nests arrays'); },
    u64, () => Number(view.getBigInt64(take(8), true)), () => view.getFloat64(take(8), true),
  ];
  const reader = () => scalars[u32()] ?? (() => { throw malformed('the GGUF file has metadata of an unknown type'); });
  const array = () => {
    const read = reader();
    const count = u64();
    /** @type {any[]} */
    const values = [];
    while (values.length < count) values.push(read());
    return values;
  };
  if (bytes.length < 24 || fromUtf8(bytes.subarray(0, 4)) !== 'GGUF') throw malformed('it is no GGUF file');
  take(4);
  const version = u32();
  if (version !== 2 && version !== 3) throw unsupported(`GGUF version ${version}`, 'versions 2 and 3 are read');
  u64(); // tensors
  /** @type {Metadata} */
  const metadata = Object.create(null);
  for (let left = u64(); left > 0; left--) {
    const key = string();
    const type = view.getUint32(at < bytes.length - 3 ? at : take(4), true);
    if (type === 9) take(4);
    metadata[key] = type === 9 ? array() : reader()();
  }
  return metadata;
}

/**
 * @param {Metadata} metadata  of parseGgufMetadata
 * @returns {Tokenizer}
 */
export function tokenizerFromGguf(metadata) {
  const get = (/** @type {string} */ key) => metadata[`tokenizer.ggml.${key}`];
  const texts = get('tokens');
  if (!Array.isArray(texts) || !texts.every((text) => typeof text === 'string')) throw malformed('the GGUF file has no tokens');
  const bpe = get('model') === 'gpt2';
  if (!bpe && get('model') !== 'llama') throw unsupported(`the GGUF file's tokenizer is "${get('model')}"`, HINT);
  const split = bpe ? splitOfGguf(get('pre') ?? 'default') : DEFAULT_SPLIT;
  if (!split) throw unsupported(`the GGUF file splits text as "${get('pre')}"`, HINT);
  /** @type {number[]} */
  const types = get('token_type') ?? texts.map(() => 1);
  /** @type {number[]} */
  const scores = (bpe ? undefined : get('scores')) ?? texts.map(() => 0);
  if (types.length !== texts.length || scores.length !== texts.length) throw malformed('tokens, types and scores differ in number');
  const tokens = texts.map((text, i) => token(text, types[i] - 1, scores[i], bpe));
  const id = (/** @type {string} */ name) => get(`${name}_token_id`) ?? NONE;
  const eos = id('eos');
  const ends = [eos, id('eot'), id('eom'), ...ENDS.map((end) => texts.indexOf(end)).filter((i) => tokens[i]?.kind === TOKEN.control)];
  const flag = (/** @type {string} */ key, /** @type {number} */ bit, /** @type {boolean} */ otherwise) => ((get(key) ?? otherwise) ? bit : 0);
  return {
    kind: bpe ? KIND.bpe : KIND.spm,
    flags: flag('add_bos_token', FLAG.addBos, !bpe) | flag('add_eos_token', FLAG.addEos, false) |
      (bpe ? 0 : flag('add_space_prefix', FLAG.addSpace, true)) |
      (tokens.some(({ kind }) => kind === TOKEN.byte) ? FLAG.byteFallback : 0),
    split,
    bos: id('bos'), eos, unk: id('unknown'), pad: id('padding'),
    eog: [...new Set(ends)].filter((end) => end !== NONE),
    tokens,
    merges: bpe ? mergesFromPairs((get('merges') ?? []).map(splitMerge), new Map(texts.map((text, i) => [text, i]))) : [],
  };
}

/**
 * @param {string} text
 * @param {number} kind
 * @param {number} score
 * @param {boolean} bpe
 * @returns {import('./section.js').Token}
 */
function token(text, kind, score, bpe) {
  const byte = kind === TOKEN.byte ? byteOf(text) : undefined;
  if (byte !== undefined) return { bytes: Uint8Array.of(byte), score, kind };
  if (bpe) return { bytes: kind === TOKEN.normal ? fromAlphabet(text) : utf8(text), score, kind };
  return { bytes: fromPiece(text), score, kind };
}
