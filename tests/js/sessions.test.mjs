// Tests of the content and the memory of sessions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createEngine, fromFile } from '../../js/node.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { inTime } from '../waiting.mjs';

const real = realModel('smollm2');
test(
  'SmolLM2: two branches of a conversation, one of them saved and taken up by another engine',
  { skip: real ? false : NO_REAL_MODEL },
  async () => {
    const file = fromFile(/** @type {string} */ (real));
    const engine = await createEngine({ build: 'relaxed', threads: 1 });
    const model = await engine.load(file, { contextTokens: 512, forks: 1, forkTokens: 64 });
    const session = await model.createSession();
    const system = '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n';
    await session.append(system, { parseSpecial: true });
    const fork = await session.fork();
    const ask = async (of, text) => {
      await of.append(`${text}<|im_end|>\n<|im_start|>assistant\n`, { parseSpecial: true });
      return of.continue({ temperature: 0, maxTokens: 12 }).result;
    };
    const [paris, two] = [await ask(session, 'What is the capital of France?'), await ask(fork, 'What is 1 + 1?')];
    assert.match(paris.text, /Paris/);
    assert.match(two.text, /1 \+ 1/);
    const alone = await engine.load(file, { contextTokens: 512 });
    const whole = await alone.tokenize(`${system}What is 1 + 1?<|im_end|>\n<|im_start|>assistant\n`, {
      addSpecial: false,
      parseSpecial: true,
    });
    assert.deepEqual((await alone.generate(whole, { temperature: 0, maxTokens: 12 }).result).tokens, two.tokens);
    const saved = await fork.save();
    const later = await alone.createSession();
    await later.restore(saved);
    const next = { temperature: 0, maxTokens: 8 };
    const isGone = await later.continue(next).result;
    assert.equal(isGone.usage.promptTokens - isGone.usage.cachedTokens, 1);
    assert.deepEqual(isGone.tokens, (await fork.continue(next).result).tokens);
    await engine.close();
  },
);

test('a fork that outlives its session keeps its memory: replies share the rest, and new sessions get what they release', async () => {
  const engine = await createEngine({ threads: 1 });
  const file = fromFile(fileURLToPath(new URL('../../models/chat.bq4', import.meta.url)));
  const model = await engine.load(file, { sessions: 2, forks: 1, forkTokens: 512 });
  const session = await model.createSession();
  await session.append('Once upon a time');
  const fork = await session.fork();
  await session.close();
  // Prompts that have nothing in common, so that each would like a session of its own.
  const ask = async (/** @type {string} */ text) => (await model.generate(text, { maxTokens: 3 }).result).tokens.length;
  for (const text of ['The cat', 'A dog']) assert.equal(await ask(text), 3);
  assert.deepEqual(await inTime('three replies', Promise.all(['One', 'Two', 'Three'].map(ask))), [3, 3, 3]);
  const other = await model.createSession();
  await assert.rejects(model.createSession(), { code: 'NO_SESSION', message: /needs \d+ bytes/ });
  await other.close();
  await fork.close();
  for (let i = 0; i < 2; i++) await model.createSession();
  await engine.close();
});
