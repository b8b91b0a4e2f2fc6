/** Texts become labels: the model's vectors, and a head over them. */
import { BqError } from '../../shared/errors.js';
import { readClassifier, scores } from './classifier.js';

/** @import { ClassifyOptions, Classified, Model } from '../../shared/types.js' */

/**
 * FORMAT: no head; SHAPE: of another model.
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
        `the head "${head.name}" is for vectors of ${width} numbers, the model's have ${vector.length}`,
        { hint: 'a head belongs to the model that it was trained with' },
      );
    const all = scores(head, vector);
    const index = all.indexOf(Math.max(...all));
    return { label: labels[index], index, score: all[index], scores: all };
  });
}
