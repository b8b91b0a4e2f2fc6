// What a token costs beside arithmetic, counted: allocations and messages. None of this depends on the machine.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { createEngine, createWorkerEngine, fromBytes } from '../../js/index.js';
import { CREDITS } from '../../js/protocol.js';
import { Wasm } from '../../js/wasm.js';
import { tinyModel, tokenizer } from './fixture.mjs';

const TOKENS = 60;
const model = await tinyModel({ type: 'bq4', tokens: { ...tokenizer(), eog: [] } });
const OPTIONS = { temperature: 0.8, seed: 1, maxTokens: TOKENS, stop: ['never to be met'] };

for (const threads of [1, 2]) {
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

test('one message per token to the page, and one back for every few', async () => {
  const worker = new Worker(new URL('../../js/worker.js', import.meta.url));
  let [received, sent] = [0, 0];
  worker.on('message', () => received++);
  const { postMessage } = worker;
  worker.postMessage = (...args) => (sent++, postMessage.apply(worker, args));
  const engine = await createWorkerEngine({ worker, threads: 2 });
  const session = await (await engine.load(fromBytes(model))).createSession();
  [received, sent] = [0, 0];
  const { ids } = await session.generate('Once upon a time', OPTIONS).done();
  assert.equal(ids.length, TOKENS);
  assert.equal(received, TOKENS + 1, 'its tokens and its end');
  assert.ok(sent <= 1 + TOKENS / (CREDITS / 2), `${sent} messages: the call, and credits`);
  await engine.close();
});
