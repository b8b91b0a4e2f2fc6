// Tests of `connect()` with llama.cpp's server and SmolLM2's GGUF file. The server is built for the test, which takes minutes the first
// time: `npm run test:peers`. Its responses are compared with those that OpenAI's client receives, and with the same file in bq4.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { generateText, streamText } from 'ai';
import { Ajv } from 'ajv';
import OpenAI from 'openai';
import { createProvider } from '../../js/api/adapters/ai-sdk.js';
import { connect, localOrRemote } from '../../js/connect.js';
import { createEngine, fromFile } from '../../js/node.js';
import { provideLlamaServer } from '../../tools/bench/install.mjs';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { inTime, until } from '../waiting.mjs';

const FILE = /** @type {string} */ (realModel('smollm2'));
const TOKEN = 'open sesame';
const CONTEXT = 1024;
const says = (/** @type {string} */ content) => [{ role: /** @type {const} */ ('user'), content }];
const messages = says('Which city is the capital of France?');
// `cache_prompt`, a field of llama.cpp alone: what was asked before changes nothing then.
const fixed = /** @type {{}} */ ({ temperature: 0, max_tokens: 12, cache_prompt: false });
const SCHEMA = {
  type: 'object',
  properties: { city: { enum: ['Paris', 'Rome'] }, people: { type: 'integer', minimum: 1, maximum: 99 } },
  required: ['city', 'people'],
  additionalProperties: false,
};

/** @param {string[]} options */
async function start(...options) {
  const program = await provideLlamaServer();
  const line = [
    '-m',
    FILE,
    '--host',
    '127.0.0.1',
    '--port',
    '0',
    '-c',
    String(CONTEXT),
    '-np',
    '1',
    '-t',
    '1',
    '-fit',
    'off',
  ];
  const child = spawn(program, [...line, ...options], { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  const listening = async () => {
    for await (const text of createInterface({ input: child.stderr })) {
      log += `${text}\n`;
      const address = /listening on (http:\S+)/.exec(text);
      if (address) return address[1];
    }
    throw new Error(`the server ended: ${log.slice(-2000)}`);
  };
  const url = await inTime('the server', listening(), { state: () => log.slice(-2000) });
  child.stderr.resume();
  const get = (/** @type {string} */ path) => fetch(url + path, { headers: { Authorization: `Bearer ${TOKEN}` } });
  await until('the model', async () => (await get('/health')).ok);
  return {
    url: `${url}/v1`,
    /** Whether it computes a reply. */
    busy: async () => (await (await get('/slots')).json()).some((slot) => slot.is_processing),
    close: async () => {
      child.kill();
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    },
  };
}

/** @param {AsyncIterable<any>} stream */
async function all(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}
const textOf = (/** @type {any[]} */ chunks) =>
  chunks.map(({ choices }) => choices[0]?.delta?.content ?? choices[0]?.text ?? '').join('');
/** What is left when ids and times are taken out. @param {any} answer */
const lasting = ({ id: _, created: __, timings: ___, ...rest }) => rest;

describe("llama.cpp's server", { skip: !FILE && NO_REAL_MODEL }, () => {
  /** @type {Awaited<ReturnType<typeof start>>} */
  let server;
  /** @type {import('../../js/connect.js').RemoteModel} */
  let remote;
  /** @type {OpenAI} */
  let theirs;
  before(async () => {
    server = await start('--api-key', TOKEN, '--embeddings', '--pooling', 'mean');
    remote = connect(server.url, { apiKey: TOKEN });
    theirs = new OpenAI({ baseURL: server.url, apiKey: TOKEN, maxRetries: 0 });
  });
  after(() => server?.close());

  test('a server lists its models, and requests get their name', async () => {
    const [{ id }] = (await remote.models.list()).data;
    assert.equal(id, (await theirs.models.list()).data[0].id);
    assert.equal((await remote.chat.completions.create({ messages, ...fixed })).model, id);
  });

  test("complete and streamed replies equal those of OpenAI's client", async () => {
    const body = { messages, ...fixed };
    const reply = await remote.chat.completions.create({ ...body, logprobs: true, top_logprobs: 2 });
    const model = reply.model;
    assert.match(reply.choices[0].message.content, /Paris/);
    assert.deepEqual(
      lasting(reply),
      lasting(await theirs.chat.completions.create({ ...body, model, logprobs: true, top_logprobs: 2 })),
    );
    assert.equal(reply.choices[0].logprobs.content.length, reply.usage.completion_tokens);
    const streamed = { ...body, stream: /** @type {const} */ (true), stream_options: { include_usage: true } };
    const chunks = await all(await remote.chat.completions.create(streamed));
    assert.deepEqual(
      chunks.map(lasting),
      (await all(await theirs.chat.completions.create({ ...streamed, model }))).map(lasting),
    );
    assert.equal(textOf(chunks), reply.choices[0].message.content);
    assert.deepEqual(chunks.at(-1).usage.completion_tokens, reply.usage.completion_tokens);
    const prompt = { prompt: 'Once upon a time', ...fixed };
    const text = await remote.completions.create(prompt);
    assert.ok(text.choices[0].text);
    assert.deepEqual(lasting(text), lasting(await theirs.completions.create({ ...prompt, model })));
    assert.equal(textOf(await all(await remote.completions.create({ ...prompt, stream: true }))), text.choices[0].text);
  });

  test('replies match a schema, complete and streamed', async () => {
    const valid = new Ajv().compile(SCHEMA);
    const body = {
      messages: says('A city and how many people live there, as JSON.'),
      ...fixed,
      max_tokens: 60,
      temperature: 1.5,
      seed: 1,
      response_format: { type: /** @type {const} */ ('json_schema'), json_schema: { name: 'city', schema: SCHEMA } },
    };
    const { message } = (await remote.chat.completions.create(body)).choices[0];
    assert.ok(valid(JSON.parse(message.content)), message.content);
    const streamed = textOf(await all(await remote.chat.completions.create({ ...body, stream: true })));
    assert.ok(valid(JSON.parse(streamed)), streamed);
  });

  // SmolLM2's own template knows of none, so it is given another. With none of six does this server hold so small a model to a call, also where
  // one is required: that calls are read as they come is tested with servers that make them (tests/js/connect.test.mjs).
  test("tools are sent, and the answer equals that of OpenAI's client", async (t) => {
    const other = await start('--chat-template-file', join(dirname(await provideLlamaServer()), 'tools.jinja'));
    t.after(other.close);
    const remote = connect(other.url);
    const theirs = new OpenAI({ baseURL: other.url, apiKey: 'none', maxRetries: 0 });
    const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
    const tools = [{ type: /** @type {const} */ ('function'), function: { name: 'weather', parameters } }];
    const body = { messages: says('What is the weather in Oslo?'), ...fixed };
    const plain = await remote.chat.completions.create(body);
    const reply = await remote.chat.completions.create({ ...body, tools });
    assert.ok(reply.usage.prompt_tokens > plain.usage.prompt_tokens + 20, 'the template writes them into the prompt');
    assert.deepEqual(
      lasting(reply),
      lasting(await theirs.chat.completions.create({ ...body, tools, model: reply.model })),
    );
    const streamed = { ...body, tools, stream: /** @type {const} */ (true) };
    assert.deepEqual(
      (await all(await remote.chat.completions.create(streamed))).map(lasting),
      (await all(await theirs.chat.completions.create({ ...streamed, model: reply.model }))).map(lasting),
    );
    /** @type {any[]} */
    const asked = [];
    const weather = { ...tools[0].function, function: (/** @type {any} */ args) => void asked.push(args) };
    const run = await remote.chat.completions.runTools({ ...body, tools: [{ type: 'function', function: weather }] });
    assert.equal(run.completions.length, 1 + asked.length);
  });

  test('embeddings equal those of the same file in bq4, within the precision of 8 bits', async () => {
    const input = ['The cat sleeps on the sofa.', 'Stock prices fell sharply on Monday.'];
    const { data } = await remote.embeddings.create({ input });
    assert.deepEqual(
      data.map(({ index }) => index),
      [0, 1],
    );
    const engine = await createEngine();
    try {
      const model = await engine.load(fromFile(FILE), { contextTokens: 64 });
      const own = await model.embed(input, { pooling: 'mean', normalize: true });
      data.forEach(({ embedding }, i) => {
        const cosine = /** @type {number[]} */ (embedding).reduce(
          (sum, value, k) => sum + value * own.vectors[i][k],
          0,
        );
        assert.ok(cosine > 0.99, String(cosine));
      });
    } finally {
      await engine.close();
    }
  });

  test('errors of the server have codes and its messages', async () => {
    const create = remote.chat.completions.create;
    /** @type {[() => Promise<any>, string, number][]} */
    const cases = [
      [() => create({ messages: says('word '.repeat(3000)) }), 'CONTEXT_FULL', 400],
      [() => create({ messages: says('word '.repeat(3000)), stream: true }), 'CONTEXT_FULL', 400],
      [() => create(/** @type {any} */ ({ messages, temperature: 'x' })), 'HTTP_STATUS', 400],
      [() => create(/** @type {any} */ ({ messages: 'x' })), 'HTTP_STATUS', 400],
      [() => create({ messages, response_format: { type: 'regex', pattern: 'a' } }), 'HTTP_STATUS', 400],
      [() => connect(server.url, { apiKey: 'x' }).chat.completions.create({ messages }), 'HTTP_STATUS', 401],
      [() => connect(`${server.url}/v2`, { apiKey: TOKEN }).models.list(), 'HTTP_STATUS', 404],
    ];
    for (const [call, code, status] of cases) {
      const error = await call().then(
        () => assert.fail(`${code} was not thrown`),
        (thrown) => thrown,
      );
      assert.deepEqual([error.name, error.code, error.details.status], ['BqError', code, status], error.stack);
      assert.ok(error.message && error.message !== '[object Object]');
    }
  });

  test('an abort or leaving the loop also ends the reply on the server', async () => {
    const long = /** @type {any} */ ({ messages, max_tokens: 900, ignore_eos: true, temperature: 1 });
    const reason = new Error('enough');
    const waiting = new AbortController();
    const whole = assert.rejects(remote.chat.completions.create(long, { signal: waiting.signal }), reason);
    await until('it to begin', server.busy);
    waiting.abort(reason);
    await whole;
    await until('it to end', async () => !(await server.busy()));
    const amid = new AbortController();
    await assert.rejects(async () => {
      for await (const _ of await remote.chat.completions.create({ ...long, stream: true }, { signal: amid.signal }))
        amid.abort(reason);
    }, reason);
    await until('it to end', async () => !(await server.busy()));
    for await (const _ of await remote.chat.completions.create({ ...long, stream: true })) break;
    await until('it to end', async () => !(await server.busy()));
  });

  test("Vercel's AI SDK works with the server", async () => {
    const model = createProvider({ smollm2: remote }).languageModel('smollm2');
    const asked = { model, messages, temperature: 0, maxOutputTokens: 12, maxRetries: 0 };
    const { text } = await generateText(asked);
    assert.match(text, /Paris/);
    const parts = [];
    for await (const part of streamText(asked).textStream) parts.push(part);
    assert.match(parts.join(''), /Paris/);
  });

  test('a model that does not fit locally runs on the server', async () => {
    const engine = await createEngine();
    try {
      const { where, model } = await localOrRemote(engine, fromFile(FILE), remote, { memoryBudget: 1000 });
      assert.equal(where, 'remote');
      assert.equal((await model.chat.completions.create({ messages, ...fixed })).choices.length, 1);
    } finally {
      await engine.close();
    }
  });

  test('a server that dies during a reply gives NETWORK, never a truncated reply', async () => {
    const other = await start();
    const reading = (async () => {
      const long = /** @type {any} */ ({ messages, max_tokens: 900, ignore_eos: true });
      for await (const _ of await connect(other.url).chat.completions.create({ ...long, stream: true }))
        void other.close();
    })();
    await assert.rejects(reading, { code: 'NETWORK' });
    await other.close();
    await assert.rejects(connect(other.url).models.list(), { code: 'NETWORK' });
  });
});
