// Tests of draft models: no token changes, the large model computes fewer steps, and the draft model reads each token once.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { createEngine, fromBytes, fromFile } from '../../js/node.js';
import { createWorkerEngine } from '../../js/index.js';
import { tinyModel, tokenizer } from './fixture.mjs';
import { readGeneration } from './generation-summary.mjs';

const CHAT = readFileSync(new URL('../../models/chat.bq4', import.meta.url));
const BERT = new URL('../golden/gguf/bert.gguf', import.meta.url);
const LIST = 'red apples, green pears, yellow lemons, ';
const PROMPTS = [
  `Say this again: ${LIST}${LIST}\nSo you say: ${LIST}`,
  'A quick brown fox jumps over the lazy dog, and then it sleeps until noon in its den under some old oak.',
  'Hello',
];
const SCHEMA = { type: 'object', properties: { name: { type: 'string', maxLength: 9 } }, required: ['name'] };
/** @type {Record<string, object>} */
const OPTIONS = {
  greedy: { temperature: 0 },
  sampled: { temperature: 0.8 },
  hot: { temperature: 2, topK: 0, topP: 1 },
  penalties: { temperature: 0, repeatPenalty: 1.3, presencePenalty: 0.5, logprobs: 2 },
  stopped: { temperature: 0, stop: ['lemons', 'ea', '. I'] },
  'a schema': { temperature: 0.5, responseFormat: { type: 'json_schema', schema: SCHEMA } },
  'a full context': { temperature: 0, maxTokens: 120, contextPolicy: 'shift' },
};
/** Wide enough to be sure of what it says: of noise the likeliest token has most of the probability. */
const WIDE = { hidden: 256, ffn: 256 };
/** It never ends a text. */
const THRESHOLD = await tinyModel({ config: WIDE, tokens: { ...tokenizer(), eog: [] } });
const GREEDY = { temperature: 0, maxTokens: 40 };
const ids = Array.from({ length: 100 }, (_, i) => 5 + ((i * 7) % 250));

for (const [build, threads] of /** @type {const} */ ([
  ['simd128', 1],
  ['relaxed', 3],
]))
  describe(`${build}, ${threads} threads`, () => {
    /** @type {any} */
    let engine;
    before(async () => (engine = await createEngine({ build, threads })));
    after(() => engine.close());

    test('parts and results are the same with every drafter and all options', async () => {
      const model = await engine.load(fromBytes(CHAT), { contextTokens: 128, sessions: 2 });
      const last = model.info.layers - 1;
      const load = (/** @type {object} */ quality) => engine.load(fromBytes(CHAT), { contextTokens: 120, quality });
      // Itself, itself without a layer, and one that has read nothing but the last token.
      const drafts = [model, await load({ skipLayers: [last - 1] }), await load({ exitLayer: 1 })];
      const accepted = drafts.map(() => 0);
      const some = Object.entries(OPTIONS).filter((_, i) => build === 'relaxed' || i % 3 === 0);
      for (const [name, options] of some)
        for (const [seed, prompt] of PROMPTS.entries()) {
          const run = (/** @type {any} */ speculate) =>
            readGeneration(model.generate(prompt, { maxTokens: 30, seed, ...options, speculate }));
          const plain = await run(false);
          for (const [i, draft] of drafts.entries()) {
            const { output: message, usage } = await run({ model: draft, tokens: 3 + i });
            assert.deepEqual(message, plain.output, name);
            assert.ok(usage.acceptedTokens <= usage.draftedTokens);
            if (i === 0 && name === 'greedy') assert.equal(usage.acceptedTokens, usage.draftedTokens, 'itself');
            accepted[i] += usage.acceptedTokens;
          }
        }
      assert.ok(accepted[0] > 40 && accepted[1] > 20 && accepted[0] > accepted[2], `${accepted}`);
      for (const one of new Set([model, ...drafts])) await one.close();
    });
  });

describe('what is computed', () => {
  /** @type {any} */
  let engine;
  /** @type {any} */
  let large;
  /** @type {any} */
  let session;
  before(async () => {
    engine = await createEngine({ threads: 1 });
    large = await engine.load(fromBytes(THRESHOLD), { prefillBatch: 16, sessions: 2 });
    session = await large.createSession();
  });
  after(() => engine.close());

  /** A model that counts work units. @param {Uint8Array} [bytes] @param {object} [options]  of load */
  async function counting(bytes = THRESHOLD, options) {
    const model = await engine.load(fromBytes(bytes), { prefillBatch: 16, ...options });
    const { run } = model;
    const counted = Object.assign(model, { workUnits: 0 });
    model.run = (/** @type {[number, number]} */ ...given) => (counted.workUnits++, run.apply(model, given));
    return counted;
  }

  /** What a generation takes of the large model. @param {any} speculate @param {object} [options] */
  async function ran(speculate, options) {
    await session.generate([1], { maxTokens: 0 }).result; // nothing of the prompt is there
    const before = (await session.stats()).workUnits;
    const { tokens: output, usage } = await session.generate(ids, { ...GREEDY, ...options, speculate }).result;
    return { made: output, usage, workUnits: (await session.stats()).workUnits - before };
  }

  test('a draft model with the same weights is always accepted; each accepted token saves a step of the large model', async () => {
    const small = await counting();
    const [plain, fast] = [await ran(false), await ran({ model: small, tokens: 4 })];
    const { draftedTokens: drafted, acceptedTokens: arrivals } = fast.usage;
    assert.deepEqual(fast.made, plain.made);
    assert.ok(arrivals === drafted && arrivals > 15, `${arrivals} of ${drafted}`);
    assert.equal(fast.workUnits, plain.workUnits - arrivals * (large.info.layers + 1));
    // One step for the prompt, one for each draft token, and one for each draft that ended before its limit.
    const step = small.info.layers + 1;
    const prompt = small.info.layers * Math.ceil(ids.length / 16) + 1;
    const proposals = GREEDY.maxTokens - arrivals;
    assert.ok(small.workUnits <= prompt + (drafted + proposals) * step, `${small.workUnits}`);
    assert.ok(small.workUnits >= prompt + (drafted - 1) * step, `${small.workUnits}`);
    // What it has read it does not read again.
    small.workUnits = 0;
    await ran({ model: small, tokens: 4 });
    assert.ok(small.workUnits <= (drafted + proposals) * step, `${small.workUnits}`);
    await small.close();
  });

  test('a draft model with other weights is rarely accepted, and is not asked for impossible tokens', async () => {
    const small = await counting(await tinyModel({ config: WIDE, seed: 2 }));
    const [plain, fast] = [await ran(false), await ran({ model: small })];
    const { draftedTokens: drafted, acceptedTokens: arrivals } = fast.usage;
    assert.deepEqual(fast.made, plain.made);
    assert.ok(drafted > 15 && arrivals < drafted / 5, `${arrivals} of ${drafted}`);
    // Two tokens at most, and of a token that is the last none is behind it.
    for (const maxTokens of [1, 2]) {
      const before = small.workUnits;
      assert.equal((await ran({ model: small }, { maxTokens })).usage.draftedTokens, 0);
      assert.equal(small.workUnits, before);
    }
    await small.close();
  });

  test('a draft model with low probabilities proposes few tokens', async () => {
    const small = await counting(await tinyModel({ config: { hidden: 16, heads: 2, kv_heads: 2, ffn: 16 } }));
    const [plain, fast] = [await ran(false), await ran({ model: small })];
    assert.deepEqual(fast.made, plain.made);
    const { draftedTokens: drafted, acceptedTokens: arrivals } = fast.usage;
    assert.ok(drafted < GREEDY.maxTokens / 4, `${drafted}`);
    assert.equal(fast.workUnits, plain.workUnits - arrivals * (large.info.layers + 1));
    await small.close();
  });

  test('draft tokens do not exceed the limits of drafts, tokens and the small context', async () => {
    const small = await counting(THRESHOLD, { contextTokens: ids.length + 9 });
    const { made: output, usage } = await ran({ model: small, tokens: 31 }, { maxTokens: 80 });
    assert.deepEqual(output, (await ran(false, { maxTokens: 80 })).made);
    assert.ok(usage.draftedTokens > 0 && usage.draftedTokens <= 9, `${usage.draftedTokens}`);
    await small.close();
    const none = await engine.load(fromBytes(THRESHOLD), { draftTokens: 0, sessions: 2 });
    assert.equal((await none.generate(ids, { ...GREEDY, speculate: { model: none } }).result).usage.draftedTokens, 0);
    await none.close();
  });

  test('a generation uses a session of the draft model and releases it at its end, when it is left, aborted or refused', async () => {
    const small = await counting();
    const speculate = { model: small };
    const free = async () => (await small.createSession()).close();
    const { made: output } = await ran(false);
    await ran(speculate);
    await free();
    const other = await large.createSession();
    for await (const _ of session.generate(ids, { ...GREEDY, speculate })) {
      await assert.rejects(free, { code: 'NO_SESSION' });
      await assert.rejects(other.generate(ids, { ...GREEDY, speculate }).result, {
        code: 'NO_SESSION',
        message: 'all sessions of the draft model are in use (1)',
        hint: /one session for each concurrent generation/,
        details: { sessions: 1 },
      });
      break;
    }
    await free();
    const stop = new AbortController();
    let n = 0;
    const stopped = session.generate(ids, { ...GREEDY, speculate, signal: stop.signal });
    await assert.rejects(
      async () => {
        for await (const _ of stopped) if (++n === 6) stop.abort();
      },
      { name: 'AbortError' },
    );
    await free();
    await assert.rejects(session.generate(ids, { speculate, responseFormat: { type: 'regex', pattern: '(' } }).result, {
      code: 'GRAMMAR',
    });
    await free();
    assert.deepEqual((await ran(speculate)).made, output);
    await other.close();
    await small.close();
  });

  test('an abort, a close of either model and the deadline take effect while the draft model computes the prompt', async (t) => {
    const { made: output } = await ran(false);
    /** Does something amid the small model's prompt. @param {(small: any, big: any) => unknown} act @param {object} [options] */
    const amid = async (act, options) => {
      const [big, small] = [await counting(), await counting()];
      const { run } = small;
      small.run = (/** @type {[number, number]} */ ...given) => {
        if (small.workUnits === 5) act(small, big);
        return run(...given);
      };
      const result = await big
        .generate(ids, { ...GREEDY, speculate: { model: small }, ...options })
        .result.catch((/** @type {any} */ error) => error);
      await big.close();
      await small.close();
      return { result, workUnits: small.workUnits };
    };
    const stop = new AbortController();
    const aborted = await amid(() => stop.abort(), { signal: stop.signal });
    assert.deepEqual([aborted.result.name, aborted.workUnits], ['AbortError', 6]);
    const closed = await amid((_, big) => big.close());
    assert.deepEqual([closed.result.code, closed.workUnits], ['CLOSED', 6]);
    const { result, workUnits } = await amid((small) => small.close());
    assert.deepEqual([result.tokens, result.usage.draftedTokens, workUnits], [output, 0, 6], 'it goes on alone');
    const now = performance.now.bind(performance);
    const late = () => t.mock.method(performance, 'now', () => now() + 3_600_000);
    const due = await amid(late, { deadline: 3_000_000 });
    assert.deepEqual([due.result.finishReason, due.result.tokens, due.workUnits], ['deadline', output.slice(0, 1), 6]);
  });
});

describe('refused', () => {
  /** @type {any} */
  let engine;
  /** @type {any} */
  let model;
  before(async () => {
    engine = await createEngine({ threads: 1 });
    model = await engine.load(fromBytes(THRESHOLD));
  });
  after(() => engine.close());

  /** In a session, in the model's own, and by OpenAI's names. @param {any} draft @param {object} error */
  async function refuses(draft, error) {
    const speculate = { model: draft };
    const session = await model.createSession();
    await assert.rejects(session.generate('x', { speculate }).result, error);
    assert.equal((await session.generate('x', { maxTokens: 3 }).result).tokens.length, 3, 'it goes on');
    await session.close();
    await assert.rejects(model.generate('x', { speculate }).result, error);
    const ofRequest = 'details' in error ? { ...error, details: { param: 'bq4.speculate' } } : error;
    await assert.rejects(model.completions.create({ prompt: 'x', bq4: { speculate } }), ofRequest);
  }

  /** One that is like the model, but for its tokenizer. @param {(tokens: any) => void} change */
  async function other(change) {
    const tokens = tokenizer();
    change(tokens);
    return engine.load(fromBytes(await tinyModel({ tokens, config: WIDE })));
  }

  test('a draft model with another vocabulary is refused: other sizes, bytes of a token, or special tokens', async () => {
    const more = await engine.load(fromBytes(await tinyModel({ config: { ...WIDE, vocab: 272 } })));
    const hint = /same family/;
    await refuses(more, { code: 'MISMATCH', hint, message: /differs: vocabSize: expected 271, found 272$/ });
    const none = await engine.load(fromBytes(await tinyModel({ config: WIDE, tokens: null })));
    await refuses(none, { code: 'MISMATCH', message: /tokenizerSize: expected 271, found 0$/ });
    const bytes = await other(({ tokens }) => ([tokens[70], tokens[71]] = [tokens[71], tokens[70]]));
    await refuses(bytes, { code: 'MISMATCH', message: /token 70: expected "A", found "B"$/ });
    const special = await other(({ tokens }) => (tokens[3].kind = 0));
    await refuses(special, {
      code: 'MISMATCH',
      message: /token 3: expected the special "<\|end\|>", found "<\|end\|>"$/,
    });
    const longer = await other(({ tokens, merges }) => {
      merges.pop();
      tokens[270].bytes = new TextEncoder().encode('est');
    });
    await refuses(longer, { code: 'MISMATCH', message: /token 270: expected "es", found "est"$/ });
    // What ends a text, what a text begins with, and how words are cut are the large model's.
    const like = await other((all) =>
      Object.assign(all, { flags: 0, eog: [0], eos: 3, merges: all.merges.slice(0, -1) }),
    );
    for (let i = 0; i < 2; i++)
      assert.ok((await model.generate('x', { ...GREEDY, speculate: { model: like } }).result).usage.draftedTokens > 0);
    for (const one of [more, none, bytes, special, longer, like]) await one.close();
  });

  test('a closed draft model, one of another engine, an encoder and other values are refused', async () => {
    const isGone = await engine.load(fromBytes(THRESHOLD));
    await isGone.close();
    const lost = {
      code: 'CLOSED',
      message: 'the draft model was closed, or belongs to another engine',
      hint: /with the same engine/,
    };
    await refuses(isGone, lost);
    const elsewhere = await createEngine({ threads: 1 });
    await refuses(await elsewhere.load(fromBytes(THRESHOLD)), lost);
    await elsewhere.close();
    const encoder = await engine.load(fromFile(BERT));
    await refuses(encoder, {
      code: 'UNSUPPORTED',
      message: 'the draft model is an embedding model; it cannot generate text',
    });
    await encoder.close();
    for (const draft of [{}, 5, { info: {} }, undefined])
      await refuses(draft, { code: 'ARGUMENT', details: { param: 'speculate' } });
    // Itself, of which all sessions are in use.
    await assert.rejects(model.generate('x', { speculate: { model } }).result, { code: 'NO_SESSION' });
  });
});

for (const [name, create] of /** @type {const} */ ([
  ['this thread', createEngine],
  ['a worker', createWorkerEngine],
]))
  test(`OpenAI's calls in ${name}: several choices, each with a session of the small model, as far as it has some`, async () => {
    const engine = await create();
    const load = (/** @type {number} */ sessions) => engine.load(fromBytes(THRESHOLD), { sessions });
    const [model, one, three] = [await load(3), await load(1), await load(3)];
    const ask = (/** @type {any} */ speculate) =>
      model.completions.create({ prompt: ids, n: 3, seed: 1, temperature: 0.5, max_tokens: 20, bq4: { speculate } });
    const [plain, few, all] = [await ask(false), await ask({ model: one }), await ask({ model: three, tokens: 2 })];
    assert.deepEqual([few.choices, all.choices], [plain.choices, plain.choices]);
    for (const { usage } of [few, all])
      assert.ok(Number(usage?.completion_tokens_details.accepted_prediction_tokens) > 10);
    await assert.rejects(ask({ model: one.info.id }), { code: 'ARGUMENT', message: /a loaded model/ });
    await engine.close();
  });
