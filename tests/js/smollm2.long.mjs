// Tests of SmolLM2 with many steps: a cache with eviction, draft tokens, a part of the LM head.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEngine, fromFile } from '../../js/node.js';
import { NO_REAL_MODEL, realModel } from '../../tools/setup/models.mjs';
import { openLogits } from './logits.mjs';

const found = realModel('smollm2');
const skip = found ? false : NO_REAL_MODEL;
const file = String(found);

test('SmolLM2 still replies after a conversation of many times the cache', { skip }, async () => {
  const story = 'She walked along the river and counted the boats, the birds and the clouds. ';
  const engine = await createEngine();
  const model = await engine.load(fromFile(file), { contextTokens: 9000, kvWindow: 64 });
  assert.ok(model.info.contextTokens > model.info.trainedContext);
  const messages = Array.from({ length: 10 }, (_, i) => [
    { role: /** @type {const} */ ('user'), content: `Part ${i}. ${story.repeat(4)} What did she count?` },
    { role: /** @type {const} */ ('assistant'), content: 'She counted the boats, the birds and the clouds.' },
  ]).flat();
  const question = { role: /** @type {const} */ ('user'), content: 'What is the capital of France?' };
  const { text, usage } = await model.generate([...messages, question], { temperature: 0, maxTokens: 24 }).result;
  assert.ok(usage.promptTokens > 8 * 64);
  assert.match(text, /Paris/);
  await engine.close();
});

test('SmolLM2 as its own draft model, complete and with skipped layers', { skip }, async () => {
  const engine = await createEngine();
  const load = (/** @type {object} */ options) => engine.load(fromFile(file), { contextTokens: 512, ...options });
  const [model, less] = [await load({ sessions: 2 }), await load({ quality: { skipLayers: [14, 18] } })];
  const story = 'Once upon a time, there was a little girl who lived in a';
  for (const temperature of [0, 0.7]) {
    const options = { temperature, seed: 3, maxTokens: 40 };
    const plain = await model.generate(story, options).result;
    for (const draft of [model, less]) {
      const {
        tokens: output,
        timings,
        usage,
      } = await model.generate(story, { ...options, speculate: { model: draft } }).result;
      assert.deepEqual(output, plain.tokens);
      assert.ok(usage.acceptedTokens > 5, JSON.stringify(timings));
      if (draft === model && !temperature) assert.equal(usage.acceptedTokens, usage.draftedTokens);
    }
  }
  await engine.close();
});

test('SmolLM2: a third of the LM head finds nearly all choices of the complete head', { skip }, async () => {
  const whole = await openLogits(fromFile(file), {
    contextTokens: 256,
    activations: 'i16',
    kv: 'i8',
    quality: { lmHeadFraction: 0.3 },
    sessions: 2,
  });
  const { wasm, another, model } = whole;
  wasm.check('bqw_model_cluster', model);
  const some = another();
  wasm.check('bqw_session_clusters', some.session, 1);
  const best = (/** @type {Float32Array} */ logits) => logits.indexOf(logits.reduce((a, b) => Math.max(a, b)));
  let id = 504;
  let same = 0;
  let logits = [whole, some].map((one) => one.start([1, id]));
  for (let i = 0; i < 50; i++) {
    id = best(logits[0]);
    same += Number(best(logits[1]) === id);
    logits = [whole, some].map((one) => one.next(id));
  }
  assert.ok(same >= 47, `${same} of 50`);
  whole.close();
});
