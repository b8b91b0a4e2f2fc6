// Tests of `bq4/langchain` with LangChain.js.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { InMemoryCache } from '@langchain/core/caches';
import { AIMessage, ChatMessage, HumanMessage, ToolMessage } from '@langchain/core/messages';
import { StringOutputParser } from '@langchain/core/output_parsers';
import { ChatPromptTemplate } from '@langchain/core/prompts';
import { RunnableLambda } from '@langchain/core/runnables';
import { tool } from '@langchain/core/tools';
import { FakeVectorStore } from '@langchain/core/utils/testing';
import { Bq4Embeddings, ChatBq4 } from '../../js/api/adapters/langchain.js';
import { connect } from '../../js/connect.js';
import { createWorkerEngine, fromFile } from '../../js/index.js';
import { until } from '../waiting.mjs';
import { connectToScript } from './scripted-server.mjs';
import { skipDelays } from './timeouts.mjs';

const FILE = fileURLToPath(new URL('../../models/chat.bq4', import.meta.url));
const prompt = 'Who are you?';
const fixed = { temperature: 0, max_tokens: 12 };
/** @type {import('../../js/index.js').Engine} */
let engine;
/** @type {import('../../js/index.js').Model} */
let own;
/** @type {ChatBq4} */
let chat;
/** @type {import('../../js/index.js').ChatCompletion} */
let messageText;
before(async () => {
  engine = await createWorkerEngine({ threads: 1 });
  own = await engine.load(fromFile(FILE), { contextTokens: 512 });
  chat = new ChatBq4({ model: own, ...fixed });
  messageText = await own.chat.completions.create({ messages: [{ role: 'user', content: prompt }], ...fixed });
});
after(() => engine.close());

test('invoke returns the text, the finish reason and the usage', async () => {
  const message = /** @type {any} */ (await chat.invoke(prompt));
  assert.equal(message.getType(), 'ai');
  assert.equal(message.content, messageText.choices[0].message.content);
  assert.deepEqual(
    [message.response_metadata.finish_reason, message.usage_metadata?.output_tokens],
    [messageText.choices[0].finish_reason, messageText.usage.completion_tokens],
  );
});

test('stream yields the text, alone and in a chain', async () => {
  const parts = [];
  for await (const part of await chat.stream(prompt)) parts.push(part);
  assert.equal(parts.map(({ content }) => content).join(''), messageText.choices[0].message.content);
  assert.ok(parts.length > 3);
  assert.equal(parts.reduce((a, b) => a.concat(b)).usage_metadata?.output_tokens, messageText.usage.completion_tokens);
  const chain = ChatPromptTemplate.fromMessages([['human', 'Who are {who}?']])
    .pipe(chat)
    .pipe(new StringOutputParser());
  let text = '';
  for await (const part of await chain.stream({ who: 'you' })) text += part;
  assert.equal(text, messageText.choices[0].message.content);
});

test('options of a call override those of the model; stop ends the text', async () => {
  const { content } = await chat.invoke(prompt, { stop: [messageText.choices[0].message.content.slice(4, 8)] });
  assert.equal(content, messageText.choices[0].message.content.slice(0, 4));
});

test('structured output matches the schema', async () => {
  const schema = {
    type: 'object',
    properties: { mood: { enum: ['good', 'bad'] } },
    required: ['mood'],
    additionalProperties: false,
  };
  const { mood } = await new ChatBq4({ model: own, temperature: 1.5, seed: 1, max_tokens: 60 })
    .withStructuredOutput(schema)
    .invoke(prompt);
  assert.ok(['good', 'bad'].includes(mood));
  const { raw, parsed } = await chat
    .withStructuredOutput(schema, { includeRaw: true })
    .invoke(prompt, { max_tokens: 60 });
  assert.deepEqual(JSON.parse(raw.content), parsed);
});

test('tools are bound, called and answered; a call with invalid JSON is listed separately', async () => {
  const { model, requests } = await connectToScript([
    [
      { tool_calls: [{ index: 0, id: 'call_7', function: { name: 'weather', arguments: '{"city"' } }] },
      { tool_calls: [{ index: 0, function: { arguments: ':"Bonn"}' } }] },
    ],
    [{ content: 'It rains.' }],
    [{ tool_calls: [{ index: 0, id: 'call_8', function: { name: 'weather', arguments: '{"city"' } }] }],
    [
      { tool_calls: [{ index: 0, id: 'call_9', function: { name: 'weather', arguments: '{"city"' } }] },
      { tool_calls: [{ index: 0, function: { arguments: ':"Bonn"}' } }] },
    ],
  ]);
  const weather = tool(async ({ city }) => `rain in ${city}`, {
    name: 'weather',
    description: 'The weather',
    schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  });
  const bound = new ChatBq4({ model }).bindTools([weather]);
  const question = new HumanMessage('Weather?');
  const call = await bound.invoke([question]);
  assert.deepEqual(call.tool_calls, [{ id: 'call_7', name: 'weather', args: { city: 'Bonn' }, type: 'tool_call' }]);
  const answer = new ToolMessage({ content: 'rain in Bonn', tool_call_id: 'call_7' });
  assert.equal((await bound.invoke([question, call, answer])).content, 'It rains.');
  assert.equal(requests[0].tools[0].function.name, 'weather');
  assert.deepEqual(requests[1].messages.slice(1), [
    {
      role: 'assistant',
      content: '',
      tool_calls: [{ id: 'call_7', type: 'function', function: { name: 'weather', arguments: '{"city":"Bonn"}' } }],
    },
    { role: 'tool', content: 'rain in Bonn', tool_call_id: 'call_7' },
  ]);
  const broken = await bound.invoke([question]);
  assert.deepEqual([broken.tool_calls, broken.invalid_tool_calls?.[0].args], [[], '{"city"']);
  const parts = [];
  for await (const part of await bound.stream([question])) parts.push(part);
  assert.deepEqual(parts.reduce((a, b) => a.concat(b)).tool_calls?.[0].args, { city: 'Bonn' });
});

test('embeddings work, also in a vector store', async () => {
  const embeddings = new Bq4Embeddings({ model: own });
  const { vectors } = await own.embed(['Hello', 'Bye']);
  assert.deepEqual(
    await embeddings.embedDocuments(['Hello', 'Bye']),
    vectors.map((vector) => Array.from(vector)),
  );
  assert.deepEqual(await embeddings.embedQuery('Bye'), Array.from(vectors[1]));
  assert.deepEqual(await embeddings.embedDocuments([]), []);
  const store = await FakeVectorStore.fromTexts(['Hello', 'Bye'], [{ id: 1 }, { id: 2 }], embeddings);
  assert.equal((await store.similaritySearch('Bye', 1))[0].pageContent, 'Bye');
});

test('embeddings of more texts than a request may have are computed in several requests', async () => {
  const embeddings = new Bq4Embeddings({ model: own });
  /** @type {string[]} */
  const texts = Array.from({ length: 2050 }, (_, i) => (i < 2048 ? 'Hi' : 'Bye'));
  const vectors = await embeddings.embedDocuments(texts);
  assert.equal(vectors.length, texts.length);
  assert.deepEqual([vectors[0], vectors[2049]], await embeddings.embedDocuments(['Hi', 'Bye']));
  texts[2049] = '';
  await assert.rejects(embeddings.embedDocuments(texts), { message: 'texts from 2048 on: text 1 has no tokens' });
});

test('embeddings: texts that are not strings are refused, also numbers, which would be tokens', async () => {
  const vectors = new Bq4Embeddings({ model: own });
  for (const texts of /** @type {any[]} */ ([[5], ['a', null], [['a']], 'a', null, new Set(['a'])]))
    await assert.rejects(vectors.embedDocuments(texts), { code: 'ARGUMENT', message: /^texts(\[\d\])?: expected / });
  for (const text of /** @type {any[]} */ ([5, null, undefined, ['a']]))
    await assert.rejects(vectors.embedQuery(text), { code: 'ARGUMENT', message: /^texts\[0\]: expected a string/ });
  assert.deepEqual(await vectors.embedDocuments([]), []);
});

test('without options, the error says that a model is missing', () => {
  for (const Class of /** @type {any[]} */ ([ChatBq4, Bq4Embeddings]))
    for (const fields of [[], [{}]])
      assert.throws(() => new Class(...fields), { code: 'ARGUMENT', message: /^the model: expected a model of load/ });
});

test('an abort ends a call; failures have the error of the model', async () => {
  const controller = new AbortController();
  await assert.rejects(async () => {
    for await (const _ of await chat.stream('Tell me a story.', { signal: controller.signal, max_tokens: 400 }))
      controller.abort();
  });
  // LangChain rejects before the worker has heard of it: until then the model's session is in use.
  await until('the next reply', async () => {
    const next = await chat.invoke(prompt).catch((error) => {
      assert.equal(error.code, 'NO_SESSION');
      return null;
    });
    return next?.content === messageText.choices[0].message.content;
  });
  const stubborn = new ChatBq4({ model: own, ...fixed, maxRetries: 0 });
  await assert.rejects(stubborn.invoke('word '.repeat(1000)), { code: 'CONTEXT_FULL' });
  await assert.rejects(stubborn.invoke([new HumanMessage({ content: [{ type: 'image_url', image_url: 'data:,' }] })]), {
    message: /^expected a part of type "text", found "image_url"$/,
    hint: /^bq4 reads only text/,
  });
});

/** A server that answers with this text, and what it was asked. @param {string} content @param {string} [finish_reason] */
function answering(content, finish_reason = 'stop') {
  /** @type {any[]} */
  const asked = [];
  const model = connect('http://x/v1', {
    model: 'm',
    fetch: async (_, { body } = /** @type {any} */ ({})) => {
      asked.push(JSON.parse(String(body)));
      return Response.json({ choices: [{ message: { content }, finish_reason }] });
    },
  });
  return { model, asked };
}

test('ChatMessage has the named role, in both spellings', async () => {
  const { model, asked } = answering('Hi');
  const roles = ['assistant', 'ai', 'user', 'human', 'system', 'developer'];
  await new ChatBq4({ model }).invoke(roles.map((role) => new ChatMessage('x', role)));
  assert.deepEqual(
    asked[0].messages.map(({ role }) => role),
    ['assistant', 'assistant', 'user', 'user', 'system', 'developer'],
  );
});

test("options in LangChain's wording, of the model and of a call", async () => {
  const { model, asked } = answering('Hi');
  const chat = new ChatBq4(/** @type {any} */ ({ model, maxTokens: 5, topP: 0.5 }));
  await chat.invoke('x');
  await chat.invoke('x', /** @type {any} */ ({ maxTokens: 7, minP: 0.1 }));
  assert.deepEqual(
    asked.map(({ max_tokens, top_p, min_p }) => [max_tokens, top_p, min_p]),
    [
      [5, 0.5, undefined],
      [7, 0.5, 0.1],
    ],
  );
});

test('structured output of a truncated reply is null with includeRaw, otherwise the error FORMAT', async () => {
  const { model } = answering('{"a": 1', 'length');
  const chat = new ChatBq4({ model });
  const schema = { type: 'object', properties: { a: { type: 'integer' } } };
  const { raw, parsed } = await chat.withStructuredOutput(schema, { includeRaw: true }).invoke('x');
  assert.deepEqual([raw.content, parsed], ['{"a": 1', null]);
  await assert.rejects(chat.withStructuredOutput(schema).invoke('x'), {
    name: 'BqError',
    code: 'FORMAT',
    message: /finish reason "length"/,
  });
});

test('a cache distinguishes models and the options of their constructors', async () => {
  const cache = new InMemoryCache();
  const short = new ChatBq4({ model: own, temperature: 0, max_tokens: 2, cache });
  const long = new ChatBq4({ model: own, ...fixed, cache });
  const [first, second] = [await short.invoke(prompt), await long.invoke(prompt)];
  assert.equal(second.content, messageText.choices[0].message.content);
  assert.notEqual(first.content, second.content);
  const third = /** @type {any} */ (await new ChatBq4({ model: own, ...fixed, cache }).invoke(prompt));
  assert.equal(third.usage_metadata.total_tokens, 0); // from the cache
  /** @param {string} model @param {string} content */
  const served = (model, content) =>
    new ChatBq4({
      model: connect('http://x/v1', {
        model,
        fetch: async () => Response.json({ choices: [{ message: { content }, finish_reason: 'stop' }] }),
      }),
      cache,
    });
  assert.equal((await served('a', 'from a').invoke(prompt)).content, 'from a');
  assert.equal((await served('b', 'from b').invoke(prompt)).content, 'from b');
});

test("tokens are counted by the model's tokenizer, without a download", async (t) => {
  t.mock.method(globalThis, 'fetch', () => assert.fail('a request'));
  const text = 'Once upon a time, a brave penguin lived in a sunny valley.';
  const count = (await own.tokenize(text)).length;
  assert.equal(await chat.getNumTokens(text), count);
  assert.equal(await chat.getNumTokens([{ type: 'text', text }]), count);
  assert.equal(await new ChatBq4({ model: connect('http://x/v1') }).getNumTokens('12345678'), 2);
});

test('chains and graphs receive the chunks of tool calls and the usage while a model is invoked', async () => {
  const { model } = await connectToScript([
    [
      { tool_calls: [{ index: 0, id: 'call_1', function: { name: 'weather', arguments: '{"city"' } }] },
      { tool_calls: [{ index: 0, function: { arguments: ':"Bonn"}' } }] },
    ],
  ]);
  const chat = new ChatBq4({ model });
  const chain = RunnableLambda.from((/** @type {string} */ text, config) => chat.invoke(text, config));
  const chunks = [];
  for await (const { event, data } of chain.streamEvents('Weather?', { version: 'v2' }))
    if (event === 'on_chat_model_stream') chunks.push(data.chunk);
  const message = chunks.reduce((sum, chunk) => sum.concat(chunk));
  assert.deepEqual([message.tool_calls?.[0].args, message.usage_metadata?.total_tokens], [{ city: 'Bonn' }, 3]);
});

test('blocks of an earlier answer that repeat its calls, or contain reasoning, are not sent', async () => {
  const { model, requests } = await connectToScript([
    [{ tool_calls: [{ index: 0, id: 'call_1', function: { name: 'weather', arguments: '{}' } }] }],
    [{ content: 'Rain.' }],
    [{ content: 'Yes.' }],
  ]);
  const chat = new ChatBq4({ model, outputVersion: 'v1' });
  const call = await chat.invoke('Weather?');
  assert.ok(/** @type {any[]} */ (call.content).some(({ type }) => type === 'tool_call'));
  const result = new ToolMessage({ content: 'rain', tool_call_id: 'call_1' });
  await chat.invoke([new HumanMessage('Weather?'), call, result]);
  const [, { content, tool_calls }] = requests[1].messages;
  assert.deepEqual([content, tool_calls.length], ['', 1]);
  const reply = new AIMessage({
    content: [
      { type: 'thinking', thinking: 'Hm.' },
      { type: 'text', text: 'Rain.' },
      { type: 'tool_use', id: 'call_1', name: 'weather', input: {} },
    ],
    tool_calls: [{ id: 'call_1', name: 'weather', args: {} }],
  });
  await chat.invoke([new HumanMessage('Weather?'), reply, result]);
  assert.equal(requests[2].messages[1].content, 'Rain.');
  const image = [{ type: 'reasoning', reasoning: 'Hm.' }];
  await assert.rejects(chat.invoke([new HumanMessage({ content: image })]), /expected a part of type "text"/);
});

test('structured output by the definition of a function; its library converts and checks the value', async () => {
  const parameters = { type: 'object', properties: { mood: { enum: ['good'] } }, required: ['mood'] };
  const definition = { name: 'mood', description: 'The mood', parameters };
  const { model, asked } = answering('{"mood": "good"}');
  const chat = new ChatBq4({ model });
  assert.deepEqual(await chat.withStructuredOutput(definition).invoke('x'), { mood: 'good' });
  assert.deepEqual(asked[0].response_format, {
    type: 'json_schema',
    json_schema: { name: 'mood', schema: parameters },
  });
  /** @param {(value: any) => object} validate  as of zod's `transform` and `refine` */
  const standard = (validate) => ({
    '~standard': {
      version: 1,
      vendor: 'test',
      validate,
      jsonSchema: { input: () => parameters, output: () => parameters },
    },
  });
  const converted = standard(({ mood }) => ({ value: { mood: mood.toUpperCase() } }));
  assert.deepEqual(await chat.withStructuredOutput(converted).invoke('x'), { mood: 'GOOD' });
  const refused = standard(() => ({ issues: [{ message: 'too good', path: ['mood'] }] }));
  await assert.rejects(chat.withStructuredOutput(refused).invoke('x'), {
    code: 'FORMAT',
    message: 'the reply does not satisfy the schema at mood: too good',
  });
  assert.equal((await chat.withStructuredOutput(refused, { includeRaw: true }).invoke('x')).parsed, null);
});

test('requests to a server that is busy are repeated up to maxRetries times, others are not', async (t) => {
  const withoutDelays = skipDelays(t);
  /** @type {Response[]} */
  let answers = [];
  const model = connect('http://x/v1', { model: 'm', fetch: async () => /** @type {any} */ (answers.shift()) });
  const failure = (/** @type {number} */ status) => Response.json({ error: { message: 'no' } }, { status });
  const complete = () => Response.json({ choices: [{ message: { content: 'Hi' }, finish_reason: 'stop' }] });
  answers = [failure(503), failure(429), complete()];
  assert.equal((await withoutDelays(new ChatBq4({ model }).invoke('x'))).content, 'Hi');
  answers = [failure(503), complete()];
  const stream = await withoutDelays(new ChatBq4({ model }).stream('x'));
  assert.equal((await stream.getReader().read()).value?.content, 'Hi');
  answers = [failure(503), Response.json({ data: [{ embedding: [1] }], usage: { prompt_tokens: 1 } })];
  assert.deepEqual(await withoutDelays(new Bq4Embeddings({ model }).embedQuery('x')), [1]);
  for (const [status, maxRetries] of [
    [400, 2],
    [503, 0],
  ]) {
    answers = [failure(status), complete()];
    const call = new ChatBq4({ model, maxRetries }).invoke('x');
    await assert.rejects(withoutDelays(call), (/** @type {any} */ error) => error.details.status === status);
    assert.equal(answers.length, 1);
  }
});

test('log probabilities are in response_metadata', async () => {
  const { response_metadata: metadata } = await chat.invoke(prompt, { logprobs: true, top_logprobs: 1 });
  const { logprobs } = /** @type {any} */ (metadata);
  assert.equal(logprobs.map(({ token }) => token).join(''), messageText.choices[0].message.content);
  let streamed;
  for await (const chunk of await chat.stream(prompt, { logprobs: true, top_logprobs: 1 }))
    streamed = /** @type {any} */ (chunk.response_metadata).logprobs ?? streamed;
  assert.deepEqual(streamed, logprobs);
});

test('unknown options of models and of structured output, and misspelled options of calls are refused', async () => {
  const { model, asked } = answering('{}');
  /** @type {[() => unknown, RegExp][]} */
  const wrong = [
    [() => new ChatBq4(/** @type {any} */ ({ model, temprature: 1 })), /did you mean "temperature"/],
    [() => new ChatBq4(/** @type {any} */ ({ model, maxTokns: 1 })), /did you mean "max_tokens"/],
    [() => new ChatBq4(/** @type {any} */ ({ model, frob: 1 })), /^ChatBq4: unknown option "frob"$/],
    [() => new ChatBq4(/** @type {any} */ ({ model: Promise.resolve(model) })), /^the model: expected .* \(await it\)/],
    [() => new ChatBq4(/** @type {any} */ ({})), /^the model: expected/],
    [() => new Bq4Embeddings(/** @type {any} */ ({ model, truncate: true })), /unknown option "truncate"/],
    [() => new Bq4Embeddings(/** @type {any} */ ({})), /^the model: expected/],
    [() => new ChatBq4({ model }).withStructuredOutput({}, { includeraw: true }), /did you mean "includeRaw"/],
    [() => new ChatBq4({ model }).withStructuredOutput({}, { method: 'magic' }), /^method: expected one of jsonSchema/],
  ];
  for (const [call, message] of wrong) assert.throws(call, { code: 'ARGUMENT', message });
  const chat = new ChatBq4({ model, maxRetries: 0, tags: ['a'], verbose: false, outputVersion: 'v0' });
  for (const options of /** @type {any[]} */ ([{ temprature: 1 }, { maxTokns: 1 }, { stops: ['x'] }])) {
    await assert.rejects(chat.invoke('x', options), { code: 'ARGUMENT', message: /did you mean/ });
    await assert.rejects(chat.stream('x', options), { code: 'ARGUMENT', message: /did you mean/ });
  }
  // What LangGraph's configuration of a node has.
  const names = ['store', 'context', 'writer', 'streamMode', 'interrupt', 'executionInfo', 'control', 'serverInfo'];
  const given = Object.fromEntries([...names, 'strict', 'headers'].map((name) => [name, {}]));
  assert.equal((await chat.invoke('x', /** @type {any} */ (given))).content, '{}');
  const more = { max_completion_tokens: 5, parallelToolCalls: false, chat_template_kwargs: { enable_thinking: false } };
  await chat
    .withStructuredOutput({ type: 'object' }, { method: 'functionCalling', strict: true })
    .invoke('x', /** @type {any} */ (more));
  const { max_completion_tokens, parallel_tool_calls, chat_template_kwargs, response_format } = asked[1];
  assert.deepEqual(
    [max_completion_tokens, parallel_tool_calls, chat_template_kwargs],
    [5, false, { enable_thinking: false }],
  );
  assert.equal(response_format.type, 'json_schema');
  assert.deepEqual(Object.keys(asked[0]).sort(), ['messages', 'model', 'stream', 'stream_options']);
});
