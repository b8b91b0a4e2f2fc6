// Tests of connect() with servers that are only partly compatible with OpenAI's interface.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pieces, collectReply } from '../../js/api/adapters/translate.js';
import { connect } from '../../js/connect.js';

const messages = [{ role: /** @type {const} */ ('user'), content: 'Hi' }];

/** A model whose server answers so. @param {string} body @param {string} [type] */
const answering = (body, type = 'text/event-stream') =>
  connect('http://x/v1', {
    model: 'm',
    fetch: async () => new Response(body, { headers: { 'content-type': type } }),
  });

/** @param {any[]} chunks @param {string} [end] */
const events = (chunks, end = 'data: [DONE]\n\n') =>
  `${chunks.map((chunk) => `data: ${typeof chunk === 'string' ? chunk : JSON.stringify(chunk)}\n\n`).join('')}${end}`;

/** @param {any} delta @param {string | null} [finish_reason] */
const chunk = (delta, finish_reason = null) => ({ choices: [{ index: 0, delta, finish_reason }] });
/** @param {any[]} calls */
const calling = (...calls) => chunk({ tool_calls: calls });

/** The reply as adapters have it. @param {string} body @param {string} [type] */
const replyOf = (body, type) => collectReply(pieces(answering(body, type), { messages }));

const F = { id: 'a', function: { name: 'f', arguments: '{"q":1}' } };
const G = { id: 'b', function: { name: 'g', arguments: '{"q":2}' } };
const without = (/** @type {any} */ { id: _, ...call }) => call;

/** How two calls come. @type {Record<string, any[]>} */
const TWO_CALLS = {
  'no index': [calling(F), calling(G)],
  'no index, in one chunk': [calling(F, G)],
  'index null': [calling({ ...F, index: null }), calling({ ...G, index: null })],
  'all with index 0': [calling({ ...F, index: 0 }), calling({ ...G, index: 0 })],
  'all with index 0, in one chunk': [calling({ ...F, index: 0 }, { ...G, index: 0 })],
  'no ids, no index': [calling(without(F)), calling(without(G))],
  'no ids, all with index 0': [calling({ ...without(F), index: 0 }), calling({ ...without(G), index: 0 })],
  'empty ids': [calling({ ...F, id: '', index: 0 }), calling({ ...G, id: '', index: 1 })],
  'counted from 1': [calling({ ...F, index: 1 }), calling({ ...G, index: 2 })],
  'arguments as objects': [
    calling({ index: 0, id: 'a', function: { name: 'f', arguments: { q: 1 } } }),
    calling({ index: 1, id: 'b', function: { name: 'g', arguments: { q: 2 } } }),
  ],
  'in pieces, as OpenAI sends them': [
    calling({ index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '' } }),
    calling({ index: 0, function: { arguments: '{"q"' } }),
    calling({ index: 0, function: { arguments: ':1}' } }),
    calling({ index: 1, id: 'b', type: 'function', function: { name: 'g', arguments: '' } }),
    calling({ index: 1, function: { arguments: '{"q":2}' } }),
  ],
  'in pieces without index': [
    calling({ id: 'a', function: { name: 'f', arguments: '' } }),
    calling({ function: { arguments: '{"q"' } }),
    calling({ function: { arguments: ':1}' } }),
    calling({ id: 'b', function: { name: 'g', arguments: '{"q":' } }),
    calling({ id: 'b', function: { arguments: '2}' } }),
  ],
  'the name and the id on each piece': [
    calling({ index: 0, id: 'a', function: { name: 'f', arguments: '{"q"' } }),
    calling({ index: 0, id: 'a', function: { name: 'f', arguments: ':1}' } }),
    calling({ index: 1, id: 'b', function: { name: 'g', arguments: '{"q"' } }),
    calling({ index: 1, id: 'b', function: { name: 'g', arguments: ':2}' } }),
  ],
  'another id on each piece': [
    calling({ index: 0, id: 'a', function: { name: 'f', arguments: '{"q"' } }),
    calling({ index: 0, id: 'x', function: { name: null, arguments: ':1}' } }),
    calling({ index: 1, id: 'b', function: { name: 'g', arguments: '{"q":2}' } }),
  ],
  'the name in pieces': [
    calling({ index: 0, id: 'a', function: { name: 'f' } }),
    calling({ index: 0, function: { arguments: '{"q":1}' } }),
    calling({ index: 1, id: 'b', function: { name: 'g', arguments: null } }),
    calling({ index: 1, function: { name: null, arguments: '{"q":2}' } }),
  ],
  'pieces that take turns': [
    calling({ index: 0, id: 'a', function: { name: 'f', arguments: '{"q"' } }),
    calling({ index: 1, id: 'b', function: { name: 'g', arguments: '{"q"' } }),
    calling({ index: 0, function: { arguments: ':1}' } }),
    calling({ index: 1, function: { arguments: ':2}' } }),
  ],
  'the two in two choices of one answer, of which the first is taken': [calling(F, G)],
};

for (const [what, chunks] of Object.entries(TWO_CALLS))
  test(`two calls are two calls: ${what}`, async () => {
    for (const end of [chunk({}, 'tool_calls'), chunk({}, 'stop'), chunk(null, 'stop')]) {
      const { calls, reason } = await replyOf(events([...chunks, end]));
      assert.deepEqual(
        calls.map(({ name, input }) => [name, input]),
        [
          ['f', '{"q":1}'],
          ['g', '{"q":2}'],
        ],
      );
      assert.equal(new Set(calls.map(({ id }) => id)).size, 2);
      assert.equal(reason, 'tool_calls');
    }
    // Those who read the chunks themselves count by `index`.
    const seen = new Set();
    for await (const { choices } of await answering(events(chunks)).chat.completions.create({ messages, stream: true }))
      for (const call of choices[0]?.delta.tool_calls ?? []) seen.add(call.index);
    assert.deepEqual([...seen].sort(), [0, 1]);
  });

/** Streams that say "Hello". @type {Record<string, string>} */
const HELLO = {
  'as OpenAI': events([chunk({ role: 'assistant', content: '' }), chunk({ content: 'Hel' }), chunk({ content: 'lo' }), chunk({}, 'stop')]), // prettier-ignore
  'data with nothing': events(['', chunk({ content: 'Hello' }), '', chunk({}, 'stop')]),
  'chunks without choices': events([{ id: 'x' }, chunk({ content: 'Hello' }), { choices: null }, { choices: [] }, chunk({}, 'stop'), { usage: { prompt_tokens: 1 } }]), // prettier-ignore
  'null in place of a delta, a choice, a content': events([{ choices: [null] }, chunk(null), chunk({ content: null, tool_calls: null }), chunk({ content: 'Hello' }), chunk(null, 'stop')]), // prettier-ignore
  'a choice without an index': events([{ choices: [{ delta: { content: 'Hello' } }] }, { choices: [{ delta: {}, finish_reason: 'stop' }] }]), // prettier-ignore
  'no reason at the end': events([chunk({ content: 'Hello' })]),
  'no [DONE]': events([chunk({ content: 'Hello' }), chunk({}, 'stop')], ''),
  'no empty line behind the last event': events([chunk({ content: 'Hello' })], `data: ${JSON.stringify(chunk({}, 'stop'))}`), // prettier-ignore
  'no empty line behind [DONE]': events([chunk({ content: 'Hello' })], 'data: [DONE]'),
  'spaces around [DONE]': events([chunk({ content: 'Hello' })], 'data:  [DONE] \n\n'),
  CRLF: events([chunk({ content: 'Hello' }), chunk({}, 'stop')]).replaceAll('\n', '\r\n'),
  'CR alone': events([chunk({ content: 'Hello' }), chunk({}, 'stop')]).replaceAll('\n', '\r'),
  'comments, ids, names of events, pauses': `: ping\n\nid: 1\nevent: message\nretry: 5\n${events([chunk({ content: 'Hello' }), chunk({}, 'stop')])}`, // prettier-ignore
  'no space behind the colon': events([chunk({ content: 'Hello' }), chunk({}, 'stop')]).replaceAll('data: ', 'data:'),
  'contents as lists of parts': events([chunk({ content: [{ type: 'text', text: 'Hel' }, 'lo'] }), chunk({ content: [] }, 'stop')]), // prettier-ignore
  'a byte order mark': `\ufeff${events([chunk({ content: 'Hello' }), chunk({}, 'stop')])}`,
  'an error that is null': events([{ error: null, ...chunk({ content: 'Hello' }) }, chunk({}, 'stop')]),
};

for (const [what, body] of Object.entries(HELLO))
  test(`a stream is read: ${what}`, async () => {
    const { text, calls, reason } = await replyOf(body);
    assert.deepEqual([text, calls, reason], ['Hello', [], 'stop']);
  });

test('reasoning under its other names', async () => {
  for (const delta of [
    { reasoning_content: 'Hm' },
    { reasoning: 'Hm' },
    { content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'Hm' }] }] },
  ]) {
    const { reasoning, text } = await replyOf(events([chunk(delta), chunk({ content: 'Hello' }, 'stop')]));
    assert.deepEqual([reasoning, text], ['Hm', 'Hello']);
  }
});

test('a whole answer in place of a stream, and a stream under a wrong name', async () => {
  const answer = { choices: [{ message: { role: 'assistant', content: 'Hello', tool_calls: [F, G] }, finish_reason: 'stop' }] }; // prettier-ignore
  const reply = await replyOf(JSON.stringify(answer), 'application/json; charset=utf-8');
  assert.deepEqual([reply.text, reply.calls.map(({ name }) => name)], ['Hello', ['f', 'g']]);
  assert.equal((await replyOf(HELLO['as OpenAI'], 'application/json')).text, 'Hello');
});

test('whole answers: calls without ids, arguments as objects, contents as lists', async () => {
  const message = { content: [{ type: 'text', text: 'Hi' }], tool_calls: [{ function: { name: 'f', arguments: { q: 1 } } }, without(G)] }; // prettier-ignore
  const model = answering(JSON.stringify({ choices: [{ message, finish_reason: 'stop' }] }), 'application/json');
  const { choices } = await model.chat.completions.create({ messages });
  const [{ message: output }] = choices;
  assert.equal(output.content, 'Hi');
  assert.deepEqual(
    output.tool_calls?.map((call) => [call.type, call.function.name, call.function.arguments]),
    [
      ['function', 'f', '{"q":1}'],
      ['function', 'g', '{"q":2}'],
    ],
  );
  assert.equal(new Set(output.tool_calls?.map(({ id }) => id)).size, 2);
});

const ERRORS = [
  { error: { message: 'out of luck', code: 500 } },
  { error: 'out of luck' },
  { object: 'error', message: 'out of luck', type: 'x' },
];
for (const error of ERRORS)
  test(`an error with status 200 is an error: ${JSON.stringify(error)}`, async () => {
    const refused = { name: 'BqError', code: 'HTTP_STATUS', message: /out of luck/ };
    const json = JSON.stringify(error);
    await assert.rejects(answering(json, 'application/json').chat.completions.create({ messages }), refused);
    await assert.rejects(answering(json, 'application/json').completions.create({ prompt: 'a' }), refused);
    await assert.rejects(answering(json, 'application/json').embeddings.create({ input: 'a' }), refused);
    await assert.rejects(answering(json, 'application/json').models.list(), refused);
    await assert.rejects(replyOf(json, 'application/json'), refused);
    await assert.rejects(replyOf(events([chunk({ content: 'Hel' }), error])), refused);
  });

test('answers that are no objects, and streams that break off, are errors', async () => {
  for (const body of ['null', '[]', '1', '"text"']) {
    const model = answering(body, 'application/json');
    await assert.rejects(model.chat.completions.create({ messages }), { name: 'BqError', code: 'FORMAT' });
    await assert.rejects(replyOf(events([body])), { name: 'BqError', code: 'FORMAT' });
  }
  for (const end of ['', 'data: {"choices":[{"del', ': ping'])
    await assert.rejects(replyOf(events([chunk({ content: 'Hel' })], end)), { name: 'BqError', code: 'NETWORK' });
  await assert.rejects(replyOf('', 'text/event-stream'), { code: 'NETWORK' });
});

test('whole answers without their list are errors', async () => {
  for (const answer of [{ id: '1' }, { choices: [] }, { choices: null, data: [] }, { choices: 'x', data: {} }]) {
    const body = JSON.stringify(answer);
    const { chat, completions, embeddings } = connect('http://127.0.0.1/v1', {
      model: 'm',
      fetch: async () => new Response(body, { headers: { 'content-type': 'application/json' } }),
    });
    const messages = [{ role: 'user', content: 'x' }];
    const tools = [{ type: /** @type {const} */ ('function'), function: { name: 'f', function: () => 1 } }];
    for (const call of [
      chat.completions.create({ messages }),
      chat.completions.runTools({ messages, tools }),
      completions.create({ prompt: 'x' }),
      embeddings.create({ input: 'x' }),
    ])
      await assert.rejects(
        call,
        { code: 'FORMAT', message: /expected "(choices|data)" with at least one entry/ },
        body,
      );
  }
});

test('choices that are no list of objects are errors, in streams and in answers in their place, instead of an empty reply', async () => {
  const end = chunk({}, 'stop');
  const inPieces = [{}, 'x', 5, true, [5], ['x'], [[1]], [chunk({}).choices[0], 'x']];
  for (const [choices, isStream] of /** @type {[any, boolean][]} */ ([
    ...inPieces.map((choices) => [choices, true]),
    ...[...inPieces, [], null, undefined, [null]].map((choices) => [choices, false]),
  ])) {
    const server = () =>
      isStream
        ? answering(events([{ choices }, end]))
        : answering(JSON.stringify({ id: '1', choices }), 'application/json');
    for (const stream of isStream ? [true] : [true, false])
      for (const reply of [
        server().chat.completions.create(/** @type {any} */ ({ messages, stream })),
        server().completions.create(/** @type {any} */ ({ prompt: 'Hi', stream })),
      ])
        await assert.rejects(
          async () => {
            const parts = [];
            for await (const part of /** @type {any} */ (await reply)) parts.push(part);
          },
          { code: 'FORMAT', message: /expected .*"choices".*, found / },
          `${JSON.stringify(choices)} ${isStream} ${stream}`,
        );
  }
  for (const at of ['embeddings', 'rerank']) {
    const model = answering(JSON.stringify({ data: [null], results: [null] }), 'application/json');
    const call = at === 'rerank' ? model.rerank('a', ['b']) : model.embeddings.create({ input: 'a' });
    await assert.rejects(call, { code: 'FORMAT' });
  }
});

test('an aborted call while the list of models is fetched does not abort others', async () => {
  /** @type {(answer: Response) => void} */
  let answer = () => {};
  const asked = [];
  const model = connect('http://x/v1', {
    fetch: async (url, /** @type {RequestInit} */ { signal } = {}) => {
      asked.push(String(url));
      if (!String(url).endsWith('/models'))
        return Response.json({ choices: [{ index: 0, message: { content: 'x' } }] });
      return new Promise((resolve, reject) => {
        answer = resolve;
        signal?.addEventListener('abort', () => reject(signal.reason));
      });
    },
  });
  const controller = new AbortController();
  const first = model.chat.completions.create({ messages }, { signal: controller.signal });
  const second = model.chat.completions.create({ messages });
  await Promise.resolve();
  controller.abort();
  await assert.rejects(first, { name: 'AbortError' });
  answer(Response.json({ data: [{ id: 'm' }] }));
  await second;
  assert.equal(asked.filter((url) => url.endsWith('/models')).length, 1);
});
