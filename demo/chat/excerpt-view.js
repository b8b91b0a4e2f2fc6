/** Shows under a message which passages of its long attachments the model has read. Loaded with the first excerpt. */
import { button, element } from '../page/element.js';
import * as format from '../page/format.js';
import { EMBEDDER } from '../search/embedder.js';

/** @type {Record<import('./excerpts.js').Excerpt['by'], string>} */
const HOW = {
  meaning: 'those nearest to your question in meaning',
  words: 'those with the words of your question',
  start: 'the first ones, since none fits your message better',
};

/**
 * @param {HTMLElement} message
 * @param {import('./excerpts.js').Excerpt | undefined} excerpt  undefined if the model read all of the message
 * @param {() => void} onSearchModel  loads the search model
 */
export function showExcerpt(message, excerpt, onSearchModel) {
  message.querySelector('.excerpt')?.remove();
  if (!excerpt || !Array.isArray(excerpt.passages)) return;
  const { passages, of, by, offer } = excerpt;
  const details = element('details', 'excerpt');
  const list = element('ol');
  for (const { file, place, text } of passages) {
    const item = element('li');
    item.append(element('b', '', `${file}, ${place}`), element('p', '', text));
    list.append(item);
  }
  details.append(
    element('summary', '', `The model saw ${format.count(passages.length)} of ${format.counted(of, 'passage')}`),
    element('p', 'hint', `The text is too long for this model, so it was given ${HOW[by] ?? 'some of it'}.`),
    list,
  );
  const find = `Find passages by meaning (${EMBEDDER.size} download)`;
  if (offer) details.append(button(find, find, onSearchModel));
  message.append(details);
}
