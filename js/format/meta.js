/** The META section (docs/FORMAT.md): metadata of a model that JavaScript uses and the C engine does not need. */

import { BqError } from '../shared/errors.js';
import { shown } from '../shared/quote-value.js';

/** @import { PairFormat } from '../text/tokenizers/section.js' */

/**
 * Metadata of a model: the content of the META section of docs/FORMAT.md.
 * @typedef {object} ModelMeta
 * @property {string[]} [labels]  labels of the model's classifier
 * @property {PairFormat | null} [pair]  how a query and a document are joined to one text
 * @property {Record<string, string>} [prompts]  embedding prompts by purpose ("query", "document"): text that precedes
 *   the input
 * @property {string} [defaultPrompt]  purpose to use if the caller specifies none
 * @property {string[]} [unused]  names of parts of the file that are not used
 * @property {number[]} [suppressed]  ids of tokens that are never generated
 */

/** Names of tensors that follow from the configuration and are therefore not reported as unused. */
const COMPUTED = /(\.|^)(position_ids|token_type_ids|inv_freq|masked_bias|attn\.bias)$/;
/** Prefix that may precede the name of a part in the name of a tensor. */
const PREFIX = /^(model|bert|roberta|distilbert|transformer|encoder)\./;

/**
 * Returns the names of a model's unused parts, from the names of their tensors: for example `cls.predictions` and
 * `pooler` of BERT, `visual` of a vision model.
 * @param {readonly string[]} tensors  names of the unused tensors
 * @returns {string[]}
 */
export function unusedParts(tensors) {
  const parts = tensors
    .filter((name) => !COMPUTED.test(name))
    .map((name) => {
      const path = name.replace(PREFIX, '').split('.');
      return path[0] === 'cls' && path.length > 2 ? `cls.${path[1]}` : path[0];
    });
  return [...new Set(parts)].sort();
}

/**
 * Returns the ids of tokens that a file lists as never generated; [] without a list. Throws FORMAT.
 * @param {any} list @param {string} name  name of the list, for the message @returns {number[]}
 */
export function suppressedOf(list, name) {
  const ids = Array.isArray(list) || ArrayBuffer.isView(list) ? Array.from(/** @type {any} */ (list)) : list;
  if (ids === undefined || ids === null) return [];
  if (Array.isArray(ids) && ids.every(Number.isInteger)) return ids;
  throw new BqError('FORMAT', `${name} is ${shown(list)}`, { hint: 'expected a list of token ids' });
}

/**
 * Returns the metadata without empty fields; null if all fields are empty.
 * @param {ModelMeta} meta @returns {ModelMeta | null}
 */
export function metaOf(meta) {
  const fields = Object.entries(meta).filter(
    ([, value]) => value && (Array.isArray(value) ? value.length : Object.keys(value).length),
  );
  return fields.length ? Object.fromEntries(fields) : null;
}
