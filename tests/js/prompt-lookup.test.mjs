// Tests of prompt lookup: it changes no token, with the bundled model, in both builds, with one thread and three.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { createEngine, fromBytes } from '../../js/node.js';
import { findNearRepetition, findRepetition } from '../../js/engine/speculation/prompt-lookup.js';
import { createWorkerEngine } from '../../js/index.js';
import { tinyModel } from './fixture.mjs';
import { readGeneration } from './generation-summary.mjs';

const CHAT = readFileSync(new URL('../../models/chat.bq4', import.meta.url));
const LIST = 'red apples, green pears, yellow lemons, ';
/** What repeats itself, and what does not. */
const PROMPTS = [
  LIST.repeat(4),
  `Say this again: ${LIST}${LIST}\nSo you say: ${LIST}`,
  'A quick brown fox jumps over the lazy dog, and then it sleeps until noon in its den under some old oak.',
  'Hello',
];
const SCHEMA = {
  type: 'array',
  minItems: 3,
  maxItems: 3,
  items: { type: 'object', properties: { name: { type: 'string', maxLength: 6 } }, required: ['name'] },
};
/** @type {Record<string, object>} */
const OPTIONS = {
  greedy: { temperature: 0 },
  sampled: { temperature: 0.8 },
  hot: { temperature: 2, topK: 0, topP: 1 },
  penalties: { temperature: 0, repeatPenalty: 1.3, presencePenalty: 0.5, frequencyPenalty: 0.2 },
  biased: { temperature: 0.7, logitBias: [{ token: 300, bias: 3 }], logprobs: 3 },
  stopped: { temperature: 0, stop: ['lemons', 'ea', '. I'] },
  'a schema': { temperature: 0.5, responseFormat: { type: 'json_schema', schema: SCHEMA } },
  'an expression': { temperature: 1, responseFormat: { type: 'regex', pattern: '(red|green) [a-z ]{3,20}\\.' } },
  short: { temperature: 0, maxTokens: 3 },
};

for (const [build, threads] of /** @type {const} */ ([
  ['simd128', 1],
  ['relaxed', 1],
  ['relaxed', 3],
  ['relaxed16', 2],
]))
  describe(`${build}, ${threads === 1 ? 'one thread' : `${threads} threads`}`, () => {
    /** @type {any} */
    let engine;
    /** @type {any} */
    let model;
    before(async () => {
      engine = await createEngine({ build, threads });
      model = await engine.load(fromBytes(CHAT), { contextTokens: 256 });
    });
    after(() => engine.close());

    for (const [name, options] of Object.entries(OPTIONS).filter((_, i) => build === 'relaxed' || i % 3 === 0))
      test(`${name}: the same parts and result`, async () => {
        let accepted = 0;
        for (const [seed, prompt] of PROMPTS.entries()) {
          const run = (/** @type {any} */ speculate) =>
            readGeneration(model.generate(prompt, { maxTokens: 40, seed, ...options, speculate }));
          const plain = await run(false);
          assert.deepEqual([plain.usage.draftedTokens, plain.usage.acceptedTokens], [0, 0]);
          for (const speculate of [{ tokens: 1 }, { tokens: 7 }, true, 'auto']) {
            const { output: message, usage } = await run(speculate);
            assert.deepEqual(message, plain.output);
            assert.ok(usage.acceptedTokens <= usage.draftedTokens);
            if (typeof speculate === 'object') accepted += usage.acceptedTokens;
          }
        }
        const least = /** @type {Record<string, number>} */ ({ greedy: 21, sampled: 1 })[name] ?? 0;
        assert.ok(accepted >= least, `${accepted} accepted`);
      });

    test('draft tokens are used up to the end of the context', async () => {
      const prompt = LIST.repeat(16);
      const run = (/** @type {any} */ speculate) =>
        readGeneration(model.generate(prompt, { temperature: 0, seed: 1, speculate }));
      const [plain, fast] = [await run(false), await run({ tokens: 7 })];
      assert.equal(plain.output.result.finishReason, 'context');
      assert.deepEqual(fast.output, plain.output);
      assert.ok(fast.usage.acceptedTokens > 0);
    });
  });

describe('a session', () => {
  /** @type {any} */
  let engine;
  before(async () => (engine = await createEngine({ threads: 1 })));
  after(() => engine.close());
  const GREEDY = { temperature: 0, maxTokens: 24 };

  test('usage counts proposed and accepted draft tokens; without draft tokens it has no counts', async () => {
    const model = await engine.load(fromBytes(CHAT));
    const session = await model.createSession();
    const zero = { draftedTokens: 0, acceptedTokens: 0 };
    const counts = async () => {
      const { draftedTokens, acceptedTokens } = await session.stats();
      return { draftedTokens, acceptedTokens };
    };
    await session.generate(PROMPTS[0], { ...GREEDY, speculate: false }).result;
    assert.deepEqual(await counts(), zero);
    // Nothing stood there before: no two tokens in a row are there twice.
    const distinct = Array.from({ length: 80 }, (_, i) => 300 + i);
    const { tokens: ids, usage } = await session.generate(distinct, {
      ...GREEDY,
      maxTokens: 2,
      speculate: { tokens: 7 },
    }).result;
    assert.deepEqual(findRepetition([...distinct, ids[0]]), { length: 0, next: -1 });
    assert.deepEqual([usage.draftedTokens, usage.acceptedTokens, await counts()], [0, 0, zero]);
    const one = (await session.generate(PROMPTS[0], { ...GREEDY, speculate: { tokens: 4 } }).result).usage;
    const two = (await session.generate(PROMPTS[1], { ...GREEDY, speculate: { tokens: 4 } }).result).usage;
    assert.ok(one.acceptedTokens > 0);
    assert.deepEqual(await counts(), {
      draftedTokens: one.draftedTokens + two.draftedTokens,
      acceptedTokens: one.acceptedTokens + two.acceptedTokens,
    });
    await model.close();
  });

  test('draft tokens reduce the steps: one for each layer and batch', async () => {
    const model = await engine.load(fromBytes(CHAT));
    const session = await model.createSession();
    const workUnits = async (/** @type {any} */ speculate) => {
      await session.generate('x', { maxTokens: 1 }).result;
      const before = (await session.stats()).workUnits;
      const { usage } = await session.generate(PROMPTS[0], { ...GREEDY, speculate }).result;
      return { workUnits: (await session.stats()).workUnits - before, accepted: usage.acceptedTokens };
    };
    const plain = await workUnits(false);
    const fast = await workUnits({ tokens: 7 });
    assert.equal(fast.workUnits, plain.workUnits - fast.accepted * (model.info.layers + 1));
    assert.ok(fast.accepted > 0);
    await model.close();
  });

  test('a session that is left, forked, saved or reused within a draft continues as without draft tokens', async () => {
    const model = await engine.load(fromBytes(CHAT), { sessions: 2, forks: 1, forkTokens: 64 });
    /** What is said after `leave` took so many tokens. */
    const after = async (/** @type {any} */ speculate, /** @type {number} */ tokens, /** @type {string} */ then) => {
      const session = await model.createSession();
      const other = await model.createSession();
      const messages = [];
      for await (const { token: id } of session.generate(PROMPTS[0], { ...GREEDY, speculate }))
        if (messages.push(id) === tokens) break;
      if (then === 'fork') {
        const fork = await session.fork();
        messages.push(...(await fork.continue({ ...GREEDY, speculate }).result).tokens);
        await fork.close();
      }
      if (then === 'save') {
        const saved = await session.save();
        messages.push(Buffer.from(saved).toString('base64'));
        await other.restore(saved);
        messages.push(...(await other.continue({ ...GREEDY, speculate }).result).tokens);
      }
      if (then === 'truncate') await session.truncate(20);
      if (then === 'append') await session.append(' and');
      if (then === 'choose') messages.push(...(await session.choose([], ['a', 'b'])).options.map((o) => o.logprob));
      messages.push(...(await session.continue({ ...GREEDY, speculate }).result).tokens, ...(await session.tokens()));
      await session.close();
      await other.close();
      return messages;
    };
    for (const then of ['', 'fork', 'save', 'truncate', 'append', 'choose'])
      for (const tokens of [3, 4, 5])
        assert.deepEqual(await after({ tokens: 5 }, tokens, then), await after(false, tokens, then), then);
    await model.close();
  });

  test('a session that is aborted within a draft continues as without draft tokens', async () => {
    const model = await engine.load(fromBytes(CHAT));
    const session = await model.createSession();
    const stop = new AbortController();
    let n = 0;
    const generation = session.generate(PROMPTS[0], { ...GREEDY, speculate: { tokens: 7 }, signal: stop.signal });
    await assert.rejects(
      async () => {
        for await (const _ of generation) if (++n === 4) stop.abort();
      },
      { name: 'AbortError' },
    );
    const { tokens: ids } = await session.generate(PROMPTS[0], { ...GREEDY, speculate: { tokens: 7 } }).result;
    assert.deepEqual(ids, (await session.generate(PROMPTS[0], { ...GREEDY, speculate: false }).result).tokens);
    await model.close();
  });

  test('a session has memory for `draftTokens` draft tokens, and a plan includes it', async () => {
    const plan = (/** @type {object} */ options) => engine.plan(fromBytes(CHAT), options);
    const [none, some, more] = await Promise.all([plan({ draftTokens: 0 }), plan({}), plan({ draftTokens: 9 })]);
    const each = 4 * none.vocabSize;
    assert.ok(Math.abs(some.sessionBytes - none.sessionBytes - 7 * each) < 128);
    assert.ok(Math.abs(more.sessionBytes - none.sessionBytes - 9 * each) < 128);
    const model = await engine.load(fromBytes(CHAT), { draftTokens: 0 });
    for (const speculate of [{ tokens: 4 }, true, 'auto'])
      assert.equal((await model.generate(PROMPTS[0], { ...GREEDY, speculate }).result).usage.draftedTokens, 0);
    await model.close();
    for (const drafts of [-1, 32, 1.5, '7'])
      await assert.rejects(() => plan({ draftTokens: drafts }), { code: 'ARGUMENT', message: /draftTokens/ });
  });

  test('draft tokens work with weights that are read for every token', async () => {
    const config = { layers: 6, hidden: 64, heads: 4, kv_heads: 2, ffn: 128 };
    const bytes = await tinyModel({ config, type: 'bq8' });
    const all = (await engine.plan(fromBytes(bytes), { contextTokens: 256 })).heapBytes;
    const ids = Array.from({ length: 90 }, (_, i) => 10 + (i % 9));
    const run = async (/** @type {any} */ options, /** @type {any} */ speculate) => {
      const model = await engine.load(fromBytes(bytes), { contextTokens: 256, ...options });
      const generation = await model.generate(ids, {
        temperature: 0,
        maxTokens: 60,
        logitBias: [{ token: 40, bias: 99 }],
        speculate,
      }).result;
      await model.close();
      return { ids: generation.tokens, paged: model.info.residency, drafted: generation.usage.draftedTokens };
    };
    const [plain, paged] = [await run({}, false), await run({ memoryBudget: all - 65536 }, { tokens: 6 })];
    assert.deepEqual(paged.ids, plain.ids);
    assert.equal(paged.paged, 'paged');
    assert.ok(paged.drafted > 20);
  });
});

for (const [name, create] of /** @type {const} */ ([
  ['this thread', createEngine],
  ['a worker', createWorkerEngine],
]))
  test(`OpenAI's calls in ${name}: the same texts, and what was guessed in their usage`, async () => {
    const engine = await create();
    const model = await engine.load(fromBytes(CHAT));
    const messages = [{ role: 'user', content: PROMPTS[1] }];
    const body = { messages, n: 2, seed: 3, temperature: 0.5, max_tokens: 40 };
    const ask = async (/** @type {any} */ speculate) => model.chat.completions.create({ ...body, bq4: { speculate } });
    const [plain, fast] = [await ask(false), await ask({ tokens: 6 })];
    const texts = (/** @type {any} */ { choices }) => choices.map((/** @type {any} */ c) => c.message.content);
    assert.deepEqual(texts(fast), texts(plain));
    const none = { accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 };
    assert.deepEqual(plain.usage.completion_tokens_details, none);
    const { accepted_prediction_tokens: accepted, rejected_prediction_tokens: rejected } =
      fast.usage.completion_tokens_details;
    assert.ok(accepted + rejected > 0 && accepted < fast.usage.completion_tokens);
    const text = { prompt: [PROMPTS[0], PROMPTS[1]], temperature: 0, max_tokens: 20 };
    const complete = (/** @type {any} */ speculate) => model.completions.create({ ...text, bq4: { speculate } });
    const [a, b] = [await complete(false), await complete({ tokens: 3 })];
    assert.deepEqual(b.choices, a.choices);
    assert.ok(b.usage.completion_tokens_details.accepted_prediction_tokens > 0);
    for (const speculate of ['yes', 3, { tokens: 0 }, { tokens: 32 }, { token: 3 }, [], {}]) {
      await assert.rejects(() => ask(speculate), { code: 'ARGUMENT', message: /speculate: expected / });
      await assert.rejects(() => model.generate('x', /** @type {any} */ ({ speculate })).result, {
        code: 'ARGUMENT',
        details: { param: 'speculate' },
      });
    }
    await engine.close();
  });

test('prompt lookup finds the last occurrence of the longest matching end', () => {
  const at = (/** @type {string} */ text) => findRepetition([...text].map((c) => c.charCodeAt(0)));
  assert.deepEqual(at(''), { length: 0, next: -1 });
  assert.deepEqual(at('abc'), { length: 0, next: -1 });
  assert.deepEqual(at('a-a'), { length: 0, next: -1 }, 'one token says little');
  assert.deepEqual(at('abxab'), { length: 2, next: 2 });
  assert.deepEqual(at('abxabyab'), { length: 2, next: 5 }, 'the last time');
  assert.deepEqual(at('cabxabycab'), { length: 3, next: 3 }, 'the longest');
  assert.deepEqual(at('aaaa'), { length: 3, next: 3 });
  assert.deepEqual(at('0123456789x0123456789'), { length: 8, next: 10 }, 'no more are compared');
});

test('prompt lookup after a different word finds the last token near the previous position', () => {
  const at = (/** @type {string} */ text, /** @type {number} */ place) =>
    findNearRepetition(
      [...text].map((c) => c.charCodeAt(0)),
      place,
    );
  assert.deepEqual(at('abcdefghijklmnopqrstuvwxyz|abz', 2), { length: 0, next: -1 }, 'too far away');
  assert.deepEqual(at('abcdXefgh|abcdYe', 4), { length: 1, next: 6 });
  assert.deepEqual(at('abcdefgh|abcdf', 4), { length: 1, next: 6 }, 'one was left out');
  assert.deepEqual(at('abcdefgh|abcdc', 4), { length: 1, next: 3 }, 'shortly before');
  assert.deepEqual(at('e|abcde', 6), { length: 0, next: -1 }, 'never itself');
});
