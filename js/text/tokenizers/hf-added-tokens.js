/** The list of added tokens in tokenizer.json, with the ids and texts by which texts have them. */
import { shown } from '../../shared/quote-value.js';
import { marksSpaces, normalizedText } from './hf-normalizer.js';
import { stepOf } from './hf-split.js';
import { malformed, unsupported } from './section.js';

/** An entry of the list; `written`: its text where it is searched for, if that is another. @typedef {{ id: number, content: string, special?: boolean, normalized?: boolean, lstrip?: boolean, rstrip?: boolean, single_word?: boolean, written?: string }} AddedToken */

/** Whether tokens with `normalized` are searched for in another text than the others. @param {any} normalizer @returns {boolean} */
export const changesText = (normalizer) =>
  Boolean(normalizer) && !(normalizer.type === 'Replace' || stepOf(normalizer, 'Prepend'));

/** A token's own text, normalized as the text is in which it is searched for. @param {any} normalizer @param {string} content */
function written(normalizer, content) {
  const text = normalizedText(normalizer, content) || content;
  return marksSpaces(normalizer) ? text.replaceAll('▁', ' ') : text;
}

/**
 * Throws FORMAT if two added tokens have one id, UNSUPPORTED if two are the same text where they are searched for.
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
        'leave one of them out',
      );
    byId.set(id, content);
    byText.set(text, content);
  }
  return list;
}

/**
 * The added tokens. One that the vocabulary has, too, has the id that it has there. FORMAT: two tokens have one id. UNSUPPORTED: two tokens
 * are the same text after the normalizer.
 * @param {any} json @param {ReadonlyMap<string, number>} ids  of the vocabulary @returns {AddedToken[]}
 */
export function addedList({ added_tokens: list, normalizer }, ids) {
  if (!Array.isArray(list)) return [];
  const texts = new Map(Array.from(ids, ([text, id]) => [id, text]));
  const added = list.map((/** @type {any} */ entry) => {
    if (typeof entry?.content !== 'string') throw malformed('tokenizer.json has an added token without a text');
    const { id, content, normalized } = entry;
    const own = ids.get(content);
    if (own === undefined && texts.has(id))
      throw malformed(`two tokens have the id ${id}: ${shown(texts.get(id))} and ${shown(content)}`);
    const isOther = normalized && changesText(normalizer);
    return { ...entry, id: own ?? id, ...(isOther && { written: written(normalizer, content) }) };
  });
  return checkDifferent(added);
}
