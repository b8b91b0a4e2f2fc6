/** The META section (docs/FORMAT.md): what a model says about itself beside its weights, which the engine in C does not need. */

/** @import { PairFormat } from '../text/tokenizers/section.js' */

/**
 * What a model says about itself beside its weights: the META section of docs/FORMAT.md.
 * @typedef {object} ModelMeta
 * @property {string[]} [labels]  of its classifier
 * @property {PairFormat | null} [pair]
 * @property {Record<string, string>} [prompts]  what precedes texts for a purpose ("query", "document"), by its name
 * @property {string} [defaultPrompt]  its name, where the caller names none
 * @property {string[]} [unused]  parts of the file that are not used
 */

/** Tensors that follow from the configuration: nothing is lost without them. */
const COMPUTED = /(\.|^)(position_ids|token_type_ids|inv_freq|masked_bias|attn\.bias)$/;
/** What precedes the name of a part. */
const PREFIX = /^(model|bert|roberta|distilbert|transformer|encoder)\./;

/**
 * Names of parts of a model, of the names of their tensors: `cls.predictions` and `pooler` of BERT, `visual` of a model that sees.
 * @param {readonly string[]} tensors  that are not used
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

/** Without what is empty; null if all is. @param {ModelMeta} meta @returns {ModelMeta | null} */
export function metaOf(meta) {
  const full = Object.entries(meta).filter(
    ([, value]) => value && (Array.isArray(value) ? value.length : Object.keys(value).length),
  );
  return full.length ? Object.fromEntries(full) : null;
}
