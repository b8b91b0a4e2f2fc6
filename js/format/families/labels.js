/**
 * Classifiers of checkpoints: dense layers after the pooling that compute a logit for each label (`labels` of the
 * configuration). A reranker is a classifier with a single label, or with the labels "yes" and "no".
 */

import { shown } from '../../shared/quote-value.js';
import { expect } from './shared.js';

/** @typedef {import('./gguf.js').GgufFacts} GgufFacts */

/**
 * The classifier of a checkpoint.
 * @typedef {object} LabelLayers
 * @property {Record<string, any>} config  keys that it adds to the configuration of the model
 * @property {Record<string, string>} outer  canonical names of its modules, by their names in the checkpoint without
 *   the family's prefix
 */

/**
 * Returns the names of the labels in config.json, in the order of their ids; [] if it has none.
 * @param {Record<string, any>} hf @returns {string[]}
 */
export const labelNames = ({ id2label }) =>
  Object.entries(id2label ?? {})
    .sort(([a], [b]) => Number(a) - Number(b))
    .map(([, name]) => String(name));

/**
 * Whether the checkpoint is a classifier: its class in transformers is …ForSequenceClassification.
 * @param {Record<string, any>} hf
 */
const isClassifier = ({ architectures }) => /ForSequenceClassification$/.test(String(architectures?.[0] ?? ''));

/** Returns the number of labels; the default is 2, as in transformers. @param {Record<string, any>} hf */
const labelCount = (hf) => labelNames(hf).length || hf.num_labels || 2;

/**
 * Returns a function that reads a classifier with two layers: a dense layer with an activation, then the layer of the
 * labels.
 * @param {string} dense  name of the dense layer in the checkpoint @param {string} out  name of the labels' layer
 * @param {string} activation  dense_activation of the configuration
 * @param {Record<string, any>} [modules]  canonical names of further modules
 * @returns {(hf: Record<string, any>, config: Record<string, any>) => LabelLayers | null}
 */
export const denseLabels =
  (dense, out, activation, modules = {}) =>
  (hf, config) =>
    isClassifier(hf)
      ? {
          config: {
            dense1: config.hidden,
            dense_activation: activation,
            dense2: labelCount(hf),
            labels: true,
            pooling: 'cls',
          },
          outer: { [dense]: 'pooled.dense1', [out]: 'pooled.dense2', ...modules },
        }
      : null;

/**
 * Returns the classifier of a decoder: one matrix that is applied to the last token.
 * @param {Record<string, any>} hf @returns {LabelLayers | null}
 */
export const lastTokenLabels = (hf) =>
  isClassifier(hf)
    ? {
        config: { dense2: labelCount(hf), labels: true, pooling: 'last', no_head: true, tied: false },
        outer: { score: 'pooled.dense2' },
      }
    : null;

/** Canonical names of a classifier's modules in GGUF files. */
export const GGUF_LABELS = { cls: 'pooled.dense1', 'cls.output': 'pooled.dense2', 'cls.norm': 'pooled.norm' };

/** Values of dense_activation by GGUF's names of activations. @type {Record<string, string>} */
const GGUF_ACTIVATIONS = { gelu: 'gelu_erf', tanh: 'tanh' };

/**
 * Returns the keys of the classifier in a GGUF file; {} if the file has no usable classifier. A classifier needs the
 * matrix of its labels. BERT's own classifier (recognized by two token types) also needs the pooler before it, which
 * the converter to GGUF omits.
 * Throws UNSUPPORTED.
 * @param {GgufFacts} facts
 * @param {string} [activation]  GGUF's name of the activation, used if the file does not specify it
 * @param {number} [pooling]  used if the file does not specify the pooling: 1 is the mean, 2 the first token
 */
export function ggufLabels({ has, dims, get }, activation = 'tanh', pooling = 2) {
  const named = get('classifier.activation', activation);
  const [dense, out] = [has('cls.weight'), has('cls.output.weight')];
  if (!out || (!dense && has('token_types.weight') && dims('token_types.weight')[0] > 1)) return {};
  expect(!dense || Object.hasOwn(GGUF_ACTIVATIONS, named), `a classifier with the activation ${shown(named)}`);
  return {
    ...(dense && { dense1: dims('cls.weight')[0], dense_activation: GGUF_ACTIVATIONS[named] }),
    dense2: dims('cls.output.weight')[0],
    labels: true,
    pooling: get('classifier.pooling_type', pooling) === 1 ? 'mean' : 'cls',
    normalize: false,
  };
}

/**
 * Returns the keys of the classifier of a decoder (Qwen3-Reranker): one matrix in place of the LM head.
 * @param {GgufFacts} facts
 */
export const ggufLastTokenLabels = ({ has, dims }) =>
  has('cls.output.weight')
    ? {
        dense2: dims('cls.output.weight')[0],
        labels: true,
        pooling: 'last',
        normalize: false,
        no_head: true,
        tied: false,
      }
    : {};
