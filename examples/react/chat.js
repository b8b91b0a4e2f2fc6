// A chat of two hooks, with the imports of an app that has a bundler. With JSX, h('p', null, text) is <p>{text}</p>.
// Here: `npm start`, then examples/react/. In an app: `npm install bq4 react react-dom`.
import { createElement as h, StrictMode, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { createWorkerEngine } from 'bq4';
import { useChat, useModel } from 'bq4/react';
import { MODEL } from '../model.js';

/** One for the page, whatever comes and goes on it. */
const engine = createWorkerEngine({ cache: 'auto' });
const loadModel = async (options) => (await engine).load(MODEL, options);

function Chat() {
  const { model, progress, error: failure } = useModel(loadModel);
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
    h('p', { id: 'status', className: 'status', role: 'status' }, says(chat.status, progress, failure ?? chat.error)),
    h(
      'div',
      { id: 'log', className: 'log', role: 'log' },
      chat.messages.map(({ role, content }, i) =>
        h('p', { key: i, className: role === 'user' ? 'mine' : '' }, content),
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

/** A line about the state of things. */
function says(status, progress, error) {
  if (error) return [error.message, error.hint].filter(Boolean).join(': ');
  if (status === 'waiting')
    return progress
      ? `Loading the model: ${((100 * progress.loaded) / progress.total).toFixed(0)} %`
      : 'Loading the model…';
  return status === 'ready' ? 'Ready.' : 'Writing…';
}

createRoot(document.getElementById('root')).render(h(StrictMode, null, h(Chat)));
