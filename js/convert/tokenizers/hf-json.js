/** tokenizer.json of Hugging Face. */
import { fromAlphabet, fromUtf8, utf8 } from './bytes.js';
import { byId, parseJson } from './gpt2.js';
import { normalizerParts } from './hf-normalizer.js';
import { mergesFromPairs, splitMerge } from './merges.js';
import { FLAG, KIND, malformed, NONE, TOKEN, unsupported } from './section.js';
import { splitOfHf } from './split.js';
import { longestWord, WORDPIECE, wordpieceToken } from './wordpiece.js';
import { stageParts } from './hf-split.js';

/** @typedef {import('./section.js').Tokenizer} Tokenizer */
/** @typedef {import('./section.js').Token} Token */

/**
 * What a folder's other files say: names or ids of special tokens.
 * @typedef {object} Hints
 * @property {string | number | null} [bos]
 * @property {string | number | null} [eos]
 * @property {string | number | null} [pad]
 * @property {(string | number)[]} [eog]  what else ends generation
 */

/** What a model makes of its vocabulary. @typedef {Pick<Tokenizer, 'kind' | 'flags' | 'merges' | 'split' | 'parts'> & { token: (text: string) => Token, unk?: number }} Vocabulary */

const HINT = 'BPE and WordPiece are read; normalizers NFC, NFD, Lowercase, StripAccents and BertNormalizer; splits that expressions can say';

/**
 * Byte-level BPE.
 * @param {any} json
 * @param {ReadonlyMap<string, number>} ids
 * @returns {Vocabulary}
 */
function bpe({ model, normalizer, pre_tokenizer: pre }, ids) {
  if (!Array.isArray(model.merges)) throw malformed('tokenizer.json has no vocabulary or no merges');
  if (normalizer !== null && normalizer !== undefined) throw unsupported(`tokenizer.json normalizes text (${normalizer.type})`, HINT);
  if (model.byte_fallback || model.continuing_subword_prefix || model.end_of_word_suffix || model.dropout) {
    throw unsupported('tokenizer.json is a BPE that is not byte-level', HINT);
  }
  return {
    kind: KIND.bpe,
    flags: model.ignore_merges ? FLAG.ignoreMerges : 0,
    split: splitOfHf(pre, HINT),
    merges: mergesFromPairs(model.merges.map((/** @type {string | [string, string]} */ merge) =>
      Array.isArray(merge) ? merge : splitMerge(merge)), ids),
    token: (text) => ({ bytes: fromAlphabet(text), score: 0, kind: TOKEN.normal }),
  };
}

/**
 * @param {any} json
 * @param {ReadonlyMap<string, number>} ids
 * @returns {Vocabulary}
 */
function wordpiece({ model, normalizer, pre_tokenizer: pre }, ids) {
  const prefix = model.continuing_subword_prefix ?? '##';
  return {
    ...WORDPIECE,
    parts: [...normalizerParts(normalizer, HINT), ...stageParts(pre, HINT), longestWord(Math.min(model.max_input_chars_per_word ?? 100, 255))],
    unk: ids.get(model.unk_token ?? '[UNK]'),
    token: (text) => wordpieceToken(text, TOKEN.normal, prefix),
  };
}

/** @type {Record<string, (json: any, ids: ReadonlyMap<string, number>) => Vocabulary>} */
const MODELS = { BPE: bpe, WordPiece: wordpiece };

/**
 * @param {string} text  of tokenizer.json
 * @param {Hints} [hints]  from tokenizer_config.json, generation_config.json, config.json
 * @returns {Tokenizer}
 */
export function parseHfTokenizer(text, hints = {}) {
  const json = parseJson(text, 'tokenizer.json');
  const model = json?.model;
  if (model === null || typeof model !== 'object') throw malformed('tokenizer.json has no model');
  const type = model.type ?? 'BPE';
  if (!Object.hasOwn(MODELS, type)) throw unsupported(`tokenizer.json is of type ${type}`, HINT);
  if (model.vocab === null || typeof model.vocab !== 'object') throw malformed('tokenizer.json has no vocabulary or no merges');
  /** @type {Map<string, number>} */
  const ids = new Map(Object.entries(model.vocab));
  const { token, unk, ...vocabulary } = MODELS[type](json, ids);
  const added = addedTokens(Array.isArray(json.added_tokens) ? json.added_tokens : []);
  const specials = new Map([...added].map(([id, { bytes }]) => [fromUtf8(bytes), id]));
  const tokens = byId([...[...ids].filter(([, id]) => !added.has(id)).map(([own, id]) => /** @type {const} */ ([id, token(own)])), ...added]);
  const idOf = (/** @type {string | number | null | undefined} */ name) => {
    if (name === undefined || name === null || Number(name) < 0) return NONE;
    const id = typeof name === 'number' ? name : specials.get(name) ?? ids.get(name) ?? NONE;
    if (!tokens[id]) throw malformed(`there is no token ${name}`);
    return id;
  };
  const { bos, eos } = template(json.post_processor);
  const ends = [hints.eos, ...(hints.eog ?? [])].map(idOf).filter((id) => id !== NONE);
  return {
    ...vocabulary,
    flags: vocabulary.flags | (bos === undefined ? 0 : FLAG.addBos) | (eos === undefined ? 0 : FLAG.addEos),
    bos: bos ?? idOf(hints.bos),
    eos: eos ?? idOf(hints.eos),
    unk: unk ?? NONE,
    pad: idOf(hints.pad),
    eog: [...new Set(ends)],
    tokens,
  };
}

/**
 * Tokens that are looked for in the text itself, by id.
 * @param {any[]} list
 */
function addedTokens(list) {
  return new Map(list.map((token) => {
    if (typeof token?.content !== 'string') throw malformed('tokenizer.json has an added token without text');
    const { id, content, special, single_word, lstrip, rstrip } = token;
    if (single_word || lstrip || rstrip) {
      throw unsupported(`the token ${JSON.stringify(content)} swallows spaces around it or stands only as a word`, HINT);
    }
    const kind = special ? TOKEN.control : TOKEN.user;
    return /** @type {[number, Token]} */ ([id, { bytes: utf8(content), score: 0, kind }]);
  }));
}

/**
 * Ids that a text begins and ends with by default.
 * @param {any} processor
 * @returns {{ bos?: number, eos?: number }}
 */
function template(processor) {
  const steps = processor?.type === 'Sequence' ? processor.processors : [processor];
  const found = steps?.find((/** @type {any} */ step) => step?.type === 'TemplateProcessing' && Array.isArray(step.single));
  if (!found) return {};
  const at = found.single.findIndex((/** @type {any} */ part) => part?.Sequence);
  const idAt = (/** @type {any[]} */ parts) => {
    if (parts.length > 1) throw unsupported('tokenizer.json puts several tokens around a text', HINT);
    const name = parts[0]?.SpecialToken?.id;
    return name === undefined ? undefined : found.special_tokens[name]?.ids?.[0];
  };
  return { bos: idAt(found.single.slice(0, at)), eos: idAt(found.single.slice(at + 1)) };
}
