// OpenAI-compatible calls with both engines, with the tiny model and, if it is installed, a real one.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createEngine, fromFile } from '../../js/node.js';
import { createWorkerEngine, fromBytes } from '../../js/index.js';
import * as calls from '../../js/api/openai/index.js';
import { usageOf } from '../../js/api/openai/usage.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { BYTE, CONFIG, tinyModel } from './fixture.mjs';

const messages = [
  { role: 'system', content: 'S' },
  { role: 'user', content: 'Hello' },
];
const GREEDY = { messages, temperature: 0, max_tokens: 8 };

/** @param {AsyncIterable<any>} stream @param {number} [rest]  milliseconds between chunks: a few tokens are computed ahead at most */
async function all(stream, rest) {
  const chunks = [];
  for await (const chunk of stream) {
    chunks.push(chunk);
    if (rest) await new Promise((resolve) => setTimeout(resolve, rest));
  }
  return chunks;
}

test('usage: a prompt counts once, each choice separately; predictions are accepted or rejected', () => {
  const result = (/** @type {number} */ ids, /** @type {number} */ drafted, /** @type {number} */ accepted) => ({
    tokens: Array(ids).fill(1),
    usage: {
      promptTokens: 10,
      completionTokens: ids,
      cachedTokens: 4,
      draftedTokens: drafted,
      acceptedTokens: accepted,
    },
  });
  assert.deepEqual(usageOf(/** @type {any} */ ([[result(5, 6, 2)], [result(3, 4, 3)]])), {
    prompt_tokens: 10,
    completion_tokens: 8,
    total_tokens: 18,
    prompt_tokens_details: { cached_tokens: 4 },
    completion_tokens_details: { accepted_prediction_tokens: 5, rejected_prediction_tokens: 5 },
  });
});

for (const [name, create] of /** @type {const} */ ([
  ['in this thread', createEngine],
  ['in a worker', createWorkerEngine],
])) {
  describe(`OpenAI's calls ${name}`, () => {
    /** @type {import('../../js/shared/types.js').Engine} */
    let engine;
    /** @type {import('../../js/shared/types.js').Model} */
    let model;
    before(async () => {
      engine = await create();
      model = await engine.load(fromBytes(await tinyModel()), { sessions: 2 });
    });
    after(() => engine.close());
    /** @type {(body: any, options?: any) => Promise<any>} */
    const chat = (body, options) => model.chat.completions.create({ ...GREEDY, ...body }, options);

    test('a stream: the role, the text, the finish reason, then usage if it is requested', async () => {
      const chunks = await all(await chat({ stream: true, stream_options: { include_usage: true } }));
      const { id, created } = chunks[0];
      assert.match(id, /^chatcmpl-[0-9a-f]{24}$/);
      for (const chunk of chunks)
        assert.deepEqual(
          [chunk.id, chunk.created, chunk.object, chunk.model],
          [id, created, 'chat.completion.chunk', 'tiny'],
        );
      assert.deepEqual(chunks[0].choices, [
        { index: 0, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null },
      ]);
      assert.deepEqual(chunks.at(-2).choices, [{ index: 0, delta: {}, logprobs: null, finish_reason: 'length' }]);
      assert.deepEqual(chunks.at(-1).choices, []);
      assert.ok(chunks.slice(0, -1).every(({ usage }) => usage === null));
      const prompt = await model.countTokens(messages);
      const { prompt_tokens_details, ...usage } = chunks.at(-1).usage;
      const none = { accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 };
      assert.deepEqual(usage, {
        prompt_tokens: prompt,
        completion_tokens: 8,
        total_tokens: prompt + 8,
        completion_tokens_details: none,
      });
      const whole = await chat({});
      assert.equal(whole.object, 'chat.completion');
      const content = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? '')).join('');
      assert.deepEqual(whole.choices, [
        { index: 0, message: { role: 'assistant', content, refusal: null }, logprobs: null, finish_reason: 'length' },
      ]);
      assert.equal(
        whole.usage.prompt_tokens_details.cached_tokens,
        prompt - 1,
        'the session that knows the prompt was taken',
      );
      assert.ok((await all(await chat({ stream: true }))).every((chunk) => !('usage' in chunk)));
    });

    test('choices at the same time: each is the same as with its seed alone, and the prompt is computed once', async () => {
      // A prompt that is long enough to be copied.
      const long = [{ role: 'user', content: 'Hello, and so on. '.repeat(4) }];
      const options = { messages: long, temperature: 1, top_k: 0, top_p: 1, max_tokens: 40, seed: 5, logprobs: true };
      const { choices } = await chat({ ...options, n: 4 });
      const wanted = await chat({ ...options, n: 4 }, { parallel: 1 });
      const stream_options = { include_usage: true };
      const chunks = await all(await chat({ ...options, n: 4, stream: true, stream_options }), 2);
      const order = chunks.flatMap(({ choices }) => choices.map(({ index }) => index));
      assert.ok(order.indexOf(1) < order.lastIndexOf(0), `${order}`);
      assert.ok(order.indexOf(2) > Math.min(order.lastIndexOf(0), order.lastIndexOf(1)), `two sessions: ${order}`);
      const reports = [0, 1, 2, 3].map((index) =>
        chunks.flatMap(({ choices }) => choices.filter((one) => one.index === index).map(({ delta }) => delta.content)),
      );
      assert.deepEqual(
        reports.map((texts) => texts.join('')),
        wanted.choices.map(({ message }) => message.content),
      );
      assert.equal(chunks.at(-1).usage.total_tokens, wanted.usage.total_tokens);
      assert.deepEqual(choices, wanted.choices);

      const other = { prompt: long[0].content, temperature: 1, max_tokens: 6, seed: 5, n: 3, echo: true };
      const texts = async (/** @type {any} */ given) =>
        (await model.completions.create({ ...other }, given)).choices.map(({ index, text }) => [index, text]);
      assert.deepEqual(await texts({}), await texts({ parallel: 1 }));
      await assert.rejects(texts({ parallel: 0 }), { code: 'ARGUMENT' });
    });

    test('choices at the same time: leaving the loop ends all of them; sessions in use are waited for', async () => {
      for await (const { choices } of await chat({ n: 3, max_tokens: 200, stream: true }))
        if (choices[0]?.index === 1) break;
      const session = await model.createSession();
      assert.equal((await chat({ n: 3 })).choices.length, 3, 'one session is left for them');
      const second = await model.createSession();
      await assert.rejects(chat({ n: 3 }), { code: 'NO_SESSION' });
      await Promise.all([session.close(), second.close()]);
      const controller = new AbortController();
      const ended = chat({ n: 3, max_tokens: 200 }, { signal: controller.signal });
      controller.abort();
      await assert.rejects(ended, { name: 'AbortError' });
      assert.equal((await chat({ n: 2 })).choices.length, 2);
    });

    test('a prompt that another session is computing is not computed again', async () => {
      const prompt = 'It was a dark and stormy night, and the rain fell in torrents.';
      const given = { temperature: 1, seed: 3, maxTokens: 12 };
      const first = model.generate(prompt, given);
      const parts = first[Symbol.asyncIterator]();
      await parts.next();
      const second = await model.generate(prompt, given).result;
      const { promptTokens, cachedTokens: reusedTokens } = second.usage;
      assert.ok(promptTokens > 40);
      assert.equal(reusedTokens, promptTokens - 1);
      while (!(await parts.next()).done);
      assert.deepEqual((await first.result)?.tokens, second.tokens);
    });

    test('choices: each is the same as with its seed alone', async () => {
      const options = { temperature: 1, top_k: 0, top_p: 1, max_tokens: 8 };
      const { choices, usage } = await chat({ ...options, n: 3, seed: 5 });
      assert.deepEqual(
        choices.map(({ index }) => index),
        [0, 1, 2],
      );
      const texts = choices.map(({ message }) => message.content);
      assert.equal(new Set(texts).size, 3);
      assert.equal((await chat({ ...options, seed: 6 })).choices[0].message.content, texts[1]);
      assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
      const streamed = await all(await chat({ ...options, n: 3, seed: 5, stream: true }));
      const reports = [0, 1, 2].map((index) =>
        streamed
          .flatMap((chunk) =>
            chunk.choices.filter((one) => one.index === index).map(({ delta }) => delta.content ?? ''),
          )
          .join(''),
      );
      assert.deepEqual(reports, texts);
      assert.equal(streamed.filter(({ choices: [choice] }) => choice?.finish_reason).length, 3);
    });

    test('a stop string ends it', async () => {
      const free = (await chat({ max_tokens: 20 })).choices[0].message.content;
      const {
        choices: [{ message, finish_reason }],
      } = await chat({ max_tokens: 20, stop: free.slice(4, 6) });
      assert.deepEqual([message.content, finish_reason], [free.slice(0, free.indexOf(free.slice(4, 6))), 'stop']);
    });

    test('logprobs: of the chosen token and the most probable ones, whose sum is at most 1', async () => {
      const {
        choices: [{ logprobs, message }],
      } = await chat({ logprobs: true, top_logprobs: 20 });
      const content = logprobs?.content ?? [];
      assert.equal(content.length, 8);
      assert.equal(new TextDecoder().decode(Uint8Array.from(content.flatMap(({ bytes }) => bytes))), message.content);
      for (const { token, logprob, bytes, top_logprobs: top } of content) {
        assert.deepEqual(top[0], { token, logprob, bytes }, 'greedy: the likeliest is the one that came');
        assert.equal(top.length, 20);
        assert.ok(top.every((one, i) => i === 0 || one.logprob <= top[i - 1].logprob));
        assert.ok(top.reduce((sum, one) => sum + Math.exp(one.logprob), 0) <= 1 + 1e-6);
      }
      assert.deepEqual((await chat({ logprobs: true })).choices[0].logprobs?.content[0].top_logprobs, []);
      const { text } = await model.generate([0, BYTE + 65], { temperature: 0, maxTokens: 1, logprobs: 2 }).result;
      assert.equal(text.length > 0, true);
    });

    test('logit_bias forbids and requires tokens; penalties reduce repetition', async () => {
      const { tokens: ids } = await model.generate(messages, { temperature: 0, maxTokens: 8 }).result;
      const without = await chat({ logit_bias: { [ids[0]]: -100 } });
      const with0 = await chat({ logit_bias: { [BYTE + 90]: 100 } });
      assert.equal(with0.choices[0].message.content, 'Z'.repeat(8));
      assert.notEqual(without.choices[0].message.content, (await chat({})).choices[0].message.content);
      const reply = async (options) =>
        (await model.generate(messages, { temperature: 0, maxTokens: 6, ...options }).result).text;
      const logitBias = [
        { token: BYTE + 90, bias: 1000 },
        { token: BYTE + 89, bias: 950 },
      ];
      assert.equal(await reply({ logitBias, frequencyPenalty: 100 }), 'ZYZYZY');
      assert.equal(await reply({ logitBias, presencePenalty: 100 }), 'ZYZZZZ', 'a presence counts once');
      const penalties = await chat({ frequency_penalty: 2, presence_penalty: 1, max_tokens: 30 });
      assert.equal(
        penalties.choices[0].message.content,
        await reply({ frequencyPenalty: 2, presencePenalty: 1, maxTokens: 30 }),
      );
      assert.notEqual(
        penalties.choices[0].message.content,
        (await chat({ max_tokens: 30 })).choices[0].message.content,
      );
      const byItsName = (/** @type {any} */ error) =>
        error.code === 'ARGUMENT' &&
        error.details.param === 'logit_bias' &&
        /^logit_bias: expected a token from 0 to/.test(error.message);
      const wrong = { logit_bias: { [CONFIG.vocab]: 1 } };
      await assert.rejects(chat(wrong), byItsName);
      await assert.rejects(model.completions.create({ prompt: 'a', ...wrong }), byItsName);
    });

    test('response_format', async () => {
      const schema = {
        type: 'object',
        properties: { age: { type: 'integer' } },
        required: ['age'],
        additionalProperties: false,
      };
      const {
        choices: [{ message, finish_reason }],
      } = await chat({
        max_tokens: 60,
        response_format: { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } },
      });
      assert.equal(finish_reason, 'stop');
      assert.ok(Number.isInteger(JSON.parse(message.content).age));
    });

    test('unknown, unsupported and invalid fields are refused by name, before anything is computed', async () => {
      const refused = (body, param, pattern) =>
        assert.rejects(
          chat(body),
          (/** @type {any} */ e) =>
            e.code === 'ARGUMENT' && e.details.param === param && pattern.test(e.message) && e.hint !== '',
          param,
        );
      await refused({ tempature: 1 }, 'tempature', /did you mean "temperature"/);
      await refused({ maxTokens: 1 }, 'maxTokens', /did you mean "max_tokens"/);
      await refused({ functions: [] }, 'functions', /does not support "functions"/);
      await refused({ temperature: 3 }, 'temperature', /temperature: expected a number from 0 to 2, found 3/);
      await refused({ logit_bias: { 5: 200 } }, 'logit_bias', /-100 to 100/);
      await refused({ top_logprobs: 2 }, 'top_logprobs', /logprobs: true/);
      await refused({ n: 0 }, 'n', /n: expected an integer from 1 to 128, found 0/);
      await refused({ messages: undefined }, 'messages', /no messages/);
      await refused({ messages: [] }, 'messages', /no messages/);
      for (const role of ['system', 'user', 'tool'])
        await refused(
          { messages: [{ role }] },
          'messages[0].content',
          /content: expected a string or a list of text parts, found undefined/,
        );
      await refused({ max_completion_tokens: 3 }, 'max_tokens', /max_tokens is 8, but max_completion_tokens is 3/);
      await refused({ stream_options: { include_usage: true } }, 'stream_options', /stream: true/);
      await refused({ stream: true, stream_options: { usage: true } }, 'stream_options.usage', /include_usage/);
      await refused(
        { response_format: { type: 'json_object', schma: {} } },
        'response_format.schma',
        /did you mean "schema"/,
      );
      await refused({ response_format: { type: 'xml' } }, 'response_format.type', /expected one of text, json_object/);
      await refused({ response_format: { type: 'json_schema' } }, 'response_format.json_schema', /no schema/);
      const named = { name: 'x', schema: {}, strickt: true };
      const format = { type: 'json_schema', json_schema: named };
      await refused({ response_format: format }, 'response_format.json_schema.strickt', /did you mean "strict"/);
      await refused(
        { response_format: { type: 'regex', pattern: 'a', schema: {} } },
        'response_format.schema',
        /unknown option/,
      );
      const tool = (/** @type {object} */ more, /** @type {object} */ inside = {}) => ({
        tools: [{ type: 'function', ...more, function: { name: 'f', ...inside } }],
      });
      await refused(tool({ cache: 1 }), 'tools[0].cache', /unknown option "cache"/);
      await refused(tool({}, { parameter: {} }), 'tools[0].function.parameter', /did you mean "parameters"/);
      await refused(tool({}, { parameters: [] }), 'tools[0].function.parameters', /JSON Schema/);
      await refused({ tools: Array(129).fill(tool({}).tools[0]) }, 'tools', /at most 128/);
      await refused({ tools: [tool({}).tools[0], tool({}).tools[0]] }, 'tools', /two tools/);
      const choice = { type: 'function', function: { name: 'f', strict: true } };
      await refused({ ...tool({}), tool_choice: choice }, 'tool_choice.function.strict', /unknown option "strict"/);
      const called = { id: '1', type: 'function', function: { name: 'f', arguments: '{}', result: 1 } };
      const message = [...messages, { role: 'assistant', tool_calls: [called] }];
      await refused({ messages: message }, 'messages[2].tool_calls[0].function.result', /unknown option "result"/);
      await refused(
        { messages: [{ role: 'assistant', tool_calls: [{}] }] },
        'messages[0].tool_calls[0].function.name',
        /no function.name/,
      );
      await refused({ prompt: 1 }, 'prompt', /unknown option/);
      await assert.rejects(chat({ messages: [] }), { code: 'ARGUMENT' });
      await assert.rejects(chat({ messages: [{ role: 'robot', content: 'x' }] }), {
        code: 'ARGUMENT',
        message: /robot/,
      });
      await assert.rejects(chat({ messages: [{ role: 'user', content: 'x'.repeat(999) }] }), { code: 'CONTEXT_FULL' });
      assert.equal(
        (await chat({ temperature: null, stop: null, n: null, tools: null, top_k: 1, user: 'me', model: 'mine' }))
          .model,
        'mine',
        'null is not given',
      );
    });

    test('json_object with a schema satisfies it; null counts as missing, also inside', async () => {
      const schema = { type: 'object', properties: { a: { const: 5 } }, required: ['a'], additionalProperties: false };
      const { choices } = await chat({ max_tokens: 60, response_format: { type: 'json_object', schema } });
      assert.deepEqual(JSON.parse(choices[0].message.content), { a: 5 });
      const chunks = await all(await chat({ stream: true, stream_options: { include_usage: null } }));
      assert.ok(chunks.every(({ usage }) => usage === undefined));
      const named = { name: 'x', description: null, strict: null, schema };
      const format = { type: 'json_schema', json_schema: named };
      assert.deepEqual(
        JSON.parse((await chat({ max_tokens: 60, response_format: format })).choices[0].message.content),
        {
          a: 5,
        },
      );
      const tools = [{ type: 'function', function: { name: 'f', description: null, parameters: null, strict: null } }];
      const call = { id: '1', type: 'function', function: { name: 'f', arguments: '' } };
      const reply = { role: 'assistant', content: null, refusal: null, audio: null, parsed: null, tool_calls: [call] };
      const talk = [...messages, reply, { role: 'tool', tool_call_id: '1', content: 'x' }];
      assert.equal((await chat({ messages: talk, tools, tool_choice: 'none' })).choices.length, 1);
    });

    test('seeds: -1 is random, other negative numbers are valid seeds', async () => {
      const given = { temperature: 1, top_k: 0, top_p: 1, max_tokens: 8 };
      const say = async (/** @type {number} */ seed) => (await chat({ ...given, seed })).choices[0].message.content;
      assert.equal(await say(-7), await say(2 ** 32 - 7));
      assert.notEqual(await say(-1), await say(-1));
    });

    test('a signal, leaving the loop, and the controller end it; the session is free again', async () => {
      const reason = new Error('enough');
      await assert.rejects(chat({}, { signal: AbortSignal.abort(reason) }), reason);
      for (const falsy of [null, false]) {
        const options = { signal: AbortSignal.abort(falsy) };
        for (const call of [chat({}, options), model.completions.create({ prompt: 'Once' }, options)])
          assert.equal(
            await call.then(
              () => 'a reply',
              (/** @type {unknown} */ thrown) => thrown,
            ),
            falsy,
          );
      }
      for (let i = 0; i < 4; i++) for await (const _ of await chat({ stream: true, max_tokens: 50 })) break;
      for (let i = 0; i < 4; i++) {
        const stream = await chat({ stream: true, max_tokens: 50 });
        await assert.rejects(
          async () => {
            for await (const _ of stream) stream.controller.abort();
          },
          { name: 'AbortError' },
        );
      }
      assert.equal((await chat({})).usage.completion_tokens, 8);
    });

    test('toReadableStream: a line of JSON for each chunk', async () => {
      const text = await new Response((await chat({ stream: true })).toReadableStream()).text();
      assert.deepEqual(
        text
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line).object)
          .filter((one) => one !== 'chat.completion.chunk'),
        [],
      );
    });

    test('completions: of a text, of tokens, of several, with echo and log probabilities', async () => {
      const body = { prompt: 'Once upon', temperature: 0, max_tokens: 6 };
      const one = await model.completions.create(body);
      const same = await model.generate('Once upon', { temperature: 0, maxTokens: 6 }).result;
      assert.equal(one.object, 'text_completion');
      assert.deepEqual(one.choices, [{ index: 0, text: same.text, logprobs: null, finish_reason: 'length' }]);
      assert.equal(one.usage?.total_tokens, (await model.tokenize('Once upon')).length + 6);
      const ids = await model.tokenize('Once upon');
      const several = await model.completions.create({ ...body, prompt: [ids, ids], echo: true, logprobs: 2 });
      assert.deepEqual(
        several.choices.map(({ index, text }) => [index, text]),
        [0, 1].map((i) => [i, `Once upon${same.text}`]),
      );
      const logprobs = several.choices[0].logprobs;
      assert.equal(logprobs?.tokens.length, ids.length + 6);
      assert.equal(logprobs?.text_offset[ids.length], 'Once upon'.length);
      assert.equal(Object.keys(logprobs?.top_logprobs.at(-1) ?? {}).length, 2);
      const chunks = await all(
        await model.completions.create({ ...body, stream: true, stream_options: { include_usage: true } }),
      );
      assert.equal(chunks.flatMap(({ choices }) => choices.map(({ text }) => text)).join(''), same.text);
      assert.equal(chunks.at(-1).usage.completion_tokens, 6);
      await assert.rejects(model.completions.create(/** @type {any} */ ({ ...body, suffix: 'x' })), {
        code: 'ARGUMENT',
        message: /does not support "suffix"/,
      });
      await assert.rejects(model.completions.create(/** @type {any} */ ({})), {
        code: 'ARGUMENT',
        message: /no prompt/,
      });
    });

    test('completions: log probabilities of an echoed prompt, as evaluations request them', async () => {
      const prompt = 'Once upon the you';
      const body = { prompt, echo: true, logprobs: 3, max_tokens: 0, temperature: 0 };
      const ids = await model.tokenize(prompt);
      const { choices, usage } = await model.completions.create(body);
      const [{ text, finish_reason, logprobs: report }] = choices;
      assert.deepEqual([text, finish_reason, usage?.completion_tokens], [prompt, 'length', 0]);
      assert.equal(usage?.prompt_tokens, ids.length);
      assert.equal(report?.tokens.length, ids.length);
      assert.deepEqual([report?.token_logprobs[0], report?.top_logprobs[0]], [null, null]);
      assert.equal(report?.tokens.slice(1).join(''), prompt, 'behind the token in front');
      report?.tokens.slice(1).forEach((token, i) => assert.ok(prompt.startsWith(token, report.text_offset[i + 1])));
      for (let i = 1; i < ids.length; i++) {
        const rest = (await model.detokenize(ids.slice(i, i + 1))).replace(/^$/, ' ');
        const { options } = await model.choose(ids.slice(0, i), [rest]);
        assert.equal(report?.token_logprobs[i], options[0].logprob, `${i}`);
        // Bytes that are no characters have one spelling.
        assert.ok(Object.keys(report?.top_logprobs[i] ?? {}).length > 0);
      }
      // The same in a stream, of tokens, with text after it, and without draft tokens.
      const more = { ...body, max_tokens: 2 };
      const [whole] = (await model.completions.create(more)).choices;
      assert.deepEqual(whole.logprobs?.token_logprobs.slice(0, ids.length), report?.token_logprobs);
      assert.equal(whole.logprobs?.tokens.length, ids.length + 2);
      const chunks = await all(await model.completions.create({ ...more, stream: true }));
      assert.deepEqual(
        chunks.flatMap(({ choices: [choice] }) => choice?.logprobs?.token_logprobs ?? []),
        whole.logprobs?.token_logprobs,
      );
      const ofIds = await model.completions.create({ ...body, prompt: [ids, ids.slice(0, 5)] });
      assert.deepEqual(ofIds.choices[0].logprobs?.token_logprobs, report?.token_logprobs);
      assert.deepEqual(ofIds.choices[1].logprobs?.token_logprobs, report?.token_logprobs.slice(0, 5));
      const slow = await engine.load(fromBytes(await tinyModel()), { draftTokens: 0 });
      const same = await slow.completions.create(body);
      assert.deepEqual(same.choices[0].logprobs, report);
      await slow.close();
    });

    test('embeddings: as floats, as base64; unsupported requests are refused', async () => {
      const { data, usage, object } = await model.embeddings.create({ input: ['one', 'two'] });
      const { vectors } = await model.embed(['one', 'two']);
      assert.deepEqual(
        data.map(({ embedding }) => embedding),
        vectors.map((vector) => [...vector]),
      );
      assert.deepEqual([object, data.map(({ index }) => index), usage.prompt_tokens], ['list', [0, 1], 8]);
      const {
        data: [{ embedding }],
      } = await model.embeddings.create({ input: 'one', encoding_format: 'base64' });
      const bytes = Buffer.from(/** @type {string} */ (embedding), 'base64');
      assert.deepEqual(
        new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)),
        vectors[0],
      );
      await assert.rejects(model.embeddings.create({ input: 'one', dimensions: 3 }), {
        code: 'ARGUMENT',
        message: /dimensions: expected 48/,
      });
      await assert.rejects(model.embeddings.create({ input: 'x'.repeat(999) }), { code: 'CONTEXT_FULL' });
    });
  });
}

test('an encoder generates no text: the error names the supported calls', async () => {
  const encoder = /** @type {any} */ ({ info: { generates: false, sessions: 1 } });
  const wrong = { code: 'UNSUPPORTED', message: /is an embedding model; it cannot generate text/, hint: /embeddings/ };
  await assert.rejects(calls.chat(encoder, { messages }), wrong);
  await assert.rejects(calls.completions(encoder, { prompt: 'x' }), wrong);
});

const real = realModel('smollm2');
test(
  'SmolLM2: a growing conversation computes only its new tokens',
  { skip: real ? false : NO_REAL_MODEL },
  async () => {
    const engine = await createEngine({ build: 'relaxed', threads: 1 });
    const model = await engine.load(fromFile(/** @type {string} */ (real)), { contextTokens: 512 });
    /** @type {{ role: string, content: string }[]} */
    const talk = [{ role: 'user', content: 'Name three colours.' }];
    const options = { temperature: 0, max_tokens: 24 };
    const first = await model.chat.completions.create({ messages: talk, ...options });
    talk.push(first.choices[0].message, { role: 'user', content: 'And one more?' });
    const second = await model.chat.completions.create({ messages: talk, ...options });
    const known = first.usage.prompt_tokens + first.usage.completion_tokens - 1;
    assert.equal(second.usage.prompt_tokens_details.cached_tokens, known, 'all that was computed');
    const fresh = await engine.load(fromFile(/** @type {string} */ (real)), { contextTokens: 512 });
    const alone = await fresh.chat.completions.create({ messages: talk, ...options });
    assert.equal(alone.choices[0].message.content, second.choices[0].message.content, 'the same reply');
    assert.equal(alone.usage.prompt_tokens_details.cached_tokens, 0);
    await engine.close();
  },
);
