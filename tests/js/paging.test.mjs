// Tests of models that exceed their budget, with both engines, in Node and in a page: the same tokens as with all weights in memory, never
// more memory than the budget, and no lost state after a failed read or an aborted reader.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createEngine } from '../../js/node.js';
import { createWorkerEngine, fromBlob, fromBytes, fromFile, fromHandle, fromUrl } from '../../js/index.js';
import { isNode, nodeModule } from '../../js/shared/node.js';
import { collect } from './engine-suite.mjs';
import { tinyModel } from './fixture.mjs';
import { setTimeouts } from './timeouts.mjs';
import { faultServer } from '../server/faults.mjs';

// In pages without shared memory, buffers for four layers must be smaller than the rest of the smallest budget.
const SHAPE = { config: { layers: 12, ffn: 1024 }, type: 'bq4_32' };
// The smallest KV cache and a small context: only the weights can be paged.
const OPTIONS = { contextTokens: 128, prefillWindow: 16, prefillBatch: 8, kv: /** @type {const} */ ('i8') };
const PROMPT = 'Once upon a time there was an old house in the woods';
const SEEDED = { seed: 5, temperature: 1, maxTokens: 30 };

/** A Blob that counts the bytes read. */
class CountingBlob extends Blob {
  got = 0;
  /** Reads fail while this is set. */
  broken = false;
  /** @param {number} from @param {number} to @override */
  slice(from, to) {
    this.got += to - from;
    if (this.broken) return /** @type {any} */ ({ arrayBuffer: () => Promise.reject(new Error('gone')) });
    return super.slice(from, to);
  }
}

/** A Blob whose reads do not end while it is silent. */
class SilentBlob extends Blob {
  isSilent = false;
  reads = 0;
  /** @param {number} from @param {number} to @override */
  slice(from, to) {
    this.reads++;
    return this.isSilent ? /** @type {any} */ ({ arrayBuffer: () => new Promise(() => {}) }) : super.slice(from, to);
  }
}

/** @param {string} name @param {(options?: object) => Promise<any>} create @param {(bytes: Uint8Array) => any} sourceOf */
function suite(name, create, sourceOf) {
  describe(name, () => {
    /** @type {any} */
    let engine;
    /** @type {any} */
    let source;
    /** The result with all weights in memory. @type {any} */
    let wanted;
    /** @type {any} */
    let whole;
    const budgetOf = (/** @type {number} */ part) => whole.heapBytes - Math.ceil(whole.weightBytes * (1 - part));

    before(async () => {
      engine = await create({ cache: false });
      source = await sourceOf(await tinyModel(SHAPE));
      whole = await engine.plan(source, OPTIONS);
      const model = await engine.load(source, OPTIONS);
      wanted = await (await model.createSession()).generate(PROMPT, SEEDED).result;
      await model.close();
    });
    after(() => engine.close());

    test('plan: the cost of a memory budget', async () => {
      assert.equal(whole.paging, null);
      assert.equal((await engine.plan(source, { ...OPTIONS, memoryBudget: whole.heapBytes })).residency, 'resident');
      assert.equal((await engine.plan(source, { ...OPTIONS, memoryBudget: 2 ** 40 })).residency, 'resident');
      let before = 0;
      for (const part of [0.8, 0.6]) {
        const budget = budgetOf(part);
        const { residency, paging, heapBytes, weightBytes, layers, fits, gaveUp } = await engine.plan(source, {
          ...OPTIONS,
          memoryBudget: budget,
        });
        assert.deepEqual([residency, fits], ['paged', 'yes']);
        assert.deepEqual(gaveUp, [{ what: 'residency', from: 'resident', to: 'paged' }]);
        assert.ok(heapBytes + paging.besideBytes <= budget, `${heapBytes} + ${paging.besideBytes} of ${budget}`);
        assert.ok(paging.layers < layers);
        assert.ok(paging.streamedBytes > before && paging.streamedBytes <= weightBytes);
        assert.equal(weightBytes, whole.weightBytes);
        before = paging.streamedBytes;
      }
    });

    test('plan: adapters count in the budget', async () => {
      const adapterBytes = 200_000;
      for (const part of [0.7, 0.8, 0.85, 0.9]) {
        const budget = budgetOf(part);
        const { heapBytes, paging, residency } = await engine.plan(source, {
          ...OPTIONS,
          memoryBudget: budget,
          adapterBytes,
        });
        assert.equal(residency, 'paged');
        assert.ok(heapBytes + paging.besideBytes <= budget, `${heapBytes} + ${paging.besideBytes} of ${budget}`);
      }
    });

    test('too small a budget is refused with numbers', async () => {
      assert.equal((await engine.plan(source, { ...OPTIONS, memoryBudget: budgetOf(0.01) })).fits, 'no');
      await assert.rejects(
        engine.load(source, { ...OPTIONS, memoryBudget: budgetOf(0.01) }),
        (/** @type {any} */ error) =>
          error.code === 'NOMEM' && error.details.budget > 0 && /the budget is/.test(error.message),
      );
      await assert.rejects(engine.plan(source, { memoryBudget: -1 }), { code: 'ARGUMENT' });
      await assert.rejects(engine.plan(source, { memoryBudget: /** @type {any} */ ('1 GB') }), { code: 'ARGUMENT' });
    });

    for (const part of [0.85, 0.6])
      test(`the same tokens with ${part} of the weights in memory, within the budget`, async () => {
        const budget = budgetOf(part);
        const model = await engine.load(source, { ...OPTIONS, memoryBudget: budget });
        assert.ok(model.info.paging);
        const session = await model.createSession();
        const { result } = await collect(session.generate(PROMPT, SEEDED));
        assert.deepEqual(result.tokens, wanted.tokens);
        assert.equal(result.text, wanted.text);
        const again = await session.generate(PROMPT, SEEDED).result; // all tokens but one are in the KV cache
        assert.deepEqual(again.tokens, wanted.tokens);
        const { total, peak, heap } = await model.memory();
        assert.ok(total + model.info.paging.besideBytes <= budget && peak <= heap, `${total} bytes, budget ${budget}`);
        await model.close();
      });

    test('sessions at the same time', async () => {
      const options = { ...OPTIONS, sessions: 3 };
      const all = await engine.plan(source, options);
      // A single session with all weights would exceed the budget, too.
      const model = await engine.load(source, {
        ...options,
        memoryBudget: Math.min(all.heapBytes - all.weightBytes * 0.4, whole.heapBytes - 65536),
      });
      assert.equal(model.info.residency, 'paged');
      assert.ok(model.info.sessions >= 2);
      const sessions = await Promise.all(Array.from({ length: model.info.sessions }).map(() => model.createSession()));
      const results = await Promise.all(sessions.map((session) => session.generate(PROMPT, SEEDED).result));
      for (const { tokens: ids } of results) assert.deepEqual(ids, wanted.tokens);
      // One of them stops during its work; the others are not affected.
      const abort = new AbortController();
      const stopped = sessions[0]
        .generate(PROMPT.slice(3), { ...SEEDED, signal: abort.signal })
        .result.catch((/** @type {any} */ e) => e.name);
      const others = sessions.slice(1).map((session, i) => session.generate(PROMPT.slice(i + 1), SEEDED).result);
      abort.abort();
      assert.equal(await stopped, 'AbortError');
      for (const other of await Promise.all(others)) assert.notEqual(other.finishReason, 'abort');
      assert.deepEqual((await sessions[0].generate(PROMPT, SEEDED).result).tokens, wanted.tokens);
      await model.close();
    });

    test('leaving a generation and continuing; closing during one', async () => {
      const model = await engine.load(source, { ...OPTIONS, memoryBudget: budgetOf(0.6) });
      const session = await model.createSession();
      for await (const _ of session.generate('Some other words, to begin with', SEEDED)) break;
      assert.deepEqual((await session.generate(PROMPT, SEEDED).result).tokens, wanted.tokens);
      const run = session.generate(PROMPT.slice(5), SEEDED).result;
      await Promise.all([assert.rejects(run, { code: 'CLOSED' }), model.close()]);
    });

    test('a file that can only be downloaded is refused', async () => {
      const server = await faultServer(await tinyModel(SHAPE));
      const budget = budgetOf(0.6);
      assert.equal((await engine.plan(fromUrl(server.url), { ...OPTIONS, memoryBudget: budget })).fits, 'no');
      await assert.rejects(
        engine.load(fromUrl(server.url), { ...OPTIONS, memoryBudget: budget }),
        (/** @type {any} */ error) => error.code === 'NOMEM' && /from this machine/.test(error.hint),
      );
      await server.close();
    });
  });
}

suite('a Blob, in this thread', createEngine, (bytes) => fromBlob(new Blob([/** @type {any} */ (bytes)])));
suite('a Blob, in a worker', createWorkerEngine, (bytes) => fromBlob(new Blob([/** @type {any} */ (bytes)])));
suite('bytes, in this thread', createEngine, (bytes) => fromBytes(bytes));

if (isNode) {
  const { mkdtemp, rm, truncate, writeFile } = await nodeModule('fs/promises');
  const dir = await mkdtemp(new URL('../../build/paging-', import.meta.url).pathname);
  after(() => rm(dir, { recursive: true }));
  const path = `${dir}/model.bq4`;
  suite('a file, in this thread', createEngine, async (bytes) => {
    await writeFile(path, bytes);
    return fromFile(path);
  });
  suite('a file, in a worker', createWorkerEngine, () => fromFile(path));

  describe('reads', () => {
    test('a token reads the bytes of the plan', async () => {
      const engine = await createEngine({ threads: 1 });
      const blob = new CountingBlob([/** @type {any} */ (await tinyModel(SHAPE))]);
      const whole = await engine.plan(fromBlob(blob), OPTIONS);
      const model = await engine.load(fromBlob(blob), {
        ...OPTIONS,
        memoryBudget: whole.heapBytes - whole.weightBytes * 0.4,
      });
      const { streamedBytes, slotBytes } = model.info.paging;
      const session = await model.createSession();
      await session.generate(PROMPT, { ...SEEDED, maxTokens: 1 }).result;
      blob.got = 0;
      const { tokens: ids } = await session.generate(PROMPT, { ...SEEDED, maxTokens: 21 }).result;
      // Repeated tokens have their row in the cache; two buffers can be full before and after.
      const runs = ids.length; // the last token of the prompt, and all but the last of the generated ones
      assert.ok(blob.got <= runs * streamedBytes + 2 * slotBytes, `${blob.got} bytes for ${runs} × ${streamedBytes}`);
      assert.ok(
        blob.got >= runs * streamedBytes * 0.9 - 2 * slotBytes,
        `${blob.got} bytes for ${runs} × ${streamedBytes}`,
      );
      await engine.close();
    });

    test('a failed read ends the generation, not the session', async () => {
      const engine = await createEngine({ threads: 1 });
      const blob = new CountingBlob([/** @type {any} */ (await tinyModel(SHAPE))]);
      const whole = await engine.plan(fromBlob(blob), OPTIONS);
      const model = await engine.load(fromBlob(blob), {
        ...OPTIONS,
        memoryBudget: whole.heapBytes - whole.weightBytes * 0.4,
      });
      const session = await model.createSession();
      const { tokens: ids } = await session.generate(PROMPT, SEEDED).result;
      const parts = [];
      const failing = async () => {
        for await (const part of session.generate(PROMPT, SEEDED)) if (parts.push(part) === 5) blob.broken = true;
      };
      await assert.rejects(
        failing,
        (/** @type {any} */ error) =>
          error.code === 'READ' && /can't be read any more: gone/.test(error.message) && error.offset > 0,
      );
      blob.broken = false;
      assert.ok(parts.length >= 5 && parts.length < 30);
      assert.deepEqual((await session.generate(PROMPT, SEEDED).result).tokens, ids);
      await engine.close();
    });

    /** Waits for some turns of the event loop. @param {() => boolean} [isOver] */
    const turns = async (isOver = () => false) => {
      for (let i = 0; i < 500 && !isOver(); i++) await new Promise((resolve) => setImmediate(resolve));
    };

    /** A model of a SilentBlob that is read for each token, and its text. */
    async function silentModel() {
      const engine = await createEngine({ threads: 1 });
      const blob = new SilentBlob([/** @type {any} */ (await tinyModel(SHAPE))]);
      const all = await engine.plan(fromBlob(blob), OPTIONS);
      const memoryBudget = all.heapBytes - all.weightBytes * 0.4;
      const model = await engine.load(fromBlob(blob), { ...OPTIONS, sessions: 2, memoryBudget });
      const session = await model.createSession();
      const { tokens } = await session.generate(PROMPT, SEEDED).result;
      return { engine, blob, model, session, tokens };
    }

    test('an abort ends a call whose source does not respond, and its reads: the next call starts new ones', async (t) => {
      setTimeouts(t, { blobRead: Infinity });
      const { engine, blob, model, session, tokens } = await silentModel();
      /** @type {Record<string, (signal: AbortSignal) => Promise<any>>} */
      const calls = {
        generate: (signal) => session.generate('Zebras', { ...SEEDED, signal }).result,
        append: (signal) => session.append('Zebras', { signal }),
        choose: (signal) => model.choose('Zebras', ['a', 'b'], { signal }),
        score: (signal) => model.score('Zebras', { signal }),
        embed: (signal) => model.embed('Zebras', { signal }),
      };
      for (const [name, call] of Object.entries(calls)) {
        blob.isSilent = true;
        const controller = new AbortController();
        const run = call(controller.signal);
        await turns();
        controller.abort(new Error('enough'));
        await assert.rejects(run, { message: 'enough' }, name);
        blob.isSilent = false;
        /** @type {number[]} */
        let again = [];
        session
          .generate(PROMPT, SEEDED)
          .result.then((result) => (again = result.tokens))
          .catch(() => {});
        await turns(() => again.length > 0);
        assert.deepEqual(again, tokens, `${name}: the next one`);
      }
      await engine.close();
    });

    test('an abort keeps reads for which another session waits; a closed model reads nothing more', async (t) => {
      setTimeouts(t, { blobRead: 1 });
      const { engine, blob, model, session, tokens } = await silentModel();
      const other = await model.createSession();
      blob.isSilent = true;
      const controller = new AbortController();
      const runs = [
        session.generate('Zebras', { ...SEEDED, signal: controller.signal }).result,
        other.generate(PROMPT, SEEDED).result,
      ];
      await turns();
      controller.abort(new Error('enough'));
      await assert.rejects(runs[0], { message: 'enough' });
      blob.isSilent = false;
      assert.deepEqual((await runs[1]).tokens, tokens);
      blob.isSilent = true;
      const run = session.generate('Zebras', SEEDED).result;
      await turns();
      await Promise.all([assert.rejects(run, { code: 'CLOSED' }), model.close()]);
      // Pending reads are not started.
      const { reads } = blob;
      await turns();
      assert.equal(blob.reads, reads);
      await engine.close();
    });

    test('an abort ends a load whose handle does not return its file a second time', async () => {
      const engine = await createEngine({ threads: 1 });
      const file = new File([/** @type {any} */ (await tinyModel(SHAPE))], 'model.bq4');
      const all = await engine.plan(fromBlob(file), OPTIONS);
      let opened = 0;
      const handle = /** @type {any} */ ({
        kind: 'file',
        name: 'model.bq4',
        getFile: () => (opened++ ? new Promise(() => {}) : Promise.resolve(file)),
      });
      const controller = new AbortController();
      const memoryBudget = all.heapBytes - all.weightBytes * 0.4;
      const load = engine.load(fromHandle(handle), { ...OPTIONS, memoryBudget, signal: controller.signal });
      /** @type {any} */
      let error;
      load.catch((reason) => (error = reason));
      await turns(() => opened === 2);
      assert.equal(opened, 2);
      controller.abort(new Error('enough'));
      await turns(() => Boolean(error));
      assert.equal(error?.message, 'enough');
      await engine.close();
    });

    test('the worker that reads cancels reads whose results are not needed, and closes immediately', async (t) => {
      setTimeouts(t, { blobRead: Infinity });
      const { port1, port2 } = new MessageChannel();
      t.after(() => port1.close());
      /** @type {any[]} */
      const messages = [];
      port1.onmessage = ({ data }) => messages.push(data);
      const scope = /** @type {any} */ (globalThis);
      scope.postMessage = () => {};
      await import('../../js/io-worker.js');
      scope.onmessage({ data: { port: port2 } });
      delete scope.postMessage;
      delete scope.onmessage;
      const blob = new SilentBlob(['01234567']);
      blob.isSilent = true;
      const send = (/** @type {any} */ data) => /** @type {any} */ (port2).onmessage({ data });
      send({ sourceId: 1, source: { kind: 'blob', blob }, sharedHeap: null });
      const read = { sourceId: 1, offset: 2, at: 0, bytes: 3 };
      send({ ...read, id: 2 });
      await turns(() => blob.reads === 1);
      send({ sourceId: 1, endReads: true });
      await turns(() => messages.some(({ id }) => id === 2));
      assert.match(messages.find(({ id }) => id === 2)?.error.message ?? '', /can't be read any more/);
      blob.isSilent = false;
      send({ ...read, id: 3 });
      await turns(() => messages.some(({ id }) => id === 3));
      assert.deepEqual(new Uint8Array(messages.find(({ id }) => id === 3)?.buffer), new Uint8Array([50, 51, 52]));
      blob.isSilent = true;
      send({ ...read, id: 4 });
      await turns(() => blob.reads === 3);
      send({ sourceId: 1, close: true });
      await turns(() => messages.some(({ closedSource }) => closedSource === 1));
      assert.ok(messages.some(({ closedSource }) => closedSource === 1));
    });

    test('a truncated file ends a generation with an error', async () => {
      const engine = await createWorkerEngine({ threads: 1 });
      const bytes = await tinyModel(SHAPE);
      const cut = `${dir}/cut.bq4`;
      await writeFile(cut, bytes);
      const whole = await engine.plan(fromFile(cut), OPTIONS);
      const model = await engine.load(fromFile(cut), {
        ...OPTIONS,
        memoryBudget: whole.heapBytes - whole.weightBytes * 0.4,
      });
      const session = await model.createSession();
      await truncate(cut, bytes.length / 2);
      await assert.rejects(session.generate(PROMPT, SEEDED).result, { code: 'READ' });
      // A file that is written again can be any file and has to be loaded.
      await writeFile(cut, bytes);
      await assert.rejects(session.generate(PROMPT, SEEDED).result, { code: 'READ', message: /it was changed after/ });
      await model.close();
      const again = await engine.load(fromFile(cut), OPTIONS);
      assert.equal((await again.generate(PROMPT, SEEDED).result).tokens.length, 30);
      await engine.close();
    });
  });
}
