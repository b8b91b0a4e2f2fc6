// In your own page: import { createWorkerEngine } from 'bq4';
import { createWorkerEngine } from '../../js/index.js';
import { $, MODEL, showError, showProgress } from '../model.js';

/** Appends a paragraph to the conversation and returns its element. @param {string} text @param {string} [className] */
function appendParagraph(text, className = '') {
  const element = document.createElement('p');
  element.className = className;
  element.textContent = text;
  $('log').append(element);
  return element;
}

try {
  const engine = await createWorkerEngine({ cache: 'auto' });
  const model = await engine.load(MODEL, { onProgress: showProgress });
  const chat = await model.createChat();
  $('status').textContent = 'Ready.';
  $('send').disabled = false;
  /** Stops the current reply. @type {AbortController | undefined} */
  let controller;
  $('stop').onclick = () => controller?.abort();
  $('form').onsubmit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if ($('send').disabled) return;
    const text = $('message').value;
    $('message').value = '';
    appendParagraph(text, 'user');
    const message = appendParagraph('');
    controller = new AbortController();
    [$('send').disabled, $('stop').hidden] = [true, false];
    try {
      const reply = chat.send(text, { maxTokens: 200, temperature: 0.7, signal: controller.signal });
      for await (const part of reply) message.textContent += part.text;
      const { usage, timings } = await reply.result;
      const rate = (1000 * (usage.completionTokens - 1)) / timings.decodeMs;
      $('status').textContent = `${usage.completionTokens} tokens, ${rate.toFixed(0)} per second`;
    } catch (error) {
      showError(error);
    }
    [$('send').disabled, $('stop').hidden] = [false, true];
    $('message').focus();
  };
} catch (error) {
  showError(error);
}
