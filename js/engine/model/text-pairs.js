/** Two texts as the tokens of one, for a classifier of pairs: a query and a document, a premise and a hypothesis. */
import { BqError } from '../../shared/errors.js';

/** @import { LocalModel } from './model.js' */
/** @import { Cut, TextPair } from './embedder.js' */

/** Special tokens in the template of a prompt. */
const SPECIAL = /<\|[^|<>]*\|>/g;

/** The parts of a template: what precedes the first text, stands between the two and follows them; of the outer ones, as many as hold special tokens apart. @param {string} template */
function partsOf(template) {
  const [before, between, after] = template.split(/\{query\}|\{document\}/);
  if (after === undefined || template.indexOf('{query}') > template.indexOf('{document}'))
    throw new BqError('FORMAT', 'the template of the reranker lacks {query} or {document}', {
      hint: 'convert the model anew',
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

/** How many tokens remain of each of two texts when both together have `room`: the longer one is cut first. @param {number} first @param {number} second @param {number} room */
function shares(first, second, room) {
  if (first + second <= room) return [first, second];
  const half = Math.floor(room / 2);
  if (Math.min(first, second) <= half) return first < second ? [first, room - first] : [room - second, second];
  return first > second ? [room - half, half] : [half, room - half];
}

/** @param {LocalModel} model @param {TextPair} pair */
function tokensOf(model, { text, textPair }) {
  const format = /** @type {import('../../text/tokenizers/section.js').PairFormat} */ (model.pair);
  const plain = (/** @type {string} */ part) => model.encode(part, { addSpecial: false });
  if (!('template' in format)) return { ...format, first: plain(text), second: plain(textPair), joined: [] };
  const { prompt, first, between, last, end } = partsOf(format.template);
  const special = (/** @type {string} */ part) =>
    part ? model.encode(part, { addSpecial: false, parseSpecial: true }) : [];
  // Tokens may cross from the prompt's words into those of the texts.
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
 * The tokens of a pair, of which the longer text is cut if there are too many. CONTEXT_FULL: they may not be cut; UNSUPPORTED: the
 * model has no format of pairs.
 * @param {LocalModel} model @param {TextPair} pair @param {number} index @param {boolean} truncate
 * @returns {Cut}
 */
export function pairCut(model, pair, index, truncate) {
  if (!model.pair)
    throw new BqError('UNSUPPORTED', 'the model does not say how two texts are joined', {
      hint: 'classify single texts, or convert the model with its tokenizer.json',
    });
  const { before, first, between, second, after, types } = tokensOf(model, pair);
  const most = model.info.embedding.tokens;
  const tokens = before.length + first.length + between.length + second.length + after.length;
  if (tokens > most && !truncate)
    throw new BqError('CONTEXT_FULL', `pair ${index} has ${tokens} tokens, there is room for ${most}`, {
      hint: 'cut its texts, or leave `truncate` on',
      details: { index, tokens, most },
    });
  const room = Math.max(most - before.length - between.length - after.length, 0);
  const [one, two] = shares(first.length, second.length, room);
  const start = [...before, ...first.slice(0, one), ...between];
  return {
    ids: [...start, ...second.slice(0, two), ...after],
    isWhole: tokens <= most,
    second: types ? start.length : 0,
  };
}
