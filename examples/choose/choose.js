// In your own page: import { createWorkerEngine } from 'bq4';
import { createWorkerEngine } from '../../js/index.js';
import { $, MODEL, showError, showProgress } from '../model.js';

/** The line of an answer: its text, its probability (0 to 1) as a percentage and as a bar.
 * @param {{ text: string, probability: number }} option */
function createRow({ text, probability }) {
  const label = document.createElement('label');
  const meter = document.createElement('meter');
  meter.value = probability;
  label.append(`${text.trim()}: ${(100 * probability).toFixed(1)} %`, meter);
  return label;
}

try {
  const engine = await createWorkerEngine({ cache: 'auto' });
  const model = await engine.load(MODEL, { onProgress: showProgress });
  $('status').textContent = 'Ready.';
  $('ask').disabled = false;
  $('form').onsubmit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    try {
      const answers = $('answers').value.split('\n').filter(Boolean);
      const prompt = `Review: ${$('text').value}\nIn one word, it is`;
      const { options } = await model.choose(
        prompt,
        answers.map((/** @type {string} */ answer) => ` ${answer}`),
      );
      $('answer').replaceChildren(...options.map(createRow));
    } catch (error) {
      showError(error);
    }
  };
} catch (error) {
  showError(error);
}
