/** The pre-tokenizers of tokenizer.json as stages. */
import { unsupported } from './section.js';
import { bertStages } from './wordpiece.js';

/** @import { Part } from './section.js' */

/** @type {Record<string, (json: any) => Part[]>} */
const SPLITTERS = {
  BertPreTokenizer: bertStages,
};

/** UNSUPPORTED names what we would cut differently. @param {any} json  a pre-tokenizer, or null @param {string} hint @returns {Part[]} */
export function stageParts(json, hint) {
  if (json === null || json === undefined) return [];
  if (!Object.hasOwn(SPLITTERS, json.type)) throw unsupported(`tokenizer.json splits text by ${json.type}`, hint);
  return SPLITTERS[json.type](json);
}
