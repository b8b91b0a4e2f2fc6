// Tests of features that version 1.0 reserved, in version 2 (docs/FORMAT.md, "Reserved in v1.0"): row factors and scales of activations;
// sparse tensors are refused.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inspect } from '../../bin/inspect.js';
import { convert } from '../../js/convert/index.js';
import { createEngine, fromBytes, fromFile } from '../../js/node.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { CONFIG, hfFolder, randomWeights } from './checkpoints.mjs';
import { testFolder } from './folders.mjs';
import { openLogits } from './logits.mjs';
import { reseal } from './reseal.mjs';

const BQ4 = fileURLToPath(new URL('../../bin/bq4.js', import.meta.url));
const { fresh } = testFolder('reserved');
const IDS = [3, 40, 7, 7, 21, 50, 11];
const MATRICES = /^h\.\d\.(attn|mlp)\.\w+\.weight$/;

/** @param {Map<string, any>} weights @param {import('../../js/convert/index.js').ConvertOptions} options */
async function output(weights, options) {
  const out = join(fresh(), 'out.bq4');
  await convert(hfFolder(fresh(), weights), out, options);
  return out;
}

/** Of every position, token by token, and then the last one again as a prompt. @param {string} path @param {any} [options] */
async function logitsOf(path, options) {
  const model = await openLogits(fromFile(path), options);
  try {
    const each = IDS.map((id, i) => (i ? model.next(id) : model.start([id])));
    model.sync([1]);
    return [...each, model.start(IDS)];
  } finally {
    model.close();
  }
}

test('row factors that are powers of two change no bit, for every type', async () => {
  const weights = randomWeights(CONFIG, { biases: true });
  for (const quant of ['f32', 'bq4', 'bq4_16']) {
    const [plain, scaled] = [await output(weights, { quant }), await output(weights, { quant, rowScales: true })];
    const { tensors } = await inspect(openBytes(new Uint8Array(readFileSync(scaled))));
    assert.equal(tensors.filter(({ name }) => name.endsWith('.scale')).length, 14);
    const wanted = await logitsOf(plain);
    assert.deepEqual(await logitsOf(scaled), wanted, quant);
    assert.deepEqual(await logitsOf(scaled, { build: 'simd128', threads: 2, prefillBatch: 3 }), wanted, quant);
  }
});

test('row factors represent weights that are outside the range of f16 scales', async () => {
  const weights = randomWeights();
  // Two layers of matrices that cancel each other: up becomes tiny, down as much larger.
  for (const [name, { values }] of weights) {
    if (name.endsWith('mlp.up.weight'))
      values.forEach((w, i) => {
        values[i] = w * 2 ** -30;
      });
    if (name.endsWith('mlp.down.weight'))
      values.forEach((w, i) => {
        values[i] = w * 2 ** 30;
      });
  }
  await assert.rejects(output(weights, { quant: 'bq8' }), { code: 'FORMAT' });
  const exact = await logitsOf(await output(weights, { quant: 'f32', embed: 'f32' }));
  const near = await logitsOf(await output(weights, { quant: 'bq8', embed: 'f32', rowScales: true }));
  const distance = Math.max(...exact.flatMap((row, i) => [...row].map((v, k) => Math.abs(v - near[i][k]))));
  assert.ok(distance > 0 && distance < 0.15, `${distance}`);
});

test('row factors are refused in formats without a field for them', async () => {
  const weights = randomWeights();
  await assert.rejects(
    convert(hfFolder(fresh(), weights), join(fresh(), 'x.qsf'), { rowScales: true }),
    /h\.0\.attn\.\w\.scale/,
  );
});

test('scales of activations are written, printed, and ignored by the engine; invalid ones are refused', async () => {
  const steps = join(fresh(), 'steps.json');
  writeFileSync(steps, JSON.stringify({ 'h.0.attn.q': 0.0123, 'h.1.mlp.down': 2.5 }));
  const weights = randomWeights();
  const [plain, path] = [await output(weights, {}), await output(weights, { activationSteps: steps })];
  const bytes = new Uint8Array(readFileSync(path));
  const found = await inspect(openBytes(bytes));
  assert.deepEqual(found.activations, { 'h.0.attn.q': 0.0123, 'h.1.mlp.down': 2.5 });
  assert.ok(found.sections.some(({ tag }) => tag === 'ACTQ'));
  assert.deepEqual(await logitsOf(path), await logitsOf(plain));
  assert.match(
    spawnSync(process.execPath, [BQ4, 'inspect', path], { encoding: 'utf8' }).stdout,
    /activation steps\n {2}h\.0\.attn\.q +0\.0123\n/,
  );

  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const at = found.sections.find(({ tag }) => tag === 'ACTQ')?.offset ?? 0;
  /** @param {(payload: DataView) => void} change */
  const refused = async (change) => {
    const other = bytes.slice();
    change(new DataView(other.buffer, at - 16));
    reseal(other);
    return engine.load(fromBytes(other)).then(
      () => assert.fail('loaded'),
      (error) => `${error.code}: ${error.message}`,
    );
  };
  assert.match(await refused((v) => v.setUint32(4, 1, true)), /^UNSUPPORTED: .*ACTQ/);
  assert.match(await refused((v) => v.setUint32(16, 3, true)), /^FORMAT: ACTQ/);
  assert.match(await refused((v) => v.setUint16(20, 65535, true)), /^FORMAT: ACTQ/);
  assert.match(await refused((v) => v.setFloat32(32, -1, true)), /^FORMAT: ACTQ/);
  assert.match(await refused((v) => v.setFloat32(32, NaN, true)), /^FORMAT: ACTQ/);
  await engine.close();

  for (const bad of [
    '[]',
    '3',
    '{"h.0.attn.q": 0}',
    '{"h.0.attn.q": "1"}',
    '{"h.0.attn.q": 1e-60}',
    '{"h.9.attn.q": 1}',
    '{"h.0.ln1": 1}',
  ]) {
    writeFileSync(steps, bad);
    await assert.rejects(output(weights, { activationSteps: steps }), { code: 'FORMAT' }, bad);
  }
  writeFileSync(steps, '{}');
  await assert.rejects(output(weights, { activationSteps: steps, v1: true }), { code: 'ARGUMENT' });
});

test('a sparse tensor (BQ4S) is refused by its name; inspect shows it', async () => {
  const bytes = new Uint8Array(readFileSync(await output(randomWeights(), {})));
  const name = new TextEncoder().encode('h.0.attn.q.weight');
  const at = Buffer.from(bytes.buffer).indexOf(name) + name.length + 1;
  assert.equal(bytes[at], 1); // tiled
  bytes[at] = 3;
  reseal(bytes);
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  await assert.rejects(engine.load(fromBytes(bytes)), {
    code: 'UNSUPPORTED',
    message: /"h\.0\.attn\.q\.weight" is stored sparse \(BQ4S\)/,
  });
  await engine.close();
  const found = await inspect(openBytes(bytes));
  assert.equal(found.tensors.find((t) => MATRICES.test(t.name))?.layout, 'sparse');
});
