/** tokenizer.json of Hugging Face: byte-level BPE with the splits that split.js knows. */
import { fromAlphabet, fromUtf8, utf8 } from './bytes.js';
import { byId, parseJson } from './gpt2.js';
import { mergesFromPairs, splitMerge } from './merges.js';
import { FLAG, KIND, malformed, NONE, TOKEN, unsupported } from './section.js';
import { splitOfHf } from './split.js';

/** @typedef {import('./section.js').Tokenizer} Tokenizer */

/**
 * What a folder's other files say: names or ids of special tokens.
 * @typedef {object} Hints
 * @property {string | number | null} [bos]
 * @property {string | number | null} [eos]
 * @property {string | number | null} [pad]
 * @property {(string | number)[]} [eog]  what else ends generation
 */

const HINT = 'only byte-level BPE with the splits of GPT-2, Llama 3, Qwen 2 and SmolLM, without a normalizer, is read as yet';

/**
 * @param {string} text  of tokenizer.json
 * @param {Hints} [hints]  from tokenizer_config.json, generation_config.json, config.json
 * @returns {Tokenizer}
 */
export function parseHfTokenizer(text, hints = {}) {
  const json = parseJson(text, 'tokenizer.json');
  const model = json?.model;
  if (model === null || typeof model !== 'object' || typeof model.vocab !== 'object' || !Array.isArray(model.merges)) {
    throw model?.type && model.type !== 'BPE' ? unsupported(`tokenizer.json is of type ${model.type}`, HINT)
      : malformed('tokenizer.json has no vocabulary or no merges');
  }
  requireByteLevel(json);
  /** @type {Map<string, number>} */
  const ids = new Map(Object.entries(model.vocab));
  const added = addedTokens(Array.isArray(json.added_tokens) ? json.added_tokens : []);
  const specials = new Map([...added].map(([id, { bytes }]) => [fromUtf8(bytes), id]));
  const tokens = byId([
    ...[...ids].filter(([, id]) => !added.has(id))
      .map(([token, id]) => /** @type {const} */ ([id, { bytes: fromAlphabet(token), score: 0, kind: TOKEN.normal }])),
    ...added,
  ]);
  const idOf = (/** @type {string | number | null | undefined} */ token) => {
    if (token === undefined || token === null || Number(token) < 0) return NONE;
    const id = typeof token === 'number' ? token : specials.get(token) ?? ids.get(token) ?? NONE;
    if (!tokens[id]) throw malformed(`there is no token ${token}`);
    return id;
  };
  const { bos, eos } = template(json.post_processor);
  const ends = [hints.eos, ...(hints.eog ?? [])].map(idOf).filter((id) => id !== NONE);
  return {
    kind: KIND.bpe,
    flags: (bos === undefined ? 0 : FLAG.addBos) | (eos === undefined ? 0 : FLAG.addEos) |
      (model.ignore_merges ? FLAG.ignoreMerges : 0),
    split: splitOfHf(json.pre_tokenizer, HINT),
    bos: bos ?? idOf(hints.bos),
    eos: eos ?? idOf(hints.eos),
    unk: NONE,
    pad: idOf(hints.pad),
    eog: [...new Set(ends)],
    tokens,
    merges: mergesFromPairs(model.merges.map((/** @type {string | [string, string]} */ merge) =>
      Array.isArray(merge) ? merge : splitMerge(merge)), ids),
  };
}

/** Refuses what we would tokenize differently. @param {any} json */
function requireByteLevel({ model, normalizer }) {
  if (model.type !== undefined && model.type !== 'BPE') throw unsupported(`tokenizer.json is of type ${model.type}`, HINT);
  if (normalizer !== null && normalizer !== undefined) throw unsupported(`tokenizer.json normalizes text (${normalizer.type})`, HINT);
  if (model.byte_fallback || model.continuing_subword_prefix || model.end_of_word_suffix || model.dropout) {
    throw unsupported('tokenizer.json is a BPE that is not byte-level', HINT);
  }
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
    return /** @type {[number, import('./section.js').Token]} */ ([id, { bytes: utf8(content), score: 0, kind }]);
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
