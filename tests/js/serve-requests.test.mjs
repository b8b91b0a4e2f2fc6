// Requests of clients to `bq4 serve` that have another shape than expected: each gets a status of its own and OpenAI's
// error, complete or streamed, and the server stays usable. Null counts as missing, as in OpenAI's API.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { serveModels } from '../../js/api/server/index.js';
import { createWorkerEngine, fromFile } from '../../js/index.js';
import { inTime, until } from '../waiting.mjs';

const FILE = fileURLToPath(new URL('../../models/chat.bq4', import.meta.url));
const MAX_BODY = 100_000;
/** @type {Awaited<ReturnType<typeof createWorkerEngine>>} */
let engine;
/** @type {Awaited<ReturnType<typeof serveModels>>} */
let server;
before(async () => {
  engine = await createWorkerEngine({ threads: 1 });
  const model = await engine.load(fromFile(FILE), { contextTokens: 512 });
  server = await serveModels([{ id: 'chat', model }], { port: 0, maxBody: MAX_BODY, origins: ['http://page.example'] });
});
after(async () => {
  await server.close();
  await engine.close();
});

/** @param {string} path @param {RequestInit} [init] */
const fetchPath = (path, init) => fetch(new URL(path, server.url), init);
/**
 * Sends a body as JSON. Returns the status and the error object; the text of a stream that has no error.
 * @param {string} path @param {unknown} body  a string is sent unchanged
 */
async function post(path, body) {
  const answer = await fetchPath(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await inTime(`the answer to ${JSON.stringify(body).slice(0, 100)}`, answer.text());
  const type = answer.headers.get('content-type');
  return { status: answer.status, type, text, error: answer.ok ? null : JSON.parse(text).error };
}

/** Checks that an error has the members of OpenAI's errors. @param {any} error @param {string} subject */
function checkErrorShape(error, subject) {
  assert.ok(typeof error.message === 'string' && error.message.length > 5, subject);
  assert.ok(typeof error.type === 'string' && 'param' in error && 'code' in error, subject);
}

const CHAT = '/v1/chat/completions';
const TEXT = '/v1/completions';
const user = { role: 'user', content: 'Hi' };
const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } };
const caller = { role: 'assistant', content: null, tool_calls: [call] };
const result = { role: 'tool', tool_call_id: 'a', content: '7' };
const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } };

/** Values of each type that JSON has. */
const VALUES = { string: 'x', number: -1.5, boolean: true, object: {}, list: [{}] };
/** Fields of chat completions, with the types among VALUES that are valid for each. @type {Record<string, string[]>} */
const CHAT_FIELDS = {
  model: [],
  stream_options: [],
  n: [],
  max_tokens: [],
  max_completion_tokens: [],
  temperature: [],
  top_p: [],
  top_k: [],
  min_p: [],
  repeat_penalty: [],
  presence_penalty: ['number'],
  frequency_penalty: ['number'],
  stop: ['string'],
  seed: [],
  logit_bias: ['object'],
  logprobs: ['boolean'],
  top_logprobs: [],
  response_format: [],
  tools: [],
  tool_choice: [],
  parallel_tool_calls: ['boolean'],
  chat_template_kwargs: ['object'],
  bq4: ['object'],
  user: ['string'],
  metadata: ['object'],
  safety_identifier: ['string'],
  prompt_cache_key: ['string'],
  service_tier: [],
  store: [],
  modalities: [],
};

describe('chat completions', () => {
  for (const [field, valid] of Object.entries(CHAT_FIELDS))
    test(`${field}: values of another type, and null`, async () => {
      for (const [type, value] of Object.entries(VALUES)) {
        const body = { messages: [user], max_completion_tokens: 1, [field]: value };
        const stream = type !== 'object' || field !== 'stream_options';
        if (valid.includes(type) || !stream) continue;
        for (const request of [body, { ...body, stream: true }]) {
          const { status, error } = await post(CHAT, request);
          assert.ok(status === 400 || (status === 404 && field === 'model'), `${type}: ${status}`);
          checkErrorShape(error, type);
          assert.match(error.param, new RegExp(`^${field}\\b`), type);
        }
      }
      for (const stream of [false, true]) {
        const { status } = await post(CHAT, { messages: [user], max_tokens: 1, [field]: null, stream });
        assert.equal(status, 200, 'null');
      }
    });

  test('stream: values of another type, and null', async () => {
    for (const stream of ['x', 'true', 1, {}, []])
      assert.equal((await post(CHAT, { messages: [user], stream })).error.param, 'stream');
    const { status, type } = await post(CHAT, { messages: [user], max_tokens: 1, stream: null });
    assert.deepEqual([status, type], [200, 'application/json; charset=utf-8']);
  });

  /** Messages that are refused: their name, the messages, the field in the error. @type {[string, any, string][]} */
  const REFUSED = [
    ['no messages', [], 'messages'],
    ['null', null, 'messages'],
    ['a string', 'Hi', 'messages'],
    ['one message instead of a list', user, 'messages'],
    ['a list within the list', [[user]], 'messages'],
    ['null as a message', [user, null], 'messages'],
    ['an unknown role', [user, { role: 'wizard', content: 'x' }], 'messages[1].role'],
    ['the name of a member of objects as a role', [{ role: '__proto__', content: 'x' }], 'messages[0].role'],
    ['a number as a role', [{ role: 5, content: 'x' }], 'messages[0].role'],
    ['no role', [{ content: 'x' }], 'messages[0]'],
    ['null as a role', [{ role: null, content: 'x' }], 'messages[0]'],
    ['no content', [{ role: 'user' }], 'messages[0].content'],
    ['null as the content of a user', [{ role: 'user', content: null }], 'messages[0].content'],
    ['a number as content', [user, { role: 'assistant', content: 5 }, user], 'messages[1].content'],
    ['an object as content', [{ role: 'user', content: { type: 'text', text: 'x' } }], 'messages[0].content'],
    [
      'a part of another type',
      [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'x' },
            { type: 'image_url', image_url: { url: 'x' } },
          ],
        },
      ],
      'messages[0].content[1]',
    ],
    ['null as a part', [{ role: 'user', content: [null] }], 'messages[0].content[0]'],
    ['a part without text', [{ role: 'user', content: [{ type: 'text' }] }], 'messages[0].content[0]'],
    ['an unknown member', [{ ...user, mood: 'good' }], 'messages[0].mood'],
    ['a number as a name', [{ ...user, name: 5 }], 'messages[0].name'],
    ['a string as tokens', [{ ...user, tokens: 'x' }], 'messages[0].tokens'],
    ['a string as calls', [user, { ...caller, tool_calls: 'x' }, result], 'messages[1].tool_calls'],
    [
      'a call without a function',
      [user, { ...caller, tool_calls: [{ id: 'a' }] }, result],
      'messages[1].tool_calls[0].function.name',
    ],
    [
      'a call of another type',
      [user, { ...caller, tool_calls: [{ ...call, type: 'x' }] }, result],
      'messages[1].tool_calls[0].type',
    ],
    [
      'arguments that are not JSON',
      [user, { ...caller, tool_calls: [{ ...call, function: { name: 'f', arguments: '{' } }] }, result],
      'messages',
    ],
    ['calls of a user', [{ ...user, tool_calls: [call] }], 'messages'],
    ['a result without a call', [user, result], 'messages'],
    ['a result of an unknown call', [user, caller, { ...result, tool_call_id: 'b' }], 'messages'],
    ['two results of a call', [user, caller, result, result], 'messages'],
    ['a number as the id of a call', [user, caller, { ...result, tool_call_id: 5 }], 'messages[2].tool_call_id'],
    ['null as a result', [user, caller, { ...result, content: null }], 'messages[2].content'],
  ];
  for (const [name, messages, param] of REFUSED)
    test(`messages: ${name}`, async () => {
      for (const stream of [false, true]) {
        const { status, error } = await post(CHAT, { messages, max_tokens: 1, stream });
        checkErrorShape(error, name);
        assert.deepEqual([status, error.param, error.code], [400, param, 'invalid_value'], error.message);
      }
    });

  test('messages: null members, and members of earlier answers, are accepted', async () => {
    const nulls = { name: null, tool_calls: null, tool_call_id: null, refusal: null, annotations: [], audio: null };
    const earlier = { role: 'assistant', content: null, refusal: null, tool_calls: [], reasoning_content: null };
    for (const messages of [
      [{ ...user, ...nulls, annotations: null }],
      [user, earlier, user],
      [user, { ...earlier, content: 'Hello', annotations: [] }, user],
      [user, { ...earlier, content: [] }, user],
      [{ role: 'user', content: '' }],
      [{ role: 'user', content: [{ type: 'text', text: '' }] }],
    ])
      assert.equal((await post(CHAT, { messages, max_tokens: 1 })).status, 200, JSON.stringify(messages));
  });

  /** Other fields that are refused: the fields, and the field in the error. @type {[object, string | null, string?][]} */
  const FIELDS = [
    [{ n: 0 }, 'n'],
    [{ n: 129 }, 'n'],
    [{ max_tokens: 1, max_completion_tokens: 2 }, 'max_tokens'],
    [{ stop: ['a', ''] }, 'stop'],
    [{ stop: [5] }, 'stop'],
    [{ logit_bias: { x: 1 } }, 'logit_bias'],
    [{ logit_bias: { 5: 101 } }, 'logit_bias'],
    [{ logit_bias: { 99999: 1 } }, 'logit_bias'],
    [{ top_logprobs: 2 }, 'top_logprobs'],
    [{ response_format: { type: 'xml' } }, 'response_format.type'],
    [{ response_format: { type: 'json_schema' } }, 'response_format.json_schema'],
    [{ response_format: { type: 'json_schema', json_schema: { schema: 5 } } }, 'response_format.json_schema.schema'],
    [
      { response_format: { type: 'json_schema', json_schema: { schema: { type: 'x' } } } },
      'response_format',
      'GRAMMAR',
    ],
    [{ response_format: { type: 'json_schema', json_schema: { schema: false } } }, 'response_format', 'GRAMMAR'],
    [{ response_format: { type: 'regex', pattern: '(' } }, 'response_format', 'GRAMMAR'],
    [{ response_format: { type: 'grammar', grammar: 'root ::= "' } }, 'response_format', 'GRAMMAR'],
    [{ response_format: { type: 'choice', choices: [] } }, 'response_format', 'GRAMMAR'],
    [{ tools: [{ type: 'custom', custom: { name: 'x' } }] }, 'tools[0].type'],
    [{ tools: [{ type: 'function', function: {} }] }, 'tools'],
    [{ tools: [tool, tool] }, 'tools'],
    [{ tools: [{ type: 'function', function: { name: 'f', parameters: [] } }] }, 'tools[0].function.parameters'],
    [{ tools: [tool], tool_choice: 'always' }, 'tool_choice'],
    [{ tools: [tool], tool_choice: { type: 'function', function: { name: 'g' } } }, 'tool_choice'],
    [{ tool_choice: 'required' }, 'tool_choice'],
    [{ chat_template_kwargs: { enable_thinking: false } }, 'chat_template_kwargs'],
    [{ bq4: { onProgress: 1 } }, 'bq4.onProgress'],
    [{ bq4: { contextPolicy: 'forget' } }, 'bq4.contextPolicy'],
    [{ prompt: 'Hi' }, 'prompt'],
    [{ functions: [] }, 'functions'],
    [{ reasoning_effort: 'low' }, 'reasoning_effort'],
    [{ audio: {} }, 'audio'],
  ];
  for (const [fields, param, code = 'invalid_value'] of FIELDS)
    test(`refused: ${JSON.stringify(fields).slice(0, 100)}`, async () => {
      for (const stream of [false, true]) {
        const { status, error } = await post(CHAT, { messages: [user], stream, ...fields });
        checkErrorShape(error, param ?? '');
        assert.deepEqual([status, error.param, error.code], [400, param, code], error.message);
      }
    });

  test('while other requests run, an invalid stream gets its status at once', async () => {
    const stop = new AbortController();
    const running = await fetchPath(CHAT, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        messages: [user],
        stream: true,
        n: 128,
        response_format: { type: 'regex', pattern: '[a-z ]{400}' },
      }),
      signal: stop.signal,
    });
    assert.equal(running.status, 200);
    const queue = async () => (await (await fetchPath('/health')).json()).models[0];
    for (const [messages, param] of /** @type {[object[], string][]} */ ([
      [[{ role: 'wizard', content: 'x' }], 'messages[0].role'],
      [[{ role: 'user', content: 5 }], 'messages[0].content'],
      [[user, result], 'messages'],
    ])) {
      const { status, error } = await post(CHAT, { messages, stream: true });
      assert.deepEqual([status, error.param], [400, param]);
    }
    assert.deepEqual(await queue(), { id: 'chat', running: 1, waiting: 0 });
    stop.abort();
    await until('the server to be idle', async () => (await queue()).running === 0, { state: queue });
  });
});

/** Requests to other paths: the path, the body, the status, the field in the error. @type {[string, any, string][]} */
const OTHERS = [
  [TEXT, {}, 'prompt'],
  [TEXT, { prompt: null }, 'prompt'],
  [TEXT, { prompt: {} }, 'prompt'],
  [TEXT, { prompt: [] }, 'prompt'],
  [TEXT, { prompt: [[]] }, 'prompt'],
  [TEXT, { prompt: [1, 'a'] }, 'prompt'],
  [TEXT, { prompt: [-1] }, 'prompt'],
  [TEXT, { prompt: [99_999] }, 'prompt'],
  [TEXT, { prompt: [99_999], echo: true }, 'prompt'],
  [TEXT, { prompt: '' }, 'prompt'],
  [TEXT, { prompt: ['a', ''] }, 'prompt'],
  [TEXT, { prompt: 'a', suffix: 'b' }, 'suffix'],
  [TEXT, { prompt: 'a', best_of: 2 }, 'best_of'],
  [TEXT, { prompt: 'a', logprobs: true }, 'logprobs'],
  [TEXT, { prompt: 'a', messages: [user] }, 'messages'],
  [TEXT, { prompt: 'a', tools: [tool] }, 'tools'],
  ['/v1/embeddings', {}, 'input'],
  ['/v1/embeddings', { input: null }, 'input'],
  ['/v1/embeddings', { input: [] }, 'input'],
  ['/v1/embeddings', { input: [1.5] }, 'input'],
  ['/v1/embeddings', { input: [99_999] }, 'input'],
  ['/v1/embeddings', { input: ['a', ''] }, 'input'],
  ['/v1/embeddings', { input: 'a', encoding_format: 'hex' }, 'encoding_format'],
  ['/v1/embeddings', { input: 'a', dimensions: 3 }, 'dimensions'],
  ['/v1/embeddings', { input: 'a', stream: true }, 'stream'],
  ['/v1/rerank', { documents: ['a'] }, 'query'],
  ['/v1/rerank', { query: 'a' }, 'documents'],
  ['/v1/rerank', { query: 'a', documents: [] }, 'documents'],
  ['/v1/rerank', { query: 'a', documents: 'b' }, 'documents'],
  ['/v1/rerank', { query: 'a', documents: [null] }, 'documents'],
  ['/v1/rerank', { query: 'a', documents: ['b'], top_n: 0 }, 'top_n'],
];
for (const [path, body, param] of OTHERS)
  test(`${path}: ${JSON.stringify(body)}`, async () => {
    // A stream of several prompts may begin before the prompt that fails.
    const streams = path === TEXT && body.prompt?.length !== 2;
    for (const request of streams ? [body, { ...body, stream: true }] : [body]) {
      const { status, error } = await post(path, request);
      checkErrorShape(error, path);
      assert.deepEqual([status, error.param, error.code], [400, param, 'invalid_value'], error.message);
    }
  });

test('null counts as missing in completions and embeddings', async () => {
  const fields = Object.fromEntries(
    'suffix best_of echo logprobs stop seed stream stream_options n user logit_bias'.split(' ').map((f) => [f, null]),
  );
  assert.equal((await post(TEXT, { prompt: 'a', max_tokens: 1, ...fields })).status, 200);
  const { status } = await post('/v1/embeddings', { input: 'a', encoding_format: null, dimensions: null, user: null });
  assert.equal(status, 200);
});

test('bodies that are not JSON objects, or too large', async () => {
  const valid = JSON.stringify({ messages: [user], max_tokens: 1 });
  for (const body of ['', 'null', '5', '"x"', '[]', '{', `${valid},`, `${valid} x`, '['.repeat(2000)]) {
    const { status, error } = await post(CHAT, body);
    checkErrorShape(error, body);
    assert.deepEqual([status, error.code], [400, 'invalid_json'], body.slice(0, 50));
  }
  const { status, error } = await post(CHAT, 'x'.repeat(MAX_BODY + 1));
  assert.deepEqual([status, error.code], [413, 'request_too_large']);
  for (const type of ['', 'text/plain', 'application/x-www-form-urlencoded', 'application/jsonx']) {
    const answer = await fetchPath(CHAT, { method: 'POST', headers: { 'content-type': type }, body: valid });
    assert.equal(answer.status, 415, type);
    checkErrorShape((await answer.json()).error, type);
  }
});

test('methods and paths: 405 with Allow, 404, preflights', async () => {
  for (const path of [CHAT, TEXT, '/v1/embeddings', '/v1/rerank', '/v1/models', '/v1/models/chat', '/health'])
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']) {
      const isPost = [CHAT, TEXT, '/v1/embeddings', '/v1/rerank'].includes(path);
      if (isPost ? method === 'POST' : method === 'GET' || method === 'HEAD') continue;
      const answer = await fetchPath(path, { method });
      assert.deepEqual([answer.status, answer.headers.get('allow')], [405, isPost ? 'POST' : 'GET, HEAD'], path);
      if (method === 'HEAD') continue;
      const { error } = await answer.json();
      checkErrorShape(error, path);
      assert.equal(error.code, 'method_not_allowed');
    }
  for (const [path, code] of [
    ['/', 'unknown_url'],
    ['/v1', 'unknown_url'],
    ['/v1/nothing', 'unknown_url'],
    ['/chat/completions', 'unknown_url'],
    ['/v1/models/', 'unknown_url'],
    ['/v1/models/x', 'model_not_found'],
  ])
    for (const method of ['GET', 'POST', 'DELETE']) {
      const answer = await fetchPath(path, { method });
      if (method !== 'GET' && code === 'model_not_found') continue;
      assert.equal(answer.status, 404, `${method} ${path}`);
      const { error } = await answer.json();
      checkErrorShape(error, path);
      assert.equal(error.code, code);
    }
  for (const path of [CHAT, '/v1/models', '/v1/nothing']) {
    const headers = { origin: 'http://page.example', 'access-control-request-method': 'POST' };
    const answer = await fetchPath(path, { method: 'OPTIONS', headers });
    assert.deepEqual(
      [answer.status, answer.headers.get('access-control-allow-origin'), await answer.text()],
      [204, 'http://page.example', ''],
    );
  }
});
