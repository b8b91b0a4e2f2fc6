// Tests of a wasm instance: its heap, its errors, its end.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEngine, fromBytes } from '../../js/node.js';
import { functions, structs } from '../../js/wasm/abi.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { planModel } from '../../js/engine/plan/plan.js';
import { compile, Wasm } from '../../js/wasm/wasm.js';
import { xxh64 } from './xxh64.mjs';
import { tinyModel } from './fixture.mjs';
import { argmax, openLogits } from './logits.mjs';

const compiled = await compile();

test('the module imports only its memory, a clock and the stop request, and exports the ABI', () => {
  assert.deepEqual(
    WebAssembly.Module.imports(compiled.module).map(({ module, name }) => `${module}.${name}`),
    ['env.now', 'env.stop', 'env.memory'],
  );
  const exported = WebAssembly.Module.exports(compiled.module).map((e) => e.name);
  // Encoders are in the module for converters.
  const missing = Object.keys(functions).filter((name) => !exported.includes(name));
  assert.deepEqual(missing.sort(), ['bqw_dequantize', 'bqw_encode']);
});

test('the heap has exactly the requested size and cannot grow', async () => {
  const wasm = await Wasm.create(compiled, 5_000_000);
  assert.equal(wasm.memoryBytes, Math.ceil((compiled.heapBase + 5_000_000) / 65536) * 65536);
  assert.throws(() => wasm.memory.grow(1), RangeError);
});

test('the number of pages of an instance follows from the planned bytes', async () => {
  const bytes = await tinyModel();
  const { plan, regionBytes } = await planModel(compiled, { kind: 'bytes', bytes }, openBytes(bytes), {
    contextTokens: 77,
  });
  assert.equal(plan.heapBytes, Math.ceil((compiled.heapBase + regionBytes) / 65536) * 65536);
});

test('pointers beyond 2 GiB are positive numbers, and work', async (t) => {
  let wasm;
  try {
    wasm = await Wasm.create(compiled, 2.5 * 2 ** 30);
  } catch (error) {
    if (error.code === 'NOMEM') return t.skip('this machine has no 2.5 GiB to give');
    throw error;
  }
  const first = wasm.alloc(2.2 * 2 ** 30); // never touched, so never backed by memory
  const at = wasm.alloc(1000);
  assert.ok(at > 2 ** 31, `${at}`);
  wasm.bytes(at, 1000).fill(7);
  wasm.scope((take) => {
    const out = take(8);
    assert.ok(out > 2 ** 31);
    wasm.call('bqw_xxh64', at, 1000, out);
    assert.equal(
      new DataView(wasm.bytes(out, 8).slice().buffer).getBigUint64(0, true),
      xxh64(new Uint8Array(1000).fill(7)),
    );
  });
  wasm.free(at);
  wasm.free(first);
});

test('a heap that cannot be allocated and a full heap give NOMEM', async () => {
  await assert.rejects(
    Wasm.create(compiled, 2 ** 33),
    (/** @type {any} */ e) => e.code === 'NOMEM' && e.details.bytes > 2 ** 33,
  );
  const wasm = await Wasm.create(compiled, 1_000_000);
  assert.throws(() => wasm.alloc(2_000_000), { code: 'NOMEM' });
  assert.throws(() => wasm.alloc(2 ** 32), { code: 'NOMEM' });
});

test('a scope frees its memory, also when it throws', async () => {
  const wasm = await Wasm.create(compiled, 1_000_000);
  const used = () =>
    wasm.scope((take) => {
      const out = take(24);
      wasm.call('bqw_heap', out);
      return wasm.read('bqw_heap_info', out).used;
    });
  const before = used();
  assert.throws(
    () =>
      wasm.scope((take) => {
        take(1000);
        take(5000);
        throw new Error('x');
      }),
    /x/,
  );
  assert.equal(used(), before);
});

test('statuses become errors with code, text and hint', async () => {
  const wasm = await Wasm.create(compiled, 1_000_000);
  assert.throws(
    () => wasm.check('bqw_session_run', 12345, 1),
    (/** @type {any} */ e) => e.code === 'ARGUMENT' && /closed or unknown/.test(e.message) && e.hint !== '',
  );
  assert.throws(() => wasm.check('bqw_init', 0, 0), { code: 'STATE' });
});

test('after a trap each call of the instance gives the same error', async () => {
  const wasm = await Wasm.create(compiled, 1_000_000);
  wasm.scope((take) => {
    const out = take(8);
    assert.throws(
      () => wasm.call('bqw_xxh64', 0xffff0000, 60000, out),
      (/** @type {any} */ e) => e.code === 'TRAP' && /bqw_xxh64/.test(e.message),
    );
  });
  assert.ok(!wasm.alive);
  assert.throws(() => wasm.call('bqw_abi'), { code: 'TRAP' });
});

test('after a trap in a model its calls fail, it can be closed, and the engine works', async (t) => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const model = await engine.load(fromBytes(await tinyModel()));
  const session = await model.createSession();
  const { call } = Wasm.prototype;
  t.after(() => (Wasm.prototype.call = call));
  Wasm.prototype.call = function (name, ...args) {
    if (name === 'bqw_session_run') call.call(this, 'bqw_xxh64', 0xffff0000, 60000, 64); // a real trap, at a bad moment
    return call.call(this, name, ...args);
  };
  await assert.rejects(session.generate('x').result, { code: 'TRAP' });
  Wasm.prototype.call = call;
  await assert.rejects(session.generate('x').result, { code: 'TRAP' });
  await assert.rejects(model.tokenize('x'), { code: 'TRAP' });
  await model.close();
  const other = await engine.load(fromBytes(await tinyModel()));
  assert.equal((await (await other.createSession()).generate('x', { maxTokens: 1 }).result).tokens.length, 1);
  await engine.close();
});

test('a mask and biases are passed through the ABI', async () => {
  const { wasm, session, start, close } = await openLogits({ kind: 'bytes', bytes: await tinyModel() });
  const logits = start([1, 20, 30]);
  wasm.scope((take) => {
    const options = take(structs.bq_sample_options.size);
    const [rng, token, mask, bias] = [take(8), take(4), take(4 * Math.ceil(logits.length / 32)), take(8)];
    const sample = (/** @type {Record<string, number>} */ values) => {
      wasm.write('bq_sample_options', options, values);
      wasm.check('bqw_session_sample', session, options, rng, token);
      return wasm.u32(token, 1)[0];
    };
    assert.equal(sample({}), argmax(logits));
    wasm.u32(mask, Math.ceil(logits.length / 32)).fill(0)[2] = 1 << 5;
    assert.equal(sample({ mask }), 69);
    wasm.write('bq_logit_bias', bias, { id: 7, bias: 1e9 });
    assert.equal(sample({ bias, n_bias: 1 }), 7);
    wasm.write('bq_logit_bias', bias, { id: 69, bias: -Infinity });
    assert.throws(
      () => sample({ mask, bias, n_bias: 1 }),
      (/** @type {any} */ e) => e.code === 'NO_TOKEN' && /none of 271/.test(e.message) && e.hint !== '',
    );
    wasm.write('bq_logit_bias', bias, { id: 271, bias: 0 });
    assert.throws(() => sample({ bias, n_bias: 1 }), { code: 'ARGUMENT' });
  });
  close();
});

test('a missing or foreign engine is NO_ENGINE', async () => {
  await assert.rejects(compile({ wasmUrl: new URL('./nothing.wasm', import.meta.url) }), { code: 'NO_ENGINE' });
  await assert.rejects(compile({ wasmUrl: import.meta.url }), { code: 'NO_ENGINE' });
  await assert.rejects(compile({ signal: AbortSignal.abort(), wasmUrl: 'http://127.0.0.1:9/x.wasm' }), {
    name: 'AbortError',
  });
});

test('both builds compute the same tokens', async () => {
  const bytes = await tinyModel({ type: 'bq4' });
  const seen = [];
  for (const build of /** @type {const} */ (['simd128', 'relaxed'])) {
    const engine = await createEngine({ build, threads: 1 });
    const model = await engine.load(fromBytes(bytes));
    seen.push(
      (
        await (await model.createSession()).generate('Once upon a time', { temperature: 0, maxTokens: 30 }).result
      ).tokens.join(),
    );
    await engine.close();
  }
  assert.equal(seen[0], seen[1]);
});
