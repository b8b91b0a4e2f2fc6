// In your own page: import { createWorkerEngine } from 'bq4';
import { createWorkerEngine } from '../../js/index.js';
import { $, MODEL, showError, showProgress } from '../model.js';
import { SCHEMA } from './schema.js';

try {
  const engine = await createWorkerEngine({ cache: 'auto' });
  const model = await engine.load(MODEL, { onProgress: showProgress });
  $('status').textContent = 'Ready.';
  $('fill').disabled = false;
  $('form').onsubmit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    $('fill').disabled = true;
    try {
      const content = `Fill in the form.\n\n${$('text').value}`;
      const { text, timings } = await model.generate([{ role: 'user', content }], {
        responseFormat: { type: 'json_schema', schema: SCHEMA },
        temperature: 0,
        maxTokens: 120,
      }).result;
      $('json').textContent = text;
      for (const [name, value] of Object.entries(JSON.parse(text))) $('fields').elements[name].value = String(value);
      $('status').textContent = `Filled in after ${(timings.firstTokenMs + timings.decodeMs).toFixed(0)} ms.`;
    } catch (error) {
      showError(error);
    }
    $('fill').disabled = false;
  };
} catch (error) {
  showError(error);
}
