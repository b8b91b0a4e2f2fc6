// Tests of the trace: its counts follow from the model. Also tests the choice of a kernel table.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEngine } from '../../js/node.js';
import { createWorkerEngine, fromBytes } from '../../js/index.js';
import { CONFIG, tinyModel } from './fixture.mjs';

const model = await tinyModel({ type: 'bq4' });
const GREEDY = { temperature: 0, maxTokens: 5 };
const LAYER_STAGES = ['qkv', 'kv', 'attend', 'o', 'mlpIn', 'activate', 'down'];
const of = (rows) => Object.fromEntries(rows.map((row) => [row.stage, row]));
const sum = (rows, name) => rows.reduce((total, row) => total + row[name], 0);

for (const [name, create] of /** @type {const} */ ([
  ['local', createEngine],
  ['worker', createWorkerEngine],
]))
  for (const threads of [1, 2])
    test(`trace, ${name} engine, ${threads} thread(s)`, async (t) => {
      const engine = await create({ threads });
      t.after(() => engine.close());
      const loaded = await engine.load(fromBytes(model), { prefillBatch: 8, kv: 'f32' });
      const session = await loaded.createSession();
      await session.generate([1, 2, 3], GREEDY).result;
      assert.deepEqual(await session.trace(), [], 'off by default');
      const { used } = await loaded.memory();
      await session.trace({ on: true });
      assert.deepEqual(await session.trace(), []);

      // 20 tokens of prompt are three batches, then four tokens follow one by one.
      const prompt = Array.from({ length: 20 }, (_, i) => 9 + i);
      await session.generate(prompt, GREEDY).result;
      const rows = await session.trace();
      const stages = of(rows);
      for (const stage of LAYER_STAGES) assert.equal(stages[stage].calls, (3 + 4) * CONFIG.layers, stage);
      assert.deepEqual([stages.head.calls, stages.sample.calls, stages.embed.calls], [5, 5, 5]);

      // A token of its own reads all weights that tokens are multiplied with, once.
      await session.trace({ on: true });
      await session.generate([...prompt, 7], { ...GREEDY, maxTokens: 1 }).result;
      const step = await session.trace();
      const { head, qkv, o, mlpIn, down, attend, kv, embed } = of(step);
      const matrices = [head, qkv, o, mlpIn, down];
      assert.equal(sum(matrices, 'macs'), loaded.info.tokenWeights);
      assert.equal(
        qkv.weightBytes + o.weightBytes + mlpIn.weightBytes + down.weightBytes + head.weightBytes + embed.weightBytes,
        sum(step, 'weightBytes'),
      );
      const perLayer = (rows, name) =>
        (of(rows).head ? rows.filter((row) => LAYER_STAGES.includes(row.stage)) : []).reduce((s, r) => s + r[name], 0);
      assert.equal(perLayer(rows, 'weightBytes'), 7 * perLayer(step, 'weightBytes'), 'once per batch');
      const width = loaded.info.kvHeads * loaded.info.headDim;
      assert.equal(kv.kvBytes, 2 * 4 * width * CONFIG.layers, 'keys and values of one position, f32');
      assert.equal(attend.kvBytes, 21 * kv.kvBytes, 'of all positions');

      // By layer: the same in all.
      const byLayer = await session.trace({ byLayer: true });
      for (const name of ['ms', 'calls', 'weightBytes', 'kvBytes', 'macs'])
        assert.ok(Math.abs(sum(byLayer, name) - sum(step, name)) < 1e-6, name);
      assert.equal(byLayer.filter((row) => row.stage === 'qkv').length, CONFIG.layers);
      assert.ok(byLayer.every((row) => row.ms >= 0 && row.GBps >= 0));
      assert.deepEqual(
        byLayer
          .filter((row) => row.layer === undefined)
          .map((row) => row.stage)
          .sort(),
        ['embed', 'head', 'host', 'sample'],
      );

      assert.ok((await session.trace({ on: false })).length, 'the last look');
      assert.deepEqual(await session.trace(), []);
      assert.equal((await loaded.memory()).used, used, 'its memory is free again');
      await session.trace({ on: true });
      await session.close();
      await assert.rejects(session.trace(), { code: 'CLOSED' });
    });
