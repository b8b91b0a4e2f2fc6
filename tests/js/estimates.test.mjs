// Tests of estimates of a plan, which are within 25 % of the actual values: fetched bytes, memory, bytes read per token, and the speed. No
// time is measured: the rate of the kernels is given as a number.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { expectedSpeed, paceOf } from '../../demo/models/expected-speed.js';
import { wordSpeed } from '../../demo/page/format.js';
import { rateOf } from '../../js/engine/speed-estimate.js';
import { createEngine, fromBytes, fromUrl } from '../../js/node.js';
import { faultServer } from '../server/faults.mjs';
import { tinyModel } from './fixture.mjs';

const engine = await createEngine({ build: 'simd128', threads: 1 });
after(() => engine.close());

/** @param {number} message @param {number} arrivals @param {string} what */
const near = (message, arrivals, what) =>
  assert.ok(Math.abs(message - arrivals) <= 0.25 * arrivals, `${what}: ${message} were said, ${arrivals} came`);

const SHAPE = { context: 2048, hidden: 256, ffn: 768, layers: 4, heads: 4, kv_heads: 4 };

for (const type of ['f32', 'bq8', 'bq4'])
  test(`estimates of fetched bytes, memory and bytes per token: ${type}`, async (t) => {
    const file = await tinyModel({ config: SHAPE, type });
    const server = await faultServer({ '/m.bq4': file });
    t.after(server.close);
    const plan = await engine.plan(fromUrl(server.at('/m.bq4')), { contextTokens: 512 });
    const model = await engine.load(fromUrl(server.at('/m.bq4')), { contextTokens: 512 });
    near(
      plan.fileBytes,
      server.asked().reduce((sum, { sent }) => sum + sent, 0),
      'bytes',
    );
    const { heap, peak } = await model.memory();
    near(plan.heapBytes, heap, 'heap');
    assert.ok(peak <= plan.heapBytes, `${peak} bytes in use`);

    const session = await model.createSession();
    await session.generate([1, 2, 3], { maxTokens: 1 }).result;
    await session.trace({ on: true });
    await session.generate([1, 2, 3, 4], { maxTokens: 1 }).result;
    const read = (await session.trace()).reduce((sum, stage) => sum + stage.weightBytes, 0);
    near(plan.weightBytes, read, 'bytes of a token');
    await model.close();
  });

test('memory per 1,000 tokens of a plan equals the additional memory of a larger context', async () => {
  const source = fromBytes(await tinyModel({ config: SHAPE, type: 'bq4' }));
  const heap = async (/** @type {number} */ context) => {
    const model = await engine.load(source, { contextTokens: context });
    const { info } = model;
    const { heap } = await model.memory();
    await model.close();
    return { heap, per1000: info.kvBytesPer1000, sessions: info.sessions };
  };
  const [small, large] = [await heap(256), await heap(2048)];
  near((small.per1000 * small.sessions * (2048 - 256)) / 1000, large.heap - small.heap, 'KV cache');
});

test('the estimated speed follows the measured rate, inversely proportional to weights and their bits', () => {
  const plan = { tokenWeights: 10e6, weightBytes: (10e6 * 4.5) / 8 };
  const rate = Number(rateOf(2, plan));
  // 8 products of 896 x 1024 weights in 2 ms: so many weights a second.
  near(rate, (8 * 896 * 1024) / 0.002 / 10e6, 'tokens per second');
  near(Number(rateOf(4, plan)), rate / 2, 'kernels half as fast');
  near(Number(rateOf(2, { tokenWeights: 20e6, weightBytes: 2 * plan.weightBytes })), rate / 2, 'twice the weights');
  near(Number(rateOf(2, { ...plan, weightBytes: 2 * plan.weightBytes })), rate / 2, 'twice the bits');
  near(Number(rateOf(2, { ...plan, activations: 'i16' })), rate / 1.85, 'finer activations');
  assert.equal(rateOf(2, { tokenWeights: 0, weightBytes: 0 }), null);
  assert.equal(rateOf(NaN, plan), null, 'no clock');
});

test('an estimate uses earlier conversions of the same kind, otherwise of other kinds, otherwise an upper bound', () => {
  const known = [
    { rate: 50, estimate: 100, at: 3 },
    { rate: 60, estimate: 100, at: 2 },
    { rate: 40, estimate: 100, at: 1 },
    { rate: 1, estimate: 100, at: 0 },
    { rate: 70 },
    null,
  ];
  near(Number(paceOf(known)), 0.5, 'of the last three');
  assert.equal(paceOf([{ rate: 5 }, null]), null);
  assert.match(expectedSpeed(200, 90, 0.5), /^90 tokens\/s \(about 68 words\/s\) when you last used it here$/);
  assert.match(expectedSpeed(200, null, 0.5), /^about 100 tokens\/s \(75 words\/s\), judging by models you used/);
  assert.match(expectedSpeed(200, null, null), /^up to 200 tokens\/s \(about 150 words\/s\)/);
  assert.equal(expectedSpeed(null, null, 0.5), '');
});

test('the speed of a reply is in words per second, in tokens without spaces, and omitted for short replies', () => {
  const speedOf = (/** @type {string} */ text, /** @type {number} */ tokens) =>
    wordSpeed(/** @type {any} */ ({ text, usage: { completionTokens: tokens }, timings: { decodeMs: 1000 } }));
  assert.equal(speedOf('word '.repeat(20), 41), '20 words/s');
  assert.equal(speedOf('字'.repeat(41), 41), '40 tokens/s');
  assert.equal(speedOf('word '.repeat(15), 15), '');
  assert.equal(speedOf('word '.repeat(16), 16), '15 words/s');
});
