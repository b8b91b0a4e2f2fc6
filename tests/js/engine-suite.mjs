// Tests of the behaviour of every engine. They run with an engine in this thread and with one in a worker, in Node and, with
// tests/browser/shims in place of node:test and node:assert, in browsers.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { fromBlob, fromBytes, fromUrl } from '../../js/index.js';
import { BYTE, CONFIG, spaceTokenizer, tinyModel, tokenizer } from './fixture.mjs';
import { faultServer } from '../server/faults.mjs';
import { inTime, until } from '../waiting.mjs';

export const GREEDY = { temperature: 0 };
/** Options of a source that fails soon. */
export const QUICK = { retries: 1, retryDelay: 1 };
const PROMPT = 'Once upon a time there was';

/** Reads all parts of a generation and its result. */
export async function collect(generation) {
  const parts = [];
  for await (const part of generation) parts.push(part);
  return { parts, result: await generation.result };
}

/** Declares the group of tests. @param {string} name @param {(options?: object) => Promise<import('../../js/shared/types.js').Engine>} create */
export function engineSuite(name, create) {
  describe(name, () => {
    /** @type {import('../../js/shared/types.js').Engine} */
    let engine;
    /** @type {Uint8Array} */
    let file;
    before(async () => {
      file = await tinyModel();
      engine = await create();
    });
    after(() => engine.close());
    const load = (options = {}, bytes = file) => engine.load(fromBytes(bytes), options);
    /** Calls `body` with a session of a new model, which is closed afterwards. */
    const withSession = async (body, options = {}) => {
      const model = await load(options);
      try {
        return await body(await model.createSession(), model);
      } finally {
        await model.close();
      }
    };

    test('engine.info names the build and the reason for it', () => {
      const { build, reason } = engine.info;
      assert.ok(['relaxed', 'relaxed16', 'simd128'].includes(build));
      assert.doesNotMatch(reason, /self test/);
      assert.match(reason, /relaxed SIMD|kernels are the fastest/);
    });

    test('plan: properties and memory of a model, before it is loaded', async () => {
      const plan = await engine.plan(fromBytes(file), { contextTokens: 128, sessions: 2, kv: 'f32' });
      const {
        arch,
        layers,
        hidden,
        heads,
        kvHeads,
        ffn,
        vocabSize: vocab,
        tied,
        name: modelName,
        license,
        version,
        contextTokens: context,
        trainedContext,
        fileBytes,
        sessions,
      } = plan;
      assert.deepEqual(
        {
          arch,
          layers,
          hidden,
          heads,
          kvHeads,
          ffn,
          vocab,
          tied,
          modelName,
          license,
          version,
          context,
          trainedContext,
          fileBytes,
          sessions,
        },
        {
          arch: 'llama',
          layers: 3,
          hidden: 48,
          heads: 4,
          kvHeads: 2,
          ffn: 96,
          vocab: CONFIG.vocab,
          tied: true,
          modelName: 'tiny',
          license: 'CC0-1.0',
          version: 2,
          context: 128,
          trainedContext: 256,
          fileBytes: file.length,
          sessions: 2,
        },
      );
      assert.equal(plan.kvBytes, 128 * 3 * 2 * (2 * 12) * 4, 'positions × layers × (K, V) × KV width × f32');
      const half = await engine.plan(fromBytes(file), { contextTokens: 128, sessions: 2, kv: 'f16' });
      assert.equal(half.kvBytes, plan.kvBytes / 2);
      const bytes = await engine.plan(fromBytes(file), { contextTokens: 128, sessions: 2, kv: 'i8' });
      assert.equal((await engine.plan(fromBytes(file), { contextTokens: 128, sessions: 2 })).kv, 'i8', 'the default');
      assert.equal(
        bytes.kvBytes,
        128 * 3 * 2 * (16 + 2 + 16 + 4),
        'heads of 12 in 16 bytes, with an f16 scale for K and an f32 one for V',
      );
    });

    test('the heap has the planned size, and all planned sessions fit into it', async () => {
      const options = { contextTokens: 200, sessions: 3 };
      const plan = await engine.plan(fromBytes(file), options);
      const model = await load(options);
      assert.equal((await model.memory()).total, plan.heapBytes);
      const sessions = await Promise.all([1, 2, 3].map(() => model.createSession()));
      const long = Array.from({ length: 199 }, (_, i) => BYTE + (i % 256));
      for (const session of sessions)
        assert.equal((await session.generate(long, GREEDY).result).finishReason, 'context');
      await assert.rejects(model.createSession(), { code: 'NO_SESSION' });
      const { used, peak, heap } = await model.memory();
      assert.ok(used <= peak && peak <= heap, `${used} ${peak} ${heap}`);
      await model.close();
    });

    test('simultaneous calls share one session: they run in order, and an abort ends the wait of a call', async () => {
      // Replies of this model end only by an abort, by closing the model, or when the context is full.
      const model = await load({}, await endless);
      const generate = async () => (await model.generate(PROMPT, { ...GREEDY, maxTokens: 6 }).result).tokens;
      const expected = await generate();
      const order = [];
      const controller = new AbortController();
      const calls = [
        generate(),
        model.completions.create({ prompt: PROMPT, temperature: 0, max_tokens: 6 }),
        assert.rejects(model.generate(PROMPT, { signal: controller.signal }).result, { name: 'AbortError' }),
        generate(),
        model.embed(['x']),
        model.choose(PROMPT, ['a', 'b']),
        model.savePromptCache([{ role: 'system', content: 'Be kind' }]),
      ].map(async (call, i) => {
        const result = await call;
        order.push(i);
        return result;
      });
      controller.abort();
      const [first, completion, , third, { vectors }, { best }] = /** @type {any[]} */ (await Promise.all(calls));
      assert.deepEqual([first, third], [expected, expected]);
      assert.equal(completion.usage.completion_tokens, 6);
      assert.deepEqual([vectors.length, typeof best], [1, 'string']);
      assert.ok(order.indexOf(0) < order.indexOf(3), `${order}`);
      const waiting = assert.rejects(Promise.all([model.generate(PROMPT).result, model.generate(PROMPT).result]), {
        code: 'CLOSED',
      });
      await model.tokenize('x');
      await model.close();
      await waiting;
    });

    test('simultaneous calls of embed before any other call: each gets its vectors, and an abort ends the wait of a call', async () => {
      const model = await load();
      const controller = new AbortController();
      const calls = ['a', 'b', 'c'].map((text) => model.embed([text]));
      const last = assert.rejects(model.embed(['d'], { signal: controller.signal }), { message: 'enough' });
      controller.abort(new Error('enough'));
      for (const [i, { vectors }] of (await Promise.all(calls)).entries())
        assert.deepEqual(vectors, (await model.embed([['a', 'b', 'c'][i]])).vectors);
      await last;
      await model.close();
    });

    test('a loop and `result` give the same parts; an error of a callback is reported, and the generation continues', async () => {
      const failures = [];
      const listen = (event) => (event.preventDefault?.(), failures.push(event));
      const { error } = console;
      console.error = listen;
      globalThis.addEventListener?.('error', listen);
      const onProgress = () => {
        throw new Error('of the page');
      };
      const model = await engine.load(fromBytes(file), { onProgress });
      const session = await model.createSession();
      const run = session.generate(PROMPT, { ...GREEDY, maxTokens: 12, onProgress });
      const [{ parts, result }, sameResult] = await Promise.all([collect(run), run.result]);
      assert.deepEqual(
        parts.map(({ token }) => token),
        sameResult.tokens,
      );
      assert.equal(parts.map(({ text }) => text).join(''), sameResult.text);
      assert.equal(result, sameResult);
      const second = session.generate(PROMPT, { ...GREEDY, maxTokens: 12 });
      const secondResult = second.result;
      assert.deepEqual((await collect(second)).parts, parts, 'a loop that begins after `result` was read');
      assert.deepEqual((await secondResult).tokens, sameResult.tokens);
      await model.close();
      console.error = error;
      globalThis.removeEventListener?.('error', listen);
      assert.ok(failures.length >= 3, `${failures.length} reports`);
    });

    test('after a loop was left, the session has the tokens that the loop has read', async () => {
      await withSession(async (session) => {
        const prompt = await session.append(PROMPT).then(() => session.tokens());
        const tokens = (await session.continue({ ...GREEDY, maxTokens: 24 }).result).tokens;
        for (const count of [1, 4, 7, 8, 9, 23, 24]) {
          const run = session.generate(prompt, { ...GREEDY, maxTokens: 24 });
          let parts = 0;
          for await (const part of run) if (part.token >= 0 && ++parts === count) break;
          assert.deepEqual((await run.result)?.tokens, tokens.slice(0, count));
          assert.equal((await run.result)?.finishReason, count < 24 ? 'abort' : 'length');
          assert.equal((await run.result)?.usage.completionTokens, count);
          assert.deepEqual(await session.tokens(), [...prompt, ...tokens.slice(0, count)]);
          const { tokens: rest } = await session.continue({ ...GREEDY, maxTokens: 24 - count }).result;
          assert.deepEqual(rest, tokens.slice(count), `continues after ${count} tokens`);
        }
      });
    });

    test('the tokens are the same from bytes, a Blob, a server with ranges and one without', async () => {
      const rangeServer = await faultServer(file);
      const plainServer = await faultServer(file, { status: 200 });
      const sources = [
        fromBytes(file),
        fromBytes(file.slice().buffer),
        fromBlob(new Blob([/** @type {any} */ (file)])),
        fromUrl(rangeServer.url),
        fromUrl(plainServer.url),
        rangeServer.url,
      ];
      const replies = new Set();
      for (const source of sources) {
        const model = await engine.load(source);
        const session = await model.createSession();
        replies.add((await session.generate(PROMPT, { ...GREEDY, maxTokens: 20 }).result).tokens.join());
        await model.close();
      }
      assert.equal(replies.size, 1, [...replies].join('\n'));
      await rangeServer.close();
      await plainServer.close();
    });

    test('from a server with ranges: plan requests one small range, load that range and the rest', async () => {
      const server = await faultServer(file);
      const plan = await engine.plan(fromUrl(server.url));
      assert.deepEqual(
        (await server.asked()).map((r) => r.range),
        ['bytes=0-65535'],
      );
      assert.equal(plan.fileBytes, file.length);
      await (await engine.load(fromUrl(server.url))).close();
      assert.deepEqual(
        (await server.asked()).map((r) => r.range),
        ['bytes=0-65535', 'bytes=0-65535', `bytes=65536-${file.length - 1}`],
      );
      await server.close();
    });

    test('from a server without ranges: load sends one request', async () => {
      const server = await faultServer(file, { status: 200 });
      await (await engine.load(fromUrl(server.url))).close();
      assert.equal((await server.asked()).length, 1);
      await server.close();
    });

    test('model.info has the properties of the file', async () => {
      const model = await load();
      assert.deepEqual(model.info.tokenizer, {
        kind: 'bpe',
        tokens: CONFIG.vocab,
        bos: 0,
        eos: 0,
        unk: null,
        pad: null,
        addBos: true,
        addEos: false,
      });
      assert.equal(model.info.chatFormat?.roles.user.before, '<|user|>');
      assert.equal(model.info.card, '# Tiny\nNoise.');
      await model.loaded;
      await model.close();
    });

    test('detokenize gives the text that was tokenized; special tokens only with parseSpecial', async () => {
      const model = await load();
      for (const text of ['', 'the you', 'naïve 日本語 🙂\n\ttab', '\ufeffmark\ufeff', '<|user|>']) {
        const ids = await model.tokenize(text);
        assert.equal(ids[0], 0, 'BOS');
        assert.equal(await model.detokenize(ids), text);
      }
      assert.deepEqual(await model.tokenize('<|user|>', { addSpecial: false, parseSpecial: true }), [1]);
      assert.ok(
        (await model.tokenize('<|user|>', { addSpecial: false })).length > 1,
        'typed text never becomes a special token',
      );
      assert.deepEqual(await model.tokenize(' the', { addSpecial: false }), [BYTE + 256 + 2]);
      assert.equal(await model.tokenId('<|end|>'), 3);
      assert.equal(await model.tokenId('nothing like it'), null);
      assert.equal(await model.detokenize([BYTE + 0xe6, BYTE + 0x97]), '\ufffd', 'an incomplete character');
      await model.close();
    });

    test('options that leave only the most probable token are greedy at any temperature; repeatLast 0 and the largest value', () =>
      withSession(async (session) => {
        const generate = async (/** @type {import('../../js/shared/types.js').GenerateOptions} */ options) =>
          (await session.generate(PROMPT, { maxTokens: 30, seed: 5, ...options }).result).tokens;
        const greedy = await generate({ temperature: 0 });
        for (const options of [
          { topP: 0 },
          { topP: 0, topK: 0 },
          { topP: 1e-300, topK: 7 },
          { topK: 1 },
          { minP: 1, topP: 1 },
        ])
          assert.deepEqual(await generate({ temperature: 1.5, ...options }), greedy, JSON.stringify(options));
        const penalized = { temperature: 0, repeatPenalty: 1.5 };
        assert.deepEqual(await generate({ ...penalized, repeatLast: 0 }), greedy);
        const all = await generate({ ...penalized, repeatLast: 2 ** 32 - 1 });
        assert.deepEqual(await generate({ ...penalized, repeatLast: 200 }), all);
        assert.notDeepEqual(all, greedy);
        await assert.rejects(generate({ repeatPenalty: 1e39 }), {
          code: 'ARGUMENT',
          message: /^repeatPenalty: expected a number/,
        });
      }));

    test('generate: parts, text, tokens and usage are consistent', () =>
      withSession(async (session, model) => {
        const { parts, result } = await collect(
          session.generate(PROMPT, { temperature: 1, topK: 0, topP: 1, seed: 7, maxTokens: 60 }),
        );
        assert.deepEqual(
          parts.map((p) => p.token),
          result.tokens,
        );
        assert.equal(parts.map((p) => p.text).join(''), result.text);
        assert.ok(result.tokens.length > 1 && result.text.length > 0);
        const textTokens = result.finishReason === 'stop' ? result.tokens.slice(0, -1) : result.tokens;
        assert.equal(result.text, await model.detokenize(textTokens));
        assert.equal(result.usage.completionTokens, result.tokens.length);
        assert.equal(result.usage.promptTokens, (await model.tokenize(PROMPT)).length);
        assert.equal(result.seed, 7);
        // The clocks of Firefox and WebKit have a resolution of 1 ms, so a tiny model can take 0 ms there.
        const minMs = typeof document === 'object' && !/Chrome/.test(navigator.userAgent) ? 0 : Number.MIN_VALUE;
        for (const ms of ['prefillMs', 'firstTokenMs', 'decodeMs']) assert.ok(result.timings[ms] >= minMs, ms);
      }));

    test('generate: the leading space of SentencePiece is dropped only at the beginning of the text', async () => {
      const model = await load({}, await tinyModel({ tokens: spaceTokenizer(), chat: null }));
      const session = await model.createSession();
      const run = async (prompt) => (await session.generate(prompt, { temperature: 0, maxTokens: 3 }).result).text;
      assert.match(await run([1]), /^\S/);
      assert.match(await run('d e'), /^ \S/);
      await model.close();
    });

    test('generate: with optional kernels, which are loaded with the model, the tokens are the same everywhere', async () => {
      for (const [type, ids] of /** @type {[string, number[]][]} */ ([
        ['bq3a', [23, 61, 60, 37, 49, 160, 22, 208]],
        ['bqt', [102, 20, 23, 130, 264, 144, 23, 205]],
      ])) {
        const model = await load({}, await tinyModel({ type }));
        const session = await model.createSession();
        const result = await session.generate('Once upon a time', { temperature: 0, maxTokens: 8 }).result;
        assert.deepEqual(result.tokens, ids, type);
        await model.close();
      }
    });

    test('generate: a text and its tokens are the same prompt; `result` works without a loop', () =>
      withSession(async (session, model) => {
        const options = { ...GREEDY, maxTokens: 8 };
        const a = await session.generate(PROMPT, options).result;
        const b = await session.generate(Uint32Array.from(await model.tokenize(PROMPT)), options).result;
        assert.deepEqual(a.tokens, b.tokens);
        assert.equal(a.finishReason, 'length');
        const once = session.generate(PROMPT, options);
        assert.equal((await collect(once)).result, await once.result, 'the result after the loop');
        await assert.rejects(collect(once), { code: 'STATE' });
      }));

    test('generate: batch and window of the prefill, and a filled KV cache, do not change the tokens', async () => {
      const replies = new Set();
      for (const options of [
        {},
        { prefillBatch: 1 },
        { prefillWindow: 1 },
        { prefillWindow: 7, prefillBatch: 3 },
        { contextTokens: 100 },
      ]) {
        await withSession(async (session) => {
          const run = async () =>
            replies.add((await session.generate(PROMPT, { ...GREEDY, maxTokens: 24 }).result).tokens.join());
          await run();
          await run(); // The second time, the KV cache has all of the prompt.
        }, options);
      }
      assert.equal(replies.size, 1, [...replies].join('\n'));
    });

    test('generate: the same seed gives the same tokens, another one others; the result has the seed that was chosen', () =>
      withSession(async (session) => {
        const run = (seed) =>
          session.generate(PROMPT, { temperature: 1.2, topK: 0, topP: 1, seed, maxTokens: 16 }).result;
        const [a, b, c, d] = [await run(1), await run(1), await run(2), await run()];
        assert.deepEqual(a.tokens, b.tokens);
        assert.notDeepEqual(a.tokens, c.tokens);
        assert.deepEqual((await run(d.seed)).tokens, d.tokens);
      }));

    test('a generation stops at tokens, at strings across several tokens, at maxTokens, and at the end of the context', () =>
      withSession(async (session, model) => {
        const free = await session.generate(PROMPT, { ...GREEDY, maxTokens: 30 }).result;
        const third = free.tokens[2];
        const byToken = await session.generate(PROMPT, { ...GREEDY, stopTokens: [third] }).result;
        assert.equal(byToken.finishReason, 'stop');
        assert.equal(byToken.stop, third);
        assert.equal(byToken.tokens.at(-1), third);
        assert.equal(byToken.text, await model.detokenize(free.tokens.slice(0, free.tokens.indexOf(third))));

        const middle = free.text.slice(5, 9);
        const { parts, result } = await collect(session.generate(PROMPT, { ...GREEDY, stop: ['never', middle] }));
        assert.equal(result.stop, middle);
        assert.equal(result.text, free.text.slice(0, free.text.indexOf(middle)));
        assert.equal(parts.map((p) => p.text).join(''), result.text, 'no part has text of the stop string');

        const start = `${free.text.at(-1)}${'?'.repeat(20)}`;
        const complete = await session.generate(PROMPT, { ...GREEDY, maxTokens: 30, stop: [start] }).result;
        assert.equal(complete.text, free.text, 'an incomplete stop string is part of the text');

        const empty = await session.generate(PROMPT, { ...GREEDY, maxTokens: 0 }).result;
        assert.deepEqual([empty.tokens, empty.text, empty.finishReason], [[], '', 'length']);
        const full = await session.generate(await model.tokenize('x'.repeat(250)), { temperature: 0, stopTokens: [] })
          .result;
        if (full.finishReason === 'context')
          assert.equal(251 + full.tokens.length - 1, 256, 'the last token needs no position');
        else assert.equal(full.finishReason, 'stop');
      }));

    test('for a longer prompt only the new tokens are computed', () =>
      withSession(async (session, model) => {
        const ids = await model.tokenize('x'.repeat(100));
        const more = [...ids, ...(await model.tokenize('y'.repeat(20), { addSpecial: false }))];
        await session.generate(ids, { maxTokens: 0 }).result;
        const before = (await session.stats()).workUnits;
        const { usage, tokens } = await session.generate(more, { ...GREEDY, maxTokens: 5 }).result;
        assert.equal(usage.cachedTokens, ids.length);
        assert.equal(
          (await session.stats()).workUnits - before,
          5 * (CONFIG.layers + 1),
          'one batch, then token by token',
        );
        const reference = await withSession((other) => other.generate(more, { ...GREEDY, maxTokens: 5 }).result);
        assert.deepEqual(tokens, reference.tokens);
        const shorter = await session.generate(ids.slice(0, 50), { ...GREEDY, maxTokens: 3 }).result;
        assert.equal(shorter.usage.cachedTokens, 49, 'the last token is computed for its logits');
      }));

    test('with a draft model the text is the same; a closed draft model, or one of another engine, is refused', async () => {
      const bytes = await tinyModel({ config: { hidden: 256, ffn: 256 } });
      const [model, draft] = [await load({}, bytes), await load({}, bytes)];
      const generate = (speculate) => model.generate(PROMPT, { ...GREEDY, maxTokens: 30, speculate }).result;
      const [plain, fast] = [await generate(false), await generate({ model: draft, tokens: 3 })];
      assert.deepEqual([fast.tokens, fast.text], [plain.tokens, plain.text]);
      assert.ok(fast.usage.acceptedTokens > 5, JSON.stringify(fast.timings));
      await draft.close();
      const other = await create();
      for (const unusable of [draft, await other.load(fromBytes(bytes))])
        await assert.rejects(() => generate({ model: unusable }), { code: 'CLOSED' });
      await other.close();
      await model.close();
    });

    test('two simultaneous sessions give the same tokens as each of them alone', async () => {
      const prompts = ['the first of two', 'and something else altogether'];
      const run = (session, prompt) => session.generate(prompt, { ...GREEDY, maxTokens: 25 }).result;
      const alone = [];
      for (const prompt of prompts) alone.push((await withSession((session) => run(session, prompt))).tokens);
      const model = await load({ sessions: 2 });
      const sessions = [await model.createSession(), await model.createSession()];
      const together = await Promise.all(sessions.map((session, i) => run(session, prompts[i])));
      assert.deepEqual(
        together.map((r) => r.tokens),
        alone,
      );
      await model.close();
    });

    test('leaving the loop ends the generation; the session can be used again', () =>
      withSession(async (session) => {
        const options = { ...GREEDY, maxTokens: 20 };
        const run = session.generate(PROMPT, options);
        for await (const part of run) if (part.token >= 0) break;
        assert.equal((await run.result)?.finishReason, 'abort');
        assert.equal((await run.result).tokens.length, 1);
        const second = await session.generate(PROMPT, options).result;
        assert.equal(second.tokens.length, 20);
        assert.equal(second.tokens[0], (await run.result).tokens[0]);
      }));

    test('textStream gives the texts, which are computed while they are read; canceling it ends the generation', () =>
      withSession(async (session) => {
        const { text } = await session.generate('Once', { temperature: 0, maxTokens: 8 }).result;
        const run = session.generate('Once', { temperature: 0, maxTokens: 8 });
        const reader = run.textStream.getReader();
        let streamText = '';
        for (let part = await reader.read(); !part.done; part = await reader.read()) streamText += part.value;
        assert.equal(streamText, text);
        assert.equal((await run.result)?.text, text);
        const second = session.generate('Once', { temperature: 0, maxTokens: 100 });
        const secondReader = second.textStream.getReader();
        await secondReader.read();
        assert.throws(() => second.textStream, { code: 'STATE' });
        await secondReader.cancel();
        assert.equal((await second.result)?.finishReason, 'abort');
        assert.ok((await second.result).tokens.length < 20, `${(await second.result).tokens.length}`);
        await session.generate('Once', { maxTokens: 1 }).result;
      }));

    test('abort before the start, in the prompt and between tokens; the session can be used again', () =>
      withSession(async (session, model) => {
        const expected = await session.generate(PROMPT, { ...GREEDY, maxTokens: 10 }).result;
        const reason = new Error('enough of it');
        await assert.rejects(session.generate(PROMPT, { signal: AbortSignal.abort(reason) }).result, reason);

        const long = await model.tokenize('abc '.repeat(60));
        const inPrompt = new AbortController();
        const run = session.generate(long, { ...GREEDY, signal: inPrompt.signal });
        const ended = assert.rejects(run.result, { name: 'AbortError' });
        inPrompt.abort();
        await ended;

        const controller = new AbortController();
        const running = session.generate(PROMPT, { ...GREEDY, signal: controller.signal });
        const tokens = [];
        await assert.rejects(async () => {
          for await (const part of running) {
            tokens.push(part.token);
            if (tokens.length === 4) controller.abort(reason);
          }
        }, reason);
        assert.equal((await running.result)?.finishReason, 'abort');
        assert.deepEqual((await running.result).tokens, tokens);
        assert.deepEqual(tokens, expected.tokens.slice(0, tokens.length));
        assert.equal(tokens.length, 4, 'no token after the abort');
        const second = await session.generate(PROMPT, { ...GREEDY, maxTokens: 10 }).result;
        assert.deepEqual(second.tokens, expected.tokens);
      }));

    test('wrong calls are refused with the code of an error', () =>
      withSession(async (session, model) => {
        const code = (promise, expected) =>
          assert.rejects(
            promise,
            (/** @type {any} */ e) => e.code === expected && e.hint !== '' && e.name === 'BqError',
          );
        await code(session.generate([]).result, 'ARGUMENT');
        await code(session.generate([CONFIG.vocab]).result, 'ARGUMENT');
        await code(session.generate(PROMPT, { temperature: -1 }).result, 'ARGUMENT');
        await code(session.generate(PROMPT, { maxTokens: /** @type {any} */ ('many') }).result, 'ARGUMENT');
        await assert.rejects(
          session.generate(new Array(257).fill(BYTE)).result,
          (/** @type {any} */ e) => e.code === 'CONTEXT_FULL' && /257.*256/.test(e.message) && e.details.tokens === 257,
        );
        await code(session.generate('x'.repeat(5_000_000)).result, 'CONTEXT_FULL');
        await code(load({ contextTokens: 257 }), 'ARGUMENT');
        await code(load({ contextTokens: 1.5 }), 'ARGUMENT');
        await code(load({ sessions: 0 }), 'ARGUMENT');
        await code(load({ kv: /** @type {any} */ ('q9') }), 'ARGUMENT');
        await code(model.createSession(), 'NO_SESSION');
        const first = session.generate(PROMPT, GREEDY)[Symbol.asyncIterator]();
        await first.next();
        await code(session.generate(PROMPT).result, 'STATE');
        await first.return?.();
        const ok = await session.generate(PROMPT, { maxTokens: 2 }).result;
        assert.equal(ok.tokens.length, 2);
      }));

    test('unknown options are refused, and the error names the nearest known one; values are checked by type and range', () =>
      withSession(async (session, model) => {
        const assertRefused = (promise, pattern) =>
          assert.rejects(
            async () => promise,
            (/** @type {any} */ e) => e.code === 'ARGUMENT' && pattern.test(e.message) && e.hint !== '',
          );
        const any = (options) => /** @type {any} */ (options);
        await assertRefused(
          session.generate(PROMPT, any({ max_tokens: 2 })).result,
          /generate: unknown option "max_tokens"; did you mean "maxTokens"\?/,
        );
        await assertRefused(session.generate(PROMPT, any({ top_k: 2 })).result, /"topK"/);
        await assertRefused(
          session.generate(PROMPT, { topP: 5 }).result,
          /topP: expected a number from 0 to 1, found 5/,
        );
        await assertRefused(
          session.generate(PROMPT, { seed: 0.5 }).result,
          /seed: expected an integer from 0 to \d+, found 0\.5/,
        );
        await assertRefused(
          session.generate(PROMPT, any({ stop: [7] })).result,
          /stop: expected a non-empty well-formed string or a list of them, found \[7\]/,
        );
        for (const stop of ['\ud83d', 'x\udc00', ['END', '\udc00\ud83d']])
          await assertRefused(
            session.generate(PROMPT, { stop }).result,
            /stop: expected a non-empty well-formed string or a list of them, found ["[]/,
          );
        await assertRefused(session.generate(PROMPT, { maxTokens: NaN }).result, /maxTokens: expected .*, found NaN$/);
        await assertRefused(session.generate(PROMPT, any({ topK: 5n })).result, /topK: expected .*, found 5$/);
        await assertRefused(
          session.generate(PROMPT, { stop: '' }).result,
          /stop: expected a non-empty well-formed string .*, found ""/,
        );
        await assertRefused(
          session.generate(PROMPT, { stop: ['a', ''] }).result,
          /stop: expected a non-empty well-formed string/,
        );
        const { vocabSize } = model.info;
        const outside = new RegExp(`expected .*0 to ${vocabSize - 1}, found ${vocabSize}$`);
        await assertRefused(session.generate(PROMPT, { stopTokens: [vocabSize] }).result, outside);
        await assertRefused(session.generate(PROMPT, { logitBias: [{ token: vocabSize, bias: 1 }] }).result, outside);
        await assertRefused(model.detokenize([5, vocabSize]), outside);
        for (const bias of [
          { token: 5 },
          { bias: 1 },
          { token: 5, bias: NaN },
          { token: 5, bias: Infinity },
          { token: 5, bias: '5' },
          { token: 5, bias: null },
          { token: 5, bias: true },
          { token: 5, bias: 1, x: 0 },
          { token: 0.5, bias: 1 },
        ])
          await assertRefused(
            session.generate(PROMPT, any({ logitBias: [bias] })).result,
            /logitBias: expected a list of \{ token, bias \}, found \[/,
          );
        const notTokens = [
          ['hello'],
          [1.5],
          [-1],
          [NaN],
          [1, {}],
          { length: 3 },
          [2 ** 32],
          [undefined, 1],
          new BigInt64Array(2),
          new DataView(new ArrayBuffer(4)),
        ];
        for (const value of notTokens) {
          await assertRefused(
            session.generate(any(value)).result,
            /the prompt: expected a string or a list of token ids|at least one token/,
          );
          await assertRefused(
            model.embed([any(value)]),
            /text 0: expected a string or a list of token ids|at least one token/,
          );
          await assertRefused(
            model.detokenize(any([...Array.from(any(value)), 'x'])),
            /the list of tokens: expected a list of token ids/,
          );
        }
        assert.equal(await model.detokenize(new Uint8Array(0)), '');
        await assertRefused(
          session.generate(PROMPT, any('fast')).result,
          /last argument of generate: expected an options object, found "fast"/,
        );
        await assertRefused(
          session.generate(any(undefined)).result,
          /the prompt: expected a string.* token ids, found undefined/,
        );
        await assertRefused(model.tokenize(any(undefined)), /expected a string/);
        await assertRefused(model.tokenize('x', any({ parse_special: true })), /"parseSpecial"/);
        await assertRefused(model.createSession(any({ contxt: 5 })), /"contextTokens"/);
        await assertRefused(model.createChat(any({ message: [] })), /"messages"/);
        await assertRefused(
          load(any({ contextSize: 5 })),
          /load: unknown option "contextSize"; did you mean "contextTokens"/,
        );
        await assertRefused(load(any({ streaming: 'yes' })), /streaming: expected true or false, found "yes"/);
        await assertRefused(engine.plan(fromBytes(file), any({ kvCache: 'i8' })), /plan: unknown option "kvCache"/);
        await assertRefused(create(any({ thread: 1 })), /"thread"; did you mean "threads"/);
        assert.equal(
          (await session.generate(PROMPT, { maxTokens: 2, topK: undefined }).result).tokens.length,
          2,
          'undefined counts as a missing option',
        );
      }));

    test('the option `stop` may be a single string', () =>
      withSession(async (session) => {
        const free = await session.generate(PROMPT, { ...GREEDY, maxTokens: 30 }).result;
        const middle = free.text.slice(5, 9);
        assert.equal((await session.generate(PROMPT, { ...GREEDY, stop: middle }).result).stop, middle);
      }));

    test('prefill reports its progress in tokens', () =>
      withSession(async (session, model) => {
        const reports = [];
        const ids = await model.tokenize('x'.repeat(150));
        await session.generate(ids, { maxTokens: 0, onProgress: (p) => reports.push(p) }).result;
        assert.deepEqual(reports[0], {
          phase: 'prefill',
          loaded: 0,
          total: ids.length,
          unit: 'tokens',
          bytesPerSecond: null,
          etaMs: null,
        });
        const { loaded, total, etaMs } = reports.at(-1);
        assert.deepEqual([loaded, total, etaMs], [ids.length, ids.length, 0]);
        assert.deepEqual(
          reports.map((p) => p.loaded),
          reports.map((p) => p.loaded).sort((a, b) => a - b),
        );
        const more = [];
        await session.generate([...ids, BYTE, BYTE], { maxTokens: 0, onProgress: (p) => more.push(p) }).result;
        assert.equal(more[0].total, 2, 'only the new tokens');
      }));

    test("OpenAI's chat completions: the chunks of a stream have the content of the complete response", async () => {
      const model = await load();
      const request = { messages: [{ role: 'user', content: 'Hello' }], temperature: 0, max_tokens: 6, logprobs: true };
      const response = await model.chat.completions.create(request);
      const choices = [];
      for await (const chunk of await model.chat.completions.create({ ...request, stream: true }))
        choices.push(...chunk.choices);
      const [{ message, logprobs, finish_reason }] = response.choices;
      assert.equal(choices.map(({ delta }) => delta.content ?? '').join(''), message.content);
      assert.deepEqual(
        choices.flatMap((choice) => choice.logprobs?.content ?? []),
        logprobs?.content,
      );
      assert.equal(choices.at(-1).finish_reason, finish_reason);
      assert.equal((await model.generate(request.messages, { ...GREEDY, maxTokens: 6 }).result).text, message.content);
      await model.close();
    });

    const FREE = { temperature: 1, topK: 0, topP: 1, stopTokens: [] };
    const endless = tinyModel({ tokens: { ...tokenizer(), eog: [] } });

    test('sessions: append and continue in several calls give the same tokens as one generation', async () => {
      const model = await load({}, await endless);
      const session = await model.createSession();
      const progress = [];
      const first = await session.append('Once upon a time', { onProgress: (event) => progress.push(event.loaded) });
      const ids = await model.tokenize('Once upon a time');
      assert.deepEqual([first.tokens, progress[0], progress.at(-1)], [ids.length, 0, ids.length]);
      await session.append(' there was');
      assert.deepEqual(await session.tokens(), [
        ...ids,
        ...(await model.tokenize(' there was', { addSpecial: false })),
      ]);
      const prompt = await session.tokens();
      const firstHalf = await session.continue({ ...GREEDY, maxTokens: 5 }).result;
      assert.equal(firstHalf.usage.cachedTokens, prompt.length, 'the logits were computed by append');
      assert.deepEqual(await session.tokens(), [...prompt, ...firstHalf.tokens]);
      const secondHalf = await session.continue({ ...GREEDY, maxTokens: 5 }).result;
      assert.equal((await session.stats()).tokens, prompt.length + 10);
      await session.append([BYTE]);
      assert.equal((await session.tokens()).at(-1), BYTE);
      const code = await model.generate(prompt, { ...GREEDY, maxTokens: 10 }).result.catch((error) => error.code);
      assert.equal(code, 'NO_SESSION', 'the only session belongs to its caller');
      await session.close();
      assert.deepEqual(
        [...firstHalf.tokens, ...secondHalf.tokens],
        (await model.generate(prompt, { ...GREEDY, maxTokens: 10 }).result).tokens,
      );
      await model.close();
    });

    test('sessions: truncate returns to an earlier position; the tokens before it are not computed again', async () => {
      const model = await load({}, await endless);
      const session = await model.createSession();
      await session.append('Once upon a time there was');
      const prompt = await session.tokens();
      const first = await session.continue({ ...FREE, seed: 1, maxTokens: 9 }).result;
      assert.deepEqual((await session.truncate(prompt.length)).tokens, prompt.length);
      const second = await session.continue({ ...FREE, seed: 1, maxTokens: 9 }).result;
      assert.deepEqual(second.tokens, first.tokens);
      assert.equal(second.usage.cachedTokens, prompt.length - 1, 'the last one is computed for its logits');
      await assert.rejects(session.truncate(999), { code: 'ARGUMENT', message: /found 999/ });
      await assert.rejects(session.truncate(0), { code: 'ARGUMENT' });
      await model.close();
    });

    test('sessions: a fork is independent, and stays open when its origin is closed', async () => {
      const model = await load({ forks: 1, forkTokens: 40 }, await endless);
      for (const [options, message] of /** @type {const} */ ([
        [{ forks: 2 }, /^forks: expected at most 1 \(of the loaded model\), found 2$/],
        [{ forkTokens: 41 }, /^forkTokens: expected at most 40 \(of the loaded model\), found 41$/],
      ]))
        await assert.rejects(model.createSession(options), { code: 'NOMEM', message });
      const session = await model.createSession();
      await session.append('Once upon a time there was');
      const { workUnits } = await session.stats();
      const fork = await session.fork();
      assert.deepEqual(await fork.tokens(), await session.tokens());
      const [a, b] = [
        await session.continue({ ...FREE, seed: 1, maxTokens: 9 }).result,
        await fork.continue({ ...FREE, seed: 2, maxTokens: 9 }).result,
      ];
      assert.notDeepEqual(a.tokens, b.tokens);
      assert.equal(b.usage.cachedTokens, b.usage.promptTokens, 'no token was computed twice');
      assert.ok(workUnits > 0);
      await assert.rejects(session.fork(), { code: 'NO_SESSION', message: /forks/ });
      const prompt = (await fork.tokens()).slice(0, -9);
      await session.close();
      const repetition = await fork.generate(prompt, { ...FREE, seed: 1, maxTokens: 9 }).result;
      assert.deepEqual(repetition.tokens, a.tokens);
      await fork.close();
      await fork.close();
      await (await model.createSession()).close();
      await model.close();
    });

    test('sessions: a restored session continues without computing the prompt; damaged files and those of other models are refused', async () => {
      const model = await load({}, await endless);
      const session = await model.createSession();
      await session.append('Once upon a time there was');
      const beginning = await session.continue({ ...GREEDY, maxTokens: 4 }).result;
      const file = await session.save();
      const rest = await session.continue({ ...GREEDY, maxTokens: 6 }).result;
      const sameModel = await load({ contextTokens: 100 }, await endless);
      const restored = await sameModel.createSession();
      const { tokens } = await restored.restore(file);
      assert.equal(tokens, beginning.usage.promptTokens + 4);
      const continuation = await restored.continue({ ...GREEDY, maxTokens: 6 }).result;
      assert.deepEqual(continuation.tokens, rest.tokens);
      assert.equal(continuation.usage.cachedTokens, tokens - 1, 'all but the last, which had not been computed');
      for (const length of [0, 100, file.length - 1])
        await assert.rejects(restored.restore(file.slice(0, length)), { code: 'TRUNCATED' });
      assert.equal((await restored.stats()).tokens, 0, 'the session is empty after a failure');
      await restored.restore(file);
      await assert.rejects(restored.restore(Uint8Array.of(...file, 0)), { code: 'FORMAT' });
      for (const at of [130, file.length >> 1, file.length - 1]) {
        const changed = file.slice();
        changed[at] ^= 4;
        await assert.rejects(restored.restore(changed), { code: 'FORMAT', message: /damaged/ });
        assert.equal((await restored.stats()).tokens, 0, 'the session is empty after a failure');
      }
      await assert.rejects(restored.restore(new Uint8Array(500)), { code: 'FORMAT', message: /no saved session/ });
      await assert.rejects(restored.restore(/** @type {any} */ ('x')), { code: 'ARGUMENT' });
      assert.deepEqual((await restored.generate('Once', { ...GREEDY, maxTokens: 3 }).result).tokens.length, 3);
      const otherModel = await load({}, await tinyModel({ seed: 2 }));
      await assert.rejects(
        (await otherModel.createSession()).restore(file),
        (/** @type {any} */ e) => e.code === 'MISMATCH' && e.hint !== '',
      );
      await Promise.all([model, sameModel, otherModel].map((loaded) => loaded.close()));
    });

    test('close can be called twice; calls of closed objects are refused; models and engines close their sessions and models', async () => {
      const model = await load({ sessions: 2 }, await endless);
      const session = await model.createSession();
      const other = await model.createSession();
      await session.close();
      await session.close();
      const sessionClosed = { code: 'CLOSED', message: 'the session was closed' };
      await assert.rejects(session.stats(), sessionClosed);
      await assert.rejects(session.generate(PROMPT).result, sessionClosed);
      await (await model.createSession()).close(); // Its slot is free again.
      const run = other.generate(PROMPT, { maxTokens: 200 })[Symbol.asyncIterator]();
      await run.next();
      await model.close();
      await model.close();
      await assert.rejects(
        async () => {
          for (;;) if ((await run.next()).done) break;
        },
        { code: 'CLOSED' },
      );
      await assert.rejects(other.stats(), sessionClosed);
      await assert.rejects(model.tokenize('x'), { code: 'CLOSED', message: 'the model was closed' });
      const otherEngine = await create();
      const otherModel = await otherEngine.load(await endless);
      const reply = otherModel.generate(PROMPT, { maxTokens: 200 });
      const parts = reply[Symbol.asyncIterator]();
      await parts.next();
      const closing = otherEngine.close();
      await assert.rejects(
        async () => {
          for (;;) if ((await parts.next()).done) break;
        },
        { code: 'CLOSED' },
        'a running reply',
      );
      await closing;
      await otherEngine.close();
      await assert.rejects(otherModel.tokenize('x'), { code: 'CLOSED' });
      await assert.rejects(otherEngine.load(fromBytes(file)), { code: 'CLOSED' });
    });

    const html = new TextEncoder().encode('<!doctype html><title>Sign in</title>');
    const damage = (at) => {
      const bytes = file.slice();
      bytes[at] ^= 1;
      return bytes;
    };
    /** @type {Record<string, [make: () => Uint8Array, code: string, hint?: RegExp]>} */
    const wrongFiles = {
      'an empty file': [() => new Uint8Array(), 'TRUNCATED'],
      'a web page': [() => html, 'NOT_A_MODEL', /page/],
      'a GGUF file of another byte order': [() => new TextEncoder().encode('GGUF....'), 'UNSUPPORTED', /little-endian/],
      'a GGUF file truncated in its header': [
        () => Uint8Array.from([...new TextEncoder().encode('GGUF'), 3, 0, 0, 0]),
        'TRUNCATED',
      ],
      'a pickle': [() => Uint8Array.of(0x80, 2, 0x7d, 0x71, 0), 'NOT_A_MODEL', /convert/],
      'a file truncated after 40 bytes': [() => file.slice(0, 40), 'TRUNCATED'],
      'a file truncated in its header': [() => file.slice(0, 3000), 'TRUNCATED'],
      'a file truncated in its weights': [() => file.slice(0, file.length - 100), 'TRUNCATED'],
      'a damaged first section of the header': [() => damage(33), 'CHECKSUM'],
      'a damaged plan': [() => damage(100), 'CHECKSUM'],
      'an unknown version': [
        () => {
          const bytes = file.slice();
          bytes[4] = 9;
          return bytes;
        },
        'UNSUPPORTED',
      ],
    };
    for (const [what, [create, code, hint]] of Object.entries(wrongFiles)) {
      test(`${what} is refused with ${code}`, async () => {
        const bytes = create();
        await assert.rejects(
          load({}, bytes),
          (/** @type {any} */ e) => e.code === code && e.hint !== '' && (!hint || hint.test(e.hint)),
        );
      });
    }

    test('errors of a file have an offset', () =>
      assert.rejects(
        load({}, file.slice(0, 3000)),
        (/** @type {any} */ e) => e.code === 'TRUNCATED' && Number.isInteger(e.offset),
      ));

    /** @type {Record<string, [import('../server/faults.mjs').Rule, string, (() => Uint8Array)?]>} */
    const responses = {
      'a response 404': [{ status: 404 }, 'HTTP_STATUS'],
      'a web page in place of the file': [{ headers: { 'content-type': 'text/html' } }, 'NOT_A_MODEL', () => html],
      'a connection that breaks': [{ drop: 200_000 }, 'NETWORK'],
      'a connection that breaks, without ranges': [{ drop: 200_000, status: 200 }, 'NETWORK'],
    };
    // Without ranges the length of the file is not known before its end.
    for (const bytes of [10, 500, 3000, 200_000])
      responses[`a file that ends after ${bytes} bytes, without ranges`] = [
        { status: 200 },
        'TRUNCATED',
        () => file.subarray(0, bytes),
      ];
    for (const [what, [fault, code, body]] of Object.entries(responses)) {
      test(`${what} gives ${code}`, async () => {
        const server = await faultServer(body?.() ?? file, fault);
        await assert.rejects(
          engine.load(fromUrl(server.url, QUICK)),
          (/** @type {any} */ e) => e.code === code && e.hint !== '',
        );
        await server.close();
      });
    }

    test('progress of a load: phases plan, download or load, ready; `loaded` never decreases', async () => {
      const server = await faultServer(file);
      for (const [source, phase] of [
        [fromUrl(server.url), 'download'],
        [fromBytes(file), 'load'],
      ]) {
        const reports = [];
        const model = await engine.load(source, { onProgress: (p) => reports.push(p) });
        assert.deepEqual([reports[0].phase, reports[0].total], ['plan', file.length]);
        assert.ok(reports.some((p) => p.phase === phase));
        const { bytesPerSecond, ...last } = reports.at(-1);
        assert.deepEqual(last, {
          phase: 'ready',
          loaded: file.length,
          total: file.length,
          unit: 'bytes',
          etaMs: 0,
          retries: 0,
          cacheProblem: '',
        });
        assert.ok(bytesPerSecond === null || bytesPerSecond >= 0);
        assert.deepEqual(
          reports.map((p) => p.loaded),
          reports.map((p) => p.loaded).sort((a, b) => a - b),
        );
        await model.close();
      }
      await server.close();
    });

    test('an abort of a load ends the download', async () => {
      for (const fault of [
        { stall: { after: 70_000 } },
        { stall: { after: 70_000 }, status: 200 },
        { stall: { after: 10 } },
      ]) {
        const server = await faultServer(file, fault);
        const controller = new AbortController();
        const loading = engine.load(fromUrl(server.url), { signal: controller.signal });
        const ended = assert.rejects(loading, { name: 'AbortError' });
        await until('a request', async () => (await server.asked()).length > 0);
        controller.abort();
        await ended;
        await server.close();
      }
      await assert.rejects(load({ signal: AbortSignal.abort() }), { name: 'AbortError' });
    });

    test('an abort after a streaming load has resolved ends the download: `loaded` and calls that wait for weights reject', async () => {
      const server = await faultServer(file, { stall: { after: 120_000 } });
      const controller = new AbortController();
      const model = await engine.load(fromUrl(server.url), { streaming: true, signal: controller.signal });
      const session = await model.createSession();
      const waiting = assert.rejects(session.generate(PROMPT).result, { message: 'no longer wanted' });
      const ended = assert.rejects(model.loaded, { message: 'no longer wanted' });
      controller.abort(new Error('no longer wanted'));
      await inTime('the end of the load', ended);
      await inTime('the end of the generation', waiting);
      await model.close();
      await server.close();
    });

    test('progress of a stalled download includes all bytes that have arrived', async () => {
      const server = await faultServer(file, { stall: { after: 70_000 } });
      const controller = new AbortController();
      let last = { loaded: 0 };
      const loading = engine.load(fromUrl(server.url), { signal: controller.signal, onProgress: (p) => (last = p) });
      const ended = assert.rejects(loading, { name: 'AbortError' });
      await until('progress with all bytes before the stall', () => last.loaded === 65_536 + 70_000);
      controller.abort();
      await ended;
      await server.close();
    });

    test('an unknown option that is a function is refused by its name, and the session can be used again', async () => {
      await withSession(async (session) => {
        const onToken = /** @type {any} */ ({ onToken: () => {} });
        await assert.rejects(
          session.generate(PROMPT, onToken).result,
          (/** @type {any} */ e) => e.code === 'ARGUMENT' && /onToken/.test(e.message),
        );
        assert.equal((await session.generate(PROMPT, { maxTokens: 2 }).result).tokens.length, 2);
      });
    });

    test('`result` of a failed generation rejects each time it is read', () =>
      withSession(async (session) => {
        const run = session.generate([CONFIG.vocab]);
        await assert.rejects(run.result, { code: 'ARGUMENT' });
        await assert.rejects(run.result, { code: 'ARGUMENT' });
      }));

    test('an error has its cause', () =>
      withSession((session) =>
        assert.rejects(
          session.generate('x'.repeat(5_000_000)).result,
          (/** @type {any} */ e) => e.code === 'CONTEXT_FULL' && e.cause?.code === 'NOMEM',
        ),
      ));

    test('streaming: a generation waits for weights, can be aborted meanwhile, and gives the same tokens', async () => {
      const expected = await withSession((session) => session.generate(PROMPT, { ...GREEDY, maxTokens: 10 }).result);
      const server = await faultServer(file, { stall: { after: 120_000 } });
      const model = await engine.load(fromUrl(server.url), { streaming: true });
      const session = await model.createSession();
      const controller = new AbortController();
      const waiting = session.generate(PROMPT, { ...GREEDY, signal: controller.signal }).result;
      const ended = assert.rejects(waiting, { name: 'AbortError' });
      await session.stats(); // After this round trip the generation has started.
      controller.abort();
      await ended; // The weights never arrive.
      await model.close();
      await assert.rejects(model.loaded, { code: 'CLOSED' });
      await server.close();

      const slow = await faultServer(file, { step: 4096 });
      const second = await engine.load(fromUrl(slow.url), { streaming: true });
      const { tokens: ids } = await (await second.createSession()).generate(PROMPT, { ...GREEDY, maxTokens: 10 })
        .result;
      assert.deepEqual(ids, expected.tokens);
      await second.loaded;
      await second.close();
      await slow.close();
    });

    test('streaming: calls that wait for weights reject when the download fails', async () => {
      const server = await faultServer(file, { drop: 150_000 });
      const model = await engine.load(fromUrl(server.url, QUICK), { streaming: true });
      const session = await model.createSession();
      await assert.rejects(session.generate(PROMPT).result, { code: 'NETWORK' });
      await assert.rejects(model.loaded, { code: 'NETWORK' });
      await model.close();
      await server.close();
    });
  });
}
