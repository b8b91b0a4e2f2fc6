// How likely given answers are: the products of what the model finds of each token, however the tokens were computed.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createEngine, fromFile } from '../../js/engine.js';
import { createWorkerEngine, fromBytes } from '../../js/index.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { tinyModel } from './fixture.mjs';

/** @param {number} a @param {number} b */
const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-6, `${a}, not ${b}`);

for (const [name, create] of /** @type {const} */ ([
  ['in this thread', createEngine],
  ['in a worker', createWorkerEngine],
])) {
  describe(`choose ${name}`, () => {
    /** @type {import('../../js/shared/types.js').Engine} */
    let engine;
    /** @type {import('../../js/shared/types.js').Model} */
    let model;
    before(async () => {
      engine = await create();
      model = await engine.load(fromBytes(await tinyModel()), { sessions: 2 });
    });
    after(() => engine.close());

    /** Log probability of tokens behind others: each is forced by a bias, and what generate tells of it is added up. @param {number[]} base @param {number[]} tail */
    async function byHand(base, tail) {
      const session = await model.createSession();
      let sum = 0;
      for (const [i, id] of tail.entries()) {
        const logitBias = [{ id, bias: 1e9 }];
        const options = { maxTokens: 1, temperature: 0, logprobs: 0, logitBias };
        for await (const part of session.generate([...base, ...tail.slice(0, i)], options)) {
          assert.equal(part.id, id);
          sum += part.logprobs?.logprob ?? NaN;
        }
      }
      await session.close();
      return sum;
    }

    test('of options of several tokens: those that generate tells one by one', async () => {
      const options = ['yes', 'yet', 'no', 'no, you'];
      const prompt = 'Is it in the house?';
      const { options: told, best, promptTokens } = await model.choose(prompt, options);
      const base = await model.tokenize(prompt);
      assert.equal(promptTokens, base.length);
      for (const [i, { text, logprob, tokens }] of told.entries()) {
        assert.equal(text, options[i]);
        assert.deepEqual([...base, ...tokens], await model.tokenize(prompt + text));
        near(logprob, await byHand(base, tokens));
      }
      const sum = told.reduce((all, { logprob }) => all + Math.exp(logprob), 0);
      for (const { probability, logprob } of told) near(probability, Math.exp(logprob) / sum);
      assert.equal(best, [...told].sort((a, b) => b.logprob - a.logprob)[0].text);
    });

    test('where a prompt ends amid a token, all options are counted from before it', async () => {
      const prompt = 'in th';
      const { options: told, promptTokens } = await model.choose(prompt, ['e', 'x']);
      const base = (await model.tokenize(prompt)).slice(0, promptTokens);
      for (const { text, tokens, logprob } of told) {
        assert.deepEqual([...base, ...tokens], await model.tokenize(prompt + text));
        near(logprob, await byHand(base, tokens));
      }
      assert.ok(promptTokens < (await model.tokenize(prompt)).length);
    });

    test('a prompt is computed once, and what options begin with alike too', async () => {
      const session = await model.createSession();
      const prompt = 'Do you know the answer to it?';
      const first = await session.choose(prompt, ['abcd', 'abce', 'x']);
      const n = (await model.tokenize(prompt)).length;
      // Behind the prompt: a, ab, abc.
      assert.deepEqual([first.reusedTokens, first.computedTokens], [0, n + 3]);
      const again = await session.choose(prompt, ['x', 'abcd', 'abce']);
      assert.ok(again.computedTokens <= 4, `${again.computedTokens}`);
      assert.deepEqual(
        again.options.map(({ logprob }) => logprob),
        [2, 0, 1].map((i) => first.options[i].logprob),
      );
      const { tokens } = await session.stats();
      assert.equal(tokens, n);
      const fromHere = await session.choose(null, ['abcd', 'abce', 'x']);
      assert.deepEqual(fromHere.options, first.options);
      await session.close();
    });

    test('of messages: the beginning of the reply', async () => {
      const messages = [{ role: 'user', content: 'Hi' }];
      const { options, promptTokens } = await model.choose(messages, ['you', 'an']);
      assert.equal(promptTokens, await model.countTokens(messages));
      const base = [0, 1, ...(await model.tokenize('Hi', { addSpecial: false })), 3, 2];
      for (const { text, tokens, logprob } of options) {
        assert.deepEqual(tokens, await model.tokenize(text, { addSpecial: false }));
        near(logprob, await byHand(base, tokens));
      }
    });

    test('options that are empty, repeat or do not fit; aborts', async () => {
      for (const wrong of [[], ['a', ''], ['a', 'a'], 'yes', [1, 2]])
        await assert.rejects(model.choose('x', /** @type {any} */ (wrong)), { code: 'ARGUMENT', message: /options/ });
      await assert.rejects(model.choose('x', ['a'], /** @type {any} */ ({ temperature: 0 })), { code: 'ARGUMENT' });
      await assert.rejects(model.choose('x', ['y', 'z'.repeat(300)]), { code: 'CONTEXT_FULL' });
      await assert.rejects(model.choose('x', ['y'], { signal: AbortSignal.abort() }), { name: 'AbortError' });
      // Behind a port the prompt may be done before it hears of the abort.
      if (name !== 'in this thread') return;
      const controller = new AbortController();
      const session = await model.createSession();
      const onProgress = () => controller.abort();
      await assert.rejects(session.choose('a'.repeat(200), ['x', 'y'], { signal: controller.signal, onProgress }), {
        name: 'AbortError',
      });
      assert.equal((await session.choose('a', ['x'])).options[0].probability, 1);
      await session.close();
    });
  });
}

const EXAMPLES = `Review: What a great story, I enjoyed it.
Sentiment: positive

Review: Dull and far too long, a waste of time.
Sentiment: negative

`;
const real = realModel('smollm2');
test('SmolLM2: what people feel about a film', { skip: real ? false : NO_REAL_MODEL }, async () => {
  const engine = await createEngine();
  const model = await engine.load(fromFile(/** @type {string} */ (real)), { context: 512 });
  const ask = (/** @type {string} */ review) =>
    model.choose(`${EXAMPLES}Review: ${review}\nSentiment:`, [' positive', ' negative']);
  assert.equal((await ask('I loved every minute of this wonderful film.')).best, ' positive');
  assert.equal((await ask('A boring, terrible mess. I hated it.')).best, ' negative');
  await engine.close();
});
