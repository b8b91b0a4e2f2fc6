// In your own page: import { createWorkerEngine, fromBlob } from 'bq4';
import { createWorkerEngine, fromBlob } from '../../js/index.js';
import { $, MINILM, MODEL, offerModel, showError, showProgress } from '../model.js';

/** The cosine similarity of two vectors, which is their dot product, since both have length 1.
 * @param {Float32Array} a @param {Float32Array} b */
const similarityOf = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

try {
  const engine = await createWorkerEngine({ cache: 'auto' });
  let model = await engine.load(MODEL, { onProgress: showProgress });
  $('status').textContent = 'Ready.';
  $('find').disabled = false;
  const replaceModel = async (/** @type {import('../../js/index.js').SourceLike} */ source) => {
    const nextModel = await engine.load(source, { onProgress: showProgress });
    const previousModel = model;
    model = nextModel;
    await previousModel.close();
    $('found').replaceChildren();
  };
  $('file').onchange = async () => {
    $('find').disabled = true;
    try {
      await replaceModel(fromBlob($('file').files[0]));
      $('status').textContent = 'Ready.';
    } catch (error) {
      showError(error);
    }
    $('find').disabled = false;
  };
  $('form').onsubmit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    try {
      const texts = $('texts')
        .value.split(/\n\s*\n/)
        .filter(Boolean);
      const { vectors } = await model.embed([$('question').value, ...texts], { normalize: true });
      const [question, ...paragraphs] = vectors;
      const results = texts
        .map((/** @type {string} */ text, /** @type {number} */ i) => ({
          text,
          similarity: similarityOf(question, paragraphs[i]),
        }))
        .sort((/** @type {any} */ a, /** @type {any} */ b) => b.similarity - a.similarity);
      $('found').replaceChildren(
        ...results.map((/** @type {any} */ { text, similarity }) => {
          const item = document.createElement('li');
          item.textContent = `${text} (${similarity.toFixed(3)})`;
          return item;
        }),
      );
    } catch (error) {
      showError(error);
    }
  };
  await offerModel(MINILM, replaceModel);
} catch (error) {
  showError(error);
}
