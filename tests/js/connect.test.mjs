// Tests of `connect()`: a model on a server, with `bq4 serve` and with faulty servers.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { inspect } from 'node:util';
import { fileURLToPath } from 'node:url';
import { BqError, connect, localOrRemote } from '../../js/connect.js';
import { events } from '../../js/api/connect/server-sent-events.js';
import { createWorkerEngine, fromBytes, fromFile } from '../../js/index.js';
import { serveModels } from '../../js/api/server/index.js';
import { asyncDispose } from '../../js/shared/async.js';
import { inTime } from '../waiting.mjs';
import { tinyModel } from './fixture.mjs';

const FILE = fileURLToPath(new URL('../../models/chat.bq4', import.meta.url));
const messages = [{ role: /** @type {const} */ ('user'), content: 'Who are you?' }];
const fixed = { messages, temperature: 0, max_tokens: 12 };

/** @type {Awaited<ReturnType<typeof createWorkerEngine>>} */
let engine;
/** @type {import('../../js/index.js').Model} */
let model;
/** @type {Awaited<ReturnType<typeof serveModels>>} */
let server;
/** @type {import('../../js/connect.js').RemoteModel} */
let remote;
before(async () => {
  engine = await createWorkerEngine({ threads: 1 });
  model = await engine.load(fromFile(FILE), { contextTokens: 512 });
  server = await serveModels([{ id: 'chat', model }], { port: 0, token: 'sesame' });
  remote = connect(server.url, { apiKey: 'sesame' });
});
after(async () => {
  await server.close();
  await engine.close();
});

/** @param {AsyncIterable<any>} chunks */
async function textOf(chunks) {
  let text = '';
  for await (const { choices } of chunks) text += choices[0]?.delta?.content ?? choices[0]?.text ?? '';
  return text;
}

/** What is left when ids and times are taken out. @param {any} answer */
const lasting = ({ id: _, created: __, model: ___, usage: { prompt_tokens_details: ____, ...usage }, ...rest }) => ({
  ...rest,
  usage,
});

test('calls of a remote model give the same results as those of a local model', async () => {
  for (const one of [fixed, { ...fixed, logprobs: true, top_logprobs: 2 }])
    assert.deepEqual(
      lasting(await remote.chat.completions.create(one)),
      lasting(await model.chat.completions.create(one)),
    );
  assert.equal(
    await textOf(await remote.chat.completions.create({ ...fixed, stream: true })),
    await textOf(await model.chat.completions.create({ ...fixed, stream: true })),
  );
  const prompt = { prompt: 'Once', temperature: 0, max_tokens: 8 };
  assert.deepEqual(lasting(await remote.completions.create(prompt)), lasting(await model.completions.create(prompt)));
  assert.equal(
    await textOf(await remote.completions.create({ ...prompt, stream: true })),
    await textOf(await model.completions.create({ ...prompt, stream: true })),
  );
  assert.deepEqual(
    (await remote.embeddings.create({ input: ['Hello'] })).data,
    (await model.embeddings.create({ input: ['Hello'] })).data,
  );
  assert.deepEqual(
    (await remote.models.list()).data.map(({ id }) => id),
    ['chat'],
  );
});

test('runTools works with a server like with a model', async (t) => {
  const model = await engine.load(fromBytes(await tinyModel({ config: { context: 2048 } })));
  const server = await serveModels([{ id: 'tiny', model }], { port: 0, token: 'sesame' });
  t.after(() => server.close().then(() => model.close()));
  const remote = connect(server.url, { apiKey: 'sesame' });
  const parameters = { type: 'object', properties: { city: { enum: ['Rome', 'Oslo'] } }, required: ['city'] };
  /** @type {any[]} */
  const given = [];
  const run = (/** @type {any} */ args, /** @type {any} */ { call }) => void given.push([args, call.function.name]);
  const tools = [{ type: /** @type {const} */ ('function'), function: { name: 'weather', parameters, function: run } }];
  const body = {
    ...fixed,
    seed: 1,
    max_tokens: 90,
    tools,
    tool_choice: /** @type {const} */ ('required'),
    bq4: { maxSteps: 2 },
  };
  const there = await remote.chat.completions.runTools(body);
  const here = await model.chat.completions.runTools(body);
  assert.equal(given.length % 2, 0);
  assert.deepEqual(given.slice(0, given.length / 2), given.slice(given.length / 2));
  const reportOf = (
    /** @type {import('../../js/index.js').ToolRun} */ { content, finishReason: reason, messages: all },
  ) => ({
    content,
    reason,
    roles: all.map(({ role }) => role),
  });
  assert.deepEqual(reportOf(there), reportOf(here));
  assert.deepEqual(reportOf(there).roles.slice(0, 3), ['user', 'assistant', 'tool']);
  const failing = [
    { ...tools[0], function: { ...tools[0].function, function: () => Promise.reject(new Error('no')) } },
  ];
  await assert.rejects(remote.chat.completions.runTools({ ...body, tools: failing, bq4: { toolErrors: 'throw' } }), {
    code: 'TOOL',
  });
});

test('errors of a server have the codes of the engine, and the HTTP status', async () => {
  /** @type {[() => Promise<any>, string, number][]} */
  const cases = [
    [() => remote.chat.completions.create({ ...fixed, temperature: 99 }), 'ARGUMENT', 400],
    [
      () => remote.chat.completions.create({ ...fixed, messages: [{ role: 'user', content: 'word '.repeat(1000) }] }),
      'CONTEXT_FULL',
      400,
    ],
    [
      () => remote.chat.completions.create({ ...fixed, response_format: { type: 'regex', pattern: '(' } }),
      'GRAMMAR',
      400,
    ],
    [() => remote.chat.completions.create({ ...fixed, model: 'gpt' }), 'HTTP_STATUS', 404],
    [() => connect(server.url, { apiKey: 'x' }).chat.completions.create(fixed), 'HTTP_STATUS', 401],
    [
      () =>
        connect(server.url.replace('/v1', '/v2'), { model: 'chat', apiKey: 'sesame' }).chat.completions.create(fixed),
      'HTTP_STATUS',
      404,
    ],
  ];
  for (const [call, code, status] of cases) {
    const error = await call().then(
      () => assert.fail(`${code} was not thrown`),
      (thrown) => thrown,
    );
    assert.ok(error instanceof BqError, error.stack);
    assert.deepEqual([error.code, error.details.status], [code, status], error.message);
    assert.ok(error.message && error.hint, error.message);
    if (status === 401) assert.match(error.hint, /\{ apiKey \}/);
  }
  assert.throws(() => connect('no address'), { code: 'ARGUMENT' });
  assert.throws(
    () => connect('http://me:secret@127.0.0.1/v1'),
    (/** @type {any} */ error) => {
      assert.equal(error.code, 'ARGUMENT');
      assert.equal(error.message, 'expected the address of a server, found "http://…@127.0.0.1/v1"');
      assert.match(error.cause.message, /user name/);
      assert.match(error.hint, /apiKey/);
      assert.doesNotMatch(inspect(error), /secret/);
      return true;
    },
  );
});

test('connect checks options by name and type, and accepts headers in any form of fetch', async () => {
  const url = 'http://127.0.0.1:9/v1';
  for (const [options, message, param] of /** @type {[any, RegExp, string][]} */ ([
    [{ apikey: 'x' }, /^connect: unknown option "apikey"; did you mean "apiKey"\?/, 'apikey'],
    [{ apiKey: 5 }, /^apiKey: expected a string, found 5/, 'apiKey'],
    [{ apiKey: 'a\nb' }, /^apiKey: (?!.*a\nb)/, 'apiKey'],
    [{ headers: { 'a b': 'c' } }, /^headers: /, 'headers'],
    [{ headers: 5 }, /^headers: /, 'headers'],
    [{ fetch: 5 }, /^fetch: expected a function, found 5/, 'fetch'],
    [{ model: 5 }, /^model: expected a string, found 5/, 'model'],
    [null, /^the last argument of connect: expected an options object, found null/, ''],
    ['x', /^the last argument of connect: expected an options object, found "x"/, ''],
  ]))
    assert.throws(
      () => connect(url, options),
      (/** @type {any} */ error) => {
        assert.deepEqual([error.code, param ? error.details.param : ''], ['ARGUMENT', param], error.stack);
        assert.match(error.message, message);
        return true;
      },
    );
  const reached = connect(server.url, { model: 'chat', apiKey: 'sesame' });
  /** @type {any[]} */
  const wrongCalls = [undefined, null, 'x', []];
  for (const body of wrongCalls)
    await assert.rejects(reached.chat.completions.create(body), {
      code: 'ARGUMENT',
      message: /^the request: expected/,
    });
  const misspelt = /** @type {any} */ ({ singal: AbortSignal.abort() });
  await assert.rejects(reached.chat.completions.create(fixed, misspelt), { code: 'ARGUMENT', message: /singal/ });
  await assert.rejects(reached.models.list(misspelt), { code: 'ARGUMENT', message: /singal/ });
  const slow = /** @type {any} */ ({ tokensPerSecond: 'five' });
  await assert.rejects(localOrRemote(/** @type {any} */ ({}), '', reached, slow), { code: 'ARGUMENT' });
  /** @type {HeadersInit[]} */
  const forms = [
    { authorization: 'Bearer sesame' },
    [['Authorization', 'Bearer sesame']],
    new Headers({ AUTHORIZATION: 'Bearer sesame' }),
  ];
  for (const headers of forms) assert.equal((await connect(server.url, { headers }).models.list()).object, 'list');
});

test('lists of models: null is an empty list; other values than lists are refused', async () => {
  const listOf = (/** @type {any} */ data) =>
    connect('http://x.example/v1', { fetch: async () => Response.json({ object: 'list', data }) }).models.list();
  assert.deepEqual(await listOf(null), { object: 'list', data: [] });
  assert.deepEqual(await listOf(undefined), { object: 'list', data: [] });
  for (const data of [{}, 'x', 5])
    await assert.rejects(listOf(data), { code: 'FORMAT', message: /expected a list in "data"/ });
});

test('requests that are no JSON, and results of fetch that are no Response, are refused', async () => {
  const server = (/** @type {any} */ result) =>
    connect('http://x.example/v1', { model: 'm', fetch: async () => result });
  const circle = /** @type {any} */ ({ messages: [] });
  circle.self = circle;
  for (const request of /** @type {any[]} */ ([circle, { messages: [], n: 5n }]))
    await assert.rejects(server(new Response('{}')).chat.completions.create(request), {
      code: 'ARGUMENT',
      message: /^expected a request that JSON can represent: [^\n]+$/,
    });
  for (const result of [undefined, null, {}, 'x'])
    for (const stream of [false, true])
      await assert.rejects(server(result).chat.completions.create(/** @type {any} */ ({ messages: [], stream })), {
        code: 'ARGUMENT',
        message: /^the result of `fetch`: expected a Response, found /,
      });
});

test('an abort ends the request with its reason before, during the wait and within a stream; so does leaving the loop', async () => {
  const reason = new Error('enough');
  await assert.rejects(remote.chat.completions.create(fixed, { signal: AbortSignal.abort(reason) }), reason);
  const long = /** @type {any} */ ({ messages, n: 128, response_format: { type: 'regex', pattern: '[a-z ]{2000}' } });
  const waiting = new AbortController();
  const whole = remote.chat.completions.create(long, { signal: waiting.signal });
  setImmediate(() => waiting.abort(reason));
  await assert.rejects(whole, reason);
  const amid = new AbortController();
  const read = async () => {
    for await (const _ of await remote.chat.completions.create({ ...long, stream: true }, { signal: amid.signal }))
      amid.abort(reason);
  };
  await assert.rejects(read, reason);
  for await (const _ of await remote.chat.completions.create({ ...long, stream: true })) break;
  // One at a time is served: this one only gets its turn when the others have ended.
  assert.equal((await inTime('its turn', remote.chat.completions.create(fixed))).choices.length, 1);
});

/**
 * What a client makes of a server that answers so.
 * @param {(response: import('node:http').ServerResponse) => void} answer @param {any} [body]
 */
async function against(answer, body = { ...fixed, stream: true }) {
  const bad = createServer((_, response) => answer(response));
  await new Promise((resolve) => bad.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (bad.address());
  try {
    const result = await connect(`http://127.0.0.1:${port}/v1/`, { model: 'x' }).chat.completions.create(body);
    return body.stream ? await textOf(result) : result;
  } finally {
    bad.closeAllConnections();
    bad.close();
  }
}

const sse = { 'Content-Type': 'text/event-stream' };
const chunk = (content, finish_reason = null) =>
  JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason }] });

test('a stream that is canceled before the first read ends its request', async (t) => {
  let whenClosed = () => {};
  const endless = createServer((request, response) => {
    request.resume();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const timer = setInterval(() => response.write('data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'), 5);
    response.on('close', () => {
      clearInterval(timer);
      whenClosed();
    });
  });
  await new Promise((resolve) => endless.listen(0, '127.0.0.1', () => resolve(undefined)));
  t.after(() => {
    endless.close();
    endless.closeAllConnections();
  });
  const { port } = /** @type {import('node:net').AddressInfo} */ (endless.address());
  const far = connect(`http://127.0.0.1:${port}/v1`, { model: 'm' });
  for (const end of [
    (/** @type {any} */ stream) => stream.toReadableStream().cancel(),
    (/** @type {any} */ stream) => stream[asyncDispose](),
    (/** @type {any} */ stream) => stream[Symbol.asyncIterator]().return(),
    (/** @type {any} */ stream) =>
      stream[Symbol.asyncIterator]()
        .throw(new Error('x'))
        .catch(() => {}),
  ]) {
    const closed = new Promise((resolve) => (whenClosed = () => resolve(undefined)));
    await end(await far.chat.completions.create({ messages, stream: true }));
    await inTime('the end of the request', closed);
  }
});

test('server-sent events are parsed for any chunks and line ends', async () => {
  const text = `: a comment\r\n\r\ndata: ${chunk('grüß ')}\r\n\r\nevent: x\rdata:${chunk('dich')}\r\rid: 3\ndata: ${chunk('!', 'stop')}\n\ndata: [DONE]\n\n`;
  const bytes = new TextEncoder().encode(text);
  for (const size of [1, 7, bytes.length])
    assert.equal(
      await against((response) => {
        response.writeHead(200, sse);
        for (let at = 0; at < bytes.length; at += size) response.write(bytes.subarray(at, at + size));
        response.end();
      }),
      'grüß dich!',
    );
  // Not all servers say [DONE].
  assert.equal(
    await against((response) => response.writeHead(200, sse).end(`data: ${chunk('whole', 'stop')}\n\n`)),
    'whole',
  );
});

test('CR and LF in separate chunks end one line', async () => {
  const pieces = ['data: a\r', '\ndata: b\r', '\n\r', '\ndata: c\r\r'].map((text) => new TextEncoder().encode(text));
  const body = new ReadableStream({ pull: (sink) => (pieces.length ? sink.enqueue(pieces.shift()) : sink.close()) });
  const all = [];
  for await (const { data } of events(body)) all.push(data);
  assert.deepEqual(all, ['a\nb', 'c']);
});

test('failing servers give a typed error, never a truncated reply', async () => {
  /** @type {[string, (response: import('node:http').ServerResponse) => void, object, object?][]} */
  const cases = [
    ['a page', (r) => r.end('<!doctype html>'), { code: 'FORMAT' }, fixed],
    ['no reply at all', (r) => r.destroy(), { code: 'NETWORK' }],
    [
      'breaks off',
      (r) => r.writeHead(200, sse).write(`data: ${chunk('half')}\n\n`, () => r.destroy()),
      { code: 'NETWORK' },
    ],
    ['ends early', (r) => r.writeHead(200, sse).end(`data: ${chunk('half')}\n\n`), { code: 'NETWORK' }],
    [
      'half a JSON',
      (r) => r.writeHead(200, { 'content-length': '100' }).write('{"cho', () => r.destroy()),
      { code: 'NETWORK' },
      fixed,
    ],
    ['chunks of something else', (r) => r.writeHead(200, sse).end('data: hello\n\n'), { code: 'FORMAT' }],
    [
      'an error amid the stream',
      (r) =>
        r.writeHead(200, sse).end(`data: ${chunk('half')}\n\ndata: {"error":{"message":"broke","code":"TRAP"}}\n\n`),
      { code: 'TRAP', message: 'broke' },
    ],
    [
      'an event without an end',
      (r) => r.writeHead(200, sse).end(`data: ${'x'.repeat(2 ** 20 + 1)}`),
      { code: 'NETWORK' },
    ],
    [
      "another server's word for too long",
      (r) => r.writeHead(400).end('{"error":{"code":400,"message":"too long","type":"exceed_context_size_error"}}'),
      { code: 'CONTEXT_FULL', message: 'too long' },
    ],
    [
      'an error that is no JSON',
      (r) => r.writeHead(502).end('Bad Gateway'),
      { code: 'HTTP_STATUS', message: 'Bad Gateway' },
    ],
    ['an error that is empty', (r) => r.writeHead(500).end(), { code: 'HTTP_STATUS' }],
  ];
  for (const [name, answer, wanted, body] of cases)
    await assert.rejects(against(answer, body), { name: 'BqError', ...wanted }, name);
  const isGone = await serveModels([{ id: 'chat', model }], { port: 0 });
  await isGone.close();
  await assert.rejects(connect(isGone.url).chat.completions.create(fixed), {
    code: 'NETWORK',
    message: /ECONNREFUSED/,
  });
});

test('the model runs locally if the plan says that it fits, otherwise on the server', async () => {
  const here = await localOrRemote(engine, fromFile(FILE), remote, { contextTokens: 64 });
  assert.equal(here.where, 'local');
  assert.equal((await here.model.chat.completions.create(fixed)).choices.length, 1);
  await /** @type {any} */ (here.model).close();
  for (const options of [{ memoryBudget: 1000 }, { tokensPerSecond: 1e9 }]) {
    const there = await localOrRemote(engine, fromFile(FILE), remote, options);
    assert.deepEqual([there.where, there.model], ['remote', remote]);
    assert.ok(there.reason.length > 10);
  }
  await assert.rejects(localOrRemote(engine, fromFile('/nowhere.bq4'), remote), { code: 'READ' });
});
