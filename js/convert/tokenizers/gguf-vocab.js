/** The tokenizer in a GGUF file's metadata (versions 2 and 3). */
import { byteOf, fromAlphabet, fromPiece, utf8 } from './bytes.js';
import { mergesFromPairs, splitMerge } from './merges.js';
import { FLAG, KIND, malformed, NONE, TOKEN, unsupported } from './section.js';
import { stage } from './hf-split.js';
import { bertParts, charsmapPart, composed, spacesPart } from './normalizers.js';
import { EXPRESSIONS, PATTERNS, patternNamed } from './patterns.js';
import { bertStages, longestWord } from './wordpiece.js';

/** @typedef {import('./section.js').Tokenizer} Tokenizer */

const MODELS =
  'run are "gpt2" (byte-level BPE), "llama" (SentencePiece BPE), "t5" (SentencePiece unigram), "bert" (WordPiece), "gemma4"';
/** Texts of control tokens that end a turn, where the metadata doesn't name them. */
const ENDS = ['<|endoftext|>', '<|end|>', '<|im_end|>', '<|eot_id|>', '<|eom_id|>', '<end_of_turn>', '<EOT>'];

/** What a kind of tokenizer makes of its metadata. @typedef {Pick<Tokenizer, 'kind' | 'flags' | 'split' | 'parts'> & { bytes: (text: string) => Uint8Array, bos?: boolean, eos?: boolean }} Kind */

/** @param {(key: string) => any} get @returns {Kind} */
function byteLevel(get) {
  const name = get('pre') ?? 'gpt-2';
  const pattern = patternNamed(name);
  if (!pattern)
    throw unsupported(
      `the GGUF file splits text as "${name}"`,
      `run are ${PATTERNS.flatMap(({ names }) => names).join(', ')}`,
    );
  const { split, nfc, whole, bos } = pattern;
  const stages = () => (pattern.stages ?? EXPRESSIONS[/** @type {string} */ (split)]).map((source) => stage(source));
  return {
    kind: KIND.bpe,
    flags: whole ? FLAG.ignoreMerges : 0,
    bos,
    bytes: fromAlphabet,
    ...(split && !nfc ? { split } : { parts: [...(nfc ? composed() : []), ...stages()] }),
  };
}

/** @param {(key: string) => any} get @returns {Kind} */
const sentencePiece = (get) => ({
  kind: KIND.spm,
  flags: (get('add_space_prefix') ?? true) ? FLAG.addSpace : 0,
  bos: true,
  bytes: fromPiece,
});

/** @param {(key: string) => any} get @returns {Kind} */
function unigram(get) {
  const map = get('precompiled_charsmap');
  const rows = get('remove_extra_whitespaces') ?? true;
  return {
    kind: KIND.unigram,
    flags: (get('add_space_prefix') ?? true) ? FLAG.addSpace : 0,
    eos: true,
    bytes: fromPiece,
    parts: [
      ...(map ? charsmapPart(Uint8Array.from(map)) : []),
      ...(rows ? [spacesPart({ before: true, behind: true, rows })] : []),
    ],
  };
}

/** Its tokens are written with ▁ where a word begins. @param {(key: string) => any} get @returns {Kind} */
function wordpiece(get) {
  const lower = get('normalizer.lowercase') ?? true;
  const accents = get('normalizer.strip_accents') ?? lower;
  return {
    kind: KIND.wordpiece,
    flags: FLAG.dropSpace,
    bos: true,
    eos: true,
    bytes: fromPiece,
    parts: [...bertParts({ clean: true, chinese: true, accents, lower }), ...bertStages(), longestWord(100)],
  };
}

/** @returns {Kind} */
const gemma4 = () => ({
  kind: KIND.bpe,
  flags: FLAG.characters,
  bos: true,
  bytes: fromPiece,
  parts: [stage('[^\\n]+|[\\n]+')],
});

/** @type {Record<string, (get: (key: string) => any) => Kind>} */
const KINDS = { gpt2: byteLevel, llama: sentencePiece, t5: unigram, bert: wordpiece, gemma4 };

/**
 * @param {Record<string, any>} metadata  of js/sources/gguf-header.js
 * @returns {Tokenizer}
 */
export function tokenizerFromGguf(metadata) {
  const get = (/** @type {string} */ key) => metadata[`tokenizer.ggml.${key}`];
  /** @type {string[]} */
  const texts = get('tokens');
  if (!Array.isArray(texts) || !texts.every((text) => typeof text === 'string'))
    throw malformed('the GGUF file has no tokens');
  const model = get('model');
  if (!Object.hasOwn(KINDS, model)) throw unsupported(`the GGUF file's tokenizer is "${model}"`, MODELS);
  const { bytes: bytesOf, bos: addsBos = false, eos: addsEos = false, flags, ...kind } = KINDS[model](get);
  /** @type {ArrayLike<number> | undefined} */
  const types = get('token_type');
  /** @type {ArrayLike<number> | undefined} */
  const scores = kind.kind === KIND.spm || kind.kind === KIND.unigram ? get('scores') : undefined;
  if ((types && types.length !== texts.length) || (scores && scores.length !== texts.length))
    throw malformed('tokens, types and scores differ in number');
  const tokens = texts.map((text, i) =>
    token(text, types ? types[i] - 1 : TOKEN.normal, scores ? scores[i] : 0, bytesOf),
  );
  const id = (/** @type {string} */ name) => get(`${name}_token_id`) ?? NONE;
  const [bos, eos] =
    model === 'bert'
      ? [get('cls_token_id') ?? id('bos'), get('seperator_token_id') ?? get('separator_token_id') ?? id('eos')]
      : [id('bos'), id('eos')];
  const ends = [
    id('eos'),
    id('eot'),
    id('eom'),
    ...ENDS.map((end) => texts.indexOf(end)).filter((i) => tokens[i]?.kind === TOKEN.control),
  ];
  const flag = (/** @type {string} */ key, /** @type {number} */ bit, /** @type {boolean} */ otherwise) =>
    (get(key) ?? otherwise) ? bit : 0;
  const fallback = tokens.some(({ kind: own }) => own === TOKEN.byte) ? FLAG.byteFallback : 0;
  /** @type {unknown} */
  const lines = get('merges') ?? [];
  // An empty list may be one of numbers.
  if (!Array.isArray(lines) && !ArrayBuffer.isView(lines)) throw malformed('its merges are no list of texts');
  const merges = kind.kind === KIND.bpe ? mergesOf(Array.from(/** @type {ArrayLike<string>} */ (lines)), texts) : [];
  return {
    ...kind,
    flags: flags | flag('add_bos_token', FLAG.addBos, addsBos) | flag('add_eos_token', FLAG.addEos, addsEos) | fallback,
    bos,
    eos,
    pad: id('padding'),
    // Bytes without a token are left out, by the originals too.
    unk: model === 'gpt2' ? NONE : id('unknown'),
    eog: [...new Set(ends)].filter((end) => end !== NONE),
    tokens,
    merges,
  };
}

/** @param {string[]} lines @param {string[]} texts  of tokens */
function mergesOf(lines, texts) {
  /** @type {Map<string, number>} */
  const ids = new Map();
  for (let id = 0; id < texts.length; id++) ids.set(texts[id], id);
  return mergesFromPairs(lines.map(splitMerge), ids, ids.size === texts.length ? texts : undefined);
}

/**
 * @param {string} text
 * @param {number} kind
 * @param {number} score
 * @param {(text: string) => Uint8Array} bytesOf  of normal tokens
 * @returns {import('./section.js').Token}
 */
function token(text, kind, score, bytesOf) {
  const byte = kind === TOKEN.byte ? byteOf(text) : undefined;
  if (byte !== undefined) return { bytes: Uint8Array.of(byte), score, kind };
  const special = kind !== TOKEN.normal && bytesOf === fromAlphabet;
  return { bytes: special ? utf8(text) : bytesOf(text), score, kind };
}
