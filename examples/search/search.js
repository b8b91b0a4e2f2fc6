// In your own page: import { createWorkerEngine, fromBlob } from 'bq4';
import { createWorkerEngine, fromBlob } from '../../js/index.js';
import { $, MINILM, MODEL, offerModel, showError, showProgress } from '../model.js';

/** Vectors have length 1, so this is the cosine. @param {Float32Array} a @param {Float32Array} b */
const nearness = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

try {
  const engine = await createWorkerEngine({ cache: 'auto' });
  let model = await engine.load(MODEL, { onProgress: showProgress });
  $('status').textContent = 'Ready.';
  $('find').disabled = false;
  const use = async (/** @type {import('../../js/index.js').SourceLike} */ source) => {
    const other = await engine.load(source, { onProgress: showProgress });
    const before = model;
    model = other;
    await before.close();
    $('found').replaceChildren();
  };
  $('file').onchange = async () => {
    $('find').disabled = true;
    try {
      await use(fromBlob($('file').files[0]));
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
      const [question, ...others] = vectors;
      const found = texts
        .map((/** @type {string} */ text, /** @type {number} */ i) => ({ text, near: nearness(question, others[i]) }))
        .sort((/** @type {any} */ a, /** @type {any} */ b) => b.near - a.near);
      $('found').replaceChildren(
        ...found.map((/** @type {any} */ { text, near }) => {
          const li = document.createElement('li');
          li.textContent = `${text} (${near.toFixed(3)})`;
          return li;
        }),
      );
    } catch (error) {
      showError(error);
    }
  };
  await offerModel(MINILM, use);
} catch (error) {
  showError(error);
}
