/** Reads the list of added tokens in tokenizer.json: their ids, and the texts by which they are searched for. */
import { shown } from '../../shared/quote-value.js';
import { marksSpaces, normalizedText } from './hf-normalizer.js';
import { stepOf } from './hf-split.js';
import { malformed, unsupported } from './section.js';

/**
 * Entry of the list. `written`: the text to search for, if it differs from `content` because the text is normalized.
 * @typedef {{ id: number, content: string, special?: boolean, normalized?: boolean, lstrip?: boolean, rstrip?: boolean,
 *   single_word?: boolean, written?: string }} AddedToken
 */

/**
 * Whether tokens with `normalized` are searched for in the normalized text, and the others in the original one.
 * @param {any} normalizer @returns {boolean}
 */
export const changesText = (normalizer) =>
  Boolean(normalizer) && !(normalizer.type === 'Replace' || stepOf(normalizer, 'Prepend'));

/**
 * Returns the text of a token as it is in a normalized text.
 * @param {any} normalizer @param {string} content
 */
function normalizedContent(normalizer, content) {
  const text = normalizedText(normalizer, content) || content;
  return marksSpaces(normalizer) ? text.replaceAll('▁', ' ') : text;
}

/**
 * Throws FORMAT if two added tokens have the same id, UNSUPPORTED if two have the same text to search for.
 * @param {AddedToken[]} list @returns {AddedToken[]}
 */
function checkDifferent(list) {
  const byId = new Map();
  const byText = new Map();
  for (const { id, content, written: text = content } of list) {
    const [sameId, sameText] = [byId.get(id) ?? content, byText.get(text) ?? content];
    if (sameId !== content) throw malformed(`two tokens have the id ${id}: ${shown(sameId)} and ${shown(content)}`);
    if (sameText !== content)
      throw unsupported(
        `tokenizer.json adds ${shown(sameText)} and ${shown(content)}, which are the same text after its normalizer`,
        'omit one of them',
      );
    byId.set(id, content);
    byText.set(text, content);
  }
  return list;
}

/**
 * Returns the added tokens. A token that is also in the vocabulary has the id of the vocabulary. Throws FORMAT if two
 * tokens have the same id, UNSUPPORTED if two tokens have the same text after the normalizer.
 * @param {any} json @param {ReadonlyMap<string, number>} ids  ids of the vocabulary by token @returns {AddedToken[]}
 */
export function addedList({ added_tokens: list, normalizer }, ids) {
  if (!Array.isArray(list)) return [];
  const texts = new Map(Array.from(ids, ([text, id]) => [id, text]));
  const added = list.map((/** @type {any} */ entry) => {
    if (typeof entry?.content !== 'string') throw malformed('tokenizer.json has an added token without a text');
    const { id, content, normalized } = entry;
    const vocabularyId = ids.get(content);
    if (vocabularyId === undefined && texts.has(id))
      throw malformed(`two tokens have the id ${id}: ${shown(texts.get(id))} and ${shown(content)}`);
    const isNormalized = normalized && changesText(normalizer);
    return {
      ...entry,
      id: vocabularyId ?? id,
      ...(isNormalized && { written: normalizedContent(normalizer, content) }),
    };
  });
  return checkDifferent(added);
}
