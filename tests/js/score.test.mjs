// model.score, model.rerank, and schemas of libraries in the place of JSON Schemas.
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import { z } from 'zod';
import { BqError } from '../../js/shared/errors.js';
import { createEngine, fromBytes, fromFile } from '../../js/node.js';
import { createWorkerEngine } from '../../js/index.js';
import { jsonSchemaOf, plainTools } from '../../js/shared/standard-schema.js';
import { tinyModel } from './fixture.mjs';

const BUNDLED = fileURLToPath(new URL('../../models/chat.bq4', import.meta.url));
const round = (/** @type {number} */ x) => Number(x.toFixed(6));

test('score: the log probability of each token equals that of its generation', async (t) => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  t.after(() => engine.close());
  const model = await engine.load(fromFile(BUNDLED));
  const ids = await model.tokenize('Once upon a time');
  const { tokens, logprob, perplexity } = await model.score('Once upon a time', { topLogprobs: 2 });
  assert.deepEqual(
    tokens.map(({ token }) => token),
    ids.slice(1),
  );
  assert.ok(tokens.every(({ top }) => top.length === 2 && top[0].logprob >= top[1].logprob));
  assert.equal(round(logprob), round(tokens.reduce((sum, token) => sum + token.logprob, 0)));
  assert.equal(round(perplexity), round(Math.exp(-logprob / tokens.length)));
  const logitBias = [{ token: ids[1], bias: 1e9 }];
  const forced = model.generate(ids.slice(0, 1), { maxTokens: 1, temperature: 0, logprobs: 0, logitBias });
  for await (const part of forced) assert.equal(part.logprobs?.logprob, tokens[0].logprob);
  assert.equal((await model.score(ids)).logprob, logprob);
  await assert.rejects(model.score([1]), { code: 'ARGUMENT' });
  await assert.rejects(model.score('x y', /** @type {any} */ ({ top: 1 })), { code: 'ARGUMENT' });
});

test('score in a worker is that of this thread', async (t) => {
  const [here, there] = [await createEngine({ threads: 1 }), await createWorkerEngine({ threads: 1 })];
  t.after(() => Promise.all([here.close(), there.close()]));
  const bytes = await tinyModel();
  const [one, two] = [await here.load(fromBytes(bytes)), await there.load(fromBytes(bytes))];
  assert.deepEqual(await two.score('abc abd'), await one.score('abc abd'));
});

test('rerank: refused with a hint where the model generates text', async (t) => {
  const engine = await createEngine({ threads: 1 });
  t.after(() => engine.close());
  const model = await engine.load(fromBytes(await tinyModel()));
  await assert.rejects(model.rerank('a', ['b']), { code: 'UNSUPPORTED', hint: /embedding model/ });
  await assert.rejects(model.rerank('a', /** @type {any} */ ('b')), { code: 'ARGUMENT' });
});

test('rerank: the cosine of vectors, the most relevant first; equal ones in their order', async () => {
  const { rerank } = await import('../../js/api/score.js');
  /** @type {Record<string, number[]>} */
  const vectors = { q: [1, 0], near: [0.8, 0.6], far: [0, 1], same: [1, 0] };
  const model = /** @type {any} */ ({
    info: { reranks: 'cosine', prompts: {} },
    embed: async (/** @type {string[]} */ texts) => ({
      vectors: texts.map((text) => Float32Array.from(vectors[text])),
      tokens: texts.map(() => 1),
    }),
  });
  const ranked = await rerank(model, 'q', ['far', 'near', 'same', 'same']);
  assert.deepEqual(
    ranked.map(({ index, document }) => [index, document]),
    [
      [2, 'same'],
      [3, 'same'],
      [1, 'near'],
      [0, 'far'],
    ],
  );
  assert.deepEqual(await rerank(model, 'q', []), []);
  // A query that is too long is not called the first document.
  const full = () =>
    new BqError('CONTEXT_FULL', 'text 0 has 99 tokens; the limit is 9 tokens', { details: { index: 0 } });
  const long = {
    ...model,
    embed: async (/** @type {string[]} */ [text]) => (text === 'q' ? Promise.reject(full()) : null),
  };
  await assert.rejects(rerank(long, 'q', ['far']), (/** @type {any} */ error) => {
    assert.deepEqual([error.message, error.details], ['the query has 99 tokens; the limit is 9 tokens', {}]);
    return true;
  });
  // Progress counts the documents: it doesn't end with the query and begin again.
  /** @type {any[]} */
  const handlers = [];
  const watched = {
    ...model,
    embed: async (/** @type {string[]} */ texts, /** @type {any} */ { onProgress }) => {
      handlers.push([texts.length, typeof onProgress]);
      return model.embed(texts);
    },
  };
  await rerank(watched, 'q', ['far', 'near'], { onProgress: () => {} });
  assert.deepEqual(handlers, [
    [1, 'undefined'],
    [2, 'function'],
  ]);
});

test("a schema of zod holds a reply, in its place and as its schema, here, in a worker and in OpenAI's call", async (t) => {
  const mood = z.object({ mood: z.enum(['good', 'bad']) });
  const messages = [{ role: 'user', content: 'How are you?' }];
  for (const create of [createEngine, createWorkerEngine]) {
    const engine = await create({ threads: 1 });
    t.after(() => engine.close());
    const model = await engine.load(fromFile(BUNDLED));
    for (const responseFormat of [mood, { type: /** @type {const} */ ('json_schema'), schema: mood }]) {
      const { text } = await model.generate(messages, { responseFormat, maxTokens: 30 }).result;
      assert.ok(mood.parse(JSON.parse(text)));
    }
    const { choices } = await model.chat.completions.create({ messages, response_format: mood, max_tokens: 30 });
    assert.ok(mood.parse(JSON.parse(String(choices[0].message.content))));
  }
});

test('a library without the interface is refused by its name; JSON Schemas stay as they are', () => {
  assert.throws(() => jsonSchemaOf({ '~standard': { vendor: 'old' } }), { code: 'UNSUPPORTED', message: /old/ });
  const [tool] = plainTools([{ type: 'function', function: { name: 'x', parameters: z.object({ a: z.string() }) } }]);
  assert.deepEqual(tool.function.parameters.required, ['a']);
  const schema = { type: 'object' };
  assert.equal(jsonSchemaOf(schema), schema);
});
