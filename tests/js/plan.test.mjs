// Tests of plans: what fits, the order of reductions, cached bytes, and the estimated speed.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { createEngine, fromBytes, fromFile, fromUrl } from '../../js/node.js';
import { tinyModel } from './fixture.mjs';
import { faultServer } from '../server/faults.mjs';

const engine = await createEngine({ build: 'simd128', threads: 1 });
after(() => engine.close());
const bytes = await tinyModel({ config: { context: 16384, hidden: 64, heads: 4, kv_heads: 4 } });
const source = fromBytes(bytes);
const plan = (options) => engine.plan(source, options);

test('a plan has KV bytes, weights per token and tokens per second', async () => {
  const p = await plan({ contextTokens: 1000, kv: 'f32' });
  assert.equal(p.kvBytesPer1000, p.kvBytes);
  assert.equal(p.kvBytes, 3 * 2 * 64 * 1000 * 4, 'layers, keys and values, floats');
  const { layers, hidden, ffn, vocabSize: vocab } = p;
  assert.equal(
    p.tokenWeights,
    layers * (4 * hidden * hidden + 3 * hidden * ffn) + vocab * hidden,
    'the head too, although it is the embedding',
  );
  assert.ok(p.tokensPerSecond > 0);
  assert.equal(p.residency, 'resident');
  assert.equal(p.paging, null);
});

test('by default a plan has a useful context and a KV cache of little more than a byte per number', async () => {
  const { contextTokens: context, trainedContext, kv } = await plan({});
  assert.deepEqual([context, trainedContext, kv], [4096, 16384, 'i8']);
  const small = await engine.plan(fromBytes(await tinyModel()));
  assert.equal(small.contextTokens, small.trainedContext, "the model's own where that is less");
});

test('the KV cache is f16 by default if keys have a bias, as in Qwen 2; an option overrides it', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'bq4-key-bias-'));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const [name, kv] of [
    ['qwen2', 'f16'],
    ['phi', 'f16'],
    ['falcon-rw', 'f16'],
    ['qwen3', 'i8'],
    ['llama-gqa', 'i8'],
    ['bert', 'f32'],
  ]) {
    const path = join(folder, `${name}.bq4`);
    await convert(fileURLToPath(new URL(`../golden/fixtures/${name}`, import.meta.url)), path, { quant: 'f32' });
    assert.equal((await engine.plan(fromFile(path))).kv, kv, name);
    assert.equal((await engine.plan(fromFile(path), { kv: 'i8' })).kv, 'i8', name);
    const model = await engine.load(fromFile(path));
    assert.equal(model.info.kv, kv, name);
    await model.close();
  }
});

test('activations are i16 by default if a model generates text and has 50 to 300 MB of weights; an option overrides it', async () => {
  const large = { config: { vocab: 200_000, hidden: 64, heads: 4, kv_heads: 4 } };
  const writes = fromBytes(await tinyModel(large));
  const { weightBytes, activations, tokensPerSecond } = await engine.plan(writes);
  assert.ok(weightBytes > 50e6 && weightBytes < 300e6, `${weightBytes}`);
  assert.equal(activations, 'i16');
  const asked = await engine.plan(writes, { activations: 'i8' });
  assert.equal(asked.activations, 'i8');
  assert.ok(Number(asked.tokensPerSecond) > Number(tokensPerSecond), 'and a token takes less time');
  const model = await engine.load(writes, { contextTokens: 16 });
  assert.equal(model.info.activations, 'i16');
  await model.close();
  assert.equal(
    (await engine.plan(fromBytes(await tinyModel({ ...large, tokens: null })))).activations,
    'i8',
    'no text',
  );
  assert.equal((await plan({})).activations, 'i8', 'small');
});

test('fits is determined by the budget; without one a small model fits', async () => {
  const asked = await plan({ contextTokens: 8000 });
  assert.equal(asked.fits, 'yes');
  assert.equal((await plan({ contextTokens: 8000, memoryBudget: asked.heapBytes })).fits, 'yes');
  const less = await plan({ contextTokens: 8000, memoryBudget: asked.heapBytes - 65536 });
  assert.equal(less.fits, 'no');
  assert.match(less.fitsReason, /MB are needed, the budget is/);
  assert.equal(less.heapBytes, asked.heapBytes, 'of what was asked for');
  assert.ok(less.contextThatFits < 8000 && less.contextThatFits > 7000);
  assert.ok((await plan({ contextTokens: less.contextThatFits })).heapBytes <= asked.heapBytes - 65536);
  assert.ok((await plan({ contextTokens: less.contextThatFits + 1 })).heapBytes > asked.heapBytes - 65536);
});

test('memory beyond the limit of WebAssembly does not fit; the largest size that fits can be loaded', async (t) => {
  const huge = fromBytes(await tinyModel({ config: { context: 16_000_000, hidden: 64, heads: 4, kv_heads: 4 } }));
  const options = /** @type {const} */ ({ kv: 'f32' });
  const p = await engine.plan(huge, { ...options, contextTokens: 16_000_000 });
  assert.equal(p.fits, 'no');
  assert.ok(p.heapBytes > 2 ** 32 && p.contextTokens === 16_000_000);
  const most = await engine.plan(huge, { ...options, contextTokens: p.contextThatFits });
  assert.equal(most.fits === 'no', false);
  // Up to the last page but one, but for less than a block of each layer's cache: on the last page the heap would end at 2^32.
  assert.ok(most.heapBytes <= 65535 * 65536 && most.heapBytes > 65525 * 65536, `${most.heapBytes / 65536} pages`);
  try {
    new WebAssembly.Memory({ initial: 65535, maximum: 65535 });
  } catch (error) {
    return t.skip(`this machine gives no instance of almost 4 GiB: ${error.message}`);
  }
  // Memory that nobody touches takes no place.
  for (const context of [p.contextThatFits, 16_000_000]) {
    const model = await engine.load(huge, { ...options, contextTokens: context });
    assert.deepEqual([model.info.contextTokens, model.info.heapBytes], [p.contextThatFits, most.heapBytes]);
    const session = await model.createSession();
    assert.equal((await session.generate('the', { maxTokens: 3, stopTokens: [] }).result).tokens.length, 3);
    await model.close();
  }
});

test('load reduces sessions, then context, then KV precision, and reports it', async () => {
  const options = /** @type {const} */ ({ contextTokens: 4096, sessions: 3, kv: 'f32' });
  const heap = async (sizes) => (await plan({ ...options, ...sizes })).heapBytes;
  /** @type {[number, [string, any, any][]][]} */
  const tries = [
    [await heap({ sessions: 2 }), [['sessions', 3, 2]]],
    [await heap({ sessions: 1 }), [['sessions', 3, 1]]],
    [
      await heap({ sessions: 1, contextTokens: 1024 }),
      [
        ['sessions', 3, 1],
        ['contextTokens', 4096, 1024],
      ],
    ],
    [
      await heap({ sessions: 1, contextTokens: 512, kv: 'f16' }),
      [
        ['sessions', 3, 1],
        ['contextTokens', 4096, 512],
        ['kv', 'f32', 'f16'],
      ],
    ],
  ];
  for (const [budget, gaveUp] of tries) {
    const announced = (await plan({ ...options, memoryBudget: budget })).gaveUp;
    const model = await engine.load(source, { ...options, memoryBudget: budget });
    const { info } = model;
    assert.deepEqual(info.gaveUp, announced);
    assert.deepEqual(
      info.gaveUp.map(({ what, from }) => [what, from]),
      gaveUp.map(([what, from]) => [what, from]),
    );
    for (const [i, [what, , to]] of gaveUp.entries())
      if (what === 'contextTokens')
        assert.ok(info.contextTokens >= to && info.contextTokens < 1.3 * to, `${info.contextTokens} for ${to}`);
      else assert.equal(info.gaveUp[i].to, to);
    assert.ok(info.heapBytes <= budget);
    assert.ok((await model.memory()).total <= budget);
    const sessions = [];
    for (let i = 0; i < info.sessions; i++) sessions.push(await model.createSession());
    assert.equal(
      (await sessions.at(-1).generate('the', { maxTokens: 3, stopTokens: [] }).result).tokens.length > 0,
      true,
    );
    await model.close();
  }
});

test('a KV cache of 4 bits is used only on request: no budget selects or replaces it', async () => {
  const long = fromBytes(await tinyModel({ config: { context: 16384, hidden: 64, heads: 1, kv_heads: 1, layers: 8 } }));
  const { heapBytes, kvBytes } = await engine.plan(long, { contextTokens: 512, kv: 'i4' });
  assert.equal(
    kvBytes,
    8 * 512 * 80,
    'of 64 numbers 32 bytes, scales, steps and offsets: 40 for a key, 40 for a value',
  );
  assert.ok(heapBytes < (await engine.plan(long, { contextTokens: 512, kv: 'i8' })).heapBytes);
  const other = await engine.load(long, { contextTokens: 4096, kv: 'i8', memoryBudget: heapBytes });
  assert.deepEqual([other.info.kv, other.info.residency], ['i8', 'paged']);
  await other.close();
  const model = await engine.load(long, { contextTokens: 4096, kv: 'i4', memoryBudget: heapBytes });
  const { kv, contextTokens: context, gaveUp } = model.info;
  assert.deepEqual([kv, gaveUp.map(({ what }) => what)], ['i4', ['contextTokens']]);
  assert.ok(context >= 512 && context < 1024, `${context}`);
  await model.close();
});

test('a smaller budget is refused with numbers', async () => {
  const { heapBytes } = await plan({ contextTokens: 512, kv: 'i8' });
  await assert.rejects(engine.load(source, { memoryBudget: 200000 }), (/** @type {any} */ e) => {
    assert.equal(e.code, 'NOMEM');
    assert.equal(e.details.smallest, heapBytes);
    assert.equal(e.details.budget, 200000);
    return /MB/.test(e.message) && e.hint !== '';
  });
  assert.equal((await plan({ memoryBudget: 200000 })).fits, 'no');
  assert.equal((await plan({ memoryBudget: 1000 })).contextThatFits, 0);
  await assert.rejects(plan({ memoryBudget: -1 }), { code: 'ARGUMENT' });
});

test('a damaged first range is fetched again, then from the mirror', async (t) => {
  const [bad, good] = [await faultServer(bytes, { flip: 300 }), await faultServer(bytes)];
  t.after(bad.close);
  t.after(good.close);
  await assert.rejects(engine.plan(fromUrl(bad.url, { retryDelay: 1 })), { code: 'CHECKSUM' });
  assert.equal(bad.requests.length, 2);
  assert.equal((await engine.plan(fromUrl(bad.url, { retryDelay: 1, mirrors: [good.url] }))).fileBytes, bytes.length);
});
