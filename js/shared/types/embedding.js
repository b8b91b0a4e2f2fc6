/** Types of the methods that represent and rate given texts: vectors, classifiers, reranking, perplexity. */

/** @import { Logprob, PrefillProgress } from './generation.js' */

/**
 * How the vectors of a text's tokens become one vector: their mean, the first one or the last one.
 * @typedef {'mean' | 'cls' | 'last'} Pooling
 */

/**
 * @typedef {object} EmbedOptions
 * @property {Pooling} [pooling]    default: as specified by the file, else the mean
 * @property {boolean} [normalize]  whether vectors are scaled to length 1, so that a dot product is a cosine. Default:
 *   as specified by the file, else true
 * @property {string} [prompt]  name of the embedding prompt before each text (`info.prompts`); '': none. Default: as
 *   specified by the file
 * @property {boolean} [truncate]  whether a text that is too long is cut after its beginning, which the result reports.
 *   Default true; false: CONTEXT_FULL is thrown
 * @property {AbortSignal} [signal]
 * @property {(progress: EmbedProgress) => void} [onProgress]  progress in texts
 */

/**
 * @typedef {object} EmbedProgress
 * @property {'embed'} phase
 * @property {number} loaded  number of texts whose vectors are computed
 * @property {number} total
 * @property {'texts'} unit
 * @property {null | number} bytesPerSecond  always null
 * @property {number | null} etaMs  milliseconds until the last vector is computed; null while unknown
 */

/**
 * @typedef {object} Embeddings
 * @property {Float32Array[]} vectors  one for each text, in their order
 * @property {number[]} tokens         number of tokens of each text
 * @property {number[]} truncated      indices of texts that were too long; their vectors represent the beginnings
 */

/**
 * @typedef {object} ScoreOptions
 * @property {number} [topLogprobs]  number of most probable tokens to list at each position, at most 20. Default 0
 * @property {AbortSignal} [signal]
 * @property {(progress: PrefillProgress) => void} [onProgress]
 */

/**
 * Probability of a text.
 * @typedef {object} Score
 * @property {(Logprob & { top: Logprob[] })[]} tokens  all tokens except the first one, which has no tokens before it
 * @property {number} logprob     sum of the natural logarithms of the tokens' probabilities
 * @property {number} perplexity  perplexity of the text
 */

/**
 * `topN`: largest number of documents to return.
 * @typedef {Pick<EmbedOptions, 'truncate' | 'signal' | 'onProgress'> & { topN?: number }} RerankOptions
 */

/**
 * @typedef {object} Ranked
 * @property {number} index   index in the given list
 * @property {number} score  from a classifier: probability that the document fits, 0 to 1; from vectors: their cosine,
 *   -1 to 1
 * @property {string} document
 * @property {'classifier' | 'cosine'} method
 * @property {number} tokens  number of tokens read: of the pair for a classifier, of the document alone for vectors
 * @property {number} [logit]  logit of the classifier's label
 */

/**
 * A classifier over a model's vectors.
 * @typedef {object} Head
 * @property {string} name
 * @property {string[]} labels
 * @property {number} width       length of a vector
 * @property {Pooling} pooling
 * @property {boolean} normalize
 * @property {Float32Array} weights  labels x width
 * @property {Float32Array} bias     one for each label
 */

/**
 * A classifier as JSON, written by `bq4 train-classifier`; js/api/classifiers/classifier.js describes the fields.
 * @typedef {{ format: 'bq4-head', version: 1, name: string, labels: string[], width: number, pooling: Pooling, normalize: boolean,
 *   type: 'bq4' | 'f32', weights: string, bias: number[], facts: Record<string, unknown> }} ClassifierFile
 */

/**
 * @typedef {object} ClassifyOptions
 * @property {ClassifierFile} [classifier]  default: the model's own (`info.labels`). SHAPE is thrown for a classifier
 *   of a model with other vectors
 * @property {boolean} [truncate]  as in `embed`
 * @property {AbortSignal} [signal]
 * @property {(progress: EmbedProgress) => void} [onProgress]  progress in texts
 */

/**
 * Label of a text, with the scores of all labels.
 * @typedef {object} Classified
 * @property {string} label
 * @property {number} index   index of the label
 * @property {number} score   probability of the label, 0 to 1
 * @property {Float32Array} scores  scores of all labels
 * @property {Float32Array} [logits]  logits of the model's own classifier, from which the scores are computed
 * @property {number} [tokens]        number of tokens read
 */

export {};
