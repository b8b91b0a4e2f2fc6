/** The normalizers of tokenizer.json as steps. */
import { bertParts } from './normalizers.js';
import { unsupported } from './section.js';

/** @import { Part } from './section.js' */

/** @type {Record<string, (json: any) => Part[]>} */
const NORMALIZERS = {
  BertNormalizer: (json) => bertParts({
    clean: json.clean_text ?? true, chinese: json.handle_chinese_chars ?? true, lower: json.lowercase ?? true,
    accents: json.strip_accents ?? json.lowercase ?? true,
  }),
};

/** UNSUPPORTED names what we would do differently. @param {any} json  a normalizer, or null @param {string} hint @returns {Part[]} */
export function normalizerParts(json, hint) {
  if (json === null || json === undefined) return [];
  if (!Object.hasOwn(NORMALIZERS, json.type)) throw unsupported(`tokenizer.json normalizes text by ${json.type}`, hint);
  return NORMALIZERS[json.type](json);
}
