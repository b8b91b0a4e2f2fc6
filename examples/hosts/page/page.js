// Script of the page that the app shows. The package and a model are in the same folder as the page.
import { createWorkerEngine } from './bq4/dist/index.js';

/** @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id);

/** @param {any} error */
const showError = (error) => ($('status').textContent = [error.message, error.hint].filter(Boolean).join(': '));

try {
  const engine = await createWorkerEngine();
  const model = await engine.load(new URL('./chat.bq4', import.meta.url));
  const chat = await model.createChat();
  $('status').textContent = `Ready: ${engine.info.build}, ${engine.info.threads} of this device's threads.`;
  $('send').disabled = false;
  $('form').onsubmit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    $('send').disabled = true;
    $('reply').textContent = '';
    try {
      for await (const { text } of chat.send($('message').value, { maxTokens: 60, temperature: 0 }))
        $('reply').textContent += text;
      $('status').textContent = 'Ready.';
    } catch (error) {
      showError(error);
    }
    $('send').disabled = false;
  };
} catch (error) {
  showError(error);
}
