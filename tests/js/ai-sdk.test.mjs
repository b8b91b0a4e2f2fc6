// Tests of `bq4/ai-sdk` with Vercel's AI SDK.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createProviderRegistry, embed, embedMany, generateText, jsonSchema, Output, streamText, tool } from 'ai';
import { createProvider, embeddingModel, languageModel, rerankingModel } from '../../js/api/adapters/ai-sdk.js';
import { pieces, collectReply } from '../../js/api/adapters/translate.js';
import { connect } from '../../js/connect.js';
import { createWorkerEngine, fromFile } from '../../js/index.js';
import { inTime } from '../waiting.mjs';
import { connectToScript } from './scripted-server.mjs';
import { setTimeouts, skipDelays } from './timeouts.mjs';

const FILE = fileURLToPath(new URL('../../models/chat.bq4', import.meta.url));
const prompt = 'Who are you?';
const fixed = { temperature: 0, maxOutputTokens: 12, maxRetries: 0 };
/** @type {import('../../js/index.js').Engine} */
let engine;
/** @type {import('../../js/index.js').Model} */
let own;
/** @type {any} */
let model;
/** What the model says. @type {import('../../js/index.js').ChatCompletion} */
let message;
before(async () => {
  engine = await createWorkerEngine({ threads: 1 });
  own = await engine.load(fromFile(FILE), { contextTokens: 512 });
  model = languageModel(own, { modelId: 'chat' });
  message = await own.chat.completions.create({
    messages: [{ role: 'user', content: prompt }],
    temperature: 0,
    max_tokens: 12,
  });
});
after(() => engine.close());

test('generateText returns the text, the finish reason and the usage', async () => {
  const { text, finishReason, usage, warnings } = await generateText({ model, prompt, ...fixed });
  assert.equal(text, message.choices[0].message.content);
  assert.deepEqual(
    [finishReason, usage.inputTokens, usage.outputTokens],
    [message.choices[0].finish_reason, message.usage.prompt_tokens, message.usage.completion_tokens],
  );
  assert.deepEqual(warnings ?? [], []);
});

test('streamText yields the same text in parts', async () => {
  const { textStream, finishReason, usage } = streamText({ model, prompt, ...fixed });
  const parts = [];
  for await (const part of textStream) parts.push(part);
  assert.equal(parts.join(''), message.choices[0].message.content);
  assert.ok(parts.length > 3);
  assert.equal(await finishReason, message.choices[0].finish_reason);
  assert.equal((await usage).outputTokens, message.usage.completion_tokens);
});

test('an abandoned stream without output releases its session to the next call', async (t) => {
  setTimeouts(t, { streamLook: 1 });
  for (let round = 0; round < 2; round++) {
    const errors = [];
    const { textStream } = streamText({
      model,
      prompt,
      ...fixed,
      maxOutputTokens: 400,
      onError: ({ error }) => void errors.push(error),
    });
    for await (const part of textStream) if (part) break;
    const { text } = await inTime('the next call', generateText({ model, prompt, ...fixed }));
    assert.equal(text, message.choices[0].message.content);
  }
});

test('a canceled stream releases its session, no matter how much of it was read', async () => {
  for (let reads = 0; reads < 5; reads++) {
    const { stream } = await model.doStream({
      prompt: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }],
      maxOutputTokens: 100,
    });
    const reader = stream.getReader();
    for (let i = 0; i < reads; i++) await reader.read();
    await reader.cancel();
    const { text } = await inTime('the next call', generateText({ model, prompt, ...fixed }));
    assert.equal(text, message.choices[0].message.content);
  }
});

test('a conversation with settings and several messages gives the same request', async () => {
  const { text } = await generateText({
    model,
    ...fixed,
    topP: 0.9,
    topK: 5,
    seed: 3,
    stopSequences: ['zzz'],
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Hello' },
          { type: 'text', text: '!' },
        ],
      },
      { role: 'assistant', content: 'Hi.' },
      { role: 'user', content: prompt },
    ],
  });
  const { choices } = await own.chat.completions.create({
    temperature: 0,
    max_tokens: 12,
    top_p: 0.9,
    top_k: 5,
    seed: 3,
    stop: ['zzz'],
    messages: [
      { role: 'user', content: 'Hello!' },
      { role: 'assistant', content: 'Hi.' },
      { role: 'user', content: prompt },
    ],
  });
  assert.equal(text, choices[0].message.content);
});

test('generateObject returns an object that matches its schema', async () => {
  const schema = jsonSchema({
    type: 'object',
    properties: { mood: { enum: ['good', 'bad'] }, age: { type: 'integer', minimum: 0, maximum: 99 } },
    required: ['mood', 'age'],
    additionalProperties: false,
  });
  const { output } = await generateText({
    model,
    prompt,
    ...fixed,
    maxOutputTokens: 80,
    temperature: 1.5,
    seed: 1,
    output: Output.object({ schema }),
  });
  const { mood, age } = /** @type {any} */ (output);
  assert.ok(['good', 'bad'].includes(mood) && Number.isInteger(age), JSON.stringify(output));
});

test('embed and embedMany return the vectors of the model', async () => {
  const values = ['Hello', 'Good day', 'Bye'];
  const { vectors } = await own.embed(values);
  const wanted = vectors.map((vector) => Array.from(vector));
  assert.deepEqual((await embedMany({ model: embeddingModel(own), values })).embeddings, wanted);
  assert.deepEqual((await embed({ model: embeddingModel(own), value: values[1] })).embedding, wanted[1]);
});

test('a provider registry selects one of several models', async () => {
  const registry = createProviderRegistry({ bq4: createProvider({ chat: own }) });
  assert.equal(
    (await generateText({ model: registry.languageModel('bq4:chat'), prompt, ...fixed })).text,
    message.choices[0].message.content,
  );
  await assert.rejects(
    async () => generateText({ model: registry.languageModel('bq4:other'), prompt }),
    /unknown model "other"/,
  );
});

test('an abort ends a generation; the next one succeeds', async () => {
  const controller = new AbortController();
  let seen = 0;
  const { fullStream } = streamText({
    model,
    prompt: 'Tell me a story.',
    abortSignal: controller.signal,
    maxRetries: 0,
    onError() {},
  });
  const kinds = [];
  for await (const part of fullStream) {
    kinds.push(part.type);
    if (part.type === 'text-delta' && ++seen === 2) controller.abort();
  }
  assert.ok(kinds.includes('abort'), `${kinds}`);
  assert.equal(
    (await inTime('the next reply', generateText({ model, prompt, ...fixed }))).text,
    message.choices[0].message.content,
  );
});

test('failures of the model are thrown; unsupported options are warnings', async () => {
  await assert.rejects(generateText({ model, prompt: 'word '.repeat(1000), ...fixed }), { code: 'CONTEXT_FULL' });
  await assert.rejects(
    generateText({
      model,
      ...fixed,
      messages: [{ role: 'user', content: [{ type: 'image', image: new Uint8Array([137, 80, 78, 71]) }] }],
    }),
    /expected a part of type "text"/,
  );
  const { warnings } = await generateText({ model, prompt, ...fixed, reasoning: 'high' });
  assert.deepEqual(
    warnings?.map((one) => 'feature' in one && one.feature),
    ['reasoning'],
  );
});

test('tools: the call runs, its result is sent back, and the model writes the text', async () => {
  const { model: messageText, requests } = await connectToScript([
    [
      { reasoning_content: 'I look.' },
      { tool_calls: [{ index: 0, id: 'call_7', function: { name: 'weather', arguments: '{"city"' } }] },
      { tool_calls: [{ index: 0, function: { arguments: ':"Bonn"}' } }] },
    ],
    [{ content: 'It ' }, { content: 'rains.' }],
  ]);
  const weather = tool({
    description: 'The weather',
    inputSchema: /** @type {import('ai').Schema<{ city: string }>} */ (
      jsonSchema({ type: 'object', properties: { city: { type: 'string' } } })
    ),
    execute: async ({ city }) => ({ city, sky: 'rain' }),
  });
  const result = streamText({
    model: languageModel(messageText),
    prompt: 'Weather?',
    tools: { weather },
    stopWhen: ({ steps }) => steps.length === 2,
    onError({ error }) {
      throw error;
    },
  });
  const kinds = [];
  for await (const part of result.fullStream) kinds.push(part.type);
  assert.equal(await result.text, 'It rains.');
  for (const kind of ['reasoning-delta', 'tool-input-start', 'tool-input-delta', 'tool-call', 'tool-result'])
    assert.ok(kinds.includes(kind), `${kind} of ${kinds}`);
  assert.deepEqual(
    requests[0].tools.map((one) => one.function.name),
    ['weather'],
  );
  const [, call, answer] = requests[1].messages;
  assert.deepEqual(call.tool_calls, [
    { id: 'call_7', type: 'function', function: { name: 'weather', arguments: '{"city":"Bonn"}' } },
  ]);
  assert.deepEqual(answer, { role: 'tool', tool_call_id: 'call_7', content: '{"city":"Bonn","sky":"rain"}' });
});

test('parts of simultaneous tool calls are joined by their index', async () => {
  const { model: messageText } = await connectToScript([
    [
      { content: 'a' },
      {
        tool_calls: [
          { index: 0, id: 'x', function: { name: 'f', arguments: '{' } },
          { index: 1, id: 'y', function: { name: 'g', arguments: '' } },
        ],
      },
      {
        tool_calls: [
          { index: 1, function: { arguments: '{}' } },
          { index: 0, function: { arguments: '}' } },
        ],
      },
    ],
  ]);
  const { text, calls } = await collectReply(pieces(messageText, { messages: [] }));
  assert.deepEqual(
    [text, calls],
    [
      'a',
      [
        { id: 'x', name: 'f', input: '{}' },
        { id: 'y', name: 'g', input: '{}' },
      ],
    ],
  );
});

/** A model that streams these chunks. @param {object[]} chunks @returns {any} */
const streaming = (chunks) => ({
  chat: {
    completions: {
      create: async () =>
        (async function* () {
          yield* chunks;
        })(),
    },
  },
});
const chunkOf = (/** @type {object} */ delta, finish_reason = null, more = {}) => ({
  id: '1',
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta, finish_reason }],
  ...more,
});

test('the finish reason of a reply with calls is tool-calls, whatever the server sends', async () => {
  const call = { tool_calls: [{ index: 0, id: 'x', type: 'function', function: { name: 'f', arguments: '{}' } }] };
  for (const [delta, messageText, reason] of /** @type {const} */ ([
    [call, 'stop', 'tool_calls'],
    [call, 'tool_calls', 'tool_calls'],
    [call, 'length', 'length'],
    [{ content: 'a' }, 'stop', 'stop'],
  ]))
    assert.equal(
      (await collectReply(pieces(streaming([chunkOf(delta), chunkOf({}, messageText)]), {}))).reason,
      reason,
      messageText,
    );
});

test('usage distinguishes cached tokens of the prompt from new ones', async () => {
  const usage = { prompt_tokens: 10, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 4 } };
  const model = languageModel(streaming([chunkOf({ content: 'a' }), chunkOf({}, 'stop', { usage })]), { modelId: 'x' });
  const { inputTokens, inputTokenDetails, outputTokens } = (await generateText({ model, prompt, maxRetries: 0 })).usage;
  assert.deepEqual([inputTokens, outputTokens], [10, 2]);
  assert.deepEqual([inputTokenDetails.noCacheTokens, inputTokenDetails.cacheReadTokens], [6, 4]);
});

test('invalid options and models are refused by name; fields for bq4 become fields of the request', async () => {
  /** @type {any} */
  const far = { chat: { completions: { create: () => {} } } };
  for (const make of [languageModel, embeddingModel, rerankingModel]) {
    for (const wrong of /** @type {any[]} */ ([null, undefined, {}, Promise.resolve(far), 'x']))
      assert.throws(() => make(wrong), { code: 'ARGUMENT', message: /^the model: expected a model of load\(\)/ });
    assert.throws(() => make(far, /** @type {any} */ ({ modelID: 'x' })), {
      code: 'ARGUMENT',
      message: `${make.name}: unknown option "modelID"; did you mean "modelId"?`,
    });
    assert.throws(() => make(far, /** @type {any} */ ({ modelId: 5 })), { message: /^modelId: expected a string/ });
    assert.throws(() => make(far, /** @type {any} */ (null)), { message: /^the last argument of/ });
  }
  for (const wrong of /** @type {any[]} */ ([null, [], 'x', { a: null }]))
    assert.throws(() => createProvider(wrong), { code: 'ARGUMENT' });
  const call = (/** @type {any} */ bq4) =>
    generateText({ model, prompt, ...fixed, maxRetries: 0, providerOptions: { bq4, other: { x: 1 } } });
  assert.equal((await call({ logit_bias: {} })).text, message.choices[0].message.content);
  assert.equal((await call({ max_tokens: 1, max_completion_tokens: 1 })).usage.outputTokens, 1);
  await assert.rejects(call({ minp: 0.1 }), { message: /unknown option "minp"; did you mean "min_p"/ });
});

test('a request for several replies is refused; they were joined to one text', async () => {
  const call = { model, prompt, ...fixed, providerOptions: { bq4: { n: 2 } } };
  const refusal = { code: 'ARGUMENT', message: 'n: expected 1: an adapter returns one reply, found 2' };
  await assert.rejects(generateText(call), refusal);
  const { text } = await generateText({ ...call, providerOptions: { bq4: { n: 1 } } });
  assert.equal(text, message.choices[0].message.content);
});

test('log probabilities and the extensions of an answer are in providerMetadata', async () => {
  const call = { model, prompt, ...fixed, providerOptions: { bq4: { logprobs: true, top_logprobs: 1 } } };
  const { logprobs } = /** @type {any} */ (await generateText(call)).providerMetadata.bq4;
  assert.equal(logprobs.map(({ token }) => token).join(''), message.choices[0].message.content);
  const { providerMetadata } = streamText(call);
  assert.deepEqual((await providerMetadata)?.bq4, { logprobs });
  const schema = { type: 'object', properties: {}, additionalProperties: false, nonsense: 1 };
  const { providerMetadata: metadata } = await generateText({
    model,
    prompt,
    ...fixed,
    output: Output.object({ schema: jsonSchema(/** @type {any} */ (schema)) }),
  });
  assert.match(JSON.stringify(metadata?.bq4), /warnings.*nonsense/);
  assert.equal((await generateText({ model, prompt, ...fixed })).providerMetadata, undefined);
});

test('requests to a server that is busy or not reached are repeated, others are not', async (t) => {
  const withoutDelays = skipDelays(t);
  /** @type {(() => Response)[]} */
  let answers = [];
  const remote = connect('http://x/v1', { model: 'm', fetch: async () => /** @type {any} */ (answers.shift())() });
  const calls = { prompt, model: languageModel(remote), maxRetries: 1 };
  const busy = () => Response.json({ error: { message: 'busy' } }, { status: 503 });
  const unreached = () => {
    throw new TypeError('fetch failed');
  };
  const complete = () => Response.json({ choices: [{ message: { content: 'Hi' }, finish_reason: 'stop' }] });
  const refused = () => Response.json({ error: { message: 'no' } }, { status: 400 });
  for (const failure of [busy, unreached]) {
    answers = [failure, complete];
    assert.equal((await withoutDelays(generateText(calls))).text, 'Hi');
    answers = [failure, complete];
    assert.equal(await withoutDelays(streamText(calls).text), 'Hi');
  }
  answers = [busy, () => Response.json({ data: [{ embedding: [1] }], usage: { prompt_tokens: 1 } })];
  const vectors = embed({ model: embeddingModel(remote), value: 'x', maxRetries: 1 });
  assert.deepEqual((await withoutDelays(vectors)).embedding, [1]);
  answers = [refused, complete];
  await assert.rejects(withoutDelays(generateText(calls)), { code: 'HTTP_STATUS', message: 'no' });
  answers = [busy, complete];
  await assert.rejects(withoutDelays(generateText({ ...calls, maxRetries: 0 })), { code: 'HTTP_STATUS' });
});
