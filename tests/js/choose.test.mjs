// Tests of the probabilities of given answers: they are products of the model's probabilities of each token, however the tokens are
// computed.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { createEngine, fromFile } from '../../js/node.js';
import { createWorkerEngine, fromBytes } from '../../js/index.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { tinyModel, tokenizer } from './fixture.mjs';

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
        const logitBias = [{ token: id, bias: 1e9 }];
        const options = { maxTokens: 1, temperature: 0, logprobs: 0, logitBias };
        for await (const part of session.generate([...base, ...tail.slice(0, i)], options)) {
          assert.equal(part.token, id);
          sum += part.logprobs?.logprob ?? NaN;
        }
      }
      await session.close();
      return sum;
    }

    test('choose computes options of several tokens like generate computes them one by one', async () => {
      const options = ['yes', 'yet', 'no', 'no, you'];
      const prompt = 'Is it in the house?';
      const { options: report, best, promptTokens } = await model.choose(prompt, options);
      const base = await model.tokenize(prompt);
      assert.equal(promptTokens, base.length);
      for (const [i, { text, logprob, tokens }] of report.entries()) {
        assert.equal(text, options[i]);
        assert.deepEqual([...base, ...tokens], await model.tokenize(prompt + text));
        near(logprob, await byHand(base, tokens));
      }
      const sum = report.reduce((all, { logprob }) => all + Math.exp(logprob), 0);
      for (const { probability, logprob } of report) near(probability, Math.exp(logprob) / sum);
      assert.equal(best, [...report].sort((a, b) => b.logprob - a.logprob)[0].text);
    });

    test('if a prompt ends within a token, all options are scored from the token before', async () => {
      const prompt = 'in th';
      const { options: report, promptTokens } = await model.choose(prompt, ['e', 'x']);
      const base = (await model.tokenize(prompt)).slice(0, promptTokens);
      for (const { text, tokens, logprob } of report) {
        assert.deepEqual([...base, ...tokens], await model.tokenize(prompt + text));
        near(logprob, await byHand(base, tokens));
      }
      assert.ok(promptTokens < (await model.tokenize(prompt)).length);
    });

    test('choose computes the prompt and common beginnings of options once', async () => {
      const session = await model.createSession();
      const prompt = 'Do you know the answer to it?';
      const first = await session.choose(prompt, ['abcd', 'abce', 'x']);
      const n = (await model.tokenize(prompt)).length;
      // Behind the prompt: a, ab, abc.
      assert.deepEqual([first.cachedTokens, first.computedTokens], [0, n + 3]);
      const again = await session.choose(prompt, ['x', 'abcd', 'abce']);
      assert.ok(again.computedTokens <= 4, `${again.computedTokens}`);
      assert.deepEqual(
        again.options.map(({ logprob }) => logprob),
        [2, 0, 1].map((i) => first.options[i].logprob),
      );
      const { tokens } = await session.stats();
      assert.equal(tokens, n);
      const fromHere = await session.choose([], ['abcd', 'abce', 'x']);
      assert.deepEqual(fromHere.options, first.options);
      await session.close();
    });

    test('choose with messages scores the beginning of the reply', async () => {
      const messages = [{ role: 'user', content: 'Hi' }];
      const { options, promptTokens } = await model.choose(messages, ['you', 'an']);
      assert.equal(promptTokens, await model.countTokens(messages));
      const base = [0, 1, ...(await model.tokenize('Hi', { addSpecial: false })), 3, 2];
      for (const { text, tokens, logprob } of options) {
        assert.deepEqual(tokens, await model.tokenize(text, { addSpecial: false }));
        near(logprob, await byHand(base, tokens));
      }
    });

    test('choose refuses options that are empty, repeated or too long; an abort ends it', async () => {
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

test('options after an empty prompt follow BOS, or are refused without one: never what another call has computed', async () => {
  const engine = await createEngine({ threads: 1 });
  const withBos = await engine.load(fromBytes(await tinyModel()));
  const first = await withBos.choose('', ['the end', 'you']);
  assert.equal(first.promptTokens, 1);
  await withBos.generate('The text of an earlier call.', { maxTokens: 2 }).result;
  for (const prompt of ['', new Uint32Array([0])]) {
    const { options, promptTokens } = await withBos.choose(prompt, ['the end', 'you']);
    assert.deepEqual({ options, promptTokens }, { options: first.options, promptTokens: 1 });
  }
  const tokens = { ...tokenizer(), flags: 0 };
  const withoutBos = await engine.load(fromBytes(await tinyModel({ tokens })), { sessions: 2 });
  const error = { code: 'ARGUMENT', message: 'expected a prompt with at least one token, found none' };
  const session = await withoutBos.createSession();
  for (const options of [
    ['a', 'b'],
    ['xyz', 'zyx'],
  ]) {
    await assert.rejects(session.choose([], options), error); // a new session
    for (let i = 0; i < 2; i++) {
      await assert.rejects(withoutBos.choose('', options), error);
      await assert.rejects(withoutBos.choose([], options), error);
      await assert.rejects(withBos.choose([], options), error);
      await withoutBos.generate('The text of an earlier call.', { maxTokens: 2 }).result;
    }
  }
  await engine.close();
});

test('a prompt of which no token is common to all options is refused', async () => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await tinyModel({ tokens: { ...tokenizer(), flags: 0 } })));
  assert.deepEqual([(await model.tokenize('th')).length, (await model.tokenize('tx')).length], [1, 2]);
  await assert.rejects(model.choose('t', ['h', 'x']), {
    code: 'ARGUMENT',
    message: /^the prompt "t": expected at least one token that is the same with every option, found none/,
  });
  assert.equal((await model.choose('t', ['x', 'y'])).promptTokens, 1);
  await engine.close();
});

const EXAMPLES = `Review: What a great story, I enjoyed it.
Sentiment: positive

Review: Dull and far too long, a waste of time.
Sentiment: negative

`;
const real = realModel('smollm2');
test('SmolLM2 classifies the sentiment of film reviews', { skip: real ? false : NO_REAL_MODEL }, async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const model = await engine.load(fromFile(/** @type {string} */ (real)), { contextTokens: 512 });
  const ask = (/** @type {string} */ review) =>
    model.choose(`${EXAMPLES}Review: ${review}\nSentiment:`, [' positive', ' negative']);
  assert.equal((await ask('I loved every minute of this wonderful film.')).best, ' positive');
  assert.equal((await ask('A boring, terrible mess. I hated it.')).best, ' negative');
  await engine.close();
});

/** Of log probabilities: f32 here, f32 there, sums in another order. */
const TOLERANCE = 1e-4;

/** A tokenizer file as llama2.c has them: each token but the first three is a space and a letter of its own. @param {number} vocab */
function letters(vocab) {
  const parts = Array.from({ length: vocab }, (_, id) => {
    const text = Buffer.from(['<unk>', '\n<s>\n', '\n</s>\n'][id] ?? ` ${letter(id)}`);
    const head = Buffer.alloc(8);
    head.writeFloatLE(-id, 0);
    head.writeInt32LE(text.length, 4);
    return Buffer.concat([head, text]);
  });
  const longest = Buffer.alloc(4);
  longest.writeInt32LE(8, 0);
  return Buffer.concat([longest, ...parts]);
}
const letter = (/** @type {number} */ id) => String.fromCodePoint(0x4e00 + id);

for (const name of ['llama-gqa', 'llama-biases', 'llama-odd'])
  test(`${name}: log probabilities of answers are those of transformers' logits, within ${TOLERANCE}`, async (t) => {
    const from = fileURLToPath(new URL(`../golden/fixtures/${name}`, import.meta.url));
    const { ids, vocab, logits } = JSON.parse(readFileSync(join(from, 'expected.json'), 'utf8'));
    const rows = new Float32Array(Uint8Array.from(Buffer.from(logits, 'base64')).buffer);
    const folder = mkdtempSync(join(tmpdir(), 'bq4-choose-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const [tokenizer, to] = [join(folder, 'tokenizer.bin'), join(folder, 'model.bq4')];
    writeFileSync(tokenizer, letters(vocab));
    await convert(from, to, { quant: 'f32', tokenizer });
    const engine = await createEngine({ threads: 1 });
    t.after(() => engine.close());
    const model = await engine.load(fromFile(to), { kv: 'f32' });
    /** Of a token, by the logits behind so many ids. @param {number} id @param {number} behind */
    const logprob = (id, behind) => {
      const row = Array.from(rows.subarray((behind - 1) * vocab, behind * vocab));
      const most = Math.max(...row);
      return row[id] - most - Math.log(row.reduce((sum, x) => sum + Math.exp(x - most), 0));
    };
    let compared = 0;
    let worst = 0;
    for (let at = 2; at + 3 <= ids.length; at++) {
      if (ids.slice(at, at + 3).some((/** @type {number} */ id) => id < 3)) continue;
      // What followed there, one to three tokens of it, and each other token alone.
      const answers = [1, 2, 3].map((n) => ids.slice(at, at + n));
      for (let id = 3; id < vocab; id++) if (id !== ids[at]) answers.push([id]);
      const reports = await model.choose(
        ids.slice(0, at),
        answers.map((answer) => answer.map(letter).join(' ')),
      );
      for (const [i, answer] of answers.entries()) {
        assert.deepEqual(reports.options[i].tokens, answer);
        const wanted = answer.reduce((sum, /** @type {number} */ id, n) => sum + logprob(id, at + n), 0);
        worst = Math.max(worst, Math.abs(reports.options[i].logprob - wanted));
        compared++;
      }
    }
    assert.ok(worst < TOLERANCE, `${worst}`);
    assert.ok(compared > 500, `${compared}`);
    t.diagnostic(`${compared} answers, at most ${worst} apart`);
  });
