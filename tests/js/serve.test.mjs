// `bq4 serve` as a process, and its server, with OpenAI's client and with plain requests.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { request } from 'node:http';
import { connect as dial } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import OpenAI from 'openai';
import { createEngine } from '../../js/node.js';
import { createWorkerEngine, fromBytes, fromFile } from '../../js/index.js';
import { Queue } from '../../js/api/server/queue.js';
import { serveModels } from '../../js/api/server/index.js';
import { inTime, until } from '../waiting.mjs';
import { tinyModel } from './fixture.mjs';
import { modelWith, scriptReply } from './scripted.mjs';
import { setTimeouts } from './timeouts.mjs';
import { validator } from './validator.mjs';

const FILE = fileURLToPath(new URL('../../models/chat.bq4', import.meta.url));
const PROGRAM = fileURLToPath(new URL('../../bin/bq4.js', import.meta.url));
const TOKEN = 'open sesame';
const PAGE = 'http://page.example';
const messages = [{ role: /** @type {const} */ ('user'), content: 'Who are you?' }];
/** A template without tools. */
const TELLS =
  "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
/** Answers without an end for minutes. */
const long = /** @type {import('openai').OpenAI.ChatCompletionCreateParamsStreaming} */ (
  /** @type {unknown} */ ({
    model: 'chat',
    messages,
    stream: true,
    n: 128,
    response_format: { type: 'regex', pattern: '[a-z ]{2000}' },
  })
);
const fixed = { model: 'chat', temperature: 0, max_tokens: 12 };

/** @type {Awaited<ReturnType<typeof createWorkerEngine>>} */
let engine;
/** @type {import('../../js/index.js').Model} */
let model;
/** @type {Awaited<ReturnType<typeof serveModels>>} */
let server;
/** @type {OpenAI} */
let client;
before(async () => {
  engine = await createWorkerEngine({ threads: 1 });
  model = await engine.load(fromFile(FILE), { contextTokens: 512 });
  server = await serveModels([{ id: 'chat', model }], {
    port: 0,
    token: TOKEN,
    origins: [PAGE],
    hosts: ['bq4.test'],
    maxBody: 100_000,
    maxWaiting: 2,
  });
  client = new OpenAI({ baseURL: server.url, apiKey: TOKEN, maxRetries: 0 });
});
after(async () => {
  await server.close();
  await engine.close();
});

/**
 * Sends a request with any headers, which fetch does not allow.
 * @param {string} path @param {{ method?: string, headers?: object, body?: string | Buffer, target?: string }} [options]  `target`: sent in place of the path
 */
const ask = (path, { method, headers, body, target } = {}) =>
  new Promise((resolve, reject) => {
    const at = new URL(path, server.url);
    const asked = request(
      at,
      {
        method: method ?? (body === undefined ? 'GET' : 'POST'),
        ...(target && { path: target }),
        headers: {
          authorization: `Bearer ${TOKEN}`,
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
      },
      (response) => {
        let text = '';
        response
          .setEncoding('utf8')
          .on('data', (part) => (text += part))
          .on('end', () =>
            resolve({ status: response.statusCode, headers: response.headers, body: text && JSON.parse(text) }),
          );
      },
    );
    asked.on('error', reject).end(body);
  });

const health = async () => (await ask('/health')).body.models[0];

test('chat: the client receives the text of the model', async () => {
  const own = await model.chat.completions.create({ ...fixed, messages });
  const { choices, usage, model: name, object, id } = await client.chat.completions.create({ ...fixed, messages });
  assert.equal(choices[0].message.content, own.choices[0].message.content);
  assert.ok(choices[0].message.content.length > 0);
  assert.deepEqual([name, object, choices[0].finish_reason], ['chat', 'chat.completion', own.choices[0].finish_reason]);
  assert.equal(usage.completion_tokens, own.usage.completion_tokens);
  assert.match(id, /^chatcmpl-/);
});

test('chat, streamed: the same text in parts, a finish reason, and usage if it is requested', async () => {
  const {
    choices: [whole],
  } = await client.chat.completions.create({ ...fixed, messages });
  const stream = await client.chat.completions.create({
    ...fixed,
    messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  assert.equal(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join(''), whole.message.content);
  assert.ok(chunks.length > 3);
  assert.deepEqual(chunks.flatMap(({ choices }) => choices.map((choice) => choice.finish_reason)).filter(Boolean), [
    whole.finish_reason,
  ]);
  assert.equal(chunks.at(-1).usage.completion_tokens, 12);
  // The client's helper joins a message from chunks.
  const final = await client.chat.completions.stream({ ...fixed, messages }).finalChatCompletion();
  assert.equal(final.choices[0].message.content, whole.message.content);
});

test("chat with a schema, through the client's parser", async () => {
  const schema = {
    type: 'object',
    properties: { mood: { enum: ['good', 'bad'] } },
    required: ['mood'],
    additionalProperties: false,
  };
  const { choices } = await client.chat.completions.create({
    ...fixed,
    max_tokens: 60,
    messages,
    response_format: { type: 'json_schema', json_schema: { name: 'mood', strict: true, schema } },
  });
  assert.ok(['good', 'bad'].includes(JSON.parse(choices[0].message.content).mood));
});

describe('tools: the grammar turns the noise of the model into calls', () => {
  const parameters = {
    type: 'object',
    properties: { city: { enum: ['Rome', 'Oslo'] }, days: { type: 'integer', minimum: 1, maximum: 7 } },
    required: ['city', 'days'],
    additionalProperties: false,
  };
  const tools = [{ type: /** @type {const} */ ('function'), function: { name: 'weather', parameters } }];
  const request = {
    model: 'noise',
    messages,
    temperature: 0,
    max_tokens: 90,
    tool_choice: /** @type {const} */ ('required'),
  };
  /** @type {import('../../js/index.js').Model} */
  let noise;
  /** @type {Awaited<ReturnType<typeof serveModels>>} */
  let own;
  /** @type {OpenAI} */
  let asks;
  before(async () => {
    noise = await engine.load(fromBytes(await tinyModel({ config: { context: 2048 } })));
    own = await serveModels([{ id: 'noise', model: noise }], { port: 0 });
    asks = new OpenAI({ baseURL: own.url, apiKey: '-', maxRetries: 0 });
  });
  after(() => own.close());

  test('calls, complete and joined from chunks by the client', async () => {
    const {
      choices: [wanted],
      usage: counted,
    } = await noise.chat.completions.create({ ...request, tools });
    const given = wanted.message.tool_calls?.map((call) => call.function);
    assert.ok(given?.length);
    const whole = await asks.chat.completions.create({ ...request, tools });
    const stream = asks.chat.completions.stream({ ...request, tools, stream_options: { include_usage: true } });
    let pieces = '';
    stream.on('tool_calls.function.arguments.delta', ({ arguments_delta: piece }) => (pieces += piece));
    const streamed = await stream.finalChatCompletion();
    assert.equal(pieces, given.map((call) => call.arguments).join(''));
    for (const {
      choices: [{ message, finish_reason }],
      usage,
    } of [whole, streamed]) {
      const calls = message.tool_calls ?? [];
      assert.deepEqual(
        calls.map((call) => 'function' in call && [call.function.name, call.function.arguments]),
        given.map((call) => [call.name, call.arguments]),
      );
      assert.ok(calls.every(({ id, type }) => /^[a-z0-9]{9}$/.test(id) && type === 'function'));
      assert.deepEqual([message.content || null, finish_reason], [null, 'tool_calls']);
      assert.deepEqual(
        [usage?.prompt_tokens, usage?.completion_tokens],
        [counted.prompt_tokens, counted.completion_tokens],
      );
    }
  });

  test('several calls, each by its index', async (t) => {
    const here = await createEngine({ threads: 1 });
    const model = await here.load(fromBytes(await modelWith(TELLS)));
    const site = await serveModels([{ id: 'calls', model }], { port: 0 });
    const asked = new OpenAI({ baseURL: site.url, apiKey: '-', maxRetries: 0 });
    const call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome", "days": 2}}\n</tool_call>';
    scriptReply(t, `Well ${call}\n${call}`);
    const { choices } = await asked.chat.completions
      .stream({ ...request, tools, model: 'calls', tool_choice: 'auto', max_tokens: 300 })
      .finalChatCompletion();
    const [{ message, finish_reason }] = choices;
    assert.deepEqual([message.content, finish_reason], ['Well ', 'tool_calls']);
    assert.deepEqual(
      message.tool_calls?.map((one) => 'function' in one && one.function.arguments),
      Array(2).fill('{"city":"Rome","days":2}'),
    );
    await site.close();
    await here.close();
  });

  for (const stream of [false, true])
    test(`the client's runTools${stream ? ', streamed' : ''}: functions are called, and the model reads their results`, async () => {
      /** @type {any[]} */
      const given = [];
      const runnable = tools.map(({ type, function: described }) => ({
        type,
        function: {
          ...described,
          parse: JSON.parse,
          function: (/** @type {any} */ args) => ({ degrees: given.push(args) }),
        },
      }));
      const options = { maxChatCompletions: 2 };
      const body = { ...request, tools: runnable, stream };
      const run = asks.chat.completions.runTools(/** @type {any} */ (body), options);
      await run.done();
      const replies = run.allChatCompletions();
      assert.equal(replies.length, 2);
      const calls = replies.flatMap(({ choices: [{ message }] }) => message.tool_calls ?? []);
      assert.ok(calls.length > 1, `${calls.length}`);
      assert.deepEqual(
        given,
        calls.map((call) => JSON.parse('function' in call ? call.function.arguments : '')),
      );
      const valid = validator(parameters);
      assert.ok(given.every((args) => valid(args)));
      assert.deepEqual(
        run.messages.flatMap((message) => (message.role === 'tool' ? [[message.tool_call_id, message.content]] : [])),
        calls.map(({ id }, i) => [id, `{"degrees":${i + 1}}`]),
      );
      // The request of the second answer, sent directly.
      const byHand = await noise.chat.completions.create({
        ...request,
        tools,
        messages: /** @type {any} */ (
          run.messages.slice(0, -1 - (replies[1].choices[0].message.tool_calls?.length ?? 0))
        ),
      });
      assert.deepEqual(
        replies[1].choices[0].message.tool_calls?.map((call) => 'function' in call && call.function.arguments),
        byHand.choices[0].message.tool_calls?.map((call) => call.function.arguments),
      );
    });
});

test('n, logprobs, usage and finish reasons, complete and streamed', async () => {
  const request = { ...fixed, messages, n: 3, logprobs: true, top_logprobs: 2, temperature: 2, seed: 5 };
  const own = await model.chat.completions.create(request);
  const whole = await client.chat.completions.create(request);
  const streamed = await client.chat.completions
    .stream({ ...request, stream_options: { include_usage: true } })
    .finalChatCompletion();
  const texts = own.choices.map(({ message }) => message.content);
  assert.equal(new Set(texts).size, 3, `three that differ: ${texts}`);
  for (const { choices, usage } of [whole, streamed]) {
    assert.deepEqual(
      choices.map(({ index }) => index),
      [0, 1, 2],
    );
    assert.deepEqual(
      choices.map(({ message, finish_reason }) => [message.content, finish_reason]),
      own.choices.map(({ message, finish_reason }) => [message.content, finish_reason]),
    );
    assert.deepEqual(
      choices.map(({ logprobs }) => logprobs?.content),
      own.choices.map(({ logprobs }) => logprobs?.content),
    );
    assert.deepEqual(
      [usage?.completion_tokens, usage?.prompt_tokens],
      [own.usage.completion_tokens, own.usage.prompt_tokens],
    );
  }
  const [{ logprobs }] = whole.choices;
  assert.ok(logprobs?.content?.length);
  for (const { token, logprob, top_logprobs: likeliest, bytes } of logprobs.content) {
    assert.equal(new TextDecoder().decode(new Uint8Array(bytes ?? [])), token);
    assert.ok(logprob <= 0 && likeliest.length === 2 && likeliest[0].logprob >= likeliest[1].logprob);
  }
  // The three finish reasons of an answer.
  const reasons = [
    { max_tokens: 2 },
    { stop: String(texts[0]).slice(2, 4) },
    { response_format: { type: 'choice', choices: ['yes'] } },
  ].map((more) =>
    client.chat.completions.create(/** @type {any} */ ({ ...fixed, temperature: 2, seed: 5, messages, ...more })),
  );
  assert.deepEqual(
    (await Promise.all(reasons)).map(({ choices: [{ finish_reason }] }) => finish_reason),
    ['length', 'stop', 'stop'],
  );
});

test('completions and embeddings', async () => {
  const { choices, object } = await client.completions.create({ ...fixed, prompt: 'Once upon a time' });
  assert.equal(object, 'text_completion');
  assert.ok(choices[0].text.length > 0);
  let streamed = '';
  for await (const chunk of await client.completions.create({ ...fixed, prompt: 'Once upon a time', stream: true }))
    streamed += chunk.choices[0]?.text ?? '';
  assert.equal(streamed, choices[0].text);
  const input = ['Hello', 'Good day'];
  const { data, usage } = await client.embeddings.create({ model: 'chat', input }); // as base64, the default of the client
  const { vectors } = await model.embed(input);
  assert.deepEqual(
    data.map(({ embedding }) => embedding),
    vectors.map((vector) => Array.from(vector)),
  );
  assert.ok(usage.prompt_tokens > 2);
});

test('models', async () => {
  const list = [];
  for await (const one of client.models.list()) list.push(one.id);
  assert.deepEqual(list, ['chat']);
  assert.equal((await client.models.retrieve('chat')).owned_by, 'bq4');
});

test('errors have the classes and codes of the OpenAI client', async () => {
  /** @type {[string, () => Promise<unknown>, any, number, string][]} */
  const cases = [
    [
      'no such model',
      () => client.chat.completions.create({ ...fixed, model: 'gpt', messages }),
      OpenAI.NotFoundError,
      404,
      'model_not_found',
    ],
    ['no such model to look at', () => client.models.retrieve('gpt'), OpenAI.NotFoundError, 404, 'model_not_found'],
    [
      'a wrong value',
      () => client.chat.completions.create({ ...fixed, messages, temperature: 99 }),
      OpenAI.BadRequestError,
      400,
      'invalid_value',
    ],
    [
      'no messages',
      () => client.chat.completions.create({ ...fixed, messages: [] }),
      OpenAI.BadRequestError,
      400,
      'invalid_value',
    ],
    [
      'too long',
      () => client.chat.completions.create({ ...fixed, messages: [{ role: 'user', content: 'word '.repeat(2000) }] }),
      OpenAI.BadRequestError,
      400,
      'context_length_exceeded',
    ],
    [
      'too long, streamed',
      () =>
        client.chat.completions.create({
          ...fixed,
          stream: true,
          messages: [{ role: 'user', content: 'word '.repeat(2000) }],
        }),
      OpenAI.BadRequestError,
      400,
      'context_length_exceeded',
    ],
    [
      'too large',
      () => client.chat.completions.create({ ...fixed, messages: [{ role: 'user', content: 'x'.repeat(200_000) }] }),
      OpenAI.APIError,
      413,
      'request_too_large',
    ],
    [
      'a schema that is not supported',
      () =>
        client.chat.completions.create({
          ...fixed,
          messages,
          response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { $dynamicRef: '#a' } } },
        }),
      OpenAI.BadRequestError,
      400,
      'GRAMMAR',
    ],
    [
      'the wrong token',
      () => new OpenAI({ baseURL: server.url, apiKey: 'x', maxRetries: 0 }).models.list(),
      OpenAI.AuthenticationError,
      401,
      'invalid_api_key',
    ],
  ];
  for (const [name, call, kind, status, code] of cases) {
    const error = await call().then(
      () => assert.fail(`${name}: nothing was thrown`),
      (thrown) => thrown,
    );
    assert.ok(error instanceof kind, `${name}: ${error.constructor.name}: ${error.message}`);
    assert.deepEqual([error.status, error.code], [status, code], name);
    assert.ok(error.message.length > 10);
  }
});

test("a text that is too long is refused in OpenAI's words, by which clients recognize it", async () => {
  const input = 'word '.repeat(2000);
  const [messages, words] = [
    [{ role: /** @type {const} */ ('user'), content: input }],
    /maximum context length is 512 tokens$/,
  ];
  await assert.rejects(client.chat.completions.create({ ...fixed, messages }), words);
  await assert.rejects(client.completions.create({ ...fixed, prompt: input }), words);
  await assert.rejects(client.embeddings.create({ model: 'chat', input }), words);
});

test('a client that disconnects ends its generation, and the next request is served', async () => {
  const stream = await client.chat.completions.create(long);
  let seen = 0;
  for await (const _ of stream) if (++seen === 3) stream.controller.abort();
  await until('nothing to run', async () => (await health()).running === 0, { state: health });
  const controller = new AbortController();
  const waits = client.chat.completions.create({ ...long, stream: false }, { signal: controller.signal });
  await until('the request to run', async () => (await health()).running === 1, { state: health });
  controller.abort();
  await assert.rejects(waits, OpenAI.APIUserAbortError);
  await until('nothing to run', async () => (await health()).running === 0, { state: health });
  assert.equal((await client.chat.completions.create({ ...fixed, messages })).choices.length, 1);
});

test('a stream in the queue sends comments, which keep clients and proxies from timing out', async (t) => {
  setTimeouts(t, { streamComment: 20 });
  const running = await client.chat.completions.create(long);
  const parts = running[Symbol.asyncIterator]();
  await parts.next();
  const stream = (/** @type {object} */ fields) =>
    fetch(`${server.url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...fixed, messages, stream: true, ...fields }),
    });
  const asked = [stream({}), stream({ messages: [{ role: 'user', content: 'x '.repeat(2000) }] })];
  await until('both to wait', async () => (await health()).waiting === 2, { state: health });
  const refused = await inTime('the refusal', stream({ max_tokens: -1 }));
  assert.equal(refused.status, 400, 'an invalid stream does not wait for its turn');
  assert.match((await refused.json()).error.message, /^max_tokens: .*found -1/);
  const answers = await inTime('their beginning', Promise.all(asked));
  assert.deepEqual(
    answers.map(({ status, headers }) => [status, headers.get('content-type')]),
    Array(2).fill([200, 'text/event-stream; charset=utf-8']),
  );
  running.controller.abort();
  const [text, failure] = await Promise.all(answers.map((answer) => answer.text()));
  assert.match(text, /^(: waiting\n\n)+data: \{.*\n\ndata: \[DONE\]\n\n$/s);
  assert.match(failure, /^(: waiting\n\n)+data: \{"error":\{.*"code":"context_length_exceeded"/);
});

test('requests wait in a queue; too many are refused; canceled ones are not served', async () => {
  const queue = new Queue(1, 2);
  const { signal } = new AbortController();
  const leaving = new AbortController();
  /** @type {string[]} */
  const order = [];
  /** @type {() => void} */
  let finish = () => {};
  const first = queue.run(signal, () => new Promise((resolve) => (finish = () => resolve(order.push('first')))));
  const second = queue.run(leaving.signal, async () => order.push('second'));
  const third = queue.run(signal, async () => order.push('third'));
  await assert.rejects(
    queue.run(signal, async () => order.push('fourth')),
    { status: 429, code: 'rate_limit_exceeded' },
  );
  leaving.abort(new Error('left'));
  await assert.rejects(second, /left/);
  const fifth = queue.run(signal, async () => {
    order.push('fifth');
    throw new Error('failed');
  });
  finish();
  await Promise.all([first, third, assert.rejects(fifth, /failed/)]);
  assert.deepEqual([order, queue.running, queue.waiting], [['first', 'third', 'fifth'], 0, 0]);
});

test('several requests over the network at the same time have the same answers', async () => {
  const answers = await Promise.all([1, 2, 3].map(() => client.chat.completions.create({ ...fixed, messages })));
  assert.equal(new Set(answers.map(({ choices }) => choices[0].message.content)).size, 1);
});

test('brackets inside strings are not counted, also after an escaped quote', async () => {
  for (const content of ['['.repeat(600), `"${'['.repeat(600)}`, `\\"${'{'.repeat(600)}`]) {
    const body = JSON.stringify({ messages: [{ role: 'user', content }], max_tokens: 1 });
    const { body: answer } = await ask('/v1/chat/completions', { body });
    assert.notEqual(answer.error?.code, 'invalid_json', answer.error?.message);
  }
});

test('pages of other origins are refused unless they are allowed', async () => {
  const { port } = new URL(server.url);
  const refused = [
    { origin: 'http://evil.example' },
    { origin: `${PAGE}.evil.example` },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { host: `evil.example:${port}` },
    { host: 'evil.example' },
    { host: '127.0.0.1.evil.example' },
    { origin: `http://127.0.0.1:${port}` },
  ];
  for (const headers of refused) {
    for (const path of ['/health', '/v1/models']) {
      const { status, headers: got } = await ask(path, { headers });
      assert.deepEqual([status, got['access-control-allow-origin']], [403, undefined], JSON.stringify(headers));
    }
    assert.equal((await ask('/v1/chat/completions', { headers, body: JSON.stringify({ messages }) })).status, 403);
    assert.equal((await ask('/v1/chat/completions', { method: 'OPTIONS', headers })).status, 403);
  }
  for (const headers of [
    { host: `localhost:${port}` },
    { host: `[::1]:${port}` },
    { host: 'bq4.test' },
    { host: '192.168.0.7' },
  ])
    assert.equal((await ask('/health', { headers })).status, 200, JSON.stringify(headers));
  const { status, headers } = await ask('/v1/models', { headers: { origin: PAGE } });
  assert.deepEqual([status, headers['access-control-allow-origin'], headers.vary], [200, PAGE, 'Origin']);
  const asked = {
    origin: PAGE,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization,content-type,x-stainless-os',
  };
  const before = await ask('/v1/chat/completions', { method: 'OPTIONS', headers: { ...asked, authorization: '' } });
  assert.deepEqual(
    [before.status, before.headers['access-control-allow-origin'], before.headers['access-control-allow-headers']],
    [204, PAGE, asked['access-control-request-headers']],
  );
});

/** The fields of a loaded object that JSON can contain. */
const ANOTHER = { info: { id: '1-2' } };

test('invalid requests: a status, and what to do', async () => {
  const json = JSON.stringify({ messages });
  /** @type {[string, object, number, string][]} */
  const cases = [
    ['/v1/chat/completions', { body: json, headers: { authorization: '' } }, 401, 'invalid_api_key'],
    ['/v1/chat/completions', { body: json, headers: { 'content-type': 'text/plain' } }, 415, 'unsupported_media_type'],
    ['/v1/chat/completions', { body: json, headers: { 'content-encoding': 'gzip' } }, 415, 'unsupported_media_type'],
    ['/v1/chat/completions', { body: '{' }, 400, 'invalid_json'],
    ['/v1/chat/completions', { body: '[]' }, 400, 'invalid_json'],
    ['/v1/chat/completions', { body: Buffer.from([0x7b, 0xff, 0x7d]) }, 400, 'invalid_json'],
    ['/v1/chat/completions', { body: '{}' }, 400, 'invalid_value'],
    ['/v1/chat/completions', { body: '{"messages":"x"}' }, 400, 'invalid_value'],
    ['/v1/embeddings', { body: '{"input":[]}' }, 400, 'invalid_value'],
    ['/v1/completions', { body: `{"__proto__":{"prompt":"x"}}` }, 400, 'invalid_value'],
    ['/v1/completions', { body: JSON.stringify({ prompt: Array(9000).fill('a'), n: 128 }) }, 400, 'invalid_value'],
    ['/v1/completions', { body: JSON.stringify({ prompt: Array(17).fill('a'), n: 128 }) }, 400, 'invalid_value'],
    ['/v1/completions', { body: '{"prompt":["a",1]}' }, 400, 'invalid_value'],
    ['/v1/embeddings', { body: JSON.stringify({ input: Array(2049).fill('a') }) }, 400, 'invalid_value'],
    ['/v1/chat/completions', { body: JSON.stringify({ messages, stop: Array(129).fill('a') }) }, 400, 'invalid_value'],
    ['/v1/chat/completions', { body: JSON.stringify({ messages, model: ['chat'] }) }, 400, 'invalid_value'],
    ['/v1/chat/completions', { body: JSON.stringify({ messages, bq4: { adapter: ANOTHER } }) }, 400, 'invalid_value'],
    [
      '/v1/chat/completions',
      { body: JSON.stringify({ messages, bq4: { speculate: { model: ANOTHER } } }) },
      400,
      'invalid_value',
    ],
    ['/v1/chat/completions', { body: JSON.stringify({ messages, logit_bias: { 99999: 1 } }) }, 400, 'invalid_value'],
    ['/v1/chat/completions', { body: `{"messages":${'['.repeat(600)}${']'.repeat(600)}}` }, 400, 'invalid_json'],
    ['/v1/chat/completions', {}, 405, 'method_not_allowed'],
    ['/v1/models', { method: 'DELETE' }, 405, 'method_not_allowed'],
    ['/v1/nothing', {}, 404, 'unknown_url'],
    ['/v1/models/%E0%A4%A', {}, 404, 'model_not_found'],
    [
      '/v1/chat/completions',
      { body: `"${'x'.repeat(150_000)}"`, headers: { 'transfer-encoding': 'chunked' } },
      413,
      'request_too_large',
    ],
  ];
  for (const [path, options, status, code] of cases) {
    const got = await ask(path, options);
    assert.deepEqual(
      [got.status, got.body.error.code],
      [status, code],
      `${path} ${JSON.stringify(options).slice(0, 80)}`,
    );
    assert.ok(got.body.error.message && got.body.error.type);
  }
});

test('HEAD, as sent by health checks: the headers of GET only', async () => {
  for (const path of ['/health', '/v1/models', '/v1/models/nothing', '/v1/nothing']) {
    const [head, get] = [await ask(path, { method: 'HEAD' }), await ask(path)];
    assert.deepEqual([head.status, head.headers['content-type']], [get.status, get.headers['content-type']], path);
    assert.equal(head.body, '');
  }
  // With the address of the server, as clients send it through a proxy (RFC 9112, 3.2.2).
  for (const path of ['/health', '/v1/models', '/v1/nothing?x'])
    assert.deepEqual((await ask(path, { target: new URL(path, server.url).href })).body, (await ask(path)).body, path);
  assert.equal((await ask('/health', { target: 'http://elsewhere.example/health' })).status, 403, 'its host counts');
  const refused = await ask('/v1/embeddings', { method: 'HEAD' });
  assert.deepEqual([refused.status, refused.headers.allow], [405, 'POST']);
});

test('a probe by HTTP/1.0 without a Host header is answered; a wrong name is refused by any version', async () => {
  const { port } = new URL(server.url);
  const statusOf = async (/** @type {string} */ headers) => {
    const socket = dial(Number(port), '127.0.0.1');
    socket.end(`GET /health HTTP/1.0\r\n${headers}\r\n`);
    return String(Buffer.concat(await socket.toArray())).slice(0, 12);
  };
  assert.equal(await statusOf(''), 'HTTP/1.1 200');
  assert.equal(await statusOf('Host: elsewhere.example\r\n'), 'HTTP/1.1 403');
  assert.equal(await statusOf('Host:\r\n'), 'HTTP/1.1 403');
});

test('a request without an end, or one that ends early, does not affect the server', async () => {
  const { port } = new URL(server.url);
  const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Type: application/json\r\n`;
  const flood = dial(Number(port), '127.0.0.1');
  const ended = new Promise((resolve) => flood.on('close', resolve).on('error', () => {}));
  flood.write(`${head}Transfer-Encoding: chunked\r\n\r\n`);
  const piece = `${(65536).toString(16)}\r\n${'x'.repeat(65536)}\r\n`;
  const push = () => flood.writable && flood.write(piece, push);
  push();
  await ended;
  const short = dial(Number(port), '127.0.0.1');
  await new Promise((resolve) => short.end(`${head}Content-Length: 1000\r\n\r\n{"mess`, () => resolve(undefined)));
  assert.equal((await client.chat.completions.create({ ...fixed, messages })).choices.length, 1);
  assert.equal((await health()).running, 0);
});

test('the bodies of all requests together have a limit, and release their memory', async () => {
  const own = await serveModels([{ id: 'chat', model }], { port: 0, maxBody: 10_000 });
  const port = Number(new URL(own.url).port);
  const head = 'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n';
  /** Sends a request without its last byte. */
  const stalled = Array.from({ length: 17 }, () => dial(port, '127.0.0.1').on('error', () => {}));
  for (const socket of stalled) socket.write(`${head}Content-Length: 10000\r\n\r\n{"messages":"${'x'.repeat(9985)}"`);
  const ask = async () => {
    const { status } = await fetch(`${own.url}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...fixed, max_tokens: 1, messages }),
    });
    return status;
  };
  await until('the memory to be used', async () => (await ask()) === 429);
  for (const socket of stalled) socket.destroy();
  await until('the memory to be released', async () => (await ask()) === 200);
  await inTime('the server to close', own.close());
});

test('closing ends running requests with a reason', async () => {
  const own = await serveModels([{ id: 'chat', model }], { port: 0 });
  const other = new OpenAI({ baseURL: own.url, apiKey: 'none is needed', maxRetries: 0 });
  const stream = await other.chat.completions.create(long);
  const read = (async () => {
    for await (const _ of stream);
  })();
  await inTime('the server to close', own.close());
  await assert.rejects(read, /shutting down/);
  await assert.rejects(fetch(`${own.url}/models`));
});

/**
 * Starts the command as a process, and waits until it has printed its address.
 * @param {import('node:test').TestContext} t @param {string[]} options @param {NodeJS.ProcessEnv} [env]
 */
async function command(t, options, env) {
  const served = spawn(process.execPath, [PROGRAM, 'serve', FILE, '--port', '0', '--context', '128', ...options], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  t.after(() => served.kill('SIGKILL'));
  const ended = new Promise((resolve) => served.on('close', resolve));
  let printed = '';
  for await (const part of served.stdout.setEncoding('utf8')) if ((printed += part).includes('\n')) break;
  return { url: printed.trim(), end: () => (served.kill('SIGINT'), ended) };
}

test('bq4 serve: prints its address, applies its options, ends by a signal', async (t) => {
  const { url, end } = await command(
    t,
    ['--threads', '1', '--token', TOKEN, '--allow-origin', PAGE, '--allow-origin', `${PAGE}:81`, '--max-body', '1000'],
    { BQ4_TOKEN: 'another' },
  );
  const { choices } = await new OpenAI({ baseURL: url, apiKey: TOKEN }).chat.completions.create({ ...fixed, messages });
  assert.equal(choices[0].finish_reason === 'stop' || choices[0].finish_reason === 'length', true);
  /** @param {Record<string, string>} headers @param {object} [body] */
  const answer = async (headers, body) => {
    const { status, headers: got } = await fetch(`${url}/${body ? 'chat/completions' : 'models'}`, {
      headers: { 'content-type': 'application/json', ...headers },
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
    });
    return [status, got.get('access-control-allow-origin')];
  };
  const known = { authorization: `Bearer ${TOKEN}` };
  assert.deepEqual(await answer({}), [401, null], 'without a token');
  assert.deepEqual(await answer({ authorization: 'Bearer another' }), [401, null], '--token goes before BQ4_TOKEN');
  assert.deepEqual(await answer(known), [200, null]);
  for (const origin of [PAGE, `${PAGE}:81`]) assert.deepEqual(await answer({ ...known, origin }), [200, origin]);
  assert.deepEqual(await answer({ ...known, origin: `${PAGE}:82` }), [403, null]);
  const large = [{ role: 'user', content: 'x'.repeat(1000) }];
  assert.equal((await answer(known, { ...fixed, messages: large }))[0], 413);
  assert.equal(await end(), 0);
});

test('bq4 serve: BQ4_TOKEN sets the token', async (t) => {
  const { url, end } = await command(t, ['--threads', '1'], { BQ4_TOKEN: TOKEN });
  for (const [token, status] of /** @type {[string, number][]} */ ([
    [TOKEN, 200],
    ['', 401],
  ]))
    assert.equal((await fetch(`${url}/models`, { headers: { authorization: `Bearer ${token}` } })).status, status);
  assert.equal(await end(), 0);
});
