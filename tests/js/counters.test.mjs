// Tests that count the cost of a token: bytes of weights, allocations, messages. The counts do not depend on the machine.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { tensorTable } from '../../js/format/bq4/names.js';
import { memorySink } from '../../js/format/output.js';
import { runLayout, typeNamed, weightBytes } from '../../js/format/bq4/weight-types.js';
import { createEngine } from '../../js/node.js';
import { createWorkerEngine, fromBytes, fromUrl } from '../../js/index.js';
import { WINDOW } from '../../js/shared/protocol.js';
import { Wasm } from '../../js/wasm/wasm.js';
import { makeRandom, SHAPES } from '../../tools/make_random.mjs';
import { tinyModel, tokenizer } from './fixture.mjs';
import { faultServer } from '../server/faults.mjs';
import { until } from '../waiting.mjs';
import { setTimeouts } from './timeouts.mjs';

const TOKENS = 60;
const model = await tinyModel({ type: 'bq4', tokens: { ...tokenizer(), eog: [] } });
const OPTIONS = { temperature: 0.8, seed: 1, maxTokens: TOKENS, stop: ['never to be met'] };

for (const [shape, quant, embed] of [
  ['tiny-llama', 'bq4h', 'bq8'],
  ['tiny-llama', 'bq4', 'bq4'],
  ['tiny-llama', 'bq8', 'f16'],
  ['tiny-bullet', 'bq4', 'bq8'],
])
  test(`bytes per token: each matrix of ${shape}, ${quant} and ${embed}, is read once`, async (t) => {
    const sink = memorySink();
    await makeRandom(SHAPES[shape], sink, { quant, embed });
    const engine = await createEngine({ threads: 1 });
    t.after(() => engine.close());
    const loaded = await engine.load(fromBytes(sink.bytes));
    const session = await loaded.createSession();
    await session.generate([1, 2, 3], { temperature: 0, maxTokens: 1 }).result;
    await session.trace({ on: true });
    const { tokens: ids } = await session.generate([1, 2, 3, 4], { temperature: 0, maxTokens: 5 }).result;
    const stages = await session.trace({ on: false });
    const read = stages.filter(({ stage }) => stage !== 'embed').reduce((sum, stage) => sum + stage.weightBytes, 0);
    // By the sizes of the format alone: what is in the file, less the embedding, of which a token takes a row.
    const matrices = tensorTable(SHAPES[shape]).filter(({ name, dims }) => dims.length === 2 && !/^w[tp]e/.test(name));
    const bytes = matrices.reduce((sum, { dims: [rows, cols], embedding }) => {
      const type = typeNamed(embedding ? embed : quant);
      return sum + weightBytes(type, runLayout(type), rows, cols);
    }, 0);
    assert.equal(ids.length, 5);
    assert.equal(read, 5 * bytes);
    assert.equal(
      stages.reduce((sum, stage) => sum + (stage.stage === 'attend' ? 0 : stage.macs), 0),
      5 * loaded.info.tokenWeights,
    );
  });

/** Blocks that fill a heap to the last bytes. @param {Wasm} wasm */
function fill(wasm) {
  const blocks = [];
  for (let bytes = 1 << 28; bytes >= 16; bytes >>= 1)
    for (let block; (block = wasm.call('bqw_alloc', bytes));) blocks.push(block);
  return blocks;
}

for (const threads of [1, 2]) {
  test(`tokens are computed in a heap without a free byte, ${threads} thread(s)`, async (t) => {
    const engine = await createEngine({ threads });
    t.after(() => engine.close());
    const { call } = Wasm.prototype;
    t.after(() => (Wasm.prototype.call = call));
    /** @type {Wasm | undefined} */
    let wasm;
    Wasm.prototype.call = function (name, ...args) {
      if (name === 'bqw_session_sample') wasm = this;
      return call.call(this, name, ...args);
    };
    const session = await (await engine.load(fromBytes(model))).createSession();
    const run = session.generate('Once upon a time', OPTIONS)[Symbol.asyncIterator]();
    await run.next();
    const used = /** @type {Wasm} */ (wasm);
    const blocks = fill(used);
    assert.ok(blocks.length && used.call('bqw_alloc', 16) === 0, 'nothing is left');
    for (let n = 1; n < TOKENS; n++) assert.equal((await run.next()).done, false, `token ${n}`);
    for (const block of blocks) used.call('bqw_free', block);
    assert.equal((await run.next()).done, true);
  });

  test(`no allocation per token, ${threads} thread(s)`, async (t) => {
    const engine = await createEngine({ threads });
    const loaded = await engine.load(fromBytes(model));
    const session = await loaded.createSession();
    const { call } = Wasm.prototype;
    t.after(() => (Wasm.prototype.call = call));
    let allocations = 0;
    Wasm.prototype.call = function (name, ...args) {
      if (name === 'bqw_alloc') allocations++;
      return call.call(this, name, ...args);
    };
    const run = session.generate('Once upon a time', OPTIONS)[Symbol.asyncIterator]();
    await run.next();
    assert.ok(allocations > 0, 'a generation begins with some');
    const { used, peak } = await loaded.memory();
    allocations = 0;
    for (let n = 1; n < TOKENS; n++) {
      await run.next();
      assert.equal(allocations, 0, `token ${n}`);
    }
    const after = await loaded.memory();
    assert.deepEqual([after.used, after.peak], [used, peak]);
    await run.next();
    await engine.close();
  });
}

test('a model whose weights are awaited computes a prompt meanwhile, whose session is gone when they are there; not where they come at once, or the caller may use it', async (t) => {
  const { call } = Wasm.prototype;
  t.after(() => (Wasm.prototype.call = call));
  /** @type {Record<string, number>} */
  let calls = {};
  Wasm.prototype.call = function (name, ...args) {
    calls[name] = (calls[name] ?? 0) + 1;
    return call.call(this, name, ...args);
  };
  const counted = () => ['create', 'run', 'free'].map((what) => calls[`bqw_session_${what}`] ?? 0);
  const engine = await createEngine({ threads: 1 });
  t.after(() => engine.close());
  let release = () => {};
  const hold = new Promise((resolve) => (release = () => resolve(undefined)));
  const server = await faultServer(model, { hold: model.length - 1, until: hold });
  t.after(server.close);
  for (const [source, streaming] of /** @type {const} */ ([
    [fromBytes(model), false],
    [fromUrl(server.url), true],
    [fromUrl(server.url), false],
  ])) {
    calls = {};
    const restore = setTimeouts(t, { warmUp: source.kind === 'url' ? 1 : 60_000 }); // longer than all bytes need
    const loading = engine.load(source, { streaming });
    if (streaming) {
      const model = await loading;
      // Behind this timer what begins a while later would have begun.
      await new Promise((resolve) => setTimeout(resolve, 5));
      for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
      await model.close();
    } else if (source.kind === 'url') {
      await until('a work unit of the prompt', () => counted()[1] > 0);
      release();
      await (await loading).close();
      const [output, ran, freed] = counted();
      assert.deepEqual([output, freed], [1, 1]);
      assert.ok(ran > 0);
      continue;
    }
    await loading;
    restore();
    assert.deepEqual(counted(), [0, 0, 0]);
  }
});

test('a prompt for warming up that cannot be computed, or whose model is closed, fails no load and is no error of its own', async (t) => {
  const { call } = Wasm.prototype;
  t.after(() => (Wasm.prototype.call = call));
  /** Told of every session that is about to be made. @type {(wasm: Wasm) => void} */
  let onCreate = () => {};
  Wasm.prototype.call = function (name, ...args) {
    if (name === 'bqw_session_create') onCreate(this);
    return call.call(this, name, ...args);
  };
  setTimeouts(t, { warmUp: 1 });
  /** Begins a load that waits for its last byte, until a session is made to warm up. @param {(wasm: Wasm, engine: import('../../js/shared/types.js').Engine) => void} then */
  const begin = async (then) => {
    const engine = await createEngine({ threads: 1 });
    t.after(() => engine.close());
    let release = () => {};
    const server = await faultServer(model, {
      hold: model.length - 1,
      until: new Promise((resolve) => (release = () => resolve(undefined))),
    });
    t.after(server.close);
    const controller = new AbortController();
    const warming = new Promise(
      (resolve) =>
        (onCreate = (wasm) => {
          onCreate = () => {};
          then(wasm, engine);
          resolve(undefined);
        }),
    );
    const loading = engine.load(fromUrl(server.url), { signal: controller.signal });
    loading.catch(() => {});
    await warming;
    return { engine, controller, loading, release };
  };

  /** @type {(() => void)[]} */
  const free = [];
  const full = await begin((wasm) => free.push(...fill(wasm).map((block) => () => wasm.call('bqw_free', block))));
  await new Promise((resolve) => setImmediate(resolve)); // it has found no memory
  for (const block of free) block();
  full.release();
  const session = await (await full.loading).createSession();
  assert.equal((await session.generate('Once upon a time', { ...OPTIONS, maxTokens: 3 }).result).tokens.length, 3);

  const aborted = await begin(() => {});
  aborted.controller.abort();
  await assert.rejects(aborted.loading, { name: 'AbortError' });
  assert.equal((await aborted.engine.load(fromBytes(model))).info.layers, 3, 'the engine goes on');
  /** @type {Promise<void> | undefined} */
  let closed;
  const ended = await begin((_, engine) => (closed = engine.close()));
  await assert.rejects(ended.loading, { code: 'CLOSED' });
  await closed;
});

test('one message per token to the page, and one back for every few', async () => {
  const worker = new Worker(new URL('../../js/worker.js', import.meta.url));
  let [received, sent] = [0, 0];
  worker.on('message', () => received++);
  const { postMessage } = worker;
  worker.postMessage = (...args) => (sent++, postMessage.apply(worker, args));
  const engine = await createWorkerEngine({ worker, threads: 2 });
  const session = await (await engine.load(fromBytes(model))).createSession();
  [received, sent] = [0, 0];
  const { tokens: ids } = await session.generate('Once upon a time', OPTIONS).result;
  assert.equal(ids.length, TOKENS);
  assert.equal(received, TOKENS + 2, 'its tokens, the question whether all were read, and its end');
  assert.ok(sent <= 2 + TOKENS / (WINDOW / 2), `${sent} messages: the call, credits, and that all were read`);
  await engine.close();
});
