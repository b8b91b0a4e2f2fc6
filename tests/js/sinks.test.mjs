// Tests of a KV window with attention sinks and of skipped layers, with the public interface: texts longer than the cache and than the
// context of the model. tests/c/test_sinks.c and test_skip.c compare the results; here those of all builds are compared.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEngine, fromBytes } from '../../js/node.js';
import { loadOptions, readReceipt, receiptOf, replay } from '../../js/api/receipts/index.js';
import { tinyModel } from './fixture.mjs';
import { openLogits } from './logits.mjs';

const TRAINED = 512;
const tiny = await tinyModel({ config: { context: TRAINED } });
const ids = Array.from({ length: 900 }, (_, i) => (i * 7 + (i % 5)) % 40);
/** It never ends by itself. */
const endless = { temperature: 1, logitBias: [0, 3].map((id) => ({ token: id, bias: -Infinity })) };
const sinking = { contextTokens: 1000, kvWindow: 200, kvSinks: 3 };

test('logits beyond the context of the model are the same in each build, with and without threads, for any batches of the prompt', async () => {
  /** @type {Float32Array[]} */
  const all = [];
  for (const [build, threads, batch, window] of /** @type {const} */ ([
    ['relaxed', 0, 32, 200],
    ['simd128', 3, 7, 50],
    ['relaxed', 2, 1, 1],
  ])) {
    const own = await openLogits(fromBytes(tiny), {
      ...sinking,
      kv: 'i8',
      build,
      threads,
      prefillBatch: batch,
      prefillWindow: window,
    });
    all.push(own.start(ids.slice(0, 600)), own.start(ids), own.next(5));
    own.close();
  }
  for (let i = 3; i < all.length; i++) assert.deepEqual(all[i], all[i % 3]);
});

test('a session whose window starts within a block of the cache can be saved, restored and continued', async () => {
  const engine = await createEngine({ build: 'simd128', threads: 1 });
  const model = await engine.load(fromBytes(tiny), { ...sinking, sessions: 2 });
  const sizes = [];
  for (const length of [456, 457, 455, 454]) {
    const [one, other] = [await model.createSession(), await model.createSession()];
    await one.append(ids.slice(0, 450));
    await one.continue({ ...endless, maxTokens: 30 }).result;
    await one.truncate(length);
    const saved = await one.save();
    sizes.push(saved.length);
    await other.restore(saved);
    const options = { ...endless, maxTokens: 20, seed: length };
    const next = await one.continue(options).result;
    assert.deepEqual((await other.continue(options).result).tokens, next.tokens);
    await one.close();
    await other.close();
  }
  assert.equal(sizes[0], sizes[1]); // one block of each layer
  await engine.close();
});

test('texts with a common beginning and increasing lengths have the right vectors', async () => {
  const engine = await createEngine({ build: 'simd128', threads: 1 });
  const windowed = await tinyModel({ config: { context: 2048, window: 300, global_every: 2 } });
  const model = await engine.load(fromBytes(windowed), { contextTokens: 2048 });
  const text = Uint32Array.from({ length: 2000 }, (_, i) => (i * 7 + (i % 5)) % 40);
  for (const n of [1200, 1600]) await model.embed([text.subarray(0, n)]);
  const { vectors } = await model.embed([text]);
  await model.close();
  const fresh = await engine.load(fromBytes(windowed), { contextTokens: 2048 });
  assert.deepEqual((await fresh.embed([text])).vectors, vectors);
  await engine.close();
});

test('a text longer than the context of the model can be forked, saved and continued; its receipt can be verified', async () => {
  const engine = await createEngine({ build: 'simd128', threads: 1 });
  const model = await engine.load(fromBytes(tiny), { ...sinking, forks: 1, sessions: 2 });
  assert.deepEqual([model.info.kvWindow, model.info.kvSinks], [200, 3]);
  const session = await model.createSession();
  const options = { ...endless, maxTokens: 150, seed: 7 };
  const first = await session.generate(ids.slice(0, 700), options).result;
  assert.equal(first.tokens.length, 150);
  const receipt = await receiptOf(model, session, first, options);
  const saved = await session.save();
  const fork = await session.fork();
  const more = { ...endless, maxTokens: 60, seed: 8 };
  const next = await session.continue(more).result;
  assert.deepEqual((await fork.continue(more).result).tokens, next.tokens);
  await fork.close();
  const other = await model.createSession();
  await other.restore(saved);
  const again = await other.continue(more).result;
  assert.deepEqual(again.tokens, next.tokens);
  assert.ok(again.usage.cachedTokens >= 848, `${again.usage.cachedTokens} tokens of a saved session were there`);
  await other.close();
  const all = await model.createSession({ kvWindow: 100 });
  await assert.rejects(all.restore(saved), { code: 'MISMATCH', message: /another key/ });
  await all.close();
  await engine.close();

  const read = await readReceipt(JSON.stringify(receipt));
  assert.deepEqual([read.model.kvWindow, read.model.kvSinks], [200, 3]);
  const elsewhere = await createEngine({ build: 'relaxed', threads: 2 });
  const loaded = await elsewhere.load(fromBytes(tiny), loadOptions(read));
  assert.equal((await replay(loaded, read)).equal, true);
  await elsewhere.close();
});

test('a plan counts the window, not the context', async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const plan = (/** @type {object} */ more) => engine.plan(fromBytes(tiny), { kv: 'i8', ...more });
  const [whole, some, far] = [
    await plan({ contextTokens: TRAINED }),
    await plan({ ...sinking, kvWindow: 100, contextTokens: TRAINED, prefillWindow: 32 }),
    await plan({ ...sinking, kvWindow: 100, contextTokens: 100_000, prefillWindow: 32 }),
  ];
  assert.equal(far.kvBytes, some.kvBytes);
  assert.equal(far.kvBytes, whole.kvBytes); // two blocks: all of this context
  assert.ok(far.sessionBytes - some.sessionBytes < 100_000 * 5, 'ids and tables of blocks alone');
  assert.deepEqual([whole.kvWindow, whole.kvSinks], [0, 0]);
  const seen = await plan({ contextTokens: 300, kvWindow: 300 });
  assert.deepEqual([seen.kvWindow, seen.kvSinks], [0, 0]); // nothing ever goes
  const { heapBytes } = await plan({ ...sinking, contextTokens: 3000 });
  const model = await engine.load(fromBytes(tiny), {
    ...sinking,
    contextTokens: 3000,
    kv: 'i8',
    memoryBudget: heapBytes,
  });
  const { tokens: output } = await model.generate(ids.slice(0, 400), { ...endless, maxTokens: 900, seed: 1 }).result;
  assert.equal(output.length, 900);
  await engine.close();
});

test('eviction by attention gives the same logits in every build, after forks and when saved; a receipt contains it', async () => {
  const evicting = /** @type {const} */ ({ contextTokens: 800, kvWindow: 256, kvEvict: 'attention' });
  const longer = await tinyModel({ config: { context: 800 } });
  /** @type {Float32Array[]} */
  const all = [];
  for (const [build, threads, batch, window] of /** @type {const} */ ([
    ['relaxed', 0, 32, 200],
    ['simd128', 3, 7, 50],
    ['relaxed16', 2, 1, 1],
  ]))
    for (const kv of /** @type {const} */ (['i8', 'f16', 'i2'])) {
      const own = await openLogits(fromBytes(longer), {
        ...evicting,
        kvSinks: 4,
        kv,
        build,
        threads,
        prefillBatch: batch,
        prefillWindow: window,
      });
      all.push(own.start(ids.slice(0, 600)), own.start(ids.slice(0, 780)), own.next(5));
      own.close();
    }
  for (let i = 9; i < all.length; i++) assert.deepEqual(all[i], all[i % 9]);

  const engine = await createEngine({ build: 'simd128', threads: 1 });
  const model = await engine.load(fromBytes(longer), { ...evicting, forks: 1, sessions: 2 });
  assert.deepEqual([model.info.kvWindow, model.info.kvSinks, model.info.kvEvict], [256, 4, 'attention']);
  const session = await model.createSession();
  const options = { ...endless, maxTokens: 100, seed: 7 };
  const first = await session.generate(ids.slice(0, 600), options).result;
  const receipt = await receiptOf(model, session, first, options);
  const saved = await session.save();
  const fork = await session.fork();
  const more = { ...endless, maxTokens: 80, seed: 8 };
  const next = await session.continue(more).result;
  assert.deepEqual((await fork.continue(more).result).tokens, next.tokens);
  await fork.close();
  const other = await model.createSession();
  await other.restore(saved);
  const again = await other.continue(more).result;
  assert.deepEqual(again.tokens, next.tokens);
  assert.ok(again.usage.cachedTokens >= 698, `${again.usage.cachedTokens} tokens of a saved session were there`);
  await other.close();
  const oldest = await model.createSession({ kvEvict: 'oldest' });
  await assert.rejects(oldest.restore(saved), { code: 'MISMATCH', message: /eviction/ });
  await oldest.close();
  const read = await readReceipt(JSON.stringify(receipt));
  assert.equal(read.model.kvEvict, 'attention');
  assert.equal((await replay(model, read)).equal, true);
  await engine.close();

  const planner = await createEngine({ build: 'relaxed', threads: 1 });
  const [near, far] = await Promise.all(
    [600, 800].map((context) => planner.plan(fromBytes(longer), { ...evicting, contextTokens: context, kv: 'i8' })),
  );
  assert.equal(near.kvBytes, far.kvBytes);
  const { kvEvict } = await planner.plan(fromBytes(longer), { ...evicting, contextTokens: 256 });
  assert.equal(kvEvict, 'oldest'); // nothing ever goes
  const { heapBytes } = await planner.plan(fromBytes(longer), evicting);
  const planned = await planner.load(fromBytes(longer), { ...evicting, memoryBudget: heapBytes });
  const { tokens: output } = await planned.generate(ids.slice(0, 300), { ...endless, maxTokens: 400, seed: 1 }).result;
  assert.equal(output.length, 400);
  await planner.close();
});

test('invalid windows, sinks and kinds of eviction are refused with the accepted values', async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const fails = (/** @type {object} */ options, /** @type {RegExp} */ message) =>
    assert.rejects(engine.load(fromBytes(tiny), options), { code: 'ARGUMENT', message });
  await fails({ contextTokens: 600 }, /context 600 is larger than the model's own, 512/);
  await fails({ contextTokens: 600, kvWindow: 300 }, /which a KV window of 300 does not extend/);
  await fails({ kvSinks: 4 }, /4 sinks with a KV window of 0/);
  await fails({ kvWindow: 100, kvSinks: 33 }, /kvSinks/);
  await fails(
    { kvWindow: 100, kvEvict: 'attention' },
    /a KV window of 100: to evict by attention it is to be a multiple of 256/,
  );
  await fails(
    { contextTokens: 600, kvWindow: 256, kvEvict: 'attention' },
    /context 600 is larger than the model's own, 512/,
  );
  await fails({ kvWindow: 256, kvEvict: 'newest' }, /kvEvict/);
  await engine.close();
});

test('skipped layers give other tokens and are in the receipt; unknown layers are refused', async () => {
  const engine = await createEngine({ build: 'simd128', threads: 1 });
  const model = await engine.load(fromBytes(tiny), { quality: { skipLayers: [0] }, sessions: 2 });
  assert.deepEqual(model.info.quality, { skipLayers: [0] });
  const options = { ...endless, maxTokens: 30, seed: 3 };
  const [session, all] = [await model.createSession(), await model.createSession({ quality: { skipLayers: [] } })];
  const result = await session.generate(ids.slice(0, 20), options).result;
  assert.notDeepEqual((await all.generate(ids.slice(0, 20), options).result).tokens, result.tokens);
  await assert.rejects(all.restore(await session.save()), { code: 'MISMATCH', message: /another key/ });
  const receipt = await readReceipt(JSON.stringify(await receiptOf(model, session, result, options)));
  assert.deepEqual(receipt.model.quality, { skipLayers: [0] });
  await engine.close();
  const elsewhere = await createEngine({ build: 'relaxed', threads: 2 });
  const loaded = await elsewhere.load(fromBytes(tiny), loadOptions(receipt));
  assert.equal((await replay(loaded, receipt)).equal, true);
  const { layers } = loaded.info;
  await assert.rejects(loaded.createSession({ quality: { skipLayers: [layers] } }), {
    code: 'ARGUMENT',
    message: new RegExp(`no layer ${layers} to be left out`),
  });
  await elsewhere.close();
});

test('skipped layers give the same tokens with paged weights', async () => {
  const large = fromBytes(await tinyModel({ config: { layers: 12, ffn: 1024 }, type: 'bq4_32' }));
  const options = { contextTokens: 128, prefillWindow: 16, prefillBatch: 8, quality: { skipLayers: [0, 3, 4, 11] } };
  const engine = await createEngine({ threads: 1 });
  const { heapBytes, weightBytes } = await engine.plan(large, options);
  const items = [];
  for (const budget of [undefined, Math.floor(heapBytes - 0.4 * weightBytes)]) {
    const model = await engine.load(large, { ...options, memoryBudget: budget });
    assert.equal(model.info.residency, budget ? 'paged' : 'resident');
    items.push((await model.generate([1, 2, 3], { ...endless, maxTokens: 12, seed: 4 }).result).tokens);
    await model.close();
  }
  assert.deepEqual(items[1], items[0]);
  await engine.close();
});
