// `bq4 serve` by its own process, and its server, asked by OpenAI's own client and by plain requests.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { request } from 'node:http';
import { connect as dial } from 'node:net';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import OpenAI from 'openai';
import { createWorkerEngine, fromFile } from '../../js/index.js';
import { Queue } from '../../js/server/queue.js';
import { serveModels } from '../../js/server/index.js';
import { inTime, until } from '../waiting.mjs';

const FILE = fileURLToPath(new URL('../../models/chat.bq4', import.meta.url));
const PROGRAM = fileURLToPath(new URL('../../bin/bq4.js', import.meta.url));
const TOKEN = 'open sesame';
const PAGE = 'http://page.example';
const messages = [{ role: /** @type {const} */ ('user'), content: 'Who are you?' }];
/** Replies that don't end by themselves, not for minutes. */
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
  model = await engine.load(fromFile(FILE), { context: 512 });
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

/** A request with any headers, which fetch does not allow. @param {string} path @param {{ method?: string, headers?: object, body?: string | Buffer }} [options] */
const ask = (path, { method, headers, body } = {}) =>
  new Promise((resolve, reject) => {
    const at = new URL(path, server.url);
    const asked = request(
      at,
      {
        method: method ?? (body === undefined ? 'GET' : 'POST'),
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

test('chat: what the client gets is what the model says', async () => {
  const own = await model.chat.completions.create({ ...fixed, messages });
  const { choices, usage, model: name, object, id } = await client.chat.completions.create({ ...fixed, messages });
  assert.equal(choices[0].message.content, own.choices[0].message.content);
  assert.ok(choices[0].message.content.length > 0);
  assert.deepEqual([name, object, choices[0].finish_reason], ['chat', 'chat.completion', own.choices[0].finish_reason]);
  assert.equal(usage.completion_tokens, own.usage.completion_tokens);
  assert.match(id, /^chatcmpl-/);
});

test('chat, streamed: the same text in pieces, a finish reason, usage when it was asked for', async () => {
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
  // The client's own helper puts a message together.
  const final = await client.chat.completions.stream({ ...fixed, messages }).finalChatCompletion();
  assert.equal(final.choices[0].message.content, whole.message.content);
});

test('chat held to a schema, by the client that parses it', async () => {
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

test('completions and embeddings', async () => {
  const { choices, object } = await client.completions.create({ ...fixed, prompt: 'Once upon a time' });
  assert.equal(object, 'text_completion');
  assert.ok(choices[0].text.length > 0);
  let streamed = '';
  for await (const chunk of await client.completions.create({ ...fixed, prompt: 'Once upon a time', stream: true }))
    streamed += chunk.choices[0]?.text ?? '';
  assert.equal(streamed, choices[0].text);
  const input = ['Hello', 'Good day'];
  const { data, usage } = await client.embeddings.create({ model: 'chat', input }); // as base64, which the client asks for
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

test('errors have the classes and codes that the client knows', async () => {
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

test('a client that goes away ends its generation, and the next one is served', async () => {
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

test('requests wait in line; too many are refused; who leaves the line is not served', async () => {
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

test('several at once over the network: all are answered, the same', async () => {
  const answers = await Promise.all([1, 2, 3].map(() => client.chat.completions.create({ ...fixed, messages })));
  assert.equal(new Set(answers.map(({ choices }) => choices[0].message.content)).size, 1);
});

test('pages of other origins are refused unless they were allowed', async () => {
  const { port } = new URL(server.url);
  const refused = [
    { origin: 'http://evil.example' },
    { origin: `${PAGE}.evil.example` },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site' },
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

test('requests that are wrong: a status, and what to do', async () => {
  const json = JSON.stringify({ messages });
  /** @type {[string, object, number, string][]} */
  const cases = [
    ['/v1/chat/completions', { body: json, headers: { authorization: '' } }, 401, 'invalid_api_key'],
    ['/v1/chat/completions', { body: json, headers: { 'content-type': 'text/plain' } }, 415, 'unsupported_media_type'],
    ['/v1/chat/completions', { body: '{' }, 400, 'invalid_json'],
    ['/v1/chat/completions', { body: '[]' }, 400, 'invalid_json'],
    ['/v1/chat/completions', { body: Buffer.from([0x7b, 0xff, 0x7d]) }, 400, 'invalid_json'],
    ['/v1/chat/completions', { body: '{}' }, 400, 'invalid_value'],
    ['/v1/chat/completions', { body: '{"messages":"x"}' }, 400, 'invalid_value'],
    ['/v1/embeddings', { body: '{"input":[]}' }, 400, 'invalid_value'],
    ['/v1/completions', { body: `{"__proto__":{"prompt":"x"}}` }, 400, 'invalid_value'],
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

test('a request without an end, or that ends early, leaves the server as it was', async () => {
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

test('closing ends what is running, with a reason', async () => {
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

test('bq4 serve: prints its address, serves, ends by a signal', async () => {
  const served = spawn(
    process.execPath,
    [PROGRAM, 'serve', FILE, '--port', '0', '--context', '128', '--threads', '1'],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const ended = new Promise((resolve) => served.on('close', resolve));
  let printed = '';
  for await (const part of served.stdout.setEncoding('utf8')) if ((printed += part).includes('\n')) break;
  const { choices } = await new OpenAI({ baseURL: printed.trim(), apiKey: '-' }).chat.completions.create({
    ...fixed,
    messages,
  });
  assert.equal(choices[0].finish_reason === 'stop' || choices[0].finish_reason === 'length', true);
  served.kill('SIGINT');
  assert.equal(await ended, 0);
});
