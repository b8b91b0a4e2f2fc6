// In your own page: import { createWorkerEngine } from 'bq4';
import { createWorkerEngine } from '../../js/index.js';
import { $, MODEL, offerModel, showError, showProgress, SMOLLM2 } from '../model.js';
import { SCHEMA } from './schema.js';

try {
  const engine = await createWorkerEngine({ cache: 'auto' });
  let model = await engine.load(MODEL, { onProgress: showProgress });
  $('status').textContent = 'Ready.';
  $('fill').disabled = false;
  $('form').onsubmit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    $('fill').disabled = true;
    try {
      const content = `Extract name, age, number of tickets and day as JSON from this text:\n\n${$('text').value}`;
      const { text, timings } = await model.generate([{ role: 'user', content }], {
        responseFormat: { type: 'json_schema', schema: SCHEMA },
        temperature: 0,
        maxTokens: 120,
      }).result;
      $('json').textContent = text;
      for (const [name, value] of Object.entries(JSON.parse(text))) $('fields').elements[name].value = String(value);
      $('status').textContent = `Filled in after ${((timings.firstTokenMs + timings.decodeMs) / 1000).toFixed(1)} s.`;
    } catch (error) {
      showError(error);
    }
    $('fill').disabled = false;
  };
  await offerModel(SMOLLM2, async (source) => {
    const nextModel = await engine.load(source, { onProgress: showProgress });
    const previousModel = model;
    model = nextModel;
    await previousModel.close();
  });
} catch (error) {
  showError(error);
}
