// Tests of models with experts in the shipped builds: parts of a checkpoint for each expert, quantized and paged.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { createEngine, fromFile } from '../../js/node.js';
import { randomWeights, safetensors } from './checkpoints.mjs';

const FIXTURES = fileURLToPath(new URL('../golden/fixtures/', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'bq4-experts-'));
after(() => rmSync(folder, { recursive: true }));

/** @param {string} path @param {object} options @param {import('../../js/shared/types.js').Build} [build] */
async function written(path, options, build) {
  const engine = await createEngine({ threads: 1, build });
  const model = await engine.load(fromFile(path), { contextTokens: 32, prefillWindow: 8, prefillBatch: 4, ...options });
  const { tokens: ids } = await (
    await model.createSession()
  ).generate([3, 1, 4, 1, 5], { temperature: 0, maxTokens: 20 }).result;
  const { residency, heapBytes } = model.info;
  await engine.close();
  return { ids, residency, heapBytes };
}

const CONFIG = {
  model_type: 'bq4',
  arch: 'qwen2moe',
  layers: 8,
  hidden: 64,
  heads: 4,
  ffn: 96,
  vocab: 60,
  context: 32,
  experts: 8,
  experts_used: 3,
  expert_ffn: 48,
  shared_ffn: 80,
};

for (const [which, more] of /** @type {const} */ ([
  ['all layers', {}],
  ['some layers', { dense_layers: [0, 3, 4], window: 6, global_layers: [1, 4], unrotated_layers: [2, 3] }],
]))
  test(`experts in ${which}, quantized, and the same tokens when layers are paged`, () => pagedAsWhole(which, more));

/** @param {string} which @param {object} more  of the configuration */
async function pagedAsWhole(which, more) {
  const { model_type: _, ...config } = { ...CONFIG, ...more };
  const path = join(folder, `${which}.bq4`);
  const from = join(folder, which);
  mkdirSync(from);
  writeFileSync(join(from, 'config.json'), JSON.stringify({ ...CONFIG, ...more }));
  writeFileSync(join(from, 'model.safetensors'), safetensors(randomWeights(config)));
  const report = await convert(from, path, { quant: 'bq8' });
  const types = new Map(report.tensors.map((tensor) => [tensor.name, tensor.type]));
  assert.equal(types.get('h.1.mlp.experts.down.weight'), 'bq8_32');
  assert.equal(types.get('h.1.mlp.router.weight'), 'f32', 'what chooses is exact');
  const whole = await written(path, {});
  assert.equal(whole.residency, 'resident');
  const paged = await written(path, { memoryBudget: whole.heapBytes - 4 * 65536 });
  assert.equal(paged.residency, 'paged');
  assert.deepEqual(paged.ids, whole.ids);
}

for (const name of ['mixtral', 'qwen2moe', 'qwen3moe', 'qwen2moe-dense', 'qwen3moe-dense'])
  test(`${name}: every build writes the same`, async () => {
    const path = join(folder, `${name}.bq4`);
    await convert(join(FIXTURES, name), path, { quant: 'bq8' });
    const { ids } = await written(path, { prefillWindow: 1 });
    assert.equal(ids.length, 20);
    for (const build of /** @type {const} */ (['relaxed', 'relaxed16', 'simd128']))
      assert.deepEqual((await written(path, {}, build)).ids, ids);
  });

test('a missing expert is named', async () => {
  const from = join(folder, 'less');
  cpSync(join(FIXTURES, 'mixtral'), from, { recursive: true });
  const file = join(from, 'model.safetensors');
  const text = readFileSync(file, 'latin1').replace(
    'model.layers.1.block_sparse_moe.experts.3.w2',
    'model.layers.1.block_sparse_moe.experts.7.w2',
  );
  writeFileSync(file, text, 'latin1');
  await assert.rejects(convert(from, join(folder, 'less.bq4'), { quant: 'f32' }), {
    code: 'SHAPE',
    message: /part 3 of "h\.1\.mlp\.experts\.down\.weight" is missing/,
  });
});

test('a config.json whose list of layers with experts is wrong is refused by name', async () => {
  const from = join(folder, 'mixed');
  cpSync(join(FIXTURES, 'qwen3moe'), from, { recursive: true });
  const config = JSON.parse(readFileSync(join(from, 'config.json'), 'utf8'));
  writeFileSync(join(from, 'config.json'), JSON.stringify({ ...config, mlp_only_layers: [0] }));
  await assert.rejects(convert(from, join(folder, 'mixed.bq4')), {
    code: 'SHAPE',
    message: /"h\.0\.mlp\.router\.weight".* no counterpart in this configuration/,
  });
});
