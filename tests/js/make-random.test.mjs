// Tests of models with random weights: the same seed gives the same bytes, and every shape and type loads and runs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memorySink } from '../../js/format/output.js';
import { createEngine, fromBytes } from '../../js/node.js';
import { inspect } from '../../bin/inspect.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { makeRandom, SHAPES } from '../../tools/make_random.mjs';

/** @param {string} shape @param {import('../../tools/make_random.mjs').RandomOptions} [options] @param {object} [config] */
async function output(shape, options, config) {
  const sink = memorySink();
  await makeRandom({ ...SHAPES[shape], ...config }, sink, options);
  return sink.bytes;
}

test('seed, shape and types determine the file', async () => {
  const one = await output('tiny-llama', { seed: 7 });
  assert.deepEqual(await output('tiny-llama', { seed: 7 }), one);
  assert.notDeepEqual((await output('tiny-llama', { seed: 8 })).subarray(-5000), one.subarray(-5000));
});

for (const shape of Object.keys(SHAPES)) {
  test(`${shape}: whole, and loads; its results vary`, async () => {
    // The large ones with few layers and a small vocabulary, which leaves their matrices as they are.
    const { shared_kv: sharesKv, conv_layers: recurrent, no_head: embeds } = SHAPES[shape];
    const few = sharesKv ? { layers: 6, shared_kv: 1 } : { layers: 2, ...(recurrent && { conv_layers: [0] }) };
    const small = shape.startsWith('tiny') ? {} : { ...few, vocab: 1024, context: 64 };
    const engine = await createEngine({ build: 'relaxed', threads: 1 });
    for (const quant of shape === '135m' ? ['bq4', 'bq4h', 'bq8', 'bq4_16', 'bq4_64', 'f16'] : ['bq4']) {
      const bytes = await output(shape, { quant }, small);
      const { hashes } = await inspect(openBytes(bytes));
      assert.deepEqual([hashes?.header, hashes?.plan, hashes?.prefix, hashes?.damaged], ['ok', 'ok', 'ok', []]);
      const model = await engine.load(fromBytes(bytes));
      const values = embeds
        ? (await model.embed(['Hello'])).vectors[0]
        : (await model.generate('Hello', { maxTokens: 24, temperature: 1, topK: 0, topP: 1, seed: 3 }).result).tokens;
      assert.ok(new Set(values).size > 4, `${quant}: ${values}`);
      await model.close();
    }
    await engine.close();
  });
}
