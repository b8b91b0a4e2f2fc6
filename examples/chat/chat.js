// In your own page: import { createWorkerEngine } from 'bq4';
import { createWorkerEngine } from '../../js/index.js';
import { $, MODEL, showError, showProgress } from '../model.js';

/** A new paragraph of the conversation. @param {string} text @param {string} [name] */
function paragraph(text, name = '') {
  const p = document.createElement('p');
  p.className = name;
  p.textContent = text;
  $('log').append(p);
  return p;
}

try {
  const engine = await createWorkerEngine({ cache: 'auto' });
  const model = await engine.load(MODEL, { onProgress: showProgress });
  const chat = await model.createChat();
  $('status').textContent = 'Ready.';
  $('send').disabled = false;
  /** @type {AbortController | undefined} */
  let reply;
  $('stop').onclick = () => reply?.abort();
  $('form').onsubmit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if ($('send').disabled) return;
    const text = $('message').value;
    $('message').value = '';
    paragraph(text, 'mine');
    const message = paragraph('');
    reply = new AbortController();
    [$('send').disabled, $('stop').hidden] = [true, false];
    try {
      const words = chat.send(text, { maxTokens: 200, temperature: 0.7, signal: reply.signal });
      for await (const part of words) message.textContent += part.text;
      const { usage, timings } = await words.result;
      const rate = (1000 * (usage.completionTokens - 1)) / timings.decodeMs;
      $('status').textContent = `${usage.completionTokens} tokens, ${rate.toFixed(0)} in a second`;
    } catch (error) {
      showError(error);
    }
    [$('send').disabled, $('stop').hidden] = [false, true];
    $('message').focus();
  };
} catch (error) {
  showError(error);
}
