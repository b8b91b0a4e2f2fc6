/** Labels texts: computes their embeddings, then applies a classifier. */
import { BqError } from '../../shared/errors.js';
import { readClassifier, scores } from './classifier.js';

/** @import { ClassifyOptions, Classified, Model } from '../../shared/types.js' */

/**
 * Labels texts. Throws FORMAT if the file is not a classifier, SHAPE if it belongs to a model with other vectors.
 * @param {Pick<Model, 'embed'>} model
 * @param {(string | Uint32Array)[]} texts
 * @param {ClassifyOptions} options
 * @returns {Promise<Classified[]>}  one for each text
 */
export async function classify(model, texts, { classifier: file, ...options }) {
  const head = readClassifier(file);
  const { pooling, normalize, labels, width } = head;
  const { vectors } = await model.embed(texts, { ...options, pooling, normalize });
  return vectors.map((vector) => {
    if (vector.length !== width)
      throw new BqError(
        'SHAPE',
        `the classifier "${head.name}" expects vectors of ${width} numbers, found ${vector.length} (the model's)`,
        { hint: 'load the model that the classifier was trained with' },
      );
    const probabilities = scores(head, vector);
    const index = probabilities.indexOf(Math.max(...probabilities));
    return { label: labels[index], index, score: probabilities[index], scores: probabilities };
  });
}
