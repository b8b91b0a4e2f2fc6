/** The texts of `rerank`, of a local model and of a server. */
import { texts as textList } from '../shared/checks.js';
import { wrong } from '../shared/check-options.js';

/** Throws ARGUMENT unless the query is a string and the documents are a list of strings. @param {unknown} query @param {unknown} documents */
export function checkRerankTexts(query, documents) {
  if (typeof query !== 'string') throw wrong('the query', query, 'a string');
  if (!Array.isArray(documents) || textList(documents)) throw wrong('the documents', documents, 'a list of strings');
}
