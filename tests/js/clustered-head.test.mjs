// Tests of the clustered LM head with the public interface. tests/c/test_clusters.c compares its results.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEngine, fromBytes } from '../../js/node.js';
import { createWorkerEngine } from '../../js/index.js';
import { loadOptions, readReceipt, receiptOf, replay } from '../../js/api/receipts/index.js';
import { tinyModel } from './fixture.mjs';

const tiny = await tinyModel();
const source = fromBytes(tiny);
const ids = Array.from({ length: 40 }, (_, i) => (i * 7 + (i % 5)) % 200);
/** It never ends by itself: a model of noise may take any token, the last clusters' too. */
const options = { temperature: 1, stopTokens: [], maxTokens: 30, seed: 3 };
/** Two of nine clusters. */
const quality = { lmHeadFraction: 0.25 };

/** @param {import('../../js/shared/types.js').Model} model @param {object} [more] */
const written = async (model, more) => (await model.generate(ids, { ...options, ...more }).result).tokens;

test('the clustered LM head gives the same tokens in each build, with and without threads and in a worker; they differ from those of the complete head', async () => {
  const all = [];
  for (const make of [
    () => createEngine({ build: 'simd128', threads: 1 }),
    () => createEngine({ build: 'relaxed', threads: 3 }),
    () => createWorkerEngine({ threads: 2 }),
  ]) {
    const engine = await make();
    const model = await engine.load(source, { quality, prefillBatch: all.length ? 32 : 3 });
    assert.deepEqual(model.info.quality, quality);
    all.push(await written(model));
    await engine.close();
  }
  assert.deepEqual(all[1], all[0]);
  assert.deepEqual(all[2], all[0]);
  const engine = await createEngine({ threads: 1 });
  const whole = await engine.load(source);
  assert.equal(whole.info.quality, null);
  assert.notDeepEqual(await written(whole), all[0]);
  await engine.close();
});

test('a load plan includes the memory of clusters, and a model does not exceed it', async () => {
  const engine = await createEngine({ threads: 1 });
  const [whole, some] = [await engine.plan(source), await engine.plan(source, { quality })];
  assert.ok(some.heapBytes > whole.heapBytes);
  const model = await engine.load(source, { quality, memoryBudget: some.heapBytes });
  assert.deepEqual(model.info.gaveUp, []);
  const before = await model.memory();
  await written(model);
  const after = await model.memory();
  assert.ok(after.used > before.used);
  assert.ok(after.peak <= after.heap);
  await engine.close();
});

test('with formats, biases and choices the complete LM head is computed', async () => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(source, { quality, sessions: 2 });
  const whole = await engine.load(source);
  const session = await model.createSession();
  const first = await session.generate(ids, options).result;
  for (const more of /** @type {import('../../js/shared/types.js').GenerateOptions[]} */ ([
    { responseFormat: { type: 'regex', pattern: '[a-z]{20}' } },
    { logitBias: [{ token: 0, bias: -Infinity }] },
  ]))
    assert.deepEqual((await session.generate(ids, { ...options, ...more }).result).tokens, await written(whole, more));
  const chosen = await (await whole.createSession()).choose(ids, ['a', 'bc']);
  assert.deepEqual((await session.choose(ids, ['a', 'bc'])).options, chosen.options);
  // What was computed of all does not remain.
  assert.deepEqual((await session.generate(ids, options).result).tokens, first.tokens);
  // Neither draft tokens nor other generations at the same time change the result.
  const other = await model.createSession();
  const both = [session, other].map((one) => one.generate(ids, { ...options, speculate: true }).result);
  for (const { tokens: output } of await Promise.all(both)) assert.deepEqual(output, first.tokens);
  await engine.close();
});

test('exiting at a layer gives the same result as skipping all layers from it on', async () => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(source, { quality: { exitLayer: 2, skipLayers: [0] }, sessions: 2 });
  const [session, same] = [await model.createSession(), await model.createSession({ quality: { skipLayers: [2, 0] } })];
  const { tokens: output } = await session.generate(ids, options).result;
  assert.deepEqual((await same.generate(ids, options).result).tokens, output);
  const again = await session.generate(ids, options).result;
  const receipt = await readReceipt(JSON.stringify(await receiptOf(model, session, again, options)));
  assert.deepEqual(loadOptions(receipt).quality, { exitLayer: 2, skipLayers: [0] });
  await session.close();
  await assert.rejects(model.createSession({ quality: { exitLayer: 3 } }), {
    code: 'ARGUMENT',
    message: /no layer 3 to be left out/,
  });
  await engine.close();
});

test('a receipt contains the quality options', async () => {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(source, { quality });
  const session = await model.createSession();
  const result = await session.generate(ids, options).result;
  const receipt = await readReceipt(JSON.stringify(await receiptOf(model, session, result, options)));
  await session.close();
  assert.deepEqual(loadOptions(receipt).quality, quality);
  assert.equal((await replay(model, receipt)).equal, true);
  const changed = { ...receipt, model: { ...receipt.model, quality: { lmHeadFraction: 0.5 } } };
  await assert.rejects(readReceipt(JSON.stringify(changed)), { code: 'MISMATCH' });
  await engine.close();
});

test('impossible quality options are refused with a hint', async () => {
  const engine = await createEngine({ threads: 1 });
  for (const wrong of [{ lmHeadFraction: 0 }, { lmHeadFraction: 'some' }, { head: 0.5 }, { constructor: 1 }, 0.5])
    await assert.rejects(engine.load(source, { quality: /** @type {any} */ (wrong) }), {
      code: 'ARGUMENT',
      message: /quality: expected \{ skipLayers, exitLayer, lmHeadFraction \}/,
    });
  await assert.rejects(engine.load(source, { quality: { lmHeadFraction: 1 } }), {
    code: 'ARGUMENT',
    message: /less than 1/,
  });
  const whole = await engine.load(source);
  await assert.rejects(whole.createSession({ quality }), {
    code: 'NOMEM',
    hint: 'load the model with quality.lmHeadFraction',
  });
  const large = fromBytes(await tinyModel({ config: { layers: 12, ffn: 1024 }, type: 'bq4_32' }));
  const small = { contextTokens: 128, prefillWindow: 16, prefillBatch: 8 };
  const { heapBytes, weightBytes } = await engine.plan(large, small);
  await assert.rejects(
    engine.load(large, { ...small, quality, memoryBudget: Math.floor(heapBytes - 0.4 * weightBytes) }),
    {
      code: 'NOMEM',
      hint: /a head by clusters needs all weights in memory/,
    },
  );
  await engine.close();
});
