/**
 * Classifiers of checkpoints: layers behind the pooling whose results are a logit for each label (`labels` of the configuration).
 * A reranker is one with a single label, or with "yes" and "no".
 */

/** @typedef {import('./gguf.js').GgufFacts} GgufFacts */

/**
 * The classifier of a checkpoint.
 * @typedef {object} LabelLayers
 * @property {Record<string, any>} config  what it adds to our configuration
 * @property {Record<string, string>} outer  canonical names of its modules, by theirs without the family's prefix
 */

/** Names of the labels in config.json, in their order; [] if it has none. @param {Record<string, any>} hf @returns {string[]} */
export const labelNames = ({ id2label }) =>
  Object.entries(id2label ?? {})
    .sort(([a], [b]) => Number(a) - Number(b))
    .map(([, name]) => String(name));

/** Whether the checkpoint is of a class ...ForSequenceClassification. @param {Record<string, any>} hf */
const classifies = ({ architectures }) => /ForSequenceClassification$/.test(String(architectures?.[0] ?? ''));

/** Number of labels; transformers' default is 2. @param {Record<string, any>} hf */
const labelCount = (hf) => labelNames(hf).length || hf.num_labels || 2;

/**
 * A dense layer with an activation, then the labels.
 * @param {string} dense @param {string} out  modules @param {string} activation  CONF's dense_activation @param {Record<string, any>} [more]
 * @returns {(hf: Record<string, any>, config: Record<string, any>) => LabelLayers | null}
 */
export const denseLabels =
  (dense, out, activation, more = {}) =>
  (hf, config) =>
    classifies(hf)
      ? {
          config: {
            dense1: config.hidden,
            dense_activation: activation,
            dense2: labelCount(hf),
            labels: true,
            pooling: 'cls',
          },
          outer: { [dense]: 'pooled.dense1', [out]: 'pooled.dense2', ...more },
        }
      : null;

/** Of a decoder: the labels of the last token, by a matrix alone. @param {Record<string, any>} hf @returns {LabelLayers | null} */
export const lastTokenLabels = (hf) =>
  classifies(hf)
    ? {
        config: { dense2: labelCount(hf), labels: true, pooling: 'last', no_head: true, tied: false },
        outer: { score: 'pooled.dense2' },
      }
    : null;

/** Modules of a classifier in GGUF files. */
export const GGUF_LABELS = { cls: 'pooled.dense1', 'cls.output': 'pooled.dense2', 'cls.norm': 'pooled.norm' };

/**
 * Configuration of the classifier in a GGUF file; {}: the file has no classifier. Its converter leaves out the pooler that BERT's own classifier
 * (two token types) is trained behind: without it, and without the labels' matrix, the rest makes no sense and isn't used.
 * @param {GgufFacts} facts @param {string} [activation] @param {number} [pooling]  where the file doesn't say: 1 the mean, 2 the first token
 */
export function ggufLabels({ has, dims, get }, activation = 'tanh', pooling = 2) {
  const [dense, out] = [has('cls.weight'), has('cls.output.weight')];
  if (!out || (!dense && has('token_types.weight') && dims('token_types.weight')[0] > 1)) return {};
  return {
    ...(dense && { dense1: dims('cls.weight')[0], dense_activation: activation }),
    dense2: dims('cls.output.weight')[0],
    labels: true,
    pooling: get('classifier.pooling_type', pooling) === 1 ? 'mean' : 'cls',
    normalize: false,
  };
}

/** The same of a decoder (Qwen3-Reranker): labels of the last token, in place of the LM head. @param {GgufFacts} facts */
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
