// Tests of embeddings: vectors equal those of transformers' hidden states, alone and among others, with every engine.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { createEngine, fromBytes, fromFile } from '../../js/node.js';
import { createWorkerEngine } from '../../js/index.js';
import { modelRows } from '../models-report.mjs';
import { tinyModel } from './fixture.mjs';

const BERT = fileURLToPath(new URL('../golden/fixtures/bert', import.meta.url));
const { ids, hidden, states, made_with: output } = JSON.parse(readFileSync(join(BERT, 'expected.json'), 'utf8'));
const rows = new Float32Array(Uint8Array.from(Buffer.from(states, 'base64')).buffer);
const state = (/** @type {number} */ i) => Array.from(rows.subarray(i * hidden, (i + 1) * hidden));
const length = (/** @type {ArrayLike<number>} */ v) => Math.hypot(...Array.from(v));

const folder = mkdtempSync(join(tmpdir(), 'bq4-embed-'));
after(() => rmSync(folder, { recursive: true }));
const path = join(folder, 'bert.bq4');
await convert(BERT, path, { quant: 'f32' });

let error = 0;
after(() =>
  modelRows('architectures', 'embeddings', [
    { architecture: 'bert', source: 'safetensors', error, against: `transformers ${output.transformers}` },
  ]),
);

/** @param {ArrayLike<number>} got @param {number[]} wanted */
function near(got, wanted) {
  assert.equal(got.length, wanted.length);
  wanted.forEach((x, i) => {
    error = Math.max(error, Math.abs(got[i] - x));
    assert.ok(Math.abs(got[i] - x) < 1e-3, `${i}: ${got[i]}, not ${x}`);
  });
}

/** The fixture with what sentence-transformers says beside it. @param {string} name @param {object[]} modules @param {object} pooling */
function sentenceFolder(name, modules, pooling) {
  const path = join(folder, name);
  cpSync(BERT, path, { recursive: true });
  mkdirSync(join(path, '1_Pooling'));
  const files = {
    'modules.json': modules,
    'sentence_bert_config.json': { max_seq_length: 20 },
    '1_Pooling/config.json': pooling,
  };
  for (const [file, content] of Object.entries(files)) writeFileSync(join(path, file), JSON.stringify(content));
  return path;
}
const [FIRST, POOLED, NORMALIZED] = ['.Transformer', '1_Pooling.Pooling', '2_Normalize.Normalize'].map((text) => {
  const [path, kind] = text.split('.');
  return { path, type: `sentence_transformers.models.${kind}` };
});

test('the pooling of a sentence-transformers folder is read', async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  /** @param {string} name @param {object[]} modules @param {object} pooling */
  const messageOf = async (name, modules, pooling) => {
    const to = join(folder, `${name}.bq4`);
    await convert(sentenceFolder(name, modules, pooling), to, { quant: 'f32' });
    const { embedding, contextTokens: context } = await engine.plan(fromFile(to));
    return { ...embedding, context };
  };
  assert.deepEqual(
    await messageOf('mean', [FIRST, POOLED, NORMALIZED], {
      pooling_mode_cls_token: false,
      pooling_mode_mean_tokens: true,
    }),
    { pooling: 'mean', normalize: true, tokens: 20, width: 36, context: 20 },
  );
  assert.deepEqual(await messageOf('cls', [FIRST, POOLED], { pooling_mode: 'cls' }), {
    pooling: 'cls',
    normalize: false,
    tokens: 20,
    width: 36,
    context: 20,
  });
  assert.deepEqual(await messageOf('last', [FIRST, POOLED], { pooling_mode_lasttoken: true }), {
    pooling: 'last',
    normalize: false,
    tokens: 20,
    width: 36,
    context: 20,
  });
  await assert.rejects(messageOf('max', [FIRST, POOLED], { pooling_mode_max_tokens: true }), {
    code: 'UNSUPPORTED',
    message: /max_tokens/,
  });
  await assert.rejects(messageOf('both', [FIRST, POOLED], { pooling_mode: ['mean', 'max'] }), {
    code: 'UNSUPPORTED',
    message: /"mean","max"|mean, max/,
  });
  await assert.rejects(
    messageOf('dense', [FIRST, POOLED, { path: '2_Dense', type: 'x.Dense' }], { pooling_mode: 'mean' }),
    {
      code: 'READ',
      message: /2_Dense\/model.safetensors/,
    },
  );
  await assert.rejects(
    messageOf('lstm', [FIRST, POOLED, { path: '2_LSTM', type: 'x.LSTM' }], { pooling_mode: 'mean' }),
    {
      code: 'UNSUPPORTED',
      message: /LSTM/,
    },
  );
  await assert.rejects(messageOf('outside', [{ path: '..', type: 'x.Pooling' }], { pooling_mode: 'mean' }), {
    code: 'FORMAT',
    message: /expected a subfolder/,
  });
  await engine.close();
});

test('bq4 embed: a line of JSON for each text', async () => {
  const file = join(folder, 'tiny.bq4');
  writeFileSync(file, await tinyModel());
  const run = (/** @type {string[]} */ ...args) =>
    spawnSync(process.execPath, ['bin/bq4.js', 'embed', ...args], {
      cwd: fileURLToPath(new URL('../../', import.meta.url)),
      encoding: 'utf8',
    });
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const model = await engine.load(fromFile(file));
  const { vectors } = await model.embed(['the you', 'x'], { pooling: 'last' });
  await engine.close();
  const { stdout, status } = run(file, 'the you', 'x', '--pooling', 'last');
  assert.equal(status, 0);
  assert.deepEqual(
    stdout
      .trim()
      .split('\n')
      .map((line) => Float32Array.from(JSON.parse(line))),
    vectors,
  );
  const long = run(file, 'the you '.repeat(100), '--json', '--context', '9');
  assert.deepEqual(JSON.parse(long.stdout).truncated, [0]);
  assert.match(long.stderr, /text 1 is too long; only its first 9 tokens are used/);
  assert.equal(run(file).status, 2);
  assert.equal(run(file, 'a', '--pooling', 'max').status, 2);
});

for (const [name, create] of Object.entries({ 'in this thread': createEngine, 'in a worker': createWorkerEngine }))
  describe(name, () => {
    /** @type {import('../../js/shared/types.js').Engine} */
    let engine;
    before(async () => {
      engine = await create();
    });
    after(() => engine.close());

    test("an encoder: mean, first and last of transformers' hidden states", async () => {
      const model = await engine.load(fromFile(path));
      const { generates, kv, embedding, contextTokens: context } = model.info;
      assert.deepEqual(
        { generates, kv, embedding, contextTokens: context },
        {
          generates: false,
          kv: 'f32',
          embedding: { pooling: null, normalize: false, tokens: 32, width: 36 },
          contextTokens: 32,
        },
      );
      const vectorOf = async (/** @type {any} */ options) => (await model.embed([ids], options)).vectors[0];
      near(await vectorOf({ pooling: 'cls', normalize: false }), state(0));
      near(await vectorOf({ pooling: 'last', normalize: false }), state(ids.length - 1));
      const mean = state(0).map((_, k) =>
        ids.reduce(
          (/** @type {number} */ sum, /** @type {number} */ _id, /** @type {number} */ i) =>
            sum + state(i)[k] / ids.length,
          0,
        ),
      );
      near(await vectorOf({ pooling: 'mean', normalize: false }), mean);
      near(
        await vectorOf({}),
        mean.map((x) => x / length(mean)),
      );
      await model.close();
    });

    test('a text has the same vector alone, among others and in any order', async () => {
      const model = await engine.load(fromFile(path));
      const texts = [ids, ids.slice(3, 9), [7], ids.slice(0, 20), [7, 8]];
      const { vectors, tokens, truncated } = await model.embed(texts);
      assert.deepEqual({ tokens, truncated }, { tokens: [26, 6, 1, 20, 2], truncated: [] });
      for (const i of [4, 0, 2, 3, 1]) assert.deepEqual((await model.embed([texts[i]])).vectors, [vectors[i]]);
      // Many at once, which are cut into passes as they come.
      const many = Array.from({ length: 60 }, (_, i) => texts[(i * i + 3) % texts.length]);
      assert.deepEqual(
        (await model.embed(many)).vectors,
        many.map((text) => vectors[texts.indexOf(text)]),
      );
      // Calls at once wait for each other.
      const all = await Promise.all(texts.map((text) => model.embed([text])));
      assert.deepEqual(
        all.map((result) => result.vectors[0]),
        vectors,
      );
      await model.close();
    });

    test('an encoder refuses to generate text and names its purpose', async () => {
      const model = await engine.load(fromFile(path));
      const session = await model.createSession();
      await assert.rejects(session.generate([1, 2]).result, { code: 'UNSUPPORTED', hint: /embed/ });
      await model.close();
    });

    test('a decoder embeds texts, and its later replies are unchanged', async () => {
      const model = await engine.load(fromBytes(await tinyModel()), { sessions: 2 });
      const session = await model.createSession();
      const write = async () =>
        (await session.generate('Once upon a time', { temperature: 0, maxTokens: 8 }).result).tokens;
      const before = await write();
      const texts = ['the you', '', 'a longer text, of several words'];
      const { vectors, tokens } = await model.embed(texts);
      assert.deepEqual(
        tokens,
        (await Promise.all(texts.map((text) => model.tokenize(text)))).map((list) => list.length),
      );
      for (const vector of vectors)
        assert.ok(
          vector instanceof Float32Array && vector.length === model.info.hidden && Math.abs(length(vector) - 1) < 1e-5,
        );
      assert.deepEqual((await model.embed(texts[2])).vectors, [vectors[2]], 'a text alone');
      assert.deepEqual(await write(), before);
      await model.close();
    });

    test('a text that is too long is truncated with a notice, or refused', async () => {
      const model = await engine.load(fromBytes(await tinyModel()), { contextTokens: 12 });
      const long = 'the you '.repeat(10);
      const { vectors, tokens, truncated } = await model.embed(['the', long, 'x'.repeat(3e6)]);
      assert.deepEqual({ tokens: tokens.slice(1), truncated }, { tokens: [12, 12], truncated: [1, 2] });
      assert.deepEqual((await model.embed([(await model.tokenize(long)).slice(0, 12)])).vectors, [vectors[1]]);
      await assert.rejects(
        model.embed(['the', long], { truncate: false }),
        (/** @type {any} */ error) =>
          error.code === 'CONTEXT_FULL' && error.details.index === 1 && error.details.most === 12,
      );
      await assert.rejects(model.embed(['the', 'x'.repeat(3e6)], { truncate: false }), (/** @type {any} */ error) => {
        assert.equal(
          `${error.code}: ${error.message}`,
          'CONTEXT_FULL: text 1 has 3000000 characters; the limit is 12 tokens',
        );
        assert.deepEqual(error.details, { index: 1, characters: 3e6, most: 12 });
        return true;
      });
      await model.close();
    });

    test('values that are no texts, empty texts and misspelled options are refused by name', async () => {
      const model = await engine.load(fromFile(path));
      await assert.rejects(model.embed(/** @type {any} */ (7)), { code: 'ARGUMENT', message: /list of texts/ });
      await assert.rejects(model.embed([[1], /** @type {any} */ (null)]), {
        code: 'ARGUMENT',
        message: 'text 1: expected a string or a list of token ids, found null',
      });
      await assert.rejects(model.embed([[]]), { code: 'ARGUMENT', message: /text 0 has no tokens/ });
      await assert.rejects(model.embed([[1], [1e6]]), { code: 'ARGUMENT' });
      await assert.rejects(model.embed(['a']), { code: 'STATE', message: /no tokenizer/ });
      await assert.rejects(model.embed([ids], /** @type {any} */ ({ pool: 'mean' })), {
        code: 'ARGUMENT',
        message: /pooling/,
      });
      await assert.rejects(model.embed([ids], /** @type {any} */ ({ pooling: 'max' })), {
        code: 'ARGUMENT',
        message: /mean, cls, last/,
      });
      assert.deepEqual(await model.embed([]), { vectors: [], tokens: [], truncated: [] });
      await model.close();
    });

    test('an abort ends embed before the start and in progress; later calls succeed', async () => {
      const model = await engine.load(fromBytes(await tinyModel()));
      const reason = new Error('enough');
      await assert.rejects(model.embed(['a'], { signal: AbortSignal.abort(reason) }), reason);
      const controller = new AbortController();
      /** @type {number[]} */
      const seen = [];
      const running = model.embed(Array(400).fill('the you '.repeat(20)), {
        signal: controller.signal,
        onProgress: ({ loaded }) => seen.push(loaded) === 3 && controller.abort(),
      });
      await assert.rejects(running, { name: 'AbortError' });
      assert.ok(seen.length < 400, `${seen.length}`);
      assert.equal((await model.embed(['a'])).vectors.length, 1);
      await model.close();
    });
  });
