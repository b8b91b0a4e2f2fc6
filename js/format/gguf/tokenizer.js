/** Reads the tokenizer from the metadata of a GGUF file (keys tokenizer.ggml.*). */
import { StringList } from './string-list.js';
import { shown } from '../../shared/quote-value.js';
import { byteOf } from '../../text/tokenizers/bytes.js';
import { mergesOf, writeLetters, writePiece, writeUnchanged } from './token-strings.js';
import {
  FLAG,
  KIND,
  malformed,
  mergesOfPacked,
  NONE,
  TOKEN,
  tokensOf,
  unsupported,
} from '../../text/tokenizers/section.js';
import { stage } from '../../text/tokenizers/hf-split.js';
import {
  addedParts,
  bertParts,
  charsmapPart,
  composed,
  spacesPart,
  writtenParts,
} from '../../text/tokenizers/normalizers.js';
import { EXPRESSIONS, PATTERNS, patternNamed } from '../../text/tokenizers/patterns.js';
import { bertStages, longestWord } from '../../text/tokenizers/wordpiece.js';

/** @import { Writer } from './token-strings.js' */
/** @typedef {import('../../text/tokenizers/section.js').Tokenizer} Tokenizer */
/** @typedef {import('../../text/tokenizers/section.js').Packed} Packed */

const SUPPORTED_MODELS =
  'expected "gpt2" (byte-level BPE), "llama" (SentencePiece BPE), "t5" (SentencePiece unigram), "bert" (WordPiece) or "gemma4"';
/**
 * Tokens that end a turn or a file even if the metadata does not declare them, by their texts, with the least special
 * type that they need: some files declare tokens that no text has as normal ones; "</s>" may be an added token of HTML.
 * @type {Map<string, number>}
 */
const END_TOKENS = new Map(
  /** @type {[number, string][]} */ ([
    [
      TOKEN.normal,
      '<|endoftext|> <|end|> <|im_end|> <|eot_id|> <|eom_id|> <|eot|> <|end_of_text|> <|return|> <|call|> <|calls|> <|flush|> ' +
        '<|ifm|im_end|> <end_of_turn> <end_of_utterance> <turn|> <|tool_response> <｜end▁of▁sentence｜> ' +
        '<|fim_pad|> <|fim_repo|> <|repo_name|> <|file_sep|>',
    ],
    [TOKEN.user, '<EOT> _<EOT> [EOT] [EOS] [e~[ <fim-pad> <fim_pad> <fim-repo> <reponame>'],
    [TOKEN.control, '</s> <eos>'],
  ]).flatMap(([kind, texts]) => texts.split(' ').map((text) => /** @type {[string, number]} */ ([text, kind]))),
);
/** First bytes of END_TOKENS, and the largest number of bytes of one. */
const [END_TOKEN_STARTS, END_TOKEN_BYTES] = [[...'<[_'].map((c) => c.charCodeAt(0)), 32];
/** Pre-tokenizers of older files without tokenizer.ggml.pre, by architecture. @type {Record<string, string>} */
const DEFAULT_PRE_TOKENIZERS = {
  qwen2: 'qwen2',
  qwen2moe: 'qwen2',
  falcon: 'falcon',
  bloom: 'bloom',
  gptneox: 'olmo',
  mpt: 'mpt',
  starcoder: 'starcoder',
  starcoder2: 'starcoder',
  stablelm: 'stablelm2',
  'command-r': 'command-r',
  olmo: 'olmo',
};
/**
 * The same for the architecture "llama", by the number of tokens: Llama 3, DeepSeek Coder, DeepSeek LLM.
 * @type {Record<number, string>}
 */
const LLAMA_PRE_TOKENIZERS = { 128256: 'llama-bpe', 32256: 'deepseek-coder', 102400: 'deepseek-llm' };

/**
 * Returns the name of the pre-tokenizer of a file that does not specify it.
 * @param {string} architecture @param {number} size  number of tokens
 */
function defaultPreTokenizer(architecture, size) {
  if (architecture === 'llama') return LLAMA_PRE_TOKENIZERS[size] ?? 'gpt-2';
  return Object.hasOwn(DEFAULT_PRE_TOKENIZERS, architecture) ? DEFAULT_PRE_TOKENIZERS[architecture] : 'gpt-2';
}

/**
 * Properties of a kind of tokenizer, read from its metadata.
 * - `write`: decodes normal tokens.
 * - `bos`, `eos`: whether the token is added to a text if the metadata does not specify it.
 * - `alwaysBos`: whether BOS is added even if the metadata denies it, as the metadata of older converters does.
 * @typedef {Pick<Tokenizer, 'kind' | 'flags' | 'split' | 'parts'> & {
 *   write: Writer, bos?: boolean, eos?: boolean, alwaysBos?: boolean
 * }} Kind
 */

/**
 * Default ids of special tokens, as in llama.cpp, for ids that the metadata omits or that are not in the vocabulary.
 * The defaults of byte-level vocabularies (both 11) are used only for control tokens, since 11 is an ordinary word in
 * most vocabularies.
 * @type {Record<string, Record<string, number>>}
 */
const DEFAULT_IDS = {
  llama: { bos: 1, eos: 2, unknown: 0 },
  t5: { eos: 1, unknown: 2, padding: 0 },
  bert: { bos: 101, eos: 102, unknown: 100, padding: 0 },
  gpt2: { bos: 11, eos: 11 },
};

/** @param {(key: string) => any} get @param {string} architecture @returns {Kind} */
function byteLevel(get, architecture) {
  const name = get('pre') ?? defaultPreTokenizer(architecture, get('tokens').length);
  const pattern = patternNamed(name);
  if (!pattern)
    throw unsupported(
      `the GGUF file has the unsupported pre-tokenizer "${name}"`,
      `expected one of ${PATTERNS.flatMap(({ names }) => names).join(', ')}`,
    );
  const { split, whole, bos } = pattern;
  const nfc = get('normalizer.nfc') ?? pattern.nfc;
  const stages = () => (pattern.stages ?? EXPRESSIONS[/** @type {string} */ (split)]).map((source) => stage(source));
  return {
    kind: KIND.bpe,
    flags: whole ? FLAG.ignoreMerges : 0,
    bos,
    write: writeLetters,
    ...(split && !nfc ? { split } : { parts: [...(nfc ? composed() : []), ...stages()] }),
  };
}

/** @param {(key: string) => any} get @returns {Kind} */
const sentencePiece = (get) => ({
  kind: KIND.spm,
  flags: (get('add_space_prefix') ?? true) ? FLAG.addSpace : 0,
  bos: true,
  write: writePiece,
});

/** @param {(key: string) => any} get @returns {Kind} */
function unigram(get) {
  const map = get('precompiled_charsmap');
  const removesRepeated = get('remove_extra_whitespaces') ?? false;
  return {
    kind: KIND.unigram,
    flags: get('add_space_prefix') ? FLAG.addSpace : 0,
    eos: true,
    write: writePiece,
    parts: [
      ...(get('normalizer.nfc') ? composed() : []),
      ...(map ? charsmapPart(Uint8Array.from(map)) : []),
      ...(removesRepeated ? [spacesPart({ atStart: true, atEnd: true, repeated: true })] : []),
    ],
  };
}

/**
 * In GGUF files a WordPiece token at the beginning of a word starts with ▁.
 * @param {(key: string) => any} get @returns {Kind}
 */
function wordpiece(get) {
  const lower = get('normalizer.lowercase') ?? true;
  const accents = get('normalizer.strip_accents') ?? lower;
  return {
    kind: KIND.wordpiece,
    flags: FLAG.dropSpace,
    bos: true,
    eos: true,
    write: writePiece,
    parts: [...bertParts({ clean: true, chinese: true, accents, lower }), ...bertStages(), longestWord(100)],
  };
}

/** Pre-tokenizers of files with the tokenizer "gpt2" that is that of Gemma 4. */
const GEMMA4_PRE_TOKENIZERS = ['gemma4', 'granite-embed-multi-311m'];

/** Throws UNSUPPORTED. @param {(key: string) => any} get @returns {Kind} */
function gemma4(get) {
  const scheme = get('metaspace.prepend_scheme') ?? 'never';
  if (scheme !== 'never')
    throw unsupported(
      `tokenizer.ggml.metaspace.prepend_scheme is ${shown(scheme)}, which is not supported for this tokenizer`,
      'expected "never"',
    );
  return {
    kind: KIND.bpe,
    flags: FLAG.characters,
    bos: true,
    write: writePiece,
    parts: [stage('[^\\n]+|[\\n]+')],
    alwaysBos: true,
  };
}

/** @type {Record<string, (get: (key: string) => any, architecture: string) => Kind>} */
const KINDS = { gpt2: byteLevel, llama: sentencePiece, t5: unigram, bert: wordpiece, gemma4 };

/** Boolean keys of tokenizers. */
const FLAGS = new Set([
  ...['add_bos_token', 'add_eos_token', 'add_sep_token', 'add_space_prefix', 'remove_extra_whitespaces'],
  ...['normalizer.nfc', 'normalizer.lowercase', 'normalizer.strip_accents'],
]);

/**
 * Returns the value of a tokenizer's key. Throws FORMAT if a flag is neither true nor false, or if the id of a token is
 * not a number.
 * @param {string} key @param {any} value
 */
function checkedValue(key, value) {
  if (value === undefined) return value;
  const invalid = (/** @type {string} */ expected) =>
    malformed(`tokenizer.ggml.${key} is ${shown(value)}: expected ${expected}`);
  // Some converters store flags as 0 and 1.
  if (FLAGS.has(key) && ![true, false, 0, 1].includes(value)) throw invalid('true or false');
  if (key.endsWith('_token_id') && typeof value !== 'number') throw invalid('an integer');
  return value;
}

/** Reads the merges of a tokenizer. @param {(key: string) => any} get @param {number} kind @param {StringList} texts */
function readMerges(get, kind, texts) {
  const lines = get('merges') ?? [];
  if (kind === KIND.bpe && get('merges') === undefined)
    throw malformed('the GGUF file has no tokenizer.ggml.merges, which encoding needs');
  // An empty list may have any type.
  if (!(lines instanceof StringList) && lines.length !== 0)
    throw malformed('tokenizer.ggml.merges is not a list of strings');
  return kind === KIND.bpe && lines.length ? mergesOf(lines, texts) : new Uint32Array();
}

/**
 * Reads the ids of special tokens, and those of tokens that end a text.
 * @param {(key: string) => any} get @param {string} model @param {StringList} texts
 * @param {Uint8Array} kinds  kinds of tokens @param {number[]} ends  ids of tokens that end a text by their names
 */
function readSpecialIds(get, model, texts, kinds, ends) {
  const defaultId = (/** @type {string} */ name) => {
    const value = DEFAULT_IDS[model]?.[name];
    return model === 'gpt2' && kinds[value] !== TOKEN.control ? undefined : value;
  };
  // Some files have ids that are not in the vocabulary.
  const id = (/** @type {string[]} */ ...names) =>
    [...names.map((name) => get(`${name}_token_id`)), ...names.map(defaultId)].find(
      (value) => value >= 0 && value < texts.length,
    ) ?? NONE;
  const [bos, eos] =
    model === 'bert' ? [id('cls', 'bos'), id('seperator', 'separator', 'eos')] : [id('bos'), id('eos')];
  const eog = [id('eos'), id('eot'), id('eom'), id('fim_pad'), id('fim_rep'), id('fim_sep'), ...ends];
  return {
    bos,
    eos,
    pad: id('padding'),
    // Like the original tokenizers, byte-level ones omit bytes that have no token.
    unk: model === 'gpt2' ? NONE : id('unknown'),
    eog: [...new Set(eog)].filter((end) => end !== NONE),
  };
}

/**
 * Reads the tokenizer. Throws FORMAT, UNSUPPORTED.
 * @param {Record<string, any>} metadata  metadata from header.js
 * @returns {Tokenizer}
 */
export function tokenizerFromGguf(metadata) {
  const get = (/** @type {string} */ key) => checkedValue(key, metadata[`tokenizer.ggml.${key}`]);
  const texts = get('tokens');
  if (!(texts instanceof StringList)) throw malformed('the GGUF file has no list of strings tokenizer.ggml.tokens');
  const isGemma4 = get('model') === 'gpt2' && GEMMA4_PRE_TOKENIZERS.includes(get('pre'));
  const model = isGemma4 ? 'gemma4' : get('model');
  if (!Object.hasOwn(KINDS, model))
    throw unsupported(`the GGUF file has the unsupported tokenizer "${model}"`, SUPPORTED_MODELS);
  const architecture = metadata['general.architecture'];
  const {
    write,
    bos: addsBos = false,
    eos: addsEos = false,
    alwaysBos = false,
    flags,
    ...kind
  } = KINDS[model](get, architecture);
  /** @type {ArrayLike<number> | undefined} */
  const types = get('token_type');
  /** @type {ArrayLike<number> | undefined} */
  const scores = kind.kind === KIND.spm || kind.kind === KIND.unigram ? get('scores') : undefined;
  if ((types && types.length !== texts.length) || (scores && scores.length !== texts.length))
    throw malformed(
      `${texts.length} tokens, ${types?.length ?? 'no'} types and ${scores?.length ?? 'no'} scores: expected the same number of each`,
    );
  const vocabulary = packedTokens(texts, types, scores, write);
  const { kinds } = vocabulary;
  const marks = model === 'gemma4' ? marksOf(vocabulary) : [];
  for (const mark of marks) kinds[mark] = TOKEN.normal;
  const merges = readMerges(get, kind.kind, texts);
  const ends = endTokensOf(texts, kinds, merges);
  for (const end of ends) if (kinds[end] === TOKEN.normal) kinds[end] = TOKEN.control;
  const ids = readSpecialIds(get, model, texts, kinds, ends);
  const flag = (/** @type {string} */ key, /** @type {number} */ bit, /** @type {boolean} */ defaultValue) =>
    (get(key) ?? defaultValue) ? bit : 0;
  const packed = { ...vocabulary, merges };
  const parts = [
    ...(kind.parts ?? []),
    ...(kind.kind === KIND.spm
      ? addedParts(spacedOf(vocabulary), architecture === 'phi3' ? strippingOf(texts, kinds) : [])
      : writtenParts(marks)),
  ];
  return {
    ...kind,
    ...(parts.length ? { parts } : {}),
    flags:
      flags |
      (alwaysBos ? FLAG.addBos : flag('add_bos_token', FLAG.addBos, addsBos)) |
      flag(model === 'bert' ? 'add_sep_token' : 'add_eos_token', FLAG.addEos, addsEos) |
      (kinds.includes(TOKEN.byte) ? FLAG.byteFallback : 0),
    ...ids,
    pair: pairOf(architecture, model, ids.bos, ids.eos, get('add_sep_token')),
    get tokens() {
      return tokensOf(packed);
    },
    get merges() {
      return mergesOfPacked(packed);
    },
    packed,
  };
}

/**
 * Returns how two texts are joined for a classifier. Models with WordPiece mark the second text with token types and
 * separate the texts with one token. ModernBERT also has one token. Other models have two tokens if the file has
 * add_sep_token. Older files of RoBERTa, with the architecture "bert", have two without that key.
 * @param {string} architecture @param {string} model @param {number} bos @param {number} eos
 * @param {boolean} [addSeparator]
 */
function pairOf(architecture, model, bos, eos, addSeparator = architecture === 'bert') {
  const single = model === 'bert' || architecture === 'modern-bert' || !addSeparator;
  return { before: [bos], between: single ? [eos] : [eos, eos], after: [eos], types: model === 'bert' };
}

/** Returns the ids of added tokens that contain a space. @param {Omit<Packed, 'merges'>} vocabulary */
const spacedOf = ({ text, ends, kinds }) =>
  [...kinds.keys()].filter((i) => kinds[i] === TOKEN.user && text.subarray(ends[i - 1] ?? 0, ends[i]).includes(32));

/** Special tokens of Phi-3 and 3.5 that absorb the white space after them, which GGUF files do not declare. */
const STRIPPING = /^(<\/s>|<\|(assistant|system|user|end|placeholder\d+)\|>)$/;

/**
 * Returns the ids of Phi-3's tokens that absorb the white space after them.
 * @param {StringList} texts @param {Uint8Array} kinds
 */
const strippingOf = (texts, kinds) =>
  [...kinds.keys()].filter(
    (i) => (kinds[i] === TOKEN.control || kinds[i] === TOKEN.user) && STRIPPING.test(texts.at(i)),
  );

/**
 * Returns the ids of added tokens that consist of ▁ only (Gemma). Merging spaces also produces them: they are normal
 * tokens for which the text is also searched.
 * @param {Omit<Packed, 'merges'>} vocabulary
 */
const marksOf = ({ text, ends, kinds }) =>
  [...kinds.keys()].filter((i) => {
    const tokenBytes = text.subarray(ends[i - 1] ?? 0, ends[i]);
    return kinds[i] === TOKEN.user && tokenBytes.length > 0 && tokenBytes.every((byte) => byte === 32);
  });

/**
 * Returns the ids of END_TOKENS. A normal token that merges produce is a piece of ordinary text.
 * @param {StringList} texts @param {Uint8Array} kinds @param {Uint32Array} merges  three ids for each merge
 * @returns {number[]}
 */
const endTokensOf = (texts, kinds, merges) =>
  [...kinds.keys()].filter((i) => {
    const [from, to] = [texts.starts[i], texts.ends[i]];
    // Only few texts are decoded, since a vocabulary may have 262,144.
    if (to - from > END_TOKEN_BYTES || !END_TOKEN_STARTS.includes(texts.bytes[from])) return false;
    const least = END_TOKENS.get(texts.at(i));
    if (least === undefined) return false;
    if (kinds[i] === TOKEN.normal && merges.some((id, at) => id === i && at % 3 === 2)) return false;
    return kinds[i] === TOKEN.control || kinds[i] === least || (kinds[i] === TOKEN.user && least === TOKEN.normal);
  });

/**
 * @param {StringList} texts
 * @param {ArrayLike<number> | undefined} types  GGUF's token types, from 1
 * @param {ArrayLike<number> | undefined} scores
 * @param {Writer} write  decodes normal tokens
 * @returns {Omit<Packed, 'merges'>}
 */
function packedTokens(texts, types, scores, write) {
  const count = texts.length;
  // No token decodes to more bytes than its string has.
  const text = new Uint8Array(texts.ends.reduce((sum, end, i) => sum + end - texts.starts[i], 0));
  const [ends, kinds] = [new Uint32Array(count), new Uint8Array(count)];
  for (let i = 0, end = 0; i < count; i++) {
    const kind = types ? types[i] - 1 : TOKEN.normal;
    if (!(kind >= TOKEN.normal && kind <= TOKEN.byte)) throw malformed(`token ${i} has the unknown type ${types?.[i]}`);
    const byte = kind === TOKEN.byte ? byteOf(texts.at(i)) : undefined;
    const special = kind !== TOKEN.normal && write === writeLetters;
    if (byte === undefined) end = (special ? writeUnchanged : write)(texts, i, text, end);
    else text[end++] = byte;
    [ends[i], kinds[i]] = [end, kind];
  }
  const unscored = Array.prototype.findIndex.call(scores ?? [], Number.isNaN);
  if (unscored >= 0) throw malformed(`the score of token ${unscored} is NaN`);
  return {
    text: text.subarray(0, ends[count - 1] ?? 0),
    ends,
    scores: Float32Array.from(scores ?? { length: count }, (score) => score ?? 0),
    kinds,
  };
}
