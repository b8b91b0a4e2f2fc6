// A chat with two hooks; the imports are those of an app with a bundler. With JSX, h('p', null, text) is <p>{text}</p>.
// In this repository: `npm start`, then examples/react/. In an app: `npm install bq4 react react-dom`.
import { createElement as h, StrictMode, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { createWorkerEngine } from 'bq4';
import { useChat, useModel } from 'bq4/react';
import { MODEL } from '../model.js';

/** The engine of the page; it is created once, outside the components, which can be unmounted. */
const engine = createWorkerEngine({ cache: 'auto' });
const loadModel = async (options) => (await engine).load(MODEL, options);

function Chat() {
  const { model, progress, error: loadError } = useModel(loadModel);
  const chat = useChat(model, { generate: { maxTokens: 200, temperature: 0.7 } });
  const [text, setText] = useState('');
  const send = (event) => {
    event.preventDefault();
    if (chat.status !== 'ready' || !text.trim()) return;
    setText('');
    void chat.send(text);
  };
  return h(
    'section',
    null,
    h(
      'p',
      { id: 'status', className: 'status', role: 'status' },
      statusText(chat.status, progress, loadError ?? chat.error),
    ),
    h(
      'div',
      { id: 'log', className: 'log', role: 'log' },
      chat.messages.map(({ role, content }, i) =>
        h('p', { key: i, className: role === 'user' ? 'user' : '' }, content),
      ),
    ),
    h(
      'form',
      { onSubmit: send },
      h(
        'label',
        null,
        'Message ',
        h('input', {
          id: 'message',
          value: text,
          autoComplete: 'off',
          onChange: (event) => setText(event.target.value),
        }),
      ),
      h(
        'p',
        null,
        h('button', { id: 'send', disabled: chat.status !== 'ready' }, 'Send'),
        ' ',
        h(
          'button',
          {
            id: 'again',
            type: 'button',
            disabled: chat.status !== 'ready' || !chat.messages.length,
            onClick: chat.regenerate,
          },
          'Another reply',
        ),
        ' ',
        chat.status === 'replying' && h('button', { id: 'stop', type: 'button', onClick: chat.stop }, 'Stop'),
      ),
    ),
  );
}

/** Text of the status line. */
function statusText(status, progress, error) {
  if (error) return [error.message, error.hint].filter(Boolean).join(': ');
  if (status === 'waiting')
    return progress
      ? `Loading the model: ${((100 * progress.loaded) / progress.total).toFixed(0)} %`
      : 'Loading the model…';
  return status === 'ready' ? 'Ready.' : 'Writing…';
}

createRoot(document.getElementById('root')).render(h(StrictMode, null, h(Chat)));
