// Tests of products whose rows are computed by workers without shared memory: tokens and vectors are bit-identical, and after failures this
// thread continues.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { createEngine, fromFile } from '../../js/node.js';
import { structs } from '../../js/wasm/abi.js';
import { openLogits } from './logits.mjs';
import { setTimeouts } from './timeouts.mjs';
import { createUnsharedEngine } from './unshared.mjs';
import { minTokensWorthwhile, TensorParallel, workerBytes } from '../../js/engine/batching/tensor-parallel.js';
import { compile, Wasm } from '../../js/wasm/wasm.js';

const ROOT = new URL('../../', import.meta.url);
const MODEL = fromFile(new URL('models/chat.bq4', ROOT).pathname);
const PROMPT = 'Once upon a time there was a girl who';

/** What a model says, with the probabilities of each token. @param {any} model @param {object} [options] */
async function message(model, options) {
  const session = await model.createSession();
  const parts = [];
  const generation = session.generate(PROMPT, { maxTokens: 24, seed: 5, temperature: 0.9, logprobs: 3, ...options });
  for await (const part of generation) parts.push(part);
  await session.close();
  return parts.map(({ token, text, logprobs }) => ({ token, text, logprobs }));
}

describe('products spread over workers', () => {
  /** @type {any} */
  let alone;
  /** @type {any} */
  let expected;
  before(async () => {
    alone = await createEngine({ threads: 1 });
    expected = await message(await alone.load(MODEL));
  });
  after(() => alone.close());

  for (const build of /** @type {const} */ (['relaxed', 'relaxed16', 'simd128']))
    for (const threads of [2, 3, 5])
      test(`${build}, ${threads} workers: the same bits`, async () => {
        const engine = await createUnsharedEngine({ threads, build });
        const model = await engine.load(MODEL);
        assert.deepEqual(model.info.tensorParallel, { parts: threads, tokens: 1 });
        assert.equal(model.info.threads, 1);
        assert.deepEqual(await message(model), expected);
        await engine.close();
      });

  test('activations of 16 bits, and of 8', async () => {
    const engine = await createUnsharedEngine({ threads: 2 });
    for (const activations of /** @type {const} */ (['i8', 'i16'])) {
      const one = await alone.load(MODEL, { activations });
      const model = await engine.load(MODEL, { activations });
      assert.deepEqual(await message(model), await message(one));
      await one.close();
      await model.close();
    }
    await engine.close();
  });

  test('simultaneous sessions work when one of them is stopped', async () => {
    const engine = await createUnsharedEngine({ threads: 2 });
    const model = await engine.load(MODEL, { sessions: 3 });
    const controller = new AbortController();
    const stopped = message(model, { signal: controller.signal, maxTokens: 200 });
    const others = [message(model), message(model)];
    controller.abort();
    await assert.rejects(stopped, { name: 'AbortError' });
    for (const other of others) assert.deepEqual(await other, expected);
    assert.deepEqual(await message(model), expected);
    await engine.close();
  });

  test('closing the engine during a reply ends the reply', async () => {
    const engine = await createUnsharedEngine({ threads: 2 });
    const model = await engine.load(MODEL);
    const reply = message(model, { maxTokens: 200 });
    await model.close();
    await assert.rejects(reply, { code: 'CLOSED' });
    await engine.close();
  });

  test('a request for one thread starts no worker', async () => {
    const engine = await createUnsharedEngine({ threads: 1 });
    assert.equal((await engine.load(MODEL)).info.tensorParallel, null);
    await engine.close();
  });

  test('a budget without memory for their parts starts no worker', async () => {
    const engine = await createUnsharedEngine({ threads: 2 });
    const { heapBytes } = await engine.plan(MODEL);
    const model = await engine.load(MODEL, { memoryBudget: heapBytes + 2 ** 20 });
    assert.equal(model.info.tensorParallel, null);
    assert.deepEqual(await message(model), expected);
    await engine.close();
  });

  describe('workers that fail', () => {
    const folder = mkdtempSync(join(tmpdir(), 'bq4-spread-'));
    after(() => rmSync(folder, { recursive: true }));
    /** A script for threads. @param {string} name @param {string} text */
    const script = (name, text) => {
      writeFileSync(join(folder, name), text);
      return pathToFileURL(join(folder, name)).href;
    };

    test('workers that fail during a reply: their parts are computed in this thread', async () => {
      const url = script(
        'ends.mjs',
        `import { parentPort } from 'node:worker_threads';
         let left = 40;
         parentPort.on('message', (job) => { if (job?.work && left-- === 0) process.exit(1); });
         await import(${JSON.stringify(new URL('js/thread.js', ROOT).href)});`,
      );
      const engine = await createUnsharedEngine({ threads: 3, threadUrl: url });
      const model = await engine.load(MODEL);
      assert.equal(model.info.tensorParallel.parts, 3);
      assert.deepEqual(await message(model), expected);
      await engine.close();
    });

    test('workers that do not respond: their parts are computed in this thread', async (t) => {
      const url = script(
        'silent.mjs',
        `import { parentPort } from 'node:worker_threads';
         let left = 40;
         const on = parentPort.on.bind(parentPort);
         parentPort.on = (name, heard) => on(name, (job) => (job?.work && left-- <= 0 ? undefined : heard(job)));
         await import(${JSON.stringify(new URL('js/thread.js', ROOT).href)});`,
      );
      const engine = await createUnsharedEngine({ threads: 2, threadUrl: url });
      const model = await engine.load(MODEL);
      assert.equal(model.info.tensorParallel.parts, 2);
      // Of products, from here on. The tokens are the same if a busy machine misses it with another of them.
      setTimeouts(t, { spreadAnswer: 500 });
      assert.deepEqual(await message(model), expected);
      await engine.close();
    });

    test('workers that do not respond to a measurement are not used, and nothing waits for them', async (t) => {
      setTimeouts(t, { spreadMeasure: 1 }); // none comes
      const url = script(
        'unmeasured.mjs',
        `import { parentPort } from 'node:worker_threads';
         const on = parentPort.on.bind(parentPort);
         parentPort.on = (name, heard) => on(name, (job) => (job?.timed ? undefined : heard(job)));
         await import(${JSON.stringify(new URL('js/thread.js', ROOT).href)});`,
      );
      const compiled = { ...(await compile({}, false)), threads: 1 };
      const wasm = await Wasm.create(compiled, 2 ** 20);
      const used = () => wasm.outStruct('bqw_heap_info', 'bqw_heap').used;
      const before = used();
      const plan = await alone.plan(MODEL);
      assert.equal(await TensorParallel.open(wasm, compiled, { workerCount: 2, isForced: false, url }, plan, {}), null);
      assert.equal(used(), before);
      wasm.release();
    });

    test('workers that fail at the start: one thread computes', async () => {
      const engine = await createUnsharedEngine({
        threads: 2,
        threadUrl: script('throws.mjs', 'throw new Error("no")'),
      });
      const model = await engine.load(MODEL);
      assert.equal(model.info.tensorParallel, null);
      assert.deepEqual(await message(model), expected);
      await engine.close();
    });
  });
});

describe('the border, called amiss', () => {
  const PROMPT_IDS = [300, 301, 302, 303, 304];

  /** A session that waits for a product. */
  async function waiting() {
    const own = await openLogits(MODEL);
    const { wasm, session } = own;
    const at = wasm.alloc(structs.bqw_spread.size + 3 * structs.bqw_spread_rows.size);
    const rows = at + structs.bqw_spread.size;
    const part = (/** @type {number} */ one, /** @type {number} */ of) =>
      wasm.call('bqw_session_spread', session, one, of, at, rows);
    const expected = own.start(PROMPT_IDS);
    own.sync([1]);
    wasm.call('bqw_spread_from', 1);
    own.sync(PROMPT_IDS);
    assert.equal(wasm.check('bqw_session_run', session, 0), 2);
    return { ...own, at, rows, part, expected };
  }

  test('indexes out of range, unknown handles and repeated calls are refused', async () => {
    const { wasm, session, at, rows, part, run, expected, close } = await waiting();
    assert.deepEqual([part(0, 0), part(2, 2), part(2 ** 32 - 1, 3)], [0, 0, 0]);
    assert.equal(wasm.call('bqw_session_spread', 12345, 0, 1, at, rows), 0);
    wasm.call('bqw_session_spread_done', 12345);
    for (let products = part(0, 1); products; products = part(0, 1)) {
      wasm.check('bqw_spread_multiply', at, rows);
      wasm.check('bqw_spread_multiply', at, rows);
      wasm.call('bqw_session_spread_done', session);
      wasm.call('bqw_session_spread_done', session);
      assert.equal(part(0, 1), 0);
      wasm.check('bqw_session_run', session, 0);
    }
    assert.deepEqual(run(), expected);
    close();
  });

  test('unknown types and numbers of products are refused', async () => {
    const { wasm, at, rows, part, close } = await waiting();
    const products = part(0, 1);
    assert.equal(products, 3);
    for (const type of [0, 255, 2 ** 32 - 1]) {
      wasm.write('bqw_spread_rows', rows, { ...wasm.read('bqw_spread_rows', rows), type });
      assert.throws(() => wasm.check('bqw_spread_multiply', at, rows), { code: 'ARGUMENT' });
    }
    wasm.write('bqw_spread', at, { ...wasm.read('bqw_spread', at), n: 4 });
    assert.throws(() => wasm.check('bqw_spread_multiply', at, rows), { code: 'ARGUMENT' });
    close();
  });

  for (const tokens of [0, 32])
    test(`refused from ${tokens} tokens on, while a product is requested: it is computed here`, async () => {
      const { wasm, session, at, rows, part, run, expected, close } = await waiting();
      // Not the first of its part, so that a wrong return would be noticed.
      for (let i = 0; i < 3; i++) {
        part(0, 1);
        wasm.check('bqw_spread_multiply', at, rows);
        wasm.call('bqw_session_spread_done', session);
        assert.equal(wasm.check('bqw_session_run', session, 0), 2);
      }
      wasm.call('bqw_spread_from', tokens);
      assert.equal(part(0, 1), 0);
      assert.deepEqual(run(), expected);
      close();
    });
});

test('the measurement decides whether workers are used', () => {
  const small = { layers: 12, tokenWeights: 15e6, weightBytes: 15e6 * 0.5625 };
  const large = { layers: 24, tokenWeights: 494e6, weightBytes: 494e6 * 0.5625 };
  // The measured products (7.3 M weights) take 0.5 ms in one thread.
  assert.equal(minTokensWorthwhile(large, 2, 0.5, [0.02, 0.2]), 1);
  assert.equal(minTokensWorthwhile(large, 2, 0.5, [0.06, 0.1]), 8);
  assert.equal(minTokensWorthwhile(small, 2, 0.5, [0.02, 0.02]), 32);
  assert.equal(minTokensWorthwhile(small, 2, 0.5, [0.02, 0.5]), 0);
  assert.equal(minTokensWorthwhile(small, 2, 0.5, [1, 1]), 0);
  assert.equal(minTokensWorthwhile(large, 2, 0, [0.05, 0.2]), 0); // a clock that does not tell
});

test('the memory of a worker includes its part of a batch, results and activations', () => {
  const plan = { layers: 32, hidden: 4096, tokenWeights: 6.6e9, weightBytes: 6.6e9 * 0.5625 };
  const ffn = 11008;
  for (const parts of [2, 8])
    for (const batch of [1, 32, 128, 512]) {
      const results = (2 * ffn * batch * 4) / parts; // of gate and up
      const panel = 2 * ffn * batch * 1.25; // in front of down, of 16 bits
      assert.ok(workerBytes(plan, parts, batch) > plan.weightBytes / parts + results + panel, `${parts}, ${batch}`);
    }
});
