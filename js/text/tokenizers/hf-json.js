/**
 * Parses tokenizer.json of Hugging Face: BPE, Unigram and WordPiece, with normalizers, pre-tokenizers and added tokens.
 */
import { BqError } from '../../shared/errors.js';
import { byteOf, fromAlphabetOrText, fromPiece, utf8 } from './bytes.js';
import { byId, HOLE, parseJson } from './gpt2.js';
import { addedList, changesText } from './hf-added-tokens.js';
import { marksSpaces, normalizerParts } from './hf-normalizer.js';
import { stage, stageParts, stepOf } from './hf-split.js';
import { mergesFromPairs, splitMerge } from './merges.js';
import { EXPRESSIONS } from './patterns.js';
import { FLAG, KIND, malformed, NONE, PART, TOKEN, unsupported } from './section.js';
import { namedSplit } from './split.js';
import { longestWord, WORDPIECE, wordpieceToken } from './wordpiece.js';

/** @typedef {import('./section.js').Part} Part */
/** @typedef {import('./section.js').Tokenizer} Tokenizer */
/** @typedef {import('./section.js').Token} Token */

/**
 * Names or ids of special tokens from the other files of a model's folder.
 * @typedef {object} Hints
 * @property {string | number | null} [bos]
 * @property {string | number | null} [eos]
 * @property {string | number | null} [pad]
 * @property {(string | number)[]} [eog]  further tokens that end generation
 * @property {boolean} [addBos]  whether texts begin with BOS, if the tokenizer itself doesn't specify it
 * @property {boolean} [addEos]
 */

/**
 * Properties of a tokenizer that depend on the type of its model.
 * @typedef {Pick<Tokenizer, 'kind' | 'flags' | 'merges' | 'split' | 'parts'> & { token: (text: string, id: number) =>
 *   Token, unk?: number }} Vocabulary
 */

const HINT =
  'supported are BPE, WordPiece and Unigram; normalizers NFC, NFD, Lowercase, StripAccents, Strip, Prepend, Replace, Precompiled, BertNormalizer; splits by expressions without back references and lookbehind';

/**
 * Returns the steps and stages.
 * @param {any} json @param {boolean} marks  whether spaces become ▁, so that ▁ in the text is a space
 */
function partsOf({ normalizer, pre_tokenizer: pre }, marks) {
  const marked = marks && marksSpaces(normalizer);
  // The original puts no ▁ before a text that has lost characters at its beginning.
  const strip = stepOf(normalizer, 'Strip');
  if (strip && (strip.strip_left ?? true) && stepOf(pre, 'Metaspace')?.prepend_scheme === 'first')
    throw unsupported('tokenizer.json puts a ▁ before a text only if Strip has removed nothing before it', HINT);
  return [
    ...normalizerParts(normalizer, { hint: HINT, marks, marked: false }),
    ...stageParts(pre, { hint: HINT, marks, marked }),
  ];
}

/** @param {any[]} merges @param {ReadonlyMap<string, number>} ids */
const mergesOf = (merges, ids) =>
  mergesFromPairs(
    merges.map((/** @type {string | [string, string]} */ merge) => (Array.isArray(merge) ? merge : splitMerge(merge))),
    ids,
  );

/** Whether the output drops the space that was added before the text. @param {any} decoder */
const dropsSpace = (decoder) => {
  const metaspace = stepOf(decoder, 'Metaspace');
  const strip = stepOf(decoder, 'Strip');
  return metaspace
    ? (metaspace.prepend_scheme ?? (metaspace.add_prefix_space === false ? 'never' : 'always')) !== 'never'
    : strip?.content === ' ' && strip.start > 0;
};

/**
 * @param {any} json
 * @param {ReadonlyMap<string, number>} ids
 * @returns {Vocabulary}
 */
function bpe(json, ids) {
  const { model, normalizer, pre_tokenizer: pre, decoder } = json;
  if (!Array.isArray(model.merges)) throw malformed('tokenizer.json has no vocabulary or no merges');
  if (model.continuing_subword_prefix || model.end_of_word_suffix || model.dropout)
    throw unsupported(
      'tokenizer.json is a BPE that marks tokens which continue or end a word, or that drops merges',
      HINT,
    );
  const common = {
    kind: KIND.bpe,
    merges: mergesOf(model.merges, ids),
    unk: model.unk_token ? ids.get(model.unk_token) : undefined,
  };
  const flags = model.ignore_merges ? FLAG.ignoreMerges : 0;
  if (stepOf(pre, 'ByteLevel') || stepOf(decoder, 'ByteLevel')) {
    if (!stepOf(pre, 'ByteLevel'))
      throw unsupported('tokenizer.json decodes text by ByteLevel, which it is not split by', HINT);
    const split = normalizer ? undefined : namedSplit(pre);
    return {
      ...common,
      flags,
      ...(split ? { split } : { parts: partsOf(json, false) }),
      token: (text) => ({ bytes: fromAlphabetOrText(text), score: 0, kind: TOKEN.normal }),
    };
  }
  const marks = marksSpaces(normalizer) || Boolean(stepOf(pre, 'Metaspace'));
  if (!marks && [...ids.keys()].some((text) => text.includes('▁')))
    throw unsupported('tokenizer.json has tokens with ▁, but texts without ▁ for spaces', HINT);
  const parts = partsOf(json, marks);
  if (!model.byte_fallback && common.unk === undefined)
    throw unsupported('tokenizer.json has no token for characters that its vocabulary lacks', HINT);
  return {
    ...common,
    flags:
      flags |
      FLAG.characters |
      (model.fuse_unk ? FLAG.fuseUnknown : 0) |
      (model.byte_fallback ? FLAG.byteFallback : 0) |
      (dropsSpace(decoder) ? FLAG.dropSpace : 0),
    parts,
    token: (text) => pieceToken(text, 0, Boolean(model.byte_fallback)),
  };
}

/**
 * Returns the token for a SentencePiece piece in tokenizer.json.
 * @param {string} text @param {number} score @param {boolean} fallback @returns {Token}
 */
function pieceToken(text, score, fallback) {
  const byte = fallback ? byteOf(text) : undefined;
  return byte === undefined
    ? { bytes: fromPiece(text), score, kind: TOKEN.normal }
    : { bytes: Uint8Array.of(byte), score, kind: TOKEN.byte };
}

/**
 * @param {any} json
 * @param {ReadonlyMap<string, number>} ids
 * @returns {Vocabulary}
 */
function unigram(json, ids) {
  const { model, normalizer, pre_tokenizer: pre, decoder } = json;
  if (!marksSpaces(normalizer) && !stepOf(pre, 'Metaspace'))
    throw unsupported('tokenizer.json is a Unigram model whose texts have no ▁ for spaces', HINT);
  const fallback = Boolean(model.byte_fallback);
  const unk = Number.isInteger(model.unk_id) && model.unk_id < ids.size ? model.unk_id : undefined;
  return {
    kind: KIND.unigram,
    flags: FLAG.double | (fallback ? FLAG.byteFallback : 0) | (dropsSpace(decoder) ? FLAG.dropSpace : 0),
    merges: [],
    parts: partsOf(json, true),
    unk,
    token: (text, id) =>
      id === unk
        ? { bytes: utf8(text), score: 0, kind: TOKEN.unknown }
        : pieceToken(text, model.vocab[id][1], fallback),
  };
}

/**
 * @param {any} json
 * @param {ReadonlyMap<string, number>} ids
 * @returns {Vocabulary}
 */
function wordpiece(json, ids) {
  const { model, normalizer, pre_tokenizer: pre } = json;
  if (marksSpaces(normalizer) || stepOf(pre, 'Metaspace'))
    throw unsupported('tokenizer.json is a WordPiece model whose texts have ▁ for spaces', HINT);
  if (!['BertPreTokenizer', 'Whitespace', 'WhitespaceSplit'].some((type) => stepOf(pre, type)))
    throw unsupported('tokenizer.json is a WordPiece model whose words have spaces', HINT);
  const prefix = model.continuing_subword_prefix ?? '##';
  if (!prefix)
    throw unsupported('tokenizer.json is a WordPiece model without a mark of tokens that continue a word', HINT);
  return {
    ...WORDPIECE,
    parts: [...partsOf(json, false), longestWord(Math.min(model.max_input_chars_per_word ?? 100, 255))],
    unk: ids.get(model.unk_token ?? '[UNK]'),
    token: (text) => wordpieceToken(text, TOKEN.normal, prefix),
  };
}

/** @type {Record<string, (json: any, ids: ReadonlyMap<string, number>) => Vocabulary>} */
const MODELS = { BPE: bpe, WordPiece: wordpiece, Unigram: unigram };

/** Returns the type of a model. Old files do not specify it. @param {any} model */
const typeOf = (model) => model.type ?? (Array.isArray(model.vocab) ? 'Unigram' : model.merges ? 'BPE' : 'WordPiece');

/** Returns ids by text. @param {any} vocab  an object, or pieces with scores @returns {Map<string, number>} */
function idsOf(vocab) {
  if (vocab === null || typeof vocab !== 'object') throw malformed('tokenizer.json has no vocabulary or no merges');
  if (!Array.isArray(vocab)) return new Map(Object.entries(vocab));
  vocab.forEach((piece, id) => {
    if (typeof piece?.[0] !== 'string' || typeof piece[1] !== 'number')
      throw malformed(`expected a string with a score for piece ${id}`);
  });
  return new Map(vocab.map(([text], id) => [text, id]));
}

/**
 * Parses tokenizer.json. Throws FORMAT or UNSUPPORTED.
 * @param {string} text  content of tokenizer.json
 * @param {Hints} [hints]  from tokenizer_config.json, generation_config.json and config.json
 * @returns {Tokenizer}
 */
export function parseHfTokenizer(text, hints = {}) {
  const json = parseJson(text, 'tokenizer.json');
  try {
    return tokenizerOf(json, hints);
  } catch (cause) {
    if (cause instanceof BqError) throw cause;
    // A member has an unexpected type.
    throw malformed(`tokenizer.json has an unexpected layout (${/** @type {Error} */ (cause).message})`);
  }
}

/** @param {any} json @param {Hints} hints @returns {Tokenizer} */
function tokenizerOf(json, hints) {
  const model = json?.model;
  if (model === null || typeof model !== 'object') throw malformed('tokenizer.json has no model');
  const type = typeOf(model);
  if (!Object.hasOwn(MODELS, type)) throw unsupported(`tokenizer.json is of type ${type}`, HINT);
  const ids = idsOf(model.vocab);
  if (type !== 'BPE' && stepOf(json.pre_tokenizer, 'ByteLevel'))
    throw unsupported(`tokenizer.json is a ${type} model whose texts are written in bytes`, HINT);
  const { token, unk, parts, ...vocabulary } = MODELS[type](json, ids);
  const list = addedList(json, ids);
  // Gemma's added tokens of several ▁ are also results of merges. They remain normal pieces, and are in addition
  // searched for in the text.
  const marked = vocabulary.kind === KIND.unigram || (vocabulary.flags & FLAG.characters) !== 0;
  const isPiece = (/** @type {any} */ entry) =>
    marked && entry?.special === false && entry.content?.includes?.('▁') && ids.get(entry.content) === entry.id;
  const searched = list.filter((entry) => !isPiece(entry));
  const added = addedTokens(searched);
  for (const entry of list) checkPlace(entry, ids, vocabulary.kind === KIND.bpe && !marked);
  const specials = new Map(searched.map(({ content, id }) => [content, id]));
  const named = Array.isArray(model.vocab)
    ? model.vocab.map((/** @type {[string, number]} */ [text]) => text).entries()
    : [...ids].map(([text, id]) => /** @type {const} */ ([id, text]));
  const tokens = byId(
    [
      ...[...named].filter(([id]) => !added.has(id)).map(([id, text]) => /** @type {const} */ ([id, token(text, id)])),
      ...added,
    ],
    HOLE,
  );
  const idOf = (/** @type {string | number | null | undefined} */ name) => {
    if (name === undefined || name === null || Number(name) < 0) return NONE;
    const id = typeof name === 'number' ? name : (specials.get(name) ?? ids.get(name) ?? NONE);
    if (!tokens[id]) throw malformed(`the vocabulary has no token ${name}`);
    return id;
  };
  const { bos, eos, pair } = addedBy(json.post_processor);
  const ends = [hints.eos, ...(hints.eog ?? [])].map(idOf).filter((id) => id !== NONE);
  const rules = rulesPart(
    list,
    json.normalizer,
    (entry) => isPiece(entry) && !entry.normalized && /^▁+$/.test(entry.content),
  );
  return {
    ...vocabulary,
    ...withRules(parts, vocabulary.split, rules),
    flags: vocabulary.flags | (bos === undefined ? 0 : FLAG.addBos) | (eos === undefined ? 0 : FLAG.addEos),
    bos: bos ?? idOf(hints.bos),
    eos: eos ?? idOf(hints.eos),
    unk: unk ?? NONE,
    pad: idOf(hints.pad),
    eog: [...new Set(ends)],
    ...(pair && { pair }),
    tokens,
  };
}

/**
 * Refuses an added token which takes the place of a piece that texts still need: next to others in a word, or as a
 * byte. Throws UNSUPPORTED.
 * @param {any} entry @param {ReadonlyMap<string, number>} ids @param {boolean} isByteLevel
 */
function checkPlace({ content, special, single_word: word }, ids, isByteLevel) {
  const isLetter = isByteLevel && String(fromAlphabetOrText(content)) !== String(utf8(content));
  if (ids.has(content) && ((word && !special) || isLetter))
    throw unsupported(
      `tokenizer.json adds the token ${JSON.stringify(content)}, which is one of its vocabulary already`,
      HINT,
    );
}

/**
 * Returns the added tokens by id. They are searched for in the text before it is split.
 * @param {import('./hf-added-tokens.js').AddedToken[]} list
 */
const addedTokens = (list) =>
  new Map(
    list.map(({ id, content, written = content, special }) => {
      /** @type {Token} */
      const token = { bytes: utf8(written), score: 0, kind: special ? TOKEN.control : TOKEN.user };
      return /** @type {const} */ ([id, token]);
    }),
  );

/**
 * Returns the rules of added tokens: the white space that they absorb, whether they must be complete words, and whether
 * they are searched for in the original or in the normalized text.
 * @param {import('./hf-added-tokens.js').AddedToken[]} list @param {any} normalizer
 * @param {(entry: any) => boolean} isWritten  whether an entry is a piece of ▁ only
 * @returns {Part[]}
 */
function rulesPart(list, normalizer, isWritten) {
  const changes = changesText(normalizer);
  const rows = list
    .map((entry) => {
      const { id, single_word: word, normalized } = entry;
      // A text with ▁ for spaces has no white space to absorb.
      const [lstrip, rstrip] = normalized && marksSpaces(normalizer) ? [] : [entry.lstrip, entry.rstrip];
      const written = isWritten(entry) ? 16 : 0;
      return [id, (lstrip ? 1 : 0) | (rstrip ? 2 : 0) | (word ? 4 : 0) | (normalized && changes ? 8 : 0) | written];
    })
    .filter(([, rules]) => rules);
  if (!rows.length) return [];
  return [
    { type: PART.rules, bytes: new Uint8Array(Uint32Array.from(rows.sort((a, b) => a[0] - b[0]).flat()).buffer) },
  ];
}

/**
 * Adds rules to the parts. A named split (split.js) cannot be combined with parts, so it is replaced by stages.
 * @param {Part[] | undefined} parts @param {string | undefined} split @param {Part[]} rules
 */
function withRules(parts, split, rules) {
  if (!rules.length) return parts ? { parts } : {};
  return {
    split: undefined,
    parts: [...(parts ?? EXPRESSIONS[split ?? 'gpt-2'].map((source) => stage(source))), ...rules],
  };
}

/**
 * Returns the ids with which a text begins and ends by default, and the format of pairs of texts.
 * @param {any} processor
 * @returns {{ bos?: number, eos?: number, pair?: import('./section.js').PairFormat }}
 */
function addedBy(processor) {
  const bert = stepOf(processor, 'BertProcessing');
  const ends = bert ?? stepOf(processor, 'RobertaProcessing');
  if (ends) {
    const [bos, eos] = [ends.cls?.[1], ends.sep?.[1]];
    const pair = { before: [bos], between: bert ? [eos] : [eos, eos], after: [eos], types: Boolean(bert) };
    return { bos, eos, ...([bos, eos].every(Number.isInteger) && { pair }) };
  }
  const found = stepOf(processor, 'TemplateProcessing');
  if (!Array.isArray(found?.single)) return {};
  const at = found.single.findIndex((/** @type {any} */ part) => part?.Sequence);
  const idAt = (/** @type {any[]} */ parts) => {
    if (parts.length > 1) throw unsupported('tokenizer.json puts several tokens before a text', HINT);
    const name = parts[0]?.SpecialToken?.id;
    const { ids = [] } = (name !== undefined && found.special_tokens[name]) || {};
    if (ids.length > 1) throw unsupported(`tokenizer.json puts several tokens around a text for ${name}`, HINT);
    return ids[0];
  };
  const after = found.single.slice(at + 1);
  // Several tokens at the end (Command R: end of turn and end of text) end a complete conversation. They are not added
  // to a text that continues.
  return {
    bos: idAt(found.single.slice(0, at)),
    eos: after.length > 1 ? undefined : idAt(after),
    pair: pairOf(found),
  };
}

/**
 * Returns how a TemplateProcessing joins two texts, or undefined if it does not specify it.
 * @param {any} processor @returns {import('./section.js').PairFormat | undefined}
 */
function pairOf({ pair, special_tokens: specials }) {
  if (!Array.isArray(pair)) return undefined;
  const [first, second] = ['A', 'B'].map((name) => pair.findIndex((part) => part?.Sequence?.id === name));
  if (first < 0 || second < first) return undefined;
  const idsOf = (/** @type {any[]} */ parts) => parts.flatMap((part) => specials?.[part?.SpecialToken?.id]?.ids ?? []);
  return {
    before: idsOf(pair.slice(0, first)),
    between: idsOf(pair.slice(first + 1, second)),
    after: idsOf(pair.slice(second + 1)),
    types: pair[second].Sequence.type_id === 1,
  };
}
