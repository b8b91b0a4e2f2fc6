// `connect()` to llama.cpp's own server, which LLAMA_SERVER names (a program built from node-llama-cpp's source bundle, for instance):
// building it takes half an hour of a processor, so `node --test tests/js/connect-llama.mjs` is run by hand.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { connect } from '../../js/connect.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { inTime, until } from '../waiting.mjs';

const program = process.env.LLAMA_SERVER;
const file = realModel('smollm2');
const PORT = 8491;
const messages = [{ role: /** @type {const} */ ('user'), content: 'Say hi.' }];
const fixed = { messages, temperature: 0, max_tokens: 12 };

describe(
  "llama.cpp's server",
  { skip: (!program && 'LLAMA_SERVER names no llama-server') || (!file && NO_REAL_MODEL) },
  () => {
    const remote = connect(`http://127.0.0.1:${PORT}/v1`);
    /** @type {import('node:child_process').ChildProcess} */
    let server;
    before(async () => {
      server = spawn(
        /** @type {string} */ (program),
        [
          '-m',
          /** @type {string} */ (file),
          '--port',
          String(PORT),
          '-c',
          '1024',
          '-t',
          '1',
          '--embeddings',
          '--pooling',
          'mean',
        ],
        { stdio: 'ignore' },
      );
      await until('the server', async () => (await fetch(`http://127.0.0.1:${PORT}/health`).catch(() => null))?.ok);
    });
    after(() => server.kill());

    test('chat, streamed or not, completions, embeddings, models', async () => {
      const {
        choices: [{ message }],
        usage,
      } = await remote.chat.completions.create(fixed);
      assert.equal(usage.completion_tokens, 12);
      let text = '';
      for await (const chunk of await remote.chat.completions.create({ ...fixed, stream: true }))
        text += chunk.choices[0]?.delta.content ?? '';
      assert.equal(text, message.content);
      assert.ok((await remote.completions.create({ prompt: 'Once', max_tokens: 5 })).choices[0].text);
      assert.equal((await remote.embeddings.create({ input: ['a', 'b'] })).data.length, 2);
      assert.equal((await remote.models.list()).data.length, 1);
    });

    test('its errors, typed; an abort ends a request', async () => {
      await assert.rejects(
        remote.chat.completions.create({ messages: [{ role: 'user', content: 'word '.repeat(3000) }] }),
        { code: 'CONTEXT_FULL' },
      );
      await assert.rejects(remote.chat.completions.create(/** @type {any} */ ({ messages, temperature: 'x' })), {
        code: 'HTTP_STATUS',
      });
      const controller = new AbortController();
      const reason = new Error('enough');
      await assert.rejects(async () => {
        for await (const _ of await remote.chat.completions.create(
          { messages, stream: true },
          { signal: controller.signal },
        ))
          controller.abort(reason);
      }, reason);
      assert.equal((await inTime('the next reply', remote.chat.completions.create(fixed))).choices.length, 1);
    });
  },
);
