/**
 * A linear classifier over embeddings of texts. Its file is JSON:
 *
 *   { "format": "bq4-head", "version": 1,
 *     "name": "sentiment", "labels": ["negative", "neutral", "positive"],
 *     "width": 384, "pooling": "mean", "normalize": true,      options of the embeddings
 *     "type": "bq4" | "f32", "weights": base64, "bias": [...],  labels x width, row-major, little-endian
 *     "facts": { ... } }                                       notes for people
 */
import { BqError } from '../../shared/errors.js';
import { pack, packedBytes, unpack } from './block-weights.js';

/** @import { Head, ClassifierFile } from '../../shared/types.js' */

/** Largest number of labels, length of a vector, and number of weights. */
const LIMITS = { labels: 4096, width: 65536, weights: 2 ** 24 };
const HINT = 'pass the JSON that `bq4 train-classifier` writes';

/** @param {string} problem @returns {never} */
function refuse(problem) {
  throw new BqError('FORMAT', `the classifier ${problem}`, { hint: HINT });
}

/** Returns a value as text for a message. @param {unknown} value */
const shown = (value) => (typeof value === 'string' || typeof value === 'number' ? value : 'none');

/** @param {unknown} value @param {number} maximum */
const isCount = (value, maximum) => Number.isInteger(value) && Number(value) > 0 && Number(value) <= maximum;

/**
 * Decodes base64. Throws FORMAT.
 * @param {unknown} text
 * @param {number} length  expected number of bytes
 * @returns {Uint8Array}
 */
function decodeBase64(text, length) {
  if (typeof text !== 'string' || text.length !== Math.ceil(length / 3) * 4)
    refuse(`does not have the ${length} bytes of weights that its labels and width need`);
  try {
    return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  } catch {
    return refuse('has weights that are not base64');
  }
}

/** Checks and decodes the file of a classifier. Throws FORMAT. @param {any} file @returns {Head} */
export function readClassifier(file) {
  if (!file || file.format !== 'bq4-head') refuse('has no "format": "bq4-head"');
  if (file.version !== 1) refuse(`has the version ${shown(file.version)}: expected 1`);
  const { labels, width, type, pooling, normalize, name = '' } = file;
  if (typeof name !== 'string') refuse('has a name that is not a string');
  if (
    !Array.isArray(labels) ||
    labels.length < 2 ||
    labels.length > LIMITS.labels ||
    labels.some((label) => typeof label !== 'string')
  )
    refuse(`has no list of 2 to ${LIMITS.labels} labels`);
  if (!isCount(width, LIMITS.width) || labels.length * width > LIMITS.weights)
    refuse(
      `has the width ${shown(width)}: expected an integer from 1 to ${LIMITS.width}, at most ${LIMITS.weights} weights`,
    );
  if (!['mean', 'cls', 'last'].includes(pooling) || typeof normalize !== 'boolean')
    refuse('has no valid "pooling" (mean, cls or last) or "normalize" (true or false)');
  if (type !== 'f32' && type !== 'bq4') refuse(`has weights of the type ${shown(type)}: expected f32 or bq4`);
  const rows = labels.length;
  const bytes = decodeBase64(file.weights, type === 'bq4' ? packedBytes(rows, width) : 4 * rows * width);
  const weights = type === 'bq4' ? unpack(bytes, rows, width) : new Float32Array(bytes.buffer);
  if (!weights.every(Number.isFinite)) refuse('has a weight that is not finite');
  if (!Array.isArray(file.bias) || file.bias.length !== rows || !file.bias.every(Number.isFinite))
    refuse('does not have one finite bias for each label');
  return { name, labels, width, pooling, normalize, weights, bias: Float32Array.from(file.bias) };
}

/**
 * Encodes a classifier as the contents of its file.
 * @param {Head} head
 * @param {{ type?: 'bq4' | 'f32', facts?: Record<string, unknown> }} [options]
 * @returns {ClassifierFile}
 */
export function writeClassifier(
  { name, labels, width, pooling, normalize, weights, bias },
  { type = 'bq4', facts = {} } = {},
) {
  const bytes = type === 'bq4' ? pack(weights, labels.length, width) : new Uint8Array(weights.slice().buffer);
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return {
    format: 'bq4-head',
    version: 1,
    name,
    labels,
    width,
    pooling,
    normalize,
    type,
    weights: btoa(text),
    bias: Array.from(bias),
    facts,
  };
}

/**
 * Returns the probability of each label.
 * @param {Head} head
 * @param {ArrayLike<number>} vector  `width` numbers
 * @returns {Float32Array}  probabilities, which sum to 1
 */
export function scores({ labels, width, weights, bias }, vector) {
  const logits = Float64Array.from(bias);
  for (let label = 0; label < labels.length; label++)
    for (let i = 0; i < width; i++) logits[label] += weights[label * width + i] * vector[i];
  const maximum = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = logits.map((logit) => Math.exp(logit - maximum));
  const sum = powers.reduce((a, b) => a + b, 0);
  return Float32Array.from(powers, (power) => power / sum);
}
