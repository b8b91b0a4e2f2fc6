/**
 * Joins two texts to one token list for a classifier of pairs: a query and a document, or a premise and a hypothesis.
 */
import { BqError } from '../../shared/errors.js';
import { encodeBeginning, tooLong } from './encode-beginning.js';

/** @import { LocalModel } from './model.js' */
/** @import { Cut, TextPair } from './embedder.js' */

/** Matches special tokens in the template of a prompt. */
const SPECIAL = /<\|[^|<>]*\|>/g;

/**
 * Splits a template into the text before, between and after the two texts. The outer parts are split again at their
 * special tokens: `prompt` ends with the last special token before the texts, `end` starts with the first one after
 * them. Throws FORMAT.
 * @param {string} template
 */
function splitTemplate(template) {
  const [before, between, after] = template.split(/\{query\}|\{document\}/);
  if (after === undefined || template.indexOf('{query}') > template.indexOf('{document}'))
    throw new BqError('FORMAT', 'the template of the reranker lacks {query} or {document}', {
      hint: 'convert the model again',
    });
  const last = [...before.matchAll(SPECIAL)].at(-1);
  const start = last ? last.index + last[0].length : 0;
  const end = Math.max(after.search(SPECIAL), 0);
  return {
    prompt: before.slice(0, start),
    first: before.slice(start),
    between,
    last: after.slice(0, end),
    end: after.slice(end),
  };
}

/**
 * Returns how many tokens to keep of each text so that both together fit into `room`. The longer text is cut first.
 * @param {number} first @param {number} second @param {number} room
 */
function keptCounts(first, second, room) {
  if (first + second <= room) return [first, second];
  const half = Math.floor(room / 2);
  if (Math.min(first, second) <= half) return first < second ? [first, room - first] : [room - second, second];
  return first > second ? [room - half, half] : [half, room - half];
}

/**
 * Returns the tokens of both texts, and the tokens before, between and after them.
 * @param {LocalModel} model @param {TextPair} pair
 * @param {(() => BqError) | null} refuse  creates the error for a text that is too long for the tokenizer; null: cut it
 */
function tokensOf(model, { text, textPair }, refuse) {
  const format = /** @type {import('../../text/tokenizers/section.js').PairFormat} */ (model.pair);
  const plain = (/** @type {string} */ part) => encodeBeginning(model, part, { addSpecial: false }, refuse).ids;
  if (!('template' in format)) return { ...format, first: plain(text), second: plain(textPair) };
  const { prompt, first, between, last, end } = splitTemplate(format.template);
  const special = (/** @type {string} */ part) =>
    part ? model.encode(part, { addSpecial: false, parseSpecial: true }) : [];
  // The words of the template and the texts are tokenized together, since a token may contain characters of both.
  return {
    before: special(prompt),
    between: [],
    after: special(end),
    types: false,
    first: plain(first + text + between + textPair + last),
    second: [],
  };
}

/**
 * Returns the tokens of a pair. If there are too many, cuts the longer text. Throws CONTEXT_FULL if `truncate` is not
 * set, and UNSUPPORTED if the model has no format for pairs.
 * @param {LocalModel} model @param {TextPair} pair @param {number} index @param {boolean} truncate
 * @returns {Cut}
 */
export function pairCut(model, pair, index, truncate) {
  if (!model.pair)
    throw new BqError('UNSUPPORTED', 'the model does not specify how two texts are joined', {
      hint: 'classify single texts, or convert the model with its tokenizer.json',
    });
  const maxTokens = model.info.embedding.tokens;
  const refuse = (/** @type {{ tokens: number } | { characters: number }} */ size) =>
    tooLong(`pair ${index}`, index, size, maxTokens);
  const characters = pair.text.length + pair.textPair.length;
  const refuseText = truncate ? null : () => refuse({ characters });
  const { before, first, between, second, after, types } = tokensOf(model, pair, refuseText);
  const tokens = before.length + first.length + between.length + second.length + after.length;
  if (tokens > maxTokens && !truncate) throw refuse({ tokens });
  const room = Math.max(maxTokens - before.length - between.length - after.length, 0);
  const [firstCount, secondCount] = keptCounts(first.length, second.length, room);
  const start = [...before, ...first.slice(0, firstCount), ...between];
  return {
    ids: [...start, ...second.slice(0, secondCount), ...after],
    isComplete: tokens <= maxTokens,
    second: types ? start.length : 0,
  };
}
