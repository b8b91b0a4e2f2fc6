// In your own page: import { createWorkerEngine } from 'bq4';
import { createWorkerEngine } from '../../js/index.js';
import { $, MODEL, showError, showProgress } from '../model.js';

try {
  const registration = await navigator.serviceWorker?.register(new URL('./sw.js', import.meta.url));
  const engine = await createWorkerEngine({
    // A service worker can store scripts of workers only if they are in its folder.
    worker: () => new Worker(new URL('./worker.js', import.meta.url), { type: 'module' }),
    threadUrl: new URL('./thread.js', import.meta.url),
    cache: 'auto',
  });
  const model = await engine.load(MODEL, { onProgress: showProgress });
  await model.loaded;
  $('tell').disabled = false;
  $('status').textContent = navigator.serviceWorker?.controller
    ? 'Ready, with or without a network.'
    : registration
      ? 'Ready. From the next visit on it needs no network.'
      : 'Ready. This browser has no service workers here.';
  $('tell').onclick = async () => {
    $('tell').disabled = true;
    $('story').textContent = '';
    try {
      const messages = [{ role: /** @type {const} */ ('user'), content: 'Tell me a story.' }];
      for await (const { text } of model.generate(messages, { maxTokens: 150, temperature: 0.7 }))
        $('story').textContent += text;
    } catch (error) {
      showError(error);
    }
    $('tell').disabled = false;
  };
} catch (error) {
  showError(error);
}
